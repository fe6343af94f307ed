"""A kernel that meets a bad index writes it down; the error is raised when its stream is waited for, and names the op."""

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
    made = table().index_select(0, index(0, 7))
    with pytest.raises(IndexError, match="index_select.*7"):
        WAITS[wait](made)
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
