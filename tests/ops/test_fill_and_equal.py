"""`equal` in blocks finds a difference anywhere and does not mind layouts; what `fill_` writes is rounded once."""

from __future__ import annotations

import math

import pytest

import rushlight as rl


@pytest.mark.parametrize("at", [0, 2047, 2048, 18431, 18432, 149_503, 149_504, 299_999])
def test_one_element_that_differs_is_found(at: int) -> None:
    a = rl.arange(300_000)
    b = a.clone()
    assert rl.equal(a, b)
    b[at] += 1
    assert not rl.equal(a, b) and not rl.equal(a.view(300, 1000), b.view(300, 1000))


def test_layouts_types_and_numbers_that_are_not() -> None:
    a = rl.randn(600, 500)
    assert rl.equal(a.t(), a.t().contiguous()) and rl.equal(a, a.t().contiguous().t())
    assert rl.equal(a, a.double()) and not rl.equal(a, a.view(500, 600))
    a[599, 499] = math.nan
    assert not rl.equal(a, a)
    assert rl.equal(a.requires_grad_()[:599], a.detach()[:599]) and rl.equal(rl.ones(0, 3), rl.zeros(0, 3))


def test_fill_rounds_numbers_to_the_type_that_is_written() -> None:
    for dtype in (rl.float16, rl.bfloat16):
        for number in (1, 0.1, -3, 1e-8, 65504.0, math.inf, True):
            assert rl.empty(37, dtype=dtype).fill_(number).tolist() == [rl.tensor(number).to(dtype).item()] * 37
        assert rl.empty(5, dtype=dtype).fill_(math.nan).isnan().all()
