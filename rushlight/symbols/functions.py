"""Functions of sizes that stay symbolic where Python's own would ask for a number: `sym_max` instead of `max`,
`sym_sqrt` instead of `math.sqrt`.

Enters: numbers, plain or symbolic. Leaves: the same function's value, symbolic where an argument is.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from .env import SymbolTable
from .expression import apply, number, total
from .numbers import SymBool, SymFloat, SymInt, combine, compare, env_of, expression_of, wrapped
from .real import as_real, real

if TYPE_CHECKING:
    from .numbers import Scalar

_SYMBOLIC = (SymInt, SymFloat, SymBool)


def sym_int(a: Scalar) -> Any:
    """`int(a)`: towards zero."""
    return a.__sym_int__() if isinstance(a, (SymInt, SymFloat)) else a._as_int() if isinstance(a, SymBool) else int(a)


def sym_float(a: Scalar) -> Any:
    """`float(a)`."""
    return a.__sym_float__() if isinstance(a, (SymInt, SymFloat)) else float(a)


def sym_not(a: Scalar) -> Any:
    """`not a`."""
    return (
        a.__sym_not__()
        if isinstance(a, SymBool)
        else compare("==", a, 0) if isinstance(a, (SymInt, SymFloat)) else not a
    )


def sym_max(a: Scalar, b: Scalar) -> Any:
    """The larger of two numbers, as a formula instead of a guard."""
    return combine("max", a, b) if isinstance(a, _SYMBOLIC) or isinstance(b, _SYMBOLIC) else max(a, b)


def sym_min(a: Scalar, b: Scalar) -> Any:
    """The smaller of two numbers, as a formula instead of a guard."""
    return combine("min", a, b) if isinstance(a, _SYMBOLIC) or isinstance(b, _SYMBOLIC) else min(a, b)


def sym_ite(b: Scalar, t: Any, f: Any) -> Any:
    """`t if b else f`, for values of one type."""
    if not isinstance(b, SymBool):
        return t if b else f
    kinds = {bool if isinstance(x, (bool, SymBool)) else int if isinstance(x, (int, SymInt)) else float for x in (t, f)}
    if len(kinds) != 1:
        raise TypeError(f"sym_ite: expected two values of one type, got {type(t).__name__} and {type(f).__name__}")
    if kinds == {int}:
        return wrapped(apply("if", b.expression, expression_of(t), expression_of(f)), b.env)
    if kinds == {bool}:
        return (b & t) | (sym_not(b) & f)
    return wrapped(
        real(
            "if",
            b.expression,
            *(
                as_real(x.expression) if isinstance(x, SymFloat) else as_real(number(0)) if x == 0 else _plain(x)
                for x in (t, f)
            ),
        ),
        b.env,
    )


def _plain(x: float) -> Any:
    from .real import real_number  # noqa: PLC0415 - one use

    return real_number(x)


def sym_sum(args: Iterable[Any]) -> Any:
    """The sum of many numbers."""
    args = list(args)
    env = env_of(*args)
    if env is None or not all(isinstance(a, (int, SymInt)) for a in args):
        return sum(args)
    return wrapped(total(expression_of(a) for a in args), env)


def sym_fresh_size(env: SymbolTable) -> Any:
    """A size that only elements can tell."""
    return wrapped(env.unbacked_symbol(0), env)


def _of_reals(name: str) -> Callable[[Any], Any]:
    function = getattr(math, name)

    def call(a: Any) -> Any:
        if isinstance(a, (SymInt, SymFloat)):
            return wrapped(real(name, as_real(a.expression)), a.env)
        return a.__sym_function__(call) if hasattr(type(a), "__sym_function__") else function(a)

    call.__name__ = call.__qualname__ = f"sym_{name}"
    call.__doc__ = f"`math.{name}(a)`."
    return call


sym_sqrt, sym_sin, sym_cos, sym_tan, sym_asin, sym_acos, sym_atan, sym_sinh, sym_cosh, sym_tanh, sym_exp, sym_log2 = (
    map(_of_reals, ("sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "exp", "log2"))
)


# --- three ways to ask ------------------------------------------------------------------------------------------------


def statically_known_true(x: object) -> bool:
    """Whether it holds for all sizes; no guard is left."""
    return x.env.decide(x.expression) is True if isinstance(x, SymBool) else bool(x)


def statically_known_false(x: object) -> bool:
    """Whether it holds for no size; no guard is left."""
    return x.env.decide(x.expression) is False if isinstance(x, SymBool) else not x


def guard_or(x: object, default: bool) -> bool:
    """The answer, with a guard; `default` where only elements could tell."""
    if not isinstance(x, SymBool):
        return bool(x)
    answer = x.env.decide(x.expression)
    if answer is not None:
        return answer
    return default if x.env.is_unbacked(x.expression) else bool(x)


def guard_as_large(x: object) -> bool:
    """The answer, with a guard; for sizes that only elements can tell that of sizes of 2 or more, or False where these
    differ too."""
    if not isinstance(x, SymBool) or not x.env.is_unbacked(x.expression):
        return bool(x)
    return x.env.decide_for_large(x.expression) is True


def guard_or_false(x: object) -> bool:
    """The answer, with a guard; False where only elements could tell."""
    return guard_or(x, False)


def guard_or_true(x: object) -> bool:
    """The answer, with a guard; True where only elements could tell."""
    return guard_or(x, True)


def expect_true(x: object, skip: int = 0) -> bool:
    """Require it: a guard, or a check at run time where only elements can tell."""
    return x.expect_true() if isinstance(x, SymBool) else bool(x)


_in_math = {
    "sqrt": sym_sqrt, "sin": sym_sin, "cos": sym_cos, "tan": sym_tan, "asin": sym_asin, "acos": sym_acos,
    "atan": sym_atan, "sinh": sym_sinh, "cosh": sym_cosh, "tanh": sym_tanh, "exp": sym_exp, "log2": sym_log2,
}


@contextlib.contextmanager
def symbolic_math() -> Iterator[None]:
    """Inside, `math.sqrt(s)` and its like stay symbolic.
    (`from math import sqrt`, done before, still asks for the number, with a guard.)"""
    before = {name: getattr(math, name) for name in _in_math}
    for name, function in _in_math.items():
        setattr(math, name, function)
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(math, name, function)
