"""Matrix products of many shapes and types against PyTorch, both in one process, by turns.

    python -m benchmarks.products                     one thread, processor time
    python -m benchmarks.products --threads 2         two threads, wall time
    python -m benchmarks.products --only "f32 t"      cases whose name contains one of these (several may be given)
    python -m benchmarks.products --rounds 9          fewer turns

Each line: the better half's median of both times, PyTorch's over ours, our rate, and its share of the rate of a loop of
multiply-adds in registers that was measured in between. To add a case, add a line to CASES: a name, its multiply-adds,
what makes the operands and what is timed, in terms of `torch`.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import statistics
import time
from collections.abc import Callable, Iterator

Case = tuple[str, float, str, str]          # name, multiply-adds, setup, statement
TYPES = {"f32": "float32", "f64": "float64", "c64": "complex64", "c128": "complex128"}
SAMPLE = 0.003                              # seconds of a sample, at least


def operand(rows: int, columns: int, code: str, turned: bool = False, batch: tuple[int, ...] = ()) -> str:
    shape = (*batch, columns, rows) if turned else (*batch, rows, columns)
    return f"torch.randn({shape}, dtype=torch.{TYPES[code]}){'.transpose(-1, -2)' if turned else ''}"


def product(
    m: int, n: int, k: int, code: str = "f32", turned: str = "nn", batch: tuple[int, ...] = (), note: str = ""
) -> Case:
    """a @ b, of which `turned` ones ("t") are transposed in memory."""
    name = f"{code} {turned} {'x'.join(map(str, batch))}{' of ' if batch else ''}{m}x{k} @ {k}x{n}{note}"
    made = [operand(m, k, code, turned[0] == "t", batch), operand(k, n, code, turned[1] == "t", batch)]
    count = 1.0
    for size in batch:
        count *= size
    return name, count * m * n * k * (4 if code[0] == "c" else 1), f"a, b = {made[0]}, {made[1]}", "a @ b"


def vector(m: int, k: int, code: str = "f32", turned: bool = False) -> Case:
    name, setup = f"{code} matvec {m}x{k}{' t' if turned else ''}", f"a = {operand(m, k, code, turned)}"
    return name, float(m * k), f"{setup}; v = {operand(1, k, code)}[0]", "a @ v"


def linear(rows: int, ins: int, outs: int, note: str = "") -> Iterator[Case]:
    """Forward with a bias, the gradient of the input, that of weight and bias."""
    setup = f"l = torch.nn.Linear({ins}, {outs}); x = torch.randn({rows}, {ins}); g = torch.randn({rows}, {outs})"
    name, work = f"linear {rows}x{ins}->{outs}{note}", float(rows * ins * outs)
    yield f"{name} forward", work, f"{setup}; l.requires_grad_(False)", "l(x)"
    yield f"{name} input gradient", work, f"{setup}; w = l.weight.detach()", "g @ w"
    yield f"{name} weight gradient", work, setup, "g.t() @ x"
    both = f"{setup}; x.requires_grad_()"
    yield f"{name} forward+backward", 3 * work, both, "l(x).backward(g)"


def cases() -> list[Case]:
    found = [product(n, n, n) for n in (128, 256, 384, 512, 511, 513, 768, 1023, 1024, 2048, 4096)]
    found += [product(n, n, n, "f64") for n in (256, 512, 513, 1024, 2048)]
    found += [product(n, n, n, code) for code in ("c64", "c128") for n in (64, 256, 512)]
    found += [product(n, n, n, code, turned) for turned in ("tn", "nt", "tt") for n, code in (
        (256, "f32"), (512, "f32"), (1024, "f32"), (513, "f32"), (512, "f64"))]
    found += [vector(*sizes) for sizes in (
        (4096, 4096), (4096, 4096, "f32", True), (4096, 4096, "f64"), (4096, 4096, "f64", True), (1024, 1024),
        (1024, 1024, "f32", True), (512, 512, "f32", True), (512, 2048, "f32", True), (50257, 768),
        (768, 50257, "f32", True))]
    for batch, m, n, k in (
        ((16,), 256, 256, 256), ((512,), 64, 64, 64), ((64,), 64, 64, 64), ((2, 12), 512, 512, 64),
        ((2, 12), 512, 64, 512), ((8, 12), 128, 128, 64), ((1000,), 32, 32, 32), ((64,), 128, 128, 128),
        ((100,), 100, 100, 100), ((8,), 17, 512, 256)):
        found.append(product(m, n, k, "f32", "nn", batch))
        if k == 64:
            found.append(product(m, n, k, "f32", "nt", batch))
    found += [product(*sizes, note=" deep") for sizes in (
        (16, 16, 1 << 16), (32, 32, 1 << 16), (64, 64, 1 << 15), (128, 128, 8192), (256, 256, 4096))]
    found += [product(*sizes, "f32", "tn", note=" deep") for sizes in ((32, 32, 1 << 15), (64, 128, 1 << 14))]
    found += [product(*sizes) for sizes in ((20000, 32, 32), (20000, 64, 64), (32, 20000, 64), (4096, 16, 1024))]
    found += [product(32, 2048, 512, note=" lstm"), product(32, 2048, 512, "f32", "nt", note=" lstm")]
    found += [product(rows, 50257, 768, "f32", "nt", note=" vocabulary") for rows in (512, 1, 16)]
    for sizes in ((1, 768, 3072), (2, 768, 3072), (4, 768, 3072), (8, 768, 3072), (16, 768, 3072), (16, 1024, 1024),
                  (32, 1024, 1024), (64, 1024, 1024), (128, 768, 3072), (128, 3072, 768), (197, 192, 768),
                  (394, 192, 576), (512, 768, 768), (512, 768, 2304)):
        found += linear(*sizes)
    return found


def spinner() -> Callable[[], float]:
    """Measures the rate of multiply-adds in registers, one thread, in flops a second: float32."""
    from rushlight.codegen.llvm.cpu import compile_ir, host_target
    from rushlight.codegen.stored.cache import load_code
    from rushlight.codegen.text.writer import Writer, declarations

    target = host_target()
    lanes, sums, turns = max(128, target.vector_bits) // 32, 24 if target.registers >= 32 else 12, 200_000
    w = Writer("peak", [("i64", "turns"), ("ptr", "out")])
    factor = w.load(f"<{lanes} x float>", w["out"], 4)
    with w.loop(0, w["turns"], carry=[factor] * sums) as k:
        k.next = [w.fma(factor, factor, s) for s in k.carry]
    for value in k.carry:
        w.store(value, w["out"], 4)
    text = f'target triple = "{target.triple}"\n{w.text()}\n{declarations(lanes, "float")}'
    code = load_code(compile_ir(text, target, "object"))["peak"]
    spin = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(code)
    place = ctypes.create_string_buffer(4 * lanes)

    def rate() -> float:
        start = time.process_time()
        spin(turns, ctypes.addressof(place))
        return turns * sums * lanes * 2 / (time.process_time() - start)

    return rate


def timed(statement: str, names: dict, clock: Callable[[], float]) -> Callable[[], float]:
    """Seconds of a call, measured over as many as a sample takes."""
    code = compile(f"for _ in range(count): {statement}", "<case>", "exec")
    names["count"] = 1
    exec(code, names)
    start = clock()
    exec(code, names)
    names["count"] = count = max(1, round(SAMPLE / max(clock() - start, 1e-7)))

    def sample() -> float:
        start = clock()
        exec(code, names)
        return (clock() - start) / count

    return sample


def better_half(times: list[float]) -> float:
    return statistics.median(sorted(times)[: (len(times) + 1) // 2])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.products", description="Products of many shapes.")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[""])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=2.0, help="after which a case has no more turns than three")
    parser.add_argument("--list", action="store_true", help="print the cases' names")
    options = parser.parse_args(arguments)
    chosen = [case for case in cases() if any(part in case[0] for part in options.only)]
    if options.list:
        print("\n".join(case[0] for case in chosen))
        return
    import torch

    import rushlight

    clock = time.process_time if options.threads == 1 else time.perf_counter
    libraries = {"torch": torch, "rushlight": rushlight}
    for library in libraries.values():
        library.set_num_threads(options.threads)
    peak, ratios, below = spinner(), [], []
    print(f"{'case':44s} {'torch':>10s} {'rushlight':>10s} {'ratio':>6s} {'GFLOP/s':>8s} {'peak':>5s}")
    for name, work, setup, statement in chosen:
        samples = {}
        for label, library in libraries.items():
            names = {"torch": library}
            library.manual_seed(0)
            exec(setup, names)
            samples[label] = timed(statement, names, clock)
        times: dict[str, list[float]] = {label: [] for label in libraries}
        rates, start = [], time.perf_counter()
        for turn in range(options.rounds):
            if turn > 2 and time.perf_counter() - start > options.seconds:
                break
            for label in sorted(libraries, reverse=bool(turn % 2)):
                times[label].append(samples[label]())
            rates.append(peak())
        theirs, ours = (better_half(times[label]) for label in libraries)
        ratios.append(theirs / ours)
        below += [(theirs / ours, name)] if theirs < ours else []
        top = max(rates) * options.threads / (2 if name.startswith(("f64", "c128")) else 1)
        print(f"{name:44s} {theirs * 1e6:9.1f}u {ours * 1e6:9.1f}u {theirs / ours:6.2f} {2e-9 * work / ours:8.1f}"
              f" {2 * work / ours / top:5.0%}", flush=True)
        samples.clear()
        gc.collect()
    print(f"{len(ratios)} cases, geometric mean {statistics.geometric_mean(ratios):.3f}, {len(below)} below 1:")
    for ratio, name in sorted(below):
        print(f"  {ratio:.2f} {name}")


if __name__ == "__main__":
    main()
