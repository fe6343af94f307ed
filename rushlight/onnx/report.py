"""What an export did, as a page of Markdown: which ops became which nodes, and what each stage took."""

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


def write(folder: str, found: Any, program: Any, clock: Clock | None) -> str:
    """Write the page; its name."""
    graph = found.model.graph
    ops = Counter(str(n.target) for n in program.graph.nodes if n.op == "call_function")
    nodes = Counter(n.op for n in graph.nodes)
    lines = ["# ONNX export", "", f"Opset {found.model.opset}, IR {found.model.ir_version}; {len(graph.nodes)} nodes, "
             f"{len(graph.tensors)} tensors of {found.model.size():,} bytes.", ""]
    if clock is not None:
        lines += ["| stage | seconds |", "| --- | --- |", *[f"| {k} | {v:.3f} |" for k, v in clock.stages.items()], ""]
    lines += ["| node | count |", "| --- | --- |", *[f"| {k} | {v} |" for k, v in nodes.most_common()], ""]
    lines += ["| op of the program | count |", "| --- | --- |", *[f"| {k} | {v} |" for k, v in ops.most_common()], ""]
    lines += ["```", str(found.model), "```", ""]
    path = os.path.join(folder, f"onnx_export_{stamp()}.md")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))
    return path
