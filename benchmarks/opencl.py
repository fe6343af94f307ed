"""The OpenCL package of examples/ beside our own CPU kernels: an add, a product, and a GPT's training step.

    python -m benchmarks.opencl [--only add,product,gpt]

Both sides take turns in one process; medians of wall time. Kernels are compiled before anything is measured, which
takes PoCL a third of a second each. Where pyopencl or a driver is missing that is all it says. `figures()` is what
`benchmarks.devices` shows in a section of its own.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import rushlight as rl

from .networks import gpt

ELEMENTS, SIDE = 1 << 24, 1024
LAYERS, WIDTH, HEADS, CONTEXT, BATCH = 2, 64, 2, 32, 2
PARTS = ("add", "product", "gpt")


def device() -> str:
    """The device's name; raises ImportError or RuntimeError with the reason where there is none."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples" / "opencl_package"))
    import rushlight_opencl  # noqa: PLC0415 - it opens the driver

    return rushlight_opencl.opencl.name


def in_turns(calls: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """The median time of each call, after two to warm up."""
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(rounds + 2):
        for call, kept in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            if turn > 1:
                kept.append(time.perf_counter() - start)
    return [statistics.median(kept) for kept in times]


def waiting(place: str, call: Callable[[], object]) -> Callable[[], None]:
    """The call, until the device has done it."""
    handler = None if place == "cpu" else rl.devices.handlers[place]

    def run() -> None:
        call()
        if handler is not None:
            handler.synchronize()

    return run


def add(places: Sequence[str]) -> list[tuple[str, float, str]]:
    calls = []
    for place in places:
        x, y, out = (rl.ones(ELEMENTS, device=place) for _ in range(3))
        calls.append(waiting(place, lambda x=x, y=y, out=out: rl.add(x, y, out=out)))
    ours, theirs = in_turns(calls, 9)
    rate = 12 * ELEMENTS / 1e9
    return [("add of 16M floats", rate / ours, "GB/s, CPU"), ("", rate / theirs, "GB/s, OpenCL"),
            ("", ours / theirs, "of ours (at least 0.7)")]


def product(places: Sequence[str]) -> list[tuple[str, float, str]]:
    calls = []
    for place in places:
        x, y = (rl.randn(SIDE, SIDE).to(place) for _ in range(2))
        calls.append(waiting(place, lambda x=x, y=y: x @ y))
    ours, theirs = in_turns(calls, 7)
    rate = 2 * SIDE**3 / 1e9
    return [("product of 1024", rate / ours, "GFLOP/s, CPU"), ("", rate / theirs, "GFLOP/s, OpenCL"),
            ("", ours / theirs, "of ours (at least 0.1)")]


def training(place: str, compiled: bool) -> Callable[[], None]:
    """A training step of a small GPT."""
    rl.manual_seed(0)
    model = gpt(rl, LAYERS, WIDTH, HEADS, CONTEXT).to(place)
    optimizer = rl.optim.SGD(model.parameters(), lr=0.01)
    forward = rl.compile(model) if compiled else model
    tokens = rl.randint(0, 65, (BATCH, CONTEXT + 1)).to(place)

    def step() -> None:
        logits = forward(tokens[:, :-1])
        loss = rl.nn.functional.cross_entropy(logits.reshape(-1, 65), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return waiting(place, step)


def gpt_step(places: Sequence[str]) -> list[tuple[str, float, str]]:
    with rl.device(places[1]):      # where the network makes its positions
        eager, compiled = in_turns([training(places[1], False), training(places[1], True)], 9)
    return [("GPT step", eager * 1e3, "ms, OpenCL, eager"), ("", compiled * 1e3, "ms, OpenCL, compiled"),
            ("", eager / compiled, "times as fast compiled (at least 1.3)")]


def figures(only: Sequence[str] = PARTS) -> list[tuple[str, float, str]]:
    """What was measured: a name, a number and what it is of; one row with the reason where there is no device."""
    try:
        places = ("cpu", device())
    except (ImportError, RuntimeError) as error:
        return [("no OpenCL device", 0.0, f"here: {error}")]
    parts = {"add": add, "product": product, "gpt": gpt_step}
    return [row for name in only for row in parts[name](places)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(PARTS), help="comma-separated: " + ", ".join(PARTS))
    for name, number, unit in figures(parser.parse_args().only.split(",")):
        print(f"{name:<20}{number:10.2f} {unit}")


if __name__ == "__main__":
    main()
