"""torchdiffeq: several solvers, the adjoint method, events."""

from __future__ import annotations

import torch
from torchdiffeq import odeint, odeint_adjoint, odeint_event

NEEDS = "torchdiffeq"


class Field(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))

    def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.net(y) - y


def solved(solver: object, method: str) -> dict:
    field, start = Field(), torch.randn(3, 2, requires_grad=True)
    path = solver(
        field,
        start,
        torch.linspace(0, 1, 5),
        method=method,
        **({"options": {"step_size": 0.1}} if method in ("rk4", "euler") else {}),
    )
    path.square().mean().backward()
    return {"path": path, "start": start.grad, "grads": [p.grad for p in field.parameters()]}


def case_dopri5() -> dict:
    return solved(odeint, "dopri5")


def case_rk4() -> dict:
    return solved(odeint, "rk4")


def case_adams() -> dict:
    return solved(odeint, "implicit_adams")


def case_adjoint() -> dict:
    return solved(odeint_adjoint, "dopri5")


def case_event() -> dict:
    time, states = odeint_event(
        lambda t, y: torch.stack([y[1], torch.tensor(-9.8)]),
        torch.tensor([10.0, 0.0]),
        torch.tensor(0.0),
        event_fn=lambda t, y: y[0],
        odeint_interface=odeint,
    )
    return {"time": time, "states": states}
