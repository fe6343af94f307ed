"""A kernel that meets a bad index writes it down; the error is raised when its stream is waited for,
and names the op."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight import _C
from rushlight.devices import register

from .reference_device import ReferenceDevice


class Watched(ReferenceDevice):
    """Counts the copies that would each be a round trip on a real chip."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.copies = 0

    def copy_to_host(self, target: int, source: int, nbytes: int, index: int) -> None:
        self.copies += 1
        super().copy_to_host(target, source, nbytes, index)


DEVICE = Watched("flagdev")
register(DEVICE)
WAITS = {
    "item": lambda t: t.sum().item(),
    "cpu": lambda t: t.cpu(),
    "tolist": lambda t: t.tolist(),
    "synchronize": lambda t: _C.synchronize(t.device),
}


def table():
    return torch.arange(9.0).reshape(3, 3).to("flagdev")


def index(*values: int):
    return torch.tensor(values).to("flagdev")


@pytest.mark.parametrize("wait", WAITS)
def test_a_bad_index_is_raised_where_the_result_is_waited_for(wait):
    result = table().index_select(0, index(0, 7))
    with pytest.raises(IndexError, match="index_select.*7"):
        WAITS[wait](result)
    assert (table() + 1).sum().item() == 45   # said once, and the device goes on


def test_good_indices_cost_no_copies():
    t, at = table(), index(2, 1)
    t.index_select(0, at)
    before = DEVICE.copies
    for _ in range(20):
        t = t.index_select(0, at).gather(1, torch.zeros(2, 3, dtype=torch.int64, device="flagdev")).repeat(2, 1)
    assert DEVICE.copies == before
    assert t.shape == (4, 3) and t.cpu()[0, 0].item() in range(9)


def test_the_first_failure_is_named():
    t = table()
    t.index_select(0, index(0, 1))
    t.gather(1, index(5, 1, 2).view(1, 3))
    t.index_select(0, index(9))
    with pytest.raises((IndexError, RuntimeError), match="gather.*5"):
        _C.synchronize(t.device)
    _C.synchronize(t.device)


def test_more_checks_than_cells_are_read_in_between():
    t, at = table(), index(1)
    for _ in range(1500):
        t.index_select(0, at)
    t.index_select(0, index(4))
    with pytest.raises(IndexError, match="index_select.*4"):
        t.cpu()


def test_the_host_raises_at_once():
    with pytest.raises(IndexError, match="index_select"):
        torch.ones(3).index_select(0, torch.tensor([7]))


DIVISIONS = {
    "floor_divide": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
    "fmod": torch.fmod,
    "div": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
}


@pytest.mark.parametrize("name", DIVISIONS)
def test_division_by_a_zero_on_the_device_is_raised_where_it_is_waited_for(name):
    a, b = index(7, 8, 9), index(2, 0, 4)
    result = DIVISIONS[name](a, b)
    with pytest.raises(RuntimeError, match=f"ZeroDivisionError: {name}"):
        result.tolist()
    assert DIVISIONS[name](a, index(2, 3, 4)).tolist() == DIVISIONS[name](a.cpu(), torch.tensor([2, 3, 4])).tolist()
    a.floor_divide_(index(1, 1, 0).view(3))
    with pytest.raises(RuntimeError, match="ZeroDivisionError: floor_divide_"):
        a.cpu()


def test_division_costs_no_copies():
    a, b = index(7, 8, 9), index(2, 3, 4)
    a // b
    before = DEVICE.copies
    for _ in range(10):
        a // b
        a % b.view(3, 1)
    assert DEVICE.copies == before


def test_division_by_the_number_0_is_raised_at_once():
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        index(1, 2) // 0
    assert (index(1, 2).to(torch.float32) // 0).cpu().isinf().all()


def test_a_broadcast_and_a_strided_divisor_are_looked_at():
    a = torch.arange(24, device="flagdev").reshape(2, 3, 4)
    b = torch.tensor([[1, 0], [2, 3], [4, 5]]).to("flagdev")
    assert (a // b[:, :1]).cpu().tolist() == (a.cpu() // b.cpu()[:, :1]).tolist()
    with pytest.raises(RuntimeError, match="divided by 0"):
        (a // b[:, 1:]).cpu()
