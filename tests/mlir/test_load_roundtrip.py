"""Programs that left as StableHLO come back and give the same: models, with sizes that vary too, and twice."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import rushlight as torch
from rushlight import mlir

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "mlir_roundtrip.py"


@pytest.fixture(scope="module")
def example() -> Any:
    spec = importlib.util.spec_from_file_location("mlir_roundtrip", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["inline", "resource"])
@pytest.mark.parametrize("name", ["resnet", "gpt", "lstm"])
def test_a_model_comes_back(example, name, weights):
    model, x = example.models()[name]
    _, loaded, apart = example.round_trip(model, x, weights)
    assert apart < 1e-5
    assert loaded.graph_module.graph.nodes


def test_a_batch_that_varies_comes_back():
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2)).eval()
    shapes = ({0: torch.export.Dim("batch")},)
    loaded = mlir.load(str(mlir.export(model, (torch.randn(3, 4),), dynamic_shapes=shapes)))
    for count in (1, 3, 10):
        x = torch.randn(count, 4)
        torch.testing.assert_close(loaded(x), model(x))


def test_what_came_back_leaves_again():
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh()).eval()
    x = torch.randn(2, 4)
    once = mlir.load(str(mlir.export(model, (x,))))
    twice = mlir.load(str(mlir.export(once, (x,))))
    torch.testing.assert_close(twice(x), model(x))
    assert torch.export.export(once, (x,)).module()(x).shape == (2, 3)
