"""Capture: one frame as a graph, guards, and the code that replaces it.

Enters: a code object, its flat locals, globals and cells, and how to compile. Leaves: a `Captured`. The emitted code
loads what it needs from outside, calls the compiled graph, replays effects, and then returns the frame's result, or
stops before the instruction at which the graph ends: it then has the values of the stack on its stack (NULL as NULL)
and the variables that are still read in locals of their names (cells as cell objects), and `break_at` says where.
Refuses (`Refused`): frames in which nothing can be captured; they run as they are.

The run has no effect outside, so that it is simply made again, up to that instruction, when the graph has to end.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._C import Tensor
from ..base import environment, logs
from ..dispatch import autocast
from ..dispatch.modes import state as mode_state
from ..fx._lazy_graph_module import _LazyGraphModule
from ..fx.graph_module import GraphModule
from ..nn import Parameter
from ..symbols import symbolic_math
from . import telling
from .bytecode.emitter import Emitter
from .bytecode.resume import BreakPoint, needed
from .frames.frame import NULL, Frame, Unread
from .machine.effects import Effects
from .machine.interpreter import Interpreter, Stopped
from .machine.rebuild import Rebuilder
from .record.breaks import (
    BreakAt,
    GraphBreak,
    Raised,
    Refused,
    StepsInside,
    Unfit,
    WithoutChecks,
    WithoutSelect,
    WithoutSupposing,
)
from .record.hidden import ElementEnv, Origin
from .record.recorder import Recorder, without_modes
from .record.thread_modes import modes_now, set_modes
from .record.tracing import tracing
from .rules import function_modes, selects, subclasses, triton_kernels
from .rules.checks import Checked, written
from .rules.trials import Trial
from .stored.frames import symbolic_dims
from .stored.values import Left
from .values.floats import Floats
from .values.guards import Assumed, Guard, Kind, Symbolic, mode_guard
from .values.iterators import are_apart
from .values.locks import Again, under
from .values.outside import Outside
from .values.sources import AsDouble, AsPlain, Cell, CellObject, Constant, Local, ShapeOf, Source, is_buffer


@dataclass(frozen=True)
class Settings:
    """How frames are captured and compiled."""

    backend: Callable[[GraphModule, list[Any]], Callable]     # graph, example inputs -> function of the inputs
    fullgraph: bool = False
    # For a tensor: its dims whose sizes are to be symbols; for an int: whether it is to be one.
    dynamic: Callable[[Source, Any], Any] = field(default=lambda source, value: None)
    # Branches that look as if they only checked, and do not: code and place.
    unsure: frozenset[tuple[types.CodeType, int]] = frozenset()
    backend_name: str = ""


@dataclass(frozen=True)
class Captured:
    """What a frame became."""

    graph: GraphModule | None
    guards: list[Guard]
    emitter: Emitter           # the code, without its end where the graph broke
    break_at: BreakAt | None
    num_ops: int
    inputs: list[Source]
    left: Left | None = None      # where that can be said elsewhere
    again: Again | None = None            # for frames that take locks: to be told the guards
    checked: Checked | None = None        # for frames with branches on elements that only check


def capture(code: types.CodeType, flat_locals: Mapping[str, Any], globals: dict[str, Any],
            cells: Sequence[types.CellType], settings: Settings) -> Captured:
    """Capture a frame that is about to run with these locals."""
    triton_kernels.know_kernels()
    reason: GraphBreak | None = None
    stop_at: int | None = None
    steps_inside, unsure, takes_elements = False, settings.unsure, True
    not_selected: set[tuple[types.CodeType, int]] = set()
    for number in itertools.count():
        logs.here.attempt = number
        attempt = _Attempt(code, flat_locals, globals, cells, settings, stop_at, reason, takes_elements)
        attempt.machine.steps_inside = steps_inside
        attempt.machine.unsure, attempt.machine.is_fullgraph = unsure, settings.fullgraph
        attempt.machine.not_selected = not_selected
        try:
            return attempt.run()
        except StepsInside:
            steps_inside = True
        except WithoutChecks:
            reason, stop_at, unsure = None, None, None
        except Unfit as found:
            reason, stop_at = attempt.break_at_origin(attempt.env.first(), str(found))
        except WithoutSupposing as found:
            reason, stop_at, unsure = None, None, None if unsure is None else unsure | {found.place}
        except WithoutSelect as found:
            reason, stop_at = None, None
            not_selected.add(found.place)
        except GraphBreak as found:
            if reason is not None:
                if not attempt.env.origins:
                    raise Refused(found) from found
                reason, stop_at, takes_elements = None, None, False      # as if nothing were known of them
                continue
            found.is_error = found.is_error or attempt.is_error_here()
            if found.is_error:
                raise
            if found.skips_frame:
                raise Refused(found) from found
            reason, stop_at = attempt.place_for(found)
            telling.broken(reason)
    raise AssertionError("capture begins again until it is done")


class _Attempt:
    """One run of the interpreter over the frame."""

    def __init__(self, code: types.CodeType, flat_locals: Mapping[str, Any], globals: dict[str, Any],
                 cells: Sequence[types.CellType], settings: Settings, stop_at: int | None,
                 reason: GraphBreak | None, takes_elements: bool) -> None:
        self.code, self.settings, self.reason = code, settings, reason
        self.env = ElementEnv(takes_elements)
        self.recorder = Recorder(self.env)
        self.outside = Outside(self.recorder, self.dynamic)
        self.machine = Interpreter(self.recorder, self.outside, globals, stop_at)
        self.machine.follower = self.recorder.follower = telling.follower(self.machine.frames)
        self.env.here, self.env.asked = self.machine.origin, self.machine.answer
        self.recorder.fake_mode.on_scalar = self.recorder.note_element
        self.floats = self.machine.floats = Floats(self.env, self.recorder, self.outside)
        self.symbols: dict[str, Source] = {}
        self.equal: list[tuple[Source, Source]] = []
        self.checked: Checked | None = None
        arguments = {name: Unread(value, Local(name)) for name, value in flat_locals.items()}
        self.given, self.cells, self.arguments = flat_locals, cells, arguments

    def dynamic(self, source: Source, value: Any) -> Any:
        """Whether sizes (or a number) are to be symbols."""
        found = self.settings.dynamic(source, value)
        if isinstance(value, Tensor):
            return symbolic_dims(value, found)
        if type(value) is float:
            return self.floats.new(source, value) if found and value and math.isfinite(value) else None
        if not found or value in (0, 1) or value < 0:
            return None
        number = self.env.create_symbol(value, str(source))
        if type(number) is int:      # a size that is equal to it turned out to be fixed
            return None
        self.env.remember_number(str(source), number)
        self.recorder.add_number(f"arg{len(self.outside.inputs)}", number)
        self.outside.inputs.append((source, value))
        self.outside.guard(Kind.TYPE_IS, source, int)
        self.note_symbol(number.expression, source)
        return number

    def note_symbol(self, size: Any, source: Source) -> None:
        name = size.sole_symbol
        if name is None:
            return
        if name in self.symbols:
            self.equal.append((self.symbols[name], source))
        else:
            self.symbols[name] = source

    def is_error_here(self) -> bool:
        """Whether a break is an error where the program is now."""
        if self.settings.fullgraph:
            return True
        return self.machine.is_error_on_break()

    def place_for(self, found: GraphBreak) -> tuple[GraphBreak, int]:
        """Where the graph ends: at the instruction that needs a number from elements, or, where that is in more frames
        (all of which would end), at the one that made the number."""
        origin = self.env.last_of(found.names)
        if origin is None or found.depth <= origin.depth:
            return found, self.machine.steps - 1
        return self.break_at_origin(origin, f"{found.reason} at {found.location}")

    def break_at_origin(self, origin: Origin, why: str) -> tuple[GraphBreak, int]:
        """The break where a number from elements is made."""
        reason = GraphBreak("elements", f"elements decide a number here, which is needed later: {why}")
        reason.location = origin.location
        return reason, origin.step - 1

    # --- running ------------------------------------------------------------------------------------------------------

    def run(self) -> Captured:
        modes = modes_now()
        guard = mode_guard()
        self.machine.trial = Trial(self.machine, modes)
        casts, autocast.state.casts = autocast.state.casts, {}
        try:
            seeing, flags = list(mode_state.function_modes), subclasses.flags(mode_state)
            with tracing(), without_modes(), self.recorder.fake_mode, self.recorder, symbolic_math():
                function_modes.start(self.machine, seeing, flags, guard)
                frame, result = self.interpret()
                at_end = modes_now()
            set_modes(modes)
            with without_modes():
                return self.finish(frame, result, modes, at_end, guard)
        finally:
            set_modes(modes)
            autocast.state.casts = casts
            self.machine.close()
            self.machine.trial = self.env.asked = None
            self.env.here = self.recorder.fake_mode.on_scalar = None      # both live on, with the graph

    def interpret(self) -> tuple[Frame, Any]:
        machine = self.machine
        closure = tuple(
            self.outside.cell(cell, CellObject(name), Cell(name))
            for name, cell in zip(self.code.co_freevars, self.cells, strict=True)
        )
        frame = Frame(machine, self.code, machine.scope, self.arguments, closure, is_top=True)
        try:
            what, value = frame.run()
        except Stopped:
            return frame, NULL
        except Raised as raised:
            error = raised.exception
            raise GraphBreak("exception", f"{type(error).__name__}: {error}") from error
        except (GraphBreak, StepsInside, KeyboardInterrupt):
            raise
        except Exception as error:
            if environment.get("RUSHLIGHT_DYNAMO_DEBUG") == "1":
                raise
            raise GraphBreak("internal", f"{type(error).__name__}: {error}") from error
        if what == "generator":
            raise GraphBreak("generator", f"{self.code.co_qualname} is a generator")
        return frame, value

    # --- the code -----------------------------------------------------------------------------------------------------

    def finish(self, frame: Frame, result: Any, modes: Any, at_end: Any, guard: Guard) -> Captured:
        emitter = Emitter(self.code, tuple(self.given))
        rebuilder = Rebuilder(emitter, self.machine)
        break_at = None
        effects = Effects(rebuilder)
        value: Any = result
        write_modes = functools.partial(self.write_modes, rebuilder, at_end != modes, at_end)
        if result is NULL:
            break_at, value = self.write_break(frame, rebuilder, effects, write_modes)
        else:
            place = emitter.fresh_local("result")
            rebuilder.load(result)
            emitter.store_local(place)
            effects.write()
            write_modes()
            emitter.load_local(place)
            emitter.return_value()
        machine = self.machine
        telling.effects(machine, effects.acts)
        is_odd = at_end != modes or machine.has_function_modes or machine.has_classes or machine.checks \
            or machine.locks.taken or self.env.stand_ins or self.floats.sources
        left = None if is_odd else Left(value, effects.acts, rebuilder, self.machine.codes)
        body, emitter.instructions = emitter.instructions, []
        graph, inputs = self.write_graph(emitter, rebuilder, modes, at_end)
        call, emitter.instructions = emitter.instructions, []
        emitter.share(rebuilder.loaded)
        for source, name in rebuilder.loaded.items():
            emitter.source(source)
            emitter.store_local(name)
        emitter.instructions += call + body
        if self.machine.has_function_modes:
            function_modes.write_start(emitter, len(emitter.instructions) - len(body) + self.modes_end)
        again = self.write_locks(emitter, len(emitter.instructions) - len(body) + effects.locks_end)
        guards = [guard, *self.outside.guards.values(), *self.symbolic_guards(), *self.alias_guards(effects)]
        return Captured(graph, guards, emitter, break_at, self.recorder.calls, inputs, left, again, self.checked)

    def write_locks(self, emitter: Emitter, end: int) -> Again | None:
        """Put the locks that the frame takes around its first `end` instructions."""
        locks = self.machine.locks
        if not locks.taken:
            return None
        locks.check(self.recorder.graph)
        rest, emitter.instructions = emitter.instructions, []
        again, handler = locks.write_start(emitter, self.machine.scope)
        under(handler, rest[:end])
        emitter.instructions += rest
        return again

    def write_modes(self, rebuilder: Rebuilder, are_others: bool, modes: Any) -> None:
        """Leave the modes of the thread as the frame does."""
        emitter = rebuilder.emitter
        if are_others:
            emitter.load_const(set_modes)
            emitter.load_const(modes)
            emitter.call(1)
            emitter.pop()
        if self.machine.has_function_modes:
            function_modes.write_end(self.machine, rebuilder)
        self.modes_end = len(emitter.instructions)

    def write_break(self, frame: Frame, rebuilder: Rebuilder, effects: Effects, write_modes: Callable[[], None]
                    ) -> tuple[BreakAt, tuple[list[Any], list[Any]]]:
        """Everything the rest of the frame needs; where that is, and its variables and the values on its stack."""
        assert self.reason is not None
        emitter = rebuilder.emitter
        bound = tuple(name for name in frame.slots if name not in self.code.co_freevars)
        stack = tuple(value is not NULL for value in frame.stack)
        names = needed(BreakPoint(self.code, frame.at, stack, frozenset(bound)))
        held = {}
        for name in names:
            held[name] = emitter.fresh_local("kept")
            value = frame.slots[name]
            if type(value) is Unread:
                rebuilder.source(value.source)
            else:
                rebuilder.load(value)
            emitter.store_local(held[name])
        places: list[str | None] = []
        for value in frame.stack:
            if value is NULL:
                places.append(None)
                continue
            places.append(emitter.fresh_local("stack"))
            rebuilder.load(value)
            emitter.store_local(places[-1])
        effects.write()
        write_modes()
        for name in names:
            emitter.load_local(held[name])
            emitter.store_local(name)
        for place in places:
            if place is None:
                emitter.push_null()
            else:
                emitter.load_local(place)
        values = [frame.slots[name] for name in names], [value for value in frame.stack if value is not NULL]
        return BreakAt(frame.at, stack, bound, self.reason), values

    def write_graph(self, emitter: Emitter, rebuilder: Rebuilder, modes: Any, at_end: Any
                    ) -> tuple[GraphModule | None, list[Source]]:
        """The call of the compiled graph, if there is anything to compute."""
        recorder = self.recorder
        failed = None if self.machine.failed is None else recorder.nodes[id(self.machine.failed)]
        if failed is not None:
            rebuilder.outputs.setdefault(failed, len(rebuilder.outputs))
        outputs = [node for node, _ in sorted(rebuilder.outputs.items(), key=lambda item: item[1])]
        selects.check(self.machine, outputs)
        graph = recorder.graph
        if at_end != modes:
            graph.call_function(set_modes, (modes,), {})
        graph.output(tuple(outputs))
        hidden = set(self.env.stand_ins)
        for name, (_, _, read) in reversed(recorder.elements.items()):
            if not read.users:      # the number is asked of the tensor, behind the graph
                graph.erase_node(read)
                hidden.discard(name)
        inputs = []
        placeholders = list(graph.find_nodes(op="placeholder"))
        for node, (source, real) in zip(placeholders, self.outside.inputs, strict=True):
            if node.users:
                inputs.append((source, real))
            else:
                graph.erase_node(node)
        if not recorder.calls and not outputs:
            return None, []
        result = _LazyGraphModule(recorder.root, graph, self.code.co_name)
        result.shape_env = self.env
        result.meta["unbacked"] = bool(hidden)
        result.meta["static_inputs"] = [i for i, (source, real) in enumerate(inputs)
                                        if isinstance(real, Parameter) or is_buffer(source)]
        result.meta["fullgraph"] = self.settings.fullgraph
        result.meta["location"] = f"{self.code.co_filename}:{self.code.co_firstlineno} in {self.code.co_qualname}"
        changed = written(self.machine, graph, inputs) if self.machine.checks else []
        telling.graph(result)
        compiled = telling.handed(self.settings.backend_name,
                                  lambda: self.compiled(result, [real for _, real in inputs]))
        sources = [source for source, _ in inputs]
        if not self.machine.checks:
            self.write_call(rebuilder, compiled, sources)
            return result, sources
        function = types.FunctionType(self.code, self.machine.scope, self.code.co_name, None, tuple(self.cells))
        devices = {real.device for _, real in inputs if isinstance(real, Tensor) and real.device.type != "cpu"}
        self.checked = Checked(self.machine.checks, function, devices, modes,
                               None if failed is None else rebuilder.outputs[failed])
        self.checked.write(emitter, rebuilder.results, lambda: rebuilder.sources(changed),
                           lambda: self.write_call(rebuilder, compiled, sources))
        return result, sources

    def write_call(self, rebuilder: Rebuilder, compiled: Callable, sources: Sequence[Source]) -> None:
        """The results of the graph, in their local."""
        emitter = rebuilder.emitter
        emitter.call_graph(compiled, sources, rebuilder.source)
        emitter.store_local(rebuilder.results)

    def compiled(self, graph: GraphModule, inputs: list[Any]) -> Callable:
        """What the backend makes of the graph. One that raises gets no numbers from elements the next time."""
        if not graph.meta["unbacked"] or self.settings.fullgraph:
            return self.settings.backend(graph, inputs)
        try:
            return self.settings.backend(graph, inputs)
        except Unfit:
            raise
        except Exception as error:
            raise Unfit(f"{type(error).__name__}: {error}") from error

    # --- guards -------------------------------------------------------------------------------------------------------

    def symbolic_guards(self) -> list[Guard]:
        """What was assumed of symbols."""
        sources = {str(source): _bare(source) for source, real in self.outside.inputs if isinstance(real, Tensor)}
        for given in self.env.inputs:      # as they were first: sizes that became numbers are guarded too
            if given.strides is not None and given.source in sources:
                for d, size in enumerate(given.sizes):
                    self.note_symbol(size, ShapeOf(sources[given.source], d))
        sizes = {**self.symbols}
        floats = self.floats.sources if any(
            not guard.truth.names.isdisjoint(self.floats.sources) for guard in self.env.guards) else {}
        env, names, places = self.env, (*sizes, *floats), (*sizes.values(), *floats.values())
        if not places:
            return []
        found = [
            Guard(a, Kind.SYMBOLIC, Symbolic((a, b), operator.eq, f"{a} == {b}")) for a, b in self.equal
        ]
        text = ", ".join(f"{name} = {source}" for name, source in zip(names, places, strict=True))
        shown = " and ".join(map(repr, env.guards)) or "sizes are at least 2"
        assumed = Assumed(names, env, len(sizes))
        return [*found, Guard(places[0], Kind.SYMBOLIC, Symbolic(places, assumed, f"{shown} where {text}"))]

    def iterator_guards(self, effects: Effects) -> list[Guard]:
        """That iterators have nothing to do with each other, nor with lists that are changed."""
        drawn = [known for known in self.outside.by_twin.values() if known.kind == "iterator"]
        lists = [known for known in effects.changed if isinstance(known.real, list)]
        if not drawn or len(drawn) + len(lists) < 2:
            return []
        if not are_apart(*(known.real for known in (*drawn, *lists))):
            raise GraphBreak("mutation", "an iterator shares what it goes through")
        places = tuple(known.source for known in (*drawn, *lists))
        said = f"{', '.join(map(str, places))} have nothing in common"
        return [Guard(places[0], Kind.SYMBOLIC, Symbolic(places, are_apart, said))]

    def alias_guards(self, effects: Effects) -> list[Guard]:
        """That what was found to be several objects is several."""
        tensors = [_bare(s) for s, real in self.outside.inputs
                   if isinstance(real, Tensor) and type(real) is not Parameter
                   and not isinstance(s.root, Constant) and not isinstance(s, AsDouble)]
        found = [Guard(tensors[0], Kind.NOT_ALIASED, tuple(tensors[1:]))] if len(tensors) > 1 else []
        told_apart: dict[type, list[Source]] = {}
        for known in map(self.machine.twin_of, self.machine.identified.values()):
            if known is not None and known.kind != "itself" and not isinstance(known.source, Constant):
                told_apart.setdefault(type(known.real), []).append(known.source)
        found += [Guard(first, Kind.NOT_ALIASED, tuple(rest)) for first, *rest in told_apart.values() if rest]
        found += self.iterator_guards(effects)
        for known in effects.changed:
            others = tuple(
                other.source for other in self.outside.by_twin.values()
                if other is not known and type(other.real) is type(known.real)
                and other.kind == known.kind and not isinstance(other.source, Constant)
            )
            if others and not isinstance(known.source, Constant):
                found.append(Guard(known.source, Kind.NOT_ALIASED, others))
        return found


def _bare(source: Source) -> Source:
    """Where a tensor itself is found."""
    return source.base if isinstance(source, AsPlain) else source
