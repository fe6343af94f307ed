"""The layers of a decoder, as they are computed and as they are read from files.

Enters: a `Config`, and `Weights` (or a seed: random ones). Leaves: `Layer`s, and what stands before and behind them.
Refuses: tensors that are missing or of another shape (weights.py), and those of a layer that nothing here reads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ... import _C
from ...nn import functional as F  # noqa: N812 - its usual name
from ...op import find_op
from .config import Config, Mix
from .families import Experts
from .weights import Weights

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "silu": F.silu, "gelu": F.gelu, "relu": F.relu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
}
IGNORED = ("rotary_emb.inv_freq", "attn.bias", "attn.masked_bias", "attention.bias", "attention.masked_bias")


@dataclass
class Linear:
    """weight [out, in], and perhaps a bias."""

    weight: Any
    bias: Any = None

    def __call__(self, x: Any) -> Any:
        return F.linear(x, self.weight, self.bias)


@dataclass
class Norm:
    """Rows of mean square 1, or of mean 0 and deviation 1 (`centred`). Weights of two dimensions: each head has its
    own; those wider than their input's rows: all heads are one row."""

    weight: Any
    eps: float
    bias: Any = None
    centred: bool = False

    def __call__(self, x: Any) -> Any:
        if self.weight is not None and self.weight.ndim == 2:
            return self.rows(x, None, None) * self.weight
        if self.weight is not None and self.weight.shape[0] != x.shape[-1]:
            return self.rows(x.reshape(x.shape[0], -1), self.weight, self.bias).view(x.shape)
        return self.rows(x, self.weight, self.bias)

    def rows(self, x: Any, weight: Any, bias: Any) -> Any:
        if self.centred:
            return F.layer_norm(x, (x.shape[-1],), weight, bias, self.eps)
        if weight is not None and weight.dtype is not x.dtype:      # a weight that is one too few is kept exactly
            return F.rms_norm(x.to(weight.dtype), (x.shape[-1],), weight, self.eps).to(x.dtype)
        return F.rms_norm(x, (x.shape[-1],), weight, self.eps)


def unchanged(x: Any) -> Any:
    return x


@dataclass
class Dense:
    """The layer for each token: wider, bent, and back. Where it is gated, `up` gives the gate's numbers and then what
    goes through it."""

    up: Linear
    down: Linear
    activation: Callable[[Any], Any]
    gated: bool

    def __call__(self, x: Any) -> Any:
        x = self.up(x)
        if not self.gated:
            return self.down(self.activation(x))
        half = x.shape[1] // 2
        return self.down(self.activation(x[:, :half]) * x[:, half:])


@dataclass
class Mixed:
    """Several such layers, of which each token goes through those that a router finds likeliest."""

    router: Linear
    experts: list[Dense]
    mix: Mix

    def __call__(self, x: Any) -> Any:
        scores = find_op("softmax")(self.router(x).to(_C.float32), -1)
        values, chosen = scores.topk(self.mix.chosen, -1)
        if self.mix.adds_to_one:
            values = values / values.sum(-1, keepdim=True)
        values = values.to(x.dtype)
        whose: dict[int, list[int]] = {}
        for place, expert in enumerate(chosen.reshape(-1).tolist()):
            whose.setdefault(expert, []).append(place)
        out, flat = x.new_zeros(x.shape), values.reshape(-1)
        for expert in sorted(whose):
            places = chosen.new_tensor(whose[expert])
            tokens = places // self.mix.chosen
            found = self.experts[expert](x.index_select(0, tokens))
            out.index_add_(0, tokens, found * flat.index_select(0, places).unsqueeze(1))
        return out


@dataclass
class Layer:
    """Attention, then a layer of its own for each token, with norms before and behind them."""

    norm: Callable[[Any], Any]
    parts: Linear                               # queries, keys and values
    out: Linear
    mixed_norm: Callable[[Any], Any]            # of what attention gives
    second_norm: Callable[[Any], Any] | None    # None: the second layer reads what attention reads
    feed: Callable[[Any], Any]
    fed_norm: Callable[[Any], Any]
    query_norm: Norm | None = None
    key_norm: Norm | None = None


class Source:
    """Where tensors come from: files, or a generator of random numbers."""

    def __init__(self, config: Config, weights: Weights | None, dtype: Any, device: Any, seed: int = 0) -> None:
        self.config, self.family, self.weights, self.dtype, self.device = config, config.family, weights, dtype, device
        self.generator = _C.Generator(device) if weights is None else None
        if self.generator is not None:
            self.generator.manual_seed(seed)
        roots = self.family.roots
        self.root = next((r for r in roots if self.has(f"{r}{self.family.words}.weight")), roots[0])
        self.taken: set[str] = set()

    def take(self, name: str, *shape: int, dtype: Any = None) -> Any:
        self.taken.add(name)
        dtype = self.dtype if dtype is None else dtype
        if self.weights is not None:
            return self.weights.take(name, shape).to(device=self.device, dtype=dtype)
        made = _C.empty(shape, None, dtype, self.device)
        if len(shape) > 1:
            return made.normal_(0.0, 0.02, generator=self.generator)
        return made.fill_(0.0 if name.endswith("bias") else 1.0)

    def has(self, name: str) -> bool:
        """Whether the files have a tensor that not all models of a family have."""
        return self.weights is not None and name in self.weights

    def maybe(self, name: str, *shape: int) -> Any:
        return self.take(name, *shape) if self.has(name) else None

    def linear(self, name: str, inner: int, outer: int) -> Linear:
        if not self.family.transposed:
            weight = self.take(f"{name}.weight", outer, inner)
        else:
            weight = self.take(f"{name}.weight", inner, outer).t().contiguous()
        return Linear(weight, self.maybe(f"{name}.bias", outer))

    def joined(self, names: list[str], sizes: list[int], inner: int) -> Linear:
        """Several layers over the same input as one; a single name is that of all of them."""
        if len(names) == 1:
            return self.linear(names[0], inner, sum(sizes))
        found = [self.linear(name, inner, size) for name, size in zip(names, sizes, strict=True)]
        weight = find_op("cat")([f.weight for f in found])
        if all(f.bias is None for f in found):
            return Linear(weight)
        biases = [weight.new_zeros(s) if f.bias is None else f.bias for f, s in zip(found, sizes, strict=True)]
        return Linear(weight, find_op("cat")(biases))

    def norm(self, name: str, width: int) -> Norm:
        f = self.family
        if f.lift:
            weight = self.take(f"{name}.weight", width, dtype=_C.float32) + (f.lift if self.weights is not None else 0)
        else:
            found = self.weights is None or self.has(f"{name}.weight") or not f.centred
            weight = self.take(f"{name}.weight", width) if found else None
        bias = self.maybe(f"{name}.bias", width) if f.centred else None
        if weight is not None and weight.dtype is _C.float32 and self.dtype is _C.float64:
            weight = weight.to(self.dtype)
        return Norm(weight, self.config.eps, bias, f.centred)

    def own_norm(self, name: str, heads: int) -> Norm:
        """The norm of queries or of keys: one for a head, for each its own, or for all heads at once."""
        f, head = self.family, self.config.head
        if f.own_norm_of == "each":
            rows = [self.take(f"{name.format(n)}.weight", head) for n in range(heads)]
            return Norm(find_op("stack")(rows), self.config.eps, None, f.centred)
        return self.norm(name, heads * head if f.own_norm_of == "all" else head)

    # --- a layer

    def layer(self, n: int) -> Layer:
        c, f, at = self.config, self.family, f"{self.root}{self.family.layer}.{n}."
        sizes = [c.heads * c.head, c.own_heads * c.head, c.own_heads * c.head]
        parts = self.joined([at + name for name in f.parts], sizes, c.width)
        norms = [self.norm(at + name, c.width) if name else unchanged for name in f.norms]
        own = [self.own_norm(at + name, heads)
               for name, heads in zip(f.own_norms, (c.heads, c.own_heads), strict=False)]
        shares = f.order == "beside" and not f.norms[2]
        made = Layer(
            norms[0], self.apart(parts) if f.grouped else parts, self.linear(at + f.out, sizes[0], c.width), norms[1],
            None if shares else norms[2], self.feed(n, at), norms[3], *own,
        )
        self.nothing_left(at)
        return made

    def apart(self, parts: Linear) -> Linear:
        """Queries, keys and values, each together, of a layer that has them group by group."""
        c = self.config
        shape = (c.own_heads, c.heads // c.own_heads + 2, c.head)

        def sorted_(rows: Any) -> Any:
            groups = rows.view(*shape, *rows.shape[1:])
            kinds = (groups[:, :-2], groups[:, -2], groups[:, -1])
            return find_op("cat")([k.reshape(-1, *rows.shape[1:]) for k in kinds])

        return Linear(sorted_(parts.weight), None if parts.bias is None else sorted_(parts.bias))

    def feed(self, n: int, at: str) -> Dense | Mixed:
        f, c = self.family, self.config
        if c.mix is None or f.experts is None or not c.mix.layers[n]:
            return self.dense([at + name for name in f.up], at + f.down, c.hidden)
        e: Experts = f.experts
        experts = []
        for number in range(c.mix.count):
            each = f"{at}{e.each.format(number)}."
            experts.append(self.dense([each + name for name in e.up], each + e.down, c.mix.hidden))
        return Mixed(self.linear(at + e.router, c.width, c.mix.count), experts, c.mix)

    def dense(self, up: list[str], down: str, hidden: int) -> Dense:
        c, gated = self.config, self.family.gated
        wide = self.joined(up, [hidden] * (2 if gated else 1), c.width)
        return Dense(wide, self.linear(down, hidden, c.width), ACTIVATIONS[c.activation], gated)

    def nothing_left(self, at: str) -> None:
        """All that the files have of a layer was read: what is left would change what it computes."""
        if self.weights is None:
            return
        left = [name for name in self.weights.homes if name.startswith(at) and name not in self.taken]
        left = [name for name in left if not name.endswith(IGNORED)]
        if left:
            raise ValueError(
                f"{self.weights.folder}: a {self.config.kind} model has no tensor {left[0]!r} by its configuration, and"
                " what it would change is not known here"
            )
