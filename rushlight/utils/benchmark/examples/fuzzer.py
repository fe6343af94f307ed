"""Additions of tensors that a `Fuzzer` draws: which shapes and layouts take the least time per element, which the
most."""

from __future__ import annotations

import argparse
from typing import Any

from ..fuzzer import FuzzedParameter, FuzzedTensor, Fuzzer
from ..measurement import Measurement
from ..timing import Timer

SHOWN = 15


def make_fuzzer() -> Fuzzer:
    """Two tensors of one shape, of two or three dims."""
    return Fuzzer(
        parameters=[
            [FuzzedParameter(f"k{i}", 16, 16 * 1024, "loguniform") for i in range(3)],
            FuzzedParameter("d", distribution={2: 0.6, 3: 0.4}),
        ],
        tensors=[
            FuzzedTensor(name, ("k0", "k1", "k2"), dim_parameter="d", probability_contiguous=0.75,
                         min_elements=64 * 1024, max_elements=128 * 1024)
            for name in ("x", "y")
        ],
        seed=0,
    )


def described(tensors: dict[str, Any], facts: dict[str, Any]) -> str:
    """Elements, shape, and each tensor's order in memory."""
    orders = ("contiguous" if t.is_contiguous() else str(facts[name]["order"]) for name, t in tensors.items())
    shape = ", ".join(f"{s:>4}" for s in tensors["x"].shape)
    return f"{tensors['x'].numel():>7} | {shape:<16} | " + "".join(f"{order:<12} | " for order in orders)


def main() -> None:
    """Draw, measure, sort, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the draws, shorter measurements")
    is_quick = parser.parse_args().quick
    fuzzer, found = make_fuzzer(), []
    for tensors, facts, _ in fuzzer.take(25 if is_quick else 250):
        timer = Timer("x + y", globals=tensors, description=described(tensors, facts))
        found.append(timer.blocked_autorange(min_run_time=0.005 if is_quick else 0.1))
        found[-1].metadata = {"numel": tensors["x"].numel()}
    print(f"Average attempts per valid config: {1 / (1 - fuzzer.rejection_rate):.1f}")

    def per_element(m: Measurement) -> float:
        return m.median / m.metadata["numel"]

    found.sort(key=per_element)
    for title, rows in (("Best", found[:SHOWN]), ("Worst", found[-SHOWN:])):
        print(f"\n{title}:{' ' * 19}Size    Shape{' ' * 13}X order        Y order\n{'-' * 80}")
        for m in rows:
            print(f"{per_element(m) * 1e9:>4.1f} ns / element     {m.description}")


if __name__ == "__main__":
    main()
