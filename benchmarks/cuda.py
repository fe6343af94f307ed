"""Rushlight against PyTorch on one CUDA device: host cost of small ops, bandwidth of kernels, matrix products,
a training step.

    python -m benchmarks.cuda [word]      those whose names hold the word

Both libraries run in this process, on the device's memory, one after the other; times are medians of events on the
device (bandwidth, products) or of the host's clock (small ops, steps). Prints a table: ours, PyTorch's,
and how many times faster ours is.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

ROWS, COLS = 16384, 4096


def device_ms(lib: Any, f: Callable, times: int = 20) -> float:
    """Median milliseconds on the device."""
    for _ in range(3):
        f()
    lib.cuda.synchronize()
    found = []
    for _ in range(times):
        start, end = lib.cuda.Event(enable_timing=True), lib.cuda.Event(enable_timing=True)
        start.record()
        f()
        end.record()
        end.synchronize()
        found.append(start.elapsed_time(end))
    return statistics.median(found)


def host_us(lib: Any, f: Callable, times: int = 1000, rounds: int = 5) -> float:
    """Microseconds of the host per call, its work queued."""
    for _ in range(20):
        f()
    found = []
    for _ in range(rounds):
        lib.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(times):
            f()
        found.append((time.perf_counter() - start) / times * 1e6)
    lib.cuda.synchronize()
    return min(found)


def small(lib: Any) -> dict[str, tuple[float, str]]:
    a, b = lib.ones(4, 4, device="cuda"), lib.ones(4, 4, device="cuda")
    g = lib.ones(4, 4, device="cuda", requires_grad=True)
    square = lib.ones(64, 64, device="cuda")
    row = lib.ones(64, 64, device="cuda")
    return {
        "host: a + b": (host_us(lib, lambda: a + b), "us"), "host: a * 2": (host_us(lib, lambda: a * 2), "us"),
        "host: a + b with grad": (host_us(lib, lambda: g + b), "us"),
        "host: sum": (host_us(lib, lambda: a.sum()), "us"),
        "host: softmax": (host_us(lib, lambda: lib.softmax(row, -1)), "us"),
        "host: matmul 64": (host_us(lib, lambda: square @ square), "us"),
        "host: empty": (host_us(lib, lambda: lib.empty(4, 4, device="cuda")), "us"),
    }  # fmt: skip


def moving(lib: Any, dtype: Any, size: int) -> dict[str, tuple[int, Callable]]:
    """Cases that move memory: bytes, and what moves them."""
    F = lib.nn.functional
    x = lib.randn(ROWS // 16, COLS).to(dtype).cuda().repeat(16, 1)
    y, w, n = x.clone(), lib.ones(COLS, dtype=dtype, device="cuda"), ROWS * COLS * size
    return {
        "copy": (2 * n, lambda: x.clone()), "add": (3 * n, lambda: x + y), "add bias": (2 * n, lambda: x + w),
        "gelu": (2 * n, lambda: F.gelu(x)), "sum all": (n, lambda: x.sum()), "sum rows": (n, lambda: x.sum(1)),
        "sum columns": (n, lambda: x.sum(0)), "softmax": (2 * n, lambda: F.softmax(x, -1)),
        "layer_norm": (2 * n, lambda: F.layer_norm(x, (COLS,), w, w)),
        "transposed copy": (2 * n, lambda: x.t().contiguous()),
    }  # fmt: skip


def bandwidth(lib: Any) -> dict[str, tuple[float, str]]:
    made = {}
    for dtype, name, size in ((lib.bfloat16, "bf16", 2), (lib.float32, "f32", 4)):
        for case, (moved, f) in moving(lib, dtype, size).items():
            made[f"{name} {case}"] = (moved / device_ms(lib, f) / 1e9, "TB/s")
    return made


def products(lib: Any) -> dict[str, tuple[float, str]]:
    made = {}
    for dtype, name in ((lib.bfloat16, "bf16"), (lib.float32, "f32")):
        for n in (4096, 8192) if dtype is lib.bfloat16 else (4096,):
            x = lib.randn(n, n).to(dtype).cuda()
            made[f"matmul {name} {n}"] = (2 * n**3 / device_ms(lib, lambda x=x: x @ x, 10) / 1e9, "TFLOP/s")
    return made


def train(lib: Any) -> dict[str, tuple[float, str]]:
    F = lib.nn.functional
    net = lib.nn.Sequential(lib.nn.Linear(64, 128), lib.nn.GELU(), lib.nn.LayerNorm(128), lib.nn.Linear(128, 10)).cuda()
    optimizer = lib.optim.AdamW(net.parameters())
    x, y = lib.randn(32, 64).cuda(), (lib.arange(32) % 10).cuda()

    def step() -> None:
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return {"tiny MLP train step": (host_us(lib, step, 50, 5), "us")}


def first_result(name: str) -> float:
    """Seconds from a new process to the first number from the device."""
    program = f"import {name} as lib; (lib.ones(4, 4, device='cuda') + 1).sum().item()"
    found = []
    for _ in range(2):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", program], check=True)
        found.append(time.perf_counter() - start)
    return min(found)


def main() -> None:
    import rushlight

    word = sys.argv[1] if len(sys.argv) > 1 else ""
    libraries = {"rushlight": rushlight}
    try:
        import torch

        libraries["torch"] = torch
    except ImportError:
        print("PyTorch is not installed: only our own figures follow")
    print(
        f"{rushlight.cuda.get_device_name()}; rushlight {rushlight.__version__}; torch"
        f" {getattr(libraries.get('torch'), '__version__', '-')}"
    )
    print(f"{'':<24} {'rushlight':>12} {'torch':>12}  {'':<8} {'faster':>7}")
    for part in (small, bandwidth, products, train):
        if word and word not in part.__name__:
            continue
        rows = {name: part(lib) for name, lib in libraries.items()}
        for case, (ours, unit) in rows["rushlight"].items():
            theirs = rows["torch"][case][0] if "torch" in rows else float("nan")
            ratio = theirs / ours if unit in ("us", "s") else ours / theirs
            print(f"{case:<24} {ours:12.3f} {theirs:12.3f}  {unit:<8} {ratio:7.2f}", flush=True)
    if not word or word in "first":
        ours, theirs = first_result("rushlight"), first_result("torch") if "torch" in libraries else float("nan")
        print(f"{'first result':<24} {ours:12.3f} {theirs:12.3f}  {'s':<8} {theirs / ours:7.2f}")


if __name__ == "__main__":
    main()
