"""PyTorch's op records on a lazy device: which of them give what eager mode gives.

Enters: a record's name and a device. Leaves: "equal", or why not: "fails: ...", "differs: ...", "random", "none" where
no sample is for tensors. `python -m tests.lazy.records lazy` (or `xla`) counts them all; a further word picks names.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import rushlight as rl
from rushlight import lazy
from rushlight.utils import _pytree as pytree
from tests.mlir.op_records import RANDOM, calls, copied, counted
from tests.parity.convert import Missing


def tensors_in(made: Any) -> list[Any]:
    return [t for t in pytree.tree_leaves(made) if isinstance(t, rl.Tensor)]


def settled(t: Any) -> Any:
    """A tensor of any layout on the host, to be compared."""
    t = t.detach().cpu()
    t = t.to_dense() if t.layout is not rl.strided else t
    return t.resolve_conj().resolve_neg()


def judged(name: str, device: str) -> str:
    """What becomes of a record."""
    if name in RANDOM:
        return "random"
    try:
        found_calls = list(calls(name))
    except Missing:
        return "none"
    seen = 0
    for function, args, kwargs in found_calls:
        try:
            expected = tensors_in(function(*pytree.tree_map(copied, args), **pytree.tree_map(copied, kwargs)))
        except Exception:  # noqa: BLE001  what eager refuses is no business of ours
            continue
        if any(t.layout is not rl.strided for t in [*expected, *tensors_in((args, kwargs))]):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                given = pytree.tree_map(lambda x: moved(x, device), (args, kwargs))
                made = tensors_in(function(*given[0], **given[1]))
                lazy.mark_step(device)
                found = [settled(t) for t in made]
        except Exception as error:  # noqa: BLE001  any failure is the finding
            lazy.cache.reset()
            return f"fails: {type(error).__name__}: {' '.join(str(error).split())[:170]}"
        if (problem := difference(found, expected)) is not None:
            return f"differs: {problem}"
        seen += 1
    return "equal" if seen else "none"


def moved(x: Any, device: str) -> Any:
    if isinstance(x, rl.Tensor):
        return x.detach().to(device)
    return rl.device(device) if isinstance(x, rl.device) else x


def difference(found: list[Any], expected: list[Any]) -> str | None:
    """How results differ, if they do."""
    try:
        assert len(found) == len(expected), f"{len(found)} results for {len(expected)}"
        for a, b in zip(found, expected, strict=True):
            wide = b.dtype.is_floating_point and 1 < b.dtype.itemsize <= 4
            rl.testing.assert_close(a, settled(b), equal_nan=True, **({"rtol": 1e-3, "atol": 1e-4} if wide else {}))
    except AssertionError as error:
        return " ".join(str(error).split())[:170]
    return None


def sweep(device: str, only: str = "", step: int = 1) -> Iterator[tuple[str, str]]:
    """Every record, or every `step`-th, and what becomes of it."""
    for name in [n for n in counted() if only in n][::step]:
        yield name, judged(name, device)


def main(device: str, only: str = "", step: str = "1") -> None:
    counts: dict[str, int] = {}
    begin = time.process_time()
    for name, what in sweep(device, only, int(step)):
        kind = what.partition(":")[0]
        counts[kind] = counts.get(kind, 0) + 1
        print(f"{name:40} {time.process_time() - begin:6.1f}s {what}", flush=True)
    judged_ones = sum(n for kind, n in counts.items() if kind not in ("none", "random"))
    print(f"{counts}: {counts.get('equal', 0) / max(judged_ones, 1):.1%} equal on {device}")


if __name__ == "__main__":
    main(*sys.argv[1:])
