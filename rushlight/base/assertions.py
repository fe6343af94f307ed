"""Checks that programs make on their own values: `_check`, `_assert` and arithmetic on sizes.

Enters: conditions, sizes and tensors. Leaves: nothing, or the exception PyTorch raises. A condition on symbolic sizes
becomes a guard, and one on numbers that only elements can tell a check at run time.
On symbolic numbers `sym_int` and its like are those of `symbols`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from .. import _C
from .._C import Tensor
from .shape import holds

if TYPE_CHECKING:
    from ..symbols.numbers import Dim, Scalar
    from . import shape

Message = Callable[[], str] | None
P = ParamSpec("P")
R = TypeVar("R")


def _check_with(error: type[Exception], condition: object, message: Message = None) -> None:
    """Raise `error` with the text `message()` gives unless `condition` holds."""
    if isinstance(condition, Tensor):
        raise TypeError(f"cond must be a bool, but got {type(condition).__name__}: use _check_tensor_all for tensors")
    if holds(condition):
        return
    if message is not None and not callable(message):
        raise TypeError(f"message must be a callable, got {type(message).__name__}")
    raise error("Expected cond to be True, but got False." if message is None else str(message()))


def _check(cond: object, message: Message = None) -> None:
    """Raise RuntimeError unless `cond` holds."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond: object, message: Message = None) -> None:
    """Raise IndexError unless `cond` holds."""
    _check_with(IndexError, cond, message)


def _check_value(cond: object, message: Message = None) -> None:
    """Raise ValueError unless `cond` holds."""
    _check_with(ValueError, cond, message)


def _check_type(cond: object, message: Message = None) -> None:
    """Raise TypeError unless `cond` holds."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: object, message: Message = None) -> None:
    """Raise NotImplementedError unless `cond` holds."""
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i: Dim, message: Message = None, *, max: int | None = None) -> None:
    """Raise RuntimeError unless `i` can be a size (of at most `max`)."""
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _check_tensor_all_with(error: type[Exception], cond: Tensor, message: Message = None) -> None:
    """Raise `error` unless every element of `cond` is true."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond).__name__}")
    if cond.dtype.name != "bool":
        raise TypeError(f"cond tensor must have dtype bool, but got {cond.dtype.name}")
    _check_with(error, bool(cond.all()), message)


def _check_tensor_all(cond: Tensor, message: Message = None) -> None:
    """Raise RuntimeError unless every element of `cond` is true."""
    _check_tensor_all_with(RuntimeError, cond, message)


def recorded(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: a first argument that is being traced (it has `__torch_function__`, and is no tensor) takes the
    call."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        first = args[0] if args else None
        handler = getattr(type(first), "__torch_function__", None)
        if handler is None or isinstance(first, Tensor):
            return function(*args, **kwargs)
        return handler(call, (type(first),), args, kwargs)

    return call


@recorded
def _assert(condition: object, message: str) -> None:
    """`assert condition, message`, as a call."""
    if not condition:
        raise AssertionError(message)


def _assert_async(input: Tensor, assert_msg: str = "Expected Tensor with single nonzero value, but got zero") -> None:
    """Raise RuntimeError unless the only element is not zero."""
    if not bool(input):
        raise RuntimeError(assert_msg)


class CheckFailed(RuntimeError):
    """Something that a graph relies on, and that only elements could tell, does not hold."""


def _assert_scalar(input: object, assert_msg: str) -> None:
    """Raise RuntimeError unless the number is true."""
    if not holds(input):
        raise CheckFailed(assert_msg)


def _assert_tensor_metadata(
    a: Tensor,
    size: Sequence[Dim] | None = None,
    stride: Sequence[Dim] | None = None,
    dtype: _C.dtype | None = None,
    *,
    device: _C.device | None = None,
    layout: shape.layout | None = None,
) -> None:
    """Raise RuntimeError unless the tensor is as described."""
    for what, want, have in (
        ("sizes", size, tuple(a.shape)),
        ("strides", stride, tuple(a.stride())),
        ("dtype", dtype, a.dtype),
        ("device", device, a.device),
        ("layout", layout, a.layout),
    ):
        want = tuple(want) if isinstance(want, (list, tuple)) else want
        if want is not None and want != have:
            raise RuntimeError(f"Tensor {what} mismatch! Expected: {want}, Got: {have}")


# --- sizes ------------------------------------------------------------------------------------------------------------

_SYMBOLIC = (_C.SymbolicInt, _C.SymbolicFloat, _C.SymbolicBool)


def _symbolic(name: str) -> Callable:
    from ..symbols import functions  # noqa: PLC0415 - most programs never have a symbolic size

    return getattr(functions, name)


@recorded
def sym_int(a: Scalar) -> Any:
    """`a` as an integer, towards zero.

    Arguments:
        a: a number

    Example:
        >>> rl.sym_int(2.7)
        2
    """
    return _symbolic("sym_int")(a) if isinstance(a, _SYMBOLIC) else math.trunc(a)


@recorded
def sym_float(a: Scalar) -> Any:
    """`a` as a float.

    Arguments:
        a: a number

    Example:
        >>> rl.sym_float(2)
        2.0
    """
    return _symbolic("sym_float")(a) if isinstance(a, _SYMBOLIC) else float(a)


@recorded
def sym_not(a: Scalar) -> Any:
    """The opposite truth.

    Arguments:
        a: a truth

    Example:
        >>> rl.sym_not(True)
        False
    """
    return _symbolic("sym_not")(a) if isinstance(a, _SYMBOLIC) else not a


def sym_max(a: Scalar, b: Scalar) -> Any:
    """The larger number; a float if either is. No guard is needed for symbolic ones.

    Arguments:
        a: a number
        b: a number

    Example:
        >>> rl.sym_max(2, 3)
        3
    """
    if isinstance(a, _SYMBOLIC) or isinstance(b, _SYMBOLIC):
        return _symbolic("sym_max")(a, b)
    return type(a + b)(max(a, b)) if isinstance(a + b, float) else max(a, b)


def sym_min(a: Scalar, b: Scalar) -> Any:
    """The smaller number; a float if either is. No guard is needed for symbolic ones.

    Arguments:
        a: a number
        b: a number

    Example:
        >>> rl.sym_min(2, 3)
        2
    """
    if isinstance(a, _SYMBOLIC) or isinstance(b, _SYMBOLIC):
        return _symbolic("sym_min")(a, b)
    return type(a + b)(min(a, b)) if isinstance(a + b, float) else min(a, b)


@recorded
def sym_sqrt(a: Scalar) -> Any:
    """The square root."""
    return _symbolic("sym_sqrt")(a) if isinstance(a, _SYMBOLIC) else math.sqrt(a)


@recorded
def sym_sum(args: Iterable[Scalar]) -> Any:
    """The sum of many numbers."""
    args = list(args)
    return _symbolic("sym_sum")(args) if any(isinstance(a, _SYMBOLIC) for a in args) else sum(args)


def sym_ite(b: Scalar, t: Scalar, f: Scalar) -> Any:
    """`t` if `b` holds, else `f`, which must be of the same type.

    Arguments:
        b: a truth
        t: the result if it holds
        f: the result otherwise

    Example:
        >>> rl.sym_ite(True, 1, 2)
        1
    """
    if isinstance(b, _SYMBOLIC):
        return _symbolic("sym_ite")(b, t, f)
    if type(t) is not type(f):
        raise AssertionError(
            f"sym_ite: expected both choices of one type, got {type(t).__name__} and {type(f).__name__}"
        )
    return t if b else f


PUBLIC = {
    name: value
    for name, value in globals().items()
    if name.startswith(("_check", "_assert", "sym_")) and callable(value)
}
