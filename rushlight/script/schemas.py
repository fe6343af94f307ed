"""Signatures as the compiler reads them: `aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`.

Enters: the names of builtins. Leaves: their `Schema`s in the order in which calls are tried against them: those of our
ops (rushlight/aten/schemas.txt) and TorchScript's own (schemas.txt here). Refuses: text that is no signature.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from ..base.tables import rows
from .text.lexer import Tokens, unquoted
from .text.type_reader import Alias, TypeReader
from .types import (
    BoolType,
    FloatType,
    IntType,
    ListType,
    NumberType,
    OptionalType,
    SymIntType,
    TensorType,
    TupleType,
    Type,
    VarType,
    map_types,
    unify,
)

REQUIRED = object()
_WORDS = {"None": None, "True": True, "False": False, "contiguous_format": 0, "strided": 0, "Mean": 1, "long": 4}


class Argument(NamedTuple):
    """One parameter or result."""

    name: str
    type: Type
    default: Any = REQUIRED
    kwarg_only: bool = False
    alias: Alias | None = None
    length: int | None = None            # a list that one number may stand for, so many times
    real_type: str = ""                  # as the schema writes it, where it differs: ScalarType

    @property
    def has_default(self) -> bool:
        return self.default is not REQUIRED

    @property
    def is_write(self) -> bool:
        return self.alias is not None and self.alias.is_write

    # The names that programs which read signatures ask for.
    @property
    def default_value(self) -> Any:
        return self.default if self.has_default else None

    def has_default_value(self) -> bool:
        return self.has_default

    @property
    def N(self) -> int | None:  # noqa: N802
        return self.length

    @property
    def alias_info(self) -> Alias | None:
        return self.alias

    @property
    def is_out(self) -> bool:
        return self.kwarg_only and self.is_write


class Schema(NamedTuple):
    """A signature: a builtin's, a function's or a method's."""

    name: str                            # with its namespace
    overload: str
    arguments: tuple[Argument, ...]
    returns: tuple[Argument, ...]
    text: str = ""
    is_vararg: bool = False
    is_varret: bool = False

    def __str__(self) -> str:
        return self.text or schema_text(self)

    __repr__ = __str__

    @property
    def overload_name(self) -> str:
        return self.overload

    @property
    def is_mutable(self) -> bool:
        return any(a.is_write for a in self.arguments)

    def index(self, name: str) -> int | None:
        return next((i for i, a in enumerate(self.arguments) if a.name == name), None)

    def return_type(self) -> Type:
        """One type for all results."""
        if len(self.returns) == 1:
            return self.returns[0].type
        fields = tuple(r.name for r in self.returns)
        return TupleType([r.type for r in self.returns], None, fields if all(fields) else ())


Schema.__name__ = Schema.__qualname__ = "FunctionSchema"      # as programs know it


def schema_text(schema: Schema) -> str:
    """A signature as it prints."""
    parts, star = [], False
    for argument in schema.arguments:
        if argument.kwarg_only and not star:
            parts.append("*")
            star = True
        default = f"={_default_text(argument.default)}" if argument.has_default else ""
        parts.append(f"{_type_in_schema(argument.type)} {argument.name}{default}")
    results = ", ".join(f"{_type_in_schema(r.type)}{f' {r.name}' if r.name else ''}" for r in schema.returns)
    head = f"{schema.name}.{schema.overload}" if schema.overload else schema.name
    is_one = len(schema.returns) == 1 and not schema.is_varret and not results.startswith("(")
    return f"{head}({', '.join(parts)}) -> {results if is_one else f'({results})'}"


def _type_in_schema(type: Type) -> str:
    """As graphs print it, but a named tuple by its name."""
    if isinstance(type, TupleType) and type.name:
        return type.name
    if isinstance(type, TupleType):
        return f"({', '.join(map(_type_in_schema, type.elements_))})"
    if isinstance(type, OptionalType):
        return f"{_type_in_schema(type.element)}?"
    if isinstance(type, ListType):
        return f"{_type_in_schema(type.element)}[]"
    return type.ir_text


def _default_text(value: Any) -> str:
    from .text.values import shown

    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_default_text, value))}]"
    if isinstance(value, enum.Enum):
        return f"Enum<{type(value).__name__}.{value.name}>"
    return shown(value)


# --- reading ----------------------------------------------------------------------------------------------------------


class _Reader:
    def __init__(self, text: str, named: Callable[[str], Type | None] | None = None) -> None:
        self.text, self.words = text, Tokens(text)
        self.types = TypeReader(self.words, named)

    def read(self) -> Schema:
        words = self.words
        name = words.expect_kind("ident").text
        while words.take_if("::"):
            name += "::" + words.expect_kind("ident").text
        overload = words.expect_kind("ident").text if words.take_if(".") else ""
        words.expect("(")
        arguments, is_vararg = self._arguments()
        words.expect("->")
        if words.is_("."):
            return Schema(name, overload, arguments, (), self.text, is_vararg, is_varret=True)
        if words.is_("(") and words.ahead().text != ")":
            returns = self._returns()
        elif words.take_if("("):
            words.expect(")")
            returns = ()
        else:
            returns = (self._return(),)
        return Schema(name, overload, arguments, returns, self.text, is_vararg)

    def _arguments(self) -> tuple[tuple[Argument, ...], bool]:
        words, found, kwarg_only, is_vararg = self.words, [], False, False
        while not words.take_if(")"):
            if words.take_if(","):
                continue
            if words.take_if("*"):
                kwarg_only = True
            elif words.take_if("."):
                words.take(), words.take()
                is_vararg = True
            else:
                found.append(self._argument(kwarg_only))
        return tuple(found), is_vararg

    def _argument(self, kwarg_only: bool) -> Argument:
        words = self.words
        spelled = words.now.text
        marked = self.types.read_marked()
        name = words.take().text
        default = REQUIRED
        if words.take_if("="):
            default = self._default(marked.type)
        return Argument(name, marked.type, default, kwarg_only, marked.alias, marked.length, spelled)

    def _returns(self) -> tuple[Argument, ...]:
        self.words.expect("(")
        found = []
        while not self.words.take_if(")"):
            self.words.take_if(",")
            found.append(self._return())
        return tuple(found)

    def _return(self) -> Argument:
        marked = self.types.read_marked()
        name = self.words.take().text if self.words.now.kind == "ident" else ""
        return Argument(name, marked.type, alias=marked.alias)

    def _default(self, type: Type) -> Any:
        words = self.words
        if words.take_if("["):
            items = []
            while not words.take_if("]"):
                words.take_if(",")
                items.append(self._default(type.contained()[0] if type.contained() else type))
            return items
        if words.now.kind == "string":
            return unquoted(words.take().text)
        sign = -1 if words.take_if("-") else 1
        word = words.take()
        if word.kind == "number":
            whole = word.text.isdigit() and not isinstance(without_optional(type), FloatType)
            return sign * (int(word.text) if whole else float(word.text))
        if word.text in ("inf", "nan"):
            return sign * float(word.text)
        if word.text not in _WORDS:
            words.refuse(f"unknown default '{word.text}'", word.start, word.end)
        return _WORDS[word.text]


def without_optional(type: Type) -> Type:
    """The type in an Optional, or the type itself."""
    return type.element if isinstance(type, OptionalType) else type


@functools.cache
def read_schema(text: str) -> Schema:
    """The signature that a text spells."""
    schema = _Reader(text).read()
    listed = tuple(_spread(_without_symbols(argument)) for argument in schema.arguments)
    return schema._replace(arguments=listed, returns=tuple(map(_without_symbols, schema.returns)))


def _without_symbols(argument: Argument) -> Argument:
    """Sizes that may be symbols are ints to a script."""
    return argument._replace(type=map_types(argument.type, lambda t: IntType() if isinstance(t, SymIntType) else t))


def _spread(argument: Argument) -> Argument:
    """A default of one number for a list of known length, as that list."""
    inner = without_optional(argument.type)
    is_one = argument.has_default and isinstance(argument.default, (int, float))
    if is_one and argument.length and isinstance(inner, ListType):
        return argument._replace(default=[argument.default] * argument.length)
    return argument


# --- the builtins -----------------------------------------------------------------------------------------------------


@functools.cache
def _own_texts() -> dict[str, list[str]]:
    """Lines of schemas.txt by name."""
    found: dict[str, list[str]] = {}
    for line in rows(__file__, "schemas"):
        found.setdefault(line.partition("(")[0].partition(".")[0], []).append(line)
    return found


@functools.cache
def _op_texts() -> dict[str, list[str]]:
    """Signatures of our ops by name."""
    from .. import aten

    found: dict[str, list[str]] = {}
    for line in rows(aten.__file__, "schemas"):
        found.setdefault(line.partition("(")[0].partition(".")[0], []).append(f"aten::{line}")
    return found


@functools.cache
def schemas_of(name: str) -> tuple[Schema, ...]:
    """All signatures of a builtin, in the order in which they are tried; none if there is no such builtin."""
    if not name.startswith(("aten::", "prim::")):
        return _registered(name)
    ops = _op_texts().get(name.removeprefix("aten::"), []) if name.startswith("aten::") else []
    if name not in _own_texts():
        found = sorted(map(read_schema, ops), key=_order)
    else:
        by_head = {text.partition("(")[0]: text for text in ops}
        found = [read_schema(line if "(" in line else by_head[line]) for line in _own_texts()[name]]
    if not ops or any(schema.index("out") is not None for schema in found):
        return tuple(found)
    return (*found, *(form for schema in found if (form := _with_out(schema)) is not None))


def _with_out(schema: Schema) -> Schema | None:
    """The form of an op that writes its result into a tensor it is given; None where there is no such form."""
    is_one = len(schema.returns) == 1 and isinstance(schema.returns[0].type, TensorType)
    if not is_one or schema.is_mutable or schema.returns[0].alias or schema.is_vararg or (
            schema.name.endswith("_") or schema.index("out") is not None):
        return None
    overload = "out" if schema.overload in ("", "Tensor") else f"{schema.overload}_out"
    head = schema.text.rpartition(" -> ")[0]
    was = f"{schema.name}.{schema.overload}" if schema.overload else schema.name
    head = head.replace(was, f"{schema.name}.{overload}", 1)
    star = "" if any(argument.kwarg_only for argument in schema.arguments) else "*, "
    return read_schema(f"{head[:-1]}, {star}Tensor(a!) out) -> Tensor(a!)")


def _order(schema: Schema) -> tuple[int, int]:
    """Tensors are tried before numbers, forms with fewer arguments last, as the compiler that this follows has them."""
    scalars = sum(isinstance(a.type, NumberType) and not a.has_default for a in schema.arguments)
    tensors = sum(isinstance(a.type, TensorType) for a in schema.arguments)
    return scalars, -tensors


def all_names() -> list[str]:
    """The names of all builtins."""
    return sorted({*_own_texts(), *(f"aten::{name}" for name in _op_texts())})


def _registered(name: str) -> tuple[Schema, ...]:
    """Signatures of an op that a program registered under a name of its own."""
    from .. import ops

    space, _, op = name.partition("::")
    packet = getattr(getattr(ops, space), op, None) if op else None
    texts = [str(getattr(packet, overload)._schema) for overload in packet.overloads()] if packet is not None else []
    return tuple(read_schema(text if "::" in text else f"{space}::{text}") for text in texts)


def is_builtin(name: str) -> bool:
    """Whether a name like `aten::add` is one of a builtin."""
    if not name.startswith(("aten::", "prim::")):
        return bool(_registered(name))
    return name in _own_texts() or (name.startswith("aten::") and name[6:] in _op_texts())


def overload_of(kind: str, inputs: list[Type]) -> Schema | None:
    """The signature a node of this kind was made by, told by the types that it reads."""
    for schema in schemas_of(kind):
        if schema.is_vararg or (len(schema.arguments) == len(inputs) and all(
                fits(given, argument.type, {}) for given, argument in zip(inputs, schema.arguments, strict=True))):
            return schema
    return None


def fits(given: Type, formal: Type, variables: dict[str, Type]) -> bool:
    """Whether a type may be given where a signature asks for `formal`; binds its variables."""
    bound = bind_variables(formal, given, variables)
    return bound is None and given.is_subtype_of(substitute(formal, variables))


def bind_variables(formal: Type, given: Type, variables: dict[str, Type]) -> str | None:
    """Learn what the variables of a formal type stand for; a reason in words where that cannot be."""
    if not formal.has_free_variables():
        return None
    if isinstance(formal, VarType):
        known = variables.get(formal.name)
        if known is None:
            variables[formal.name] = given
            return None
        both = unify(known, given)
        if both is None:
            return f"Type variable '{formal.name}' stands for {known} already, and {given} is another type"
        return None
    if isinstance(formal, OptionalType):
        inner = given.element if isinstance(given, OptionalType) else given
        return bind_variables(formal.element, inner, variables)
    parts, others = formal.contained(), given.contained()
    if type(formal) is not type(given) or len(parts) != len(others):
        if isinstance(formal, ListType) and isinstance(given, TupleType) and given.elements_:
            return bind_variables(formal.element, given.elements_[0], variables)
        return f"Cannot match {formal} to {given}"
    for part, other in zip(parts, others, strict=True):
        reason = bind_variables(part, other, variables)
        if reason is not None:
            return reason
    return None


def substitute(type: Type, variables: dict[str, Type]) -> Type:
    """A formal type with what its variables stand for."""
    if not type.has_free_variables():
        return type
    return map_types(type, lambda t: variables.get(t.name, t) if isinstance(t, VarType) else t)


def is_number(type: Type) -> bool:
    return isinstance(type, (IntType, FloatType, NumberType, BoolType))
