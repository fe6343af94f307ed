"""What an export did, as a page of Markdown: which ops became which nodes, what each stage took, what went wrong."""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import Any


def stamp() -> str:
    """When it is, for names of files."""
    return time.strftime("%Y-%m-%d_%H-%M-%S")


class Clock:
    """Seconds of each stage."""

    def __init__(self) -> None:
        self.last, self.stages = time.perf_counter(), {}

    def stage(self, name: str) -> None:
        """A stage is over."""
        now = time.perf_counter()
        self.stages[name], self.last = now - self.last, now


def write(folder: str, found: Any, program: Any, clock: Clock, error: BaseException | None = None,
          results: list[Any] | None = None, profile: bool = False) -> str:
    """Write the page, its folder too if that is not there; its name. `found` is None where the export failed."""
    outcome = "success" if error is None else "failure"
    lines = ["# ONNX export", "", *[f"- {name}: done" for name in clock.stages]]
    if error is not None:
        lines += ["- the next step: failed", "", "## Error", "", "```", f"{type(error).__name__}: {error}", "```"]
    if profile:
        lines += ["", "| stage | seconds |", "| --- | --- |", *[f"| {k} | {v:.3f} |" for k, v in clock.stages.items()]]
    if program is not None:
        lines += ["", "## Program", "", "```python", str(program).rstrip(), "```", "", *_counted(program)]
    if found is not None:
        graph = found.model.graph
        nodes = Counter(n.op for n in graph.nodes)
        lines += ["", "## Model", "", f"Opset {found.model.opset}, IR {found.model.ir_version}; "
                  f"{len(graph.nodes)} nodes, {len(graph.tensors)} tensors of {found.model.size():,} bytes.", "",
                  "| node | count |", "| --- | --- |", *[f"| {k} | {v} |" for k, v in nodes.most_common()], "",
                  "```", str(found.model), "```"]
    if results is not None:
        lines += ["", "## Verification", "", "| output | largest difference | relative |", "| --- | --- | --- |",
                  *[f"| {r.name} | {r.max_abs_diff:.3e} | {r.max_rel_diff:.3e} |" for r in results]]
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"onnx_export_{stamp()}_{outcome}.md")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join([*lines, ""]))
    return path


def _counted(program: Any) -> list[str]:
    """What a program has: tensors by type, ops by name."""
    held = Counter(f"{t.dtype}" for t in program.state_dict.values())
    sizes = sum(t.numel() for t in program.state_dict.values())
    ops = Counter(str(n.target) for n in program.graph.nodes if n.op == "call_function")
    of = f" ({', '.join(f'{n} of {k}' for k, n in held.items())})" if held else ""
    return [f"{len(program.state_dict)} tensors with {sizes:,} elements{of}.", "", "| op of the program | count |",
            "| --- | --- |", *[f"| {k} | {v} |" for k, v in ops.most_common()]]
