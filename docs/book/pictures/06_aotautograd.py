"""Pictures of the chapter on AOTAutograd: a write that became values, and bytes that are saved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from page_pictures import bars, graph

import rushlight as torch
from rushlight.aot.compile_graph import AotConfig
from rushlight.aot.min_cut import min_cut_rematerialization_partition
from rushlight.aot.partition import default_partition
from rushlight.func import functionalize
from rushlight.functorch.compile import make_boxed_func
from rushlight.fx.experimental.proxy_tensor import make_fx

Say = Callable[[str, str], str]


def writes(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[0].add_(1)
    return y * 2


def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    h = x @ w
    h.mul_(2.0)
    return (h * h.sigmoid() + 1).square().sum(-1)


class Stages:
    """A backend that keeps the two graphs."""

    def __init__(self, partition: Any) -> None:
        self.partition, self.graphs = partition, []

    @property
    def aot_config(self) -> AotConfig:
        return AotConfig(self.compile, self.compile, partition=self.partition)

    def compile(self, graph: Any, examples: Any) -> Any:
        self.graphs.append(graph)
        return make_boxed_func(graph.forward)

    def __call__(self, graph: Any, examples: Any) -> Any:
        raise AssertionError("the two graphs are asked for instead")


def saved_bytes(partition: Any) -> int:
    torch.compiler.reset()
    stages = Stages(partition)
    x, w = torch.ones(64, 16), torch.ones(16, 32, requires_grad=True)
    torch.compile(program, backend=stages)(x, w).sum().backward()
    forward, backward = stages.graphs
    sizes = {n.name: n.meta["val"].numel() * 4 for n in forward.graph.nodes if hasattr(n.meta.get("val"), "numel")}
    return sum(sizes.get(n.name, 0) for n in backward.graph.find_nodes(op="placeholder"))


def draw_functional(say: Say) -> str:
    made = make_fx(functionalize(writes))(torch.ones(3))
    return graph(say("y[0].add_(1), as values", "y[0].add_(1) 换成值之后"), made, label=lambda node: node.name,
                 colors={"select_scatter": "Khaki1"})


def draw_saved(say: Say) -> str:
    rows = [(say("simple rule", "简单规则"), saved_bytes(default_partition)),
            (say("minimum cut", "最小割"), saved_bytes(min_cut_rematerialization_partition))]
    unit = say("bytes", "字节")
    return bars(say("Saved for the backward of program", "为 program 的反向保存的字节数"),
                [(name, value, f"{value:,} {unit}") for name, value in rows], hot=(1,))
