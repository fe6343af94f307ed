"""Products that sum over spans of memory: gradients of 1x1 convolutions' weights."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.codegen.schedule.cpu.product import SPAN_SLICE

np = pytest.importorskip("numpy")
# [spans, m, span], n: spans that share a slice, one to a slice, in several pieces; blocks of rows that are many
SIZES = [(7, 96, 49, 100), (1, 31, 2000, 20), (3, 130, 4 * SPAN_SLICE + 3, 61), (5, 300, 196, 90), (11, 9, 17, 700)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", SIZES, ids=["x".join(map(str, s)) for s in SIZES])
def test_gradients_of_weights_sum_over_all_images(size: tuple[int, int, int, int], dtype: str) -> None:
    images, outs, pixels, channels = size
    random = np.random.default_rng(pixels)
    x = random.standard_normal((images, channels, pixels)).astype(dtype)
    g = random.standard_normal((images, outs, pixels)).astype(dtype)
    result = rl.ops.aten.convolution_backward(
        rl.from_numpy(g), rl.from_numpy(x), rl.zeros(outs, channels, 1, dtype=getattr(rl, dtype)), None,
        [1], [0], [1], False, [0], 1, [False, True, False],
    )[1]
    want = np.einsum("iop,icp->oc", g.astype("f8"), x.astype("f8"))
    bound = images * pixels * np.finfo(dtype).eps * np.einsum("iop,icp->oc", abs(g).astype("f8"), abs(x).astype("f8"))
    assert (np.abs(result.numpy()[:, :, 0] - want) <= bound).all()


def test_they_do_not_depend_on_the_number_of_threads() -> None:
    x, g = rl.randn(6, 150, 23, 23), rl.randn(6, 210, 23, 23)
    before, result = rl.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            rl.set_num_threads(threads)
            w = rl.zeros(210, 150, 1, 1, requires_grad=True)
            result.append(rl.autograd.grad(rl.nn.functional.conv2d(x, w), w, g)[0])
    finally:
        rl.set_num_threads(before)
    assert result[0].abs().sum() > 0
    assert all(rl.equal(result[0], other) for other in result[1:])


def test_plans_are_made_for_a_number_of_threads() -> None:
    x, before = rl.arange(1 << 19), rl.get_num_threads()
    sums = rl.cumsum.overload_list[0]
    try:
        counts, result = [], []
        for threads in (1, 2, 1):    # a long row of integers is divided for two threads only
            rl.set_num_threads(threads)
            result.append(x.cumsum(0))
            counts.append(sums.plan_count)
    finally:
        rl.set_num_threads(before)
    assert rl.equal(result[0], result[1])
    assert counts[0] == counts[2] or counts[1] == counts[2], "plans made before apply again"
    assert result[0][-1].item() == (1 << 19) * ((1 << 19) - 1) // 2
