"""Every op record of PyTorch, against PyTorch: see checks.py for what is compared and left_out.py for what is not yet equal."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's op records need it")

from tests.parity.checks import CHECKS, NotApplicable  # noqa: E402
from tests.parity.left_out import BARS, LEFT_OUT  # noqa: E402
from tests.parity.records import RECORDS  # noqa: E402


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("check", CHECKS)
def test_record(check: str, name: str) -> None:
    reason = LEFT_OUT[check].get(name)
    if reason is not None:
        pytest.skip(f"left out: {reason}")
    try:
        CHECKS[check](RECORDS[name])
    except NotApplicable as nothing:
        pytest.skip(str(nothing))


@pytest.mark.parametrize("check", BARS)
def test_bar(check: str) -> None:
    """Enough records pass, counting those left out as failures of all that apply."""
    missing = len(LEFT_OUT[check])
    assert 1 - missing / applicable(check) >= BARS[check], f"{missing} records are left out of {check}"


def applicable(check: str) -> int:
    """How many records a check speaks of, from what the records declare."""
    conditions = {
        "gradient": lambda r: r.supports_autograd,
        "variants": lambda r: r.supports_out or r.get_inplace() is not None or r.get_method() is not None,
        "errors": lambda r: r.error_inputs_func is not None,
    }
    return sum(map(conditions.get(check, lambda r: True), RECORDS.values()))


def test_left_out_names_exist() -> None:
    for check, records in LEFT_OUT.items():
        assert check in CHECKS
        assert set(records) <= set(RECORDS), f"{check}: no such record {set(records) - set(RECORDS)}"
