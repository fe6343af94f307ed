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


@pytest.mark.parametrize("ask", [rl.equal, lambda a, b: a.equal(b)], ids=["function", "method"])
def test_few_elements_are_compared_as_many_are(ask) -> None:
    a = rl.arange(6.0).view(2, 3)
    for _ in range(3):
        assert ask(a, a) is True and ask(a, a.clone()) is True and ask(a.t(), a.t().clone()) is True
        assert ask(a, a.double()) is True and ask(a, a.half()) is True and ask(a, a.long()) is True
        assert ask(a, a + 1) is False and ask(a, a.view(3, 2)) is False and ask(a, a[:1]) is False
        assert ask(a[0], a[:1]) is False and ask(rl.ones(1), rl.ones(())) is False and ask(a, a[:, :0]) is False
        assert ask(rl.empty(0, 2), rl.empty(0, 2)) is True and ask(rl.empty(0, 2), rl.empty(2, 0)) is False
        assert ask(rl.tensor(2), rl.tensor(2.0)) is True and ask(rl.tensor([1j]), rl.tensor([1j])) is True
        assert ask(rl.tensor([1j]).conj(), rl.tensor([-1j])) is True
        assert ask(a.clone().requires_grad_(), a) is True
        nan = rl.tensor([math.nan])
        assert ask(nan, nan) is False
    with pytest.raises(RuntimeError, match="one device"):
        ask(a, a.to("meta"))


def test_equal_refuses_what_is_no_tensor() -> None:
    for other in (1, [1.0], None):
        with pytest.raises(TypeError, match="argument 'other' must be Tensor"):
            rl.equal(rl.ones(1), other)
    with pytest.raises(TypeError, match="argument 'input' must be Tensor"):
        rl.equal(1, rl.ones(1))
    with pytest.raises(TypeError):
        rl.equal(rl.ones(1))
    assert rl.equal(input=rl.ones(2), other=rl.ones(2)) is True
