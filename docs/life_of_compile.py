"""The life of `compile(program)`: from bytecode to one native plan, with what each stage hands to the next.

Run it (`python docs/life_of_compile.py`): every step prints real objects, and asserts what it claims. The tests run it
too. Steps 2 to 6 do by hand what `rushlight.compile` does by itself in step 7.
"""

from __future__ import annotations

import contextlib
import dis
import io
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any

from tour import asked_nests, excerpt, heading, say

import rushlight
from rushlight import codegen
from rushlight._dynamo.utils import counters
from rushlight.aot.compile_graph import AotConfig
from rushlight.aot.min_cut import min_cut_rematerialization_partition
from rushlight.functorch.compile import make_boxed_func
from rushlight.inductor.compile_fx import compile_graph


def program(x: Any, w: Any, scale: float) -> Any:
    h = x @ w
    h.mul_(scale)                                       # a write, which no graph will contain
    return (h * h.sigmoid() + 1).square().sum(-1)


def halving(x: Any) -> Any:
    y = x * 2
    while y.sum() > 1:                                  # only the elements tell how often
        y = y / 2
    return y.sin()


@dataclass
class Stages:
    """What was seen between the stages."""

    joint: Any = None
    graphs: list[Any] = field(default_factory=list)     # forward, then backward
    compiled: list[Any] = field(default_factory=list)
    units: list[str] = field(default_factory=list)
    nests: list[list[Any]] = field(default_factory=list)

    @property
    def aot_config(self) -> AotConfig:
        """What makes this object a backend of `compile`: compilers of the two graphs, and who cuts them apart."""
        return AotConfig(self.compile, self.compile, partition=self.cut)

    def cut(self, joint: Any, num_results: int, overwritten: Any = ()) -> Any:
        """The usual partitioner, after a look."""
        self.joint = joint
        return min_cut_rematerialization_partition(joint, num_results, overwritten)

    def compile(self, graph: Any, examples: Any) -> Any:
        """The inductor, with its own account of what it grouped."""
        with asked_nests() as nests, shown("graph") as text:
            result = compile_graph(graph, examples)
        self.graphs.append(graph)
        self.compiled.append(result)
        self.units.append(text.getvalue().partition("units\n")[2])
        self.nests.append(nests)
        return make_boxed_func(lambda *inputs: result(inputs))

    def __call__(self, graph: Any, examples: Any) -> Any:
        raise AssertionError("a backend with an aot_config is asked for that")


@contextlib.contextmanager
def shown(words: str) -> Any:
    """What RUSHLIGHT_SHOW=words prints meanwhile."""
    before = os.environ.get("RUSHLIGHT_SHOW", "")
    os.environ["RUSHLIGHT_SHOW"] = words
    try:
        with contextlib.redirect_stderr(io.StringIO()) as text:
            yield text
    finally:
        os.environ["RUSHLIGHT_SHOW"] = before


def calls_of(graph: Any) -> list[str]:
    """The names of the ops in a graph, in order; picking one of several results is no op."""
    names = [node.name for node in graph.graph.nodes if node.op == "call_function"]
    return [name for name in names if "getitem" not in name]


def seconds_of(function: Any, *arguments: Any) -> float:
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


def show_capture(x: Any, w: Any) -> None:
    heading(1, "Bytecode", "What is captured is the function as Python compiled it.")
    print(excerpt(dis.Bytecode(program).dis(), "BINARY_OP", lines=6))

    heading(2, "Graph and guards",
            "Dynamo (rushlight/dynamo) executes these instructions on fake tensors, which have shapes and no elements.",
            "Calls of ops become nodes of an fx graph. Everything else is done now, once:")
    caught: list[Any] = []

    def backend(graph: Any, examples: Any) -> Any:
        caught.append((graph, examples))
        return graph.forward

    rushlight.compile(program, backend=backend)(x, w, 2.0)
    ((graph, _),) = caught
    print(excerpt(str(graph.graph), "placeholder", lines=9))
    say("The write is still in it (mul_). What was relied upon is written down as guards, which the core checks before",
        "each later call:")
    guards = [str(guard).partition("    #")[0] for guard in rushlight._dynamo.explain(program)(x, w, 2.0).out_guards]
    for guard in guards:
        print(f"    {guard[:100]}")
    assert any(guard.startswith("scale == 2.0") for guard in guards)


def show_stages(x: Any, w: Any) -> Stages:
    stages = Stages()
    rushlight.compile(program, backend=stages)(x, w, 2.0).sum().backward()

    heading(3, "The joint graph",
            "AOTAutograd (rushlight/aot) runs the graph on fake tensors once more, with its backward: the tape of",
            "docs/life_of_backward.py, recorded as ops, derived gradients (mul_vjp) included. Writes have become",
            "values: the node of mul_ calls mul.")
    print(excerpt(stages.joint.code, "matmul =", lines=18))
    assert "aten.mul_." not in stages.joint.code

    forward, backward = stages.graphs
    heading(4, "Two graphs",
            "The joint graph is cut where the fewest bytes cross (a minimum cut). What crosses is saved. Ops that cost",
            "less than reading their result back are computed again: `add` is in both graphs.")
    print(f"    forward  {calls_of(forward)}")
    print(f"    backward {calls_of(backward)}")
    saved = [node.name for node in backward.graph.find_nodes(op="placeholder") if "tangents" not in node.name]
    print(f"    saved    {saved}")
    assert "add" not in saved and "add" in set(calls_of(forward)) & set(calls_of(backward))
    return stages


def show_inductor(stages: Stages) -> None:
    heading(5, "Fusion, schedule, nest",
            "The inductor (rushlight/inductor) asks each op's definition for its Lowered: what one element is. Ops",
            "that can be computed in one pass over memory become one unit. Forward, then backward:")
    print(excerpt(stages.units[0]))
    print(excerpt(stages.units[1]))
    assert "sigmoid, mul, add" in stages.units[0] and "square_vjp, mul_vjp, sigmoid_vjp" in stages.units[1]
    say("The scheduler (rushlight/codegen/schedule) turns a unit into a loop nest. Several ops, one pass over memory:")
    nest = next(nest for nest in stages.nests[0] if "sigmoid" in str(nest))
    print(excerpt(str(nest), lines=14))

    heading(6, "LLVM, and the plan", "From here on it is the way of any eager op (docs/life_of_add.py): LLVM text ...")
    print(excerpt(codegen.emit_llvm(nest), "fmul <", lines=4))
    say("... machine code, and an address. The graph is one plan: slots for tensors, and steps that are kernels with",
        "their operands. The core runs it without Python in between:")
    told = stages.compiled[0].description
    for label in told.labels:
        print(f"    {label}")
    print(f"    {told.main.num_inputs} inputs, {len(told.main.slots)} further slots, {len(told.main.steps)} steps")
    assert len(told.main.steps) == len(told.labels) < len(calls_of(stages.graphs[0]))


def show_whole(x: Any, w: Any) -> None:
    heading(7, "All of it",
            "rushlight.compile does these steps by itself, at the first call. The second finds its guards true:")
    fast = rushlight.compile(program)
    counters.clear()
    first = seconds_of(fast, x, w, 2.0)
    assert counters["frames"]["ok"] == 1
    second = min(seconds_of(fast, x, w, 2.0) for _ in range(20))
    print(f"    first call {first * 1e3:.0f} ms, later calls {second * 1e6:.0f} us")
    assert counters["frames"]["ok"] == 1 and rushlight.allclose(fast(x, w, 2.0), program(x, w, 2.0))
    say("Another value of `scale` breaks a guard. A float that changed becomes an input, so a third value is free:")
    with shown("recompiles") as reasons:
        fast(x, w, 3.0)
    print(excerpt(reasons.getvalue(), "scale", lines=1))
    fast(x, w, 4.0)
    print(f"    graphs compiled for three values: {counters['frames']['ok']}")
    assert counters["frames"]["ok"] == 2


def show_break() -> None:
    heading(8, "A graph break",
            "Where Python must know what only elements tell, the graph ends: it runs, Python decides, and a function",
            "made of the remaining bytecode goes on, compiled by itself.")
    counters.clear()
    fast = rushlight.compile(halving)
    for x in (rushlight.ones(3), -rushlight.ones(3)):
        assert rushlight.allclose(fast(x), halving(x))
    report = rushlight._dynamo.explain(halving)(rushlight.ones(1))
    print(excerpt(report.break_reasons[0].reason.replace(". ", ".\n"), lines=2))
    for number, graph in enumerate(report.graphs):
        print(f"    graph {number}: {calls_of(graph)}")
    assert report.graph_break_count == 2 and report.graph_count == 3


def show_next_process() -> None:
    heading(9, "The next process",
            "Frames, graphs and machine code are kept in a folder. A second process interprets nothing and compiles",
            "nothing. The same program in two new processes, with a folder that was empty:")
    with tempfile.TemporaryDirectory() as folder:
        for number in (1, 2):
            environment = {**os.environ, "RUSHLIGHT_CACHE": folder, "RUSHLIGHT_SHOW": "cache"}
            done = subprocess.run([sys.executable, __file__, "--first-call"], env=environment, capture_output=True,
                                  text=True, check=True)
            events = [line.removeprefix("--- cache: ") for line in done.stderr.splitlines() if line.startswith("---")]
            print(f"    process {number}: first call {done.stdout.strip()}; {', '.join(events)}")
        assert not any("missing" in event for event in events)


def main() -> None:
    x, w = rushlight.randn(512, 16), rushlight.randn(16, 32, requires_grad=True)
    if "--first-call" in sys.argv:
        print(f"{seconds_of(rushlight.compile(program), x, w, 2.0) * 1e3:.0f} ms")
        return
    show_capture(x, w)
    show_inductor(show_stages(x, w))
    show_whole(x, w)
    show_break()
    show_next_process()
    print("\nRead on: docs/compile.md. See it for any program: RUSHLIGHT_SHOW=graph,loops,breaks,recompiles,cache.")


if __name__ == "__main__":
    main()
