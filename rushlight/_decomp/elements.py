"""Pointwise ops as calls of simpler ops: the expression of one element, read as one of whole tensors.

Enters: a pointwise definition and the arguments of a call. Leaves: the same result, computed by an op for every node of
the expression: `hardswish` as an add, a clamp, a product and a quotient. Nothing has to be written twice.
Refuses (NotImplemented): expressions of bits, of parts of complex numbers, and of table lookups.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from .. import _C
from ..loops.expr import Value
from ..loops.lowered import compute_code
from ..loops.walking import walk
from ..op import find_op
from ..op.pack import BY_CODE
from ..op.pointwise import broadcast_sizes


class _Unreadable(Exception):
    """A node that no op stands for."""


def by_expression(definition: Any, args: tuple) -> Any:
    """What a call of a pointwise op gives, computed by ops on tensors; NotImplemented where there are none for it."""
    operands = definition.operand_indices(args)
    common = definition.common_dtype(args, operands)
    definition.run_check(args)
    definition.refuse_dtype(common)
    common = definition.promoted(common, args)
    compute = compute_code(common.code) if definition.upcast else common.code
    values, _ = definition.leaves(args, operands, compute, common.code)
    outs = definition.outputs(values)
    known: dict[Value, Any] = {}
    try:
        for node in walk(outs):
            known[node] = _read(node, [known[a] for a in node.args], args, operands)
    except _Unreadable:
        return NotImplemented
    shape = broadcast_sizes(definition.name, [args[i].shape for i in operands if isinstance(args[i], _C.Tensor)])
    results = []
    for k, out in enumerate(outs):
        result, dtype = known[out], definition.output_dtype(common, args, k, out)
        result = result if isinstance(result, _C.Tensor) else _scalar(result, dtype.code)
        result = result if result.dtype is dtype else result.to(dtype)
        results.append(result if result.ndim == len(shape) else result.expand(list(shape)))
    wrapper = definition.result_wrapper(len(results))
    return results[0] if len(results) == 1 else wrapper(results) if wrapper else tuple(results)


def _read(node: Value, given: list[Any], args: tuple, operands: list[int]) -> Any:
    """One node, from what it is computed of: a tensor, or a number."""
    if node.op == "arg":
        return args[operands[node.attr]]
    if node.op == "const":
        return node.attr
    if node.op == "call":
        rule = _FUNCTIONS.get(node.attr) or _op(node.attr)
        return rule(*[_as_tensor(g, node) for g in given])
    if node.op not in _NODES:
        raise _Unreadable(node.op)
    if not any(isinstance(g, _C.Tensor) for g in given):
        return _of_numbers(node, given)
    return _NODES[node.op](node, *given)


def _of_numbers(node: Value, given: list[Any]) -> Any:
    if node.op == "cast":
        return float(given[0]) if node.dtype[0] in "fb" and node.dtype != "b1" else given[0]
    rule = _NUMBERS.get(node.op)
    if rule is None:
        return _NODES[node.op](node, *[_as_tensor(g, node) for g in given])
    return rule(*given)


def _scalar(value: Any, code: str) -> Any:
    return find_op("scalar_tensor")(value, dtype=BY_CODE[code])


def _as_tensor(value: Any, node: Value) -> Any:
    return value if isinstance(value, _C.Tensor) else _scalar(value, node.args[0].dtype if node.args else node.dtype)


def _op(name: str) -> Callable:
    try:
        return find_op(name)
    except (AttributeError, KeyError, NotImplementedError):
        raise _Unreadable(name) from None


def _node(name: str) -> Callable:
    return lambda node, *given: find_op(name)(*given)


def _commuting(name: str) -> Callable:
    """An op whose first argument is a tensor."""
    return lambda node, a, b: find_op(name)(a, b) if isinstance(a, _C.Tensor) else find_op(name)(b, a)


def _sub(node: Value, a: Any, b: Any) -> Any:
    return a - b if isinstance(a, _C.Tensor) else b.neg() + a


def _div(node: Value, a: Any, b: Any) -> Any:
    if isinstance(a, _C.Tensor):
        return a / b
    return b.reciprocal() if a == 1 else _scalar(a, node.dtype) / b


def _select(node: Value, condition: Any, a: Any, b: Any) -> Any:
    if not isinstance(condition, _C.Tensor):
        return a if condition else b
    return find_op("where")(condition, *[x if isinstance(x, _C.Tensor) else _scalar(x, node.dtype) for x in (a, b)])


def _cast(node: Value, x: Any) -> Any:
    return x.to(BY_CODE[node.dtype])


_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


def _compare(name: str) -> Callable:
    def rule(node: Value, a: Any, b: Any) -> Any:
        return find_op(name)(a, b) if isinstance(a, _C.Tensor) else find_op(_MIRRORED[name])(b, a)

    return rule


def _extreme(name: str) -> Callable:
    """The language's min and max take the second where one is NaN."""

    def rule(node: Value, a: Any, b: Any) -> Any:
        a, b = (x if isinstance(x, _C.Tensor) else _scalar(x, node.dtype) for x in (a, b))
        return find_op("where")(find_op(name)(a, b), a, b)

    return rule


def _bits(logical: str, bitwise: str) -> Callable:
    return lambda node, *given: find_op(logical if node.dtype == "b1" else bitwise)(
        *[g if isinstance(g, _C.Tensor) else _scalar(g, node.dtype) for g in given]
    )


_NODES: dict[str, Callable] = {
    "add": _commuting("add"), "mul": _commuting("mul"), "sub": _sub, "div": _div, "select": _select, "cast": _cast,
    "fma": lambda node, a, b, c: _commuting("add")(node, _commuting("mul")(node, a, b), c),
    "min": _extreme("lt"), "max": _extreme("gt"), "rint": _node("round"),
    **{name: _node(name) for name in ("neg", "abs", "sqrt", "floor", "ceil", "trunc", "copysign")},
    **{name: _compare(name) for name in _MIRRORED},
    "and": _bits("logical_and", "bitwise_and"), "or": _bits("logical_or", "bitwise_or"),
    "xor": _bits("logical_xor", "bitwise_xor"), "not": _bits("logical_not", "bitwise_not"),
    "idiv": lambda node, a, b: find_op("div")(a, b, rounding_mode="trunc"),
    "irem": lambda node, a, b: find_op("fmod")(a, b),
}

_NUMBERS: dict[str, Callable] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "neg": operator.neg,
    "abs": abs, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq,
    "ne": operator.ne, "and": operator.and_, "or": operator.or_, "not": lambda x: not x,
    "select": lambda c, a, b: a if c else b, "fma": lambda a, b, c: a * b + c,
    "min": lambda a, b: a if a < b else b, "max": lambda a, b: a if a > b else b,
}


# --- named functions that are no core ops -----------------------------------------------------------------------------


def _where(condition: Any, a: Any, b: Any, like: Any) -> Any:
    code = like.dtype.code
    return find_op("where")(condition, *[x if isinstance(x, _C.Tensor) else _scalar(x, code) for x in (a, b)])


def _tail(x: Any) -> Any:
    """log(1 + exp(-|x|))"""
    return x.abs().neg().exp().log1p()


def _zero(x: Any) -> Any:
    return _scalar(0, x.dtype.code)


def _xlog(log: Callable) -> Callable:
    def rule(x: Any, y: Any) -> Any:
        product = x * log(y)
        return _where(y.isnan(), math.nan, _where(x == 0, 0, product, product), product)

    return rule


def _logaddexp(a: Any, b: Any) -> Any:
    most = find_op("maximum")(a, b)
    gap = (a - b).abs()
    return _where(a == b, most + math.log(2), most + gap.neg().exp().log1p(), most)


def _sinc(x: Any) -> Any:
    angle = x * math.pi
    return _where(x == 0, 1, angle.sin() / angle, angle)


_FUNCTIONS: dict[str, Callable] = {
    "softplus": lambda x: find_op("maximum")(x, _zero(x)) + _tail(x),
    "log_sigmoid": lambda x: find_op("minimum")(x, _zero(x)) - _tail(x),
    "logit": lambda x: (x / (x.neg() + 1)).log(),
    "xlogy": _xlog(lambda y: y.log()), "xlog1py": _xlog(lambda y: y.log1p()),
    "logaddexp": _logaddexp, "sinc": _sinc,
    "sgn": lambda x: x.sign() if not x.dtype.is_complex else find_op("sgn")(x),
}
