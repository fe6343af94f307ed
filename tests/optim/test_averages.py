"""swa_utils: averaged models, their schedule, and batch statistics, against PyTorch."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import rushlight as rl  # noqa: E402
import rushlight.optim  # noqa: E402

LIBRARIES = (torch, rl)


def model(library):
    nn = library.nn
    library.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))


def averaged(library, make) -> list:
    swa, net = library.optim.swa_utils, model(library)
    average = swa.AveragedModel(net, **make(swa))
    for step in range(4):
        with library.no_grad():
            for k, p in enumerate(net.parameters()):
                p.add_(0.1 * (step + 1) * (k + 1))
            net[1].running_mean.add_(0.5)
            net[1].num_batches_tracked.add_(3)
        average.update_parameters(net)
    return [t.detach().numpy() for t in (*average.parameters(), *average.buffers())]


@pytest.mark.parametrize("make", [
    lambda swa: {},
    lambda swa: {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.8)},
    lambda swa: {"multi_avg_fn": swa.get_swa_multi_avg_fn()},
    lambda swa: {"avg_fn": swa.get_ema_avg_fn(0.8)},
    lambda swa: {"avg_fn": swa.get_swa_avg_fn()},
    lambda swa: {"avg_fn": lambda a, p, n: 0.1 * a + 0.9 * p},
    lambda swa: {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.8), "use_buffers": True},
    lambda swa: {"avg_fn": swa.get_ema_avg_fn(0.5), "use_buffers": True},
])
def test_averaged_model(make) -> None:
    theirs, ours = (averaged(library, make) for library in LIBRARIES)
    assert len(theirs) == len(ours)
    for a, b in zip(theirs, ours, strict=True):
        assert a.shape == b.shape and abs(a - b).max() < 1e-5


def test_averaged_model_is_a_module_with_state() -> None:
    net = model(rl)
    average = rl.optim.swa_utils.AveragedModel(net)
    average.update_parameters(net)
    theirs = torch.optim.swa_utils.AveragedModel(model(torch))
    assert list(average.state_dict()) == list(theirs.state_dict())
    assert average(rl.randn(3, 4)).shape == (3, 2) and average.n_averaged.item() == 1
    with pytest.raises(AssertionError):
        rl.optim.swa_utils.AveragedModel(net, avg_fn=min, multi_avg_fn=min)
    for make in (rl.optim.swa_utils.get_ema_avg_fn, rl.optim.swa_utils.get_ema_multi_avg_fn):
        with pytest.raises(ValueError):
            make(1.5)


def test_update_bn() -> None:
    torch.manual_seed(1)
    batches = [torch.randn(16, 4) for _ in range(3)]
    nets = []
    for library in LIBRARIES:
        net = model(library).eval()
        data = [(b, None) if library is torch else (rl.tensor(b.numpy()), None) for b in batches]
        library.optim.swa_utils.update_bn(data, net)
        assert not net.training and net[1].momentum == 0.1
        nets.append(net)
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        a, b = (getattr(net[1], name).numpy() for net in nets)
        assert abs(a - b).max() < 1e-5
    rl.optim.swa_utils.update_bn([], rl.nn.Linear(2, 2))   # nothing to collect


@pytest.mark.parametrize("kwargs", [{}, {"anneal_strategy": "linear", "anneal_epochs": 3}, {"anneal_epochs": 0}])
def test_swalr(kwargs: dict) -> None:
    rates = []
    for library in LIBRARIES:
        ps = [library.nn.Parameter(library.zeros(2)) for _ in range(2)]
        optimizer = library.optim.SGD([{"params": ps[:1]}, {"params": ps[1:], "lr": 0.5}], lr=0.1)
        scheduler = library.optim.swa_utils.SWALR(optimizer, [0.05, 0.2], **kwargs)
        seen = []
        for _ in range(12):
            optimizer.step()
            scheduler.step()
            seen.append(scheduler.get_last_lr())
        other = library.optim.swa_utils.SWALR(optimizer, 0.3)
        other.load_state_dict(scheduler.state_dict())
        rates.append((seen, scheduler.state_dict(), other.state_dict()))
    assert rates[0] == rates[1]
    for library in LIBRARIES:
        optimizer = library.optim.SGD([library.nn.Parameter(library.zeros(2))])
        for bad in (
            {"anneal_strategy": "other"},
            {"anneal_epochs": -1},
            {"anneal_epochs": 1.5},
            {"swa_lr": [0.1, 0.2]},
        ):
            with pytest.raises(ValueError):
                library.optim.swa_utils.SWALR(optimizer, **{"swa_lr": 0.1, **bad})
