"""Whole training steps in compiled functions: zero_grad, forward, backward and step, without a break."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as torch
from rushlight import nn, optim
from rushlight.optim import lr_scheduler

pytestmark = pytest.mark.share(2)   # of each test that has several cases

STEPS = 4


def made(kind: Any, **options: Any) -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    options = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in options.items()}     # schedulers write
    params = [p for p in model.parameters() if p.ndim == 2] if kind is optim.Muon else model.parameters()
    return model, kind(params, **options)


def compare(train: Callable, kind: Any, schedule: Callable | None = None, backend: str = "eager", compiles: int = 2,
            **options: Any) -> Any:
    """Run as it is and compiled; both must leave the same parameters, gradients and state."""
    torch.manual_seed(1)
    xs = [torch.randn(5, 4) for _ in range(STEPS)]
    found = []
    compiled = torch.compile(train, backend=backend, fullgraph=True)
    for run in (train, compiled):
        model, optimizer = made(kind, **options)
        scheduler = None if schedule is None else schedule(optimizer)
        results = []
        for x in xs:
            results.append(train_once(run, model, optimizer, x))
            if scheduler is not None:
                scheduler.step()
        state = [{k: v.clone() for k, v in optimizer.state.get(p, {}).items() if isinstance(v, torch.Tensor)}
                 for p in model.parameters()]
        found.append((results, [p.detach().clone() for p in model.parameters()],
                      [p.grad if p.grad is None else p.grad.clone() for p in model.parameters()], state))
    torch.testing.assert_close(found[1], found[0])
    assert len(compiled.on_miss.__self__.trees) <= compiles
    return compiled


def train_once(run: Callable, model: nn.Module, optimizer: Any, x: Any) -> Any:
    result = run(model, optimizer, x)
    return result.detach().clone() if isinstance(result, torch.Tensor) else result


def train(model: nn.Module, optimizer: Any, x: Any) -> Any:
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss


OPTIMIZERS = [
    (optim.SGD, {"lr": 0.1}), (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}), (optim.Adam, {}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.1}), (optim.AdamW, {"amsgrad": True}),
    (optim.Adam, {"lr": torch.tensor(0.01)}), (optim.Adam, {"fused": True}), (optim.Adam, {"foreach": True}),
    (optim.RMSprop, {"momentum": 0.5, "centered": True}), (optim.Adagrad, {}), (optim.Adadelta, {}),
    (optim.Adamax, {}), (optim.NAdam, {}), (optim.RAdam, {}), (optim.ASGD, {}), (optim.Rprop, {}), (optim.Muon, {}),
]


@pytest.mark.parametrize(("kind", "options"), OPTIMIZERS, ids=lambda v: v.__name__ if isinstance(v, type) else "")
def test_whole_steps(kind: Any, options: dict) -> None:
    compare(train, kind, **options)


def peeking(model: nn.Module, optimizer: Any, x: Any) -> Any:
    train(model, optimizer, x)
    return sum(p.detach().sum() for p in model.parameters())      # behind the step: the update has to be in the graph


@pytest.mark.share(2)
@pytest.mark.parametrize(("kind", "options"), OPTIMIZERS, ids=lambda v: v.__name__ if isinstance(v, type) else "")
def test_parameters_that_are_read_behind_the_step(kind: Any, options: dict) -> None:
    compare(peeking, kind, **options)


@pytest.mark.parametrize("kind", [optim.SGD, optim.AdamW])
def test_by_the_inductor(kind: Any) -> None:
    compare(train, kind, backend="inductor")
    compare(peeking, kind, backend="inductor")


@pytest.mark.parametrize("lr", [0.1, torch.tensor(0.1)], ids=["float", "tensor"])
def test_new_learning_rates_compile_nothing(lr: Any) -> None:
    compare(train, optim.Adam, lambda o: lr_scheduler.StepLR(o, 1, 0.5), lr=lr)


def test_gradients_dropped_behind_the_step() -> None:
    def run(model: nn.Module, optimizer: Any, x: Any) -> Any:
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    compare(run, optim.Adam)


def test_gradients_filled_with_zeros_behind_the_step() -> None:
    def run(model: nn.Module, optimizer: Any, x: Any) -> Any:
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    compare(run, optim.Adam, compiles=3)


def test_two_steps_in_one_call() -> None:
    def run(model: nn.Module, optimizer: Any, x: Any) -> Any:
        return train(model, optimizer, x) + train(model, optimizer, x + 1)

    compare(run, optim.Adam)
    compare(run, optim.SGD, momentum=0.9)


def test_options_written_around_the_step() -> None:
    def run(model: nn.Module, optimizer: Any, x: Any) -> Any:
        optimizer.param_groups[0]["lr"] = 0.5
        loss = train(model, optimizer, x)
        optimizer.param_groups[0]["lr"] = 0.25
        return loss

    compare(run, optim.SGD, compiles=3)


def test_state_that_is_read_behind_the_step() -> None:
    def run(model: nn.Module, optimizer: Any, x: Any) -> Any:
        train(model, optimizer, x)
        return sum(optimizer.state[p]["exp_avg"].sum() for p in model.parameters())

    compare(run, optim.Adam)


def test_a_closure() -> None:
    def run(model: nn.Module, optimizer: Any, x: Any) -> Any:
        def closure() -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss

        return optimizer.step(closure)

    compare(run, optim.AdamW)


def test_a_break_behind_the_step() -> None:
    def run(model: nn.Module, optimizer: Any, x: Any) -> Any:
        loss = train(model, optimizer, x)
        torch._dynamo.graph_break()
        return loss.detach() + model(x).sum().detach()

    torch.manual_seed(1)
    x = torch.randn(5, 4)
    results = []
    for f in (run, torch.compile(run, backend="eager")):
        model, optimizer = made(optim.Adam)
        results.append([f(model, optimizer, x) for _ in range(3)])
    torch.testing.assert_close(results[1], results[0])


def test_another_optimizer_for_the_same_function() -> None:
    f = torch.compile(train, backend="eager")
    torch.manual_seed(1)
    x = torch.randn(5, 4)
    for kind in (optim.SGD, optim.Adam, optim.SGD):
        model, optimizer = made(kind)
        expected, reference = made(kind)
        for _ in range(2):
            torch.testing.assert_close(f(model, optimizer, x).detach(), train(expected, reference, x).detach())
        torch.testing.assert_close(list(model.parameters()), list(expected.parameters()))


class Lion(optim.Optimizer):
    """An optimizer as programs write them."""

    def __init__(self, params: Any, lr: float = 1e-2) -> None:
        super().__init__(params, {"lr": lr, "beta": 0.9})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["mean"] = torch.zeros_like(p)
                state["mean"].mul_(group["beta"]).add_(p.grad, alpha=1 - group["beta"])
                p.add_(state["mean"].sign(), alpha=-group["lr"])


def test_an_optimizer_written_in_python() -> None:
    compare(train, Lion)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("layers", [1, 9])      # few norms, and as many as are gathered on the host outside of graphs
def test_clipped_steps(backend: str, layers: int) -> None:
    def step(model: nn.Module, optimizer: Any, x: Any) -> Any:
        optimizer.zero_grad()
        model(x).square().sum().backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        return norm

    found = []
    for run in (step, torch.compile(step, backend=backend, fullgraph=True)):
        torch.manual_seed(0)
        model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(layers)))
        optimizer = optim.SGD(model.parameters(), 0.5)
        norms = [run(model, optimizer, torch.randn(5, 4)) for _ in range(3)]
        found.append((norms, [p.detach() for p in model.parameters()], [p.grad for p in model.parameters()]))
    torch.testing.assert_close(found[1], found[0])
