"""Values of captured frames as data: what a frame returned or held where its graph broke.

Enters: values of the interpreter, with what is known of them (`Left`). Leaves: what JSON holds, in terms of
the graph's results, of where objects from outside are found, and of constants; and the other way round, code that makes
the values again. Of functions it knows a fixed few by name; nothing else that is read is ever called. Refuses
(`NotKept`): objects that hold anything else.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ... import _C
from ..._C import Tensor
from ...base import shape
from ...base.codec import CONSTANTS, PLAIN
from ...base.disk_cache import NotKept
from ..record.acts import ACTS, spent
from ..values.sources import Constant, Source

if TYPE_CHECKING:
    from ..bytecode.emitter import Emitter

_FROM_MEMBERS: dict[str, type] = {kind.__name__: kind for kind in (set, frozenset, shape.Size)}
_ITERATORS: dict[str, Callable[..., Any]] = {f.__name__: f for f in (iter, enumerate, zip, reversed)}
_WHOLE = (complex, bytes, range, type(...), _C.dtype, _C.device, shape.layout, shape.memory_format)
_SYMBOLIC = (_C.SymbolicInt, _C.SymbolicFloat, _C.SymbolicBool)


# --- what a frame left ------------------------------------------------------------------------------------------------


class Left:
    """What a frame left behind: the value it returned, or its variables and stack where its graph broke; what it
    changes (effects.py); and what is needed to say so elsewhere."""

    def __init__(self, value: Any, acts: Sequence[tuple], rebuilder: Any, codes: set[types.CodeType]) -> None:
        self.value, self.acts, self.codes = value, acts, codes
        self.outputs, self.recorder = rebuilder.outputs, rebuilder.recorder
        self.twins, self.taken = rebuilder.outside.by_twin, rebuilder.outside.taken
        self.own, self.spent = rebuilder.machine.own, rebuilder.machine.gradients.spent


class Described:
    """Describes values, each object once. `row` numbers a source."""

    def __init__(self, left: Left, row: Callable[[Source], int]) -> None:
        self.left, self.row = left, row
        self._numbers: dict[int, int] = {}
        self._open: set[int] = set()
        self._kept: list[Any] = []      # what numbers were given to must live
        self.loaded: dict[int, None] = {}      # rows that are loaded before anything changes

    def of(self, value: Any) -> list[Any]:
        """A result of the graph, an object from outside, a constant, or something made of these."""
        known = self.left.twins.get(id(value))
        if known is not None and known.twin is value:
            is_fixed = known.kind == "itself" or type(known.source) is Constant
            return ["object", self.row(known.source)] if is_fixed else self.source(known.source)
        kind = type(value)
        if isinstance(value, Tensor):
            if id(value) in self.left.spent:
                return self.once(value, Described.spent)
            return self.result(self.left.recorder.nodes.get(id(value)))
        if kind.__name__ == "Unread":
            return self.source(value.source)
        if kind in PLAIN:
            return ["value", value]
        if isinstance(value, _SYMBOLIC):
            found = self.left.recorder.argument(value)
            return ["value", found] if type(found) in PLAIN else self.result(found)
        if kind is types.BuiltinFunctionType and not isinstance(value.__self__, Tensor):
            return ["object", self.row(Constant(value, value.__name__))]
        if kind is types.FunctionType:
            return self.function(value)
        if kind in _WHOLE:
            return ["value", CONSTANTS.described(value)]
        rule = _RULES.get(kind)
        if rule is None:
            raise NotKept(f"it leaves a {kind.__name__}")
        return self.once(value, rule)

    def source(self, source: Source) -> list[Any]:
        row = self.row(source)
        self.loaded[row] = None
        return ["source", row]

    def act(self, function: Callable | None, values: Sequence[Any], is_known: bool) -> list[Any]:
        """A call that changes something, or (None) one of the program's own that says something."""
        name = None if function is None else next((n for n, f in ACTS.items() if f is function), "")
        if name == "":
            raise NotKept(f"it changes what only {function!r} can")
        owner, *rest = values
        known = [["object", self.row(Constant(owner, "globals"))]] if is_known else [self.of(owner)]
        return [name, *known, *[self.of(v) for v in rest]]

    def result(self, node: Any) -> list[Any]:
        if node not in self.left.outputs:
            raise NotKept("it leaves a tensor with attributes, or of another class")
        return ["result", self.left.outputs[node]]

    def once(self, value: Any, rule: Callable[[Described, Any], list[Any]]) -> list[Any]:
        if id(value) in self._numbers:
            return ["again", self._numbers[id(value)]]
        if id(value) in self._open:
            raise NotKept("it leaves an object that holds itself")
        self._open.add(id(value))
        found = rule(self, value)
        self._numbers[id(value)] = len(self._numbers)
        self._kept.append(value)
        return found

    def spent(self, value: Tensor) -> list[Any]:
        """A loss whose backward() ran in the graph."""
        return ["spent", self.result(self.left.recorder.nodes.get(id(self.left.spent[id(value)][1])))]

    def members(self, value: Any) -> list[Any]:
        return [type(value).__name__, [self.of(v) for v in value]]

    def dict(self, value: dict) -> list[Any]:
        return ["dict", [[self.of(k), self.of(v)] for k, v in value.items()]]

    def slice(self, value: slice) -> list[Any]:
        return ["slice", [self.of(v) for v in (value.start, value.stop, value.step)]]

    def cell(self, value: types.CellType) -> list[Any]:
        try:
            held = [value.cell_contents]
        except ValueError:      # an empty one
            held = []
        return ["cell", [self.of(x) for x in held]]

    def function(self, value: types.FunctionType) -> list[Any]:
        if id(value) in self.left.own:
            raise NotKept(f"it leaves the function {value.__qualname__}, which it made")
        return ["object", self.row(Constant(value, value.__qualname__))]

    def method(self, value: Any) -> list[Any]:
        owner = value.__self__
        if isinstance(owner, Tensor):      # the method of a fake; the tensor has its own
            return ["tensor method", [self.of(owner), value.__name__]]
        return ["method", [self.of(value.__func__), self.of(owner)]]

    def iterator(self, value: Any) -> list[Any]:
        """Iterators say themselves how they are made again."""
        self._kept.append(parts := value.__reduce__())
        function, args, *state = parts
        if _ITERATORS.get(getattr(function, "__name__", "")) is not function:
            raise NotKept(f"it leaves a {type(value).__name__}")
        return ["iterator", [function.__name__, [self.of(a) for a in args], state[0] if state else None]]


_RULES: dict[type, Callable[[Described, Any], list[Any]]] = {
    **dict.fromkeys((tuple, list, set, frozenset, shape.Size), Described.members), dict: Described.dict,
    slice: Described.slice, types.CellType: Described.cell, types.MethodType: Described.method,
    types.BuiltinFunctionType: Described.method,
    **dict.fromkeys((type(iter([])), type(iter(())), type(iter(range(0))), type(iter({})), type(iter({}.items())),
                     type(iter({}.values())), type(reversed([])), enumerate, zip), Described.iterator),
}


class Writer:
    """Writes the code that makes described values again. `found`: of a row, its source and what is there now."""

    def __init__(self, emitter: Emitter, found: Callable[[int], tuple[Source, Any]]) -> None:
        self.emitter, self.found = emitter, found
        self.results = emitter.fresh_local("results")
        self._locals: list[str] = []
        self._loaded: dict[int, str] = {}

    def load(self, rows: Sequence[int]) -> None:
        """Hold what is at sources now, before anything changes."""
        for row in rows:
            self._loaded[row] = self.emitter.fresh_local("loaded")
            self.emitter.source(self.found(row)[0])
            self.emitter.store_local(self._loaded[row])

    def act(self, told: Sequence[Any]) -> None:
        """A call that changes something."""
        name, *values = told
        if name is not None:
            self.emitter.load_const(ACTS[name])
        for value in values:
            self.push(value)
        if name is not None:
            self.emitter.call(len(values))
        else:
            self.emitter.call_spread(has_kwargs=True)
        self.emitter.pop()

    def push(self, told: Sequence[Any]) -> None:
        kind, what = told
        emitter = self.emitter
        if kind == "result":
            emitter.load_local(self.results)
            emitter.load_const(what)
            emitter.subscr()
        elif kind == "source":
            emitter.load_local(self._loaded[what])
        elif kind == "object":
            emitter.load_const(self.found(what)[1])
        elif kind == "value":
            emitter.load_const(CONSTANTS.restored(what))
        elif kind == "again":
            emitter.load_local(self._locals[what])
        else:
            _WRITTEN[kind](self, kind, what)
            name = emitter.fresh_local("rebuilt")
            self._locals.append(name)
            emitter.dup()
            emitter.store_local(name)

    def all(self, parts: Sequence[Any]) -> int:
        for part in parts:
            self.push(part)
        return len(parts)

    def sequence(self, kind: str, what: Any) -> None:
        build = {"tuple": self.emitter.build_tuple, "list": self.emitter.build_list, "slice": self.emitter.build_slice}
        build[kind](self.all(what))

    def from_members(self, kind: str, what: Any) -> None:
        self.emitter.load_const(_FROM_MEMBERS[kind])
        self.emitter.build_list(self.all(what))
        self.emitter.call(1)

    def dict(self, kind: str, what: Any) -> None:
        for key, value in what:
            self.push(key)
            self.push(value)
        self.emitter.build_dict(len(what))

    def spent(self, kind: str, what: Any) -> None:
        self.emitter.load_const(spent)
        self.push(what)
        self.emitter.call(1)

    def cell(self, kind: str, what: Any) -> None:
        self.emitter.load_const(types.CellType)
        self.emitter.call(self.all(what))

    def method(self, kind: str, what: Any) -> None:
        function, owner = what
        self.emitter.load_const(types.MethodType)
        self.push(function)
        self.push(owner)
        self.emitter.call(2)

    def tensor_method(self, kind: str, what: Any) -> None:
        owner, name = what
        if not callable(getattr(Tensor, name)):
            raise ValueError(f"tensors have no method {name}")
        self.emitter.load_const(getattr)
        self.push(owner)
        self.emitter.load_const(name)
        self.emitter.call(2)

    def iterator(self, kind: str, what: Any) -> None:
        name, args, state = what
        self.emitter.load_const(_ITERATORS[name])
        self.emitter.call(self.all(args))
        if state is not None:
            self.emitter.dup()
            self.emitter.load_attr("__setstate__")
            self.emitter.load_const(int(state))
            self.emitter.call(1)
            self.emitter.pop()


_WRITTEN: dict[str, Callable[[Writer, str, Any], None]] = {
    **dict.fromkeys(("tuple", "list", "slice"), Writer.sequence), **dict.fromkeys(_FROM_MEMBERS, Writer.from_members),
    "dict": Writer.dict, "cell": Writer.cell, "method": Writer.method, "tensor method": Writer.tensor_method,
    "iterator": Writer.iterator, "spent": Writer.spent,
}
