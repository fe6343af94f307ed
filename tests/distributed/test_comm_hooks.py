"""Communication hooks: with each of them a model learns step by step what PyTorch's learns with the same hook."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.distributed.algorithms.ddp_comm_hooks import DDPCommHookType, powerSGD_hook as power
from rushlight.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from rushlight.distributed.algorithms.model_averaging.hierarchical_model_averager import HierarchicalModelAverager

from .parity import both, part
from .processes import results_of, run


def _net(lib: Any) -> Any:
    lib.manual_seed(3)
    return lib.nn.Sequential(
        lib.nn.Linear(20, 24), lib.nn.Tanh(), lib.nn.Linear(24, 24), lib.nn.Tanh(), lib.nn.Linear(24, 5)
    )


def _train(lib: Any, rank: int, register: Any, steps: int = 6, averager: Any = None) -> list[Any]:
    """Losses, then parameters, of a few steps with a hook."""
    model = lib.nn.parallel.DistributedDataParallel(_net(lib))
    register(model)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    losses = []
    for step in range(steps):
        lib.manual_seed(100 * step + rank)
        x, y = lib.randn(8, 20), lib.randint(0, 5, (8,))
        optimizer.zero_grad()
        loss = lib.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        if averager is not None:
            averager.average_parameters(model.parameters())
        losses.append(loss.item())
    return [losses, *[p.detach().flatten().tolist() for p in model.parameters()]]


def by_name(lib: Any, rank: int, size: int, names: list[str]) -> dict[str, Any]:
    hooks = part(lib, "distributed.algorithms.ddp_comm_hooks")
    return {
        name: _train(lib, rank, lambda m, n=name: hooks.register_ddp_comm_hook(hooks.DDPCommHookType[n], m))
        for name in names
    }


def half(rank: int, size: int) -> list[float]:
    """PyTorch has these on accelerators only: they are compared with the plain mean."""
    names = ["BF16_COMPRESS", "QUANTIZE_PER_TENSOR", "QUANTIZE_PER_CHANNEL"]
    trained = by_name(rl, rank, size, ["ALLREDUCE", *names])
    for name in names:
        for a, b in zip(trained["ALLREDUCE"], trained[name], strict=True):
            assert a != b
            rl.testing.assert_close(rl.tensor(a), rl.tensor(b), atol=2e-2, rtol=2e-2)
    return [values for name in names for values in trained[name][1:]]


def test_compressed_gradients_are_near_the_plain_mean() -> None:
    first, second = results_of(run(2, half))
    assert first == second


def power_sgd(lib: Any, rank: int, size: int) -> dict[str, Any]:
    hooks = part(lib, "distributed.algorithms.ddp_comm_hooks.powerSGD_hook")
    default = part(lib, "distributed.algorithms.ddp_comm_hooks.default_hooks")
    results = {}
    for name, options in {
        "rank1": {}, "rank2 epsilon": {"matrix_approximation_rank": 2, "orthogonalization_epsilon": 1e-3},
        "rank3": {"matrix_approximation_rank": 3, "min_compression_rate": 1.0},
        "together": {"batch_tensors_with_same_shape": True, "random_seed": 7},
        "cold": {"warm_start": False, "use_error_feedback": False, "start_powerSGD_iter": 1},
    }.items():
        state = hooks.PowerSGDState(None, **{"start_powerSGD_iter": 2, **options})
        results[name] = _train(lib, rank, lambda m, s=state: m.register_comm_hook(s, hooks.powerSGD_hook), 8)
        results[name].append(list(state.compression_stats()))
    state = hooks.PowerSGDState(None, start_powerSGD_iter=2)
    wrapped = default.fp16_compress_wrapper(hooks.powerSGD_hook)
    results["half"] = _train(lib, rank, lambda m: m.register_comm_hook(state, wrapped), 4)[:1]
    return results


def post_local(lib: Any, rank: int, size: int) -> dict[str, Any]:
    hooks = part(lib, "distributed.algorithms.ddp_comm_hooks.post_localSGD_hook")
    averagers = part(lib, "distributed.algorithms.model_averaging.averagers")
    optim = part(lib, "distributed.optim")
    group, _ = lib.distributed.new_subgroups(1)
    results = {}
    for name, reduce_within in {"within": True, "alone": False}.items():
        state = hooks.PostLocalSGDState(None, group, 2, post_local_gradient_allreduce=reduce_within)
        averager = averagers.PeriodicModelAverager(period=3, warmup_steps=2)
        results[name] = _train(
            lib, rank, lambda m, s=state: m.register_comm_hook(s, hooks.post_localSGD_hook), 6, averager
        )
    model = _net(lib)
    averager = averagers.PeriodicModelAverager(period=2, warmup_steps=1)
    optimizer = optim.PostLocalSGDOptimizer(lib.optim.SGD(model.parameters(), lr=0.1), averager)
    for step in range(5):
        lib.manual_seed(10 * step + rank)
        optimizer.zero_grad()
        model(lib.randn(4, 20)).square().sum().backward()
        optimizer.step()
    saved = optimizer.state_dict()
    optimizer.load_state_dict(saved)
    values = [p.detach().flatten().tolist() for p in model.parameters()]
    results["optimizer"] = [[saved["step"], averager.step], *values]
    return results


def compare(outcome: tuple[list[Any], list[Any]], tolerances: dict[str, float]) -> None:
    for rank, (mine, theirs) in enumerate(zip(*outcome, strict=True)):
        assert mine.keys() == theirs.keys()
        for name, values in mine.items():
            for place, (a, b) in enumerate(zip(values, theirs[name], strict=True)):
                tolerance = tolerances.get(name, 2e-5)
                rl.testing.assert_close(
                    rl.tensor(a), rl.tensor(b), atol=tolerance, rtol=tolerance,
                    msg=lambda text, at=(rank, name, place): f"rank, hook, place {at}: {text}",
                )


@pytest.mark.share(2, "ranks against PyTorch")
@pytest.mark.slow
def test_hooks_by_name_train_as_in_pytorch() -> None:
    compare(both(2, by_name, ["ALLREDUCE", "FP16_COMPRESS", "NOOP"]), {"FP16_COMPRESS": 2e-3})


@pytest.mark.share(2, "ranks against PyTorch")
@pytest.mark.slow
def test_power_sgd_trains_as_in_pytorch() -> None:
    compare(both(2, power_sgd), {"half": 5e-3, "rank1": 1e-4, "rank3": 1e-4, "rank2 epsilon": 1e-4, "cold": 1e-4})


@pytest.mark.share(2, "ranks against PyTorch")
@pytest.mark.slow
def test_post_local_sgd_trains_as_in_pytorch() -> None:
    compare(both(2, post_local), {})


def batched(rank: int, size: int) -> list[float]:
    """A gradient that is a square matrix of rank 1 goes through whole."""
    model = nn.parallel.DistributedDataParallel(nn.Linear(16, 16, bias=False))
    state = power.PowerSGDState(None, start_powerSGD_iter=2)
    model.register_comm_hook(state, power.batched_powerSGD_hook)
    x = rl.linspace(-1, 1, 16).view(1, 16)
    for _ in range(4):
        model.zero_grad()
        (model(x * (rank + 1)) * rl.arange(16.0)).sum().backward()
    rl.testing.assert_close(model.module.weight.grad, rl.arange(16.0).view(16, 1) * x * 1.5)
    rate, before, after = state.compression_stats()
    assert (rate, before, after) == (8.0, 512, 64)
    return [rate]


def test_batched_power_sgd_of_a_matrix_of_rank_one_is_exact() -> None:
    assert results_of(run(2, batched)) == [[8.0]] * 2


def averages(rank: int, size: int) -> str:
    """Pairs average every second step, all four every fourth."""
    p = nn.Parameter(rl.zeros(2))
    averager = HierarchicalModelAverager({2: 2, 4: 4}, warmup_steps=1)
    seen = []
    for _ in range(5):
        p.data.fill_(float(rank))
        p.grad = rl.ones(2)
        averager.average_parameters([p])
        seen.append(p[0].item())
    pair = 0.5 if rank < 2 else 2.5
    assert seen == [rank, rank, pair, rank, 1.5], seen
    for bad in ({}, {0: 4}, {2: 2}):
        with pytest.raises(ValueError, match="HierarchicalModelAverager"):
            HierarchicalModelAverager(bad)
    p.grad = None
    p.data.fill_(float(rank))
    PeriodicModelAverager(2).average_parameters([p])        # without a gradient it takes no part
    assert p[0].item() == rank
    return "done"


def test_hierarchical_averages() -> None:
    assert results_of(run(4, averages)) == ["done"] * 4


def test_bad_states_are_refused() -> None:
    with pytest.raises(ValueError, match="start_powerSGD_iter must be at least 2"):
        power.PowerSGDState(None, start_powerSGD_iter=1)
    with pytest.raises(ValueError, match="must be positive"):
        power.PowerSGDState(None, matrix_approximation_rank=0)
    assert {t.name for t in DDPCommHookType} >= {"ALLREDUCE", "POWER_SGD_RANK2", "BATCHED_POWER_SGD", "NOOP"}
