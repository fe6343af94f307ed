"""Uneven inputs: processes with less data answer those with more, and all end with the same model as in PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as rl
from rushlight import distributed as dist, nn
from rushlight.distributed.algorithms import Join, Joinable, JoinHook

from .parity import both, part
from .processes import Raised, results_of, run


def _net(lib: Any) -> Any:
    lib.manual_seed(3)
    return lib.nn.Sequential(lib.nn.Linear(6, 12), lib.nn.BatchNorm1d(12), lib.nn.Tanh(), lib.nn.Linear(12, 2))


def uneven(lib: Any, rank: int, size: int, by_all: bool, with_zero: bool) -> list[Any]:
    """Rank r has r + 2 batches."""
    joined = part(lib, "distributed.algorithms.join").Join
    model = lib.nn.parallel.DistributedDataParallel(_net(lib), bucket_cap_mb=0.0005)
    if with_zero:
        zero = part(lib, "distributed.optim").ZeroRedundancyOptimizer
        optimizer = zero(model.parameters(), lib.optim.SGD, lr=0.1, momentum=0.9)
        context = joined([model, optimizer], divide_by_initial_world_size=by_all)
    else:
        optimizer = lib.optim.SGD(model.parameters(), lr=0.1)
        context = model.join(divide_by_initial_world_size=by_all)
    losses = []
    with context:
        for step in range(rank + 2):
            lib.manual_seed(10 * step + rank)
            optimizer.zero_grad()
            loss = model(lib.randn(5, 6)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return [losses, *[t.detach().flatten().tolist() for t in model.state_dict().values()]]


@pytest.mark.share(3)
@pytest.mark.slow
@pytest.mark.parametrize("by_all, with_zero", [(True, False), (False, False), (True, True)])
def test_uneven_inputs_train_as_in_pytorch(by_all: bool, with_zero: bool) -> None:
    mine, theirs = both(3, uneven, by_all, with_zero)
    for a, b in zip(mine, theirs, strict=True):
        for x, y in zip(a, b, strict=True):
            rl.testing.assert_close(rl.tensor(x), rl.tensor(y), atol=2e-5, rtol=2e-5)
    assert mine[0][1:] == mine[1][1:] == mine[2][1:]


def stops(rank: int, size: int) -> str:
    model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
    with model.join(throw_on_early_termination=True):
        for _ in range(rank + 1):
            model(rl.ones(1, 2)).sum().backward()
    return "not an error"


def test_all_stop_when_one_has_no_data() -> None:
    for result in run(2, stops):
        assert isinstance(result, Raised) and "throw_on_early_termination" in result.text, result


class Counter(Joinable):
    """Adds up what processes with data say."""

    def __init__(self) -> None:
        super().__init__()
        self.total, self.last = rl.zeros(1), None

    def add(self, value: float) -> None:
        Join.notify_join_context(self)
        term = rl.tensor([value])
        dist.all_reduce(term)
        self.total += term

    def join_hook(self, **kwargs: Any) -> JoinHook:
        return Answers(self, kwargs.get("bonus", 0.0))

    @property
    def join_device(self) -> Any:
        return rl.device("cpu")

    @property
    def join_process_group(self) -> Any:
        return dist.group.WORLD


class Answers(JoinHook):
    def __init__(self, counter: Counter, bonus: float) -> None:
        self.counter, self.bonus = counter, bonus

    def main_hook(self) -> None:
        term = rl.tensor([self.bonus])
        dist.all_reduce(term)
        self.counter.total += term

    def post_hook(self, is_last_joiner: bool) -> None:
        self.counter.last = is_last_joiner


def counts(rank: int, size: int) -> tuple[float, bool | None]:
    counter = Counter()
    with Join([counter], bonus=100.0):
        for _ in range(rank + 1):
            counter.add(1.0)
    with Join([counter], enable=False):
        counter.add(1.0)
    with pytest.raises(ValueError, match="empty"):
        Join([])
    return counter.total.item(), counter.last


def test_programs_may_join_their_own_classes() -> None:
    # Steps: both add (2), then rank 1 adds and rank 0 answers (101); outside a context both add once more (2).
    assert results_of(run(2, counts)) == [(105.0, False), (105.0, True)]
