"""torchsde: stochastic differential equations solved and differentiated, directly and by the adjoint."""

from __future__ import annotations

import torch
import torchsde

NEEDS = "torchsde"
TOLERANCE = 1e-3


class Equation(torch.nn.Module):
    def __init__(self, noise_type: str, sde_type: str) -> None:
        super().__init__()
        self.noise_type, self.sde_type = noise_type, sde_type
        self.drift, self.spread = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

    def f(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.drift(y))

    def g(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        spread = torch.sigmoid(self.spread(y)) * 0.3
        return spread if self.noise_type == "diagonal" else spread.unsqueeze(-1) * torch.ones(2)


def solved(solver: object, noise_type: str, sde_type: str, method: str) -> dict:
    equation = Equation(noise_type, sde_type)
    start, times = torch.full((4, 3), 0.1, requires_grad=True), torch.linspace(0, 1, 5)
    motion = torchsde.BrownianInterval(t0=0.0, t1=1.0, size=(4, 3 if noise_type == "diagonal" else 2), entropy=7,
                                       levy_area_approximation="space-time" if method == "srk" else "none")
    path = solver(equation, start, times, bm=motion, method=method, dt=0.1)
    path[-1].square().sum().backward()
    return {"path": path, "start": start.grad, "norms": [p.grad.norm() for p in equation.parameters()]}


def case_euler() -> dict:
    return solved(torchsde.sdeint, "diagonal", "ito", "euler")


def case_milstein() -> dict:
    return solved(torchsde.sdeint, "diagonal", "ito", "milstein")


def case_stochastic_runge_kutta() -> dict:
    return solved(torchsde.sdeint, "diagonal", "ito", "srk")


def case_general_noise() -> dict:
    return solved(torchsde.sdeint, "general", "stratonovich", "midpoint")


def case_adjoint() -> dict:
    return solved(torchsde.sdeint_adjoint, "diagonal", "stratonovich", "midpoint")
