"""SymInt, SymFloat and SymBool: numbers and truths that stand for all sizes a program may meet.

Enters: formulas and the `ShapeEnv` that owns their symbols. Leaves: numbers whose arithmetic gives formulas again (or
plain numbers, where nothing symbolic is left), and whose comparisons give `SymBool`. Python and C ask for a number or a
truth through `__index__`, `__int__`, `__float__`, `__bool__` and `__hash__`: each answers with the hint and leaves a
guard. There is no other way to the hint but the property `hint`, for printing and heuristics.
A SymInt is no `int`: code that would read the number past these methods gets a TypeError instead of a wrong program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import _C
from .env import SymbolTable
from .expression import Expression, Formula, apply, number
from .real import FALSE, TRUE, Real, Truth, as_real, known_truth, negation, real, real_number, truth

if TYPE_CHECKING:
    Dim = int | _C.SymbolicInt       # a size or stride, known or symbolic
    Scalar = int | float | _C.SymbolicInt | _C.SymbolicFloat | _C.SymbolicBool


class _Symbolic:
    """What the three have in common: a formula and its owner."""

    __slots__ = ()

    formula: Any
    env: SymbolTable

    @property
    def expression(self) -> Any:
        """The formula, with everything put in that equalities said since."""
        return self.env.simplify(self.formula)

    expr = expression

    @property
    def node(self) -> Any:
        """PyTorch's way to reach expression and hint."""
        return self

    @property
    def shape_env(self) -> SymbolTable:
        return self.env

    @property
    def hint(self) -> Any:
        """The value seen, None if none was. Whoever decides anything by it compiles wrong programs:
        ask the number itself."""
        return self.env.hint(self.expression)

    def has_hint(self) -> bool:
        return self.hint is not None

    def __repr__(self) -> str:
        return repr(self.expression)

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(self.env.specialize(self.expression) if spec else repr(self), spec)

    def __reduce__(self) -> tuple:
        raise TypeError(
            f"{type(self).__name__}: the symbolic number {self!r} cannot be pickled; int(x) or float(x) is its value"
        )

    def __deepcopy__(self, memo: object) -> Any:
        return self

    def __copy__(self) -> Any:
        return self


class _Number(_Symbolic):
    """Arithmetic and comparisons that integers and reals share."""

    __slots__ = ()

    def __pos__(self) -> Any:
        return self

    def __bool__(self) -> bool:
        return self.env.guard(truth("!=", self.expression, _formula(0)))

    def __float__(self) -> float:
        return float(self.env.specialize(self.expression))

    def __complex__(self) -> complex:
        return complex(self.env.specialize(self.expression))

    def __hash__(self) -> int:
        return hash(self.env.specialize(self.expression))

    def __divmod__(self, other: Any) -> Any:
        quotient = self // other
        return quotient if quotient is NotImplemented else (quotient, self % other)

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __rpow__(self, base: Scalar) -> Any:
        return power(base, self)

    def conjugate(self) -> Any:
        return self

    @property
    def real(self) -> Any:
        return self

    @property
    def imag(self) -> int:
        return 0


class SymInt(_Number, _C.SymbolicInt):
    """An integer that depends on sizes."""

    __slots__ = ("env", "formula")

    formula: Expression

    def __init__(self, formula: Expression, env: SymbolTable) -> None:
        self.formula, self.env = formula, env

    def __index__(self) -> int:
        return self.env.specialize(self.expression)

    __int__ = __index__

    def __floor__(self) -> SymInt:
        return self

    __ceil__ = __trunc__ = __floor__

    def __round__(self, digits: int | None = None) -> Any:
        return self if digits is None or digits >= 0 else round(int(self), digits)

    def __neg__(self) -> Any:
        return wrapped(-self.expression, self.env)

    def __invert__(self) -> Any:
        return -self - 1

    def __abs__(self) -> Any:
        low, high = self.env.bounds(self.expression)
        if low is not None and low >= 0:
            return self
        return (
            -self
            if high is not None and high <= 0
            else wrapped(apply("max", self.expression, -self.expression), self.env)
        )

    def __pow__(self, exponent: Scalar, modulus: int | None = None) -> Any:
        return power(self, exponent) if modulus is None else pow(int(self), int(exponent), modulus)

    def __sym_float__(self) -> Any:
        return wrapped(as_real(self.expression), self.env)

    def __sym_int__(self) -> SymInt:
        return self

    def is_integer(self) -> bool:
        return True

    def bit_length(self) -> int:
        return int(self).bit_length()

    def as_integer_ratio(self) -> tuple:
        return self, 1

    def to_bytes(self, *args: Any, **kwargs: Any) -> bytes:
        return int(self).to_bytes(*args, **kwargs)

    @property
    def numerator(self) -> SymInt:
        return self

    @property
    def denominator(self) -> int:
        return 1


class SymFloat(_Number, _C.SymbolicFloat):
    """A real number that depends on sizes."""

    __slots__ = ("env", "formula")

    formula: Real

    def __init__(self, formula: Real, env: SymbolTable) -> None:
        self.formula, self.env = formula, env

    def __int__(self) -> int:
        return int(self.env.specialize(self.expression))

    def __neg__(self) -> Any:
        return wrapped(real("neg", self.expression), self.env)

    def __abs__(self) -> Any:
        return wrapped(real("abs", self.expression), self.env)

    def __floor__(self) -> Any:
        return wrapped(apply("floor", self.expression), self.env)

    def __ceil__(self) -> Any:
        return wrapped(apply("ceil", self.expression), self.env)

    def __trunc__(self) -> Any:
        return wrapped(apply("trunc", self.expression), self.env)

    __sym_int__ = __trunc__

    def __sym_float__(self) -> SymFloat:
        return self

    def __round__(self, digits: int | None = None) -> Any:
        if digits is None:
            return wrapped(apply("round", self.expression), self.env)
        return wrapped(real("round", self.expression, number(digits)), self.env)

    def __pow__(self, exponent: Scalar, modulus: int | None = None) -> Any:
        return power(self, exponent)

    def is_integer(self) -> Any:
        if self.expression.as_integer() is not None:
            return True
        return wrapped(truth("==", as_real(apply("floor", self.expression)), self.expression), self.env)


class SymBool(_Symbolic, _C.SymbolicBool):
    """A truth that depends on sizes: whoever asks for it (`if`, `and`, `bool`) leaves a guard."""

    __slots__ = ("env", "formula")

    formula: Truth

    def __init__(self, formula: Truth, env: SymbolTable) -> None:
        self.formula, self.env = formula, env

    def __bool__(self) -> bool:
        return self.env.guard(self.expression)

    def __int__(self) -> int:
        return int(bool(self))

    __index__ = __int__

    def __float__(self) -> float:
        return float(bool(self))

    def __hash__(self) -> int:
        return hash(bool(self))

    def __and__(self, other: object) -> Any:
        return self._joined("and", other)

    def __or__(self, other: object) -> Any:
        return self._joined("or", other)

    __rand__, __ror__ = __and__, __or__

    def __xor__(self, other: object) -> Any:
        return self != other

    __rxor__ = __xor__

    def __sym_not__(self) -> Any:
        return wrapped(negation(self.expression), self.env)

    def __eq__(self, other: object) -> Any:
        t = _truth(other)
        if t is None:
            return NotImplemented
        mine = self.expression
        both, neither = truth("and", mine, t), truth("and", negation(mine), negation(t))
        return wrapped(truth("or", both, neither), self.env)

    def __ne__(self, other: object) -> Any:
        same = self.__eq__(other)
        return same if same is NotImplemented else same.__sym_not__() if isinstance(same, SymBool) else not same

    def _joined(self, relation: str, other: object) -> Any:
        t = _truth(other)
        return NotImplemented if t is None else wrapped(truth(relation, self.expression, t), self.env)

    def __add__(self, other: Any) -> Any:
        return self._as_int() + other

    def __radd__(self, other: Any) -> Any:
        return other + self._as_int()

    def __mul__(self, other: Any) -> Any:
        return self._as_int() * other

    __rmul__ = __mul__

    def __sub__(self, other: Any) -> Any:
        return self._as_int() - other

    def __rsub__(self, other: Any) -> Any:
        return other - self._as_int()

    def _as_int(self) -> Any:
        return wrapped(apply("if", self.expression, number(1), number(0)), self.env)

    def expect_true(self) -> bool:
        """Require it: for symbols without a hint a check at run time, else a guard."""
        return self.env.expect(self.expression)


# --- formulas in and out ----------------------------------------------------------------------------------------------


def wrapped(formula: Formula, env: SymbolTable) -> Any:
    """A formula as a number: a plain one where nothing symbolic is left."""
    f = env.simplify(formula)
    if isinstance(f, Truth):
        answer = env.decide(f)
        return SymBool(f, env) if answer is None else answer
    known = f.constant
    if known is not None:
        return known
    return SymFloat(f, env) if isinstance(f, Real) else SymInt(f, env)


def _formula(x: Any) -> Any:
    """The formula of a number; None if it is none."""
    if isinstance(x, (SymInt, SymFloat)):
        return x.expression
    if isinstance(x, SymBool):
        return apply("if", x.expression, number(1), number(0))
    if isinstance(x, int):
        return number(x)
    if isinstance(x, float):
        return real_number(x)
    # a NumPy integer
    return (
        number(x.__index__())
        if hasattr(type(x), "__index__") and hasattr(x, "dtype") and not isinstance(x, _C.Tensor)
        else None
    )


def _truth(x: object) -> Truth | None:
    if isinstance(x, SymBool):
        return x.expression
    return known_truth(x) if isinstance(x, bool) else None


def expression_of(x: Dim) -> Expression:
    """The expression of an integer, symbolic or plain."""
    return x.expression if isinstance(x, SymInt) else number(int(x))


def env_of(*xs: object) -> SymbolTable | None:
    """The owner of the symbols among some numbers."""
    return next((x.env for x in xs if isinstance(x, _Symbolic)), None)


def combine(name: str, *xs: object) -> Any:
    """An operation on numbers, some of them symbolic: of integers where all are, else of reals.
    NotImplemented for what is no number."""
    env = env_of(*xs)
    parts = [_formula(x) for x in xs]
    if env is None or None in parts:
        return NotImplemented
    if name != "/" and all(isinstance(p, Expression) for p in parts):
        return wrapped(_simpler(name, parts, env), env)
    return wrapped(real(name, *map(as_real, parts)), env)


def _simpler(name: str, parts: list[Expression], env: SymbolTable) -> Expression:
    """The operation, where ranges know more than arithmetic: the larger of two,
    a quotient or remainder that is 0 or the number itself."""
    if name in ("+", "-", "*"):
        a, b = parts
        return a + b if name == "+" else a - b if name == "-" else a * b
    if len(parts) == 2 and name in ("max", "min"):
        for low, high in (parts, parts[::-1]):
            if env.decide(truth("<=", low, high)):
                return high if name == "max" else low
    if name in ("//", "%") and env.decide(
        truth("and", truth("<=", number(0), parts[0]), truth("<", parts[0], parts[1]))
    ):
        return number(0) if name == "//" else parts[0]
    if name == "%" and parts[1].constant is None and parts[1].sole_atom is None:
        exact = parts[0] // parts[1]
        if env.simplify(exact * parts[1]) is parts[0]:
            return number(0)
    if name in ("//", "%") and env.decide(truth("==", parts[1], number(0))):
        raise ZeroDivisionError("division or modulo of a symbolic size by zero")
    return apply(name, *parts)


def compare(relation: str, a: object, b: object) -> Any:
    """A comparison of numbers; NotImplemented for what is none."""
    env, left, right = env_of(a, b), _formula(a), _formula(b)
    if env is None or left is None or right is None:
        return NotImplemented
    if isinstance(left, Real) != isinstance(right, Real):
        left, right = _integers_if_whole(left), _integers_if_whole(right)
    return wrapped(truth(relation, left, right), env)


def _integers_if_whole(f: Formula) -> Any:
    whole = f.as_integer() if isinstance(f, Real) else None
    return f if whole is None else whole


def power(base: Any, exponent: Any) -> Any:
    """base ** exponent, of numbers."""
    env, b, e = env_of(base, exponent), _formula(base), _formula(exponent)
    if env is None or b is None or e is None:
        return NotImplemented
    if isinstance(b, Expression) and isinstance(e, Expression):
        low, high = env.bounds(e)
        if low is not None and low >= 0:
            return wrapped(apply("**", b, e), env)
        if high is None or high >= 0:      # whether the result is an integer hangs on the sign
            return power(base, int(exponent))
    return wrapped(real("**", as_real(b), as_real(e)), env)


def _binary(name: str, swap: bool) -> Callable[[object, object], Any]:
    def method(self: object, other: object) -> Any:
        return combine(name, other, self) if swap else combine(name, self, other)

    return method


def _relation(relation: str, swap: bool) -> Callable[[object, object], Any]:
    def method(self: object, other: object) -> Any:
        return compare(relation, other, self) if swap else compare(relation, self, other)

    return method


for _method, _name in (("add", "+"), ("sub", "-"), ("mul", "*"), ("floordiv", "//"), ("mod", "%"), ("truediv", "/")):
    for _cls in (SymInt, SymFloat):
        setattr(_cls, f"__{_method}__", _binary(_name, False))
        setattr(_cls, f"__r{_method}__", _binary(_name, True))
for _method, _name in (("lshift", "<<"), ("rshift", ">>"), ("and", "&"), ("or", "|"), ("xor", "^")):
    setattr(SymInt, f"__{_method}__", _binary(_name, False))
    setattr(SymInt, f"__r{_method}__", _binary(_name, True))
for _method, _name, _swap in (
    ("eq", "==", False),
    ("ne", "!=", False),
    ("lt", "<", False),
    ("le", "<=", False),
    ("gt", "<", True),
    ("ge", "<=", True),
):
    for _cls in (SymInt, SymFloat):
        setattr(_cls, f"__{_method}__", _relation(_name, _swap))

for _kind in (SymInt, SymFloat, SymBool):
    _kind.__module__ = "rushlight"     # where programs find them

__all__ = [
    "FALSE",
    "TRUE",
    "SymBool",
    "SymFloat",
    "SymInt",
    "combine",
    "compare",
    "env_of",
    "expression_of",
    "power",
    "wrapped",
]
