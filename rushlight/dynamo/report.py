"""What was compiled, and where graphs ended: `explain()` and its page over the user's source.

Enters: a `Step` for each frame that was captured or refused. Leaves: a `Report`, with PyTorch's names for its parts,
that prints as text and writes itself as one HTML page (`html()`): the source with every break at its line, the graphs,
the guards, and the time that each part took.
"""

from __future__ import annotations

import linecache
import types
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .bytecode import resume
from .values.guards import GuardTree


@dataclass(frozen=True)
class BreakReason:
    """Why a graph ended, and the user's line."""

    reason: str
    user_stack: list[str]
    graph_break: bool = True


@dataclass(frozen=True)
class Step:
    """One frame, or one rest of a frame behind a break, that was captured."""

    name: str
    code: types.CodeType
    line: int                       # where it starts
    graph: Any                      # None where nothing was left to compute
    ops: list[Any]
    guards: list[str]
    reason: BreakReason | None
    seconds: float
    checks: list[str] = field(default_factory=list)      # branches on elements of which one side was captured

    @staticmethod
    def of(function: types.FunctionType, captured: Any, tree: GuardTree, seconds: float) -> Step:
        code = resume.original_code(function.__code__)
        graph = captured.graph
        ops = [] if graph is None else [n.target for n in graph.graph.nodes if n.op in ("call_function", "call_method")]
        stop = captured.break_at
        reason = None if stop is None else BreakReason(str(stop.reason), [getattr(stop.reason, "location", "")])
        first = next((p[0] for p in function.__code__.co_positions() if p[0]), code.co_firstlineno)
        checks = [] if captured.checked is None else [*map(str, captured.checked.checks)]
        guards = [str(g) for g in tree.guards]
        return Step(function.__qualname__, code, first, graph, ops, guards, reason, seconds, checks)


@dataclass
class Report:
    """What a run of compiled code was made of."""

    steps: list[Step] = field(default_factory=list)
    refusals: list[BreakReason] = field(default_factory=list)

    def add(self, step: Step) -> None:
        self.steps.append(step)

    def refused(self, function: types.FunctionType, reason: Any) -> None:
        code = resume.original_code(function.__code__)
        where = getattr(reason, "location", "") or f"{code.co_filename}:{code.co_firstlineno} in {code.co_qualname}"
        self.refusals.append(BreakReason(f"{function.__qualname__} runs as it is: {reason}", [where]))

    # -- PyTorch's names --------------------------------------------------------------------------------------------

    @property
    def graphs(self) -> list[Any]:
        return [step.graph for step in self.steps if step.graph is not None]

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def break_reasons(self) -> list[BreakReason]:
        return [step.reason for step in self.steps if step.reason is not None] + self.refusals

    @property
    def graph_break_count(self) -> int:
        return len(self.break_reasons)

    @property
    def ops_per_graph(self) -> list[list[Any]]:
        return [step.ops for step in self.steps if step.graph is not None]

    @property
    def op_count(self) -> int:
        return sum(map(len, self.ops_per_graph))

    @property
    def out_guards(self) -> list[str]:
        return [guard for step in self.steps for guard in step.guards]

    @property
    def checks(self) -> list[str]:
        """What was assumed of elements, and is checked at each call; where it is not so, the frame runs as it is."""
        return [check for step in self.steps for check in step.checks]

    @property
    def compile_times(self) -> str:
        return "\n".join(f"{step.seconds:8.3f} s  {step.name}, from line {step.line}" for step in self.steps)

    # -- showing ------------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        lines = [f"Graph Count: {self.graph_count}", f"Graph Break Count: {self.graph_break_count}",
                 f"Op Count: {self.op_count}"]
        if self.break_reasons:
            lines.append("Break Reasons:")
            for i, reason in enumerate(self.break_reasons, 1):
                lines += [f"  Break Reason {i}:", f"    Reason: {reason.reason}"]
                lines += [f"    User Stack: {where}" for where in reason.user_stack if where]
        for i, ops in enumerate(self.ops_per_graph, 1):
            lines.append(f"Ops of graph {i}: " + ", ".join(map(_op_name, ops)))
        lines.append(f"Guards: {len(self.out_guards)}")
        lines += [f"Check: {check}" for check in self.checks]
        lines.append(f"Compile Times:\n{self.compile_times}")
        return "\n".join(lines)

    __repr__ = __str__

    def html(self, path: str | None = None) -> str:
        """One page: the source with breaks at their lines, then each graph. Written to `path` where one is given."""
        parts = [_HEAD, f"<h1>{escaped(self.steps[0].name) if self.steps else 'nothing was compiled'}</h1>",
                 f"<p>{self.graph_count} graphs, {self.op_count} ops, {self.graph_break_count} breaks,"
                 f" {len(self.out_guards)} guards, {sum(s.seconds for s in self.steps):.2f} s</p>"]
        for code in dict.fromkeys(step.code for step in self.steps):
            parts.append(_source(code, [step for step in self.steps if step.code is code], self.break_reasons))
        for i, step in enumerate((s for s in self.steps if s.graph is not None), 1):
            parts.append(
                f"<h2>Graph {i}: {escaped(step.name)}, from line {step.line} ({step.seconds * 1000:.0f} ms)</h2>"
                + "".join(f"<p>Checked at each call: {escaped(check)}</p>" for check in step.checks) +
                f"<pre>{escaped(str(step.graph.graph))}</pre><details><summary>{len(step.guards)} guards</summary>"
                f"<pre>{escaped(chr(10).join(step.guards))}</pre></details>"
            )
        text = "\n".join(parts) + "\n"
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return text


def escaped(text: str) -> str:
    """Text as HTML shows it."""
    import html  # noqa: PLC0415 - most programs ask for no page, and it loads the table of all entities

    return html.escape(text)


_HEAD = """<!doctype html><meta charset="utf-8"><title>compiled</title>
<style>body{font:14px sans-serif;max-width:70em;margin:2em auto}pre{background:#f6f6f6;padding:.5em;overflow:auto}
.break{background:#ffe0e0}.start{background:#e0f0e0}.why{color:#a00;white-space:pre-wrap;margin-left:4em}</style>"""


def _op_name(op: Any) -> str:
    return op if isinstance(op, str) else getattr(op, "__name__", str(op))


def _source(code: types.CodeType, steps: Sequence[Step], reasons: Sequence[BreakReason]) -> str:
    """The lines of a function: where graphs start, and where they ended and why."""
    last = max([p[1] or 0 for p in code.co_positions()] + [code.co_firstlineno])
    starts = {step.line for step in steps}
    said: dict[int, list[str]] = {}
    for reason in reasons:
        for where in reason.user_stack:
            file, _, rest = where.partition(":")
            if file == code.co_filename and rest.split(" ")[0].isdigit():
                said.setdefault(int(rest.split(" ")[0]), []).append(reason.reason)
    rows = [f"<h2>{escaped(code.co_qualname)} ({escaped(code.co_filename)})</h2><pre>"]
    for number in range(code.co_firstlineno, last + 1):
        kind = "break" if number in said else "start" if number in starts else ""
        line = escaped(linecache.getline(code.co_filename, number).rstrip("\n"))
        rows.append(f'<span class="{kind}">{number:5} {line}</span>')
        rows += [f'<span class="why">{escaped(why)}</span>' for why in said.get(number, ())]
    return "\n".join(rows) + "</pre>"
