"""Captured frames, kept between processes: a frame that was captured before is not interpreted again.

Enters: a frame that is about to be captured, and later what it became. Leaves: guards and the code around its graph,
made from what an earlier process found. What is kept is data: where the graph's inputs come from, what was relied upon,
the graph, and what the frame returned in terms of the graph's results, or held where the graph broke
(stored/values.py). It is believed where every guard holds for the objects of this process, and everything that was
looked into (functions, classes) has the same code here (fingerprints.py); the code behind a break is made from the
function's own, as if it had been captured. Refuses (`NotKept`): frames that change anything but tensors, that rely on
objects that have no name, on symbols that stand for elements, or on anything that Python's library says of the
machine.
"""

from __future__ import annotations

import operator
import os
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..._C import Tensor
from ...base.codec import CONSTANTS, PLAIN, member
from ...base.digest import digest
from ...base.disk_cache import NotKept
from ...base.sources import PACKAGE, takes_part
from ...codegen.stored import graphs as stored_graphs
from ...devices import told_apart
from ...loops.record import Record
from ...nn import Buffer, Module, Parameter
from ...nn.modules import hooks
from ...op.stored import home_of
from .. import settings
from ..bytecode.emitter import Emitter
from ..record import marks
from ..record.breaks import BreakAt, GraphBreak
from ..values import sources
from ..values.guards import Assumed, Guard, GuardTree, Kind, Modes, Symbolic, TensorLayout, mode_guard
from ..values.sources import Constant, Local, Source
from .fingerprints import Fingerprints, is_settled
from .values import Described, Writer

FORMAT = 3
_PACKAGE = PACKAGE + os.sep
_LIBRARY = os.path.dirname(os.__file__) + os.sep
# of Python's library: what may be interpreted, since nothing in it looks at the machine
_PURE = ("abc.py", "collections/", "contextlib.py", "dataclasses.py", "enum.py", "functools.py", "numbers.py",
         "operator.py", "types.py", "typing.py")
_TENSORS = {"Tensor": Tensor, "Parameter": Parameter, "Buffer": Buffer}
_ALL = frozenset(Kind)
_VALUES = {Kind.EQUALS, Kind.LENGTH, Kind.DICT_KEYS, Kind.HAS_KEY, Kind.LACKS_KEY, Kind.HAS_ATTR, Kind.LACKS_ATTR}


class Found(Record):
    """A frame that an earlier process captured, over the objects of this one."""

    tree: GuardTree
    emitter: Emitter | None        # the code, without its end where the graph broke; None: there is nothing to compile
    break_at: BreakAt | None
    num_ops: int | None            # of the graph; None where there is none


class Other(Exception):  # noqa: N818 - no error: the frame is captured
    """What was kept is of another program, or of other objects."""


# --- names ------------------------------------------------------------------------------------------------------------


def place_for(function: types.FunctionType, given: Mapping[str, Any], backend: Any, told: Any,
              dynamic: Callable[[Source, Any], Any]) -> Place | None:
    """Where what becomes of a frame is kept; None where nothing may be. `dynamic`: see `Settings` of capture.py."""
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
                                                                        *marks.substitutes)):
            raise NotKept("the program says how functions of its own are to be captured")
        own = modes.grad, modes.inference, modes.keys, modes.autocast, str(modes.default_dtype), modes.deterministic
        text = repr((FORMAT, identity, told, marks.here.error_on_break, own, str(modes.default_device), _flags(),
                     function.__module__, prints.of(function.__code__)))
    except NotKept:
        return None
    exact = [(name, _shown(value, (isinstance(value, Tensor) or type(value) is int) and dynamic(Local(name), value)))
             for name, value in given.items()]
    rough = [(name, type(given[name]).__qualname__ if type(given[name]) in PLAIN else shown) for name, shown in exact]
    names = [digest(f"{text} {shown}".encode()) for shown in (exact, rough)]
    return Place(*names, function, frames, prints)


def _flags() -> list[Any]:
    """Switches that programs may ask for."""
    found = [sorted((k, v) for k, v in vars(settings).items() if type(v) in PLAIN)]
    for name, module in sorted(sys.modules.items()):
        if name.startswith(f"{__name__.partition('.')[0]}.backends."):
            found.append((name, sorted((k, v) for k, v in vars(module).items() if type(v) in PLAIN)))
    return found


def symbolic_dims(t: Tensor, wanted: Any) -> tuple[int, ...] | None:
    """Of the dims whose sizes are to be symbols, those that can be: guards on sizes 0 and 1 say what they are."""
    dims = tuple([d for d in wanted or () if t.shape[d] > 1])
    return dims if dims and t.is_contiguous() else None


def _shown(value: Any, dynamic: Any) -> Any:
    """An argument roughly: guards decide, this keeps apart what would take each other's place. Where some look at no
    number or text among their arguments, and only hand them on, its class says enough (`Place.rough`)."""
    if isinstance(value, Tensor):
        dims = symbolic_dims(value, dynamic)
        sizes = tuple(["s" if d in dims else n for d, n in enumerate(value.shape)]) if dims else tuple(value.shape)
        return str(value.dtype), sizes, None if dims else value.stride(), value.requires_grad, told_apart(value.device)
    if isinstance(value, Module):
        return type(value).__qualname__, value.training, [*_sizes_in(value)]
    if type(value) is int and dynamic and value > 1:
        return "s"
    return repr(value) if type(value) in PLAIN else type(value).__qualname__


def _sizes_in(module: Module) -> Any:
    own = module.__dict__
    for t in own["_parameters"].values():
        yield None if t is None else (*t.shape, t.requires_grad, told_apart(t.device))
    for inner in own["_modules"].values():
        if inner is not None:
            yield from _sizes_in(inner)


# --- keeping ----------------------------------------------------------------------------------------------------------


class Place:
    """The place of one frame: `name` where plain arguments count, `rough` where none was looked at."""

    def __init__(self, name: bytes, rough: bytes, function: types.FunctionType, frames: Any, prints: Fingerprints
                 ) -> None:
        self.name, self.rough, self.function, self.frames, self.prints = name, rough, function, frames, prints

    def keep(self, captured: Any, is_used: bool = True) -> None:
        """Describe a frame that was captured, for later processes; with `is_used` False, that it is not worth it."""
        looks = any(g.kind in (Kind.EQUALS, Kind.SYMBOLIC) and type(g.source) is Local for g in captured.guards)
        name = self.name if looks and is_used else self.rough
        try:
            problem = stored_graphs.write(name, self.described(captured, is_used))
        except NotKept as reason:
            problem = str(reason)
        self.frames.told("kept" if problem is None else "not kept", problem or name.hex())

    def described(self, captured: Any, is_used: bool) -> Any:
        left = captured.left
        if left is None:
            raise NotKept("it leaves modes of the thread changed, or meets tensors of other classes")
        told = _Describer(self.prints, self.function.__globals__)
        # of no use for any value: only what it looked into counts
        kinds = _ALL if is_used else (Kind.TYPE_IS, Kind.ID_IS)
        guards = [told.guard(g) for g in captured.guards if g.kind is not Kind.MODES and g.kind in kinds]
        inputs = [told.source(s) for s in captured.inputs]
        values = Described(left, told.source)
        described, acts = None, []
        if is_used:
            stop = captured.break_at
            described = values.of(left.value) if stop is None else [list(map(values.of, part)) for part in left.value]
            acts = [values.act(*act) for act in left.acts]
        for source in left.taken:
            if not is_settled(getattr(source.value, "__module__", None)):
                raise NotKept(f"it relies on {source}, which is found nowhere")
        for code in left.codes - self.prints.codes:
            if not _is_fixed(code):
                raise NotKept(f"it looked into {code.co_qualname}, which may be another next time")
        stop, graph = captured.break_at, captured.graph
        return {
            "rows": told.rows, "guards": guards, "inputs": inputs, "left": described, "places": told.places,
            "loaded": list(values.loaded), "acts": acts,
            "stop": None if stop is None else [stop.index, stop.stack, stop.live, stop.reason.kind, stop.reason.reason,
                                               stop.reason.location],
            "ops": captured.num_ops, "graph": None if graph is None else self.frames.described(graph),
        }

    # --- finding ------------------------------------------------------------------------------------------------------

    def found(self, given: Mapping[str, Any], dynamic: Callable[[Source, Any], Any]) -> Found | None:
        """What an earlier process made of this frame; None where there is nothing of use."""
        why = self.name.hex()
        for name in dict.fromkeys((self.name, self.rough)):
            data = stored_graphs.read(name)
            if data is None:
                continue
            try:
                found = self.restored(data, given, dynamic)
                self.frames.told("found", name.hex())
                return found
            except (Other, NotKept) as reason:
                why = f"a frame was kept for other objects: {reason}"
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                why = f"the entry cannot be read: {type(error).__name__}: {error}"
        return self.frames.told("missing", why)

    def restored(self, data: Any, given: Mapping[str, Any], dynamic: Callable[[Source, Any], Any]) -> Found:
        function = self.function
        cells = function.__closure__ or ()
        live = _Restorer(data["rows"], given, function, self.prints)
        guards = [mode_guard(), *[live.guard(row, data["places"]) for row in data["guards"]]]
        tree = GuardTree(guards, tuple(given), function.__code__.co_freevars)
        if not tree.check(tuple(given.values()), function.__globals__, cells):
            raise Other(tree.explain(tuple(given.values()), function.__globals__, cells))
        if data["left"] is None:
            return Found(tree, None, None, None)
        inputs = [live.followed(k) for k in data["inputs"]]
        for guard in guards:      # sizes and numbers that vary are captured as symbols
            if guard.kind is Kind.TENSOR:
                value = guard.source.evaluate(live.scope)
                dims = symbolic_dims(value, dynamic(guard.source, value)) or ()
                if any(guard.value.sizes[d] is not None for d in dims):
                    raise Other(f"a size of {guard.source} is to be a symbol")
            elif guard.kind is Kind.EQUALS and type(guard.value) in (int, float):
                if dynamic(guard.source, guard.value) and (guard.value > 1 or type(guard.value) is float):
                    raise Other(f"{guard.source} is to be a symbol")
        for source, value in inputs:
            if type(value) is int:
                dynamic(source, value)
        stop = None if data["stop"] is None else _restored_break(data["stop"], function.__code__)
        emitter = Emitter(function.__code__, tuple(given))
        writer = Writer(emitter, live.followed)
        emitter.share([*[source for source, _ in inputs], *map(live.source, data["loaded"])])
        writer.load(data["loaded"])
        if data["graph"] is not None:
            compiled = self.frames.restored(data["graph"], [value for _, value in inputs])
            if compiled is None:
                raise Other("its graph is not on disk")
            emitter.call_graph(compiled, [source for source, _ in inputs], emitter.source)
            emitter.store_local(writer.results)
        _write_left(writer, data["left"], data["acts"], stop, function.__code__)
        return Found(tree, emitter, stop, None if data["graph"] is None else int(data["ops"]))


def _restored_break(data: Sequence[Any], code: types.CodeType) -> BreakAt:
    """Where the graph broke, in code that is the same; refuses what cannot be of it."""
    from ..bytecode.instructions import decode, stack_depths, stack_effect  # noqa: PLC0415 - most frames have no breaks

    index, stack, live, kind, why, location = data
    reason = GraphBreak(kind, why)
    reason.location = str(location)
    listed = decode(code)
    if type(index) is not int or index < 0:
        raise ValueError(f"there is no instruction {index}")
    depth = stack_depths(listed).get(id(listed[index]))
    for before in listed[max(index - 2, 0):index] if listed[index].name == "CALL" else ():
        if before.name in ("KW_NAMES", "PRECALL") and depth is not None:      # what belongs to a call runs with it
            depth -= stack_effect(before)
    if depth != len(stack):
        raise ValueError(f"the stack before instruction {index} is another")
    return BreakAt(index, tuple([bool(is_value) for is_value in stack]), tuple(map(str, live)), reason)


def _write_left(writer: Writer, left: Any, acts: Sequence[Any], stop: BreakAt | None, code: types.CodeType) -> None:
    """The code behind the graph: changes what the frame changed, and returns what it returned, or puts back its
    variables and its stack."""
    emitter = writer.emitter
    variables, stack, names = [left], [], ()
    if stop is not None:
        from ..bytecode.resume import BreakPoint, needed  # noqa: PLC0415 - as above

        variables, stack = left
        names = needed(BreakPoint(code, stop.index, stop.stack, frozenset(stop.live)))
        if len(variables) != len(names) or len(stack) != sum(stop.stack):
            raise ValueError("its variables are others")
    held = [emitter.fresh_local("kept") for _ in (*variables, *stack)]
    for told, place in zip((*variables, *stack), held, strict=True):
        writer.push(told)
        emitter.store_local(place)
    for act in acts:
        writer.act(act)
    if stop is None:
        emitter.load_local(held[0])
        emitter.return_value()
        return
    for name, place in zip(names, held, strict=False):
        emitter.load_local(place)
        emitter.store_local(name)
    on_stack = iter(held[len(names):])
    for is_value in stop.stack:
        if is_value:
            emitter.load_local(next(on_stack))
        else:
            emitter.push_null()


def _is_fixed(code: types.CodeType) -> bool:
    """Whether code is part of what the name of every entry is made of, or of Python's library."""
    file = code.co_filename
    if file.startswith(_PACKAGE):
        return takes_part(file[len(_PACKAGE):].partition(os.sep)[0])
    return file.startswith(_LIBRARY) and file[len(_LIBRARY):].replace(os.sep, "/").startswith(_PURE)


class _Describer:
    """Sources as rows that name the row they start from, and what guards say of them."""

    def __init__(self, prints: Fingerprints, scope: dict[str, Any]) -> None:
        self.prints, self.scope = prints, scope
        self.rows: list[Any] = []
        self.places: list[str] = []      # lines of the program
        self._row_of: dict[Source, int] = {}
        self._place_of: dict[str, int] = {}
        self._things: dict[str, Any] = {}

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
                key = CONSTANTS.described(getattr(source, kind.fields[-1]))
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
        home, name = home_of(value), getattr(value, "__qualname__", "")
        if is_settled(home) and member(sys.modules.get(home), name) is value:
            return ["named", home, name]
        name = getattr(value, "__name__", "")
        for text, kind in self._things.items() if type(value) is types.FunctionType else ():
            if isinstance(kind, type) and value is next((vars(k)[name] for k in kind.__mro__ if name in vars(k)), None):
                return ["member", text, name, self.prints.of(value)]
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
            told = CONSTANTS.described(value)
        elif kind is Kind.TENSOR:
            if _TENSORS.get(value.type.__name__) is not value.type:
                raise NotKept(f"it takes a {value.type.__name__}")
            rest = [CONSTANTS.described(getattr(value, name)) for name in TensorLayout.fields[1:]]
            told = [value.type.__name__, *rest]
        elif kind is Kind.ALIASED:
            told = self.source(value)
        elif kind is Kind.NOT_ALIASED:
            told = [self.source(s) for s in value]
        elif kind is Kind.SYMBOLIC:
            told = [[self.source(s) for s in value.sources], value.text, _described_relation(value.holds)]
        else:
            raise NotKept(f"it relies on {guard}")
        place = self._place_of.setdefault(guard.where, len(self._place_of))
        if place == len(self.places):
            self.places.append(guard.where)
        return [kind.value, self.source(guard.source), told, place]


def _described_relation(holds: Any) -> Any:
    """A relation of a symbolic guard."""
    if holds is operator.eq:
        return None
    if type(holds) is not Assumed or len(holds.names) != holds.num_sizes:
        raise NotKept("it relies on what was assumed of real numbers")
    from ...symbols.stored import described_env  # noqa: PLC0415 - most frames have no symbols

    return [holds.names, described_env(holds.env)]


def _restored_relation(data: Any) -> Callable[..., bool]:
    if data is None:
        return operator.eq
    from ...symbols.stored import restored_env  # noqa: PLC0415 - as above

    names, env = data
    return Assumed(tuple(map(str, names)), restored_env(env), len(names))


# --- restoring --------------------------------------------------------------------------------------------------------

_READ: dict[str, Callable[[Any, Any], Any]] = {
    "Attribute": getattr,
    "DictOf": lambda owner, _: object.__getattribute__(owner, "__dict__"),
    "Item": lambda owner, key: owner[key],
    "HeldItem": dict.__getitem__,
    "Viewed": lambda view, _: sources.viewed(view),
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
                 prints: Fingerprints) -> None:
        self.rows, self.prints = rows, prints
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        self.scope = sources.Scope(given, function.__globals__, cells)
        self._found: dict[int, tuple[Source, Any]] = {}
        self._things: dict[str, Any] = {}

    def source(self, k: int) -> Source:
        return self.followed(k)[0]

    def value(self, k: int) -> Any:
        return self.followed(k)[1]

    def followed(self, k: int) -> tuple[Source, Any]:
        found = self._found.get(k)
        if found is None:
            kind, parent, key = self.rows[k]
            if kind == "Constant":
                value = self.constant(*key)
                found = Constant(value, str(getattr(value, "__qualname__", key[-1]))), value
            else:
                key = CONSTANTS.restored(key)
                read, cls = _READ[kind], getattr(sources, kind)
                source, owner = (None, self.scope) if parent is None else self.followed(parent)
                fields = ([] if parent is None else [source]) + ([] if cls.fields[-1] == "base" else [key])
                try:
                    found = cls(*fields), read(owner, key)
                except Exception as error:      # noqa: BLE001 - a path that cannot be followed here
                    raise Other(f"{kind} {key} cannot be read: {error}") from error
            self._found[k] = found
        return found

    def constant(self, kind: str, name: str = "", inner: str = "", text: str = "") -> Any:
        if kind == "hooks":
            return hooks.GLOBAL_CALL_HOOKS
        if kind == "globals":
            return self.scope.globals
        if kind == "named":
            value = member(sys.modules.get(name), inner) if is_settled(name) else None
            if value is None:
                raise Other(f"{name} has no {inner}")
            return value
        if kind in ("thing", "member"):
            if name not in self._things:
                raise Other(f"{name} was met nowhere")
            found = self._things[name]
            return found if kind == "thing" else self.meet(sources.class_attribute(found, inner), text)
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
            value = CONSTANTS.restored(told)
        elif kind is Kind.TENSOR:
            value = TensorLayout(_TENSORS[told[0]], *map(CONSTANTS.restored, told[1:]))
        elif kind is Kind.ALIASED:
            value = self.source(told)
        elif kind is Kind.NOT_ALIASED:
            value = tuple([self.source(k) for k in told])
        elif kind is Kind.SYMBOLIC:
            rows, text, relation = told
            value = Symbolic(tuple(map(self.source, rows)), _restored_relation(relation), str(text))
        else:
            raise ValueError(f"no guard of kind {name} is kept")
        return Guard(self.source(source), kind, value, places[place])
