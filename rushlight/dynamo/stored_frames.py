"""Captured frames, kept between processes: a frame that was captured before is not interpreted again.

Enters: a frame that is about to be captured, and later what it became. Leaves: guards and the code around its graph,
made from what an earlier process found. What is kept is data: where the graph's inputs come from, what was relied upon,
the graph, and what the frame returned in terms of the graph's results. It is believed where every guard holds for the
objects of this process, and everything that was looked into (functions, classes) has the same code here
(fingerprints.py). Refuses (`NotKept`): frames whose graph breaks, that change anything but tensors, that rely on
objects that have no name, on symbols, or on anything that Python's library says of the machine.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import _C
from .._C import Tensor
from ..base import late, shape
from ..codegen import stored_graphs
from ..codegen.stored_graphs import NotKept
from ..loops.digest import digest
from ..nn import Buffer, Module, Parameter
from ..nn.modules import hooks
from . import marks, sources
from .emitter import Emitter
from .fingerprints import Fingerprints, is_settled
from .guards import Guard, GuardTree, Kind, Modes, TensorLayout, mode_guard
from .sources import Constant, Source

FORMAT = 1
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARY = os.path.dirname(os.__file__) + os.sep
# of Python's library: what may be interpreted, since nothing in it looks at the machine
_PURE = ("abc.py", "collections/", "contextlib.py", "dataclasses.py", "enum.py", "functools.py", "numbers.py",
         "operator.py", "types.py", "typing.py")  # fmt: skip
_JSON = (bool, int, float, str, type(None))
_TENSORS = {"Tensor": Tensor, "Parameter": Parameter, "Buffer": Buffer}
_VALUES = {Kind.EQUALS, Kind.LENGTH, Kind.DICT_KEYS, Kind.HAS_KEY, Kind.LACKS_KEY, Kind.HAS_ATTR, Kind.LACKS_ATTR}


class Other(Exception):  # noqa: N818 - no error: the frame is captured
    """What was kept is of another program, or of other objects."""


# --- values -----------------------------------------------------------------------------------------------------------


def described_value(x: Any) -> Any:
    """A constant as JSON holds it."""
    kind = type(x)
    if kind in _JSON:
        return x
    if kind in (tuple, list, set, frozenset):
        return [kind.__name__, [described_value(v) for v in x]]
    if kind is _C.dtype:
        return ["dtype", str(x).rpartition(".")[2]]
    if kind is _C.device:
        return ["device", str(x)]
    if isinstance(x, (shape.layout, shape.memory_format)):
        return ["shape", str(x).rpartition(".")[2]]
    if kind is complex:
        return ["complex", x.real, x.imag]
    if kind is bytes:
        return ["bytes", x.hex()]
    if kind in (slice, range):
        return [kind.__name__, [described_value(v) for v in (x.start, x.stop, x.step)]]
    if x is ...:
        return ["..."]
    raise NotKept(f"it relies on {x!r:.60}")


def restored_value(x: Any) -> Any:
    return _RESTORED[x[0]](*x[1:]) if type(x) is list else x


_RESTORED: dict[str, Callable[..., Any]] = {
    **{kind.__name__: lambda parts, kind=kind: kind(map(restored_value, parts))
       for kind in (tuple, list, set, frozenset)},
    **{kind.__name__: lambda parts, kind=kind: kind(*map(restored_value, parts)) for kind in (slice, range)},
    "dtype": lambda name: getattr(_C, name), "device": _C.device, "shape": lambda name: getattr(shape, name),
    "complex": complex, "bytes": bytes.fromhex, "...": lambda: ...,
}  # fmt: skip


# --- names ------------------------------------------------------------------------------------------------------------


def place_for(function: types.FunctionType, given: Mapping[str, Any], backend: Any, told: Any) -> Place | None:
    """Where what becomes of a frame is kept; None where nothing may be."""
    frames = getattr(backend, "frames", None)
    if frames is None:
        return None
    prints = Fingerprints()
    try:
        identity = frames.identity()
        modes = Modes.now()
        if modes.function_modes or modes.dispatch_modes or modes.transforms:
            raise NotKept("a mode or transform sees the ops")
        if any(not is_settled(getattr(f, "__module__", None)) for f in (*marks._weak, *marks._strong,
                                                                        *marks.substitutes)):  # fmt: skip
            raise NotKept("the program says how functions of its own are to be captured")
        own = modes.grad, modes.inference, modes.keys, modes.autocast, str(modes.default_dtype), modes.deterministic
        text = repr((FORMAT, identity, told, marks.here.error_on_break, own, str(modes.default_device), _flags(),
                     function.__module__, prints.of(function.__code__),
                     [(name, _shown(value)) for name, value in given.items()]))  # fmt: skip
    except NotKept:
        return None
    return Place(digest(text.encode()), function, frames, prints)


def _flags() -> list[Any]:
    """Switches that programs may ask for."""
    found = [sorted((k, v) for k, v in vars(late.provided("dynamo settings")).items() if type(v) in _JSON)]
    for name, module in sorted(sys.modules.items()):
        if name.startswith(f"{__name__.partition('.')[0]}.backends."):
            found.append((name, sorted((k, v) for k, v in vars(module).items() if type(v) in _JSON)))
    return found


def _shown(value: Any) -> Any:
    """An argument roughly: guards decide, this keeps apart what would take each other's place."""
    if isinstance(value, Tensor):
        return str(value.dtype), tuple(value.shape), value.stride(), value.requires_grad
    if isinstance(value, Module):
        return type(value).__qualname__, value.training, [*_sizes_in(value)]
    return repr(value) if type(value) in _JSON else type(value).__qualname__


def _sizes_in(module: Module) -> Any:
    own = module.__dict__
    for t in own["_parameters"].values():
        yield None if t is None else (*t.shape, t.requires_grad)
    for inner in own["_modules"].values():
        if inner is not None:
            yield from _sizes_in(inner)


# --- keeping ----------------------------------------------------------------------------------------------------------


class Place:
    """The place of one frame."""

    def __init__(self, name: bytes, function: types.FunctionType, frames: Any, prints: Fingerprints) -> None:
        self.name, self.function, self.frames, self.prints = name, function, frames, prints

    def keep(self, captured: Any) -> None:
        """Describe a frame that was captured, for later processes."""
        try:
            problem = stored_graphs.write(self.name, self.described(captured))
        except NotKept as reason:
            problem = str(reason)
        self.frames.told("kept" if problem is None else "not kept", problem or self.name.hex())

    def described(self, captured: Any) -> Any:
        returned = captured.returned
        if returned is None or captured.graph is None:
            raise NotKept("its graph breaks, or it changes more than tensors")
        told = _Describer(self.prints, self.function.__globals__)
        guards = [told.guard(g) for g in captured.guards if g.kind is not Kind.MODES]
        inputs = [told.source(s) for s in captured.inputs]
        result = told.result(returned.value, returned)
        for source in returned.taken:
            if not is_settled(getattr(source.value, "__module__", None)):
                raise NotKept(f"it relies on {source}, which is found nowhere")
        for code in returned.codes - self.prints.codes:
            if not _is_fixed(code):
                raise NotKept(f"it looked into {code.co_qualname}, which may be another next time")
        return {
            "rows": told.rows, "guards": guards, "inputs": inputs, "result": result, "places": told.places,
            "ops": captured.num_ops, "graph": self.frames.described(captured.graph),
        }  # fmt: skip

    # --- finding ------------------------------------------------------------------------------------------------------

    def found(self, given: Mapping[str, Any], dynamic: Callable[[Source, Any], Any]
              ) -> tuple[GuardTree, types.FunctionType, int] | None:  # fmt: skip
        """Guards, code and number of ops, where an earlier process captured this frame; None where not."""
        data = stored_graphs.read(self.name)
        if data is None:
            return self.frames.told("missing", self.name.hex())
        try:
            return self.restored(data, given, dynamic)
        except (Other, NotKept) as reason:
            return self.frames.told("missing", f"a frame was kept for other objects: {reason}")
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            return self.frames.told("missing", f"the entry cannot be read: {type(error).__name__}: {error}")

    def restored(self, data: Any, given: Mapping[str, Any], dynamic: Callable[[Source, Any], Any]
                 ) -> tuple[GuardTree, types.FunctionType, int]:  # fmt: skip
        function = self.function
        cells = function.__closure__ or ()
        live = _Restorer(data["rows"], given, function, self.prints)
        guards = [mode_guard(), *[live.guard(row, data["places"]) for row in data["guards"]]]
        tree = GuardTree(guards, tuple(given), function.__code__.co_freevars)
        if not tree.check(tuple(given.values()), function.__globals__, cells):
            raise Other(tree.explain(tuple(given.values()), function.__globals__, cells))
        inputs = [(live.source(k), live.value(k)) for k in data["inputs"]]
        for guard in guards:      # sizes and numbers that vary are captured as symbols
            if guard.kind is Kind.TENSOR or (guard.kind is Kind.EQUALS and type(guard.value) is int):
                value = guard.source.evaluate(live.scope)
                if dynamic(guard.source, value):
                    raise Other(f"{guard.source} is to be a symbol")
        compiled = self.frames.restored(data["graph"], [value for _, value in inputs])
        if compiled is None:
            raise Other("its graph is not on disk")
        emitter = _emitted(function.__code__, tuple(given), compiled, [s for s, _ in inputs], data["result"], live)
        self.frames.told("found", self.name.hex())
        return tree, emitter.function(function.__globals__, cells), int(data["ops"])


def _is_fixed(code: types.CodeType) -> bool:
    """Whether code is part of what the name of every entry is made of, or of Python's library."""
    file = code.co_filename
    if file.startswith(_PACKAGE):
        return file[len(_PACKAGE):].partition(os.sep)[0] in stored_graphs.FOLDERS or file.count(os.sep) == \
            _PACKAGE.count(os.sep)  # fmt: skip
    return file.startswith(_LIBRARY) and file[len(_LIBRARY):].replace(os.sep, "/").startswith(_PURE)


class Returned:
    """What a frame without breaks and effects gave: its value, and what is needed to say so elsewhere."""

    def __init__(self, value: Any, rebuilder: Any, codes: set[types.CodeType]) -> None:
        self.value, self.codes = value, codes
        self.outputs, self.nodes = rebuilder.outputs, rebuilder.recorder.nodes
        self.twins, self.taken = rebuilder.outside.by_twin, rebuilder.outside.taken


class _Describer:
    """Sources as rows that name the row they start from, and what guards say of them."""

    def __init__(self, prints: Fingerprints, scope: dict[str, Any]) -> None:
        self.prints, self.scope = prints, scope
        self.rows: list[Any] = []
        self.places: list[str] = []      # lines of the program
        self._row_of: dict[Source, int] = {}
        self._place_of: dict[str, int] = {}
        self._things: dict[str, Any] = {}
        self._open: set[int] = set()

    def source(self, source: Source) -> int:
        found = self._row_of.get(source)
        if found is None:
            parent = None if source.parent is None else self.source(source.parent)
            kind, key = type(source), None
            if kind is Constant:
                key = self.constant(source.value)
            elif kind.__name__ not in _READ:
                raise NotKept(f"it relies on {source}")
            elif kind.fields[-1] != "base":
                key = described_value(getattr(source, kind.fields[-1]))
            found = self._row_of[source] = len(self.rows)
            self.rows.append([kind.__name__, parent, key])
        return found

    def constant(self, value: Any) -> list[str]:
        if value is hooks.GLOBAL_CALL_HOOKS:
            return ["hooks"]
        if value is self.scope:
            return ["globals"]
        if type(value) is dict:
            name = value.get("__name__", "")
            if vars(sys.modules.get(name, types)) is not value:
                raise NotKept(f"it relies on globals of {name}, which is no module")
            return ["scope", name]
        if type(value) is types.ModuleType:
            return ["module", value.__name__]
        home, name = _home(value), getattr(value, "__qualname__", "")
        if is_settled(home) and _named(home, name) is value:
            return ["named", home, name]
        return ["thing", self.thing(value)]

    def thing(self, x: Any) -> str:
        """A function, class or module by its text, which no other may have."""
        text = self.prints.of(x)
        if self._things.setdefault(text, x) is not x and type(x) is not tuple:
            raise NotKept(f"there are two {text}")
        return text

    def guard(self, guard: Guard) -> list[Any]:
        kind, value = guard.kind, guard.value
        if kind in (Kind.TYPE_IS, Kind.ID_IS):
            told: Any = self.thing(value)
        elif kind in _VALUES:
            told = described_value(value)
        elif kind is Kind.TENSOR:
            if _TENSORS.get(value.type.__name__) is not value.type:
                raise NotKept(f"it takes a {value.type.__name__}")
            rest = [described_value(getattr(value, name)) for name in TensorLayout.fields[1:]]
            told = [value.type.__name__, *rest]
        elif kind is Kind.ALIASED:
            told = self.source(value)
        elif kind is Kind.NOT_ALIASED:
            told = [self.source(s) for s in value]
        else:
            raise NotKept(f"it relies on {guard}")
        place = self._place_of.setdefault(guard.where, len(self._place_of))
        if place == len(self.places):
            self.places.append(guard.where)
        return [kind.value, self.source(guard.source), told, place]

    def result(self, value: Any, returned: Returned) -> list[Any]:
        """What the frame returned: results of the graph, objects from outside, constants, and containers of these."""
        known = returned.twins.get(id(value))
        if known is not None and known.twin is value and known.kind not in ("itself", "opaque"):
            if type(known.source) is Constant:
                raise NotKept("it returns an object that is found nowhere")
            return ["source", self.source(known.source)]
        if isinstance(value, Tensor):
            node = returned.nodes.get(id(value))
            if node not in returned.outputs:
                raise NotKept("it returns a tensor with attributes, or of another class")
            return ["result", returned.outputs[node]]
        kind = type(value)
        if kind in (tuple, list, dict):
            if id(value) in self._open:
                raise NotKept("it returns a container twice")
            self._open.add(id(value))
            if kind is dict:
                return ["dict", [[described_value(k), self.result(v, returned)] for k, v in value.items()]]
            return [kind.__name__, [self.result(v, returned) for v in value]]
        if kind in _JSON:
            return ["value", value]
        raise NotKept(f"it returns a {kind.__name__}")


def _home(x: Any) -> str:
    """The module that a function or class was written in."""
    return (x.__globals__.get("__name__") if type(x) is types.FunctionType else getattr(x, "__module__", "")) or ""


def _named(home: str, name: str) -> Any:
    """What a module that is loaded has under a name; None where there is nothing."""
    found: Any = sys.modules.get(home)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


# --- restoring --------------------------------------------------------------------------------------------------------

_READ: dict[str, Callable[[Any, Any], Any]] = {
    "Attribute": getattr,
    "DictOf": lambda owner, _: object.__getattribute__(owner, "__dict__"),
    "Item": lambda owner, key: owner[key],
    "HeldItem": dict.__getitem__,
    "TypeOf": lambda owner, _: type(owner),
    "DictKey": sources.key_at,
    "Length": lambda owner, _: len(owner),
    "ShapeOf": lambda owner, i: owner.shape[i],
    "StrideOf": lambda owner, i: owner.stride(i),
    "OffsetOf": lambda owner, _: owner.storage_offset(),
    "ClassAttribute": sources.class_attribute,
    "Local": lambda scope, name: scope.locals[name],
    "Global": lambda scope, name: sources.Global(name).evaluate(scope),
    "Cell": lambda scope, name: scope.cells[name].cell_contents,
    "CellObject": lambda scope, name: scope.cells[name],
}


class _Restorer:
    """Rows as sources of this process, each followed once."""

    def __init__(self, rows: Sequence[Any], given: Mapping[str, Any], function: types.FunctionType,
                 prints: Fingerprints) -> None:  # fmt: skip
        self.rows, self.prints = rows, prints
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        self.scope = sources.Scope(given, function.__globals__, cells)
        self._found: dict[int, tuple[Source, Any]] = {}
        self._things: dict[str, Any] = {}

    def source(self, k: int) -> Source:
        return self._followed(k)[0]

    def value(self, k: int) -> Any:
        return self._followed(k)[1]

    def _followed(self, k: int) -> tuple[Source, Any]:
        found = self._found.get(k)
        if found is None:
            kind, parent, key = self.rows[k]
            if kind == "Constant":
                value = self.constant(*key)
                found = Constant(value, str(getattr(value, "__qualname__", key[-1]))), value
            else:
                key = restored_value(key)
                read, cls = _READ[kind], getattr(sources, kind)
                source, owner = (None, self.scope) if parent is None else self._followed(parent)
                fields = ([] if parent is None else [source]) + ([] if cls.fields[-1] == "base" else [key])
                try:
                    found = cls(*fields), read(owner, key)
                except Exception as error:      # noqa: BLE001 - a path that cannot be followed here
                    raise Other(f"{kind} {key} cannot be read: {error}") from error
            self._found[k] = found
        return found

    def constant(self, kind: str, name: str = "", inner: str = "") -> Any:
        if kind == "hooks":
            return hooks.GLOBAL_CALL_HOOKS
        if kind == "globals":
            return self.scope.globals
        if kind == "named":
            value = _named(name, inner) if is_settled(name) else None
            if value is None:
                raise Other(f"{name} has no {inner}")
            return value
        if kind == "thing":
            if name not in self._things:
                raise Other(f"{name} was met nowhere")
            return self._things[name]
        module = sys.modules.get(name)
        if module is None:
            raise Other(f"the module {name} is not loaded")
        return vars(module) if kind == "scope" else module

    def meet(self, x: Any, text: str) -> Any:
        """An object of this process that must read as one of another did."""
        if self.prints.of(x) != text:
            raise Other(f"{x!r:.60} is not {text}")
        for one in x.__mro__ if isinstance(x, type) else (x,):
            if self._things.setdefault(self.prints.of(one), one) is not one and type(one) is not tuple:
                raise Other(f"there are two {text}")
        return x

    def guard(self, row: Sequence[Any], places: Sequence[str]) -> Guard:
        name, source, told, place = row
        kind = Kind(name)
        value: Any
        if kind is Kind.TYPE_IS:
            value = self.meet(type(self.value(source)), told)
        elif kind is Kind.ID_IS:
            value = self.meet(self.value(source), told)
        elif kind in _VALUES:
            value = restored_value(told)
        elif kind is Kind.TENSOR:
            value = TensorLayout(_TENSORS[told[0]], *map(restored_value, told[1:]))
        elif kind is Kind.ALIASED:
            value = self.source(told)
        elif kind is Kind.NOT_ALIASED:
            value = tuple([self.source(k) for k in told])
        else:
            raise ValueError(f"no guard of kind {name} is kept")
        return Guard(self.source(source), kind, value, places[place])


def _emitted(code: types.CodeType, parameters: tuple[str, ...], compiled: Callable, inputs: Sequence[Source],
             result: Sequence[Any], live: _Restorer) -> Emitter:  # fmt: skip
    """The code that calls the graph, and returns what the frame returned."""
    emitter = Emitter(code, parameters)
    emitter.share(inputs)
    emitter.load_const(compiled)
    for source in inputs:
        emitter.source(source)
    if getattr(compiled, "_boxed_call", False):
        emitter.build_list(len(inputs))
        emitter.call(1)
    else:
        emitter.call(len(inputs))
    results = emitter.fresh_local("results")
    emitter.store_local(results)
    _push(emitter, result, results, live)
    emitter.return_value()
    return emitter


def _push(emitter: Emitter, told: Sequence[Any], results: str, live: _Restorer) -> None:
    kind, what = told
    if kind == "result":
        emitter.load_local(results)
        emitter.load_const(what)
        emitter.subscr()
    elif kind == "source":
        emitter.source(live.source(what))
    elif kind == "value":
        emitter.load_const(what)
    elif kind == "dict":
        for key, value in what:
            emitter.load_const(restored_value(key))
            _push(emitter, value, results, live)
        emitter.build_dict(len(what))
    elif kind in ("tuple", "list"):
        for value in what:
            _push(emitter, value, results, live)
        (emitter.build_tuple if kind == "tuple" else emitter.build_list)(len(what))
    else:
        raise ValueError(f"no result of kind {kind} is kept")


