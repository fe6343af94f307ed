"""What is written down, to be read: as text, as the engine has it, as a drawing.

Enters: lazy tensors. Leaves: text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _C
from .engines import engine_of
from .graph import needed
from .step import compiled_for
from .tape import Call, Host, Number, Seen, read, tensors_in


def dump_ir(tensors: Sequence[Any], ir_format: str) -> str:
    """The calls that the tensors come from: "text" as they were written down, "backend" as the engine compiles them."""
    if ir_format == "text":
        return "".join(_text(calls, objects, wanted) for calls, objects, wanted in _recorded(tensors))
    if ir_format == "backend":
        return "\n".join(compiled_texts(tensors))
    raise RuntimeError(f"Unrecognized IR format: expected 'text' or 'backend', got {ir_format!r}")


def render_ir_graph(tensors: Sequence[Any]) -> str:
    """The calls that the tensors come from, as a graph in the language of Graphviz."""
    lines = ["digraph G {"]
    for calls, _, wanted in _recorded(tensors):
        last: dict[int, str] = {}
        for k, call in enumerate(calls):
            lines.append(f'  node{k} [label="{call.overload.name}\\n{_shape(call)}"]')
            for t in tensors_in(call.args):
                lines.append(f"  {last.setdefault(t.number, f'input{t.number}')} -> node{k}")
            for t in _changed(call):
                last[t.number] = f"node{k}"
        lines += [f'  {last[n]} -> root{n}\n  root{n} [label="tensor {n}"]' for n in wanted if n in last]
    return "\n".join([*lines, "}"]) + "\n"


def _recorded(tensors: Sequence[Any]) -> list[tuple[list[Call], list[Any], list[int]]]:
    groups: dict[Any, list[int]] = {}
    for t in tensors:
        if not isinstance(t, _C.Tensor) or not _C.records(t.device):
            raise RuntimeError(f"expected tensors on a lazy device, got {type(t).__name__}")
        if (at := _C.recorded_at(t)) is not None:
            groups.setdefault(at[0], []).append(at[1])
    found = []
    for recording, wanted in groups.items():
        words, _, _, objects, _ = recording.state()
        found.append((needed(read(words, objects), set(wanted))[0], objects, wanted))
    return found


def compiled_texts(tensors: Sequence[Any]) -> list[str]:
    """What the engines make of the calls that the tensors come from, one text for each recording."""
    groups: dict[Any, list[int]] = {}
    for t in tensors:
        if (at := _C.recorded_at(t)) is not None:
            groups.setdefault((t.device.type, at[0]), []).append(at[1])
    found = []
    for (device, recording), wanted in groups.items():
        words, homes, _, objects, values = recording.state()
        _, compiled, _ = compiled_for(device, (words, homes, *sorted(wanted)), objects, values, sorted(wanted))
        found.append(engine_of(device).text(compiled))
    return found


def _text(calls: Sequence[Call], objects: Sequence[Any], wanted: Sequence[int]) -> str:
    lines = ["IR {"]
    for call in calls:
        made = ", ".join(f"%{t.number}" for t in _changed(call))
        lines.append(f"  {made} = lazy::{call.overload.name}({', '.join(_shown(a, objects) for a in call.args)})")
    lines.append(f"  return {', '.join(f'%{n}' for n in wanted)}")
    return "\n".join([*lines, "}"]) + "\n"


def _shown(a: Any, objects: Sequence[Any]) -> str:
    if isinstance(a, Seen):
        return f"%{a.number}: {a.dtype.name}{list(a.sizes)}"
    if isinstance(a, Number):
        return repr(objects[a.place])
    if isinstance(a, Host):
        return f"host {objects[a.place].dtype.name}{list(objects[a.place].shape)}"
    return "[" + ", ".join(_shown(x, objects) for x in a) + "]" if isinstance(a, list) else str(a)


def _changed(call: Call) -> list[Seen]:
    made = list(tensors_in((call.results,)))
    params = call.overload.definition.spec.params
    return made or list(tensors_in([a for p, a in zip(params, call.args, strict=True) if p.mutated]))


def _shape(call: Call) -> str:
    return ", ".join(f"{t.dtype.name}{list(t.sizes)}" for t in _changed(call))
