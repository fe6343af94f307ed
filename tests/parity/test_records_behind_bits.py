"""Op records of PyTorch with arguments that show the conjugates, or the negatives, of what their memory holds.

Enters: the records. Each check (bits.py) takes every so many-th of those that have such numbers, each another part, so
that all together take seconds; `RUSHLIGHT_ALL_BITS=1` takes every record through every check.
"""

from __future__ import annotations

import contextlib
import os
import zlib

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's op records need it")

from tests.parity.bits import BIT_CHECKS, DIFFERENT, DTYPES, torch_gradients  # noqa: E402
from tests.parity.checks import NotApplicable  # noqa: E402
from tests.parity.records import RECORDS  # noqa: E402

EVERY = {"conjugated": {"forward": 2, "written": 5, "gradient": 5}, "negated": {"forward": 10, "written": 10,
                                                                                "gradient": 10}}


def cases() -> list[tuple[str, str, str]]:
    """(bit, check, record) of this run."""
    found = []
    for bit, checks in EVERY.items():
        for number, (check, every) in enumerate(checks.items()):
            step = 1 if os.environ.get("RUSHLIGHT_ALL_BITS") else every
            for name, record in RECORDS.items():
                dtype = DTYPES[bit][check == "gradient"]
                known = torch_gradients(record) if check == "gradient" else record.dtypes
                if name not in DIFFERENT and dtype in known and (zlib.crc32(name.encode()) + number) % step == 0:
                    found.append((bit, check, name))
    return found


@pytest.mark.share(2)
@pytest.mark.parametrize("bit, check, name", cases())
def test_record(bit: str, check: str, name: str) -> None:
    with contextlib.suppress(NotApplicable):      # PyTorch refuses the samples with this bit
        BIT_CHECKS[check](RECORDS[name], bit)


def test_tables_name_records_that_exist() -> None:
    assert set(DIFFERENT) <= set(RECORDS)
    assert len(cases()) > 350
