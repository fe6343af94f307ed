"""The op records of `op_records` in the dialects that torch-mlir compiles: exported, lowered, run and compared.

`python -m tests.mlir.compiled_sweep linalg [names]` counts them, `torch` likewise. Every record is judged in a process
of its own, because what a judge compiles may end it.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections import Counter
from typing import Any

import rushlight as rl
from rushlight import mlir
from rushlight.utils import _pytree as pytree
from tests.mlir import compiled
from tests.mlir.compiled import compare, tensors_in
from tests.mlir.op_records import RANDOM, calls, copied, counted
from tests.parity.convert import Missing

SECONDS = 90


def judged(name: str, dialect: str) -> tuple[str, str]:
    """What becomes of a record, and what was said."""
    seen = 0
    try:
        found_calls = list(calls(name))
    except Missing:
        return "none", ""
    for function, args, kwargs in found_calls:
        try:
            expected = tensors_in(function(*pytree.tree_map(copied, args), **pytree.tree_map(copied, kwargs)))
        except Exception:  # noqa: BLE001  what eager refuses is no business of ours
            continue
        given, spec = pytree.tree_flatten((args, kwargs))
        places = [i for i, t in enumerate(given) if isinstance(t, rl.Tensor)]

        def call(*tensors: Any, given=given, spec=spec, places=places, function=function) -> Any:
            filled = list(given)
            for i, t in zip(places, tensors, strict=True):
                filled[i] = t
            own, named = pytree.tree_unflatten(filled, spec)
            return tensors_in(function(*own, **named))

        tensors = [given[i].detach() for i in places]
        try:
            with rl.no_grad():
                text = str(mlir.export(call, tuple(copied(t) for t in tensors), dialect=dialect))
        except Exception as error:  # noqa: BLE001  any failure is the finding
            return "refused", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        try:
            found = compiled.run(text, dialect, tensors)
        except compiled.Refused as error:
            return "not taken", " ".join(str(error).split())[:400]
        try:
            assert len(found) == len(expected), f"{len(found)} results for {len(expected)}"
            for a, b in zip(found, expected, strict=True):
                compare(a, b.detach().resolve_conj().resolve_neg())
        except AssertionError as error:
            return "differs", " ".join(str(error).split())[:300]
        seen += 1
    return ("equal" if seen else "none"), ""


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
            except BaseException as error:  # noqa: BLE001
                found = "failed", f"{type(error).__name__}: {error}".replace("\n", " ")[:300]
        os.write(writer, "\t".join(found).encode()[:4000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    what, _, message = said.partition("\t")
    return (what, message) if said else ("crashed", f"signal {status & 127}")


def main(dialect: str, *names: str) -> None:
    judged("add", dialect)      # what is loaded once serves all processes
    counts: Counter[str] = Counter()
    for name in names or counted():
        what, message = ("random", "") if name in RANDOM else apart(name, dialect)
        counts[what] += 1
        if what not in ("equal", "random", "none"):
            print(f"{name}\t{what}\t{message}", flush=True)
    total = sum(counts.values()) - counts["random"] - counts["none"]
    print(f"{dialect}: {counts['equal']} of {total} equal ({counts['equal'] / max(1, total):.1%})", dict(counts))


if __name__ == "__main__":
    main(*sys.argv[1:])
