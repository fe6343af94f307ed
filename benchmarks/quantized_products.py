"""Quantized linear layers and integer products against PyTorch's best engine, both in one process, by turns.

    python -m benchmarks.quantized_products                   one thread, processor time
    python -m benchmarks.quantized_products --threads 2       two threads, wall time
    python -m benchmarks.quantized_products --only static     cases whose name contains this

Each line: medians of both times and PyTorch's over ours; in the end geometric means by kind, and int8 against our own
float32. PyTorch's engines are tried in turn and the fastest is kept.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

ENGINES = ("x86", "onednn")             # fbgemm is what x86 takes for linear layers
SHAPES = (
    (1, 1024, 1024), (1, 768, 3072), (1, 4096, 1024), (2, 1024, 1024), (4, 768, 768), (8, 1024, 1024), (16, 512, 512),
    (32, 768, 768), (64, 768, 3072), (64, 3072, 768), (128, 512, 1000), (512, 1024, 1024), (1, 100, 10), (7, 33, 65),
    (13, 257, 131), (64, 256, 10), (100, 300, 500),
)
PRODUCTS = ((512, 512, 512), (64, 768, 3072), (128, 1024, 1024), (17, 300, 500), (1024, 1024, 1024))
SAMPLE = 0.003                          # seconds of a sample, at least


def layer(library: Any, weight: Any, bias: Any, x: Any) -> tuple[Callable, Callable, Callable]:
    """What runs a static, a dynamic and a float layer of a library on one input."""
    n, functions = weight.shape[0], library.ops.quantized
    scales = library.full((n,), 0.011, dtype=library.float64)
    zeros = library.zeros(n, dtype=library.int64)
    quantized = library.quantize_per_channel(weight, scales, zeros, 0, library.qint8)
    # packed for each: PyTorch's onednn crashes where one object serves both
    packed, packed_too = (functions.linear_prepack(quantized, bias) for _ in range(2))
    given = library.quantize_per_tensor(x, 0.031, 117, library.quint8)
    plain = library.nn.functional.linear
    return (
        lambda: functions.linear(given, packed, 0.3, 120),
        lambda: functions.linear_dynamic(x, packed_too),
        lambda: plain(x, weight, bias),
    )


def cases(ours: Any, theirs: Any) -> Iterator[tuple[str, Callable, list[Callable]]]:
    """Names, our form, PyTorch's forms."""
    for m, k, n in SHAPES:
        tensors = [theirs.randn(n, k), theirs.randn(n), theirs.randn(m, k)]
        static, dynamic, plain = layer(ours, *(ours.from_numpy(t.numpy()) for t in tensors))
        rivals = []
        for engine in ENGINES:
            theirs.backends.quantized.engine = engine
            rivals.append((engine, layer(theirs, *tensors)))
        name = f"{m}x{k}x{n}"
        yield f"static {name}", static, [in_engine(theirs, engine, forms[0]) for engine, forms in rivals]
        yield f"dynamic {name}", dynamic, [in_engine(theirs, engine, forms[1]) for engine, forms in rivals]
        if m == 64:
            yield f"float32/int8 {name}", static, [plain]
    for m, k, n in PRODUCTS:
        a, b = (theirs.randint(-128, 128, shape, dtype=theirs.int8) for shape in ((m, k), (k, n)))
        x, y = ours.from_numpy(a.numpy()), ours.from_numpy(b.numpy())
        yield f"_int_mm {m}x{k}x{n}", lambda x=x, y=y: ours._int_mm(x, y), [lambda a=a, b=b: theirs._int_mm(a, b)]


def in_engine(theirs: Any, engine: str, form: Callable) -> Callable:
    """The form, where PyTorch's engine was made the one it was packed for."""

    def prepare() -> Callable:
        theirs.backends.quantized.engine = engine
        return form

    form.prepare = prepare      # type: ignore[attr-defined]
    return form


def timed(form: Callable, clock: Callable[[], float]) -> float:
    """Seconds of one call, from a sample of several."""
    getattr(form, "prepare", lambda: form)()
    form()
    count, start = 0, clock()
    while clock() - start < SAMPLE:
        form()
        count += 1
    return (clock() - start) / count


def compare(mine: Callable, rivals: list[Callable], rounds: int, clock: Callable[[], float]) -> tuple[float, float]:
    """Medians of our time and of the fastest rival's, taken by turns."""
    own: list[float] = []
    other: list[list[float]] = [[] for _ in rivals]
    for _ in range(rounds):
        own.append(timed(mine, clock))
        for times, form in zip(other, rivals, strict=True):
            times.append(timed(form, clock))
    return statistics.median(own), min(statistics.median(times) for times in other)


def report(
    threads: int = 1, rounds: int = 9, only: str = "", listed: Callable[[Any, Any], Iterator] = cases
) -> dict[str, tuple[float, float]]:
    """Prints a line for every case that is listed, then means; leaves both times by name, in seconds."""
    import torch  # noqa: PLC0415 - the rival

    import rushlight  # noqa: PLC0415

    torch.set_num_threads(threads)
    rushlight.set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    found: dict[str, tuple[float, float]] = {}
    for name, mine, rivals in listed(rushlight, torch):
        if only not in name:
            continue
        found[name] = own, other = compare(mine, rivals, rounds, clock)
        print(f"{name:28} {own * 1e6:10.1f} us  {other * 1e6:10.1f} us  {other / own:6.2f}x", flush=True)
    kinds: dict[str, list[float]] = {}
    for name, (own, other) in found.items():
        kinds.setdefault(name.split()[0], []).append(other / own)
    for kind, ratios in kinds.items():
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        print(f"{kind:28} geometric mean {mean:.2f}x, least {min(ratios):.2f}x", flush=True)
    return found


def main(listed: Callable[[Any, Any], Iterator] = cases, about: str = __doc__ or "") -> None:
    """The command line of a section of benchmarks."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    report(given.threads, given.rounds, given.only, listed)


if __name__ == "__main__":
    main()
