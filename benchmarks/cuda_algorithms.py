"""What choosing among cuBLASLt's algorithms by measuring would gain: products of models on one CUDA device.

    python -m benchmarks.cuda_algorithms

For each product of a GPT-2 step (16 times 1024 words) and of small batches: microseconds as ops compute it (cuBLAS),
by the algorithm that cuBLASLt names first, and by the fastest of those it names; medians of rounds in turns.
"""

from __future__ import annotations

import ctypes
import statistics
from typing import Any

import rushlight as rl
from rushlight.devices.cuda import light

MOST = 16             # algorithms the library is asked for
ROUNDS, CALLS = 7, 10
SHAPES = [            # rows, columns, inner size
    (16384, 2304, 768), (16384, 768, 768), (16384, 3072, 768), (16384, 768, 3072), (16384, 50304, 768),
    (2048, 2304, 768), (2048, 3072, 768), (256, 4096, 4096), (64, 14336, 4096), (16, 4096, 14336),
]


def algorithms(product: light.Product) -> list[light.Found]:
    """What the library has for a product, the most promising first."""
    library = product.library
    preference, count, space = product.create("MatmulPreference"), ctypes.c_int(), ctypes.c_size_t(light.SPACE)
    library.call("MatmulPreferenceSetAttribute", preference, light.MOST_SPACE, ctypes.byref(space), ctypes.c_size_t(8))
    found = (light.Found * MOST)()
    library.call("MatmulAlgoGetHeuristic", library.handle(product.unit), product.what, *product.matrices, preference,
                 MOST, found, ctypes.byref(count))
    return [one for one in found[: count.value] if not one.status]


def chosen(product: light.Product, found: light.Found, *tensors: Any) -> Any:
    """A call of the product by one algorithm."""
    numbers = list(product.numbers)
    numbers[6], numbers[8] = ctypes.addressof(found), found.space

    def run() -> None:
        rl._C.cuda_light_run(tuple(numbers), rl._C.stream_handle(tensors[0].device), *tensors)

    return run


def microseconds(f: Any) -> float:
    start, end = rl.cuda.Event(enable_timing=True), rl.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(CALLS):
        f()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / CALLS * 1e3


def main() -> None:
    library = light.find()
    if library is None:
        raise SystemExit("cuBLASLt is not installed")
    print(f"{'rows, columns, inner':<24} {'cuBLAS':>9} {'first':>9} {'best':>9}  which of how many")
    for m, n, k in SHAPES:
        left, right = (rl.randn(rows, k, device="cuda").to(rl.bfloat16) for rows in (m, n))
        out = rl.empty(m, n, dtype=rl.bfloat16, device="cuda")
        product = light.Product(library, 0, ("bf16",) * 4, (m, n, k), (k, k), light.SINGLE, ())
        found = algorithms(product)
        ways = [lambda: rl.mm(left, right.t(), out=out),      # noqa: B023 - called within this turn
                *[chosen(product, one, left, right, out) for one in found]]
        for way in ways:
            way()
        times = [statistics.median(one) for one in zip(*[[microseconds(f) for f in ways] for _ in range(ROUNDS)],
                                                       strict=True)]
        best = min(range(1, len(times)), key=times.__getitem__)
        print(f"{f'{m}, {n}, {k}':<24} {times[0]:9.1f} {times[1]:9.1f} {times[best]:9.1f}  {best} of {len(found)}",
              flush=True)


if __name__ == "__main__":
    main()
