"""Peak memory of ops and graphs with temporaries: only those that live at one time should count.

    python -m benchmarks.memory

Prints, for each case, what a call allocates at its peak beyond what was there, the size of its result, and what all
temporaries and results together would take if none gave its memory back. Needs no torch: the bounds are exact.
"""

from __future__ import annotations

from collections.abc import Callable

import rushlight as rl
from rushlight import _C
from rushlight.nn import functional as F  # noqa: N812 - PyTorch's own name for it

MIB = 1 << 20
SIDE, PRODUCTS = 512, 9


def peak(call: Callable[[], object]) -> float:
    """MiB above what was allocated before the call, at the worst moment; kernels are compiled before."""
    call()
    call()
    before = _C.memory_stats()["allocated"]
    _C.reset_peak_memory()
    kept = call()
    found = (_C.memory_stats()["peak"] - before) / MIB
    del kept
    return found


def cases() -> list[tuple[str, Callable[[], object], float, float]]:
    """(name, call, MiB of the result, MiB of all temporaries and results)."""
    weights = [rl.randn(SIDE, SIDE) * 0.05 for _ in range(PRODUCTS)]
    x, rows = rl.randn(SIDE, SIDE), rl.randn(64, 256, 256)
    matrix, whole = SIDE * SIDE * 4 / MIB, rows.numel() * 4 / MIB

    def chain(t: rl.Tensor) -> rl.Tensor:
        for w in weights:
            t = t @ w
        return t

    def layer(t: rl.Tensor) -> rl.Tensor:
        return F.gelu(F.layer_norm(t, (256,))) * 2 + t

    compiled_chain, compiled_layer = rl.compile(chain), rl.compile(layer)
    packed = 2 * PRODUCTS * matrix      # the right operand of every product is laid out for all threads
    return [
        (f"chain of {PRODUCTS} products", lambda: chain(x), matrix, packed),
        (f"chain of {PRODUCTS} products, compiled", lambda: compiled_chain(x), matrix, packed),
        ("gelu(layer_norm(x)) * 2 + x", lambda: layer(rows), whole, 4 * whole),
        ("gelu(layer_norm(x)) * 2 + x, compiled", lambda: compiled_layer(rows), whole, 4 * whole),
        ("softmax of the middle dim", lambda: rows.softmax(1), whole, 4 * whole),
        ("std_mean", lambda: rl.std_mean(rows, 1), whole / 128, 3 * whole),
    ]


def main() -> None:
    print(f"{'case':40} {'peak':>8} {'result':>8} {'sum of all':>11}   MiB")
    with rl.no_grad():
        for name, call, result, total in cases():
            print(f"{name:40} {peak(call):8.1f} {result:8.1f} {total:11.1f}")


if __name__ == "__main__":
    main()
