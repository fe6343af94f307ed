"""PyTorch's op records leave as StableHLO and come back: what was loaded gives what eager mode gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's op records need it")
pytest.importorskip("jaxlib")

from rushlight import mlir  # noqa: E402
from tests.mlir.sweep import RANDOM, counted, judged  # noqa: E402

LEFT_OUT = frozenset((Path(__file__).parent / "stablehlo_left_out.txt").read_text().split())


def loaded(text: str, tensors: list[Any]) -> list[Any]:
    """What `main` gives once it is loaded."""
    found = mlir.load(text)(*tensors)
    return list(found) if isinstance(found, tuple) else [found]


@pytest.mark.share(24)
@pytest.mark.parametrize("name", [name for name in counted() if name not in LEFT_OUT and name not in RANDOM])
def test_a_record_comes_back(name: str) -> None:
    assert judged(name, "stablehlo", loaded) == "equal"
