"""Every library's cases give PyTorch's results. By turns, half of the libraries and half of the cases of each: most of
the time is that of importing them, twice. Skipped where the library or PyTorch is not installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ecosystem.compare import case_files, cases_of, compare, missing

pytestmark = [pytest.mark.ecosystem, pytest.mark.slow]


@pytest.mark.share(2)
@pytest.mark.parametrize("path", case_files(), ids=lambda path: path.stem)
def test_library_gives_the_same_results(path: Path, share: Callable[[list[str], int], list[str]]) -> None:
    if absent := missing(path):
        pytest.skip(f"not installed: {', '.join(absent)}")
    cases = share(cases_of(path), 2)
    outcomes = compare(path, cases)
    assert [outcome.case for outcome in outcomes] == cases
    wrong = [outcome for outcome in outcomes if not outcome.ok]
    assert not wrong, "\n\n".join(f"{outcome.case}: {outcome.detail[-1500:]}" for outcome in wrong)
