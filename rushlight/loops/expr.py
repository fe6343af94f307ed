"""The scalar language: what one element of a kernel computes.

Enters: builder calls (`add`, `select`, `cast`, ...) or Python operators on `Value`s, and Python numbers.
Leaves: immutable, hash-consed `Value` nodes. Two structurally equal expressions are the same object, so
`is`/`==` compare structure, nodes are dict keys, and shared subexpressions are shared by construction.
Refuses: operands of different dtypes (cast first), arithmetic it would have to guess (`/` on integers),
and ordering complex numbers. `==` is identity; the element-wise comparison is `eq`.

The node kinds, which are all that a code generator must know:

    leaves      arg(attr=operand index)   const(attr=number)   var(attr=name)   load(index; attr=operand index)
                table(index; attr=tuple of numbers): element of a constant array, the index is in range
    arithmetic  add sub mul div idiv irem neg abs fma min max sqrt
                min(a, b) is a < b ? a : b, max(a, b) is a > b ? a : b; idiv and irem truncate, by zero give 0
    rounding    floor ceil trunc rint copysign          bits   and or xor not shl shr
    compare     lt le gt ge eq ne  (dtype b1)           choice select(condition, a, b)
    convert     cast bitcast                            pairs  complex(re, im) real imag
    named       call(attr=function name): removed by `math.lower` before code is generated

A `select` whose attr is "rare" has the meaning of any other select; the mark says that the condition is
almost never true, so a generator may test whether any lane needs the first choice and branch around it.

Complex arithmetic is expanded into arithmetic on parts while nodes are built: only leaves, loads and calls
have a complex dtype, besides `complex(re, im)` itself, and `real(complex(a, b))` is `a`.
"""

from __future__ import annotations

import math
import struct
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeGuard, final

from ..base.digest import digest
from .text import spell
from .walking import walk

Number = int | float | bool | complex
if TYPE_CHECKING:
    Binary = Callable[["Value | Number", "Value | Number"], "Value"]

BYTE_FLOATS = ("f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz", "f8e8m0fnu")
FLOATS = frozenset(("f16", "bf16", "f32", "f64", *BYTE_FLOATS))
SIGNED = frozenset(("i8", "i16", "i32", "i64"))
UNSIGNED = frozenset(("u8", "u16", "u32", "u64"))
INTS = SIGNED | UNSIGNED
COMPLEX = frozenset(("c32", "c64", "c128"))
PART = {"c32": "f16", "c64": "f32", "c128": "f64"}
WHOLE = {"f16": "c32", "f32": "c64", "f64": "c128"}
BITS = {"b1": 8, **dict.fromkeys(BYTE_FLOATS, 8), "bf16": 16, "c32": 32, "c64": 64, "c128": 128}
BITS.update({kind + str(bits): bits for bits in (8, 16, 32, 64) for kind in "iu"})
BITS.update({"f16": 16, "f32": 32, "f64": 64})

# Structure -> weak reference to the node. A plain dict: WeakValueDictionary costs 2 us per node made.
_NODES: dict[tuple, _Ref] = {}


@final
class Value:
    """One node. Build it with the functions of this module, never directly."""

    __slots__ = ("__weakref__", "_digest", "args", "attr", "dtype", "op")

    op: str
    args: tuple[Value, ...]
    dtype: str
    attr: Any                    # what the op takes besides: a number, an index, a name, a tuple of numbers
    _digest: Any                 # bytes, once somebody asked
    if TYPE_CHECKING:            # set below, from the functions that build nodes

        def _with(self, other: Value | Number) -> Value: ...
        def _alone(self) -> Value: ...

        __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __and__ = __or__ = __xor__ = _with
        __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rand__ = __ror__ = __rxor__ = _with
        __lshift__ = __rshift__ = __rlshift__ = __rrshift__ = __lt__ = __le__ = __gt__ = __ge__ = _with
        __neg__ = __abs__ = __invert__ = _alone

    def __repr__(self) -> str:
        return f"<{self.dtype} {self}>"

    def __str__(self) -> str:
        return spell(self)

    def __reduce__(self) -> tuple[Callable[..., Value], tuple[Any, ...]]:
        return _rebuild_pickled, (self.op, self.args, self.dtype, self.attr)

    def __bool__(self) -> bool:
        raise TypeError(f"truth of {self}: a Value has no value while tracing. Use select(condition, a, b).")

    def digest(self) -> bytes:
        """16 bytes that name this expression, the same in every process."""
        if self._digest is None:
            for node in walk((self,)):
                if node._digest is None:
                    head = f"{node.op} {node.dtype} {node.attr!r} ".encode()
                    body = b"".join([a._digest for a in node.args])
                    _set_digest(node, digest(head + body))
        return self._digest

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Value is immutable, cannot set {name}")


_new = object.__new__
_set_op, _set_args, _set_dtype, _set_attr, _set_digest = (
    vars(Value)[slot].__set__ for slot in ("op", "args", "dtype", "attr", "_digest")
)


def node(op: str, args: tuple[Value, ...], dtype: str, attr: object = None) -> Value:
    """The one node with this structure; no simplification."""
    # Arguments outlive the node that holds them, so their ids cannot be reused while the key is alive.
    return _intern((op, dtype, attr, *map(id, args)), op, args, dtype, attr)


def _intern(key: tuple, op: str, args: tuple[Value, ...], dtype: str, attr: object) -> Value:
    ref = _NODES.get(key)
    if ref is not None and (found := ref()) is not None:
        return found
    result = _new(Value)
    _set_op(result, op)
    _set_args(result, args)
    _set_dtype(result, dtype)
    _set_attr(result, attr)
    _set_digest(result, None)
    ref = _Ref(result, _forget)
    ref.key = key
    _NODES[key] = ref
    return result


class _Ref(weakref.ref):
    __slots__ = ("key",)

    key: tuple


def _forget(ref: _Ref) -> None:
    # A new node may already sit under the key: only the dead one is removed.
    if _NODES.get(ref.key) is ref:
        del _NODES[ref.key]


def _rebuild_pickled(op: str, args: tuple[Value, ...], dtype: str, attr: Any) -> Value:
    return const(attr, dtype) if op == "const" else node(op, args, dtype, attr)


# Leaves


def round_to(value: float, dtype: str) -> float:
    """`value` as a constant of `dtype` holds it: rounded, wrapped or tested."""
    if dtype == "f64":
        return float(value)
    if dtype in INTS:
        bits = BITS[dtype]
        wrapped = int(value) & ((1 << bits) - 1)
        return wrapped - (1 << bits) if dtype[0] == "i" and wrapped >> (bits - 1) else wrapped
    if dtype == "b1":
        return bool(value)
    value = float(value)
    code = {"f32": "f", "f16": "e"}.get(dtype)
    if code is None or not math.isfinite(value):
        return value
    try:
        return struct.unpack(code, struct.pack(code, value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def const(value: Number, dtype: str) -> Value:
    """The constant `value` in `dtype`; a complex dtype gives a pair of real constants."""
    if dtype in PART:
        whole, part = complex(value), PART[dtype]
        return complex_(const(whole.real, part), const(whole.imag, part))
    if isinstance(value, complex):
        raise TypeError(f"const: {value} is complex, got dtype {dtype}")
    value = round_to(value, dtype)
    # 0.0 == -0.0 and 1 == True as dict keys, and NaN is equal to nothing: name these apart.
    tag: str | None
    if value != value:
        value, tag = math.nan, "nan"
    else:
        tag = "-0" if value == 0 and math.copysign(1.0, value) < 0 else None
    return _intern(("const", dtype, value if tag is None else tag), "const", (), dtype, value)


def arg(index: int, dtype: str) -> Value:
    """Element of operand `index` at the current point."""
    return node("arg", (), dtype, index)


def var(name: str, dtype: str = "i64") -> Value:
    """Loop variable, local or run-time parameter."""
    return node("var", (), dtype, name)


def load(operand: int, index: Value, dtype: str) -> Value:
    """Element of operand `operand` at the computed element index."""
    return node("load", (index,), dtype, operand)


def table(index: Value, numbers: Iterable[float], dtype: str) -> Value:
    """Element `index` of a constant array; the index must be in range."""
    values = tuple(round_to(v, dtype) for v in numbers)
    if index.op == "const":
        return const(values[index.attr], dtype)
    return node("table", (index,), dtype, values)


def call(name: str, *args: Value, dtype: str | None = None) -> Value:
    """A named function, kept whole until `math.lower` replaces it with primitives."""
    return node("call", args, dtype or args[0].dtype, name)


# Agreement of operands


def match(op: str, *items: Value | Number) -> tuple[Value, ...]:
    """Operands as Values of one dtype: numbers take the Values' dtype, a real meets a complex of its precision."""
    shared, numbers = None, False
    for item in items:
        if type(item) is not Value:
            numbers = True
        elif shared is None:
            shared = item.dtype
        elif item.dtype != shared:
            break
    else:
        if not numbers:
            return items   # type: ignore[return-value]   # no number is among them
        if shared is not None:
            return tuple([i if type(i) is Value else number(op, i, shared) for i in items])
    dtypes = {i.dtype for i in items if isinstance(i, Value)}
    if len(dtypes) == 2:
        whole = next((d for d in dtypes if d in PART), None)
        if whole and dtypes == {whole, PART[whole]}:
            items = tuple(cast(i, whole) if isinstance(i, Value) else i for i in items)
            dtypes = {whole}
    if len(dtypes) != 1:
        raise TypeError(f"{op}: operands must share a dtype, got {sorted(dtypes)}. Cast one of them.")
    (whole,) = dtypes
    return tuple([i if isinstance(i, Value) else number(op, i, whole) for i in items])


def number(op: str, value: Number, dtype: str) -> Value:
    """A Python number that met a Value of `dtype`; refuses what the dtype cannot mean."""
    if isinstance(value, complex) and dtype in WHOLE:
        raise TypeError(f"{op}: complex number {value} met {dtype}. Cast the Value to {WHOLE[dtype]} first.")
    if isinstance(value, float) and (dtype in INTS or dtype == "b1") and value != int(value):
        raise TypeError(f"{op}: {value} is no {dtype}. Cast the Value to a floating dtype first.")
    return const(value, dtype)


def is_const(value: Value, number: Number | None = None) -> bool:
    """Whether `value` is a constant (equal to `number`; either zero matches 0)."""
    return value.op == "const" and (number is None or value.attr == number)


def _folds(a: Value, b: Value | None = None) -> bool:
    # Half and byte floats are storage only; folding in their precision is nobody's need.
    if a.op != "const" or (b is not None and b.op != "const"):
        return False
    return a.dtype not in ("f16", "bf16", *BYTE_FLOATS)


# Arithmetic


def _real_meets_complex(a: Value | Number, b: Value | Number) -> TypeGuard[Value]:
    """Whether b is a real number and a complex: then only a's parts are touched, and no -0.0 or inf is lost."""
    if type(a) is not Value or a.dtype not in PART:
        return False
    return b.dtype == PART[a.dtype] if type(b) is Value else type(b) is not complex


def add(a: Value | Number, b: Value | Number) -> Value:
    if _real_meets_complex(a, b):
        return complex_(add(real(a), b), imag(a))
    if _real_meets_complex(b, a):
        return complex_(add(a, real(b)), imag(b))
    a, b = match("add", a, b)
    if a.dtype in PART:
        return complex_(add(real(a), real(b)), add(imag(a), imag(b)))
    if a.dtype == "b1":
        return or_(a, b)
    if _folds(a, b):
        return const(a.attr + b.attr, a.dtype)
    for x, y in ((a, b), (b, a)):
        # -0.0 is the neutral element of float addition; +0.0 would turn -0.0 into +0.0.
        if is_const(y, 0) and (a.dtype in INTS or math.copysign(1.0, y.attr) < 0):
            return x
    if b.op == "neg" and a.op != "neg":
        return sub(a, b.args[0])
    if a.op == "neg" and b.op != "neg":
        return sub(b, a.args[0])
    return node("add", (a, b), a.dtype)


def sub(a: Value | Number, b: Value | Number) -> Value:
    if _real_meets_complex(a, b):
        return complex_(sub(real(a), b), imag(a))
    if _real_meets_complex(b, a):
        return complex_(sub(a, real(b)), neg(imag(b)))
    a, b = match("sub", a, b)
    if a.dtype in PART:
        return complex_(sub(real(a), real(b)), sub(imag(a), imag(b)))
    if a.dtype == "b1":
        return xor(a, b)
    if _folds(a, b):
        return const(a.attr - b.attr, a.dtype)
    if is_const(b, 0) and (a.dtype in INTS or math.copysign(1.0, b.attr) > 0):
        return a
    if is_const(a, 0) and (a.dtype in INTS or math.copysign(1.0, a.attr) < 0):
        return neg(b)
    if b.op == "neg":
        return add(a, b.args[0])
    if a is b and a.dtype in INTS:
        return const(0, a.dtype)
    return node("sub", (a, b), a.dtype)


def mul(a: Value | Number, b: Value | Number) -> Value:
    if _real_meets_complex(a, b):
        return complex_(mul(real(a), b), mul(imag(a), b))
    if _real_meets_complex(b, a):
        return complex_(mul(a, real(b)), mul(a, imag(b)))
    a, b = match("mul", a, b)
    if a.dtype in PART:
        ar, ai, br, bi = real(a), imag(a), real(b), imag(b)
        return complex_(sub(mul(ar, br), mul(ai, bi)), add(mul(ar, bi), mul(ai, br)))
    if a.dtype == "b1":
        return and_(a, b)
    if _folds(a, b):
        return const(a.attr * b.attr, a.dtype)
    for x, y in ((a, b), (b, a)):
        if y.op == "const":
            if y.attr == 1:
                return x
            if y.attr == -1:
                return neg(x)
            if y.attr == 0 and a.dtype in INTS:
                return y
    if a.op == "neg" and b.op == "neg":
        return mul(a.args[0], b.args[0])
    return node("mul", (a, b), a.dtype)


def div(a: Value | Number, b: Value | Number) -> Value:
    """True division of floats and complex numbers."""
    if _real_meets_complex(a, b):
        return complex_(div(real(a), b), div(imag(a), b))
    a, b = match("div", a, b)
    if a.dtype in PART:
        return _complex_div(a, b)
    if a.dtype not in FLOATS:
        raise TypeError(f"div: needs a floating dtype, got {a.dtype}. Use floor_divide or trunc_divide.")
    if _folds(a, b) and b.attr != 0:
        return const(a.attr / b.attr, a.dtype)
    if is_const(b, 1):
        return a
    if is_const(b, -1):
        return neg(a)
    if b.op == "const" and abs(math.frexp(b.attr)[0]) == 0.5 and 2.0**-64 < abs(b.attr) < 2.0**64:
        return mul(a, 1.0 / b.attr)  # a power of two: exact
    return node("div", (a, b), a.dtype)


def near_div(a: Value | Number, b: Value | Number) -> Value:
    """A quotient of floats that may be off by a unit or two in the last place, where a target divides faster so."""
    result = div(a, b)
    return node("div", result.args, result.dtype, "near") if result.op == "div" and result.dtype == "f32" else result


def _complex_div(a: Value, b: Value) -> Value:
    # Scaling by the larger part keeps |b|**2 from overflowing; 0 falls through to part / 0.
    ar, ai, br, bi = real(a), imag(a), real(b), imag(b)
    if is_const(bi, 0):
        return complex_(div(ar, br), div(ai, br))
    flip = lt(abs_(br), abs_(bi))
    large, small = select(flip, bi, br), select(flip, br, bi)
    zero, none = eq(br, 0) & eq(bi, 0), const(0, large.dtype)
    ratio = select(zero, none, div(small, large))
    down = select(zero, abs_(large), add(large, mul(small, ratio)))
    first, second = select(flip, ai, ar), select(flip, ar, ai)
    across = select(zero, none, mul(first, ratio))   # 0 even where `first` is infinite
    re = add(first, select(zero, none, mul(second, ratio)))
    im = select(flip, sub(across, second), sub(second, across))   # not negated afterwards: a zero keeps its sign
    return complex_(div(re, down), div(im, down))


def idiv(a: Value | Number, b: Value | Number) -> Value:
    """Integer division towards zero; by zero gives 0."""
    a, b = match("idiv", a, b)
    if is_const(b, 1):
        return a
    if _folds(a, b):
        q = 0 if b.attr == 0 else abs(a.attr) // abs(b.attr)
        return const(q if (a.attr < 0) == (b.attr < 0) else -q, a.dtype)
    return node("idiv", (a, b), a.dtype)


def irem(a: Value | Number, b: Value | Number) -> Value:
    """Remainder of `idiv`, with the sign of `a`; by zero gives 0."""
    a, b = match("irem", a, b)
    if is_const(b, 1):
        return const(0, a.dtype)
    if _folds(a, b):
        r = 0 if b.attr == 0 else abs(a.attr) % abs(b.attr)
        return const(-r if a.attr < 0 else r, a.dtype)
    return node("irem", (a, b), a.dtype)


def floor_divide(a: Value | Number, b: Value | Number) -> Value:
    """Quotient rounded down, as Python's `//`."""
    a, b = match("floor_divide", a, b)
    if a.dtype in FLOATS:
        return call("floor_divide", a, b)
    q, left = idiv(a, b), irem(a, b)
    return q if a.dtype in UNSIGNED else select(and_(ne(left, 0), lt(xor(left, b), 0)), sub(q, 1), q)


def remainder(a: Value | Number, b: Value | Number) -> Value:
    """Python's `%`: the sign of `b`."""
    a, b = match("remainder", a, b)
    left = call("fmod", a, b) if a.dtype in FLOATS else irem(a, b)
    if a.dtype in UNSIGNED:
        return left
    apart = ne(lt(b, 0), lt(left, 0)) if a.dtype in FLOATS else lt(xor(left, b), 0)
    return select(and_(ne(left, 0), apart), add(left, b), left)


def neg(a: Value) -> Value:
    if a.dtype in PART:
        return complex_(neg(real(a)), neg(imag(a)))
    if a.op == "neg":
        return a.args[0]
    if _folds(a):
        return const(-a.attr, a.dtype)
    if a.op == "sub" and a.dtype in INTS:
        return sub(a.args[1], a.args[0])
    return node("neg", (a,), a.dtype)


def abs_(a: Value) -> Value:
    """Magnitude; of a complex number, a real."""
    if a.dtype in PART:
        return call("abs", a, dtype=PART[a.dtype])
    if a.dtype in UNSIGNED or a.dtype == "b1":
        return a
    if _folds(a):
        return const(abs(a.attr), a.dtype)
    if a.op == "neg":
        return abs_(a.args[0])
    return a if a.op == "abs" else node("abs", (a,), a.dtype)


def fma(a: Value | Number, b: Value | Number, c: Value | Number) -> Value:
    """a * b + c with one rounding."""
    a, b, c = match("fma", a, b, c)
    if is_const(c, 0) and math.copysign(1.0, c.attr) < 0:
        return mul(a, b)
    if is_const(a, 1):
        return add(b, c)
    if is_const(b, 1):
        return add(a, c)
    return node("fma", (a, b, c), a.dtype)


def _extreme(op: str, a: Value | Number, b: Value | Number) -> Value:
    a, b = match(op, a, b)
    if a.dtype in PART:
        raise TypeError(f"{op}: complex numbers have no order, got {a.dtype}")
    if a.dtype == "b1":
        return and_(a, b) if op == "min" else or_(a, b)
    if a is b:
        return a
    if _folds(a, b):
        return a if (a.attr < b.attr if op == "min" else a.attr > b.attr) else b
    return node(op, (a, b), a.dtype)


def min_(a: Value | Number, b: Value | Number) -> Value:
    """a < b ? a : b, so a NaN in either gives b."""
    return _extreme("min", a, b)


def max_(a: Value | Number, b: Value | Number) -> Value:
    """a > b ? a : b, so a NaN in either gives b."""
    return _extreme("max", a, b)


def sqrt(a: Value) -> Value:
    """Square root of a float; a negative gives NaN."""
    if _folds(a) and a.attr >= 0:
        return const(math.sqrt(a.attr), a.dtype)
    return node("sqrt", (a,), a.dtype)


def _rounding(op: str, rule: Callable[[float], float]) -> Callable[[Value], Value]:
    def build(a: Value) -> Value:
        if a.dtype not in FLOATS:
            return a
        if _folds(a) and math.isfinite(a.attr):
            return const(math.copysign(float(rule(a.attr)), a.attr), a.dtype)
        return a if a.op in ("floor", "ceil", "trunc", "rint") else node(op, (a,), a.dtype)

    build.__name__, build.__doc__ = op, f"`{op}` of a float; an integer is returned as it is."
    return build


floor = _rounding("floor", math.floor)
ceil = _rounding("ceil", math.ceil)
trunc = _rounding("trunc", math.trunc)
rint = _rounding("rint", round)


def copysign(a: Value | Number, b: Value | Number) -> Value:
    """The magnitude of `a` with the sign bit of `b`."""
    a, b = match("copysign", a, b)
    if _folds(a, b):
        return const(math.copysign(a.attr, b.attr), a.dtype)
    if a.op in ("neg", "abs"):
        a = a.args[0]
    return node("copysign", (a, b), a.dtype)


# Bits


def _bitwise(op: str, rule: Callable[[int, int], int]) -> Binary:
    def build(a: Value | Number, b: Value | Number) -> Value:
        a, b = match(op, a, b)
        if a.dtype not in INTS and a.dtype != "b1":
            raise TypeError(f"{op}: needs integers or booleans, got {a.dtype}")
        if _folds(a, b):
            return const(rule(a.attr, b.attr), a.dtype)
        if a is b:
            return const(0, a.dtype) if op == "xor" else a
        ones = True if a.dtype == "b1" else round_to(-1, a.dtype)
        for x, y in ((a, b), (b, a)):
            if is_const(y, 0):
                return y if op == "and" else x
            if is_const(y, ones):
                return x if op == "and" else y if op == "or" else not_(x)
        return node(op, (a, b), a.dtype)

    build.__name__, build.__doc__ = op + "_", f"Bitwise `{op}` of integers, logical of booleans."
    return build


and_ = _bitwise("and", lambda a, b: a & b)
or_ = _bitwise("or", lambda a, b: a | b)
xor = _bitwise("xor", lambda a, b: a ^ b)

_OPPOSITE = {"eq": "ne", "ne": "eq"}


def not_(a: Value) -> Value:
    """Logical for booleans, bitwise for integers."""
    if a.dtype not in INTS and a.dtype != "b1":
        raise TypeError(f"not: needs integers or booleans, got {a.dtype}")
    if _folds(a):
        return const(not a.attr if a.dtype == "b1" else ~a.attr, a.dtype)
    if a.op == "not":
        return a.args[0]
    if a.op in _OPPOSITE:
        return node(_OPPOSITE[a.op], a.args, "b1")
    return node("not", (a,), a.dtype)


def _shift(op: str, rule: Callable[[int, int], int]) -> Binary:
    def build(a: Value | Number, b: Value | Number) -> Value:
        a, b = match(op, a, b)
        if _folds(a, b) and 0 <= b.attr < BITS[a.dtype]:
            return const(rule(a.attr, b.attr), a.dtype)
        return a if is_const(b, 0) else node(op, (a, b), a.dtype)

    build.__name__ = op
    build.__doc__ = f"`{op}`, arithmetic if signed; a count outside [0, bits) is the caller's to guard."
    return build


shl = _shift("shl", lambda a, b: a << b)
shr = _shift("shr", lambda a, b: a >> b)


# Comparison and choice


def _comparison(op: str, rule: Callable[[Any, Any], bool]) -> Binary:
    def build(a: Value | Number, b: Value | Number) -> Value:
        a, b = match(op, a, b)
        if a.dtype in PART:
            if op not in _OPPOSITE:
                raise TypeError(f"{op}: complex numbers have no order, got {a.dtype}")
            join = and_ if op == "eq" else or_
            return join(build(real(a), real(b)), build(imag(a), imag(b)))
        if _folds(a, b):
            return const(rule(a.attr, b.attr), "b1")
        if a is b and a.dtype not in FLOATS:
            return const(op in ("eq", "le", "ge"), "b1")
        if a.dtype == "b1" and op in _OPPOSITE:
            for x, y in ((a, b), (b, a)):
                if y.op == "const":
                    return x if y.attr == (op == "eq") else not_(x)
        return node(op, (a, b), "b1")

    build.__name__, build.__doc__ = op, f"`{op}`: b1; false for a NaN, except `ne`."
    return build


lt = _comparison("lt", lambda a, b: a < b)
le = _comparison("le", lambda a, b: a <= b)
gt = _comparison("gt", lambda a, b: a > b)
ge = _comparison("ge", lambda a, b: a >= b)
eq = _comparison("eq", lambda a, b: a == b)
ne = _comparison("ne", lambda a, b: a != b)


def select(condition: Value, a: Value | Number, b: Value | Number, rare: bool = False) -> Value:
    """`a` where the condition holds, else `b`; `rare` says the condition almost never holds."""
    if condition.dtype != "b1":
        raise TypeError(f"select: the condition must be b1, got {condition.dtype}")
    a, b = match("select", a, b)
    if condition.op == "const":
        return a if condition.attr else b
    if a is b:
        return a
    if a.dtype in PART:
        return complex_(select(condition, real(a), real(b), rare), select(condition, imag(a), imag(b), rare))
    if condition.op == "not" and not rare:
        return select(condition.args[0], b, a)
    if a.dtype == "b1" and a.op == "const" and b.op == "const":
        return condition if a.attr else not_(condition)
    return node("select", (condition, a, b), a.dtype, "rare" if rare else None)


# Conversion


def cast(a: Value, dtype: str) -> Value:
    """Value conversion, as C converts: towards zero into integers, `!= 0` into b1, real part out of complex."""
    if a.dtype == dtype:
        return a
    if dtype in PART:
        part = PART[dtype]
        if a.dtype in PART:
            return complex_(cast(real(a), part), cast(imag(a), part))
        return complex_(cast(a, part), const(0, part))
    if dtype == "b1":
        return ne(cast(a, "f32") if a.dtype == "f8e8m0fnu" else a, 0)   # a format without 0
    if a.dtype in PART:
        return cast(real(a), dtype)
    if a.op == "const" and (dtype in FLOATS or math.isfinite(a.attr)) and dtype not in ("bf16", *BYTE_FLOATS):
        return const(a.attr, dtype)
    return node("cast", (a,), dtype)


def bitcast(a: Value, dtype: str) -> Value:
    """The same bits read as another dtype of the same width."""
    if a.dtype == dtype:
        return a
    if BITS[a.dtype] != BITS[dtype]:
        raise TypeError(f"bitcast: widths differ, {a.dtype} to {dtype}")
    if a.op == "bitcast":
        return bitcast(a.args[0], dtype)
    if a.op == "const" and {a.dtype, dtype} <= _CODES.keys():
        return const(struct.unpack(_CODES[dtype], struct.pack(_CODES[a.dtype], a.attr))[0], dtype)
    return node("bitcast", (a,), dtype)


_CODES = {"f32": "f", "i32": "i", "u32": "I", "f64": "d", "i64": "q", "u64": "Q", "f16": "e", "i16": "h", "u16": "H"}


def complex_(re: Value | Number, im: Value | Number) -> Value:
    """The pair of two real floats."""
    re, im = match("complex", re, im)
    if re.dtype not in WHOLE:
        raise TypeError(f"complex: parts must be f32 or f64, got {re.dtype}")
    if re.op == "real" and im.op == "imag" and re.args[0] is im.args[0]:
        return re.args[0]
    return node("complex", (re, im), WHOLE[re.dtype])


def real(a: Value) -> Value:
    """The real part; a real number is its own."""
    if a.dtype not in PART:
        return a
    return a.args[0] if a.op == "complex" else node("real", (a,), PART[a.dtype])


def imag(a: Value) -> Value:
    """The imaginary part; 0 of a real number."""
    if a.dtype not in PART:
        return const(0, a.dtype)
    return a.args[1] if a.op == "complex" else node("imag", (a,), PART[a.dtype])


# Whole expressions

BUILD: dict[str, Callable[..., Value]] = {
    "add": add, "sub": sub, "mul": mul, "div": div, "idiv": idiv, "irem": irem, "neg": neg, "abs": abs_, "fma": fma,
    "min": min_, "max": max_, "sqrt": sqrt, "floor": floor, "ceil": ceil, "trunc": trunc, "rint": rint,
    "copysign": copysign, "and": and_, "or": or_, "xor": xor, "not": not_, "shl": shl, "shr": shr, "lt": lt, "le": le,
    "gt": gt, "ge": ge, "eq": eq, "ne": ne, "complex": complex_, "real": real, "imag": imag,
}
for _name, _build in {
    "add": add, "sub": sub, "mul": mul, "truediv": div, "floordiv": floor_divide, "mod": remainder, "and": and_,
    "or": or_, "xor": xor, "lshift": shl, "rshift": shr,
}.items():
    setattr(Value, f"__{_name}__", _build)
    setattr(Value, f"__r{_name}__", lambda self, other, build=_build: build(other, self))
for _name in ("neg", "abs", "not", "lt", "le", "gt", "ge"):
    setattr(Value, f"__{'invert' if _name == 'not' else _name}__", lambda *args, build=BUILD[_name]: build(*args))
PRIMITIVES = frozenset(BUILD) | {"select", "cast", "bitcast", "table"}
LEAVES = frozenset(("arg", "const", "var", "load"))


def rebuild(old: Value, args: tuple[Value, ...]) -> Value:
    """`old` with other arguments, simplified again."""
    op = old.op
    if op in BUILD:
        return near_div(*args) if old.attr == "near" else BUILD[op](*args)
    if op == "select":
        return select(args[0], args[1], args[2], old.attr == "rare")
    if op == "cast":
        return cast(args[0], old.dtype)
    if op == "bitcast":
        return bitcast(args[0], old.dtype)
    if op == "table":
        return table(args[0], old.attr, old.dtype)
    return node(op, args, old.dtype, old.attr)


def rewrite(values: Iterable[Value], rule: Callable[[Value], Value | None]) -> list[Value]:
    """`values` with `rule` applied bottom-up to every node; None keeps the node."""
    values = list(values)
    done: dict[Value, Value] = {}
    for old in walk(values):
        new = old
        if old.args:
            args = tuple([done[a] for a in old.args])
            if args != old.args:
                new = rebuild(old, args)
        changed = rule(new)
        done[old] = new if changed is None else changed
    return [done[v] for v in values]


def replace(value: Value, mapping: Mapping[Value, Value]) -> Value:
    """`value` with every subexpression that is a key of `mapping` exchanged, largest first."""
    return replace_all((value,), mapping)[0]


def replace_all(values: Iterable[Value], mapping: Mapping[Value, Value]) -> list[Value]:
    """`replace` over several values that share subexpressions."""
    values = list(values)
    done: dict[Value, Value] = dict(mapping)
    for old in walk(values):
        if old not in done:
            args = tuple([done[a] for a in old.args])
            done[old] = old if args == old.args else rebuild(old, args)
    return [done[v] for v in values]


def operands(values: Iterable[Value]) -> dict[int, str]:
    """The operands read: index to dtype."""
    return {v.attr: v.dtype for v in walk(values) if v.op in ("arg", "load")}
