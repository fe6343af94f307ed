"""Overloads as PyTorch names them: `ops.aten.add.Tensor`, `ops.aten.sum.dim_IntList`.

Enters: names, or one of our overloads with its bound arguments. Leaves: `AtenOverload`s, callable objects that print as
PyTorch's overloads do, and calls of them that mean the same (`aten_call`). Our ops have fewer signatures than PyTorch's:
one may stand for several. Refuses: nothing; a call that PyTorch has no signature for has no `aten_call`.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import _C
from .._C import Tensor
from ..base.shape import INTS, layout, memory_format
from ..op import ops

REQUIRED = object()
# Where a Python number stands for a tensor in PyTorch: its overload for tensors is called.
_NUMBERS_AS_TENSORS = frozenset(
    ("add", "sub", "mul", "div", "true_divide", "floor_divide", "add_", "sub_", "mul_", "div_", "floor_divide_")
)
_SAME = {
    "input": "self", "tensor": "self", "training": "train", "split_size_or_sections": "split_size",
    "sections": "indices", "normalized": "normalized_shape", "Tensor": "tensors",
}  # fmt: skip
_ALSO = {"split_size": ("split_sizes",), "self": ("input", "data", "x")}
# What PyTorch's signature wants and ours has not.
_FILLED = {"cudnn_enabled": False, "unbiased": True}
_NAMED_OTHERWISE = {"_functional_softmax": "softmax", "_functional_log_softmax": "log_softmax",
                    "_functional_softmin": "softmin", "cross_entropy": "cross_entropy_loss"}  # fmt: skip
_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


class AtenParam(NamedTuple):
    """One parameter of PyTorch's signature."""

    name: str
    type: str
    kwarg_only: bool
    default: Any = REQUIRED
    is_write: bool = False

    @property
    def has_default(self) -> bool:
        return self.default is not REQUIRED


class AtenSchema(NamedTuple):
    """A signature of PyTorch."""

    name: str
    overload_name: str
    arguments: tuple[AtenParam, ...]
    returns: tuple[str, ...]
    text: str

    @property
    def is_mutable(self) -> bool:
        return any(p.is_write for p in self.arguments)

    def __str__(self) -> str:
        return f"aten::{self.text}"


def _literal(text: str) -> Any:
    """A default as Python value."""
    known = {"contiguous_format": memory_format("contiguous_format"), "Mean": 1, "None": None}
    return known[text] if text in known else ast.literal_eval(text)


def _parsed(text: str) -> AtenSchema:
    head, _, rest = text.partition("(")
    name, _, label = head.partition(".")
    depth, end = 1, 0
    for end, c in enumerate(rest):
        depth += (c == "(") - (c == ")")
        if not depth:
            break
    inside, returned = rest[:end], rest[end + 1 :].removeprefix(" -> ").strip()
    params, only = [], False
    for part in _split_top(inside):
        if part == "*":
            only = True
            continue
        part, _, default = part.partition("=")
        kind, _, own = part.rpartition(" ")
        if "(" in kind:                              # Tensor(a!) and its like
            kind, mark, after = kind[: kind.index("(")], kind[kind.index("(") : kind.index(")")], kind.partition(")")[2]
            params.append(AtenParam(own, kind + after, only, _literal(default) if default else REQUIRED, "!" in mark))
        else:
            params.append(AtenParam(own, kind or "Tensor", only, _literal(default) if default else REQUIRED))
    returns = [r.split("(")[0].split(" ")[0] + ("[]" if "[]" in r else "") for r in _split_top(returned.strip("()"))]
    returns = [r.replace("[][]", "[]") for r in returns] if returned and returned != "()" else []
    if not returned:
        returns = ["Tensor"]
    return AtenSchema(name, label, tuple(params), tuple(returns), text)


def _split_top(text: str) -> list[str]:
    """Parts between commas that are in no brackets."""
    parts, depth, begin = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if c == "," and not depth:
            parts.append(text[begin:i].strip())
            begin = i + 1
    return [p for p in (*parts, text[begin:].strip()) if p]


@functools.cache
def _texts() -> dict[str, list[str]]:
    """Texts of signatures, by op."""
    from .aten_schemas import TEXT  # noqa: PLC0415 - few programs ask for PyTorch's signatures

    found: dict[str, list[str]] = {}
    for text in TEXT.replace("\n", " ").split(";"):
        text = text.strip()
        found.setdefault(text.partition("(")[0].partition(".")[0], []).append(text)
    return found


@functools.cache
def schemas_of(name: str) -> tuple[AtenSchema, ...]:
    """PyTorch's signatures of an op; those with fewer parameters first."""
    found = map(_parsed, _texts().get(name, ()))
    return tuple(sorted(found, key=lambda s: (len(s.arguments), "Scalar" in s.overload_name, s.overload_name)))


class AtenOverload:
    """One overload of an ATen op under PyTorch's name for it. It equals the overload of ours that it stands for."""

    namespace = "aten"

    def __init__(self, packet: Any, op: Any, schema: AtenSchema) -> None:
        self.overloadpacket, self.op, self._schema = packet, op, schema
        self._opname, self._overloadname = schema.name, schema.overload_name or "default"
        self.counterpart = _counterpart(op, schema)
        self.__name__ = f"{self._opname}.{self._overloadname}"
        self.__module__ = "torch._ops.aten"
        self.__qualname__ = self.__name__

    @property
    def definition(self) -> Any:
        return self.counterpart.definition

    @property
    def inplace(self) -> bool:
        return self._schema.is_mutable

    @property
    def is_view(self) -> bool:
        return self.counterpart.is_view

    def name(self) -> str:
        return f"aten::{self._opname}" + (f".{self._schema.overload_name}" if self._schema.overload_name else "")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        params = self._schema.arguments
        if len(args) > len(params):
            raise TypeError(f"{self}: expected at most {len(params)} arguments, got {len(args)}")
        given = {p.name: a for p, a in zip(params, args, strict=False)}
        unknown = [k for k in kwargs if k not in {p.name for p in params} or k in given]
        if unknown:
            raise TypeError(f"{self}: got unexpected or repeated arguments {unknown}; signature: {self._schema}")
        given.update(kwargs)
        missing = [p.name for p in params if p.name not in given and not p.has_default]
        if missing:
            raise TypeError(f"{self}: missing arguments {missing}; signature: {self._schema}")
        return self._run(given)

    def _run(self, given: dict[str, Any]) -> Any:
        """Call our op: arguments by place as long as there are no gaps, then by our names."""
        for overload in _ours_first(self.op, self.counterpart):
            names = {_aten_name(p.name, self._schema): p for p in overload.definition.spec.params}
            extra = [k for k in given if k not in names]
            if any(given[k] != self._default(k) for k in extra):
                continue
            own = {names[k].name: v for k, v in given.items() if k in names}
            if overload.bind((), own) is not None:
                return overload(**own)
        plain = [given.pop(p.name) for p in self._schema.arguments if p.name in given and not p.kwarg_only]
        return self.op(*plain, **given)

    def _default(self, name: str) -> Any:
        return next((p.default for p in self._schema.arguments if p.name == name), REQUIRED)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _C.Overload) and other is self.counterpart)

    def __hash__(self) -> int:
        return hash(self.counterpart)

    def __str__(self) -> str:
        return f"aten.{self._opname}.{self._overloadname}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='aten.{self._opname}', overload='{self._overloadname}')>"

    def __reduce__(self) -> Any:
        return aten_overload, (self._opname, self._overloadname)

    def __deepcopy__(self, memo: Any) -> AtenOverload:
        return self


def _ours_first(op: Any, first: Any) -> list[Any]:
    return [first, *[o for o in op.overload_list if o is not first]]


def _aten_name(ours: str, schema: AtenSchema) -> str:
    """The name PyTorch's signature has for a parameter of ours."""
    known = {p.name for p in schema.arguments}
    if ours in known:
        return ours
    other = _SAME.get(ours, ours)
    if other in known:
        return other
    return next((n for n in _ALSO.get(other, _ALSO.get(ours, ())) if n in known), ours)


def _counterpart(op: Any, schema: AtenSchema) -> Any:
    """The overload of ours that has PyTorch's parameters by place."""
    wanted = [p.name for p in schema.arguments if not p.kwarg_only]
    for overload in op.overload_list:
        own = [_aten_name(p.name, schema) for p in overload.definition.spec.params if not p.keyword_only]
        required = sum(p.required and not p.keyword_only for p in overload.definition.spec.params)
        if own[: len(wanted)] == wanted and required <= len(wanted):
            return overload
    return op.overload_list[0]


@functools.cache
def _made(name: str, label: str) -> AtenOverload | None:
    from .namespaces import namespace  # noqa: PLC0415 - packets ask this module, which asks for packets

    schema = next((s for s in schemas_of(name) if (s.overload_name or "default") == label), None)
    if schema is None:
        return None
    packet = getattr(namespace("aten"), name, None)
    return None if packet is None else AtenOverload(packet, packet.op, schema)


def aten_overload(name: str, label: str) -> AtenOverload | None:
    """The overload that PyTorch calls `aten.<name>.<label>`; None where it or we have none."""
    return _made(name, label)


# --- from our calls to PyTorch's --------------------------------------------------------------------------------------


def aten_call(overload: Any, bound: Sequence[Any]) -> tuple[AtenOverload, tuple, dict[str, Any]] | None:
    """What PyTorch would record of a call of ours: its overload and the arguments as its graphs have them."""
    name = _NAMED_OTHERWISE.get(overload.name, overload.name)
    given = {p.name: (v, p) for p, v in zip(overload.definition.spec.params, bound, strict=True)}
    if name == "sub" and len(bound) >= 2 and not isinstance(bound[0], Tensor):
        name, swapped = "rsub", dict(zip(given, (given["other"], given["input"]), strict=False))
        given = {**given, **{k: (v[0], given[k][1]) for k, v in swapped.items()}}
    elif name in ("add", "mul") and not isinstance(bound[0], Tensor):
        (a, p), (b, q) = given["input"], given["other"]
        given["input"], given["other"] = (b, p), (a, q)
    for schema in schemas_of(name):
        made = _fitted(schema, given)
        if made is not None:
            found = _target(name, schema.overload_name or "default")
            return None if found is None else (found, *made)
    return None


@functools.cache
def _target(name: str, label: str) -> Any:
    """What `ops.aten.<name>.<label>` is: our own overload, where it has that name and PyTorch's parameters."""
    made = aten_overload(name, label)
    if made is None:
        return None
    own = getattr(made.overloadpacket, label)
    return own if own is made.counterpart else made


def _fitted(schema: AtenSchema, given: dict[str, tuple[Any, Any]]) -> tuple[tuple, dict[str, Any]] | None:
    """Arguments by PyTorch's signature; None where they do not fit it."""
    values: dict[str, Any] = {}
    params = {p.name: p for p in schema.arguments}
    for ours, (value, param) in given.items():
        name = _aten_name(ours, schema)
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
                                                        places[-1].default, places[-1]):  # fmt: skip
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
    """A value in the form graphs have it: lists, and numbers of the signature's type."""
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
    if kind == "Tensor" and schema.name in _NUMBERS_AS_TENSORS and param.name == "other":
        return isinstance(value, (Tensor, int, float, complex, *_SYMBOLIC))
    return isinstance(value, _CLASSES[kind]) and (kind not in ("int", "SymInt", "float") or type(value) is not bool)


_NUMBER = (int, float, complex, bool, *_SYMBOLIC)
_CLASSES: dict[str, Any] = {
    "Tensor": Tensor, "Scalar": _NUMBER, "number": _NUMBER, "int": INTS, "SymInt": INTS,
    "float": (int, float, _C.SymbolicInt, _C.SymbolicFloat), "bool": (bool, _C.SymbolicBool), "str": str,
    "ScalarType": _C.dtype, "Layout": layout, "Device": _C.device, "MemoryFormat": memory_format,
    "Generator": _C.Generator, "Any": object, "Storage": object, "Stream": object, "t": object, "complex": complex,
}  # fmt: skip
