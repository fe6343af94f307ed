"""Ops on floats and on integers of the same sizes and layouts: where do their times differ?"""

from __future__ import annotations

import argparse
from typing import Any

from ....base import late
from ..fuzzer import Fuzzer
from ..op_fuzzers.binary import BinaryOpFuzzer
from ..op_fuzzers.unary import UnaryOpFuzzer
from ..timing import Timer

TASKS = (("torch.median(x, dim=0)", UnaryOpFuzzer), ("torch.square(x)", UnaryOpFuzzer), ("x + y", BinaryOpFuzzer))
SHOWN = 10


def described(name: str, tensor: Any, facts: dict[str, Any]) -> str:
    """A tensor's name, shape, order in memory and steps, the last two where they are not plain."""
    shape = ", ".join(f"2 ** {s.bit_length() - 1}" if s > 1 and not s & (s - 1) else str(s) for s in tensor.shape)
    order = tuple(int(i) for i in facts["order"])
    shown = [f"order {order}" if order != tuple(range(len(order))) else "",
             f"steps {facts['steps']}" if any(s > 1 for s in facts["steps"]) else ""]
    return f"{name}: ({shape})" + "".join(f", {part}" for part in shown if part)


def run(n: int, stmt: str, fuzzer_cls: type[Fuzzer], min_run_time: float) -> None:
    """Measure `n` draws as floats and as integers; print those whose times differ least and most."""
    package, found = late.provided("package"), []
    draws = [fuzzer_cls(seed=0, dtype=dtype).take(n) for dtype in (package.float32, package.int32)]
    for (floats, facts, _), (integers, _, _) in zip(*draws, strict=True):
        times = [Timer(stmt, globals=given).blocked_autorange(min_run_time=min_run_time).median
                 for given in (floats, integers)]
        texts = [described(name, t, facts[name]) for name, t in floats.items()]
        found.append((abs(times[0] - times[1]) / sum(times) * 2, "int" if times[1] < times[0] else "float", texts))
    found.sort(key=lambda row: row[0])
    print(f"stmt: {stmt}\n diff    faster    tensors\n{'-' * 100}")
    for difference, faster, texts in found[:SHOWN] + found[SHOWN:][-SHOWN:]:
        print(f"{difference * 100:>4.1f}%    {faster:<6}    {'; '.join(texts)}")
    print()


def main() -> None:
    """All tasks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three draws a task, shorter measurements")
    is_quick = parser.parse_args().quick
    for stmt, fuzzer_cls in TASKS:
        run(3 if is_quick else 100, stmt, fuzzer_cls, 0.001 if is_quick else 1.0)


if __name__ == "__main__":
    main()
