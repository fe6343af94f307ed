"""Every op record of PyTorch under vmap, jvp and vmap of vjp: see tests/func/sweep.py."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.func.sweep import CHECKS, outcome
from tests.parity.records import RECORDS

PARTS = 180


@pytest.mark.share(2)
@pytest.mark.parametrize("number", range(PARTS))
def test_records(number: int) -> None:
    failures = []
    for name in list(RECORDS)[number::PARTS]:
        for check in CHECKS:
            found = outcome(name, check)
            if found not in ("pass", "none"):
                failures.append(f"{name} {check}: {found[:300]}")
    assert not failures, "\n".join(failures)
