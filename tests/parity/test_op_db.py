"""Every op record of PyTorch, against PyTorch: see checks.py for what is compared and left_out.py for what is not
equal.

Only what applies is collected (`applies`), so nothing here skips: a check that then finds nothing to look at fails,
since it is the oracle that is broken. What left_out.py lists must fail, for the dtypes it names and no others.
"""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's op records need it")

from tests.parity.checks import CHECKS, NotApplicable  # noqa: E402
from tests.parity.compare import Different  # noqa: E402
from tests.parity.left_out import (  # noqa: E402
    APPLICABLE,
    BARS,
    LEFT_OUT,
    NOTHING_TO_CHECK,
    applies,
    is_certain,
    reasons,
)
from tests.parity.records import RECORDS  # noqa: E402

# Every record goes through the checks that are not here in every run, and through these by turns: one in so many.
SHARES = {"gradient": 2, "second": 2, "variants": 2, "noncontiguous": 2, "dtypes": 4, "strides": 2}
# Checks of one record follow each other: they share its samples and kernels.
CASES = [pytest.param(check, name, id=f"{check}-{name}",
                      marks=[pytest.mark.share(SHARES[check])] if check in SHARES else [])
         for name in RECORDS for check in CHECKS if applies(check, RECORDS[name])]


@pytest.mark.parametrize("check, name", CASES)
def test_record(check: str, name: str) -> None:
    expected = reasons(check, name)
    try:
        CHECKS[check](RECORDS[name])
    except NotApplicable as nothing:
        pytest.fail(
            f"PyTorch ran none of the samples ({nothing}): its side is broken, or this belongs into NOTHING_TO_CHECK",
            pytrace=False,
        )
    except Different as difference:
        if not expected:
            raise
        failed = getattr(difference, "failed", {"": str(difference)})
        surplus = set(expected) - set(failed) if is_certain(check, name) else set()
        assert (
            set(failed) <= set(expected) and not surplus
        ), f"left out for {sorted(expected)}, but failing for {failed}"
        pytest.xfail("; ".join(expected.values()))
    assert not expected or not is_certain(check, name), f"passes, but is left out: take it out of LEFT_OUT ({expected})"


@pytest.mark.parametrize("check", CHECKS)
def test_as_many_records_apply_as_ever(check: str) -> None:
    """A broken oracle (a PyTorch whose records lost their samples, a condition that is never true) must not shrink the
    suite."""
    assert sum(applies(check, record) for record in RECORDS.values()) >= APPLICABLE[check]


@pytest.mark.parametrize("check", BARS)
def test_bar(check: str) -> None:
    """Enough records pass, counting those left out as failures of all that apply."""
    missing = sum(bool(reasons(check, name)) for name in RECORDS)
    assert 1 - missing / APPLICABLE[check] >= BARS[check], f"{missing} records are left out of {check}"


def test_tables_name_records_that_exist() -> None:
    for table in (LEFT_OUT, NOTHING_TO_CHECK):
        assert set(table) <= set(CHECKS)
        for check, records in table.items():
            assert set(records) <= set(RECORDS), f"{check}: no such record {set(records) - set(RECORDS)}"
