"""PyTorch's op records as MLIR: which of them leave in a dialect, and give what eager mode gives.

Enters: a record's name, a dialect, and how its text is run. Leaves: "equal", or why not ("refused: ...",
"differs: ...", "judge: ..."), or "none" where no sample is for tensors. `python -m tests.mlir.op_records stablehlo`
counts them all.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import rushlight as rl
from rushlight import mlir
from rushlight.utils import _pytree as pytree
from tests.mlir import judges
from tests.parity.checks import Pair, main_dtype, samples
from tests.parity.convert import Missing, thing
from tests.parity.records import RECORDS, namespace

LEFT_OUT = ("linalg", "fft")      # namespaces that are not counted
MOST = 3                          # samples of a record
RANDOM = frozenset(
    "bernoulli cauchy exponential geometric log_normal multinomial normal normal.in_place normal.number_mean rand_like "
    "randint randint_like randn randn_like rand uniform empty empty_like empty_strided empty_permuted new_empty "
    "new_empty_strided nn.functional.dropout nn.functional.dropout2d nn.functional.dropout3d "
    "nn.functional.alpha_dropout nn.functional.feature_alpha_dropout.with_train "
    "nn.functional.rrelu nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d "
    "nn.functional.multi_head_attention_forward svd_lowrank pca_lowrank".split()
)
"""Records whose results are random, or not said."""


def counted() -> list[str]:
    """The records that are counted."""
    return sorted(name for name, record in RECORDS.items()
                  if namespace(record).partition(".")[0] not in LEFT_OUT and record.dtypes)


def calls(name: str) -> Iterator[tuple[Callable, tuple, dict]]:
    """The function of a record, and samples' arguments, for rushlight."""
    record = RECORDS[name]
    pair = Pair(record.op)
    for sample in list(samples(record, main_dtype(record), "forward"))[:MOST]:
        first, args, kwargs = thing((sample.input, list(sample.args), dict(sample.kwargs)))
        yield pair.ours, (first, *args), kwargs


def judged(name: str, dialect: str, run: Callable[[str, list], list]) -> str:
    """What becomes of a record."""
    seen = 0
    try:
        found_calls = list(calls(name))
    except Missing:
        return "none"
    for function, args, kwargs in found_calls:
        try:
            expected = [t for t in pytree.tree_leaves(function(*pytree.tree_map(copied, args),
                                                               **pytree.tree_map(copied, kwargs)))
                        if isinstance(t, rl.Tensor)]
        except Exception:  # noqa: BLE001  what eager refuses is no business of ours
            continue
        leaves, spec = pytree.tree_flatten((args, kwargs))
        places = [i for i, t in enumerate(leaves) if isinstance(t, rl.Tensor)]

        def call(*tensors: Any, leaves=leaves, spec=spec, places=places, function=function) -> Any:
            given = list(leaves)
            for i, t in zip(places, tensors, strict=True):
                given[i] = t
            own, named = pytree.tree_unflatten(given, spec)
            found = pytree.tree_leaves(function(*own, **named))
            return [t for t in found if isinstance(t, rl.Tensor)]

        tensors = [leaves[i].detach() for i in places]
        try:
            with warnings.catch_warnings(), rl.no_grad():
                warnings.simplefilter("ignore")
                module = mlir.export(call, tuple(copied(t) for t in tensors), dialect=dialect)
                text = str(module)
        except Exception as error:  # noqa: BLE001  any failure is the finding
            return f"refused: {type(error).__name__}: {' '.join(str(error).split())[:150]}"
        try:
            found = run(text, tensors)
        except Exception as error:  # noqa: BLE001
            return f"judge: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        try:
            assert len(found) == len(expected), f"{len(found)} results for {len(expected)}"
            for a, b in zip(found, expected, strict=True):
                wide = b.dtype.is_floating_point and b.dtype.itemsize <= 4
                rl.testing.assert_close(a, b.detach().resolve_conj().resolve_neg(), equal_nan=True,
                                        **({"rtol": 2e-3, "atol": 1e-4} if wide else {}))
        except AssertionError as error:
            return f"differs: {' '.join(str(error).split())[:150]}"
        seen += 1
    return "equal" if seen else "none"


def copied(x: Any) -> Any:
    return x.detach().clone() if isinstance(x, rl.Tensor) else x


def main(dialect: str, only: str = "") -> None:
    counts: dict[str, int] = {}
    for name in counted():
        if only and only not in name:
            continue
        begin = time.process_time()
        what = "random" if name in RANDOM else judged(name, dialect, judges.run)
        counts[what.partition(":")[0]] = counts.get(what.partition(":")[0], 0) + 1
        print(f"{name:40} {time.process_time() - begin:5.1f}s {what}", flush=True)
    print(counts)


if __name__ == "__main__":
    main(*sys.argv[1:])
