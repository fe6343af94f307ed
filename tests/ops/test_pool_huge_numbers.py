"""Pools with strides far larger than the image answer at once, forward and backward, or refuse."""

from __future__ import annotations

import time

import pytest

import rushlight as rl

F = rl.nn.functional
POOLS = {
    "avg_pool1d": ((1, 3, 9), 6),
    "max_pool1d": ((1, 3, 9), 6),
    "avg_pool2d": ((1, 3, 9, 9), 6),
    "max_pool2d": ((1, 3, 9, 9), 6),
}


@pytest.mark.parametrize("name", POOLS)
def test_a_stride_beyond_the_image_takes_no_time(name: str) -> None:
    shape, kernel = POOLS[name]
    x = rl.ones(*shape, requires_grad=True)
    started = time.process_time()
    getattr(F, name)(x, kernel, stride=2**31 - 1, padding=2, ceil_mode=True).sum().backward()
    assert x.grad.isfinite().all() and time.process_time() - started < 10


@pytest.mark.parametrize("name", POOLS)
def test_a_stride_that_is_no_32_bit_number_is_refused(name: str) -> None:
    shape, kernel = POOLS[name]
    with pytest.raises(RuntimeError, match="stride of at most"):
        getattr(F, name)(rl.ones(*shape), kernel, stride=2**62, ceil_mode=True)
