"""What a call costs on a plug-in device that does nothing: the framework's own time on the way to `launch`.

    python -m benchmarks.devices

Prints, for devices in Python with and without n-d launches and for one whose functions are C (where there is a
compiler), the processor time of `x + y` and of other small calls, and their ratios to `x + y` on our CPU and on
PyTorch's, measured in turns in the same run (0 where PyTorch is not installed).
"""

from __future__ import annotations

import ctypes
import pathlib
import shutil
import subprocess
import tempfile
import time
import timeit
from collections.abc import Callable, Sequence
from typing import Any

import rushlight as rl
from rushlight import devices
from rushlight.devices import Device, register

try:
    import torch
except ImportError:
    torch = None

CALLS, ROUNDS = 2000, 25


class Nothing(Device):
    """Has addresses, and no memory behind them."""

    name = "nothing"
    next = 1 << 20

    def allocate(self, nbytes: int, index: int) -> int:
        self.next += (nbytes + 63) // 64 * 64
        return self.next - (nbytes + 63) // 64 * 64

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


TABLE = r"""
#include "device_table.h"
static uintptr_t next = 1 << 20;
static int allocate(void* context, int unit, size_t nbytes, void** address) {
  *address = (void*)next;
  next += (nbytes + 63) / 64 * 64;
  return 0;
}
static int release(void* context, int unit, void* address, size_t nbytes) { return 0; }
static int copy(void* context, int unit, void* stream, int way, void* to, const void* from, size_t nbytes) { return 0; }
static int launch(void* context, int unit, void* stream, const RushlightLaunch* launch) { return 0; }
RushlightDevice table = {RUSHLIGHT_DEVICE_VERSION, 1, 0, allocate, release, copy, launch};
"""


class NothingInC(Nothing):
    """The same by a table of C functions."""

    name = "nothing_c"

    def __init__(self, compiler: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            source, library = pathlib.Path(folder, "table.c"), pathlib.Path(folder, "table.so")
            source.write_text(TABLE)
            include = f"-I{next(iter(devices.__path__))}"
            subprocess.run([compiler, "-O2", "-shared", "-fPIC", include, str(source), "-o", str(library)], check=True)
            self.table = ctypes.CDLL(str(library))

    def native(self) -> int:
        return ctypes.addressof(ctypes.c_char.in_dll(self.table, "table"))

    def load(self, nest: Any) -> int:
        return 1


def calls(names: Sequence[str]) -> dict[str, Callable[[], Any]]:
    """The measured calls on devices, by name."""
    result: dict[str, Callable[[], Any]] = {}
    for name in names:
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
    compiler = shutil.which("cc")
    chips = [Nothing(), NothingAtOnce(), *([NothingInC(compiler)] if compiler else [])]
    for device in chips:
        register(device)
    measured = calls([device.name for device in chips])
    best = dict.fromkeys(measured, float("inf"))
    for call in measured.values():
        call()
    for _ in range(ROUNDS):   # in turns: what else the machine does then meets all of them
        for name, call in measured.items():
            best[name] = min(best[name], timeit.timeit(call, number=CALLS, timer=time.process_time) / CALLS)
    ours, theirs = best["cpu: x + y"], best.get("PyTorch, cpu: x + y", 0)
    for name, seconds in best.items():
        ratio = seconds / theirs if theirs else 0
        print(f"{name:36} {seconds * 1e6:7.2f} us  {seconds / ours:6.2f} of our CPU's add  {ratio:6.2f} of PyTorch's")


if __name__ == "__main__":
    main()
