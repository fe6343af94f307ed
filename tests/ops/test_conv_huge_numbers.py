"""Convolutions with enormous strides, dilations and paddings: answered,
or refused before anything of that size is made."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as rl

F = rl.nn.functional

CASES: list[tuple[int, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    (1, (2, 3, 4), (3, 2, 3), {"stride": 5000}),
    (1, (2, 4, 4), (4, 2, 3), {"stride": 5000, "groups": 2, "padding": 7, "output_padding": 11, "dilation": 2}),
    (1, (1, 2, 3), (2, 1, 1), {"stride": 1 << 17}),
    (2, (1, 3, 3, 4), (3, 2, 3, 2), {"stride": (70, 80), "padding": (1, 0), "output_padding": (3, 79)}),
    (2, (1, 3, 3, 4), (3, 2, 3, 2), {"stride": (9000, 1), "padding": (1, 2), "dilation": (1, 3)}),
    (1, (1, 2, 3), (2, 1, 2), {"stride": 20000, "dilation": 20001}),
]


@pytest.mark.parametrize("dims, shape, kernel, options", CASES)
def test_transposed_convolutions_with_gaps(
    dims: int, shape: tuple[int, ...], kernel: tuple[int, ...], options: dict[str, Any]
) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    x, w, b = (torch.randn(n, dtype=torch.float64) for n in (shape, kernel, (kernel[1] * options.get("groups", 1),)))
    theirs = [t.requires_grad_() for t in (x, w, b)]
    ours = [rl.tensor(t.tolist(), dtype=rl.float64, requires_grad=True) for t in theirs]
    expected = getattr(torch.nn.functional, f"conv_transpose{dims}d")(*theirs, **options)
    got = getattr(F, f"conv_transpose{dims}d")(*ours, **options)
    torch.testing.assert_close(torch.tensor(got.tolist(), dtype=torch.float64), expected)
    expected.sin().sum().backward()
    got.sin().sum().backward()
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(torch.tensor(mine.grad.tolist(), dtype=torch.float64), other.grad)


def test_gradient_of_a_convolution_with_an_enormous_stride() -> None:
    x = rl.ones(1, 1, 4, 4, requires_grad=True)
    F.conv2d(x, rl.ones(1, 1, 3, 3), stride=1 << 30).sum().backward()
    assert x.grad.sum().item() == 9


@pytest.mark.parametrize("option", ["stride", "dilation"])
@pytest.mark.parametrize("size", [1 << 30, 1 << 40, 1 << 62])
def test_transposed_convolutions_too_large_for_memory_are_refused(size: int, option: str) -> None:
    with pytest.raises(RuntimeError):
        F.conv_transpose2d(rl.ones(1, 1, 4, 4), rl.ones(1, 1, 3, 3), **{option: size})


@pytest.mark.parametrize("size", [1 << 30, 1 << 40])
def test_paddings_too_large_for_memory_are_refused(size: int) -> None:
    with pytest.raises(RuntimeError):
        F.conv2d(rl.ones(1, 1, 4, 4), rl.ones(1, 1, 3, 3), padding=size)
    with pytest.raises(RuntimeError):
        F.pad(rl.ones(1, 1, 4, 4), (size,) * 4)
