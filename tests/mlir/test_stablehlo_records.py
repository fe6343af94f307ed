"""PyTorch's op records as StableHLO: what leaves is run by XLA, and gives what eager mode gives.

`stablehlo_left_out.txt` lists the records that do not; `python -m tests.mlir.op_records stablehlo` counts all of them.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's op records need it")
pytest.importorskip("jaxlib")

from tests.mlir import judges  # noqa: E402
from tests.mlir.op_records import RANDOM, counted, judged  # noqa: E402

LEFT_OUT = frozenset((Path(__file__).parent / "stablehlo_left_out.txt").read_text().split())


def run(text: str, tensors: list) -> list:
    """What XLA gives; another reader has looked at the text before, where there is one."""
    if importlib.util.find_spec("torch_mlir") is not None:
        judges.verify(text)
    return judges.run(text, tensors)


@pytest.mark.share(12)
@pytest.mark.parametrize("name", [name for name in counted() if name not in LEFT_OUT and name not in RANDOM])
def test_record(name: str) -> None:
    assert judged(name, "stablehlo", run) == "equal"


def test_most_records_leave() -> None:
    names = [name for name in counted() if name not in RANDOM]
    assert len(names) - len(LEFT_OUT) >= 0.85 * len(names)
    assert set(names) >= LEFT_OUT
