"""Rushlight against PyTorch on one CUDA device: host cost of small ops, bandwidth of kernels, matrix products, sorts
and running sums, training steps.

    python -m benchmarks.cuda [word]      those whose names hold the word

Both libraries run in this process, on the device's memory, one after the other; times are medians of events on the
device (bandwidth, products, attention) or of the host's clock (small ops, steps). Prints a table: ours, PyTorch's,
and how many times faster ours is.
"""

from __future__ import annotations

import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from .networks import decoder, gpt2, resnet50

ROWS, COLS = 16384, 4096


def device_ms(lib: Any, f: Callable, times: int = 20, each: int = 1) -> float:
    """Median milliseconds on the device; `each`: calls between two events, so that a kernel's own time is measured, not
    how soon the host starts the first."""
    for _ in range(3):
        f()
    lib.cuda.synchronize()
    found = []
    for _ in range(times):
        start, end = lib.cuda.Event(enable_timing=True), lib.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(each):
            f()
        end.record()
        end.synchronize()
        found.append(start.elapsed_time(end) / each)
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
    }


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
    }


def bandwidth(lib: Any) -> dict[str, tuple[float, str]]:
    results = {}
    for dtype, name, size in ((lib.bfloat16, "bf16", 2), (lib.float32, "f32", 4)):
        for case, (moved, f) in moving(lib, dtype, size).items():
            results[f"{name} {case}"] = (moved / device_ms(lib, f, 10, 10) / 1e9, "TB/s")
    return results


def products(lib: Any) -> dict[str, tuple[float, str]]:
    results = {}
    for dtype, name in ((lib.bfloat16, "bf16"), (lib.float32, "f32")):
        for n in (4096, 8192) if dtype is lib.bfloat16 else (4096,):
            x = lib.randn(n, n).to(dtype).cuda()
            results[f"matmul {name} {n}"] = (2 * n**3 / device_ms(lib, lambda x=x: x @ x, 10) / 1e9, "TFLOP/s")
    return results


def orders(lib: Any) -> dict[str, tuple[float, str]]:
    """Sorts, selections and running sums of long rows, and of many."""
    results = {}
    for name, shape in (("2^20", (1 << 20,)), ("2^24", (1 << 24,)), ("[4096, 1000]", (4096, 1000)),
                        ("[256, 50257]", (256, 50257)), ("[65536, 128]", (65536, 128))):
        x = lib.randn(shape, device="cuda")
        cases = {"sort": lambda x=x: x.sort(), "topk 50": lambda x=x: x.topk(50), "cumsum": lambda x=x: x.cumsum(-1)}
        for case, f in cases.items():
            results[f"{case} {name}"] = (device_ms(lib, f, 10), "ms")
        y = (x * 1e6).long()
        results[f"sort int64 {name}"] = (device_ms(lib, lambda y=y: y.sort(), 10), "ms")
    return results


def train(lib: Any, change: Callable = lambda net: net) -> dict[str, tuple[float, str]]:
    F = lib.nn.functional
    net = lib.nn.Sequential(lib.nn.Linear(64, 128), lib.nn.GELU(), lib.nn.LayerNorm(128), lib.nn.Linear(128, 10)).cuda()
    optimizer = lib.optim.AdamW(net.parameters())
    label = "tiny MLP train step" if change(net) is net else "tiny MLP compiled"
    net = change(net)
    x, y = lib.randn(32, 64).cuda(), (lib.arange(32) % 10).cuda()

    def step() -> None:
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return {label: (host_us(lib, step, 50, 5), "us")}


def attention(lib: Any) -> dict[str, tuple[float, str]]:
    """Causal attention, forward and backward."""
    results = {}
    for batch, heads, length, width in ((8, 16, 4096, 128), (16, 12, 1024, 64)):
        given = [lib.randn(batch, heads, length, width, device="cuda", dtype=lib.bfloat16) for _ in range(4)]
        tensors, g = [t.requires_grad_() for t in given[:3]], given[3]

        def forward(tensors: list = tensors) -> Any:
            return lib.nn.functional.scaled_dot_product_attention(*tensors, is_causal=True)

        def both(g: Any = g, forward: Callable = forward) -> None:
            forward().backward(g)

        once = device_ms(lib, forward, 10, 5)
        work, name = 2 * batch * heads * length**2 * width, f"attention s{length} d{width}"
        results[f"{name} forward"] = (work / once / 1e9, "TFLOP/s")
        results[f"{name} backward"] = (2.5 * work / (device_ms(lib, both, 10, 5) - once) / 1e9, "TFLOP/s")
    return results


def gpt2_step(
    lib: Any, compiled: bool, turned: bool = False, mixed: bool = False, chunk: int = 0
) -> dict[str, tuple[float, str]]:
    """GPT-2 124M in bfloat16, batch 16 of 1024 tokens, AdamW; `mixed`: its parameters are float32, under autocast;
    `chunk`: its scores are held of so many words at a time."""
    batch, label = 16, "compiled" if compiled else "eager"
    lib.manual_seed(0)
    model = gpt2(lib, turned=turned, chunk=chunk).cuda()
    if not mixed:
        model = model.to(lib.bfloat16)
    optimizer = lib.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = [(lib.arange(batch * 1024) * step % 50257).reshape(batch, 1024).cuda() for step in (7919, 104729)]
    called = lib.compile(model) if compiled else model

    def loss() -> Any:
        with lib.autocast("cuda", dtype=lib.bfloat16, enabled=mixed):
            return called(*tokens)

    return steps(lib, f"GPT-2 {label}{' permute' * turned}{' autocast' * mixed}{' chunks' * bool(chunk)}", loss,
                 optimizer)


def decode(lib: Any) -> dict[str, tuple[float, str]]:
    """Words a second of a model of 0.88 billion parameters, one after the other."""
    lib.manual_seed(0)
    model = decoder(lib).to(lib.bfloat16).cuda().eval()
    called = lib.compile(model, mode="reduce-overhead")
    word, places = lib.ones(1, 1, dtype=lib.int64, device="cuda"), lib.arange(1024, device="cuda").split(1)
    found = []
    with lib.no_grad():
        for start in (0, 256, 512, 768):
            lib.cuda.synchronize()
            begin = time.perf_counter()
            for place in places[start : start + 256]:
                word = called(word, place).clone()
            lib.cuda.synchronize()
            found.append(256 / (time.perf_counter() - begin))
    return {"decode 0.88B": (max(found[1:]), "words/s")}


def resnet_step(lib: Any, compiled: bool) -> dict[str, tuple[float, str]]:
    """ResNet-50 in bfloat16, channels last, batch 128, SGD."""
    batch, label = 128, "compiled" if compiled else "eager"
    lib.manual_seed(0)
    model = resnet50(lib).to(lib.bfloat16).cuda().to(memory_format=lib.channels_last)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = lib.randn(batch, 3, 224, 224).to(lib.bfloat16).cuda().to(memory_format=lib.channels_last)
    y = (lib.arange(batch) % 1000).cuda()
    called = lib.compile(model) if compiled else model
    result = steps(lib, f"ResNet-50 {label}", lambda: lib.nn.functional.cross_entropy(called(x), y), optimizer)
    result[f"ResNet-50 {label}"] = (batch / result[f"ResNet-50 {label}"][0] * 1e3, "images/s")
    return result


def steps(lib: Any, name: str, loss: Callable, optimizer: Any) -> dict[str, tuple[float, str]]:
    """Milliseconds of a training step, seconds of the first, and GiB."""

    def step() -> None:
        loss().backward()
        optimizer.step()
        optimizer.zero_grad()

    found = []
    lib.cuda.synchronize()
    lib.cuda.reset_peak_memory_stats()
    for _ in range(12):
        start = time.perf_counter()
        step()
        lib.cuda.synchronize()
        found.append(time.perf_counter() - start)
    memory = lib.cuda.max_memory_allocated() / 2**30
    return {
        name: (statistics.median(found[3:]) * 1e3, "ms"), f"{name} first": (found[0], "s"),
        f"{name} memory": (memory, "GiB"),
    }


def gpt2_eager(lib: Any) -> dict[str, tuple[float, str]]:
    return gpt2_step(lib, False)


def gpt2_compiled(lib: Any) -> dict[str, tuple[float, str]]:
    return gpt2_step(lib, True)


def gpt2_permuted(lib: Any) -> dict[str, tuple[float, str]]:
    return gpt2_step(lib, True, turned=True)


def gpt2_mixed(lib: Any) -> dict[str, tuple[float, str]]:
    return gpt2_step(lib, True, turned=True, mixed=True)


def gpt2_chunks(lib: Any) -> dict[str, tuple[float, str]]:
    return gpt2_step(lib, True, chunk=2048)


def resnet_eager(lib: Any) -> dict[str, tuple[float, str]]:
    return resnet_step(lib, False)


def resnet_compiled(lib: Any) -> dict[str, tuple[float, str]]:
    return resnet_step(lib, True)


def train_compiled(lib: Any) -> dict[str, tuple[float, str]]:
    return train(lib, lib.compile)


PARTS = (small, bandwidth, products, orders, attention, train, train_compiled, gpt2_eager, resnet_eager, gpt2_compiled,
         resnet_compiled, gpt2_permuted, gpt2_mixed, gpt2_chunks, decode)


def first_result(name: str) -> float:
    """Seconds from a new process to the first number from the device."""
    program = f"import {name} as lib; (lib.ones(4, 4, device='cuda') + 1).sum().item()"
    found = []
    for _ in range(2):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", program], check=True)
        found.append(time.perf_counter() - start)
    return min(found)


def first_kernels(name: str) -> dict[str, float]:
    """Milliseconds of the first kernels of a process, nothing in our caches."""
    program = (
        f"import time, {name} as lib; x = lib.empty(64, 128, device='cuda'); lib.cuda.synchronize()\n"
        "for f in (lambda: x + x, lambda: x.sum(), lambda: lib.softmax(x, -1)):\n"
        "    start = time.perf_counter(); f(); lib.cuda.synchronize(); print((time.perf_counter() - start) * 1e3)"
    )
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "RUSHLIGHT_CACHE": cache, "CUDA_CACHE_PATH": cache}
        said = subprocess.run([sys.executable, "-c", program], check=True, env=environment, stdout=subprocess.PIPE)
    cases = ("first kernel: a + b", "then: sum", "then: softmax")
    return dict(zip(cases, map(float, said.stdout.split()), strict=True))


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
    for part in PARTS:
        if word and word not in part.__name__:
            continue
        rows = {}
        for name, lib in libraries.items():
            try:
                rows[name] = part(lib)
            except Exception as error:      # the others are worth having
                print(f"{part.__name__}: {name} fails: {type(error).__name__}: {str(error)[:200]}")
            gc.collect()
            lib.cuda.empty_cache()
        if "rushlight" not in rows:
            continue
        for case, (ours, unit) in rows["rushlight"].items():
            theirs = rows.get("torch", {}).get(case, (float("nan"), unit))[0]
            ratio = theirs / ours if unit in ("us", "ms", "s", "GiB") else ours / theirs
            print(f"{case:<32} {ours:12.3f} {theirs:12.3f}  {unit:<8} {ratio:7.2f}", flush=True)
    if not word or word in "first":
        ours, theirs = first_result("rushlight"), first_result("torch") if "torch" in libraries else float("nan")
        print(f"{'first result':<24} {ours:12.3f} {theirs:12.3f}  {'s':<8} {theirs / ours:7.2f}")
        torch_kernels = first_kernels("torch") if "torch" in libraries else {}
        for case, ours in first_kernels("rushlight").items():
            theirs = torch_kernels.get(case, float("nan"))
            print(f"{case:<32} {ours:12.3f} {theirs:12.3f}  {'ms':<8} {theirs / ours:7.2f}")


if __name__ == "__main__":
    main()
