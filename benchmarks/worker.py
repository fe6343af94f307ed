"""The measuring process: runs cases on one library and answers with times.

Started by harness.py as `python -m benchmarks.worker torch|rushlight THREADS [wall|cpu]`. Enters: one JSON request
per line on stdin. Leaves: one JSON answer per line on the real stdout (anything a library prints goes to stderr). A
case that raises is answered with the error; a crash ends the process, which the harness notices.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import textwrap
import time
from collections.abc import Callable
from typing import Any

LONG = 8.0  # seconds: what takes longer is not run once more just to be warm

Measure = Callable[[int], float]
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def compile_case(torch: Any, case: dict[str, Any], clock: Callable[[], float] = time.perf_counter) -> Measure:
    """A function from a number of repetitions to the seconds they took."""
    space: dict[str, Any] = {"torch": torch, "clock": clock}
    exec(compile(textwrap.dedent(case["setup"]), f"<setup of {case['name']}>", "exec"), space)
    if not case["code"]:
        sample = space["sample"]
        return lambda number: sum(sample(clock) for _ in range(number))
    # Default arguments make every name the statement uses a local, whose lookup costs next to nothing.
    names = ", ".join(f"{name}={name}" for name in space if not name.startswith("__"))
    body = textwrap.dedent(case["prologue"]) + "\n" + (textwrap.dedent(case["code"]) + "\n") * case["unroll"]
    lines = [f"def measure(number, {names}):", "    start = clock()", "    for _ in range(number):",
             textwrap.indent(body, " " * 8), "    return clock() - start"]
    exec(compile("\n".join(lines), f"<{case['name']}>", "exec"), space)
    return space["measure"]


def choose_number(measure: Measure, at_least: float) -> tuple[int, float]:
    """Repetitions that take about `at_least` seconds, and how long the first one took; also the warm-up."""
    first = measure(1)  # may include the compilation of kernels, so only a very long one is taken at its word
    if first > LONG:
        return 1, first
    measure(2)  # what only later ones meet, as sums of gradients, would be compiled while repetitions are counted
    number = 1
    while (taken := measure(number)) < at_least / 5:
        number = max(number * 2, min(number * 10, int(number * at_least / 4 / max(taken, 1e-9))))
    return max(1, round(number * at_least / taken)), first


def answer(
    torch: Any, request: dict[str, Any], ready: dict[str, tuple[Measure, int]], clock: Callable[[], float]
) -> dict[str, Any]:
    case = request["case"]
    key, taken = case["name"], None
    if key not in ready:
        ready.clear()  # only the current case keeps its tensors
        measure = compile_case(torch, case, clock)
        number, first = choose_number(measure, request["at_least"])
        ready[key] = measure, number
        taken = first if first > LONG else None
    measure, number = ready[key]
    if taken is None:
        gc.collect()
        gc.disable()
        try:
            taken = measure(number)
        finally:
            gc.enable()
    return {"seconds": taken / number / case["unroll"] / case["per"], "number": number}


def main() -> None:
    library, threads = sys.argv[1], int(sys.argv[2])
    clock = CLOCKS[sys.argv[3] if len(sys.argv) > 3 else "wall"]
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # keep the channel clean of what libraries print
    torch = importlib.import_module(library)
    torch.set_num_threads(threads)
    print(json.dumps({"version": getattr(torch, "__version__", "unknown")}), file=channel)
    ready: dict[str, tuple[Measure, int]] = {}
    for line in sys.stdin:
        try:
            reply = answer(torch, json.loads(line), ready, clock)
        except Exception as error:  # the report names it, and the run goes on
            ready.clear()
            reply = {"error": f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"}
        print(json.dumps(reply), file=channel)


if __name__ == "__main__":
    main()
