"""What it costs to call compiled code: beside torch.compile, the guards of a transformer, and how often sizes compile.

Enters: nothing; `python -m benchmarks.capture`. Leaves: lines with figures. A backend that computes nothing leaves the
call itself: binding, guards, and the code around the graph. Both libraries run in one process, interleaved; times are
of the processor, medians of many rounds.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

import rushlight
from benchmarks import networks

ROUNDS, CALLS = 15, 400


def interleaved(*functions: Callable[[], Any]) -> list[float]:
    """The median microseconds of each."""
    for function in functions:
        for _ in range(50):
            function()
    taken: list[list[float]] = [[] for _ in functions]
    for _ in range(ROUNDS):
        for function, times in zip(functions, taken, strict=True):
            start = time.process_time_ns()
            for _ in range(CALLS):
                function()
            times.append((time.process_time_ns() - start) / CALLS / 1000)
    return [statistics.median(times) for times in taken]


def first_input(graph: Any, examples: Any) -> Callable:
    """A backend whose graphs return their first input."""
    return lambda *inputs: (inputs[0],)


def tiny(x: Any) -> Any:
    return x + 1


def branching(x: Any, scale: float, names: list[str], flag: bool = True) -> Any:
    return x * scale + len(names) if flag else x - scale


def call_overhead() -> None:
    """A call of a compiled function around an empty graph."""
    for function, rest in ((tiny, ()), (branching, (2.0, ["a", "b"]))):
        calls = []
        for library in (rushlight, torch):
            run, x = library.compile(function, backend=first_input), library.ones(4)
            calls.append(lambda run=run, x=x, rest=rest: run(x, *rest))
        ours, theirs = interleaved(*calls)
        times = f"{ours:.2f} us, torch.compile {theirs:.2f} us"
        print(f"call of {function.__name__}: {times}, {theirs / ours:.1f} times less")


def guard_cost() -> None:
    """The guards of a transformer of twelve layers, by themselves."""
    model = rushlight.nn.TransformerEncoder(
        rushlight.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0), 12, enable_nested_tensor=False)
    for name, network, x in (
        ("TransformerEncoder, 12 layers", model, rushlight.randn(2, 8, 64)),
        ("GPT of the benchmarks", networks.gpt(rushlight), rushlight.randint(0, 65, (2, 16))),
    ):
        run = rushlight.compile(network, backend="eager")
        run(x)
        result = run._run[0].__func__
        for tree, function in result.entries():
            given = result.flatten(network, x), result.function.__globals__, result.function.__closure__ or ()
            if tree.check(*given):
                guards = result.on_miss.__self__.trees
                taken = interleaved(lambda: tree.check(*given))[0]  # noqa: B023 - called at once
                print(f"guards of {name}: {len(guards[0].guards)}, {taken:.2f} us ({function.__name__})")


def sizes() -> None:
    """Graphs compiled for 64 batch sizes, then 64 lengths."""
    graphs: list[Any] = []

    def counting(graph: Any, examples: Any) -> Callable:
        graphs.append(graph)
        return graph.forward

    network = networks.gpt(rushlight)
    run = rushlight.compile(network, backend=counting)
    for batch in range(2, 66):
        run(rushlight.randint(0, 65, (batch, 8)))
    first = len(graphs)
    for length in range(2, 66):
        run(rushlight.randint(0, 65, (2, length)))
    print(f"64 batch sizes: {first} graphs; then 64 lengths: {len(graphs) - first} more")


if __name__ == "__main__":
    call_overhead()
    guard_cost()
    sizes()
