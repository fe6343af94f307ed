"""Classes and functions of an archive, made from its code when they are first named.

Enters: qualified names (`__torch__.torch.nn.modules.linear.Linear`). Leaves: types and `Function`s, one of each.
Refuses: names without code, attributes of unknown types, inheritance.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from .. import types as t
from ..classes import ClassType, InterfaceType
from ..frontend.errors import CompileError
from ..frontend.parsing import Definition
from ..schemas import Argument, Schema
from ..source import Range, Source
from ..text.code_reader import ClassText, Member, read_code
from ..unit import Function, Unit
from .debug import Origins
from .names import Closure, Names

_AROUND: dict[str, Callable[..., t.Type]] = {
    "List": t.ListType, "Optional": t.optional_of, "Future": t.FutureType, "Await": t.AwaitType, "RRef": t.RRefType,
    "Dict": t.DictType, "Final": lambda held: held, "Tuple": lambda *parts: t.TupleType(parts),
    "Union": lambda *parts: t.union_of(parts),
}
_PLAIN: dict[str, t.Type] = {
    "Tensor": t.TENSOR, "int": t.IntType(), "float": t.FloatType(), "complex": t.ComplexType(), "bool": t.BoolType(),
    "str": t.StringType(), "NoneType": t.NoneType(), "None": t.NoneType(), "Any": t.AnyType(),
    "number": t.NumberType(), "Scalar": t.NumberType(), "Device": t.DeviceObjType(), "Stream": t.StreamObjType(),
    "Generator": t.GeneratorType(), "Storage": t.StorageType(), "AnyEnumType": t.AnyEnumType(),
    "AnyClassType": t.AnyClassType(), "list": t.AnyListType(), "tuple": t.AnyTupleType(), "dict": t.AnyType(),
    "AnyListType": t.AnyListType(), "AnyTupleType": t.AnyTupleType(), "QScheme": t.IntType(), "Layout": t.IntType(),
    "ScalarType": t.IntType(), "MemoryFormat": t.IntType(), "PyObject": t.PyObjectType(),
}


class ArchivedDefinition(Definition):
    """A function of an archive: places are offsets, annotations are read by the importer."""

    def __init__(self, importer: Importer, tree: ast.FunctionDef, source: Source, origins: Origins) -> None:
        super().__init__(tree.name, tree, source, importer.names)
        self.importer, self.origins = importer, origins

    def range(self, node: ast.AST) -> Range:
        here = Range(self.source, node.col_offset, node.end_col_offset)  # type: ignore[attr-defined]
        return self.origins.of(here)

    def annotation(self, tree: ast.expr) -> t.Type:
        return self.importer.annotation(tree, Range(self.source, tree.col_offset, tree.end_col_offset))  # type: ignore

    def closure(self, tree: ast.FunctionDef) -> Closure:
        return Closure(self, tree)

    def with_parameters(self, tree: ast.FunctionDef, names: list[str], types: list[t.Type]) -> ArchivedDefinition:
        """A function inside this one as one of its own, which is given what it reads of its surroundings."""
        place = {"lineno": 1, "end_lineno": 1, "col_offset": tree.col_offset, "end_col_offset": tree.col_offset}
        args = [ast.arg(name, ast.Constant(type, **place), **place) for name, type in zip(names, types, strict=True)]
        parameters = ast.arguments([], args, None, [], [], None, [])
        made = ast.FunctionDef(name=tree.name, args=parameters, body=tree.body, decorator_list=[], returns=None,
                               type_comment=None)
        return ArchivedDefinition(self.importer, ast.copy_location(made, tree), self.source, self.origins)

    def default(self, tree: ast.expr) -> Any:
        return self.importer.literal(tree, self.range(tree))


class Importer:
    """The code of one archive. `text_of` gives the text of a member or None, `constants` the archive's table."""

    def __init__(self, unit: Unit, version: int, text_of: Callable[[str], str | None],
                 constants: Callable[[], list[Any]], origins_of: Callable[[str, str], Origins] | None = None,
                 upgraded: Callable[[str, int], Any] | None = None) -> None:
        self.unit, self.version, self.constants = unit, version, constants
        self._text_of, self._origins_of = text_of, origins_of
        self._members: dict[str, Member | None] = {}
        self._origins: dict[str, Origins] = {}
        self._types: dict[str, t.Type] = {}
        self._functions: dict[str, Function] = {}
        self.upgraded = upgraded           # what an op of an older version means; None: all are of today
        self.names = Names(self)

    # --- members
    def _member(self, prefix: str) -> Member | None:
        """The code of everything whose name begins so."""
        if prefix not in self._members:
            path = f"code/{prefix.replace('.', '/')}.py"
            text = self._text_of(path)
            self._members[prefix] = None if text is None else read_code(text, Source(text, path, 1))
            if text is not None:
                self._origins[prefix] = self._origins_of(path, text) if self._origins_of else Origins()
        return self._members[prefix]

    def _definition(self, tree: ast.FunctionDef, prefix: str, member: Member) -> ArchivedDefinition:
        return ArchivedDefinition(self, tree, member.source, self._origins[prefix])

    def function(self, name: str) -> Function | None:
        """A function by its qualified name; None where there is none."""
        if name not in self._functions:
            prefix, _, last = name.rpartition(".")
            member = self._member(prefix)
            tree = member.functions.get(last) if member is not None else None
            if tree is None:
                return None
            self._functions[name] = Function(self.unit, name, self._definition(tree, prefix, member))  # type: ignore
        return self._functions[name]

    def type(self, name: str) -> t.Type | None:
        """A class by its qualified name; None where there is none."""
        if name not in self._types:
            prefix, _, last = name.rpartition(".")
            member = self._member(prefix)
            text = member.classes.get(last) if member is not None else None
            if text is None:
                return None
            make = {"NamedTuple": self._named_tuple, "Enum": self._enum, "Interface": self._interface,
                    "ModuleInterface": self._interface, "Module": self._class, "": self._class}.get(text.base)
            if make is None:
                self._refuse(f"class '{name}' inherits from '{text.base}', which archives do not have", text, member)
            self._types[name] = make(name, text, prefix, member)  # type: ignore[misc]
        return self._types[name]

    def _refuse(self, why: str, text: ClassText, member: Any) -> None:
        raise CompileError(why, Range(member.source, text.start, text.start + 1))

    # --- types
    def annotation(self, tree: ast.expr, at: Range) -> t.Type:
        """The type that an annotation spells."""
        if isinstance(tree, ast.Name) and tree.id in _PLAIN:
            return _PLAIN[tree.id]
        if isinstance(tree, ast.Constant) and (tree.value is None or isinstance(tree.value, t.Type)):
            return tree.value or t.NoneType()
        if isinstance(tree, ast.Attribute):
            name = _dotted(tree)
            found = self.type(name)
            if found is not None:
                return found
            if name.startswith("__torch__.torch.classes."):
                raise CompileError(f"class '{name}' is a custom class of C++, which is not there", at)
            raise CompileError(f"Unknown type name '{name}'", at)
        if isinstance(tree, ast.Subscript) and isinstance(tree.value, ast.Name) and tree.value.id in _AROUND:
            inside = tree.slice.elts if isinstance(tree.slice, ast.Tuple) else [tree.slice]
            parts = [self.annotation(part, at) for part in inside]
            try:
                return _AROUND[tree.value.id](*parts)
            except TypeError:
                raise CompileError(f"'{tree.value.id}' is not around {len(parts)} types", at) from None
        raise CompileError(f"Unknown type annotation '{at.text()}'", at)

    def literal(self, tree: ast.expr, at: Range) -> Any:
        """The value of a constant: numbers, words, rows of them, members of enums, entries of the table."""
        if isinstance(tree, ast.Constant):
            return tree.value
        if isinstance(tree, (ast.Tuple, ast.List)):
            row = [self.literal(part, at) for part in tree.elts]
            return tuple(row) if isinstance(tree, ast.Tuple) else row
        if isinstance(tree, ast.Dict):
            return {self.literal(key, at): self.literal(value, at)  # type: ignore[arg-type]
                    for key, value in zip(tree.keys, tree.values, strict=True)}
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "annotate":
            return self.literal(tree.args[1], at) if len(tree.args) == 2 else None
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
            return -self.literal(tree.operand, at)
        if isinstance(tree, ast.Call) and ast.unparse(tree.func) == "torch.device" and len(tree.args) == 1:
            from ..._C import device

            return device(self.literal(tree.args[0], at))
        if isinstance(tree, (ast.Name, ast.Attribute)):
            return self._named_constant(_dotted(tree), at)
        raise CompileError(f"'{at.text()}' is no constant", at)

    def _named_constant(self, name: str, at: Range) -> Any:
        held = getattr(self.names(name), "held", None) if "." not in name else None
        if isinstance(held, (float, complex)):
            return held
        prefix, _, last = name.rpartition(".")
        if prefix == "CONSTANTS" and last[1:].isdigit() and int(last[1:]) < len(self.constants()):
            return self.constants()[int(last[1:])]
        owner = self.type(prefix) if prefix.startswith("__torch__") else None
        if isinstance(owner, t.EnumType) and last in owner.python_class.__members__:  # type: ignore[union-attr]
            return owner.python_class.__members__[last]  # type: ignore[union-attr]
        function = self.function(name)
        if function is not None:
            return function
        raise CompileError(f"'{name}' is no constant of this archive", at)

    # --- classes
    def _class(self, name: str, text: ClassText, prefix: str, member: Member) -> ClassType:
        is_module = text.base == "Module"
        made = self._types[name] = ClassType(name, is_module=is_module, unit=self.unit)
        parameters, buffers = (set(text.lists.get(key, ())) for key in ("__parameters__", "__buffers__"))
        functions = {tree.name: Function(self.unit, f"{name}.{tree.name}", self._definition(tree, prefix, member), made)
                     for tree in text.methods}
        hooks = {key: text.lists.get(key, []) for key in ("__forward_hooks__", "__forward_pre_hooks__")}
        missing = [hook for row in hooks.values() for hook in row if hook not in functions]
        if missing:
            self._refuse(f"class '{name}' names hooks it does not define: {', '.join(missing)}", text, member)
        try:
            self._fill(made, text, member, parameters, buffers)
        except BaseException:
            del self._types[name]
            raise
        made.hooks = [functions[hook] for hook in hooks["__forward_hooks__"]]
        made.pre_hooks = [functions[hook] for hook in hooks["__forward_pre_hooks__"]]
        known = {*hooks["__forward_hooks__"], *hooks["__forward_pre_hooks__"]}
        made.methods.update((key, function) for key, function in functions.items() if key not in known)
        return made

    def _fill(self, made: ClassType, text: ClassText, member: Member, parameters: set[str],
              buffers: set[str]) -> None:
        for attribute, kind, value in text.attributes:
            at = Range(member.source, kind.col_offset, kind.end_col_offset or 0)
            if attribute in made.index or attribute in made.constants:
                raise CompileError(f"class '{made.name_}' has two attributes '{attribute}'", at)
            if value is not None:
                made.constants[attribute] = self.literal(value, at)
            else:
                made.add_slot(attribute, self.annotation(kind, at), is_parameter=attribute in parameters,
                              is_buffer=attribute in buffers)

    def _named_tuple(self, name: str, text: ClassText, prefix: str, member: Member) -> t.TupleType:
        fields = tuple(field for field, _, _ in text.attributes)
        if len(set(fields)) != len(fields):
            self._refuse(f"NamedTuple '{name}' has a field twice", text, member)
        parts = [self.annotation(kind, Range(member.source, kind.col_offset, kind.end_col_offset or 0))
                 for _, kind, _ in text.attributes]
        return t.TupleType(parts, name, fields, (), named_tuple(text.name, fields))

    def _enum(self, name: str, text: ClassText, prefix: str, member: Member) -> t.EnumType:
        from ..constants import type_of

        at = Range(member.source, text.start, text.start + 1)
        pairs = tuple((key, self.literal(value, at)) for key, value in text.members)
        kinds = {type_of(value) for _, value in pairs}
        if len(kinds) != 1 or not isinstance(kinds.copy().pop(), (t.IntType, t.FloatType, t.StringType)):
            self._refuse(f"the values of enum '{name}' must all be ints, floats or strings", text, member)
        try:
            made = enum.Enum(text.name, pairs)  # type: ignore[misc]
        except (ValueError, TypeError) as error:
            raise CompileError(f"enum '{name}': {error}", at) from None
        return t.EnumType(name, kinds.pop(), pairs, made)  # type: ignore[arg-type]

    def _interface(self, name: str, text: ClassText, prefix: str, member: Member) -> InterfaceType:
        made = self._types[name] = InterfaceType(name, is_module=text.base == "ModuleInterface")
        for tree in text.methods:
            definition = self._definition(tree, prefix, member)
            arguments = tuple(Argument(arg.arg, definition.annotation(arg.annotation) if arg.annotation else t.TENSOR)
                              for arg in tree.args.args[1:])
            result = definition.annotation(tree.returns) if tree.returns is not None else t.NoneType()
            made.methods[tree.name] = Schema(tree.name, "", arguments, (Argument("", result),))
        return made


def _dotted(tree: ast.expr) -> str:
    parts = []
    while isinstance(tree, ast.Attribute):
        parts.append(tree.attr)
        tree = tree.value
    if not isinstance(tree, ast.Name):
        return ""
    return ".".join([tree.id, *reversed(parts)])


def named_tuple(name: str, fields: tuple[str, ...]) -> type:
    """A class of tuples whose parts have names, made without any text."""
    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        row = [*args, *(kwargs[field] for field in fields[len(args) :] if field in kwargs)]
        if len(row) != len(fields) or len(args) + len(kwargs) != len(row):
            raise TypeError(f"{name} takes {len(fields)} values: {', '.join(fields)}")
        return tuple.__new__(cls, row)

    def text(self: Any) -> str:
        return f"{name}({', '.join(f'{field}={value!r}' for field, value in zip(fields, self, strict=True))})"

    def replaced(self: Any, **kwargs: Any) -> Any:
        return type(self)(*(kwargs.pop(field, value) for field, value in zip(fields, self, strict=True)), **kwargs)

    return type(name, (tuple,), {
        "__slots__": (), "__new__": new, "__repr__": text, "_fields": fields, "_field_defaults": {},
        "_asdict": lambda self: dict(zip(fields, self, strict=True)), "_replace": replaced,
        "_make": classmethod(lambda cls, row: cls(*row)), "__match_args__": fields,
        **{field: property(itemgetter(i)) for i, field in enumerate(fields) if not field.startswith("__")},
    })
