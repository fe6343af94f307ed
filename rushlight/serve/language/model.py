"""Decoders over a paged cache, of all families, as functions of tokens that need not belong together.

Enters: a `Config`, and `Weights` (or a seed: random ones). Leaves: a `Decoder`, whose `forward` takes the tokens of one
step, of whatever sequences, and answers with the logits behind some of them. Keys and values go to pages, and are read
there. Refuses: nothing; what cannot be loaded is refused by config.py and weights.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ... import _C
from ...nn import functional as F  # noqa: N812 - its usual name
from ...op import find_op
from ...tensors.interop import tensor
from .config import Config
from .layers import Layer, Linear, Source, unchanged
from .turns import Moving, Table
from .weights import Weights

attend, rotated = find_op("_paged_attention"), find_op("_rotated")
Angles = list[tuple[Any, Any, Any]]


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
    spans: Any = None    # [tokens]: how long the text is that each is computed in, where angles depend on it


class Decoder:
    """A model, ready to run."""

    def __init__(
        self, config: Config, weights: Weights | None, dtype: Any = None, device: Any = "cpu", context: int = 0,
        seed: int = 0,
    ) -> None:
        self.config, self.family, self.device = config, config.family, _C.device(device)
        self.dtype = dtype if dtype is not None else getattr(_C, config.dtype)
        length = context or config.context
        self.limit = config.limit if length > config.limit else 0    # of lengths from which angles depend on them
        self.turns = [
            Moving(turn, config.head, self.device) if self.limit and turn.limit else
            Table(turn, config.head, length, self.device) for turn in config.turns
        ]
        self.word_scale = tensor(config.word_scale, dtype=self.dtype).item()     # as the model's own type has it
        self.load(Source(config, weights, self.dtype, self.device, seed))

    def load(self, source: Source) -> None:
        c, f, root = self.config, self.family, source.root
        self.words = source.take(f"{root}{f.words}.weight", c.words, c.word_width)
        self.places = None
        if f.places:
            self.places = source.take(f"{root}{f.places}.weight", c.context + f.skipped, c.width)[f.skipped :]
        self.layers = [source.layer(n) for n in range(c.layers)]
        self.norm = source.norm(f"{root}{f.norm}", c.width) if f.norm else unchanged
        self.widen = self.narrow = unchanged
        if c.word_width != c.width:
            self.widen = source.linear(f"{root}project_in", c.word_width, c.width)
            self.narrow = source.linear(f"{root}project_out", c.width, c.word_width)
        name = next((n for n in f.ends if source.has(f"{n}.weight")), f.ends[0])
        self.end = Linear(self.words, source.maybe(f"{name}.bias", c.words)) if c.tied else (
            source.linear(name, c.word_width, c.words) if not f.transposed else
            Linear(source.take(f"{name}.weight", c.words, c.width))
        )

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
        x = self.widen(x if self.word_scale == 1.0 else x * self.word_scale)
        if self.places is not None:
            x = x + F.embedding(step.positions.clamp(min=0), self.places)
        angles = [turn.of(step.positions, step.spans) for turn in self.turns]
        for number, (layer, (keys, values)) in enumerate(zip(self.layers, pages, strict=True)):
            x = self.through(number, layer, x, step, angles, keys, values)
        logits = self.end(self.narrow(self.norm(x.index_select(0, step.wanted))))
        logits = logits if self.config.logit_scale == 1.0 else logits * self.config.logit_scale
        cap = self.config.caps[1]
        logits = (logits / cap).tanh() * cap if cap else logits
        return logits if logits.dtype is _C.float64 else logits.to(_C.float32)

    def through(self, number: int, layer: Layer, x: Any, step: Step, angles: Angles, keys: Any, values: Any) -> Any:
        """A layer, whose two parts add to what comes in, in the family's order."""
        scale = self.config.sum_scale

        def add(x: Any, more: Any) -> Any:
            return x + (more if scale == 1.0 else more * scale)

        behind = self.family.order == "behind"
        seen = x if behind else layer.norm(x)
        mixed = layer.mixed_norm(layer.out(self.attention(number, layer, seen, step, angles, keys, values)))
        if self.family.order == "beside":
            return add(add(x, mixed), layer.fed_norm(layer.feed(seen if layer.second_norm is None else
                                                                layer.second_norm(x))))
        second = layer.second_norm or unchanged
        if behind:
            x = layer.norm(add(x, mixed))
            return second(add(x, layer.feed(x)))
        x = add(x, mixed)
        return add(x, layer.fed_norm(layer.feed(second(x))))

    def attention(
        self, number: int, layer: Layer, x: Any, step: Step, angles: Angles, keys: Any, values: Any
    ) -> Any:
        c, tokens = self.config, x.shape[0]
        parts = layer.parts(x).view(tokens, c.heads + 2 * c.own_heads, c.head)
        query, key, value = parts.split((c.heads, c.own_heads, c.own_heads), 1)
        if layer.query_norm is not None and layer.key_norm is not None:
            query, key = layer.query_norm(query), layer.key_norm(key)
        if c.turning[number] >= 0:
            cosines, sines, places = angles[c.turning[number]]
            if layer.query_norm is None:
                turned = rotated(parts[:, : c.heads + c.own_heads], cosines, sines, places)
                query, key = turned.split((c.heads, c.own_heads), 1)
            else:
                query, key = (rotated(t, cosines, sines, places) for t in (query, key))
        for room, new in ((keys, key), (values, value)):
            room.view(-1, c.own_heads, c.head).index_copy_(0, step.slots, new)
        mixed = attend(
            query, keys, values, step.tables, step.rows, step.positions, window=c.windows[number],
            scale=c.scales[number], cap=c.caps[0],
        )
        return mixed.view(tokens, c.heads * c.head)
