"""A call of the program as a node of PyTorch's op: which signature it has, and its arguments in that order.

Enters: the op's name in ATen, arguments as the program gives them, and how to run it. Leaves: the result, with a node
for it in the trace. Refuses: calls that none of the op's signatures takes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ... import _C
from ...base import late
from ...dispatch import autocast
from ...dispatch.keys import AUTOCAST
from ...op import ops
from .. import types as t
from ..constants import as_number
from ..schemas import Argument, Schema, schemas_of
from .recorder import Recorder

Tensor = _C.Tensor
_MISSING = object()
# Ops of two tensors that the program may give a number for one of them: it becomes a tensor without dimensions.
_TAKE_NUMBERS = frozenset(
    name + end for end in ("", "_")
    for name in ("add", "sub", "mul", "div", "true_divide", "divide", "multiply", "subtract", "floor_divide"))
_ALIASES = {
    "absolute": "abs", "clip": "clamp", "ger": "outer", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin",
    "arcsinh": "asinh", "arctan": "atan", "arctanh": "atanh", "fix": "trunc", "negative": "neg", "subtract": "sub",
    "greater_equal": "ge", "greater": "gt", "less_equal": "le", "less": "lt", "not_equal": "ne", "divide": "div",
    "multiply": "mul", "linalg_matmul": "matmul", "true_divide": "div", "concat": "cat", "concatenate": "cat",
    "row_stack": "vstack", "swapdims": "transpose", "swapaxes": "transpose", "moveaxis": "movedim",
    "special_erf": "erf", "special_erfc": "erfc", "special_expm1": "expm1", "special_exp2": "exp2",
    "special_expit": "sigmoid", "special_logit": "logit", "special_log1p": "log1p", "special_round": "round",
    "special_sinc": "sinc", "special_softmax": "softmax", "special_log_softmax": "log_softmax",
    "special_logsumexp": "logsumexp", "special_xlogy": "xlogy", "special_erfinv": "erfinv",
    "special_digamma": "digamma", "special_i0": "i0", "special_polygamma": "polygamma", "special_gammaln": "lgamma",
}
_SAME = {"input": "self", "axis": "dim", "x": "self", "keepdims": "keepdim", "x1": "self"}
_OPTIONS = ("dtype", "layout", "device", "pin_memory")


class Bound(NamedTuple):
    """A signature and a value for each of its parameters."""

    schema: Schema
    given: list[Any]


def canonical_name(name: str) -> str:
    """The one name of an op that has several."""
    return _ALIASES.get(name) or (f"{_ALIASES[name[:-1]]}_" if name.endswith("_") and name[:-1] in _ALIASES else name)


@functools.cache
def _candidates(name: str) -> tuple[Schema, ...]:
    found = [s for s in schemas_of(f"aten::{name}") if any(isinstance(r.type, (t.TensorType, t.ListType))
                                                          for r in s.returns) and not s.is_vararg]
    found.sort(key=_rank)          # the sort is stable: forms of tensors before those of numbers
    return tuple(s for s in found if not any(a.name == "out" for a in s.arguments)
                 and not any(isinstance(a.type, t.ListType) and isinstance(a.type.element, t.StringType)
                             for a in s.arguments))


def _rank(schema: Schema) -> float:
    """Short signatures are tried first; of variances the plain one last, and that with a correction before it."""
    if len(schema.arguments) == 2 and schema.arguments[1].name == "unbiased":
        return 99
    return len(schema.arguments) + (0.5 if schema.overload == "correction" else 0)


def bind(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Bound | None:
    """The first signature of an op that takes the arguments, without tensors that stand for numbers before with them;
    None where there is none."""
    for with_sizes in (False, True):
        for schema in _candidates(name):
            given = _given(schema, name, args, kwargs)
            if given is not None and (with_sizes or not any(map(_is_size_for, schema.arguments, given))):
                return Bound(schema, given)
    return None


def _is_size_for(p: Argument, held: Any) -> bool:
    """Whether a tensor is given for a number."""
    inner = p.type.element if isinstance(p.type, t.OptionalType) else p.type
    return isinstance(held, Tensor) and isinstance(inner, (t.IntType, t.NumberType))


def _given(schema: Schema, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any] | None:
    params = schema.arguments
    positional = [p for p in params if not p.kwarg_only]
    args = list(args)
    lists = [i for i, p in enumerate(positional) if _is_numbers(p.type)]
    if lists and len(lists) == 1 and lists[0] < len(args) and _is_integer(args[lists[0]]) and (
            len(args) > len(positional) or
            (lists[0] == len(positional) - 1 and positional[lists[0]].length is None) or
            (all(_is_integer(a) for a in args[lists[0]:]) and len(args) > lists[0] + 1 and
             not isinstance(positional[lists[0] + 1].type, (t.IntType, t.ListType)))):
        args = [*args[:lists[0]], args[lists[0]:]]          # sizes one by one
    if len(args) > len(positional):
        return None
    by_name = dict(zip((p.name for p in positional), args, strict=False))
    known = {p.name for p in params}
    for key, value in kwargs.items():
        at = key if key in known else _SAME.get(key, key)
        if at in by_name or (at not in known and key not in ("requires_grad", "out", "names", "_stacklevel")):
            return None
        by_name[at] = value
    found = []
    for p in params:
        value = by_name.get(p.name, _MISSING)
        if value is _MISSING:
            if not p.has_default:
                return None
            value = p.default
        elif not _fits(p, value, name):
            return None
        found.append(value)
    return found


def _is_numbers(type: t.Type) -> bool:
    inner = type.element if isinstance(type, t.OptionalType) else type
    return isinstance(inner, t.ListType) and isinstance(inner.element, t.IntType)


def _is_integer(held: Any) -> bool:
    if isinstance(held, Tensor):
        return held.dim() == 0 and not held.is_floating_point() and not held.is_complex()
    return isinstance(held, int) and not isinstance(held, bool)


def _is_number(held: Any) -> bool:
    return isinstance(held, (int, float, complex)) or (isinstance(held, Tensor) and held.dim() == 0)


def _fits(p: Argument, held: Any, name: str) -> bool:
    """Whether a parameter takes a value of the program."""
    type = p.type
    if isinstance(type, t.OptionalType):
        if held is None:
            return True
        type = type.element
    if isinstance(type, t.TensorType):
        return isinstance(held, Tensor) or (name in _TAKE_NUMBERS and p.name == "other" and
                                            isinstance(held, (int, float, complex)))
    if isinstance(type, t.ListType):
        return _fits_list(type.element, p, held, name)
    if isinstance(type, t.BoolType):
        return isinstance(held, bool)
    if isinstance(type, t.IntType):
        coded = as_number(held) is not None
        return coded == (p.real_type.rstrip("?") in ("ScalarType", "Layout", "MemoryFormat")) and (
            coded or _is_integer(held))
    if isinstance(type, t.FloatType):
        return (_is_number(held) and not isinstance(held, (bool, complex))) and not isinstance(held, Tensor)
    if isinstance(type, t.NumberType):
        return _is_number(held)
    if isinstance(type, t.StringType):
        return isinstance(held, str)
    if isinstance(type, t.DeviceObjType):
        return isinstance(held, (str, _C.device))
    return held is None or not isinstance(held, (Tensor, int, float, str))


def _fits_list(element: t.Type, p: Argument, held: Any, name: str) -> bool:
    if isinstance(held, (list, tuple)):
        if isinstance(element, t.OptionalType):
            return all(item is None or isinstance(item, Tensor) for item in held)
        return all(_fits(Argument(p.name, element), item, name) for item in held) if held else True
    if isinstance(held, Tensor) and not isinstance(element, t.IntType):
        return False
    if isinstance(element, t.IntType):
        return _is_integer(held) and p.length is not None
    return isinstance(held, (int, float)) and isinstance(element, t.FloatType)


def record(recorder: Recorder, name: str, args: Sequence[Any], kwargs: dict[str, Any],
           run: Callable[..., Any]) -> Any:
    """Run a call and write it down, conversions of mixed precision before it."""
    if autocast.is_active():
        with below_autocast():
            return _record(recorder, name, _cast(recorder, name, args), kwargs, run)
    return _record(recorder, name, args, kwargs, run)


@contextmanager
def below_autocast() -> Iterator[None]:
    """Within, nothing is converted."""
    keys, excluded = _C.get_thread_keys()
    _C.set_thread_keys(keys, excluded | AUTOCAST)
    try:
        yield
    finally:
        _C.set_thread_keys(keys, excluded)


def _cast(recorder: Recorder, name: str, args: Sequence[Any]) -> Sequence[Any]:
    """Arguments as mixed precision hands them to an op; what it converts is written down, the last first."""
    op = ops.get({"_convolution": "conv2d"}.get(name, name))
    if op is None:
        return args
    made = autocast.converted(op.overload_list[0], tuple(args))
    for before, after in reversed(list(zip(args, made, strict=True))):
        if isinstance(before, Tensor) and after is not before:
            _record(recorder, "to", (before, after.dtype, False, False, None), {}, lambda *_, made=after: made)
    return made


def _record(recorder: Recorder, name: str, args: Sequence[Any], kwargs: dict[str, Any],
            run: Callable[..., Any]) -> Any:
    bound = bind(name, args, kwargs)
    if bound is None:
        raise RuntimeError(f"trace: no signature of aten::{name} takes"
                           f" ({', '.join(type(a).__name__ for a in (*args, *kwargs.values()))})")
    out = kwargs.get("out")
    inputs = [recorder.argument(p.type, _recorded(p, held, bound), p.length)
              for p, held in zip(bound.schema.arguments, bound.given, strict=True)]
    outs = () if out is None else out if isinstance(out, (tuple, list)) else (out,)
    inputs += [recorder.value(tensor) for tensor in outs]
    node = recorder.node(f"aten::{canonical_name(name)}", inputs, len(bound.schema.returns))
    result = run(*map(without_sizes, args), **{key: without_sizes(held) for key, held in kwargs.items()})
    several = len(bound.schema.returns) > 1
    recorder.results(node, tuple(result) if several else (list(result) if isinstance(result, tuple) else result,))
    return result


def _recorded(p: Argument, held: Any, bound: Bound) -> Any:
    """What is written for an argument: factories name the device they make tensors on, and pin nothing."""
    if held is None and p.name == "pin_memory" and p.kwarg_only and bound.schema.name != "aten::to":
        return False
    if held is None and p.name == "device" and p.kwarg_only and not _takes_tensor(bound.schema):
        return late.provided("package").get_default_device()
    return held


@functools.cache
def _takes_tensor(schema: Schema) -> bool:
    return any(isinstance(a.type, t.TensorType) for a in schema.arguments)


def without_sizes(held: Any) -> Any:
    """Arguments with the sizes of a trace as plain numbers, where they stand for numbers."""
    if isinstance(held, (list, tuple)) and any(_is_size(item) for item in held):
        return [int(item) if _is_size(item) else item for item in held]
    return held


def _is_size(held: Any) -> bool:
    return isinstance(held, Tensor) and held.dim() == 0
