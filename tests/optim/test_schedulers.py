"""Schedulers, step for step against PyTorch: rates, groups, state dicts, warnings and errors."""

from __future__ import annotations

import copy
import pickle
import warnings

import pytest

torch = pytest.importorskip("torch")

import rushlight as rl  # noqa: E402
import rushlight.optim  # noqa: E402

LIBRARIES = (torch, rl)


class Factor:
    """A callable whose attributes are saved."""

    def __init__(self, base: float) -> None:
        self.base = base

    def __call__(self, step: int) -> float:
        return self.base**step


MADE = {
    "lambda": lambda S, o: S.LambdaLR(o, lambda step: 0.95**step),
    "lambda per group": lambda S, o: S.LambdaLR(o, [Factor(0.9), lambda step: 1 / (1 + step)]),
    "multiplicative": lambda S, o: S.MultiplicativeLR(o, lambda step: 0.95),
    "step": lambda S, o: S.StepLR(o, 3),
    "multi step": lambda S, o: S.MultiStepLR(o, [2, 5, 5, 9]),
    "constant": lambda S, o: S.ConstantLR(o),
    "linear": lambda S, o: S.LinearLR(o, 0.25, 0.9, 7),
    "exponential": lambda S, o: S.ExponentialLR(o, 0.9),
    "polynomial": lambda S, o: S.PolynomialLR(o, 8, 2.0),
    "cosine": lambda S, o: S.CosineAnnealingLR(o, 5, 0.01),
    "restarts": lambda S, o: S.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
    "cyclic": lambda S, o: S.CyclicLR(o, 0.01, [0.1, 0.3], 4, 3),
    "cyclic 2": lambda S, o: S.CyclicLR(o, 0.01, 0.1, 4, mode="triangular2"),
    "cyclic exp": lambda S, o: S.CyclicLR(o, 0.01, 0.1, 4, mode="exp_range", gamma=0.9),
    "cyclic function": lambda S, o: S.CyclicLR(o, 0.01, 0.1, 4, scale_fn=Factor(0.9), scale_mode="iterations"),
    "one cycle": lambda S, o: S.OneCycleLR(o, [0.1, 0.2], total_steps=30),
    "one cycle in three": lambda S, o: S.OneCycleLR(
        o, 0.1, epochs=10, steps_per_epoch=3, three_phase=True, anneal_strategy="linear"
    ),
    "sequential": lambda S, o: S.SequentialLR(
        o, [S.ConstantLR(o, 0.1, 4), S.ExponentialLR(o, 0.9), S.StepLR(o, 2)], [4, 10]
    ),
    "nested": lambda S, o: S.ChainedScheduler(
        [S.SequentialLR(o, [S.LinearLR(o), S.StepLR(o, 2)], [3]), S.ExponentialLR(o, 0.9)]
    ),
    "chained": lambda S, o: S.ChainedScheduler([S.ConstantLR(o, 0.1, 4), S.ExponentialLR(o, 0.9)], optimizer=o),
}
FOR_EPOCHS = (
    "step",
    "multi step",
    "constant",
    "linear",
    "exponential",
    "polynomial",
    "cosine",
    "restarts",
    "lambda",
    "cyclic",
)


def optimizer(library, name: str = "SGD", lr=0.1):
    ps = [library.nn.Parameter(library.zeros(2)), library.nn.Parameter(library.zeros(3))]
    more = {"momentum": 0.9} if name == "SGD" else {}
    return getattr(library.optim, name)([{"params": [ps[0]]}, {"params": [ps[1]], "lr": 0.5}], lr=lr, **more)


def options(optimizer) -> list[dict]:
    return [
        {k: float(v) if hasattr(v, "item") else v for k, v in group.items() if k != "params"}
        for group in optimizer.param_groups
    ]


@pytest.mark.parametrize("name", ["SGD", "Adam"])
@pytest.mark.parametrize("kind", MADE)
def test_rates_and_state(kind: str, name: str) -> None:
    a, b = (optimizer(library, name) for library in LIBRARIES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x, y = (MADE[kind](library.optim.lr_scheduler, o) for library, o in zip(LIBRARIES, (a, b), strict=True))
        for _ in range(25):
            assert x.get_last_lr() == y.get_last_lr()
            assert options(a) == options(b)
            for thing in (a, b, x, y):
                thing.step()
        assert x.state_dict() == y.state_dict()


@pytest.mark.parametrize("kind", FOR_EPOCHS)
def test_explicit_epochs(kind: str) -> None:
    a, b = (optimizer(library) for library in LIBRARIES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x, y = (MADE[kind](library.optim.lr_scheduler, o) for library, o in zip(LIBRARIES, (a, b), strict=True))
        for epoch in (3, 7, 2, 11):
            x.step(epoch)
            y.step(epoch)
            assert x.get_last_lr() == y.get_last_lr()


@pytest.mark.parametrize("kind", MADE)
def test_resuming_from_a_state_dict(kind: str) -> None:
    if kind in ("multiplicative",):
        pytest.skip("its rates come from the optimizer's own")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first, second = optimizer(rl), optimizer(rl)
        a, b = (MADE[kind](rl.optim.lr_scheduler, o) for o in (first, second))
        for _ in range(6):
            first.step()
            a.step()
        b.load_state_dict(pickle.loads(pickle.dumps(a.state_dict())))
        second.load_state_dict(copy.deepcopy(first.state_dict()))
        for _ in range(8):
            a.step()
            b.step()
            assert a.get_last_lr() == b.get_last_lr()


@pytest.mark.parametrize("kind", ["step", "cosine", "linear", "exponential", "cyclic", "one cycle", "sequential"])
def test_rates_that_are_tensors_change_in_place(kind: str) -> None:
    lr = rl.tensor(0.1)
    a, b = optimizer(rl, lr=lr), optimizer(rl)
    x, y = (MADE[kind](rl.optim.lr_scheduler, o) for o in (a, b))
    for _ in range(8):
        for thing in (a, b, x, y):
            thing.step()
        assert a.param_groups[0]["lr"] is lr
        assert float(lr) == pytest.approx(b.param_groups[0]["lr"], rel=1e-5)
        assert float(x.get_last_lr()[0]) == pytest.approx(y.get_last_lr()[0], rel=1e-5)


@pytest.mark.parametrize("kwargs",
    [{}, {"mode": "max"}, {"threshold_mode": "abs", "threshold": 0.05}, {"cooldown": 2, "factor": 0.5},
     {"min_lr": [0.01, 0.2]}, {"mode": "max", "threshold_mode": "abs"}])
def test_plateau(kwargs: dict) -> None:
    a, b = (optimizer(library) for library in LIBRARIES)
    x, y = (
        library.optim.lr_scheduler.ReduceLROnPlateau(o, patience=1, **kwargs)
        for library, o in zip(LIBRARIES, (a, b), strict=True)
    )
    for metric in (1.0, 0.9, 0.95, 0.95, 0.95, 0.94, 0.95, 0.2, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3):
        x.step(metric)
        y.step(rl.tensor(metric))
        assert x.get_last_lr() == y.get_last_lr() and options(a) == options(b)
    state = x.state_dict()
    assert {k: v for k, v in state.items() if k != "best"} == {k: v for k, v in y.state_dict().items() if k != "best"}


def test_wrong_order_of_steps_warns() -> None:
    o = optimizer(rl)
    scheduler = rl.optim.lr_scheduler.StepLR(o, 3)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        scheduler.step()
    o = optimizer(rl)
    scheduler = rl.optim.lr_scheduler.StepLR(o, 3)
    o.step = lambda *args: None
    with pytest.warns(UserWarning, match="overridden"):
        scheduler.step()
    with pytest.warns(UserWarning, match="get_last_lr"):
        scheduler.get_lr()
    with pytest.warns(UserWarning, match="epoch parameter"):
        scheduler.step(4)
    o = optimizer(rl)
    scheduler = rl.optim.lr_scheduler.StepLR(o, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        o.step()
        scheduler.step()


@pytest.mark.parametrize(("make", "error"), [
    (lambda S, o: S.StepLR("no optimizer", 3), TypeError),
    (lambda S, o: S.StepLR(o, 3, last_epoch=2), KeyError),
    (lambda S, o: S.LambdaLR(o, [lambda step: 1]), ValueError),
    (lambda S, o: S.MultiplicativeLR(o, [1, 2]), TypeError),
    (lambda S, o: S.ConstantLR(o, 2.0), ValueError),
    (lambda S, o: S.LinearLR(o, 0.0), ValueError),
    (lambda S, o: S.LinearLR(o, 1.0, 2.0), ValueError),
    (lambda S, o: S.CosineAnnealingWarmRestarts(o, 0), ValueError),
    (lambda S, o: S.CosineAnnealingWarmRestarts(o, 1, 0), ValueError),
    (lambda S, o: S.CosineAnnealingWarmRestarts(o, 3).step(-1), ValueError),
    (lambda S, o: S.CyclicLR(o, 0.1, 0.2, mode="other"), ValueError),
    (lambda S, o: S.CyclicLR(o, [0.1], 0.2), ValueError),
    (lambda S, o: S.OneCycleLR(o, 0.1), ValueError),
    (lambda S, o: S.OneCycleLR(o, 0.1, total_steps=-1), ValueError),
    (lambda S, o: S.OneCycleLR(o, 0.1, total_steps=10, pct_start=3), ValueError),
    (lambda S, o: S.OneCycleLR(o, 0.1, total_steps=10, anneal_strategy="other"), ValueError),
    (lambda S, o: [s.step() for s in [S.OneCycleLR(o, 0.1, total_steps=2)] for _ in range(4)], ValueError),
    (lambda S, o: S.SequentialLR(o, [], []), ValueError),
    (lambda S, o: S.SequentialLR(o, [S.StepLR(o, 3)], [1]), ValueError),
    (lambda S, o: S.SequentialLR(o, [S.ReduceLROnPlateau(o)], []), ValueError),
    (lambda S, o: S.ChainedScheduler([]), ValueError),
    (lambda S, o: S.ReduceLROnPlateau(o, factor=1.0), ValueError),
    (lambda S, o: S.ReduceLROnPlateau(o, mode="other"), ValueError),
    (lambda S, o: S.ReduceLROnPlateau(o, min_lr=[0.1]), ValueError),
])
def test_refused(make, error) -> None:
    for library in LIBRARIES:
        with pytest.raises(error), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            make(library.optim.lr_scheduler, optimizer(library))


def test_schedulers_written_outside() -> None:
    class Halving(rl.optim.lr_scheduler._LRScheduler):
        def get_lr(self):
            return [base * 0.5**self.last_epoch for base in self.base_lrs]

    o = optimizer(rl)
    scheduler = Halving(o)
    o.step()
    scheduler.step()
    assert scheduler.get_last_lr() == [0.05, 0.25] and isinstance(scheduler, rl.optim.lr_scheduler.LRScheduler)
