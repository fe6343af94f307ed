"""Overloads as PyTorch names them: `ops.aten.add.Tensor`, `ops.aten.sum.dim_IntList`.

Enters: names. Leaves: `AtenOverload`s, callable objects that print as PyTorch's overloads do, with PyTorch's signature.
Our ops have fewer signatures than PyTorch's: one may stand for several.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from .. import _C
from ..base import late
from ..base.shape import memory_format
from ..base.tables import rows
from ..dispatch.dispatcher import sees_aten, tensors_of
from ..rules import levels
from .adapters import ADAPTERS
from .tags import Tag, tags_of

REQUIRED = object()
_SAME = {
    "input": "self", "tensor": "self", "x": "self", "training": "train", "split_size_or_sections": "split_size",
    "sections": "indices", "normalized": "normalized_shape", "Tensor": "tensors",
}
_ALSO = {"split_size": ("split_sizes",), "self": ("input", "data", "x")}


class AtenParam(NamedTuple):
    """One parameter of PyTorch's signature."""

    name: str
    type: str
    kwarg_only: bool
    default: Any = REQUIRED
    is_write: bool = False
    alias: str = ""

    @property
    def has_default(self) -> bool:
        return self.default is not REQUIRED

    def has_default_value(self) -> bool:
        """PyTorch's question for it."""
        return self.has_default

    @property
    def default_value(self) -> Any:
        return self.default if self.has_default else None

    @property
    def is_out(self) -> bool:
        return False

    @property
    def alias_info(self) -> AliasInfo | None:
        return AliasInfo(frozenset((self.alias,)), self.is_write) if self.alias else None


class AliasInfo(NamedTuple):
    """Whose memory a parameter or a result shares, and whether the op writes to it."""

    before_set: frozenset[str]
    is_write: bool

    @property
    def after_set(self) -> frozenset[str]:
        return self.before_set


class AtenSchema(NamedTuple):
    """A signature of PyTorch."""

    op: str
    overload_name: str
    arguments: tuple[AtenParam, ...]
    returns: tuple[AtenParam, ...]
    text: str
    space: str = "aten"

    @property
    def name(self) -> str:
        """The op's name with its namespace, as PyTorch's schemas have it."""
        return f"{self.space}::{self.op}"

    @property
    def is_mutable(self) -> bool:
        return any(p.is_write for p in self.arguments)

    def __str__(self) -> str:
        return f"{self.space}::{self.text}"


def _literal(text: str) -> Any:
    """A default as Python value."""
    import ast  # noqa: PLC0415 - few programs ask for PyTorch's signatures

    known = {"contiguous_format": memory_format("contiguous_format"), "Mean": 1, "None": None}
    return known[text] if text in known else ast.literal_eval(text)


@functools.cache
def custom_schema(space: str, text: str) -> AtenSchema:
    """The signature of an op of another namespace, as PyTorch shows it."""
    return _parsed(text)._replace(space=space)


def _parsed(text: str) -> AtenSchema:
    head, _, rest = text.partition("(")
    name, _, label = head.partition(".")
    depth, end = 1, -1
    while depth:
        end += 1
        depth += (rest[end] == "(") - (rest[end] == ")")
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
            params.append(AtenParam(own, kind + after, only, _literal(default) if default else REQUIRED, "!" in mark,
                                    mark.strip("(!").partition(" ")[0]))
        else:
            params.append(AtenParam(own, kind or "Tensor", only, _literal(default) if default else REQUIRED))
    inside = returned[1:-1] if returned.startswith("(") else returned
    return AtenSchema(name, label, tuple(params), tuple(map(_returned, _split_top(inside))), text)


def _returned(text: str) -> AtenParam:
    """One result of a signature: `Tensor`, `Tensor(a!)`, `Tensor(a)[] parts`."""
    kind, _, rest = text.partition("(")
    mark, _, rest = rest.partition(")") if rest else ("", "", "")
    kind, _, own = (kind + rest).partition(" ")
    return AtenParam(own, kind, False, REQUIRED, "!" in mark, mark.rstrip("!"))


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
    found: dict[str, list[str]] = {}
    for text in rows(__file__, "schemas"):
        found.setdefault(text.partition("(")[0].partition(".")[0], []).append(text)
    return found


@functools.cache
def schemas_of(name: str) -> tuple[AtenSchema, ...]:
    """PyTorch's signatures of an op; those with fewer parameters first."""
    found = map(_parsed, _texts().get(name, ()))
    late = ("Scalar", "correction")
    return tuple(
        sorted(found, key=lambda s: (len(s.arguments), any(w in s.overload_name for w in late), s.overload_name))
    )


def has_schema(name: str) -> bool:
    """Whether PyTorch has an op of the name, as far as we know."""
    return name in _texts()


def all_schemas() -> list[AtenSchema]:
    """Every signature that is known."""
    return [schema for name in _texts() for schema in schemas_of(name)]


class AtenOverload:
    """One overload of an ATen op under PyTorch's name for it. It equals the overload of ours that it stands for."""

    namespace = "aten"

    def __init__(self, packet: Any, op: Any, schema: AtenSchema) -> None:
        self.overloadpacket, self.op, self._schema = packet, op, schema
        self._opname, self._overloadname = schema.op, schema.overload_name or "default"
        self.counterpart = _counterpart(op, schema)
        self.__name__ = f"{self._opname}.{self._overloadname}"
        self.__module__ = "torch._ops.aten"
        self.__qualname__ = self.__name__

    @property
    def definition(self) -> Any:
        return self.counterpart.definition

    @property
    def overridden(self) -> bool:
        """Whether somebody registered an implementation of their own."""
        return self.counterpart.overridden

    @property
    def inplace(self) -> bool:
        return self._schema.is_mutable

    @property
    def is_view(self) -> bool:
        return self.counterpart.is_view

    @property
    def tags(self) -> list[Tag]:
        """What can be said of it."""
        schema = self._schema
        return list(tags_of(self.definition, self._opname, self._overloadname, schema.is_mutable,
                            any(p.is_out for p in schema.arguments)))

    @property
    def _qualified_op_name(self) -> str:
        return f"aten::{self._opname}"

    def name(self) -> str:
        return f"aten::{self._opname}" + (f".{self._schema.overload_name}" if self._schema.overload_name else "")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = self._given(args, kwargs)
        if not levels.state.stack and sees_aten(tensors_of((*args, *kwargs.values()))):
            answer = late.provided("aten call")(self, args, kwargs)
            if answer is not NotImplemented:
                return answer
        if self._opname in ADAPTERS:
            return ADAPTERS[self._opname](**given)
        found = self._ours(given, lambda own: own)
        if found is not None:
            return found[0](**found[1])
        plain = [given.pop(p.name) for p in self._schema.arguments if p.name in given and not p.kwarg_only]
        return self.op(*plain, **given)

    def ours(self, args: tuple, kwargs: dict[str, Any], shown: Callable[[Any], Any]) -> tuple[Any, dict] | None:
        """The overload of ours that a call runs, and its arguments by name; None where several ops do its work.
        `shown` makes tensors of arguments that stand for some."""
        return None if self._opname in ADAPTERS else self._ours(self._given(args, kwargs), shown)

    def _given(self, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Arguments by PyTorch's names."""
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
        return given

    def _ours(self, given: dict[str, Any], shown: Callable[[Any], Any]) -> tuple[Any, dict[str, Any]] | None:
        """The first overload of ours that takes the arguments, and their names there."""
        for overload in _ours_first(self.op, self.counterpart):
            names = {aten_name(p.name, self._schema): p for p in overload.definition.spec.params}
            extra = [k for k in given if k not in names]
            if any(given[k] != self._default(k) for k in extra):
                continue
            own = {names[k].name: v for k, v in given.items() if k in names}
            if overload.bind((), shown(own)) is not None:
                return overload, own
        return None

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

    def __copy__(self) -> AtenOverload:
        return self

    def __deepcopy__(self, memo: Any) -> AtenOverload:
        return self


def _ours_first(op: Any, first: Any) -> list[Any]:
    return [first, *[o for o in op.overload_list if o is not first]]


def aten_name(ours: str, schema: AtenSchema) -> str:
    """The name PyTorch's signature has for a parameter of ours."""
    known = {p.name for p in schema.arguments}
    if ours in known:
        return ours
    other = _SAME.get(ours, ours)
    if other in known:
        return other
    return next((n for n in _ALSO.get(other, _ALSO.get(ours, ())) if n in known), ours)


def _counterpart(op: Any, schema: AtenSchema) -> Any:
    """The overload of ours that has PyTorch's parameters by place, and those by name too if one does."""
    if schema.op in ADAPTERS:
        return op.overload_list[0]
    wanted = [p.name for p in schema.arguments if not p.kwarg_only]
    by_name = {p.name for p in schema.arguments if p.kwarg_only}
    found = []
    for overload in op.overload_list:
        params = overload.definition.spec.params
        own = [aten_name(p.name, schema) for p in params if not p.keyword_only]
        required = sum(p.required and not p.keyword_only for p in params)
        if own[: len(wanted)] == wanted and required <= len(wanted):
            found.append((len(by_name - {aten_name(p.name, schema) for p in params}), overload))
    return min(found, key=lambda pair: pair[0])[1] if found else op.overload_list[0]


@functools.cache
def overload_of(packet: Any, label: str) -> AtenOverload | None:
    """The overload that PyTorch calls `aten.<packet>.<label>`; None where it has none."""
    schema = next((s for s in schemas_of(packet.__name__) if (s.overload_name or "default") == label), None)
    return None if schema is None else AtenOverload(packet, packet.op, schema)
