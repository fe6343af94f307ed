"""Decoders over a paged cache: Llama, Mistral, Qwen2, Qwen3 and GPT-2, as functions of tokens that need not belong
together.

Enters: a `Config`, and `Weights` (or a seed: random ones). Leaves: a `Decoder`, whose `forward` takes the tokens of one
step, of whatever sequences, and answers with the logits behind some of them. Keys and values go to pages, and are read
there. Refuses: nothing; what cannot be loaded is refused by config.py and weights.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ... import _C
from ...nn import functional as F  # noqa: N812 - its usual name
from ...op import find_op
from ...tensors.interop import tensor
from .config import Config, frequencies
from .weights import Weights

attend, rotated = find_op("_paged_attention"), find_op("_rotated")
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "silu": F.silu, "gelu": F.gelu, "relu": F.relu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
}


@dataclass
class Step:
    """The tokens of one step, and where their keys and values go. A position of -1: the token only fills the step
    up."""

    tokens: Any       # [tokens]
    positions: Any    # [tokens]
    rows: Any         # [tokens]: which table
    slots: Any        # [tokens]: place in all pages, taken one after the other
    tables: Any       # [sequences, pages]
    wanted: Any       # [logits]: tokens behind which words are asked for


@dataclass
class Linear:
    """weight [out, in], and perhaps a bias."""

    weight: Any
    bias: Any = None

    def __call__(self, x: Any) -> Any:
        return F.linear(x, self.weight, self.bias)


@dataclass
class Norm:
    """Rows of mean 0 and deviation 1 (with a bias), or of mean square 1."""

    weight: Any
    eps: float
    bias: Any = None

    def __call__(self, x: Any) -> Any:
        if self.bias is None:
            return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps)
        return F.layer_norm(x, (x.shape[-1],), self.weight, self.bias, self.eps)


@dataclass
class Layer:
    """Attention, then a gated layer of its own for each token; both added to what came in."""

    norm: Norm
    parts: Linear            # queries, keys and values
    out: Linear
    second_norm: Norm
    up: Linear               # with a gate: its numbers, then what goes through it
    down: Linear
    query_norm: Norm | None = None
    key_norm: Norm | None = None


class Source:
    """Where tensors come from: files, or a generator of random numbers."""

    def __init__(self, config: Config, weights: Weights | None, dtype: Any, device: Any, seed: int = 0) -> None:
        self.config, self.weights, self.dtype, self.device = config, weights, dtype, device
        self.generator = _C.Generator(device) if weights is None else None
        if self.generator is not None:
            self.generator.manual_seed(seed)

    def take(self, name: str, *shape: int) -> Any:
        if self.weights is not None:
            return self.weights.take(name, shape).to(device=self.device, dtype=self.dtype)
        made = _C.empty(shape, None, self.dtype, self.device)
        if len(shape) > 1:
            return made.normal_(0.0, 0.02, generator=self.generator)
        return made.fill_(0.0 if name.endswith("bias") else 1.0)

    def has(self, name: str) -> bool:
        """Whether the files have a tensor that not all models of a kind have."""
        return self.weights is not None and name in self.weights

    def maybe(self, name: str, *shape: int) -> Any:
        return self.take(name, *shape) if self.has(name) else None

    def joined(self, names: list[str], sizes: list[int], inner: int) -> Linear:
        """Several layers over the same input as one."""
        weight = find_op("cat")([self.take(f"{n}.weight", size, inner) for n, size in zip(names, sizes, strict=True)])
        biases = [self.maybe(f"{n}.bias", size) for n, size in zip(names, sizes, strict=True)]
        if all(b is None for b in biases):
            return Linear(weight)
        given = [weight.new_zeros(s) if b is None else b for b, s in zip(biases, sizes, strict=True)]
        return Linear(weight, find_op("cat")(given))

    def norm(self, name: str, width: int) -> Norm:
        return Norm(self.take(f"{name}.weight", width), self.config.eps, self.maybe(f"{name}.bias", width))


class Decoder:
    """A model, ready to run."""

    def __init__(
        self, config: Config, weights: Weights | None, dtype: Any = None, device: Any = "cpu", context: int = 0,
        seed: int = 0,
    ) -> None:
        self.config, self.device = config, _C.device(device)
        self.dtype = dtype if dtype is not None else getattr(_C, config.dtype)
        source = Source(config, weights, self.dtype, self.device, seed)
        self.activation = ACTIVATIONS[config.activation]
        self.is_gated = config.kind != "gpt2"
        (self.gated if self.is_gated else self.plain)(source)
        if self.is_gated:
            self.cosines, self.sines = self.turns(context or config.context)

    # --- loading

    def gated(self, source: Source) -> None:
        c = self.config
        sizes = [c.heads * c.head, c.own_heads * c.head, c.own_heads * c.head]
        self.words, self.places = source.take("model.embed_tokens.weight", c.words, c.width), None
        self.layers = []
        for n in range(c.layers):
            at = f"model.layers.{n}"
            self.layers.append(Layer(
                source.norm(f"{at}.input_layernorm", c.width),
                source.joined([f"{at}.self_attn.{p}_proj" for p in "qkv"], sizes, c.width),
                source.joined([f"{at}.self_attn.o_proj"], [c.width], sizes[0]),
                source.norm(f"{at}.post_attention_layernorm", c.width),
                source.joined([f"{at}.mlp.{p}_proj" for p in ("gate", "up")], [c.hidden] * 2, c.width),
                source.joined([f"{at}.mlp.down_proj"], [c.width], c.hidden),
                *[source.norm(f"{at}.self_attn.{p}_norm", c.head) for p in "qk" if c.kind == "qwen3"],
            ))
        self.norm = source.norm("model.norm", c.width)
        self.head = self.words if c.tied else source.take("lm_head.weight", c.words, c.width)

    def plain(self, source: Source) -> None:
        c = self.config
        root = "transformer." if source.weights is None or source.has("transformer.wte.weight") else ""

        def linear(name: str, inner: int, outer: int) -> Linear:
            bias = source.take(f"{root}{name}.bias", outer)
            return Linear(source.take(f"{root}{name}.weight", inner, outer).t().contiguous(), bias)

        def norm(name: str) -> Norm:
            pair = [source.take(f"{root}{name}.{part}", c.width) for part in ("weight", "bias")]
            return Norm(pair[0], c.eps, pair[1])

        self.words = source.take(f"{root}wte.weight", c.words, c.width)
        self.places = source.take(f"{root}wpe.weight", c.context, c.width)
        self.layers = [
            Layer(
                norm(f"h.{n}.ln_1"), linear(f"h.{n}.attn.c_attn", c.width, 3 * c.width),
                linear(f"h.{n}.attn.c_proj", c.width, c.width), norm(f"h.{n}.ln_2"),
                linear(f"h.{n}.mlp.c_fc", c.width, c.hidden), linear(f"h.{n}.mlp.c_proj", c.hidden, c.width),
            )
            for n in range(c.layers)
        ]
        self.norm = norm("ln_f")
        self.head = self.words if c.tied else source.take("lm_head.weight", c.words, c.width)

    def turns(self, context: int) -> tuple[Any, Any]:
        """Cosines and sines of every position's angles, for both halves of a turned part."""
        angles, scale = frequencies(self.config.turn, self.config.head)
        steps = find_op("arange")(context, dtype=_C.float32).unsqueeze(1)
        both = steps * tensor([*angles, *angles], dtype=_C.float32)
        return tuple((f * scale).to(self.device) for f in (both.cos(), both.sin()))

    # --- running

    def pages(self, count: int, block: int) -> list[tuple[Any, Any]]:
        """Room for keys and values of every layer: `count` pages of `block` positions."""
        shape = (count, block, self.config.own_heads, self.config.head)
        zeros = find_op("zeros")
        return [tuple(zeros(shape, dtype=self.dtype, device=self.device) for _ in "kv") for _ in self.layers]

    def bytes_of_page(self, block: int) -> int:
        c = self.config
        return 2 * c.layers * block * c.own_heads * c.head * self.dtype.itemsize

    def forward(self, step: Step, pages: list[tuple[Any, Any]]) -> Any:
        """Logits [wanted, words], in single precision at least."""
        x = F.embedding(step.tokens, self.words)
        if self.places is not None:
            x = x + F.embedding(step.positions.clamp(min=0), self.places)
        for number, (layer, (keys, values)) in enumerate(zip(self.layers, pages, strict=True)):
            x = x + layer.out(self.attention(number, layer, layer.norm(x), step, keys, values))
            x = x + layer.down(self.between(layer.up(layer.second_norm(x))))
        x = self.norm(x.index_select(0, step.wanted))
        logits = F.linear(x, self.head)
        return logits if logits.dtype is _C.float64 else logits.to(_C.float32)

    def between(self, x: Any) -> Any:
        if not self.is_gated:
            return self.activation(x)
        half = self.config.hidden
        return self.activation(x[:, :half]) * x[:, half:]

    def attention(self, number: int, layer: Layer, x: Any, step: Step, keys: Any, values: Any) -> Any:
        c, tokens = self.config, x.shape[0]
        parts = layer.parts(x).view(tokens, c.heads + 2 * c.own_heads, c.head)
        query, key, value = parts.split((c.heads, c.own_heads, c.own_heads), 1)
        if layer.query_norm is not None and layer.key_norm is not None:
            query, key = layer.query_norm(query), layer.key_norm(key)
        if self.places is None and layer.query_norm is None:
            turned = rotated(parts[:, : c.heads + c.own_heads], self.cosines, self.sines, step.positions)
            query, key = turned.split((c.heads, c.own_heads), 1)
        elif self.places is None:
            query, key = (rotated(t, self.cosines, self.sines, step.positions) for t in (query, key))
        for room, new in ((keys, key), (values, value)):
            room.view(-1, c.own_heads, c.head).index_copy_(0, step.slots, new)
        scale = 1.0 / math.sqrt(c.head) / (number + 1 if c.scale_by_layer else 1)
        mixed = attend(
            query, keys, values, step.tables, step.rows, step.positions, window=c.windows[number], scale=scale
        )
        return mixed.view(tokens, c.heads * c.head)
