"""Complex numbers as pairs of reals, in a last dim of two: ONNX has the type, but no operators for it.

Enters: values of parts. Leaves: a `Pair`, which has the shape and the type that the program sees, and holds the value
that the model has.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from .. import _C
from .building import Builder
from .model import Value

REAL = {"c32": _C.float16, "c64": _C.float32, "c128": _C.float64}


@dataclasses.dataclass(frozen=True)
class Pair:
    """A complex tensor: `value` has its parts in a last dim of 2."""

    value: Value
    dtype: Any
    shape: tuple[int | str | None, ...] | None = None

    @property
    def ndim(self) -> int:
        assert self.shape is not None, f"the rank of {self.value.name} is not known"
        return len(self.shape)


def parts(g: Builder, x: Any) -> tuple[Value, Value]:
    """The real and the imaginary part; of a real value 0 for the latter."""
    if isinstance(x, Pair):
        re, im = [g.node("Gather", x.value, g.constant(i, _C.int64), axis=-1, shape=x.shape) for i in (0, 1)]
        return dataclasses.replace(re, shape=x.shape), dataclasses.replace(im, shape=x.shape)
    return x, g.constant(0, x.dtype)


def joined(g: Builder, re: Value, im: Value, dtype: Any) -> Pair:
    """Parts as one, in the shape that both are broadcast to."""
    kind = REAL[dtype.code]
    first = g.constant([True, False], _C.bool)
    wide = [g.node("Unsqueeze", g.cast(v, kind), g.ints([-1])) for v in (re, im)]
    return Pair(g.node("Where", first, *wide, dtype=kind), dtype, re.shape if re.shape == im.shape else None)


def whole(g: Builder, x: Any, dtype: Any) -> Pair:
    """A value as complex numbers of a type."""
    if isinstance(x, Pair):
        return Pair(g.cast(x.value, REAL[dtype.code]), dtype, x.shape)
    re = g.cast(x, REAL[dtype.code])
    return dataclasses.replace(joined(g, re, g.constant(0, re.dtype), dtype), shape=x.shape)
