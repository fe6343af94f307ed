"""ZeroRedundancyOptimizer: the same training as one optimizer of all parameters, with its state spread."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.distributed.algorithms.ddp_comm_hooks import ddp_zero_hook, default_hooks
from rushlight.distributed.optim import ZeroRedundancyOptimizer as Zero

from .processes import results_of, run

DDP = nn.parallel.DistributedDataParallel


def _net() -> Any:
    rl.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3))


def _pass(model: Any, step: int, rank: int, size: int) -> None:
    x = rl.randn(4 * size, 6, generator=rl.Generator().manual_seed(step))
    if isinstance(model, DDP):
        x = x[4 * rank : 4 * rank + 4]
    model(x).square().mean().backward()


def trains(rank: int, size: int, options: dict[str, Any]) -> str:
    alone = _net()
    together = DDP(_net())
    by_group = [{"params": list(alone[0].parameters()), "lr": 0.01}, {"params": list(alone[2:].parameters())}]
    inner = together.module
    same_groups = [{"params": list(inner[0].parameters()), "lr": 0.01}, {"params": list(inner[2:].parameters())}]
    plain = rl.optim.AdamW(by_group, lr=0.05)
    zero = Zero(same_groups, rl.optim.AdamW, lr=0.05, **options)
    scheduler = [rl.optim.lr_scheduler.StepLR(o, 2, 0.5) for o in (plain, zero)]
    for step in range(4):
        for model, optimizer in ((alone, plain), (together, zero)):
            optimizer.zero_grad()
            _pass(model, step, rank, size)
            optimizer.step()
        for s in scheduler:
            s.step()
        for a, b in zip(alone.parameters(), together.parameters(), strict=True):
            rl.testing.assert_close(a, b)
    held = sum(t.numel() for s in zero.optim.state.values() for t in s.values())
    assert 0 < held < 0.7 * sum(t.numel() for s in plain.state.values() for t in s.values())
    with pytest.raises(RuntimeError, match="consolidate_state_dict"):
        zero.state_dict()
    zero.consolidate_state_dict(to=1)
    if rank == 1:
        a, b = plain.state_dict(), zero.state_dict()
        assert a["param_groups"] == b["param_groups"]
        assert list(a["state"]) == list(b["state"])
        rl.testing.assert_close([a["state"][i]["exp_avg"] for i in a["state"]],
                                [b["state"][i]["exp_avg"] for i in b["state"]])
    zero.load_state_dict(copy.deepcopy(plain.state_dict()))
    for model, optimizer in ((alone, plain), (together, zero)):
        optimizer.zero_grad()
        _pass(model, 9, rank, size)
        optimizer.step()
    rl.testing.assert_close(list(alone.parameters()), list(together.parameters()))
    return "done"


@pytest.mark.parametrize("options", [{}, {"parameters_as_bucket_view": True}], ids=["plain", "bucket_view"])
def test_training_and_state_equal_one_optimizer(options: dict[str, Any]) -> None:
    assert results_of(run(2, trains, options)) == ["done"] * 2


def grows(rank: int, size: int) -> str:
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    with rl.no_grad():
        for p in [*first.parameters(), *second.parameters()]:
            p.fill_(1.0)
    zero = Zero(first.parameters(), rl.optim.SGD, lr=0.5)
    zero.add_param_group({"params": second.parameters(), "lr": 0.25})
    for p in [*first.parameters(), *second.parameters()]:
        p.grad = rl.ones_like(p)
    zero.step()
    assert {p[0].mean().item() for p in first.parameters()} == {0.5}
    assert {p[0].mean().item() for p in second.parameters()} == {0.75}
    return "done"


def test_groups_can_be_added() -> None:
    assert results_of(run(2, grows)) == ["done"] * 2


def overlapped(rank: int, size: int) -> str:
    """PyTorch refuses these hooks on the CPU; as there, the first two passes change nothing."""
    for hook in (ddp_zero_hook.hook_with_zero_step, ddp_zero_hook.hook_with_zero_step_interleaved):
        for shards in (False, True):
            alone, together = _net(), DDP(_net(), bucket_cap_mb=0.0004, gradient_as_bucket_view=shards)
            assert len(together.reducer.buckets) > 2
            plain = rl.optim.AdamW(alone.parameters(), lr=0.1)
            zero = Zero(together.parameters(), rl.optim.AdamW, overlap_with_ddp=True, lr=0.1)
            together.register_comm_hook(None, hook(default_hooks.allreduce_hook, together, zero, shards))
            for step in range(6):
                for model, optimizer in ((alone, plain), (together, zero)):
                    optimizer.zero_grad()
                    _pass(model, step, rank, size)
                    if model is together or step >= 2:
                        optimizer.step()
                rl.testing.assert_close(list(alone.parameters()), list(together.parameters()))
            assert 0 < len(zero.optim.state) < len(plain.state)
    return "done"


def test_steps_inside_the_backward_pass() -> None:
    assert results_of(run(2, overlapped)) == ["done"] * 2


def refuses(rank: int, size: int) -> str:
    p = nn.Parameter(rl.ones(2))
    half = nn.Parameter(rl.ones(2).half())
    for params, error, words in (
        (p, TypeError, "iterable"), ([], ValueError, "no parameters"), ([1], TypeError, "int"),
        ([p, half], ValueError, "one dtype"), ([{"lr": 1.0}], ValueError, "'params'"),
    ):
        with pytest.raises(error, match=words):
            Zero(params, rl.optim.SGD, lr=0.1)
    model = DDP(nn.Linear(2, 1))
    late = Zero(model.parameters(), rl.optim.SGD, overlap_with_ddp=True, lr=0.1)
    with pytest.raises(RuntimeError, match="first passes"):
        late.consolidate_state_dict()
    with pytest.raises(ValueError, match="overlap_with_ddp=True"):
        ddp_zero_hook.hook_with_zero_step(default_hooks.allreduce_hook, model, Zero([p], rl.optim.SGD, lr=0.1))
    return "done"


def test_bad_arguments() -> None:
    assert results_of(run(1, refuses)) == ["done"]
