"""Type promotion, as PyTorch does it: tensors with dimensions outrank 0-d tensors, which outrank Python numbers.

Enters: dtypes, each with the category of its operand. Leaves: the common dtype. Refuses nothing: any two types
except float8 and the wide unsigned ones have a common type, and those raise what PyTorch raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from . import _C
from ._C import dtype

DIMENSIONED, ZERO_DIM, NUMBER = 0, 1, 2

_INTS = (_C.uint8, _C.int8, _C.int16, _C.int32, _C.int64)
_WIDE_UNSIGNED = (_C.uint16, _C.uint32, _C.uint64)
_FLOATS = (_C.float16, _C.bfloat16, _C.float32, _C.float64)
_FLOAT8 = (_C.float8_e4m3fn, _C.float8_e5m2)

_default_float = _C.float32


def default_dtype() -> dtype:
    """The type of new tensors made from Python floats."""
    return _default_float


def set_default_dtype(d: dtype) -> None:
    """Make `d`, a floating type, the type of new tensors made from Python floats."""
    global _default_float
    if not isinstance(d, dtype) or not d.is_floating_point or d in _FLOAT8:
        raise TypeError(f"set_default_dtype: only floating-point types are supported as the default type, got {d}")
    _default_float = d
    _C.forget_plans()


def default_complex() -> dtype:
    """The complex type that goes with the default floating type."""
    return _default_float.to_complex()


def rank(d: dtype) -> int:
    """Category: bool 0, integer 1, float 2, complex 3."""
    if d.is_complex:
        return 3
    if d.is_floating_point:
        return 2
    return 0 if d is _C.bool else 1


def _promote_floats(a: dtype, b: dtype) -> dtype:
    if {a, b} == {_C.float16, _C.bfloat16}:
        return _C.float32
    return a if _FLOATS.index(a) >= _FLOATS.index(b) else b


def _promote_ints(a: dtype, b: dtype) -> dtype:
    if a in _WIDE_UNSIGNED or b in _WIDE_UNSIGNED:
        unsigned = [d for d in (a, b) if not d.is_signed]
        if len(unsigned) == 2:
            return a if a.itemsize >= b.itemsize else b
        raise RuntimeError(f"Promotion for uint16, uint32, uint64 types is not supported, attempted to promote {a.name} and {b.name}")
    if _C.uint8 in (a, b):
        other = b if a is _C.uint8 else a
        return _C.int16 if other is _C.int8 else other
    return a if a.itemsize >= b.itemsize else b


def promote_types(a: dtype, b: dtype) -> dtype:
    """The smallest type that holds values of both."""
    if a is b:
        return a
    if a in _FLOAT8 or b in _FLOAT8:
        if rank(a) == rank(b):
            raise RuntimeError(f"Promotion for Float8 Types is not supported, attempted to promote {a.name} and {b.name}")
        return a if rank(a) > rank(b) else b
    ra, rb = rank(a), rank(b)
    if ra < rb:
        a, b, ra, rb = b, a, rb, ra
    if ra == 3:
        if rb < 2:
            return a
        wide = a is _C.complex128 or b in (_C.float64, _C.complex128)
        return _C.complex128 if wide else _C.complex64
    if ra == rb:
        return _promote_floats(a, b) if ra == 2 else _promote_ints(a, b)
    return a


def number_dtype(value: Any) -> dtype:
    """The type a Python number stands for."""
    if isinstance(value, bool):
        return _C.bool
    if isinstance(value, int):
        return _C.int64
    if isinstance(value, float):
        return _default_float
    return default_complex()


def category(x: Any) -> int:
    """Which of the three ranks of operands `x` belongs to."""
    if not isinstance(x, _C.Tensor):
        return NUMBER
    if x._is_wrapped_number:
        return NUMBER
    return DIMENSIONED if x.ndim else ZERO_DIM


def operand_dtype(x: Any) -> dtype:
    """The dtype of a tensor or number operand."""
    return x.dtype if isinstance(x, _C.Tensor) else number_dtype(x)


def _common(types: Iterable[dtype]) -> dtype | None:
    result = None
    for d in types:
        result = d if result is None else promote_types(result, d)
    return result


def result_type_of(operands: Sequence[Any]) -> dtype:
    """The common dtype of tensors and numbers: a lower category counts only when it is of a higher kind."""
    result = None
    for wanted in (DIMENSIONED, ZERO_DIM, NUMBER):
        level = _common(operand_dtype(x) for x in operands if category(x) == wanted)
        if level is None:
            continue
        if result is None:
            result = level
        elif rank(level) > rank(result):
            # A number of a higher kind brings that kind in the width the tensors suggest.
            if level.is_complex and result.is_floating_point and result is not _C.bfloat16:
                result = _C.complex128 if result is _C.float64 else _C.complex64
            else:
                result = level
    if result is None:
        raise ValueError("result_type: no operands")
    return result


def result_type(a: Any, b: Any) -> dtype:
    """The dtype an arithmetic operation on `a` and `b` gives."""
    return result_type_of((a, b))


def can_cast(source: dtype, target: dtype) -> bool:
    """Whether a result of type `source` may be written into a tensor of type `target`."""
    if source.is_complex and not target.is_complex:
        return False
    if source.is_floating_point and not (target.is_floating_point or target.is_complex):
        return False
    return not (source is not _C.bool and target is _C.bool)


def to_float(d: dtype) -> dtype:
    """Integers and bool become the default floating type; others stay."""
    return _default_float if rank(d) < 2 else d
