"""Every op record with symbolic sizes: for sizes nobody showed, but that meet the guards,
formulas give what the op gives. See symbolic_calls.py."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's op records need it")

from rushlight.fake import DataDependentOutputException  # noqa: E402
from tests.fake.symbolic_calls import check, leaves  # noqa: E402
from tests.parity.checks import NotApplicable, Pair, describe, main_dtype, spread  # noqa: E402
from tests.parity.convert import thing  # noqa: E402
from tests.parity.records import RECORDS  # noqa: E402

# What symbolic sizes do not serve yet, and why.
APART = {
    "as_strided.partial_views": "the fake of a part of a storage has a storage of its own",
    "to": "moves from the device that the comparison runs on",
}
# the last: making samples takes half a minute each
SERVED = [
    name
    for name in RECORDS
    if name not in APART and not name.startswith(("sparse.", "jiterator", "nn.functional.max_unpool"))
]


def check_record(name: str, limit: int) -> tuple[int, int]:
    """How many calls had symbolic sizes, and how many of them hold for other sizes."""
    record = RECORDS[name]
    symbolic = general = 0
    torch.manual_seed(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fn = Pair(record.op).ours
            samples = spread(record.sample_inputs("cpu", main_dtype(record), requires_grad=False), limit)
        except (NotApplicable, AttributeError):
            return 0, 0
        for sample in samples:
            tree: Any = thing((sample.input, list(sample.args), dict(sample.kwargs)), {})
            if any(
                getattr(t, "layout", torch.strided)
                .__repr__()
                .endswith(("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged"))
                for t in leaves(tree)
            ):
                continue
            try:
                found = check(fn, tree, f"{name}({describe(sample)})")
            except DataDependentOutputException:
                continue
            except NotImplementedError as refused:     # elements decide, and nothing says which size
                if not any(words in str(refused) for words in ("depends on data", "meta tensor")):
                    raise
                continue
            if found is not None:
                symbolic += 1
                general += found[0] > 0
    return symbolic, general


@pytest.mark.parametrize("name", SERVED[::12])
def test_record(name: str) -> None:
    check_record(name, 2)


@pytest.mark.slow
def test_all_records(share: Callable[[list[str], int], list[str]]) -> None:
    names = share(SERVED, 3)
    counts = [check_record(name, 3) for name in names]
    symbolic, general = (sum(c[i] for c in counts) for i in (0, 1))
    assert symbolic > 1.2 * len(names) and general / symbolic > 0.85, (symbolic, general)
