"""PyTorch's op records as models: what ONNX Runtime gives is what eager mode gives; what is refused is listed."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's op records need it")
pytest.importorskip("onnxruntime")

from tests.onnx.record_outcomes import COUNTED, outcome  # noqa: E402

# Records that are refused, and why: elements decide what Python does, or nobody wrote them yet.
REFUSED = dict(line.split("  ", 1) for line in (Path(__file__).parent / "refused.txt").read_text().splitlines())


@pytest.mark.share(8)
@pytest.mark.parametrize("name", COUNTED)
def test_record(name: str) -> None:
    said = outcome(name)
    assert said.startswith("refused" if name in REFUSED else ("right", "random")), said


def test_most_records_are_exported() -> None:
    assert set(REFUSED) <= set(COUNTED)
    assert len(COUNTED) - len(REFUSED) >= 542 and len(COUNTED) == 562
