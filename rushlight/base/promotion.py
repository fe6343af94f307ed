"""Type promotion, as PyTorch does it: tensors with dimensions outrank 0-d tensors, which outrank Python numbers.

Enters: dtypes, each with the category of its operand. Leaves: the common dtype. Refuses nothing: any two types
except float8 and the wide unsigned ones have a common type, and those raise what PyTorch raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .. import _C
from .._C import dtype

DIMENSIONED, ZERO_DIM, NUMBER = 0, 1, 2

default_dtype = _C.get_default_dtype
promote_types = _C.promote_types


_order: dict[dtype, int] = {_C.float32: 0}   # default dtypes there have been: each keeps its plans


def set_default_dtype(d: dtype) -> None:
    """Make `d`, a floating type, the type of new tensors made from Python floats.

    Arguments:
        d: a floating dtype

    Example:
        >>> rl.set_default_dtype(rl.float64)
        >>> rl.ones(2).dtype
        rushlight.float64
        >>> rl.set_default_dtype(rl.float32)
    """
    _C.set_default_dtype(d)
    _C.choose_plans(0, _order.setdefault(d, len(_order)))


def default_complex() -> dtype:
    """The complex type that goes with the default floating type."""
    return default_dtype().to_complex()


def rank(d: dtype) -> int:
    """Category: bool 0, integer 1, float 2, complex 3."""
    if d.is_complex:
        return 3
    if d.is_floating_point:
        return 2
    return 0 if d is _C.bool else 1


def number_dtype(value: object) -> dtype:
    """The type a Python number stands for."""
    if isinstance(value, (bool, _C.SymbolicBool)):
        return _C.bool
    if isinstance(value, (int, _C.SymbolicInt)):
        return _C.int64
    if isinstance(value, (float, _C.SymbolicFloat)):
        return default_dtype()
    if not isinstance(value, complex):
        raise TypeError(f"result_type: expected a tensor or a number, got {type(value).__name__}")
    return default_complex()


def category(x: object) -> int:
    """Which of the three ranks of operands `x` belongs to."""
    if not isinstance(x, _C.Tensor):
        return NUMBER
    if x._is_wrapped_number:
        return NUMBER
    return DIMENSIONED if x.ndim else ZERO_DIM


def operand_dtype(x: object) -> dtype:
    """The dtype of a tensor or number operand."""
    return x.dtype if isinstance(x, _C.Tensor) else number_dtype(x)


def _common(types: Iterable[dtype]) -> dtype | None:
    result = None
    for d in types:
        result = d if result is None else promote_types(result, d)
    return result


def result_type_of(operands: Sequence[object]) -> dtype:
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
            if level.is_complex and result.is_floating_point:
                result = result.to_complex()
            else:
                result = level
    if result is None:
        raise ValueError("result_type: no operands")
    return result


def result_type(a: object, b: object) -> dtype:
    """The dtype an arithmetic operation on `a` and `b` gives.

    Arguments:
        a: a tensor or number
        b: a tensor or number

    Example:
        >>> rl.result_type(rl.ones(2, dtype=rl.int64), 1.5)
        rushlight.float32
    """
    return result_type_of((a, b))


def can_cast(source: dtype, target: dtype) -> bool:
    """Whether a result of type `source` may be written into a tensor of type `target`.

    Arguments:
        source: a dtype
        target: a dtype

    Example:
        >>> rl.can_cast(rl.float64, rl.float32), rl.can_cast(rl.float32, rl.int64)
        (True, False)
    """
    if source.is_complex and not target.is_complex:
        return False
    if source.is_floating_point and not (target.is_floating_point or target.is_complex):
        return False
    return not (source is not _C.bool and target is _C.bool)


def to_float(d: dtype) -> dtype:
    """Integers and bool become the default floating type; others stay."""
    return default_dtype() if rank(d) < 2 else d
