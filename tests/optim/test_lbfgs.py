"""L-BFGS on problems with an answer, against PyTorch."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import rushlight as rl  # noqa: E402
import rushlight.optim  # noqa: E402

LIBRARIES = (torch, rl)


def rosenbrock(library, x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def minimise(library, kwargs: dict, steps: int = 4, lr=None):
    x = library.tensor([-1.2, 1.0, 0.5, -0.3], dtype=library.float64, requires_grad=True)
    y = library.tensor([0.5 + 0.2j, -1j], dtype=library.complex128, requires_grad=True)
    kwargs = dict(kwargs, **({} if lr is None else {"lr": library.tensor(lr)}))
    optimizer, losses = library.optim.LBFGS([x, y], **kwargs), []

    def closure():
        optimizer.zero_grad()
        loss = rosenbrock(library, x) + (y - 1).abs().pow(2).sum()
        loss.backward()
        return loss

    for _ in range(steps):
        losses.append(float(optimizer.step(closure)))
    return x, optimizer, losses


@pytest.mark.parametrize("kwargs",
    [{"lr": 0.1}, {"line_search_fn": "strong_wolfe"}, {"lr": 0.01, "history_size": 2, "max_iter": 7},
     {"line_search_fn": "strong_wolfe", "max_eval": 9}, {"lr": 0.05, "tolerance_grad": 10.0}])
def test_same_path(kwargs: dict) -> None:
    (a, oa, la), (b, ob, lb) = (minimise(library, kwargs, 3) for library in LIBRARIES)
    assert la == pytest.approx(lb, rel=1e-7)
    assert a.detach().numpy() == pytest.approx(b.detach().numpy(), rel=1e-6)
    theirs, ours = oa.state_dict()["state"][0], ob.state_dict()["state"][0]
    assert set(theirs) == set(ours)
    for key in ("func_evals", "n_iter"):
        assert theirs[key] == ours[key]
    assert theirs["d"].numpy() == pytest.approx(ours["d"].numpy(), rel=1e-4, abs=1e-6)


def test_finds_the_minimum() -> None:
    x, _, losses = minimise(rl, {"line_search_fn": "strong_wolfe", "max_iter": 40}, 5)
    # From this start, the local minimum of Rosenbrock's function in four dimensions.
    assert losses[-1] == pytest.approx(3.70142861) and float(x.grad.abs().max()) < 1e-2


def test_rate_as_tensor() -> None:
    assert minimise(rl, {}, 3, lr=0.1)[2] == pytest.approx(minimise(torch, {}, 3, lr=0.1)[2], rel=1e-5)


def test_state_continues() -> None:
    _, optimizer, _ = minimise(rl, {"lr": 0.1}, 2)
    saved = optimizer.state_dict()
    other = rl.optim.LBFGS(optimizer.param_groups[0]["params"])
    other.load_state_dict(saved)
    assert other.state_dict()["state"][0]["n_iter"] == saved["state"][0]["n_iter"] == 40


def test_refused() -> None:
    ps = [rl.zeros(2, requires_grad=True), rl.zeros(2, requires_grad=True)]
    with pytest.raises(ValueError, match="parameter groups"):
        rl.optim.LBFGS([{"params": ps[:1]}, {"params": ps[1:]}])
    with pytest.raises(ValueError):
        rl.optim.LBFGS(ps, lr=-1.0)
    with pytest.raises(TypeError):
        rl.optim.LBFGS(ps).step()
    with pytest.raises(RuntimeError, match="strong_wolfe"):
        minimise(rl, {"line_search_fn": "other"})
