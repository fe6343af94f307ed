"""Tensors that are made of numbers: one value, or positions times a step."""

from __future__ import annotations

from typing import Any

from ... import _C
from ...op import find_op
from ...op.factory import Factory
from ..printing import Value
from .building import I64, Hlo
from .elements import cast
from .lowering import Loops
from .table import Call, rule


@rule("zeros", "empty", "empty_strided", "empty_permuted")
def zeros(call: Call, size: Any, **rest: Any) -> Value:
    return call.b.constant(0, call.out().dtype, tuple(call.out().shape))


@rule("ones")
def ones(call: Call, size: Any, **rest: Any) -> Value:
    return call.b.constant(1, call.out().dtype, tuple(call.out().shape))


@rule("full")
def full(call: Call, size: Any, fill_value: Any, **rest: Any) -> Value:
    return filled(call.b, fill_value, call.out())


@rule("scalar_tensor")
def scalar_tensor(call: Call, s: Any, **rest: Any) -> Value:
    return filled(call.b, s, call.out())


@rule("_laid_out")
def laid_out(call: Call, input: Value, strides: Any = None) -> Value:
    return input      # values have no layout


def filled(b: Hlo, number: Any, like: Any) -> Value:
    """A number everywhere; sizes are numbers too."""
    if isinstance(number, _C.SymbolicInt):
        return b.broadcast(cast(b, b.extent(number), like.dtype), tuple(like.shape), ())
    if isinstance(number, Value):
        return b.broadcast(cast(b, number, like.dtype), tuple(like.shape), ())
    return b.constant(number, like.dtype, tuple(like.shape))


@rule("arange")
def arange(call: Call, start: Any = 0, end: Any = None, step: Any = 1, **rest: Any) -> Any:
    b, out = call.b, call.out()
    if all(isinstance(v, int) for v in (start, step)) and type(start) is int and type(step) is int:
        if out.dtype.is_floating_point and abs(start) + abs(step) * 2 ** 32 >= 2 ** 53:
            return NotImplemented
        shape = tuple(out.shape)
        found = b.iota(I64, shape, 0)
        if step != 1:
            found = b.binary("multiply", found, b.constant(step, I64, shape))
        if start != 0:
            found = b.binary("add", found, b.constant(start, I64, shape))
        return cast(b, found, out.dtype)
    if isinstance(start, _C.SymbolicInt) or isinstance(step, _C.SymbolicInt):
        shape = tuple(out.shape)
        along = b.binary("multiply", b.iota(I64, shape, 0), b.broadcast(b.extent(step), shape, ()))
        return cast(b, b.binary("add", along, b.broadcast(b.extent(start), shape, ())), out.dtype)
    return NotImplemented


def made(b: Hlo, definition: Factory, args: tuple) -> Value | None:
    """What a definition makes of numbers: by its loops."""
    own, dtype, _, _ = definition.split(args)
    if not hasattr(definition, "spec_and_content"):
        return None
    spec, content = definition.spec_and_content(own, dtype, _C.device("cpu"))
    if content is None or not hasattr(content, "ranges"):
        return None
    return b.reshape(Loops(b, content, ()).results()[0], tuple(spec.shape))




# --- between tensors --------------------------------------------------------------------------------------------------


def linspace(start: Any, end: Any, steps: int, **options: Any) -> Any:
    """The sequence from and to tensors without dims, which the op of numbers would read."""
    dtype = options.get("dtype") or _C.float32
    wide = dtype if dtype.is_complex else _C.float64
    first, last = (x.to(wide) if isinstance(x, _C.Tensor) else x for x in (start, end))
    if not (dtype.is_floating_point or dtype.is_complex):      # integers count between whole numbers
        first, last = (x.trunc() if isinstance(x, _C.Tensor) else int(x) for x in (first, last))
    at = find_op("arange")(steps).to(wide)
    gap = (last - first) / max(steps - 1, 1)
    behind = last - gap * (steps - 1 - at) if steps > 1 else first + at * 0
    return (first + gap * at).where(at < max(steps // 2, 1), behind).to(dtype)


def logspace(start: Any, end: Any, steps: int, base: float = 10.0, **options: Any) -> Any:
    """Powers of `base` along such a sequence."""
    dtype = options.get("dtype") or _C.float32
    wide = dtype if dtype.is_complex else _C.float64
    return (base ** linspace(start, end, steps, dtype=wide)).to(dtype)


BETWEEN_TENSORS = {"aten.linspace": linspace, "aten.logspace": logspace}
"""By the names of ATen's ops, whose overloads take tensors where ours take numbers."""
