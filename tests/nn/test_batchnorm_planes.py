"""batch_norm in evaluation of planes so short that numbers of channels are spread over them: the same results."""

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
