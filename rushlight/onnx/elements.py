"""Pointwise ops as ONNX nodes, from their definitions: the expression of one element is a graph of scalar functions,
and ONNX has a node for nearly every one of them.

Enters: a pointwise definition and its bound arguments. Leaves: the results. No pointwise op needs a rule of its own:
types are promoted by the definition, broadcasting is the nodes' own. Where a definition names an operator (`onnx =
"Softplus"`) that means the same, that one node stands for the expression. Named functions that ONNX has not are
expanded as they are for kernels. Complex numbers are computed with part by part.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import _C
from ..loops import expr
from ..loops.lowered import compute_code
from ..loops.math.expand import expand
from ..op.pack import BY_CODE
from ..op.pointwise import Pointwise
from ..op.schema import OPERAND_TYPES
from .bits import seen_as
from .building import Builder
from .model import Value
from .pairs import REAL, Pair, joined, parts, whole

NARROW = {"i8": "i32", "i16": "i32", "u8": "i32", "u16": "i32"}      # runtimes compute with 32 and 64 bits
MOST_NODES = 2000                                                    # of one op's expression


class NotPointwise(NotImplementedError):
    """An expression that ONNX has no nodes for."""


def pointwise(g: Builder, definition: Pointwise, args: tuple, given: tuple) -> list[Value]:
    """The results of an op. `args`: as the definition takes them, tensors as fakes; `given`: the same, as Values."""
    operands = definition.operand_indices(args)
    common = definition.promoted(definition.common_dtype(args, operands), args)
    if definition.returns_itself(args):
        return [given[0]]
    whole = None if common.is_complex else _one_node(g, definition, args, given, operands, common)
    if whole is not None:
        return [whole]
    compute = compute_code(common.code) if definition.upcast else common.code
    values, in_dtypes = definition.leaves(args, operands, compute, common.code)
    leaves = {}
    for k, (i, d) in enumerate(zip(operands, in_dtypes, strict=True)):
        leaves[k] = _leaf(g, given[i], d)
    outs = definition.outputs(values)
    dtypes = [definition.output_dtype(common, args, k, out) for k, out in enumerate(outs)]
    results = Expression(g, leaves).all(outs)
    tensors = {k: v for k, v in leaves.items() if isinstance(given[operands[k]], (Value, Pair))}
    return [_settled(g, _spread(g, r, out, tensors), d) for r, out, d in zip(results, outs, dtypes, strict=True)]


Element = Value | tuple[Value, Value]      # complex numbers are their parts


def _leaf(g: Builder, given: Any, dtype: Any) -> Element:
    if isinstance(given, Pair):
        return parts(g, given)
    if isinstance(given, Value):
        return given
    if dtype.is_complex:
        number = complex(given)
        return g.constant(number.real, REAL[dtype.code]), g.constant(number.imag, REAL[dtype.code])
    return g.scalar(given, dtype)


def _settled(g: Builder, result: Element, dtype: Any) -> Any:
    """A result of an op in its type."""
    if isinstance(result, tuple):
        return joined(g, *result, dtype) if dtype.is_complex else g.cast(result[0], dtype)
    return whole(g, result, dtype) if dtype.is_complex else g.cast(result, dtype)


def _spread(g: Builder, result: Element, root: expr.Value, tensors: dict[int, Element]) -> Element:
    """A result that does not depend on every operand still has the shape of all of them."""
    if isinstance(result, tuple):
        return _spread(g, result[0], root, tensors), result[1]
    used = {e.attr for e in expr.walk((root,)) if e.op == "arg"}
    for k, v in tensors.items():
        if k not in used:
            like = v[0] if isinstance(v, tuple) else v
            result = g.node("Expand", result, g.node("Shape", like, dtype=_C.int64))
    return result


# Operators that mean the same as the definition that names them, for all arguments of floating types.
_SAME = frozenset(
    "Relu Sigmoid Tanh Exp Log Sqrt Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh Erf Floor Ceil Round Abs "
    "Neg Reciprocal Sign Softsign Mish Not And Or Xor IsNaN Add Sub Mul Equal Less LessOrEqual Greater GreaterOrEqual "
    "Where".split()
)
_BOOLEAN = frozenset("Not And Or Xor IsNaN Equal Less LessOrEqual Greater GreaterOrEqual".split())
_HAS_INTEGERS = frozenset("Abs Neg Sign Add Sub Mul Equal Less LessOrEqual Greater GreaterOrEqual Where".split())


def _one_node(g: Builder, definition: Pointwise, args: tuple, given: tuple, operands: list[int],
              common: Any) -> Value | None:
    """The operator that the definition names, where it means the same for these arguments."""
    op = getattr(definition, "onnx", None)
    if op not in _SAME or common.code in NARROW or (op == "Mish" and g.opset < 18):
        return None
    params = definition.spec.params
    rest = [i for i in range(len(params)) if i not in operands]
    if any(args[i] != params[i].default for i in rest):
        return None
    if any(params[i].type not in OPERAND_TYPES for i in operands):
        return None
    scale = [i for i in operands if params[i].name in ("alpha", "decimals")]
    if any(not isinstance(args[i], (int, float)) or args[i] != params[i].default for i in scale):
        return None
    operands = [i for i in operands if i not in scale]
    logical = op in ("Not", "And", "Or", "Xor")
    if not logical and not common.is_floating_point and op not in _HAS_INTEGERS:
        return None
    if common.code == "b1" and not logical and op != "Where":
        return None
    kind = _C.bool if logical else common
    inputs = []
    for i in operands:
        own = _C.bool if op == "Where" and params[i].name == "condition" else kind
        if logical and (not isinstance(given[i], Value) or given[i].dtype is not _C.bool):
            return None
        inputs.append(g.cast(given[i], own) if isinstance(given[i], Value) else g.scalar(given[i], own))
    return g.where(*inputs) if op == "Where" else g.node(op, *inputs, dtype=_C.bool if op in _BOOLEAN else common)


class Expression:
    """Expressions over leaves, as nodes."""

    def __init__(self, g: Builder, leaves: dict[int, Element]) -> None:
        self.g, self.leaves = g, leaves
        self.done: dict[expr.Value, Any] = {}

    def all(self, roots: list[expr.Value]) -> list[Element]:
        return [self.of(root) for root in roots]

    def of(self, root: expr.Value) -> Any:
        for node in expr.walk((root,)):
            if node not in self.done:
                if len(self.done) > MOST_NODES:
                    raise NotPointwise(f"its expression takes more than {MOST_NODES} nodes")
                self.done[node] = self.one(node)
        return self.done[root]

    def one(self, e: expr.Value) -> Any:
        if e.op == "arg":
            return self.leaves[e.attr]
        if e.op == "const" and e.dtype not in expr.COMPLEX:
            return self.g.constant(e.attr, BY_CODE[e.dtype])
        args = [self.done[a] for a in e.args]
        if e.op == "call":
            return self.function(e, args)
        if e.op in ("real", "imag"):
            return args[0][e.op == "imag"]
        if e.op == "complex":
            return tuple(args)
        if e.dtype in expr.COMPLEX or any(a.dtype in expr.COMPLEX for a in e.args):
            raise NotPointwise(f"{e.op!r} of complex numbers has no ONNX operator")
        if e.op == "cast":
            return self.cast(e, args[0])
        if e.op == "bitcast":
            return seen_as(self.g, args[0], BY_CODE[e.dtype])
        rule = _OPS.get(e.op)
        if rule is None:
            raise NotPointwise(f"{e.op!r} of numbers' bits has no ONNX operator")
        of = e.args[-1].dtype                      # a select's first operand is its condition
        if of in NARROW:
            wide = BY_CODE[NARROW[of]]
            result = rule(self.g, [a if a.dtype is _C.bool else self.g.cast(a, wide) for a in args], e)
            return result if e.dtype == "b1" else self.g.cast(result, BY_CODE[e.dtype])
        return rule(self.g, args, e)

    def cast(self, e: expr.Value, x: Value) -> Value:
        return self.g.cast(x, BY_CODE[e.dtype])

    def function(self, e: expr.Value, args: list[Any]) -> Any:
        rule = None if any(a.dtype in expr.COMPLEX for a in e.args) else _FUNCTIONS.get(str(e.attr))
        if rule is not None:
            return rule(self.g, args, e)
        try:
            inner = expand(str(e.attr), e.args, e.dtype)
        except NotImplementedError as error:
            raise NotPointwise(str(error)) from error
        return self.of(inner)


Rule = Callable[[Builder, list[Value], expr.Value], Value]


def _plain(op: str) -> Rule:
    return lambda g, args, e: g.node(op, *args)


def _compare(op: str) -> Rule:
    return lambda g, args, e: g.node(op, *args, dtype=_C.bool)


def _on_bits(logical: str, bitwise: str) -> Rule:
    return lambda g, args, e: g.node(logical if e.dtype == "b1" else bitwise, *args)


def _number(g: Builder, value: float, like: Value) -> Value:
    return g.constant(value, like.dtype)


def _trunc(g: Builder, args: list[Value], e: expr.Value) -> Value:
    x = args[0]
    down, up = g.node("Floor", x), g.node("Ceil", x)
    return g.node("Where", g.node("Less", x, _number(g, 0.0, x), dtype=_C.bool), up, down, dtype=x.dtype)


def _extreme(compare: str) -> Rule:
    def rule(g: Builder, args: list[Value], e: expr.Value) -> Value:
        return g.node("Where", g.node(compare, *args, dtype=_C.bool), *args, dtype=args[0].dtype)

    return rule


def _not_equal(g: Builder, args: list[Value], e: expr.Value) -> Value:
    return g.node("Not", g.node("Equal", *args, dtype=_C.bool))


def _is_negative(g: Builder, x: Value) -> Value:
    """Whether the sign bit is set: of -0.0 too, whose reciprocal is negative."""
    zero = _number(g, 0.0, x)
    below = g.node("Less", x, zero, dtype=_C.bool)
    inverse = g.node("Less", g.node("Reciprocal", x), zero, dtype=_C.bool)
    return g.node("Or", below, g.node("And", g.node("Equal", x, zero, dtype=_C.bool), inverse))


def _copysign(g: Builder, args: list[Value], e: expr.Value) -> Value:
    size = g.node("Abs", args[0])
    return g.node("Where", _is_negative(g, args[1]), g.node("Neg", size), size, dtype=size.dtype)


def _shift(direction: str) -> Rule:
    def rule(g: Builder, args: list[Value], e: expr.Value) -> Value:
        if e.dtype in expr.UNSIGNED and e.dtype not in NARROW:
            return g.node("BitShift", *args, direction=direction)
        # Signed numbers: by powers of two. A quotient that is rounded down is what shifting the sign in gives.
        factor = g.node("Pow", _number(g, 2, args[1]), args[1])
        if direction == "LEFT":
            return g.node("Mul", args[0], factor)
        quotient = g.node("Div", args[0], factor)
        left = g.node("Sub", args[0], g.node("Mul", quotient, factor))
        below = g.node("Less", left, _number(g, 0, left), dtype=_C.bool)
        return g.node("Sub", quotient, g.cast(below, quotient.dtype))

    return rule


def _table(g: Builder, args: list[Value], e: expr.Value) -> Value:
    values = g.constant(list(e.attr), BY_CODE[e.dtype])
    return g.node("Gather", values, g.cast(args[0], _C.int64), dtype=values.dtype, axis=0)


def _of_nonzero(op: str, **settings: Any) -> Rule:
    """Division of integers: by 0 it gives 0, where a runtime might stop the process."""

    def rule(g: Builder, args: list[Value], e: expr.Value) -> Value:
        a, b = args
        if e.args[1].op == "const" and e.args[1].attr:
            return g.node(op, a, b, **settings)
        none = g.node("Equal", b, _number(g, 0, b), dtype=_C.bool)
        found = g.node(op, a, g.node("Where", none, _number(g, 1, b), b, dtype=b.dtype), **settings)
        return g.node("Where", none, _number(g, 0, b), found, dtype=a.dtype)

    return rule


_OPS: dict[str, Rule] = {
    "add": _plain("Add"), "sub": _plain("Sub"), "mul": _plain("Mul"), "div": _plain("Div"),
    "idiv": _of_nonzero("Div"), "irem": _of_nonzero("Mod", fmod=1),
    "neg": _plain("Neg"), "abs": _plain("Abs"), "sqrt": _plain("Sqrt"),
    "fma": lambda g, args, e: g.node("Add", g.node("Mul", args[0], args[1]), args[2]),
    "min": _extreme("Less"), "max": _extreme("Greater"),
    "floor": _plain("Floor"), "ceil": _plain("Ceil"), "rint": _plain("Round"), "trunc": _trunc, "copysign": _copysign,
    "and": _on_bits("And", "BitwiseAnd"), "or": _on_bits("Or", "BitwiseOr"), "xor": _on_bits("Xor", "BitwiseXor"),
    "not": _on_bits("Not", "BitwiseNot"), "shl": _shift("LEFT"), "shr": _shift("RIGHT"),
    "lt": _compare("Less"), "le": _compare("LessOrEqual"), "gt": _compare("Greater"), "ge": _compare("GreaterOrEqual"),
    "eq": _compare("Equal"), "ne": _not_equal,
    "select": lambda g, args, e: g.where(*args), "table": _table,
}


def _expm1(g: Builder, args: list[Value], e: expr.Value) -> Value:
    """tanh(x/2) (exp(x) + 1): exp(x) - 1 would lose the digits of small x."""
    x = args[0]
    half = g.node("Tanh", g.node("Mul", x, _number(g, 0.5, x)))
    precise = g.node("Mul", half, g.node("Add", g.node("Exp", x), _number(g, 1.0, x)))
    small = g.node("Less", g.node("Abs", x), _number(g, 0.5, x), dtype=_C.bool)
    return g.node("Where", small, precise, g.node("Sub", g.node("Exp", x), _number(g, 1.0, x)), dtype=x.dtype)


def _log1p(g: Builder, args: list[Value], e: expr.Value) -> Value:
    """log(1 + x), times x over what of x is left in 1 + x."""
    x, one = args[0], _number(g, 1.0, args[0])
    total = g.node("Add", x, one)
    left = g.node("Sub", total, one)
    small = g.node("Equal", left, _number(g, 0.0, x), dtype=_C.bool)
    divisor = g.node("Where", small, one, left, dtype=x.dtype)
    exact = g.node("Mul", g.node("Log", total), g.node("Div", x, divisor))
    large = g.node("Greater", g.node("Abs", x), one, dtype=_C.bool)
    near = g.node("Where", small, x, exact, dtype=x.dtype)
    return g.node("Where", large, g.node("Log", total), near, dtype=x.dtype)


def _scaled_log(base: float) -> Rule:
    return lambda g, args, e: g.node("Mul", g.node("Log", args[0]), _number(g, 1 / math.log(base), args[0]))


def _rsqrt(g: Builder, args: list[Value], e: expr.Value) -> Value:
    return g.node("Reciprocal", g.node("Sqrt", args[0]))


def _gelu(g: Builder, args: list[Value], e: expr.Value) -> Value:
    x = args[0]
    if g.opset >= 20:
        return g.node("Gelu", x)
    inner = g.node("Add", g.node("Erf", g.node("Mul", x, _number(g, math.sqrt(0.5), x))), _number(g, 1.0, x))
    return g.node("Mul", g.node("Mul", x, _number(g, 0.5, x)), inner)


def _gelu_slope(g: Builder, args: list[Value], e: expr.Value) -> Value:
    """The derivative of gelu: the normal distribution, and x times its density."""
    x = args[0]
    below = g.node("Add", g.node("Erf", g.node("Mul", x, _number(g, math.sqrt(0.5), x))), _number(g, 1.0, x))
    density = g.node("Exp", g.node("Mul", g.node("Mul", x, x), _number(g, -0.5, x)))
    density = g.node("Mul", g.node("Mul", x, density), _number(g, 1 / math.sqrt(2 * math.pi), x))
    return g.node("Add", g.node("Mul", below, _number(g, 0.5, x)), density)


def _zero_or(g: Builder, x: Value, at_zero: Value, other: Value) -> Value:
    """`at_zero` where x is 0, else `other`."""
    return g.node("Where", g.node("Equal", x, _number(g, 0.0, x), dtype=_C.bool), at_zero, other, dtype=x.dtype)


def _sinc(g: Builder, args: list[Value], e: expr.Value) -> Value:
    x = args[0]
    angle = g.node("Mul", x, _number(g, math.pi, x))
    quotient = g.node("Div", g.node("Sin", angle), _zero_or(g, x, _number(g, 1.0, x), angle))
    return _zero_or(g, x, _number(g, 1.0, x), quotient)


def _xlogy(shift: bool) -> Rule:
    def rule(g: Builder, args: list[Value], e: expr.Value) -> Value:
        x, y = args
        log = _log1p(g, [y], e) if shift else g.node("Log", y)
        is_nan = g.node("IsNaN", y, dtype=_C.bool)
        product = _zero_or(g, x, _number(g, 0.0, x), g.node("Mul", x, log))
        return g.node("Where", is_nan, y, product, dtype=x.dtype)

    return rule


def _logaddexp(g: Builder, args: list[Value], e: expr.Value) -> Value:
    """The larger, and log(1 + exp(-distance)); equal infinities are their own sum."""
    a, b = args
    larger = g.node("Max", a, b)
    apart = g.node("Neg", g.node("Abs", g.node("Sub", a, b)))
    result = g.node("Add", larger, g.node("Softplus", apart))
    return g.node("Where", g.node("IsInf", larger, dtype=_C.bool), larger, result, dtype=a.dtype)


_FUNCTIONS: dict[str, Rule] = {
    **{name: _plain(name.capitalize()) for name in (
        "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
        "erf", "sigmoid", "softplus", "pow")},
    "exp_of_negative": _plain("Exp"), "maximum": _plain("Max"), "minimum": _plain("Min"), "expm1": _expm1,
    "log1p": _log1p, "log2": _scaled_log(2), "log10": _scaled_log(10), "rsqrt": _rsqrt, "gelu": _gelu,
    "gelu_slope": _gelu_slope, "sinc": _sinc, "xlogy": _xlogy(False), "xlog1py": _xlogy(True), "logaddexp": _logaddexp,
    "exp2": lambda g, args, e: g.node("Pow", _number(g, 2.0, args[0]), args[0]),
    "log_sigmoid": lambda g, args, e: g.node("Neg", g.node("Softplus", g.node("Neg", args[0]))),
    "fmod": lambda g, args, e: g.node("Mod", *args, fmod=1),
    "erfc": lambda g, args, e: g.node("Sub", _number(g, 1.0, args[0]), g.node("Erf", args[0])),
}
