"""How fast: the cost of a launch, bandwidths, the rate of products, compiled over eager. A table, never a failure.

Enters: a device. Leaves: rows for the report, each with the host's figure beside the device's. Sizes grow until a call
takes a while, so that a simulated chip is not asked for what it would compute all day.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import rushlight as rl

from .case import Chip, case
from .samples import values

ENOUGH = 0.02        # seconds: a call that takes as long is not made larger
SPENT = 0.1          # seconds spent on repeating one call


def wait(*results: rl.Tensor) -> None:
    """Return when these are computed: the host looks at an element of each."""
    for result in results:
        result.flatten()[:1].cpu()


def once(work: Callable[[], rl.Tensor]) -> float:
    """The time of one call, the second: the first one compiles."""
    wait(work())
    start = time.perf_counter()
    wait(work())
    return time.perf_counter() - start


def seconds(work: Callable[[], rl.Tensor]) -> float:
    """The time of one call among many that are waited for at the end; the best of three rounds."""
    took = once(work)
    if took > SPENT:
        return took
    rounds = []
    count = max(1, int(SPENT / 3 / max(took, 1e-6)))
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(count - 1):
            work()
        wait(work())
        rounds.append((time.perf_counter() - start) / count)
    return min(rounds)


def grown(sizes: tuple[int, ...], make: Callable[[int], Callable[[], rl.Tensor]]) -> int:
    """The largest of the sizes that is reached before a call takes long."""
    for size in sizes:
        if once(make(size)) > ENOUGH:
            break
    return size


def sizes(chip: Chip, *all_of_them: int) -> tuple[int, ...]:
    """The sizes to try; with --quick not the largest."""
    return all_of_them[:-1] if chip.quick else all_of_them


def enter(chip: Chip, what: str, unit: str, figure: Callable[[Any], float]) -> None:
    """A row: the device's figure, and the host's."""
    ours = figure(chip.device)
    chip.measure(what, ours, unit, None if chip.name == "cpu" else figure("cpu"))


@case(needs=("float32",))
def launch(chip: Chip) -> None:
    """An add of 4 by 4: nothing but the cost of a call."""

    def figure(place: Any) -> float:
        x = values(4, 4).to(place)
        return seconds(lambda: x + x) * 1e6

    enter(chip, "add of 4x4, a call", "µs", figure)


@case(needs=("float32",))
def copies(chip: Chip) -> None:
    """Bandwidth of copies: to the device, to the host, on the device."""
    length = grown(sizes(chip, 1 << 14, 1 << 18, 1 << 22, 1 << 24), lambda n: into(chip, n))
    chip.measure(f"copy of {shown(length)} to the device", length * 4 / seconds(into(chip, length)) / 1e9, "GB/s")
    x = values(length).to(chip.device)
    took = seconds(lambda: x.to("cpu", copy=True))
    chip.measure(f"copy of {shown(length)} to the host", length * 4 / took / 1e9, "GB/s")
    chip.measure(f"copy of {shown(length)} on the device", length * 8 / seconds(x.clone) / 1e9, "GB/s")


def into(chip: Chip, length: int) -> Callable[[], rl.Tensor]:
    """A copy of so many floats to the device, each time anew."""
    x = values(length)
    return lambda: x.to(chip.device, copy=True)


def shown(length: int) -> str:
    """So many floats, by their bytes."""
    return f"{length >> 18} MiB" if length >= 1 << 18 else f"{length >> 8} KiB"


@case(needs=("float32",))
def add(chip: Chip) -> None:
    """Bandwidth of a large add: two tensors read, one written."""
    length = grown(sizes(chip, 1 << 14, 1 << 18, 1 << 22, 1 << 24), lambda n: added(chip.device, n))
    enter(chip, f"add of {shown(length)}", "GB/s", lambda place: length * 12 / seconds(added(place, length)) / 1e9)


def added(place: Any, length: int) -> Callable[[], rl.Tensor]:
    x, y = values(length).to(place), values(length, seed=1).to(place)
    return lambda: x + y


@case(needs=("float32",))
def product(chip: Chip) -> None:
    """The rate of a product of square matrices."""
    size = grown(sizes(chip, 64, 256, 512, 1024), lambda n: multiplied(chip.device, n))
    enter(
        chip, f"product of {size}x{size}", "GFLOP/s",
        lambda place: 2 * size**3 / seconds(multiplied(place, size)) / 1e9,
    )


def multiplied(place: Any, size: int) -> Callable[[], rl.Tensor]:
    x, y = values(size, size).to(place), values(size, size, seed=1).to(place)
    return lambda: x @ y


@case(needs=("float32",))
def compiled(chip: Chip) -> None:
    """A chain of pointwise ops and a softmax: how many times faster compiled than op by op."""

    def chain(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        return ((x * 2 + y).tanh() * x - y).softmax(1)

    def figure(place: Any) -> float:
        x, y = values(rows, 256).to(place), values(rows, 256, seed=1).to(place)
        fused = rl.compile(chain)
        return seconds(lambda: chain(x, y)) / seconds(lambda: fused(x, y))

    def eager(count: int) -> Callable[[], rl.Tensor]:
        x = values(count, 256).to(chip.device)
        return lambda: chain(x, x)

    rows = grown((16, 256, 2048), eager)
    enter(chip, f"compiled over eager, {rows}x256", "times", figure)
