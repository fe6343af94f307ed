"""Measurements that were kept as bytes, laid out as tables by `Compare`: an addition as it is, and two slower ones."""

from __future__ import annotations

import argparse
import pickle
import time
from collections.abc import Callable
from typing import Any

from ....base import late
from ..compare import Compare
from ..timing import Timer

TASKS = (("add", "torch.add(x, y)"), ("add (extra +0)", "torch.add(x, y + zero)"))
BRANCHES = (("master", 0.0), ("my_branch", 1.0), ("severe_regression", 5.0))     # nanoseconds more per element
LEAST = 5000      # elements, below which sleeping would take longer than what it stands for


class Slower:
    """The package, with an `add` that takes longer: what another version of it might be."""

    def __init__(self, package: Any, extra: float) -> None:
        self._add: Callable = package.add
        self._extra = extra

    def add(self, x: Any, y: Any) -> Any:
        """The sum, later."""
        found = self._add(x, y)
        if self._extra and found.numel() > LEAST:
            time.sleep(found.numel() * self._extra * 1e-9)
        return found


def main() -> None:
    """Measure, keep, read back, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer sizes and shorter measurements")
    is_quick = parser.parse_args().quick
    package = late.provided("package")
    kept = [
        pickle.dumps(
            Timer(
                stmt, label="add", sub_label=name, description=f"size: {size}", env=branch, num_threads=threads,
                globals={"torch": Slower(package, extra), "x": package.ones((size, 4)), "y": package.ones((1, 4)),
                         "zero": package.zeros(())},
            ).blocked_autorange(min_run_time=0.001 if is_quick else 0.05)
        )
        for _ in range(2)
        for branch, extra in BRANCHES
        for name, stmt in TASKS
        for size in ((1, 10000) if is_quick else (1, 10, 100, 1000, 10000, 50000))
        for threads in (1, 4)
    ]
    comparison = Compare([pickle.loads(each) for each in kept])
    comparison.print()
    comparison.trim_significant_figures()
    comparison.colorize()
    comparison.print()


if __name__ == "__main__":
    main()
