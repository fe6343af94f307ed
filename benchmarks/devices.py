"""What a call costs on a plug-in device that does nothing: the framework's own time on the way to `launch`.

    python -m benchmarks.devices

Prints, for devices in Python with and without n-d launches, the processor time of `x + y` and of other small calls, and
their ratio to PyTorch's `x + y` on its CPU, measured in turns in the same run (0 where PyTorch is not installed).
"""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable, Sequence
from typing import Any

import rushlight as rl
from rushlight.devices import Device, register

try:
    import torch
except ImportError:
    torch = None

CALLS, ROUNDS = 2000, 25


class Nothing(Device):
    """Has addresses, and no memory behind them."""

    name = "nothing"

    def allocate(self, nbytes: int, index: int) -> int:
        return 1 << 20

    def free(self, address: int, nbytes: int, index: int) -> None:
        """Nothing to free."""

    def copy_from_host(self, target: int, source: int, nbytes: int, index: int) -> None:
        """Nowhere to copy to."""

    def copy_to_host(self, target: int, source: int, nbytes: int, index: int) -> None:
        """Nothing to copy."""

    def copy_within(self, target: int, source: int, nbytes: int, index: int) -> None:
        """Nothing to copy."""

    def load(self, nest: Any) -> str:
        return nest.name

    def launch(
        self, handle: str, pointers: Sequence[int | bytes], params: Sequence[int], begin: int, end: int, index: int
    ) -> None:
        """Nothing to run."""


class NothingAtOnce(Nothing):
    """Takes pointwise kernels of any number of dims in one launch."""

    name = "nothing_nd"

    def launch_pointwise(
        self,
        handle: str,
        pointers: Sequence[int | bytes],
        sizes: Sequence[int],
        strides: Sequence[Sequence[int]],
        index: int,
    ) -> None:
        """Nothing to run."""


def calls() -> dict[str, Callable[[], Any]]:
    """The measured calls, by name."""
    result: dict[str, Callable[[], Any]] = {}
    for name in ("nothing", "nothing_nd"):
        x, y = rl.empty(4, 4, device=name), rl.empty(4, 4, device=name)
        at = rl.zeros(2, dtype=rl.int64, device=name)
        result[f"{name}: x + y"] = lambda x=x, y=y: x + y
        result[f"{name}: x * 2"] = lambda x=x: x * 2
        result[f"{name}: x.t() + y"] = lambda x=x, y=y: x.t() + y
        result[f"{name}: x.sum(1)"] = lambda x=x: x.sum(1)
        result[f"{name}: x.index_select(0, at)"] = lambda x=x, at=at: x.index_select(0, at)
    a, b = rl.ones(4, 4), rl.ones(4, 4)
    result["cpu: x + y"] = lambda: a + b
    if torch is not None:
        p, q = torch.ones(4, 4), torch.ones(4, 4)
        result["PyTorch, cpu: x + y"] = lambda: p + q
    return result


def main() -> None:
    for device in (Nothing(), NothingAtOnce()):
        register(device)
    measured = calls()
    best = dict.fromkeys(measured, float("inf"))
    for call in measured.values():
        call()
    for _ in range(ROUNDS):   # in turns: what else the machine does then meets all of them
        for name, call in measured.items():
            best[name] = min(best[name], timeit.timeit(call, number=CALLS, timer=time.process_time) / CALLS)
    base = best.get("PyTorch, cpu: x + y", 0)
    for name, seconds in best.items():
        print(f"{name:36} {seconds * 1e6:7.2f} us  {seconds / base if base else 0:6.2f} of PyTorch's add")


if __name__ == "__main__":
    main()
