"""Pictures of the chapter on choosing: what each way makes of three programs, and a decision tree."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from page_pictures import boxes, grid

import rushlight as torch
from rushlight import fx, nn

Say = Callable[[str, str], str]


class Wrapped(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def choose(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        return x * 2
    return x - 1


def once_per_row(x: torch.Tensor) -> torch.Tensor:
    total = x.sum() * 0
    for row in range(x.shape[0]):
        total = total + row * x[row].sum()
    return total


def pythonic(x: torch.Tensor) -> torch.Tensor:
    import math

    settings = {"scale": math.pi}
    return x * settings["scale"]


WAYS: dict[str, Any] = {
    "trace": lambda f, example: torch.jit.trace(f, example),
    "script": lambda f, example: torch.jit.script(f),
    "fx": lambda f, example: fx.symbolic_trace(f),
    "lazy": lambda f, example: lambda x: f(x.to("lazy")).cpu(),
    "export": lambda f, example: torch.export.export(Wrapped(f), (example,)).module(),
    "compile": lambda f, example: torch.compile(f),
}
TRIALS = [
    (choose, torch.ones(3), -torch.arange(1.0, 4.0)),
    (once_per_row, torch.ones(2, 3), torch.ones(5, 3)),
    (pythonic, torch.ones(3), torch.arange(3.0)),
]


def verdict(way: str, function: Any, example: torch.Tensor, other: torch.Tensor) -> str:
    try:
        result = WAYS[way](function, example)(other)
    except Exception:  # a refusal, of whatever type
        return "refused"
    expected = function(other)
    return "right" if result.shape == expected.shape and torch.allclose(result, expected) else "wrong"


def draw_verdicts(say: Say) -> str:
    warnings.simplefilter("ignore")
    words = {"right": say("right", "正确"), "wrong": say("WRONG", "错误"), "refused": say("refused", "拒绝")}
    found = [[verdict(way, *trial) for trial in TRIALS] for way in WAYS]
    head = [trial[0].__name__ for trial in TRIALS]
    return grid(
        say("Captured with one example, called with another", "用一个例子捕获，换一个输入调用"),
        [head, *([words[answer] for answer in row] for row in found)],
        hot=lambda i, j: i > 0 and found[i - 1][j] == "wrong",
        side=["", *WAYS],
    )


def draw_tree(say: Say) -> str:
    nodes = {
        "leave": say("leaves this process?", "要离开这个进程？"),
        "elements": say("control flow|over elements?", "控制流要看|元素的值？"),
        "change": say("to be changed?", "要改动模型？"),
        "script": "script, cond",
        "export": "export",
        "fx": "fx",
        "device": say("device with|its own compiler?", "设备自带|编译器？"),
        "lazy": say("lazy tensors", "惰性张量"),
        "compile": "compile",
    }
    edges = [("leave", "elements"), ("leave", "change"), ("elements", "script"), ("elements", "export"),
             ("change", "fx"), ("change", "device"), ("device", "lazy"), ("device", "compile")]
    answers = ("script", "export", "fx", "lazy", "compile")
    note = say("A decision: yes to the left, no to the right", "怎么决定：左边为是，右边为否")
    return boxes(note, nodes, edges, dict.fromkeys(answers, "DarkSeaGreen1"))
