"""Statements: from a function's syntax tree to nodes.

Enters: a `Definition`. Leaves: a graph with loads, stores and exits in it, which `ssa` and `exits` bring into single
assignment. Expressions are in `expressions.py`, conditions in `conditions.py`.
Refuses: statements the language does not have, each by its name and place.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .. import types as t
from ..classes import ClassType, InterfaceType
from ..constants import insert_constant
from ..functional.language import Spread
from ..ir import Block, Graph, Value
from ..schemas import REQUIRED, Argument, Schema
from ..source import Range
from ..values import Refused, converted
from .annotations import object_of, qualified_name, type_of_annotation
from .conditions import Conditions
from .environment import Frame
from .errors import CompileError, NotSupportedError, UnsupportedNodeError
from .expressions import Expressions
from .indexing import augmented as in_place_kind
from .objects import ClassValue, attribute_of, check_context, set_attribute, why_missing
from .parsing import NOT_FOUND, Definition
from .sugared import MAGIC, Simple, Sugared, SugaredTuple, Walk, sugared_of

FOREVER = 2**63 - 1
_REASONS = {
    ast.AsyncFunctionDef: "async function definitions", ast.ClassDef: "class definitions",
    ast.FunctionDef: "function definitions", ast.Try: "try blocks", ast.Global: "global variables",
    ast.Nonlocal: "nonlocal variables", ast.Import: "import statements", ast.ImportFrom: "import statements",
    ast.AsyncFor: "async for loops", ast.AsyncWith: "async with statements",
}
_AUGMENTED = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Mod: "fmod",
              ast.BitAnd: "__and__", ast.BitOr: "__or__", ast.BitXor: "__xor__",
              ast.LShift: "__lshift__", ast.RShift: "__rshift__", ast.Pow: "pow"}


class Emitter(Expressions, Conditions):
    """One function on its way into a graph."""

    def __init__(self, unit: Any, definition: Definition, owner: ClassType | None = None,
                 make_self: Callable[[Value], Sugared] | None = None) -> None:
        self.unit, self.definition = unit, definition
        self.owner, self.make_self = owner, make_self      # of a method: its class, and what `self` means inside
        self.graph = Graph()
        self.frame = Frame(self.graph, self.graph.block, None)
        self.numbers: dict[Any, Value] = {}
        self.exiting: set[Block] = set()
        self.returned: t.Type | None = None      # of the returns seen so far
        self.declared: t.Type | None = None
        self.loops = 0

    # --- the whole function
    def emit(self) -> Schema:
        """The function's signature; its graph is in `graph`."""
        tree = self.definition.tree
        arguments = self._parameters(tree)
        if tree.returns is not None:
            self.declared = self._annotation(tree.returns)
        self.statements(tree.body)
        self._end(tree)
        result = self.declared or self.returned or t.NoneType()
        return Schema(self.definition.name, "", tuple(arguments), (Argument("", result),))

    def _parameters(self, tree: ast.FunctionDef) -> list[Argument]:
        args = tree.args
        listed = [*args.posonlyargs, *args.args, *args.kwonlyargs]
        defaults: list[Any] = [REQUIRED] * (len(args.posonlyargs) + len(args.args) - len(args.defaults))
        defaults += [self._default(default) for default in args.defaults]
        defaults += [REQUIRED] * len(args.kwonlyargs)
        found = []
        for at, (arg, default) in enumerate(zip(listed, defaults, strict=True)):
            place = self.definition.range(arg)
            if at == 0 and self.owner is not None:
                found.append(self._self(arg, place))
                continue
            type, length = self._parameter_type(arg.annotation)
            value = self.graph.add_input(arg.arg, type)
            self.frame.store(arg.arg, value, place, type)
            if length is not None and isinstance(default, (int, float)):
                default = [default] * length
            elif default is not REQUIRED:
                default = self._fitting(default, type, arg.arg)
            found.append(Argument(arg.arg, type, default, arg in args.kwonlyargs, length=length))
        return found

    def _parameter_type(self, tree: ast.expr | None) -> tuple[t.Type, int | None]:
        """A parameter's type and, for a list that one value may stand for (`BroadcastingList2[int]`, or a Spread of our
        own bodies), its length."""
        if tree is None:
            return t.INFERRED, None
        if isinstance(tree, ast.Name) and isinstance(found := self.definition.lookup(tree.id), Spread):
            return t.ListType(type_of_annotation(found.kind, None)), found.length
        if isinstance(tree, ast.Subscript) and isinstance(tree.value, ast.Name):
            word = tree.value.id
            if word.startswith("BroadcastingList") and word[16:].isdigit():
                return t.ListType(self._annotation(tree.slice)), int(word[16:])
            if word == "Optional":
                inner, length = self._parameter_type(tree.slice)
                return t.optional_of(inner), length
        return self._annotation(tree), None

    def _self(self, arg: ast.arg, place: Range) -> Argument:
        """The object that a method is called on."""
        assert self.owner is not None
        value = self.graph.add_input(arg.arg, self.owner)
        if self.make_self is None:
            self.frame.store(arg.arg, value, place, self.owner)
        else:
            self.frame.keep(arg.arg, self.make_self(value), place)
        return Argument(arg.arg, self.owner)

    def _default(self, tree: ast.expr) -> Any:
        """A default as the function itself holds it."""
        return self.definition.default(tree)

    def _fitting(self, default: Any, type: t.Type, name: str) -> Any:
        """A default as its parameter takes it."""
        if default is None and isinstance(type, t.TensorType):
            return None
        try:
            return converted(default, type)
        except Refused:
            raise CompileError(f'parameter "{name}": Expected a default value of type {type}, got {default!r:.80}',
                               self.definition.range(self.definition.tree)) from None

    def _annotation(self, tree: ast.expr) -> t.Type:
        return self.definition.annotation(tree)

    def _end(self, tree: ast.FunctionDef) -> None:
        """A function that falls off its end returns None."""
        if self.graph.block in self.exiting:
            return
        place = self.definition.range(tree)
        if self.declared is not None and not t.NoneType().is_subtype_of(self.declared):
            raise CompileError(f"Function does not return along all paths, and its declared type {self.declared} has no"
                               " None",
                               place)
        if self.returned is not None and self.declared is None:
            self.returned = t.unify(self.returned, t.NoneType())
        with self.graph.at_range(None):
            self.graph.insert("prim::ReturnStmt", [insert_constant(self.graph, None)], outputs=0)

    # --- statements
    def statements(self, body: Sequence[ast.stmt]) -> None:
        """All of a body; what stands behind an exit is not compiled."""
        for statement in body:
            self.statement(statement)
            if self.frame.block in self.exiting:
                return

    def statement(self, tree: ast.stmt) -> None:
        emit = getattr(self, f"_{type(tree).__name__}", None)
        place = self.definition.range(tree)
        if emit is None:
            raise UnsupportedNodeError(place, type(tree).__name__, _REASONS.get(type(tree), ""))
        with self.graph.at_range(place):
            emit(tree, place)

    def _FunctionDef(self, tree: ast.FunctionDef, at: Range) -> None:
        """Functions inside others are a form of archives: what a fork calls."""
        made = self.definition.closure(tree)
        if made is None:
            raise UnsupportedNodeError(at, "FunctionDef", _REASONS[ast.FunctionDef])
        self.frame.keep(tree.name, made, at)

    def _Pass(self, tree: ast.Pass, at: Range) -> None:
        pass

    def _Expr(self, tree: ast.Expr, at: Range) -> None:
        if not isinstance(tree.value, ast.Constant) or tree.value.value is Ellipsis:     # no docstring
            self.expression(tree.value)

    def _Return(self, tree: ast.Return, at: Range) -> None:
        if tree.value is None:
            value = insert_constant(self.graph, None)
        else:
            value = self.value(tree.value, self.declared)
        if self.declared is not None:
            value = self.as_declared(value, self.declared, at)
            if isinstance(self.declared, t.AnyType) and not isinstance(value.type_, t.AnyType):
                with self.graph.at_range(None):
                    value = self.graph.insert("prim::unchecked_cast", [value], self.declared).outputs_[0]
        else:
            both = value.type_ if self.returned is None else t.unify(self.returned, value.type_)
            if both is None:
                raise CompileError(f"Previous return statement returned a value of type {self.returned}, this one"
                                   f" returns a value of type {value.type_}", at)
            self.returned = t.plain(both)
        self.graph.insert("prim::ReturnStmt", [value], outputs=0)
        self.exiting.add(self.frame.block)

    def as_declared(self, value: Value, declared: t.Type, at: Range) -> Value:
        """A value for a return whose type was declared."""
        from ..matching import _converted

        value = _converted(self.graph, declared, value, convert=True)
        if not value.type_.is_subtype_of(declared):
            raise CompileError(f"Return value was annotated as having type {declared} and is actually of type"
                               f" {value.type_}", at)
        return value

    def as_sugared(self, value: Value) -> Sugared:
        """A value by its type: of a module as such."""
        type = value.type_
        if isinstance(type, ClassType) and type.is_module() and self.make_self is not None:
            return self.make_self(value)
        return Simple(value)

    def object_attribute(self, at: Range, held: Value, name: str) -> Sugared | None:
        return attribute_of(self, at, held, name)

    def set_object_attribute(self, at: Range, held: Value, name: str, value: Value) -> None:
        set_attribute(self, at, held, name, value)

    def class_value(self, type: ClassType) -> Sugared:
        return ClassValue(type)

    def why_missing(self, type: t.Type, name: str) -> str:
        return why_missing(type, name)

    def as_slot(self, value: Value, wanted: t.Type, name: str, at: Range) -> Value:
        """A value for an attribute whose type is known."""
        from ..matching import _converted

        value = _converted(self.graph, wanted, value, convert=False)
        if not value.type_.is_subtype_of(wanted):
            raise CompileError(f"Wrong type for attribute assignment: '{name}'. Expected {wanted} but got"
                               f" {value.type_}", at)
        return value

    def _Assign(self, tree: ast.Assign, at: Range) -> None:
        if len(tree.targets) > 1:
            first = tree.targets[0]
            self.assign(first, self.expression(tree.value, _hint(self, first)), at)
            for target in tree.targets[1:]:
                self.assign(target, self.expression(first), at)
            return
        target, hint = tree.targets[0], _hint(self, tree.targets[0])
        found = self.expression(tree.value, hint)
        if isinstance(target, ast.Name) and isinstance(tree.value, ast.List) and not tree.value.elts and hint is None:
            self.frame.store(target.id, found.value(self, at), at, names=False)     # its type may yet turn out
        else:
            self.assign(target, found, at)

    def _AnnAssign(self, tree: ast.AnnAssign, at: Range) -> None:
        if tree.value is None:
            raise UnsupportedNodeError(at, "AnnAssign", "annotated assignments without assigned value")
        type = self._annotation(tree.annotation)
        value = self.value(tree.value, type)
        if isinstance(tree.target, ast.Name):
            self.store(tree.target.id, value, at, type)
        else:
            _check_declared_in_init(self, tree)
            self.assign(tree.target, Simple(value), at)

    def store(self, name: str, value: Value, at: Range, annotated: t.Type | None = None) -> None:
        self.frame.store(name, value, at, annotated)

    def assign(self, target: ast.expr, given: Sugared, at: Range) -> None:
        """Bind a target: a name, a row of them, an element, an attribute."""
        if isinstance(target, ast.Name):
            if isinstance(given, (Simple, SugaredTuple)):
                self.store(target.id, given.value(self, at), at)
            else:
                self._bind(target.id, given, at)
        elif isinstance(target, ast.Tuple):
            self._unpack(target, given, at)
        elif isinstance(target, ast.Subscript):
            self.set_item(target, given.value(self, at), at)
        elif isinstance(target, ast.Attribute):
            self.expression(target.value).set_attribute(self, at, target.attr, given.value(self, at))
        else:
            raise CompileError(f"unexpected expression on left-hand side of assignment: {type(target).__name__}", at)

    def _bind(self, name: str, given: Sugared, at: Range) -> None:
        try:
            value = None if given.is_kept else given.value(self, at)
        except CompileError:
            value = None
        if value is None:
            self.frame.keep(name, given, at)
            return
        self.store(name, value, at)

    def _unpack(self, target: ast.Tuple | ast.List, given: Sugared, at: Range) -> None:
        starred = [i for i, part in enumerate(target.elts) if isinstance(part, ast.Starred)]
        if len(starred) > 1:
            raise CompileError("only one target of an assignment may be starred", at)
        parts = given.tuple(self, at, None if starred else len(target.elts))
        if starred:
            self._unpack_starred(target, parts, starred[0], at)
            return
        if len(parts) != len(target.elts):
            wanted, found = len(target.elts), len(parts)
            raise CompileError(f"need {wanted} values to unpack but found only {found}" if found < wanted else
                               f"too many values to unpack: need {wanted} but found {found}", at)
        for part, value in zip(target.elts, parts, strict=True):
            self.assign(part, value, at)

    def _unpack_starred(self, target: ast.Tuple | ast.List, parts: list[Sugared], star: int, at: Range) -> None:
        after = len(target.elts) - star - 1
        if len(parts) < star + after:
            raise CompileError(f"need at least {star + after} values to unpack but found {len(parts)}", at)
        middle = SugaredTuple(parts[star : len(parts) - after])
        row = [*parts[:star], middle, *parts[len(parts) - after :]]
        for part, value in zip(target.elts, row, strict=True):
            self.assign(part.value if isinstance(part, ast.Starred) else part, value, at)

    def _AugAssign(self, tree: ast.AugAssign, at: Range) -> None:
        word = _AUGMENTED.get(type(tree.op))
        if word is None:
            raise NotSupportedError(at, f"unsupported kind of augmented assignment: {type(tree.op).__name__}")
        if isinstance(tree.target, ast.Subscript):
            self.augment_item(tree, word, at)
            return
        if isinstance(tree.target, ast.Attribute):
            self.augment_attribute(tree, word, at)
            return
        after = self.augmented(self.value(tree.target), tree, word, at)
        self.assign(tree.target, Simple(after), at)

    def augmented(self, before: Value, tree: ast.AugAssign, word: str, at: Range) -> Value:
        """What an augmented assignment makes of the value before."""
        if isinstance(before.type_, (ClassType, InterfaceType)):
            method = MAGIC.get(f"aten::{word}", "")
            own = f"__i{method[2:]}"
            has_own = own in before.type_.methods
            return Simple(before).attribute(self, at, own if has_own else method).call(
                self, at, [self.value(tree.value)], {}).value(self, at)
        if isinstance(before.type_, t.TensorType):
            kind = in_place_kind(word)
        elif isinstance(before.type_, t.ListType) and word == "add":
            kind = "aten::add_"
        else:
            kind = f"aten::{word}"
        return self.builtin(kind, at, [before, self.value(tree.value)])

    def augment_attribute(self, tree: ast.AugAssign, word: str, at: Range) -> None:
        """`object.name += value`: the object is computed once."""
        target: ast.Attribute = tree.target  # type: ignore[assignment]
        owner = self.expression(target.value)
        with self.graph.at_range(self.definition.range(target)):
            before = owner.attribute(self, at, target.attr).value(self, at)
        owner.set_attribute(self, at, target.attr, self.augmented(before, tree, word, at))

    def _Delete(self, tree: ast.Delete, at: Range) -> None:
        for target in tree.targets:
            if isinstance(target, ast.Name):
                self.name(target.id, self.definition.range(target))
                self.frame.types.pop(target.id, None)
                self.frame.problems[target.id] = f"{target.id} was deleted"
            elif isinstance(target, ast.Subscript):
                self.builtin("aten::Delete", at, [self.value(target.value), self.value(target.slice)])
            else:
                raise CompileError("del takes names and elements of lists and dicts", at)

    # --- branches
    def _If(self, tree: ast.If, at: Range) -> None:
        condition = self.condition(tree.test)
        if condition.static is not None:
            self.refine(condition.if_true if condition.static else condition.if_false, at)
            self.statements(tree.body if condition.static else tree.orelse)
            return
        self.branches(condition, lambda: self.statements(tree.body), lambda: self.statements(tree.orelse), at)

    @contextmanager
    def within(self, block: Block) -> Iterator[Frame]:
        """A frame of its own for a block; nodes go to its end."""
        before = self.frame
        self.frame = Frame(self.graph, block, before)
        try:
            with self.graph.inserting(block):
                yield self.frame
        finally:
            self.frame = before

    def branches(self, condition: Any, when_true: Any, when_false: Any, at: Range) -> None:
        """An If whose blocks run statements; names that both leave behind live on."""
        node = self.graph.insert("prim::If", [condition.value], outputs=0)
        frames = []
        for emit, refinements in ((when_true, condition.if_true), (when_false, condition.if_false)):
            with self.within(node.add_block()) as frame:
                self.refine(refinements, at)
                emit()
                frames.append(frame)
        self._join(node, frames, at)

    def _join(self, node: Any, frames: list[Frame], at: Range) -> None:
        exits = [block in self.exiting for block in node.blocks_]
        if all(exits):
            self.exiting.add(self.frame.block)
            return
        names = sorted({name for frame in frames for name in frame.types})
        for name in names:
            types = [None if leaves else frame.type_of(name) for frame, leaves in zip(frames, exits, strict=True)]
            for which, (found, leaves) in enumerate(zip(types, exits, strict=True)):
                if found is None and not leaves:
                    self.frame.problems[name] = (
                        f"{name} is not defined in the {'false' if which else 'true'} branch:\n{at.highlight()}and is"
                        " read here")
            if any(found is None and not leaves for found, leaves in zip(types, exits, strict=True)):
                continue
            self._join_name(name, node, frames, types, at)

    def _join_name(self, name: str, node: Any, frames: list[Frame], types: list[t.Type | None], at: Range) -> None:
        known = [found for found in types if found is not None]
        outer = self.frame.type_of(name)
        both = t.unify_all(known, hint=outer)
        if both is None:
            self.frame.problems[name] = (f"Type mismatch: {name} is set to type {types[0]} by the true branch and to"
                                         f" type {types[1]} by the false one:\n{at.highlight()}and is read here")
            self.frame.types.pop(name, None)
            return
        for block, frame, found in zip(node.blocks_, frames, types, strict=True):
            if found is None:       # this branch is left for good: its value is never read
                with self.graph.inserting(block), self.graph.at_range(None):
                    nothing = self.graph.insert("prim::Uninitialized", (), both).outputs_[0]
                    self.graph.insert("prim::Store", [nothing], outputs=0).set("s", "name", name)
                frame.types[name] = both
        self.frame.problems.pop(name, None)
        self.frame.types[name] = both

    # --- loops
    def _While(self, tree: ast.While, at: Range) -> None:
        if tree.orelse:
            raise NotSupportedError(self.definition.range(tree.orelse[0]),
                                    "else branches of while loops aren't supported")
        self.loop(at, lambda: self._number(FOREVER), lambda: self.condition(tree.test),
                  lambda index: self.statements(tree.body))

    def _For(self, tree: ast.For, at: Range) -> None:
        if tree.orelse:
            raise NotSupportedError(self.definition.range(tree.orelse[0]),
                                    "else branches of for loops aren't supported")
        walk = self.walk(tree.iter)
        self.over(walk, at, lambda item: (self.assign(tree.target, item, at), self.statements(tree.body)),
                  name=tree.target.id if isinstance(tree.target, ast.Name) else "")

    def over(self, walk: Walk, at: Range, body: Any, name: str = "") -> None:
        """Walk over something: a loop, or, where the length is known, the body once for each part."""
        if walk.parts is not None:
            for part in walk.parts:
                body(part)
                if self.frame.block in self.exiting:
                    return
            return
        self.loop(at, lambda: walk.count(self, at), None, lambda index: body(walk.item(self, at, index)), name)

    def loop(self, at: Range, count: Any, condition: Any, body: Any, name: str = "") -> None:
        """A loop node: its first block is the body, its second, for the time being, the condition."""
        turns = count()
        node = self.graph.insert("prim::Loop", [turns], outputs=0)
        inside, asked = node.add_block(), node.add_block()
        with self.within(asked):
            answer = condition().value if condition is not None else None
            if answer is None:
                with self.graph.inserting(node):
                    answer = insert_constant(self.graph, True)
            asked.register_output(answer)
        with self.within(inside):
            self.loops += 1
            index = inside.add_input("", t.IntType())
            body(index)
            self.loops -= 1
        self.exiting.discard(inside)

    def _Break(self, tree: ast.Break, at: Range) -> None:
        self._leave_turn("break", "prim::BreakStmt", at)

    def _Continue(self, tree: ast.Continue, at: Range) -> None:
        self._leave_turn("continue", "prim::ContinueStmt", at)

    def _leave_turn(self, word: str, kind: str, at: Range) -> None:
        if not self.loops:
            raise CompileError(f"'{word}' outside of a loop" if word == "break" else
                               "continue statements aren't supported outside of loops", at)
        self.graph.insert(kind, outputs=0)       # what follows is compiled all the same

    # --- errors
    def _Raise(self, tree: ast.Raise, at: Range) -> None:
        if tree.exc is None:
            raise CompileError("raise needs an exception", at)
        called = tree.exc
        args = called.args if isinstance(called, ast.Call) else []
        owner = self._exception(called.func if isinstance(called, ast.Call) else called, at)
        with self.graph.at_range(self.definition.range(args[0] if args else called)):
            parts = [self.value(arg) for arg in args]
            message = insert_constant(self.graph, "") if not parts else parts[0]
            if len(parts) > 1:
                message = SugaredTuple([Simple(part) for part in parts]).value(self, at)
            if not isinstance(message.type_, t.StringType):
                message = self.builtin("aten::str", at, [message])
        with self.graph.at_range(self.definition.range(called)):
            name = insert_constant(self.graph, owner if isinstance(called, ast.Call) else None)
        self.graph.insert("prim::RaiseException", [message, name], outputs=0)
        self.exiting.add(self.frame.block)

    def _exception(self, tree: ast.expr, at: Range) -> str:
        found = object_of(tree, self.definition.lookup)
        if not (isinstance(found, type) and issubclass(found, BaseException)):
            raise CompileError("exceptions must derive from BaseException", at)
        module = found.__module__
        return f"{module}.{found.__name__}" if module == "builtins" else qualified_name(found)

    def _Assert(self, tree: ast.Assert, at: Range) -> None:
        condition = self.condition(tree.test)

        def fail() -> None:
            message = self.value(tree.msg) if tree.msg is not None else insert_constant(self.graph, "")
            head = insert_constant(self.graph, "AssertionError: ")
            whole = self.builtin("aten::add", at, [head, message])
            none = insert_constant(self.graph, None)
            self.graph.insert("prim::RaiseException", [whole, none], outputs=0)
            self.exiting.add(self.frame.block)

        if condition.static is True:
            return
        self.branches(condition, lambda: None, fail, at)

    # --- with
    def _With(self, tree: ast.With, at: Range) -> None:
        """Enter each item, run the body, leave in reverse order; `exits` sees to ways out of the body."""
        entered = []
        for item in tree.items:
            place = self.definition.range(item.context_expr)
            held = self.value(item.context_expr)
            type = check_context(held, place)
            entered.append(held)
            with self.graph.at_range(place):
                inside = self.graph.insert("prim::Enter", [held], type).outputs_[0]
            if item.optional_vars is not None:
                self.assign(item.optional_vars, Simple(inside), at)
        self.statements(tree.body)
        for held in reversed(entered):
            self.graph.insert("prim::Exit", [held], t.TENSOR)

    # --- names
    def name(self, name: str, at: Range) -> Sugared:
        """What a name means here."""
        value = self.frame.load(name)
        if value is not None:
            return Simple(value)
        other = self.frame.other_of(name)
        if other is not None:
            return other
        problem = self.frame.problem_of(name)
        if problem is not None:
            raise CompileError(problem, at)
        found = self.definition.lookup(name)
        if found is NOT_FOUND:
            raise CompileError(f"undefined value {name}", at)
        return sugared_of(found, at, self)


def _check_declared_in_init(e: Emitter, tree: ast.AnnAssign) -> None:
    target = tree.target
    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self" and (
            e.definition.name != "__init__"):
        place = e.definition.range(tree.target)
        raise ValueError(f"types of attributes must be declared in __init__, and '{e.definition.name}' declares one"
                         f"\n{place.highlight()}")


def _hint(e: Emitter, target: ast.expr) -> t.Type | None:
    """What type a target wants: that of the variable, where it has one."""
    return e.frame.type_of(target.id) if isinstance(target, ast.Name) else None
