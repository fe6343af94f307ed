"""Pictures of the chapter on fx: a traced graph, and a rewrite before and after."""

from __future__ import annotations

from collections.abc import Callable

from page_pictures import graph, lines

import rushlight as torch
from rushlight import fx, nn

Say = Callable[[str, str], str]


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.full((4,), 0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.proj(x).relu()
        return torch.add(h * self.scale, 1.0)


def body(module: fx.GraphModule) -> list[str]:
    return [line.strip().partition(";")[0] for line in module.code.strip().splitlines()[1:] if line.strip()]


def draw_graph(say: Say) -> str:
    return graph(say("The graph of Gate", "Gate 的计算图"), fx.symbolic_trace(Gate()))


def draw_rewrite(say: Say) -> str:
    module = fx.symbolic_trace(Gate())
    before = body(module)
    fx.replace_pattern(module, lambda a, b: torch.add(a * b, 1.0),
                       lambda a, b: torch.addcmul(torch.ones_like(a), a, b))
    after = body(module)
    count = max(len(before), len(after))
    before, after = (side + [""] * (count - len(side)) for side in (before, after))
    hot = [number for number in range(count) if before[number] != after[number]]
    title = say("Before and after the rewrite", "改写之前（左）和之后（右）")
    return lines(title, list(zip(before, after, strict=True)), hot)
