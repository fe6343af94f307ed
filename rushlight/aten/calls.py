"""Calls of our ops as PyTorch records them.

Enters: one of our overloads with its bound arguments. Leaves: the overload PyTorch would call, and the arguments as its
graphs have them: by place, lists for sizes, defaults left out. None for calls that PyTorch has no signature for.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from .. import _C
from .._C import Tensor
from ..base.shape import INTS, layout, memory_format
from ..op.pointwise import Pointwise
from .namespaces import namespace
from .overloads import AtenOverload, AtenParam, AtenSchema, aten_name, overload_of, schemas_of

# Where a Python number stands for a tensor in PyTorch: its overload for tensors is called.
_NUMBERS_AS_TENSORS = frozenset(
    ("add", "sub", "mul", "div", "true_divide", "floor_divide", "add_", "sub_", "mul_", "div_", "floor_divide_")
)
# What PyTorch's signature wants and ours has not.
_FILLED = {"cudnn_enabled": False, "unbiased": True}
_NAMED_OTHERWISE = {"_functional_softmax": "softmax", "_functional_log_softmax": "log_softmax",
                    "_functional_softmin": "softmin", "_functional_group_norm": "group_norm",
                    "cross_entropy": "cross_entropy_loss"}
_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def aten_overload(name: str, label: str) -> AtenOverload | None:
    """The overload that PyTorch calls `aten.<name>.<label>`; None where it or we have none."""
    packet = getattr(namespace("aten"), name, None) if schemas_of(name) else None
    return None if packet is None else overload_of(packet, label)


def aten_call(overload: Any, bound: Sequence[Any], without: Sequence[str] = ()
              ) -> tuple[AtenOverload, tuple, dict[str, Any]] | None:
    """What PyTorch would record of a call of ours: its overload and the arguments as its graphs have them. Overloads
    `without` names are passed over."""
    if overload._overloadname == "batched" and not isinstance(overload.definition, Pointwise):
        return None      # of every member of a batch: no op of PyTorch's
    name = _NAMED_OTHERWISE.get(overload.name, overload.name)
    name = name if schemas_of(name) or not schemas_of(f"special_{name}") else f"special_{name}"
    given = {p.name: (v, p) for p, v in zip(overload.definition.spec.params, bound, strict=True)}
    if name == "sub" and len(bound) >= 2 and not isinstance(bound[0], Tensor):
        name, swapped = "rsub", dict(zip(given, (given["other"], given["input"]), strict=False))
        given = {**given, **{k: (v[0], given[k][1]) for k, v in swapped.items()}}
    elif name == "split" and isinstance(bound[1], (list, tuple)):
        name = "split_with_sizes"
    elif name in ("add", "mul") and not isinstance(bound[0], Tensor):
        (a, p), (b, q) = given["input"], given["other"]
        given["input"], given["other"] = (b, p), (a, q)
    for schema in schemas_of(name):
        result = _fitted(schema, given)
        if result is not None:
            found = named_target(name, schema.overload_name or "default")
            if str(found) in without:
                continue
            return None if found is None else (found, *result)
    return None


@functools.cache
def named_target(name: str, label: str) -> Any:
    """What `ops.aten.<name>.<label>` is: our own overload, where it has that name and PyTorch's parameters."""
    result = aten_overload(name, label)
    if result is None:
        return None
    own = getattr(result.overloadpacket, label)
    return own if own is result.counterpart and own.name == name else result


def _fitted(schema: AtenSchema, given: dict[str, tuple[Any, Any]]) -> tuple[tuple, dict[str, Any]] | None:
    """Arguments by PyTorch's signature; None where they do not fit it."""
    values: dict[str, Any] = {}
    params = {p.name: p for p in schema.arguments}
    for ours, (value, param) in given.items():
        name = aten_name(ours, schema)
        if name not in params:
            if param.required or not _is_same(value, param.default):
                return None
            continue
        if value is None and params[name].has_default and not params[name].type.endswith("?"):
            continue                                  # an absent stride is an empty list there
        if name == "reduction" and isinstance(value, str) and params[name].type == "int":
            value = _REDUCTIONS.get(value, value)
        if not _accepts(params[name], value, schema):
            return None
        values[name] = _plain(params[name], value)
    for p in schema.arguments:
        if p.name not in values and not p.has_default:
            if p.name not in _FILLED:
                return None
            values[p.name] = _FILLED[p.name]
    places = [p for p in schema.arguments if not p.kwarg_only]
    while places and places[-1].has_default and _is_same(values.get(places[-1].name, places[-1].default),
                                                        places[-1].default, places[-1]):
        places.pop()
    args = tuple([values.get(p.name, p.default) for p in places])
    kwargs = {
        p.name: values[p.name]
        for p in schema.arguments
        if p.kwarg_only and p.name in values and not (p.has_default and _is_same(values[p.name], p.default, p))
    }
    return args, kwargs


def _is_same(a: Any, b: Any, param: AtenParam | None = None) -> bool:
    """Whether a value is the default."""
    if a is b:
        return True
    if isinstance(a, (Tensor, *_SYMBOLIC)) or isinstance(b, (Tensor, *_SYMBOLIC)) or a is None or b is None:
        return False
    if param is not None and "[" in param.type:
        a, b = _plain(param, a), _plain(param, b)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_is_same, a, b))
    return type(a) in (type(b), int, float) and a == b


def _plain(param: AtenParam, value: Any) -> Any:
    """A value in the form graphs have it: lists, numbers of the signature's type, devices not by name."""
    kind = param.type.removesuffix("?")
    if kind.endswith("]"):
        count = kind[kind.rindex("[") + 1 : -1]
        if value is None:
            return None
        if isinstance(value, (*INTS, float)):
            return [value] * (int(count) if count else 1)
        value = list(value)
        return value * int(count) if count and len(value) == 1 and "int" in kind.lower() else value
    if kind == "float" and type(value) is int:
        return float(value)
    if kind == "Device" and isinstance(value, (str, int)):
        return _C.device(value)
    return value


_SYMBOLIC = (_C.SymbolicInt, _C.SymbolicFloat, _C.SymbolicBool)


def _accepts(param: AtenParam, value: Any, schema: AtenSchema) -> bool:
    kind = param.type
    if kind.endswith("?"):
        if value is None:
            return True
        kind = kind[:-1]
    if kind.endswith("]"):
        item, _, count = kind.rpartition("[")
        if isinstance(value, (*INTS, float)) and not isinstance(value, bool):
            return count != "]" and item in ("int", "SymInt", "float")
        return isinstance(value, (list, tuple)) and all(_accepts(AtenParam("", item, False), v, schema) for v in value)
    if value is None:
        return False
    if kind == "Tensor" and schema.op in _NUMBERS_AS_TENSORS and param.name == "other":
        return isinstance(value, (Tensor, int, float, complex, *_SYMBOLIC))
    return isinstance(value, _CLASSES[kind]) and (kind not in ("int", "SymInt", "float") or type(value) is not bool)


_NUMBER = (int, float, complex, bool, *_SYMBOLIC)
_CLASSES: dict[str, Any] = {
    "Tensor": Tensor, "Scalar": _NUMBER, "number": _NUMBER, "int": INTS, "SymInt": INTS,
    "float": (int, float, _C.SymbolicInt, _C.SymbolicFloat), "bool": (bool, _C.SymbolicBool), "str": str,
    "ScalarType": _C.dtype, "Layout": layout, "Device": (_C.device, str, int), "MemoryFormat": memory_format,
    "Generator": _C.Generator, "Any": object, "Storage": object, "Stream": object, "t": object, "complex": complex,
}
