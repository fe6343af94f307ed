"""Pictures of the chapter on the first hour: a fit in two systems of units, and a ring as a network sees it."""

from __future__ import annotations

from collections.abc import Callable

from page_pictures import grid
from page_plots import Axis, Curve, plot

import rushlight as torch

Say = Callable[[str, str], str]
CELSIUS = [90.4, 80.1, 72.5, 64.8, 59.3, 53.2, 49.4, 45.0, 41.5, 39.2, 36.1, 34.5, 32.3, 30.9, 29.2]


def cooling(p: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    return p[0] + p[1] * (-p[2] * t).exp()


def descend(start: list[float], t: torch.Tensor, y: torch.Tensor, rate: float) -> torch.Tensor:
    p = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    for _ in range(3000):
        (cooling(p, t) - y).square().mean().backward()
        with torch.no_grad():
            p -= rate * p.grad
        p.grad = None
    return p.detach()


def draw_fit(say: Say) -> str:
    t, y = torch.arange(0, 30, 2, dtype=torch.float64), torch.tensor(CELSIUS, dtype=torch.float64)
    raw = descend([20.0, 60.0, 0.1], t, y, 1e-5)
    scaled = descend([0.2, 0.6, 3.0], t / 30, y / 90, 0.5) * torch.tensor([90, 90, 1 / 30])
    fine = torch.arange(0, 30, 0.5, dtype=torch.float64)

    def curve(label: str, p: torch.Tensor) -> Curve:
        return Curve(label, list(zip(fine.tolist(), cooling(p, fine).tolist(), strict=True)))

    return plot(
        say("Tea, and two fits of 3,000 steps", "茶的温度，以及两次各走 3000 步的拟合"),
        [
            curve(say("raw units", "原来的单位"), raw),
            curve(say("scaled units", "换过单位"), scaled),
            Curve(say("readings", "读数"), list(zip(t.tolist(), y.tolist(), strict=True)), dots=True),
        ],
        Axis(say("minutes", "分钟"), 0, 30, range(0, 31, 5)),
        Axis("°C", 20, 95, range(20, 91, 10)),
    )


def draw_ring(say: Say) -> str:
    torch.manual_seed(0)
    points = (torch.rand(600, 2) * 4 - 2).double()
    inside = ((points.norm(dim=1) > 0.7) & (points.norm(dim=1) < 1.5)).double()
    nn = torch.nn
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(300):
        optimizer.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(model(points).squeeze(1), inside).backward()
        optimizer.step()
    places = [k * 0.5 - 2 for k in range(9)]
    with torch.no_grad():
        table = model(torch.tensor([[x, -y] for y in places for x in places], dtype=torch.float64)) > 0
    rows = table.reshape(9, 9).long().tolist()
    return grid(
        say("What the network says, from -2 to 2", "网络的回答，横竖都从 -2 到 2"),
        [[str(value) for value in row] for row in rows],
        hot=lambda row, column: rows[row][column] == 1,
        side=[f"{-y:g}" for y in places],
    )
