"""Every record of PyTorch's `module_db`, against PyTorch."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's module records need it")

from tests.nn.module_records import RECORDS, check


@pytest.mark.parametrize("name", RECORDS)
def test_record(name: str) -> None:
    assert check(RECORDS[name]) == []
