"""Sizes whose product does not fit 64 bits: refused everywhere, whether or not the elements would take memory."""

import pytest

import rushlight as rl

BIG, HUGE = 2**33, 2**62
F = rl.nn.functional
CALLS = {
    "expand": lambda: rl.zeros(1).expand(BIG, BIG),
    "broadcast_to": lambda: rl.broadcast_to(rl.zeros(1), (BIG, BIG)),
    "unfold": lambda: rl.zeros(1).expand(2**40).unfold(0, 2**39, 1),
    "as_strided": lambda: rl.zeros(4).as_strided((BIG, BIG), (0, 0)),
    "as_strided far": lambda: rl.zeros(4).as_strided((2,), (HUGE,)),
    "as_strided offset": lambda: rl.zeros(4).as_strided((1,), (1,), HUGE),
    "set_": lambda: rl.zeros(2).set_(rl.zeros(2).untyped_storage(), 0, (BIG, BIG), (0, 0)),
    "resize_": lambda: rl.zeros(2).resize_(BIG, BIG),
    "empty": lambda: rl.empty(2**40, 2**40),
    "empty meta": lambda: rl.empty(2**40, 2**40, device="meta"),
    "empty bytes": lambda: rl.empty(HUGE, dtype=rl.float64, device="meta"),
    "empty_strided": lambda: rl.empty_strided((2, 2), (HUGE, HUGE)),
    "new_empty": lambda: rl.zeros(2).new_empty((BIG, BIG)),
    "full": lambda: rl.full((BIG, BIG), 1.0),
    "eye": lambda: rl.eye(BIG, BIG),
    "arange": lambda: rl.arange(0, 2**63 - 1),
    "arange of floats": lambda: rl.arange(0, 1e300),
    "arange in tiny steps": lambda: rl.arange(0, 1, 1e-300),
    "linspace": lambda: rl.linspace(0, 1, HUGE),
    "repeat": lambda: rl.zeros(2).repeat(BIG, BIG),
    "tile": lambda: rl.zeros(1).tile(BIG, BIG),
    "repeat_interleave": lambda: rl.zeros(4).repeat_interleave(HUGE),
    "pad": lambda: F.pad(rl.zeros(2), (HUGE, HUGE)),
    "one_hot": lambda: F.one_hot(rl.tensor([1]), HUGE),
    "meshgrid": lambda: rl.meshgrid(rl.zeros(1).expand(BIG), rl.zeros(1).expand(BIG), indexing="ij"),
    "outer": lambda: rl.outer(rl.zeros(1).expand(BIG), rl.zeros(1).expand(BIG)),
    "outer meta": lambda: rl.outer(rl.zeros(BIG, device="meta"), rl.zeros(BIG, device="meta")),
    "mm meta": lambda: rl.mm(rl.zeros(BIG, 1, device="meta"), rl.zeros(1, BIG, device="meta")),
    "add": lambda: rl.zeros(1).expand(2**32).unsqueeze(0) + rl.zeros(1).expand(2**32).unsqueeze(1),
    "storage": lambda: rl.UntypedStorage(HUGE),
    "randperm": lambda: rl.randperm(HUGE),
}


@pytest.mark.parametrize("name", CALLS)
def test_too_many_elements_are_refused(name):
    with pytest.raises(RuntimeError):
        CALLS[name]()


def test_many_elements_that_can_be_counted_are_fine():
    assert rl.zeros(1).expand(2**31, 2**31).numel() == 2**62
    assert rl.zeros(0, 2**31, 2**31).numel() == 0
    assert rl.zeros(1).expand(2**40).view(2**20, 2**20).flatten().numel() == 2**40
