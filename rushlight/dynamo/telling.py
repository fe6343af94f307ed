"""What graph capture does, for those who listen (base/logs.py): texts of artifacts, and records of the trace.

Enters: frames, graphs, guards, breaks, as capture comes to them. Leaves: lines of PyTorch's loggers by their names,
each text made only where somebody listens. Changes nothing of what is captured.
"""

from __future__ import annotations

import atexit
import dis
import functools
import io
import linecache
import time
import traceback
import types
from collections.abc import Callable, Sequence
from typing import Any

from .._C import Tensor
from ..base import logs
from ..base.sources import PACKAGE
from ..loops.record import Record
from .bytecode import resume
from .frames.frame import NULL
from .record import counting
from .record.breaks import GraphBreak

_FRAME = "torch._dynamo.convert_frame"
_CAPTURE = "torch._dynamo.symbolic_convert"
_GRAPH = "torch._dynamo.output_graph"
_attempted: list[str] = []                 # frames that were said to be captured
_broken: set[tuple[str, str]] = set()      # where graphs were said to end, and why


def name_of(code: types.CodeType) -> str:
    """A function as lines name it; the rest of one behind a break by the line it starts from."""
    if resume.original_code(code) is code:
        return code.co_name
    return f"torch_dynamo_resume_in_{code.co_name}_at_{_first_line(code)}"


def _first_line(code: types.CodeType) -> int:
    if resume.original_code(code) is code:
        return code.co_firstlineno
    return next((place[0] for place in code.co_positions() if place[0]), code.co_firstlineno)


def place_of(code: types.CodeType) -> str:
    """The same with its file and line."""
    return f"{name_of(code)} {code.co_filename}:{_first_line(code)}"


def user_stack() -> list[traceback.FrameSummary]:
    """The frames of the program that led to a compilation."""
    return [f for f in traceback.extract_stack() if not f.filename.startswith((PACKAGE, "<frozen"))]


# --- frames -----------------------------------------------------------------------------------------------------------


def started(code: types.CodeType) -> None:
    """A frame is about to be captured."""
    if (log := logs.messages(_FRAME, logs.DEBUG)) is not None:
        stack = user_stack()
        log.debug("torchdynamo start compiling %s, stack:\n%s", place_of(code),
                  "".join(traceback.format_list(stack)))
    if (log := logs.messages(_CAPTURE)) is not None:
        log.info("Step 1: torchdynamo start tracing %s", place_of(code))
        _tell_at_the_end()
        _attempted.append(place_of(code))
    if (log := logs.artifact("bytecode")) is not None:
        log.debug("%s", bytecode_text("ORIGINAL BYTECODE", code))
    if logs.is_traced():
        # numbers of files are explained before the record that has them
        stack = _interned([(code.co_filename, _first_line(code), name_of(code))])
        logs.trace("dynamo_start", lambda: {"stack": stack})


@functools.cache
def _tell_at_the_end() -> None:
    atexit.register(_ended)


def _ended() -> None:
    """When the program ends: which frames were captured, and what that took."""
    if (log := logs.messages("torch._dynamo.eval_frame")) is not None:
        frames = "".join(f"  * {place}\n" for place in dict.fromkeys(_attempted))
        log.info("TorchDynamo attempted to trace the following frames: [\n%s]", frames)
    if (log := logs.messages("torch._dynamo.utils")) is not None:
        log.info("%s", counting.compile_times())


def _interned(stack: Sequence[tuple[str, int, str]]) -> list[dict[str, Any]]:
    structured = logs.room().structured
    return [{"line": line, "name": name, "filename": structured.intern_string(file)} for file, line, name in stack]


def finished(code: types.CodeType, captured: Any) -> None:
    """A frame was captured, up to its end or to a break."""
    if (log := logs.messages(_CAPTURE)) is not None:
        stop = captured.break_at
        log.info("Step 1: torchdynamo done tracing %s (%s)", name_of(code),
                 "RETURN_VALUE" if stop is None else f"the graph ends at {stop.reason.location}")


def bytecode_text(title: str, code: types.CodeType) -> str:
    text = io.StringIO()
    dis.dis(code, file=text)
    return f"{title} {name_of(code)} {code.co_filename} line {_first_line(code)} \n{text.getvalue()}\n"


def replaced(code: types.CodeType, new: types.CodeType) -> None:
    """A frame got other code."""
    if (log := logs.artifact("bytecode")) is not None:
        log.debug("%s", bytecode_text("MODIFIED BYTECODE", new))
    if logs.is_traced() and resume.original_code(code) is not code:
        for kind, one in (("ORIGINAL", code), ("MODIFIED", new)):
            logs.trace_text(f"{name_of(code)}_{kind}_BYTECODE",
                            lambda kind=kind, one=one: bytecode_text(f"{kind} BYTECODE", one))


class Measured(Record):
    """One frame, for the record of its compilation."""

    code: types.CodeType
    captured: Any
    num_guards: int
    num_before: int        # entries that there were
    started: float
    seconds: float


def measured(frame: Measured) -> None:
    """How long a frame took, and what of."""
    if not logs.is_traced():
        return
    graph = frame.captured.graph
    nodes = [] if graph is None else list(graph.graph.nodes)
    stop = frame.captured.break_at
    logs.trace("compilation_metrics", lambda: {
        "compile_id": str(logs.here.compile_id), "co_name": name_of(frame.code), "co_filename": frame.code.co_filename,
        "co_firstlineno": _first_line(frame.code), "cache_size": frame.num_before,
        "accumulated_cache_size": frame.num_before, "guard_count": frame.num_guards,
        "graph_op_count": frame.captured.num_ops, "graph_node_count": len(nodes),
        "graph_input_count": sum(n.op == "placeholder" for n in nodes), "start_time": frame.started,
        "entire_frame_compile_time_s": frame.seconds, "has_guarded_code": True,
        "fail_type": None, "fail_reason": None,
        "restart_reasons": [] if stop is None else [stop.reason.reason],
    })


# --- graphs -----------------------------------------------------------------------------------------------------------


def graph(module: Any) -> None:
    """A graph was captured, and is about to be handed to the backend."""
    if (log := logs.artifact("graph")) is not None:
        log.debug("TRACED GRAPH\n ===== %s =====\n%s", module._get_name(), table(module))
    if (log := logs.artifact("graph_code")) is not None:
        log.debug("TRACED GRAPH\n ===== %s =====\n %s", module._get_name(), code_text(module))
    if (log := logs.artifact("graph_sizes")) is not None:
        rows = "".join(f"{name}: {tuple(sizes)}\n" for name, sizes in sizes_in(module).items())
        log.debug("TRACED GRAPH TENSOR SIZES\n===== %s =====\n%s", module._get_name(), rows)
    logs.trace("dynamo_output_graph", lambda: {"sizes": sizes_in(module)}, lambda: code_text(module))


def code_text(module: Any) -> str:
    return module.print_readable(print_output=False, include_stride=True, include_device=True)


def sizes_in(module: Any) -> dict[str, list[Any]]:
    """Sizes of the tensors of a graph, symbols as text."""
    found = {}
    for node in module.graph.nodes:
        value = node.meta.get("example_value")
        if isinstance(value, Tensor):
            found[node.name] = [n if isinstance(n, int) else str(n) for n in value.shape]
    return found


def table(module: Any) -> str:
    """The nodes of a graph in columns."""
    rows = [("opcode", "name", "target", "args", "kwargs")]
    rows += [(n.op, n.name, n._pretty_print_target(n.target), str(n.args), str(n.kwargs)) for n in module.graph.nodes]
    widths = [max(len(row[k]) for row in rows) for k in range(5)]
    rows.insert(1, tuple("-" * width for width in widths))      # type: ignore[arg-type]
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
                     for row in rows)


def handed(name: str, compile_it: Callable[[], Any]) -> Any:
    """What a backend makes of a graph, told before and after."""
    log, started = logs.messages(_GRAPH), time.perf_counter()
    if log is not None:
        log.info("Step 2: calling compiler function %s", name)
    result = compile_it()
    counting.note_time(counting.BACKEND, time.perf_counter() - started)
    if log is not None:
        log.info("Step 2: done compiler function %s", name)
    return result


# --- breaks, effects --------------------------------------------------------------------------------------------------


def broken(reason: GraphBreak) -> None:
    """A graph ends."""
    log = logs.artifact("graph_breaks")
    if log is None and not logs.is_traced():
        return
    text = break_text(reason)
    if log is not None:
        key = reason.location, reason.reason
        log.debug("%s", _without_stack(reason) if key in _broken else text)
        _broken.add(key)
    logs.trace_text("dynamo_graph_break_reason", lambda: text)


def _without_stack(reason: GraphBreak) -> str:
    where = reason.location.partition(" in ")[0]
    return (f"Graph break (user stack suppressed due to duplicate graph break) in user code at {where}\n"
            f"Graph Break Reason: {reason.reason}")


def break_text(reason: GraphBreak) -> str:
    where = reason.location.partition(" in ")[0] or "unknown"
    inner = [traceback.FrameSummary(file, line, name) for file, line, name in reason.stack]
    stack = "".join(traceback.format_list([*user_stack(), *inner]))
    return (f"Graph break in user code at {where}\nGraph Break Reason: {reason.reason}\n  Hint: {reason.hint}\n"
            f"User code traceback:\n{stack}")


def refused(name: str, reason: Any) -> None:
    """A frame, or a graph, runs as it is."""
    if (log := logs.artifact("graph_breaks")) is not None:
        text = break_text(reason) if isinstance(reason, GraphBreak) else str(reason)
        log.debug("%s runs as it is, uncompiled.\n%s", name, text)


def effects(machine: Any, acts: Sequence[tuple]) -> None:
    """What emitted code changes."""
    if not acts:
        return
    log = logs.artifact("side_effects")
    if log is None and not logs.is_traced():
        return
    lines = [_effect_text(machine, *act) for act in acts]
    if log is not None:
        for line in lines:
            log.debug("%s", line)
    logs.trace_text("dynamo_side_effects", lambda: "\n".join(lines))


def _effect_text(machine: Any, function: Any, given: tuple, is_known: bool) -> str:
    if function is None:      # a call that was put off: print, warnings
        return f"Calling {getattr(given[0], '__qualname__', given[0])} after the graph"
    owner = given[0]
    known = None if is_known else machine.twin_of(owner)
    source = f" (source name: {known.source})" if known is not None else ""
    kind = type(owner if known is None else known.real).__qualname__
    what = f", {given[1]!r}" if len(given) > 2 and isinstance(given[1], str) else ""
    return f"Mutating object of type {kind}{source} by {function.__name__}{what}"


# --- guards -----------------------------------------------------------------------------------------------------------


def guards(tree: Any) -> None:
    """What a frame relies on."""
    if (log := logs.artifact("guards")) is not None:
        log.debug("GUARDS:\n%s", guards_text(tree))
    if (log := logs.artifact("verbose_guards")) is not None:
        for guard in tree.guards:
            where = guard.where or "the frame itself"
            log.debug("%s of %s, made at %s: %s", guard.kind.name, guard.source, where, guard)
    logs.trace("dynamo_cpp_guards_str", payload=lambda: guards_text(tree))


def guards_text(tree: Any) -> str:
    return "\n".join(f"+- {guard.kind.name}: {guard}" for guard in tree.guards)


def recompiled(function: types.FunctionType, failures: Sequence[Sequence[str]], others: Sequence[str]) -> None:
    """A function is compiled again. `failures`: for each entry there is, the guards that do not hold."""
    all_of_them = logs.artifact("recompiles_verbose")
    log = logs.artifact("recompiles") if all_of_them is None else None
    name, _, where = place_of(function.__code__).partition(" ")
    head = f"Recompiling function {name} in {where}\n    triggered by the following guard failure(s):"
    frame = None if logs.here.compile_id is None else logs.here.compile_id.frame_id
    first = [f"    - {frame}/{k}: {found[0]}" for k, found in enumerate(failures) if found]
    extra = [f"    - {one}" for one in others]
    if log is not None:
        log.debug("%s", "\n".join([head, *first, *extra]))
    if all_of_them is not None:
        lines = [head]
        for k, found in enumerate(failures):
            lines += [f"    guard {k} failures:", *(f"    - {frame}/{k}: {one}" for one in found)]
        all_of_them.debug("%s", "\n".join([*lines, *extra]))
    logs.trace_text("recompile_reasons", lambda: [*first, *extra], encoding="json")


# --- each step of capture ---------------------------------------------------------------------------------------------


class Follower:
    """Told of every instruction that capture comes to, and of every call that goes into the graph."""

    def __init__(self, frames: Sequence[Any], sources: Any, calls: Any, instructions: Any) -> None:
        self.frames = frames      # the innermost last
        self.sources, self.calls, self.instructions = sources, calls, instructions
        self.last: tuple[types.CodeType, int] | None = None

    def step(self, frame: Any, one: Any, depth: int) -> None:
        if self.sources is not None and one.line is not None and self.last != (frame.code, one.line):
            self.last = frame.code, one.line
            self.sources.debug("TRACE starts_line %s%s\n    %s", frame.line,
                               f" (inline depth: {depth - 1})" if depth > 1 else "",
                               linecache.getline(frame.code.co_filename, one.line).rstrip())
        if self.instructions is not None:
            shown = "" if one.arg is None else f" {one.argval!r}"
            self.instructions.debug("TRACE %s%s [%s]", one.name, shown, ", ".join(map(_short, frame.stack)))

    def call(self, node: Any) -> None:
        if not self.frames:
            return
        node.stack_trace = "".join(traceback.format_list([
            traceback.FrameSummary(f.code.co_filename, f.now.line or f.code.co_firstlineno, f.code.co_qualname)
            for f in self.frames if not f.code.co_filename.startswith(PACKAGE)]))
        if self.calls is None:
            return
        frame = next((f for f in reversed(self.frames) if not f.code.co_filename.startswith(PACKAGE)), self.frames[-1])
        at = frame.now.positions
        text = linecache.getline(frame.code.co_filename, at.line or 0).rstrip("\n")
        lines = [f"TRACE FX call {node.name} from {frame.line}", text]
        if text and at.column is not None and at.end_line == at.line:
            lines.append(" " * at.column + "^" * (at.end_column - at.column))
        self.calls.debug("%s", "\n".join(lines))


def _short(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"Tensor({list(value.shape)})"
    is_short = isinstance(value, (int, float, str, type(None))) or value is NULL
    text = repr(value) if is_short else type(value).__name__
    return text if len(text) < 60 else text[:57] + "..."


def follower(frames: Sequence[Any]) -> Follower | None:
    """Who is told of every step; None where nobody wants to be. `frames`: those that run, the innermost last."""
    if logs.heard() is None:
        return None
    found = logs.artifact("trace_source"), logs.artifact("trace_call"), logs.artifact("trace_bytecode")
    return None if found == (None, None, None) and not logs.is_followed() else Follower(frames, *found)

