"""Expressions: from syntax to values.

Enters: an expression and, where the place knows it, the type it should have (empty lists and dicts take it). Leaves:
something `Sugared`, most often a value. Refuses: expressions the language does not have.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .. import types as t
from ..constants import insert_constant
from ..ir import Value
from ..source import Range
from .errors import CompileError, FrontendError, NotSupportedError, UnsupportedNodeError
from .forking import emit_fork
from .indexing import Indexing
from .sugared import Builtin, Form, Nothing, Range_, Simple, Special, Sugared, SugaredTuple, Together, Walk

if TYPE_CHECKING:
    from .emitter import Emitter

_BINARY = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Mod: "remainder", ast.Pow: "pow",
           ast.MatMult: "matmul", ast.FloorDiv: "floordiv", ast.BitAnd: "__and__", ast.BitOr: "__or__",
           ast.BitXor: "__xor__", ast.LShift: "__lshift__", ast.RShift: "__rshift__"}
_COMPARE = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"}
_CASTS = {"int": "aten::Int", "float": "aten::Float", "bool": "aten::Bool", "complex": "aten::Complex",
          "str": "aten::str"}


class Expressions(Indexing):
    """The part of the emitter that compiles expressions."""

    def value(self: Emitter, tree: ast.expr, hint: t.Type | None = None) -> Value:  # type: ignore[misc]
        return self.expression(tree, hint).value(self, self.definition.range(tree))

    def expression(self: Emitter, tree: ast.expr, hint: t.Type | None = None) -> Sugared:  # type: ignore[misc]
        at = self.definition.range(tree)
        emit = getattr(self, f"_{type(tree).__name__}", None)
        if emit is None:
            raise UnsupportedNodeError(at, type(tree).__name__)
        with self.graph.at_range(at):
            found = emit(tree, at, hint)
        return Simple(found) if isinstance(found, Value) else found

    def builtin(self: Emitter, kind: str, at: Range, args: Sequence[Value],  # type: ignore[misc]
                kwargs: dict[str, Value] | None = None) -> Value:
        """Call an op of the language."""
        return Builtin(kind).call(self, at, args, kwargs or {}).value(self, at)

    # --- literals
    def _Constant(self: Emitter, tree: ast.Constant, at: Range, hint: Any) -> Value:  # type: ignore[misc]
        held = tree.value
        if isinstance(held, (int, float, complex)) and not isinstance(held, bool):
            return self._number(held)
        if isinstance(held, bytes):
            raise FrontendError(at, f"Unknown Constant expression type: {type(held).__name__}")
        if held is Ellipsis:
            raise CompileError("Cannot emit expr for: '...' stands in indices of tensors only", at)
        return insert_constant(self.graph, held)

    def _number(self: Emitter, held: complex) -> Value:  # type: ignore[misc]
        """A number of the program's text: one constant for each, at the head of the function."""
        key = (type(held), repr(held))
        if key not in self.numbers:
            first = self.graph.block.params.next_
            with self.graph.inserting(first):
                self.numbers[key] = insert_constant(self.graph, held)
        return self.numbers[key]

    def _JoinedStr(self: Emitter, tree: ast.JoinedStr, at: Range, hint: Any) -> Value:  # type: ignore[misc]
        text, values = "", []
        for part in tree.values:
            if isinstance(part, ast.Constant):
                text += str(part.value)
                continue
            if part.conversion != -1:  # type: ignore[attr-defined]
                raise NotSupportedError(at, "conversions (`!r`) are not supported in JoinedStr")
            if part.format_spec is not None:  # type: ignore[attr-defined]
                raise NotSupportedError(at, "format specs (`:.2f`) are not supported in JoinedStr")
            text += "{}"
            values.append(part.value)  # type: ignore[attr-defined]
        head = insert_constant(self.graph, text)
        return self.builtin("aten::format", at, [head, *map(self.value, values)])

    def _Tuple(self: Emitter, tree: ast.Tuple, at: Range, hint: Any) -> Value:  # type: ignore[misc]
        hints = hint.elements_ if isinstance(hint, t.TupleType) and len(hint.elements_) == len(tree.elts) else ()
        values: list[Value] = []
        for i, part in enumerate(tree.elts):
            if isinstance(part, ast.Starred):
                values += [s.value(self, at) for s in self.expression(part.value).tuple(self, at)]
            else:
                values.append(self.value(part, hints[i] if hints else None))
        with self.graph.at_range(None):
            return self.graph.insert("prim::TupleConstruct", values,
                                     t.TupleType([value.type_ for value in values])).outputs_[0]

    def _List(self: Emitter, tree: ast.List, at: Range, hint: Any) -> Value:  # type: ignore[misc]
        inner = self.held_in(hint, t.ListType)
        element = inner.element if inner is not None else None
        values: list[Value] = []
        for part in tree.elts:
            if isinstance(part, ast.Starred):
                values += [s.value(self, at) for s in self.expression(part.value).tuple(self, at)]
            else:
                values.append(self.value(part, element))
        return self._listed(values, at, hint)

    def _listed(self: Emitter, values: list[Value], at: Range, hint: Any) -> Value:  # type: ignore[misc]
        """A list of given elements."""
        inner = self.held_in(hint, t.ListType)
        element = inner.element if inner is not None else None
        found = element if element is not None and all(v.type_.is_subtype_of(element) for v in values) else (
            self._united([v.type_ for v in values], "List consists", at) if values else t.TENSOR)
        if element is not None and not found.is_subtype_of(element) and isinstance(hint, t.ListType):
            raise CompileError(f"List type annotation `{inner}` did not match the elements, whose common type is"
                               f" {found}", at)
        with self.graph.at_range(None):
            return self.graph.insert("prim::ListConstruct", values, t.ListType(t.plain(found))).outputs_[0]

    def _united(self: Emitter, types: list[t.Type], what: str, at: Range) -> t.Type:  # type: ignore[misc]
        """The type of all elements of a literal: a union, with a warning, where they have no other in common."""
        found = t.unify_all(types, to_union=True)
        if isinstance(found, t.UnionType) and t.unify_all(types) is None:
            warnings.warn(f"{what} of heterogeneous types: all of them are taken as {found}. An `assert isinstance`"
                          " before the first use says which one a value is.\n"
                          f"{at.highlight()}", stacklevel=2)
        return found  # type: ignore[return-value]

    def held_in(self: Emitter, hint: Any, kind: type) -> Any:  # type: ignore[misc]
        """The container type that a hint, or the one member of a union that is such, asks for."""
        if isinstance(hint, kind):
            return hint
        if isinstance(hint, t.UnionType):
            found = [member for member in hint.members() if isinstance(member, kind)]
            return found[0] if len(found) == 1 else None
        return None

    def _Dict(self: Emitter, tree: ast.Dict, at: Range, hint: Any) -> Value:  # type: ignore[misc]
        inner = self.held_in(hint, t.DictType)
        keys = [self.value(key) for key in tree.keys if key is not None]
        if len(keys) != len(tree.keys):
            raise NotSupportedError(at, "Dict expansion (e.g. `{**dict}`) is not supported")
        values = [self.value(item, inner.value if inner else None) for item in tree.values]
        if inner is not None:
            made = inner
            for word, wanted, given in (("keys", inner.key, keys), ("values", inner.value, values)):
                for value in given:
                    if isinstance(hint, t.DictType) and not value.type_.is_subtype_of(wanted):
                        raise CompileError(f"Type annotation of the dict is {inner}, and one of its {word} is of type"
                                           f" {value.type_}", at)
        elif not keys:
            made = t.DictType(t.StringType(), t.TENSOR)
        else:
            key = t.unify_all([k.type_ for k in keys])
            if key is None:
                raise CompileError("Dict keys must be of one type, found "
                                   + ", ".join(dict.fromkeys(str(k.type_) for k in keys)), at)
            value = self._united([v.type_ for v in values], "Dict values consist", at)
            made = t.DictType(t.plain(key), t.plain(value))
        pairs = [part for pair in zip(keys, values, strict=True) for part in pair]
        with self.graph.at_range(None):
            return self.graph.insert("prim::DictConstruct", pairs, made).outputs_[0]

    # --- names
    def _Name(self: Emitter, tree: ast.Name, at: Range, hint: Any) -> Sugared:  # type: ignore[misc]
        return self.name(tree.id, at)

    def _Attribute(self: Emitter, tree: ast.Attribute, at: Range, hint: Any) -> Sugared:  # type: ignore[misc]
        return self.expression(tree.value).attribute(self, at, tree.attr)

    def callee(self: Emitter, tree: ast.expr) -> Sugared:  # type: ignore[misc]
        """What a call calls, without leaving nodes behind where it is no value."""
        return self.expression(tree)

    # --- operators
    def _BinOp(self: Emitter, tree: ast.BinOp, at: Range, hint: Any) -> Value:  # type: ignore[misc]
        left, right = self.value(tree.left), self.value(tree.right)
        word = _BINARY[type(tree.op)]
        if word == "remainder" and isinstance(left.type_, t.StringType):
            return self.builtin("aten::percentFormat", at, [left, right])
        if word == "add" and isinstance(left.type_, t.TupleType) and isinstance(right.type_, t.TupleType):
            return SugaredTuple([*Simple(left).tuple(self, at), *Simple(right).tuple(self, at)]).value(self, at)
        if word == "floordiv" and isinstance(left.type_, t.TensorType):
            word = "floor_divide"
        return self.builtin(f"aten::{word}", at, [left, right])

    def _UnaryOp(self: Emitter, tree: ast.UnaryOp, at: Range, hint: Any) -> Value:  # type: ignore[misc]
        if isinstance(tree.op, ast.Not):
            return self.condition(tree).value
        inner = self.value(tree.operand)
        if isinstance(tree.op, ast.USub):
            return self.builtin("aten::neg", at, [inner])
        if isinstance(tree.op, ast.Invert):
            return self.builtin("aten::bitwise_not", at, [inner])
        raise UnsupportedNodeError(at, "UAdd", "unary plus operators")

    def _BoolOp(self: Emitter, tree: ast.BoolOp, at: Range, hint: Any) -> Value:  # type: ignore[misc]
        return self.condition(tree).value

    def _Compare(self: Emitter, tree: ast.Compare, at: Range, hint: Any) -> Value:  # type: ignore[misc]
        if len(tree.ops) > 1 or isinstance(tree.ops[0], (ast.Is, ast.IsNot)):
            return self.condition(tree).value
        return self.compare(tree, at)

    def compare(self: Emitter, tree: ast.Compare, at: Range) -> Value:  # type: ignore[misc]
        """One comparison."""
        op, left, right = tree.ops[0], self.value(tree.left), self.value(tree.comparators[0])
        if isinstance(op, (ast.In, ast.NotIn)):
            found = self._contains(right, left, at)
            return found if isinstance(op, ast.In) else self.builtin("aten::__not__", at, [found])
        return self.builtin(f"aten::{_COMPARE[type(op)]}", at, [left, right])

    def _contains(self: Emitter, held: Value, item: Value, at: Range) -> Value:  # type: ignore[misc]
        if not isinstance(held.type_, t.StringType):
            return self.builtin("aten::__contains__", at, [held, item])
        with self.graph.at_range(None):
            zero, end = insert_constant(self.graph, 0), self.builtin("aten::len", at, [held])
            found = self.builtin("aten::find", at, [held, item, zero, end])
            return self.builtin("aten::ne", at, [found, insert_constant(self.graph, -1)])

    def _IfExp(self: Emitter, tree: ast.IfExp, at: Range, hint: Any) -> Value:  # type: ignore[misc]
        condition = self.condition(tree.test)
        if condition.static is not None:
            return self.value(tree.body if condition.static else tree.orelse, hint)
        return self.choose(condition, lambda: self.value(tree.body, hint), lambda: self.value(tree.orelse, hint), at,
                           hint)

    # --- calls
    def _Call(self: Emitter, tree: ast.Call, at: Range, hint: Any) -> Sugared | Value:  # type: ignore[misc]
        if isinstance(tree.func, ast.Attribute) and tree.func.attr == "tolist":
            return self._tolist(tree, at, hint)
        called = self.callee(tree.func)
        if isinstance(called, Special):
            return self.special(called.name, tree, at, hint)
        if isinstance(called, Form):
            return called.emit(self, tree, at)
        args: list[Value] = []
        for arg in tree.args:
            if isinstance(arg, ast.Starred):
                args += [s.value(self, at) for s in self.expression(arg.value).tuple(self, at)]
            else:
                args.append(self.value(arg))
        kwargs = {}
        for keyword in tree.keywords:
            if keyword.arg is None:
                raise NotSupportedError(at, "keyword-arg expansion is not supported")
            kwargs[keyword.arg] = self.value(keyword.value)
        place = self.definition.range(tree.func)       # of a call, what is called
        with self.graph.at_range(place):
            return called.call(self, place, args, kwargs)

    def _tolist(self: Emitter, tree: ast.Call, at: Range, hint: Any) -> Value:  # type: ignore[misc]
        """`x.tolist()`: how deep, and of what, the place where it stands says."""
        held = self.value(tree.func.value)  # type: ignore[attr-defined]
        if not isinstance(held.type_, t.TensorType):
            raise CompileError(f"'{held.type_}' object has no attribute or method 'tolist'.", at)
        if hint is None:
            raise CompileError("Expected type hint for result of tolist()", at)
        depth, inner = 0, hint
        while isinstance(inner, t.ListType):
            depth, inner = depth + 1, inner.element
        kinds = {t.IntType(): 0, t.FloatType(): 1, t.BoolType(): 2, t.ComplexType(): 3}
        if inner not in kinds:
            raise CompileError(f"tolist() makes lists of int, float, complex or bool, not {hint}", at)
        with self.graph.at_range(None):
            given = [held, insert_constant(self.graph, depth), insert_constant(self.graph, kinds[inner])]
        return self.graph.insert("prim::tolist", given, hint).outputs_[0]

    def _special__assert(self: Emitter, tree: ast.Call, at: Range, hint: Any) -> Value:  # type: ignore[misc]
        made = ast.copy_location(ast.Assert(tree.args[0], tree.args[1] if len(tree.args) > 1 else None), tree)
        self.statement(made)
        return insert_constant(self.graph, None)

    def special(self: Emitter, name: str, tree: ast.Call, at: Range, hint: Any) -> Sugared | Value:  # type: ignore
        """Calls with a form of their own."""
        if name in ("isinstance", "hasattr", "is_scripting", "is_tracing"):
            return self.condition(tree).value
        if name in _CASTS:
            return self._cast(name, tree, at)
        emit = getattr(self, f"_special_{name}", None)
        if emit is None:
            raise CompileError(f"'{name}' cannot be used in a script", at)
        return emit(tree, at, hint)

    def _cast(self: Emitter, name: str, tree: ast.Call, at: Range) -> Value:  # type: ignore[misc]
        values = [self.value(arg) for arg in tree.args]
        if not values:
            return insert_constant(self.graph, {"int": 0, "float": 0.0, "bool": False, "str": ""}[name])
        if name == "bool":
            return self.as_bool(values[0], at)
        kinds = {"int": t.IntType, "float": t.FloatType, "str": t.StringType, "complex": t.ComplexType}
        if len(values) == 1 and isinstance(values[0].type_, kinds[name]):
            return values[0]
        return self.builtin(_CASTS[name], at, values)

    def _special_print(self: Emitter, tree: ast.Call, at: Range, hint: Any) -> Sugared:  # type: ignore[misc]
        if tree.keywords:
            raise CompileError("print doesn't accept any keyword arguments", at)
        self.graph.insert("prim::Print", [self.value(arg) for arg in tree.args], outputs=0)
        return Nothing()

    def _special_annotate(self: Emitter, tree: ast.Call, at: Range, hint: Any) -> Value:  # type: ignore[misc]
        type = self._annotation(tree.args[0])
        value = self.value(tree.args[1], type)
        if not value.type_.is_subtype_of(type):
            raise CompileError(f"expected an expression of type {type} but found {value.type_}", at)
        if isinstance(value.type_, t.NoneType):
            value.type_ = type
        return value

    def _special_fork(self: Emitter, tree: ast.Call, at: Range, hint: Any) -> Value:  # type: ignore[misc]
        return emit_fork(self, tree, at)

    def _special_wait(self: Emitter, tree: ast.Call, at: Range, hint: Any) -> Value:  # type: ignore[misc]
        return self.builtin("aten::wait", at, [self.value(arg) for arg in tree.args])

    def _special_getattr(self: Emitter, tree: ast.Call, at: Range, hint: Any) -> Sugared:  # type: ignore[misc]
        if len(tree.args) not in (2, 3):
            raise CompileError(f"getattr expected 2 or 3 arguments but found {len(tree.args)}", at)
        owner, name = self.expression(tree.args[0]), tree.args[1]
        if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
            raise CompileError("getattr's second argument must be a string literal", at)
        if len(tree.args) == 3 and not self._has_attribute(tree, at):
            return self.expression(tree.args[2])
        return owner.attribute(self, at, name.value)

    def _special__unwrap_optional(self: Emitter, tree: ast.Call, at: Range, hint: Any) -> Value:  # type: ignore[misc]
        value = self.value(tree.args[0])
        made = t.without_none(value.type_)
        return self.graph.insert("aten::_unwrap_optional", [value], made).outputs_[0]

    def _special_tensor(self: Emitter, tree: ast.Call, at: Range, hint: Any) -> Value:  # type: ignore[misc]
        values = [self.value(arg) for arg in tree.args]
        kwargs = {keyword.arg or "": self.value(keyword.value) for keyword in tree.keywords}
        return self.builtin("aten::tensor", at, values, kwargs)

    # --- walks
    def walk(self: Emitter, tree: ast.expr) -> Walk:  # type: ignore[misc]
        """How to walk over an expression."""
        return self.expression(tree).iterate(self, self.definition.range(tree))

    def _special_range(self: Emitter, tree: ast.Call, at: Range, hint: Any) -> Sugared:  # type: ignore[misc]
        return Range_(self, at, [self.value(arg) for arg in tree.args])

    def _special_zip(self: Emitter, tree: ast.Call, at: Range, hint: Any) -> Sugared:  # type: ignore[misc]
        if not tree.args:
            raise CompileError("zip expected at least 1 arguments, got 0", at)
        return Together([self.walk(arg) for arg in tree.args])

    def _special_enumerate(self: Emitter, tree: ast.Call, at: Range, hint: Any) -> Sugared:  # type: ignore[misc]
        start = tree.args[1] if len(tree.args) > 1 else next((k.value for k in tree.keywords if k.arg == "start"), None)
        bounds = [] if start is None else [self.value(start)]
        bounds.append(self._number(2**63 - 1))
        inner = self.walk(tree.args[0])
        count = Range_(self, at, bounds)
        return Together([count.iterate(self, at), inner])

    def _special_list(self: Emitter, tree: ast.Call, at: Range, hint: Any) -> Value:  # type: ignore[misc]
        if not tree.args:
            return self._List(ast.List([], ast.Load()), at, hint)
        given = self.expression(tree.args[0])
        if isinstance(given, Simple) and isinstance(given.held.type_, (t.ListType, t.StringType)):
            return self.builtin("aten::list", at, [given.held])
        made = self._empty_list()
        return self._collected(given.iterate(self, at), lambda item: item.value(self, at), at, hint, made)

    def _empty_list(self: Emitter) -> Value:  # type: ignore[misc]
        with self.graph.at_range(None):
            return self.graph.insert("prim::ListConstruct", (), t.ListType(t.TENSOR)).outputs_[0]

    def _special_tuple(self: Emitter, tree: ast.Call, at: Range, hint: Any) -> Value:  # type: ignore[misc]
        parts = self.expression(tree.args[0]).tuple(self, at) if tree.args else []
        return SugaredTuple(parts).value(self, at)

    def _special_dict(self: Emitter, tree: ast.Call, at: Range, hint: Any) -> Value:  # type: ignore[misc]
        if not tree.args:
            keys: list[Any] = [ast.copy_location(ast.Constant(k.arg), k.value) for k in tree.keywords]
            made = ast.copy_location(ast.Dict(keys, [k.value for k in tree.keywords]), tree)
            return self._Dict(made, at, hint)
        given = self.value(tree.args[0])
        if isinstance(given.type_, t.DictType):
            return self.builtin("aten::dict", at, [given])
        return self._paired(Simple(given).iterate(self, at), lambda item: self._pair(item, at), at, hint)

    def _pair(self: Emitter, item: Sugared, at: Range) -> tuple[Value, Value]:  # type: ignore[misc]
        parts = item.tuple(self, at, 2)
        if len(parts) != 2:
            raise CompileError(f"dict() takes pairs of keys and values, found {len(parts)} values", at)
        return parts[0].value(self, at), parts[1].value(self, at)

    # --- comprehensions
    def _GeneratorExp(self: Emitter, tree: ast.GeneratorExp, at: Range, hint: Any) -> Value:  # type: ignore[misc]
        """Computed at once, as a list."""
        return self._ListComp(ast.copy_location(ast.ListComp(tree.elt, tree.generators), tree), at, hint)

    def _ListComp(self: Emitter, tree: ast.ListComp, at: Range, hint: Any) -> Value:  # type: ignore[misc]
        generator = self._generator(tree.generators, at)
        wanted = self.held_in(hint, t.ListType)

        def item(given: Sugared) -> Value:
            self.assign(generator.target, given, at)
            return self.value(tree.elt, wanted.element if wanted else None)

        made = self._empty_list()
        return self._collected(self.walk(generator.iter), item, at, hint, made)

    def _generator(self: Emitter, generators: list[ast.comprehension], at: Range) -> ast.comprehension:  # type: ignore
        if len(generators) != 1:
            raise NotSupportedError(at, "a comprehension may have one `for`, not several")
        if generators[0].ifs:
            raise NotSupportedError(self.definition.range(generators[0].ifs[0]),
                                    "Comprehension ifs are not supported yet")
        return generators[0]

    def _collected(self: Emitter, walk: Walk, item: Any, at: Range, hint: Any,  # type: ignore[misc]
                   made: Value) -> Value:
        """A list of what each turn of a walk gives."""
        wanted = self.held_in(hint, t.ListType)
        seen = False

        def append(given: Sugared) -> None:
            nonlocal seen
            value = item(given)
            if not seen:
                made.type_ = wanted or t.ListType(t.plain(value.type_))
                seen = True
            self.builtin("aten::append", at, [made, value])

        with self._scope():
            self.over(walk, at, append)
        if not seen:
            made.type_ = wanted or t.ListType(t.TENSOR)
        return made

    @contextmanager
    def _scope(self: Emitter) -> Iterator[None]:  # type: ignore[misc]
        """Names that a comprehension sets are its own."""
        node = self.graph.insert("prim::ComprehensionScope", outputs=0)
        with self.within(node.add_block()):
            yield

    def _DictComp(self: Emitter, tree: ast.DictComp, at: Range, hint: Any) -> Value:  # type: ignore[misc]
        generator = self._generator(tree.generators, at)
        wanted = self.held_in(hint, t.DictType)

        def pair(given: Sugared) -> tuple[Value, Value]:
            self.assign(generator.target, given, at)
            return self.value(tree.key), self.value(tree.value, wanted.value if wanted else None)

        return self._paired(lambda: self.walk(generator.iter), pair, at, hint)

    def _paired(self: Emitter, walk: Any, pair: Any, at: Range, hint: Any) -> Value:  # type: ignore[misc]
        """A dict of the pairs that each turn of a walk gives."""
        wanted = self.held_in(hint, t.DictType)
        with self.graph.at_range(None):
            made = self.graph.insert("prim::DictConstruct", (), t.DictType(t.StringType(), t.TENSOR)).outputs_[0]
        seen = False

        def put(given: Sugared) -> None:
            nonlocal seen
            key, value = pair(given)
            if not seen:
                made.type_ = wanted or t.DictType(t.plain(key.type_), t.plain(value.type_))
                seen = True
            self.builtin("aten::_set_item", at, [made, key, value])

        way = walk if isinstance(walk, Walk) else walk()
        with self._scope():
            self.over(way, at, put)
        if not seen and wanted:
            made.type_ = wanted
        return made
