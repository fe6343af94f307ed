"""batch_norm where numbers of channels are spread over several positions, of short planes and of few channels that lie
last: the same results."""

from __future__ import annotations

import pytest

import rushlight as rl

SHAPES = ((4, 5, 4, 4), (8, 3, 7, 7), (32, 6, 2), (5, 4, 2, 3, 2), (4, 5, 1, 1), (3, 5, 4, 4), (4, 5, 8, 8))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("dtype", [rl.float32, rl.float64, rl.bfloat16], ids=str)
def test_without_gradients_as_with_them(shape: tuple[int, ...], affine: bool, dtype: rl.dtype) -> None:
    kind = {3: rl.nn.BatchNorm1d, 4: rl.nn.BatchNorm2d, 5: rl.nn.BatchNorm3d}[len(shape)]
    norm = kind(shape[1], affine=affine).eval()
    with rl.no_grad():
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.1, 2.0)
        for p in norm.parameters():
            p.normal_()
    norm.to(dtype)
    x = rl.randn(*shape).to(dtype)
    expected = norm(x.clone().requires_grad_())
    with rl.no_grad():
        found = norm(x)
        turned = norm(x.transpose(0, -1).contiguous().transpose(0, -1))
    for result in (found, turned):
        assert result.shape == expected.shape and rl.equal(result, expected.detach())
    assert found.stride() == expected.stride()


def last(*shape, dtype=rl.float32):
    """Images whose channels lie last, of numbers that are the same at every call."""
    rl.manual_seed(sum(shape))
    kind = rl.channels_last if len(shape) == 4 else rl.channels_last_3d
    return rl.randn(*shape).to(dtype).contiguous(memory_format=kind)


@pytest.mark.parametrize("shape", [(4, 3, 32, 32), (4, 8, 31, 34), (2, 24, 16, 32), (2, 5, 41, 43), (8, 8, 7, 8, 9)])
def test_few_channels_that_lie_last_are_rows_of_several_positions(shape):
    channels = shape[1]
    weight, bias = rl.linspace(0.5, 1.5, channels), rl.linspace(-1, 1, channels)
    for training in (True, False):
        for affine in ((weight, bias), (None, None)):
            found = []
            for x in (last(*shape), last(*shape).contiguous()):
                moved = [rl.full((channels,), 0.25), rl.full((channels,), 2.0)]
                y = rl.nn.functional.batch_norm(x, *moved, *affine, training)
                found.append((y, *moved))
                assert y.stride() == x.stride() and not y._is_view()
            for ours, dense in zip(*found, strict=True):
                assert rl.allclose(ours, dense, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 1e-15, 1e18, 1e30])
def test_rows_of_several_positions_keep_statistics_in_range(scale):
    x = last(4, 8, 32, 32) * scale
    ours, dense = (rl.nn.functional.batch_norm(t, None, None, training=True, eps=1e-35) for t in (x, x.contiguous()))
    assert rl.allclose(ours, dense, rtol=1e-4, atol=1e-5) and bool(ours.isfinite().all())
    far = rl.nn.functional.batch_norm(last(4, 8, 32, 32) + 1e4, None, None, training=True)
    exact = rl.nn.functional.batch_norm((last(4, 8, 32, 32) + 1e4).double(), None, None, training=True)
    assert float((far - exact).abs().max()) < 2e-3


def test_results_of_few_channels_are_written_in_place_and_differentiated():
    gradients = []
    for x in (last(4, 8, 32, 32), last(4, 8, 32, 32).contiguous()):
        x.requires_grad_()
        y = rl.nn.functional.batch_norm(x, None, None, rl.ones(8), rl.zeros(8), True)
        (rl.nn.functional.relu(y, inplace=True) ** 2).sum().backward()
        gradients.append(x.grad)
    assert rl.allclose(*gradients, rtol=1e-4, atol=1e-4)
