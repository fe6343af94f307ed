"""Every library's cases give PyTorch's results. Skipped where the library or PyTorch is not installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ecosystem.compare import case_files, compare, missing

pytestmark = [pytest.mark.ecosystem, pytest.mark.slow]


@pytest.mark.parametrize("path", case_files(), ids=lambda path: path.stem)
def test_library_gives_the_same_results(path: Path) -> None:
    if absent := missing(path):
        pytest.skip(f"not installed: {', '.join(absent)}")
    wrong = [outcome for outcome in compare(path) if not outcome.ok]
    assert not wrong, "\n\n".join(f"{outcome.case}: {outcome.detail[-1500:]}" for outcome in wrong)
