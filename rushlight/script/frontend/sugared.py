"""What an expression of the program means while it is compiled: a value of the graph, or something that only turns into
one when it is called, indexed or walked over (a builtin, a Python module, a range, a type).

Enters: Python objects and values. Leaves: `Sugared`s, whose methods emit nodes. Refuses: uses that a thing does not
have, naming it.
"""

from __future__ import annotations

import enum
import inspect
import types as python_types
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ... import _C
from .. import types as t
from ..classes import ClassType, InterfaceType
from ..constants import as_number, insert_constant, type_of
from ..ir import Value
from ..matching import Mismatch, emit_call, match, match_any, refusal, unpacked
from ..schemas import is_builtin, schemas_of
from ..source import Range
from .errors import CompileError, FrontendError

if TYPE_CHECKING:
    from .emitter import Emitter


class Sugared:
    """Something a name or an expression stands for."""

    is_kept = False        # whether a name that is set to it goes on meaning it, and no value of the graph

    def kind(self) -> str:
        """What it is, for messages."""
        raise NotImplementedError

    def value(self, e: Emitter, at: Range) -> Value:
        raise CompileError(f"{self.kind()} cannot be used as a value", at)

    def attribute(self, e: Emitter, at: Range, name: str) -> Sugared:
        raise CompileError(f"attribute lookup is not defined on {self.kind()}", at)

    def set_attribute(self, e: Emitter, at: Range, name: str, value: Value) -> None:
        raise CompileError(f"attribute assignment is not defined on {self.kind()}", at)

    def call(self, e: Emitter, at: Range, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Sugared:
        raise CompileError(f"cannot call a {self.kind()}", at)

    def tuple(self, e: Emitter, at: Range, count: int | None = None) -> list[Sugared]:
        """Its parts, for unpacking."""
        raise CompileError(f"{self.kind()} cannot be used as a tuple", at)

    def iterate(self, e: Emitter, at: Range) -> Walk:
        """How a loop walks over it."""
        raise CompileError(f"{self.kind()} object is not iterable", at)

    def item(self, e: Emitter, at: Range, index: Value) -> Sugared:
        raise CompileError(f"'{self.kind()}' object is not subscriptable", at)

    def slice(self, e: Emitter, at: Range, where: slice) -> Sugared:
        """A part of it between bounds that are known."""
        raise CompileError(f"'{self.kind()}' object cannot be sliced", at)

    def length(self, e: Emitter, at: Range) -> Value:
        raise CompileError(f"'{self.kind()}' object has no length", at)


class Walk:
    """A loop's way over something: how often, and what each turn gets."""

    def __init__(self, count: Any, item: Any, parts: Sequence[Sugared] | None = None,
                 counts: list[Any] | None = None) -> None:
        self.count, self.item = count, item      # count(e, at) -> Value; item(e, at, index) -> Sugared
        self.parts = parts                        # where the length is known: the loop is unrolled
        self.counts = counts or [count]           # of several things walked over in step


# --- values -----------------------------------------------------------------------------------------------------------

_PROPERTIES = {
    "dtype": "prim::dtype", "device": "prim::device", "grad": "prim::grad", "data": "prim::data", "shape": "aten::size",
    "is_cuda": "prim::is_cuda", "is_cpu": "prim::is_cpu", "is_meta": "prim::is_meta", "is_mps": "prim::is_mps",
    "is_sparse": "prim::is_sparse", "is_sparse_csr": "prim::is_sparse_csr", "is_quantized": "prim::is_quantized",
    "is_mkldnn": "prim::is_mkldnn", "is_xla": "prim::is_xla", "is_nested": "prim::is_nested", "name": "prim::name",
    "layout": "prim::layout", "requires_grad": "prim::requires_grad", "itemsize": "prim::itemsize",
    "nbytes": "prim::nbytes", "is_leaf": "aten::is_leaf", "ndim": "aten::dim", "T": "aten::numpy_T",
    "H": "aten::matrix_H", "mT": "aten::mT", "mH": "aten::mH", "real": "aten::real", "imag": "aten::imag",
    "is_xpu": "prim::is_xpu",
    "retains_grad": "aten::retains_grad",
}
_CONVERSIONS = {"byte": 0, "char": 1, "short": 2, "int": 3, "long": 4, "half": 5, "float": 6, "double": 7, "cfloat": 9}
_OF_STRINGS = {"count", "endswith", "find", "index", "join", "lower", "lstrip", "replace", "rfind", "rstrip", "split",
               "splitlines", "startswith", "strip", "upper", "capitalize", "title", "center", "isupper", "islower",
               "swapcase", "isspace", "isalnum", "isalpha", "isdecimal", "isdigit", "isidentifier", "isnumeric",
               "isprintable", "istitle", "expandtabs", "format", "ljust", "partition", "rindex", "rjust", "rpartition",
               "rsplit", "zfill"}
_OF_LISTS = {"append", "extend", "insert", "pop", "remove", "reverse", "sort", "clear", "copy", "count", "index"}
_OF_DICTS = {"keys", "values", "items", "get", "pop", "popitem", "setdefault", "update", "clear", "copy"}


MAGIC = {
    **{f"aten::{word}": f"__{word}__" for word in ("add", "sub", "mul", "pow", "eq", "ne", "lt", "le", "gt", "ge",
                                                   "neg", "len", "round", "hex", "oct", "str")},
    **{f"aten::{word}": word for word in ("__and__", "__or__", "__xor__", "__lshift__", "__rshift__", "__contains__",
                                          "__getitem__")},
    "aten::div": "__truediv__", "aten::remainder": "__mod__", "aten::bitwise_not": "__invert__", "aten::Int": "__int__",
    "aten::Float": "__float__", "aten::Bool": "__bool__", "aten::Complex": "__complex__", "aten::_set_item":
    "__setitem__",
}        # what builtins are on objects: the method that a class has for them


class Simple(Sugared):
    """A value of the graph."""

    def __init__(self, value: Value) -> None:
        self.held = value

    def kind(self) -> str:
        return f"value of type '{self.held.type_}'"

    def value(self, e: Emitter, at: Range) -> Value:
        return self.held

    def attribute(self, e: Emitter, at: Range, name: str) -> Sugared:
        held, type = self.held, self.held.type_
        if isinstance(type, t.TensorType):
            if name in _PROPERTIES:
                with e.graph.at_range(None):
                    return Builtin(_PROPERTIES[name]).call(e, at, [held], {})
            if name in _CONVERSIONS:
                return Cast(held, _CONVERSIONS[name])
            if name == "type":
                return Builtin("aten::to", held)
            if is_builtin(f"aten::{name}") or is_builtin(f"prim::{name}"):
                return Builtin(f"aten::{name}" if is_builtin(f"aten::{name}") else f"prim::{name}", held)
        found = self._of_object(e, at, name) if isinstance(type, (ClassType, InterfaceType)) else (
            self._of_container(e, at, name))
        if found is not None:
            return found
        raise CompileError(f"'{type}' object has no attribute or method '{name}'.{e.why_missing(type, name)}", at)

    def _of_object(self, e: Emitter, at: Range, name: str) -> Sugared | None:
        return e.object_attribute(at, self.held, name)

    def set_attribute(self, e: Emitter, at: Range, name: str, value: Value) -> None:
        e.set_object_attribute(at, self.held, name, value)

    def _of_container(self, e: Emitter, at: Range, name: str) -> Sugared | None:
        held, type = self.held, self.held.type_
        if isinstance(type, t.TupleType) and name in type.fields:
            return Simple(e.tuple_item(held, type.fields.index(name)))
        methods = ((t.StringType, _OF_STRINGS), (t.ListType, _OF_LISTS), (t.DictType, _OF_DICTS))
        for kind, names in methods:
            if isinstance(type, kind) and name in names:
                return Builtin(f"aten::{name}", held)
        if isinstance(type, t.FutureType) and name == "wait":
            return Builtin("aten::wait", held)
        if isinstance(type, t.EnumType) and name in ("name", "value"):
            made = t.StringType() if name == "name" else type.value_type
            with e.graph.at_range(None):
                return Simple(e.graph.insert(f"prim::Enum{name.title()}", [held], made).outputs_[0])
        if isinstance(type, t.DeviceObjType) and name in ("type", "index"):
            return Builtin(f"prim::{name}").call(e, at, [held], {})
        return None

    def tuple(self, e: Emitter, at: Range, count: int | None = None) -> list[Sugared]:
        type = self.held.type_
        if isinstance(type, t.TupleType):
            return [Simple(value) for value in unpacked(e.graph, self.held)]
        if isinstance(type, t.ListType):
            if count is None:
                raise CompileError("cannot statically infer the size of a list that is taken apart here", at)
            with e.graph.at_range(None):
                node = e.graph.insert("prim::ListUnpack", [self.held], outputs=count)
            for output in node.outputs_:
                output.type_ = type.element
            return [Simple(output) for output in node.outputs_]
        raise CompileError(f"{type} cannot be used as a tuple", at)

    def iterate(self, e: Emitter, at: Range) -> Walk:
        held, type = self.held, self.held.type_
        if isinstance(type, t.TupleType):
            return Walk(None, None, self.tuple(e, at))
        if isinstance(type, t.DictType):
            held = e.builtin("aten::keys", at, [held])
        elif not isinstance(type, (t.ListType, t.StringType, t.TensorType)):
            raise CompileError(f"'{type}' object is not iterable", at)
        return Walk(lambda e, at: e.builtin("aten::len", at, [held]),
                    lambda e, at, index: Simple(held).item(e, at, index))

    def item(self, e: Emitter, at: Range, index: Value) -> Sugared:
        type = self.held.type_
        if isinstance(type, t.TensorType):
            zero = insert_constant(e.graph, 0)
            return Simple(e.builtin("aten::select", at, [self.held, zero, index]))
        return Simple(e.builtin("aten::__getitem__", at, [self.held, index]))

    def length(self, e: Emitter, at: Range) -> Value:
        if isinstance(self.held.type_, t.TupleType):
            return insert_constant(e.graph, len(self.held.type_.elements_))
        return e.builtin("aten::len", at, [self.held])

    def call(self, e: Emitter, at: Range, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Sugared:
        if isinstance(self.held.type_, t.FunctionType):
            return FunctionValue(self.held.type_.function).call(e, at, args, kwargs)
        if isinstance(self.held.type_, ClassType):
            return self.attribute(e, at, "__call__").call(e, at, args, kwargs)
        raise CompileError(f"cannot call a value of type '{self.held.type_}'", at)


class Builtin(Sugared):
    """An op of the language, perhaps bound to what it is a method of."""

    def __init__(self, name: str, receiver: Value | None = None) -> None:
        self.name, self.receiver = name, receiver

    def kind(self) -> str:
        return "builtin"

    def call(self, e: Emitter, at: Range, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Sugared:
        if self.name in MAGIC and self.receiver is None and args and isinstance(args[0].type_, ClassType):
            return e.as_sugared(args[0]).attribute(e, at, MAGIC[self.name]).call(e, at, args[1:], kwargs)
        swapped = self._scalar_first(e, at, args, kwargs)
        if swapped is not None:
            return swapped
        matched, reasons = match_any(e.graph, schemas_of(self.name), args, kwargs, self.receiver)
        if matched is None:
            raise CompileError(refusal(self.name, reasons), at)
        return Simple(emit_call(e.graph, self.name, matched))

    def _scalar_first(self, e: Emitter, at: Range, args: Sequence[Value],
                      kwargs: Mapping[str, Value]) -> Sugared | None:
        """A number before a tensor: `1 - x`."""
        numbers = (t.IntType, t.FloatType, t.ComplexType, t.NumberType)
        if self.receiver is not None or len(args) != 2 or kwargs or not isinstance(args[0].type_, numbers) or (
                not isinstance(args[1].type_, t.TensorType)):
            return None
        number, tensor = args
        turned = {"aten::add": "aten::add", "aten::mul": "aten::mul", "aten::eq": "aten::eq", "aten::ne": "aten::ne",
                  "aten::lt": "aten::gt", "aten::gt": "aten::lt", "aten::le": "aten::ge", "aten::ge": "aten::le"}
        if self.name in turned:
            return Simple(e.builtin(turned[self.name], at, [tensor, number]))
        if self.name == "aten::sub":
            return Simple(e.builtin("aten::add", at, [e.builtin("aten::neg", at, [tensor]), number]))
        if self.name == "aten::div":
            return Simple(e.builtin("aten::mul", at, [e.builtin("aten::reciprocal", at, [tensor]), number]))
        return None


class FunctionValue(Sugared):
    """A compiled function."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def kind(self) -> str:
        return "function"

    def value(self, e: Emitter, at: Range) -> Value:
        return self._constant(e)

    def _constant(self, e: Emitter) -> Value:
        node = e.graph.create("prim::Constant").set("s", "name", self.function.name)
        node.pyobj = self.function
        node.outputs_[0].type_ = t.FunctionType(self.function)
        with e.graph.at_range(None):
            node.range = None
            return e.graph.insert_node(node).outputs_[0]

    def call(self, e: Emitter, at: Range, args: Sequence[Value], kwargs: Mapping[str, Value], *,
             convert: bool = True) -> Sugared:
        function = self.function.ensure(at)
        schema = function.schema
        mark = e.graph.insert_at.prev_
        try:
            matched = match(e.graph, schema, args, kwargs, convert=convert)
        except Mismatch as mismatch:
            from ..matching import _undo

            _undo(e.graph, mark)  # type: ignore[arg-type]
            raise CompileError(f"\n{schema}:\n{mismatch}\n", at) from None
        called = self._constant(e)
        node = e.graph.insert("prim::CallFunction", [called, *matched.inputs], schema.return_type())
        return Simple(node.outputs_[0])


# --- Python's objects -------------------------------------------------------------------------------------------------


class PythonModule(Sugared):
    """A Python module: `torch`, `math`."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def kind(self) -> str:
        return f"Python module '{self.module.__name__}'"

    def attribute(self, e: Emitter, at: Range, name: str) -> Sugared:
        try:
            found = getattr(self.module, name)
        except AttributeError:
            raise CompileError(f"module '{self.module.__name__}': object has no attribute {name}", at) from None
        return _constant(found, at, e)


def _constant(found: Any, at: Range, e: Emitter) -> Sugared:
    """An attribute of a Python module: plain values are constants there."""
    if found is None or type(found) in (bool, int, float, complex, str):
        return Simple(insert_constant(e.graph, found))
    if type(found) is tuple:
        return SugaredTuple([_constant(part, at, e) for part in found])
    return sugared_of(found, at, e)


class OpSpace(Sugared):
    """`torch.ops.name`: the ops of a namespace."""

    def __init__(self, name: str) -> None:
        self.name = name

    def kind(self) -> str:
        return f"namespace of ops '{self.name}'"

    def attribute(self, e: Emitter, at: Range, name: str) -> Sugared:
        if not is_builtin(f"{self.name}::{name}"):
            raise CompileError(f"Unknown builtin op: {self.name}::{name}", at)
        return Builtin(f"{self.name}::{name}")


class Cast(Sugared):
    """`x.float()` and its like."""

    def __init__(self, tensor: Value, number: int) -> None:
        self.tensor, self.number = tensor, number

    def kind(self) -> str:
        return "method of a tensor"

    def call(self, e: Emitter, at: Range, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Sugared:
        if args or kwargs:
            raise CompileError("conversions of tensors take no arguments", at)
        dtype = insert_constant(e.graph, self.number)
        return Simple(e.builtin("aten::to", at, [self.tensor, dtype]))


class PythonValue(Sugared):
    """A Python object that is only itself: it can be passed to what knows it, and refused elsewhere."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def kind(self) -> str:
        return f"python value of type '{type(self.held).__name__}'"

    def value(self, e: Emitter, at: Range) -> Value:
        raise CompileError(f"{self.kind()} cannot be used as a value. If it is a global of the module around the"
                           " function: give it as an argument, or make it inside", at)

    def attribute(self, e: Emitter, at: Range, name: str) -> Sugared:
        if isinstance(self.held, type) and isinstance(inspect.getattr_static(self.held, name, None), staticmethod):
            return sugared_of(getattr(self.held, name), at, e)
        raise CompileError(f"attribute lookup is not defined on {self.kind()}", at)

    def item(self, e: Emitter, at: Range, index: Value) -> Sugared:
        return Simple(self.value(e, at))

    def call(self, e: Emitter, at: Range, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Sugared:
        held = self.held
        if isinstance(held, type) and hasattr(held, "__enter__") and (
                held.__module__.partition(".")[0] == __name__.partition(".")[0]):
            raise CompileError(f"Unknown builtin op: aten::{held.__name__}. Objects of this class cannot be made in"
                               " scripts", at)
        if isinstance(held, type) and hasattr(held, "__dict__") and "__init__" in vars(held) and (
                inspect.isfunction(vars(held)["__init__"])):
            raise FrontendError(at, f"Cannot instantiate class '{held.__name__}' in a script function")
        if isinstance(held, (python_types.BuiltinFunctionType, type)):
            raise CompileError(f"Python builtin {held!r} cannot be called in a script", at)
        raise CompileError(f"{self.kind()} cannot be called from a script", at)


class EnumClass(Sugared):
    """An enum by its name: its members, in order."""

    def __init__(self, type: t.EnumType) -> None:
        self.type = type

    def kind(self) -> str:
        return "EnumClass"

    def attribute(self, e: Emitter, at: Range, name: str) -> Sugared:
        if name not in dict(self.type.values):
            raise CompileError(f"'{self.type.ir_text}' has no attribute '{name}'", at)
        return Simple(insert_constant(e.graph, self.type.python_class[name], self.type))  # type: ignore[index]

    def iterate(self, e: Emitter, at: Range) -> Walk:
        members = [self.type.python_class[name] for name, _ in self.type.values]  # type: ignore[index]
        return Simple(insert_constant(e.graph, members, t.ListType(self.type))).iterate(e, at)


class NamedTupleClass(Sugared):
    """The constructor of a NamedTuple."""

    def __init__(self, type: t.TupleType) -> None:
        self.type = type

    def kind(self) -> str:
        return "NamedTuple"

    def call(self, e: Emitter, at: Range, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Sugared:
        from ..schemas import REQUIRED, Argument, Schema

        missing = len(self.type.fields) - len(self.type.defaults)
        fields = [Argument(name, part, REQUIRED if i < missing else self.type.defaults[i - missing])
                  for i, (name, part) in enumerate(zip(self.type.fields, self.type.elements_, strict=True))]
        schema = Schema((self.type.name or "").rpartition(".")[2], "", tuple(fields), (Argument("", self.type),))
        try:
            matched = match(e.graph, schema, args, kwargs, convert=True)
        except Mismatch as mismatch:
            raise CompileError(f"\n{schema}:\n{mismatch}\n", at) from None
        return Simple(e.graph.insert("prim::TupleConstruct", matched.inputs, self.type).outputs_[0])


class Range_(Sugared):
    """`range(...)`."""

    def __init__(self, e: Emitter, at: Range, bounds: Sequence[Value]) -> None:
        if not 1 <= len(bounds) <= 3:
            raise CompileError(f"range expected between 1 and 3 arguments, got {len(bounds)}", at)
        for place, bound in enumerate(bounds):
            if not isinstance(bound.type_, t.IntType):
                raise CompileError(f"all inputs of range must be ints, found {bound.type_} in argument {place}", at)
        self.is_simple = len(bounds) == 1
        if self.is_simple:
            self.end = bounds[0]
        else:
            self.start, self.end = bounds[0], bounds[1]
            self.step = bounds[2] if len(bounds) == 3 else insert_constant(e.graph, 1)

    def kind(self) -> str:
        return "range"

    def length(self, e: Emitter, at: Range) -> Value:
        if self.is_simple:
            return self.end
        return e.builtin("aten::__range_length", at, [self.start, self.end, self.step])

    def item(self, e: Emitter, at: Range, index: Value) -> Sugared:
        if self.is_simple:
            return Simple(index)
        return Simple(e.builtin("aten::__derive_index", at, [index, self.start, self.step]))

    def iterate(self, e: Emitter, at: Range) -> Walk:
        return Walk(lambda e, at: self.length(e, at), lambda e, at, index: self.item(e, at, index))

    def value(self, e: Emitter, at: Range) -> Value:
        raise CompileError("range cannot be used as a value: walk over it, or write list(range(n))", at)


class Together(Sugared):
    """`zip` and `enumerate`: several walks in step."""

    def __init__(self, walks: Sequence[Walk]) -> None:
        self.walks = walks

    def kind(self) -> str:
        return "iterable"

    def iterate(self, e: Emitter, at: Range) -> Walk:
        fixed = [len(walk.parts) for walk in self.walks if walk.parts is not None]
        if fixed:
            count = min(fixed)
            rows = [SugaredTuple([_nth(e, at, walk, i) for walk in self.walks]) for i in range(count)]
            return Walk(None, None, rows)
        return Walk(self._count, lambda e, at, index: SugaredTuple([w.item(e, at, index) for w in self.walks]),
                    counts=self.counts())

    def counts(self) -> list[Any]:
        """How to count each of the things walked over, those of walks in step within included."""
        return [count for walk in self.walks for count in walk.counts]

    def _count(self, e: Emitter, at: Range) -> Value:
        counts = [count(e, at) for count in self.counts()]
        with e.graph.at_range(None):
            row = e.graph.insert("prim::ListConstruct", counts, t.ListType(t.IntType())).outputs_[0]
        return e.builtin("prim::min", at, [row])


def _nth(e: Emitter, at: Range, walk: Walk, i: int) -> Sugared:
    if walk.parts is not None:
        return walk.parts[i]
    return walk.item(e, at, insert_constant(e.graph, i))


class SugaredTuple(Sugared):
    """Several things in a row."""

    def __init__(self, parts: Sequence[Sugared]) -> None:
        self.parts = list(parts)

    def kind(self) -> str:
        return "tuple"

    def tuple(self, e: Emitter, at: Range, count: int | None = None) -> list[Sugared]:
        return self.parts

    def value(self, e: Emitter, at: Range) -> Value:
        values = [part.value(e, at) for part in self.parts]
        with e.graph.at_range(None):
            return e.graph.insert("prim::TupleConstruct", values,
                                  t.TupleType([value.type_ for value in values])).outputs_[0]

    def iterate(self, e: Emitter, at: Range) -> Walk:
        return Walk(None, None, self.parts)

    def item(self, e: Emitter, at: Range, index: Value) -> Sugared:
        place = e.known_integer(index)
        if place is None:
            return Simple(e._of_tuple(self.value(e, at), index, at))
        if not -len(self.parts) <= place < len(self.parts):
            raise CompileError(f"Tuple index out of range: {place} of {len(self.parts)}", at)
        return self.parts[place]

    def slice(self, e: Emitter, at: Range, where: slice) -> Sugared:
        return SugaredTuple(self.parts[where])

    def length(self, e: Emitter, at: Range) -> Value:
        return insert_constant(e.graph, len(self.parts))


class Nothing(Sugared):
    """What `print` gives: no value."""

    def kind(self) -> str:
        return "None"


class Special(Sugared):
    """Something with a form of its own: `print`, `isinstance`, `annotate`; the emitter knows it by name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def kind(self) -> str:
        return f"{self.name}"


class Form(Sugared):
    """Something whose call is compiled from its syntax by a function of its own."""

    def __init__(self, name: str, emit: Any) -> None:
        self.name, self.emit = name, emit        # emit(e, tree, at) -> Sugared

    def kind(self) -> str:
        return self.name


def sugared_of(found: Any, at: Range, e: Emitter) -> Sugared:
    """What a Python object means in a script."""
    from .annotations import enum_type
    from .builtins import builtin_of, special_of

    if isinstance(found, Sugared):
        return found
    special = special_of(found)
    if special is not None:
        return Special(special)
    known = e.unit.meaning_of(found, at)
    if known is not None:
        return known
    builtin = builtin_of(found)
    if builtin is not None:
        return Builtin(builtin)
    if type(found).__name__ in ("_OpNamespace", "OpNamespace"):
        return OpSpace(found.name)
    if isinstance(found, python_types.ModuleType) or type(found).__name__ in ("LazyModule",):
        return PythonModule(found)
    if isinstance(found, (_C.dtype, _C.device)) or as_number(found) is not None:
        return Simple(insert_constant(e.graph, found))
    if isinstance(found, enum.Enum):
        return EnumClass(enum_type(type(found))).attribute(e, at, found.name)
    if inspect.isclass(found):
        return _class(found, at, e)
    return e.unit.function_of(found, at) or PythonValue(found)


def _class(found: type, at: Range, e: Emitter) -> Sugared:
    from .annotations import enum_type, try_type

    if issubclass(found, tuple) and hasattr(found, "_fields"):
        type = try_type(found)
        if isinstance(type, t.TupleType):
            return NamedTupleClass(type)
    if issubclass(found, enum.Enum):
        return EnumClass(enum_type(found))
    made = e.unit.class_type(found, at)
    return e.class_value(made) if isinstance(made, ClassType) else PythonValue(found)


def is_literal(found: Any) -> bool:
    """Whether a Python object can be a constant of its own."""
    return type_of(found) is not None
