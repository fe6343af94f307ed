"""Sizes that vary in the linalg and torch dialects: one text for all of them."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight import mlir, nn

pytest.importorskip("torch_mlir")

from tests.mlir import compiled  # noqa: E402
from tests.mlir.compiled import compare, tensors_in  # noqa: E402

N = torch.export.Dim("n", min=2)


def check(function, dialect, *shown):
    x = torch.linspace(-1, 1, 12).reshape(4, 3)
    text = str(mlir.export(function, (x,), dialect=dialect, dynamic_shapes={"args": ({0: N},)}))
    assert "?" in text
    program = compiled.Program(text, dialect)
    for n in shown:
        x = torch.linspace(-2, 2, n * 3).reshape(n, 3)
        for a, b in zip(program([x]), tensors_in(function(x)), strict=True):
            assert a.shape == b.shape
            compare(a, b)


@pytest.mark.parametrize("function", [
    lambda x: x.exp() + 1, lambda x: x.sum(0), lambda x: x.softmax(0), lambda x: x.mean(), lambda x: x @ x.T,
    lambda x: torch.cat([x, x], 1), lambda x: x.reshape(-1), lambda x: x.t() * 2, lambda x: x[:, 1:],
    lambda x: x[:, None].expand(-1, 2, 3), lambda x: x.var(0), lambda x: x * x.shape[0], lambda x: x.cumsum(0),
    lambda x: x.new_ones(x.shape[0], 2), lambda x: nn.functional.linear(x, x[:2]),
])
def test_linalg(function):
    check(function, "linalg", 4, 2, 7)


@pytest.mark.parametrize("function", [
    lambda x: x.exp() + 1, lambda x: x.sum(0), lambda x: x.softmax(1), lambda x: x.t() * 2, lambda x: x[:, 1:],
])
def test_torch_dialect(function):
    check(function, "torch", 4, 2, 7)
