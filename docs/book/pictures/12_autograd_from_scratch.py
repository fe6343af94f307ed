"""Pictures of the chapter on autograd: the tape of a small loss, and nodes against paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from page_pictures import boxes
from page_plots import Axis, Curve, plot

import rushlight as torch

Say = Callable[[str, str], str]


def draw_tape(say: Say) -> str:
    rows = torch.ones(8, 3)
    first, second = torch.ones(3, 5, requires_grad=True), torch.ones(5, 1, requires_grad=True)
    leaves = {"first": first, "second": second}
    out = (rows @ first).tanh() @ second
    told: dict[str, str] = {}
    edges: list[tuple[str, str]] = []
    names: dict[Any, str] = {}

    def visit(node: Any) -> str:
        if node in names:
            return names[node]
        name = names[node] = f"n{len(names)}"
        told[name] = node.name().rpartition(":")[2]
        told[name] += "".join(f"|{word}" for word, leaf in leaves.items() if getattr(node, "variable", None) is leaf)
        for parent, _ in node.next_functions:
            if parent is not None:
                edges.append((name, visit(parent)))
        return name

    visit((out * out).sum().grad_fn)
    green = {name: "DarkSeaGreen1" for name, label in told.items() if label.startswith("AccumulateGrad|")}
    assert len(green) == 2
    title = say("The tape of the loss, as backward walks it", "损失的磁带，箭头是反向走的方向")
    return boxes(title, told, edges, green)


def draw_paths(say: Say) -> str:
    nodes, paths = [], []
    y = torch.ones((), requires_grad=True)
    counts = {y.grad_fn: 1}
    for depth in range(1, 17):
        y = y + y
        counts[y.grad_fn] = 1 + sum(counts.get(parent, 1) for parent, _ in y.grad_fn.next_functions)
        nodes.append((float(depth), float(depth + 1)))
        paths.append((float(depth), float(counts[y.grad_fn])))
    assert paths[-1][1] == 2**17 - 1
    return plot(
        say("Visits for a chain of doublings y = y + y", "连续翻倍 y = y + y 时的访问次数"),
        [Curve(say("along all paths", "沿所有路径"), paths), Curve(say("each node once", "每个节点一次"), nodes)],
        Axis(say("doublings", "翻倍次数"), 1, 16, range(2, 17, 2)),
        Axis(say("visits, logarithmic", "访问次数（对数）"), 1, 200000, [1, 10, 100, 1000, 10000, 100000], log=True),
    )
