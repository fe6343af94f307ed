"""Positions as turns of pairs of elements: how fast each pair turns, and how that is stretched for longer texts.

Enters: a `Turn`, what a model's file says of it. Leaves: cosines and sines, either of every position (`Table`), or of
the tokens of a step (`Moving`) where the angles depend on how long a text has become: with `dynamic` and `longrope`,
beyond the length that a model was made for. Refuses: nothing; config.py knows the kinds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ... import _C
from ...op import find_op
from ...tensors.interop import tensor

KINDS = ("default", "linear", "dynamic", "yarn", "llama3", "longrope")


@dataclass(frozen=True)
class Turn:
    """How pairs of elements are turned by position: the base of the angles, and how they are stretched."""

    base: float = 10000.0
    kind: str = "default"
    share: float = 1.0              # of a head's elements that are turned
    options: tuple[tuple[str, Any], ...] = ()

    def option(self, name: str, default: Any = None) -> Any:
        return dict(self.options).get(name, default)

    @property
    def limit(self) -> int:
        """The length of a text from which angles depend on it; 0 where they never do."""
        return int(self.option("made_for")) if self.kind in ("dynamic", "longrope") else 0


class Table:
    """Cosines and sines of every position, for both halves of a turned part."""

    def __init__(self, turn: Turn, head: int, length: int, device: Any) -> None:
        angles, scale = frequencies(turn, head)
        steps = find_op("arange")(length, dtype=_C.float32).unsqueeze(1)
        both = steps * tensor([*angles, *angles], dtype=_C.float32)
        self.cosines, self.sines = ((f * scale).to(device) for f in (both.cos(), both.sin()))

    def of(self, positions: Any, spans: Any) -> tuple[Any, Any, Any]:
        """(cosines, sines, which row of them is of which token)."""
        return self.cosines, self.sines, positions


class Moving:
    """Cosines and sines of the tokens of a step, by the length of text that each was computed in (`spans`)."""

    def __init__(self, turn: Turn, head: int, device: Any) -> None:
        self.turn, self.size = turn, int(head * turn.share)
        short, self.scale = frequencies(turn, head)
        sets = [short, frequencies(turn, head, is_long=True)[0]] if turn.kind == "longrope" else [short]
        self.sets = tensor(sets, dtype=_C.float32).to(device)

    def of(self, positions: Any, spans: Any) -> tuple[Any, Any, Any]:
        angles = positions.clamp(min=0).unsqueeze(1).to(_C.float32) * self.speeds(spans)
        both = find_op("cat")([angles, angles], 1)
        places = find_op("arange")(positions.shape[0], device=positions.device)
        return both.cos() * self.scale, both.sin() * self.scale, places

    def speeds(self, spans: Any) -> Any:
        """Angles per position, a row for each token."""
        limit = self.turn.limit
        if self.turn.kind == "longrope":
            return self.sets.index_select(0, (spans > limit).to(_C.int64))
        factor = float(self.turn.option("factor", 1.0))
        grown = spans.clamp(min=limit).to(_C.float64) * (factor / limit) - (factor - 1)
        base = self.turn.base * grown ** (self.size / (self.size - 2))
        powers = find_op("arange")(0, self.size, 2, dtype=_C.float64, device=spans.device) / -self.size
        return (base.unsqueeze(1) ** powers).to(_C.float32)


def frequencies(turn: Turn, head: int, is_long: bool = False) -> tuple[list[float], float]:
    """Angles per position of each pair of elements, and what cosines and sines are multiplied by."""
    size = int(head * turn.share)
    plain = [turn.base ** (-2 * k / size) for k in range(size // 2)]
    if turn.kind in ("default", "dynamic"):      # the latter as long as a text is not longer than usual
        return plain, 1.0
    if turn.kind == "longrope":
        return longrope(turn, plain, is_long)
    if turn.kind == "yarn":
        return yarn(turn, plain, size)
    factor = float(turn.option("factor", 1.0))
    if turn.kind == "linear":
        return [f / factor for f in plain], 1.0
    return [llama3(f, turn, factor) for f in plain], 1.0


def factor_of(turn: Turn) -> float:
    """How much longer texts may be than those that a model was made for at first."""
    found = turn.option("factor")
    return float(turn.option("context")) / float(turn.option("made_for")) if found is None else float(found)


def longrope(turn: Turn, plain: list[float], is_long: bool) -> tuple[list[float], float]:
    """Each pair is stretched by a number of its own: one set for short texts, another for long ones."""
    name = "long_factor" if is_long else "short_factor"
    stretched = turn.option(name)
    if not isinstance(stretched, tuple) or len(stretched) != len(plain):
        raise ValueError(f"{name}: expected {len(plain)} numbers, one for each turned pair, got {stretched}")
    factor, scale = factor_of(turn), turn.option("attention_factor")
    if scale is None:
        scale = math.sqrt(1 + math.log(factor) / math.log(turn.option("made_for"))) if factor > 1 else 1.0
    return [f / s for f, s in zip(plain, stretched, strict=True)], float(scale)


def llama3(frequency: float, turn: Turn, factor: float) -> float:
    """Slow angles are stretched, fast ones stay, those between are mixed."""
    low, high = float(turn.option("low_freq_factor")), float(turn.option("high_freq_factor"))
    turns = float(turn.option("made_for")) * frequency / (2 * math.pi)
    part = min(1.0, max(0.0, (turns - low) / (high - low)))
    return (1 - part) * frequency / factor + part * frequency


def yarn(turn: Turn, plain: list[float], size: int) -> tuple[list[float], float]:
    """Pairs that turn seldom within the first context are stretched, those that turn often stay; a ramp between."""
    context, factor = float(turn.option("made_for")), factor_of(turn)

    def pair(turns: float) -> float:
        return size * math.log(context / (turns * 2 * math.pi)) / (2 * math.log(turn.base))

    first, last = pair(float(turn.option("beta_fast") or 32)), pair(float(turn.option("beta_slow") or 1))
    if turn.option("truncate", True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, size - 1)
    last = last + 0.001 if first == last else last
    ramps = [min(1.0, max(0.0, (k - first) / (last - first))) for k in range(size // 2)]
    stretched = [f / factor * r + f * (1 - r) for f, r in zip(plain, ramps, strict=True)]
    return stretched, yarn_scale(turn, factor)


def yarn_scale(turn: Turn, factor: float) -> float:
    """What cosines and sines are multiplied by, said by the file or made from the stretch."""
    said, top, bottom = (turn.option(name) for name in ("attention_factor", "mscale", "mscale_all_dim"))
    if said is not None:
        return float(said)

    def grown(by: float) -> float:
        return 0.1 * by * math.log(factor) + 1.0 if factor > 1 else 1.0

    return grown(float(top)) / grown(float(bottom)) if top and bottom else grown(1.0)
