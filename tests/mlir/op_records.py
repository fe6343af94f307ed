"""PyTorch's op records as modules: exported in a dialect, run by torch-mlir, and compared with eager mode.

`python -m tests.mlir.op_records linalg [names]` counts them: a record is equal if each of its sampled calls is. Every
record runs in a process of its own, because what a judge compiles may end it.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import rushlight as rl
from rushlight import mlir
from tests.export.models import Call
from tests.inductor.test_op_records import APART, RANDOM, RESHAPED, calls_of
from tests.mlir import judges
from tests.parity.records import RECORDS

# Records that say nothing about a dialect: no values are promised, or there is no module of a call.
LEFT_OUT = ("sparse.", "jiterator", "masked.", "ops.")
LIBRARIES = ("linalg.", "fft.")            # counted apart: the issue samples the others
SERVED = [name for name in RECORDS if name not in APART and not name.startswith((*RESHAPED, *LEFT_OUT[:2]))
          and not any(word in name for word in RANDOM)]
SECONDS = 60


def exported(run: Callable[..., Any], tensors: list[Any], dialect: str) -> str:
    return str(mlir.export(Call(run), tuple(tensors), dialect=dialect))


def judged(name: str, dialect: str) -> tuple[str, str]:
    """What became of a record, and what was said."""
    count = 0
    for run, tensors, expected in calls_of(name, with_gradients=False):
        try:
            text = exported(run, tensors, dialect)
        except NotImplementedError as error:
            return "refused", str(error).partition("\n")[0]
        except Exception as error:      # noqa: BLE001 - a count goes on
            return "failed", f"{type(error).__name__}: {error}".replace("\n", " ")[:300]
        try:
            found = judges.run(text, dialect, tensors, expected)
        except judges.Refused as error:
            return "not taken", str(error).replace("\n", " ")[:400]
        for a, b in zip(found, expected, strict=True):
            wide = [t.resolve_conj().resolve_neg().to(rl.complex128) for t in (a, b)]
            if a.shape != b.shape or not rl.allclose(*wide, rtol=1e-4, atol=1e-5, equal_nan=True):
                return "different", f"{list(a.shape)} {a.reshape(-1)[:4].tolist()} for {b.reshape(-1)[:4].tolist()}"
        count += 1
    return ("equal", "") if count else ("no calls", "")


def apart(name: str, dialect: str) -> tuple[str, str]:
    """The same in a process of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        os.close(reader)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = judged(name, dialect)
            except BaseException as error:      # noqa: BLE001
                found = "failed", f"{type(error).__name__}: {error}"[:300]
        os.write(writer, "\t".join(found).encode()[:4000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    what, _, message = said.partition("\t")
    return (what, message) if said else ("crashed", f"signal {status & 127}")


def main() -> None:
    dialect, *names = sys.argv[1:]
    judged("add", dialect)      # what is loaded once serves all processes
    tally: Counter[str] = Counter()
    libraries: Counter[str] = Counter()
    for name in names or SERVED:
        what, message = apart(name, dialect)
        (libraries if name.startswith(LIBRARIES) else tally)[what] += 1
        if what != "equal":
            print(f"{name}\t{what}\t{message}", flush=True)
    for title, counted in (("records", tally), ("linalg and fft", libraries)):
        total = sum(counted.values()) - counted["no calls"]
        print(f"{dialect}, {title}: {counted['equal']} of {total} equal ({counted['equal'] / max(1, total):.1%})",
              dict(counted))


if __name__ == "__main__":
    main()
