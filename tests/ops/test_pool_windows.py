"""Pools whose windows the op records do not reach: long rows (the vector loops), every stride and hang-over,
memory orders."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).parent))
from parity import agree, gradients_agree, ours  # noqa: E402

import rushlight as rl  # noqa: E402

pytestmark = pytest.mark.share(2)   # of each test that has several cases

LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def image(*shape: int, channels_last: bool = False, ties: bool = False, dtype: Any = torch.float64) -> Any:
    g = torch.Generator().manual_seed(sum(shape))
    result = torch.randn(shape, generator=g, dtype=torch.float64)
    result = (result * 2).round() if ties else result
    result = result.to(dtype)
    return result.contiguous(memory_format=LAST[len(shape)]) if channels_last else result


WINDOWS = [
    (k, s, p, ceil) for k in (1, 2, 3, 5, 9) for s in (1, 2, 3, 5) for p in (0, k // 2) for ceil in (False, True)
]


@pytest.mark.parametrize("size", [7, 40])
def test_average_pools_of_every_window(size: int) -> None:
    for k, s, p, ceil in WINDOWS:
        if k > size + 2 * p:
            continue
        for include in (True, False):
            gradients_agree(
                lambda m, x, a=(k, s, p, ceil, include): m.nn.functional.avg_pool1d(x, *a),
                image(2, 2, size),
                what=f"{k} {s} {p} {ceil} {include}",
            )


@pytest.mark.parametrize("channels_last", [False, True])
def test_pools_of_images_in_both_memory_orders(channels_last: bool) -> None:
    for k, s, p, ceil in (
        (2, 2, 0, False),
        (3, 2, 1, False),
        (3, 2, 1, True),
        (3, 1, 1, False),
        ((3, 2), (1, 3), (1, 0), True),
    ):
        x = image(2, 9, 17, 38, channels_last=channels_last, ties=True)
        agree(lambda m, x, a=(k, s, p, 1, ceil, True): m.nn.functional.max_pool2d(x, *a), x)
        gradients_agree(lambda m, x, a=(k, s, p, 1, ceil): m.nn.functional.max_pool2d(x, *a), x)
        gradients_agree(lambda m, x, a=(k, s, p, ceil): m.nn.functional.avg_pool2d(x, *a), x)
        got = rl.nn.functional.max_pool2d(ours(x), k, s, p, 1, ceil)
        assert got.stride() == torch.nn.functional.max_pool2d(x, k, s, p, 1, ceil).stride()


@pytest.mark.parametrize("channels", [2, 4, 5, 8, 12, 24, 33, 70])
def test_any_number_of_channels_may_lie_last(channels: int) -> None:
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        x = image(2, channels, 7, 9, channels_last=True, ties=True, dtype=dtype)
        for k, s, p in ((3, 2, 1), (2, 2, 0)):
            agree(lambda m, x, a=(k, s, p, 1, False, True): m.nn.functional.max_pool2d(x, *a), x, what=f"{dtype} {k}")
            agree(lambda m, x, a=(k, s, p): m.nn.functional.avg_pool2d(x, *a), x, what=f"{dtype} {k}")
    x = image(2, channels, 4, 5, 6, channels_last=True, ties=True)
    agree(lambda m, x: m.nn.functional.max_pool3d(x, 2, 2, return_indices=True), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.uint8])
def test_dilated_max_pools_along_long_rows(dtype: Any) -> None:
    for k, s, p, d in ((3, 1, 1, 2), (3, 1, 2, 2), (3, 2, 0, 3), (5, 2, 2, 1), (9, 1, 4, 1), (2, 5, 0, 1)):
        agree(
            lambda m, x, a=(k, s, p, d, False, True): m.nn.functional.max_pool2d(x, *a),
            image(1, 2, 30, 45, ties=True, dtype=dtype).to(dtype),
        )


def test_nan_is_the_largest_and_the_last_one_is_reported() -> None:
    x = image(1, 1, 12, 30)
    x[0, 0, 3, 4:9] = torch.nan
    x[0, 0, 8, 20] = -torch.inf
    for k, s, p in ((3, 2, 1), (2, 2, 0), (3, 1, 1)):
        agree(lambda m, x, a=(k, s, p): m.nn.functional.max_pool2d(x, *a, return_indices=True), x)


def test_infinite_neighbours_do_not_leak_into_windows() -> None:
    g = torch.zeros(1, 1, 9)
    g[..., 4] = torch.inf
    x, y = (torch.zeros(1, 1, 18, requires_grad=True), rl.zeros(1, 1, 18, requires_grad=True))
    torch.nn.functional.adaptive_avg_pool1d(x, 9).backward(g)
    rl.nn.functional.adaptive_avg_pool1d(y, 9).backward(ours(g))
    assert y.grad.tolist() == x.grad.tolist()


def test_adaptive_pools_between_all_sizes() -> None:
    for size, out in ((10, 3), (3, 10), (64, 8), (40, 7), (7, 7), (12, 1)):
        gradients_agree(lambda m, x, out=out: m.nn.functional.adaptive_avg_pool2d(x, (out, 2)), image(2, 3, size, 5))
        gradients_agree(lambda m, x, out=out: m.nn.functional.adaptive_max_pool2d(x, (2, out)), image(2, 3, 5, size))
    x = image(2, 9, 8, 40, channels_last=True)
    agree(lambda m, x: m.nn.functional.adaptive_avg_pool2d(x, (3, 5)), x)
    agree(lambda m, x: m.nn.functional.adaptive_max_pool2d(x, (3, 5), True), x)


@pytest.mark.parametrize("power", [1.0, 2.0, 3.0])
def test_power_average_pools(power: float) -> None:
    gradients_agree(lambda m, x: m.nn.functional.lp_pool1d(x.abs() + 1, power, 3, 2), image(2, 3, 11))
    gradients_agree(
        lambda m, x: m.nn.functional.lp_pool2d(x.abs() + 1, power, (2, 3), ceil_mode=True), image(2, 3, 9, 11)
    )
    gradients_agree(lambda m, x: m.nn.functional.lp_pool3d(x.abs() + 1, power, 2), image(1, 2, 4, 5, 6))


def test_unpooling_to_a_given_size() -> None:
    def there_and_back(m: Any, x: Any) -> Any:
        pooled, at = m.nn.functional.max_pool2d(x, 2, return_indices=True)
        return m.nn.functional.max_unpool2d(pooled, at, 2, output_size=x.shape)

    gradients_agree(there_and_back, image(2, 3, 7, 9))
    pooled, at = rl.nn.functional.max_pool2d(ours(image(1, 1, 4, 4)), 2, return_indices=True)
    with pytest.raises(RuntimeError):
        rl.nn.functional.max_unpool2d(pooled, at + 100, 2)
    with pytest.raises(ValueError, match="invalid output_size"):
        rl.nn.functional.max_unpool2d(pooled, at, 2, output_size=(9, 9))


def test_positions_outside_the_plane_are_refused() -> None:
    x, g = rl.zeros(1, 1, 4, 4), rl.ones(1, 1, 2, 2)
    with pytest.raises(RuntimeError, match="invalid max index"):
        rl.ops.aten.max_pool2d_with_indices_backward(g, x, [2], [2], [0], [1], False, rl.full((1, 1, 2, 2), 16))


def test_pools_on_meta_tensors() -> None:
    x = rl.empty(2, 3, 9, 9, device="meta")
    assert tuple(rl.nn.functional.max_pool2d(x, 3, 2, 1).shape) == (2, 3, 5, 5)
    assert tuple(rl.nn.functional.avg_pool2d(x, 3, 2, 1).shape) == (2, 3, 5, 5)
    assert tuple(rl.nn.functional.fractional_max_pool2d(x, 2, output_size=4).shape) == (2, 3, 4, 4)
