"""Pictures of the chapter on compiling: a captured graph, bytes moved, and where a graph ends."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
from collections.abc import Callable

from page_pictures import bars, graph, lines

import rushlight as torch

Say = Callable[[str, str], str]


def curve(x: torch.Tensor) -> torch.Tensor:
    return (x * x.sigmoid() + 1).square().sum(-1)


def talkative(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    print("the sum is", y.sum().item())
    return y.sin() + 1


def draw_graph(say: Say) -> str:
    captured = torch._dynamo.explain(curve)(torch.ones(4, 4)).graphs[0]
    return graph(say("The graph of curve", "curve 的计算图"), captured, label=lambda node: node.name)


def draw_bytes(say: Say) -> str:
    told = io.StringIO()
    torch.compiler.reset()
    torch._logging.set_logs(inductor_metrics=True)
    with contextlib.redirect_stderr(told):
        torch.compile(curve)(torch.ones(512, 512))
    torch._logging.set_logs()
    fused = int(re.search(r"num_bytes_accessed: (\d+)", told.getvalue())[1])
    whole, rows = 512 * 512 * 4, 512 * 4
    single = 2 * whole + 3 * whole + 2 * whole + 2 * whole + whole + rows
    unit = say("bytes", "字节")
    return bars(
        say("Bytes moved by curve, 512 × 512 floats", "curve 搬运的字节数，512 × 512 个浮点数"),
        [
            (say("op by op", "逐个执行"), single, f"{single:,} {unit}"),
            (say("compiled", "编译后"), fused, f"{fused:,} {unit}"),
        ],
        hot=(1,),
    )


def draw_break(say: Say) -> str:
    seen = torch._dynamo.explain(talkative)(torch.ones(3))
    source, first = inspect.getsourcelines(talkative)
    broken = int(re.search(r":(\d+) in", seen.break_reasons[0].user_stack[0])[1]) - first
    ops = [
        ", ".join(n.name for n in g.graph.nodes if n.op.startswith("call")) for g in seen.graphs
    ]
    remarks = {
        broken - 1: say(f"graph 1: {ops[0]}", f"第 1 张图：{ops[0]}"),
        broken: say("Python needs an element: the graph ends", "Python 要用元素的值：图到此为止"),
        broken + 1: say(f"graph 2: {ops[1]}", f"第 2 张图：{ops[1]}"),
    }
    rows = [(line.rstrip(), remarks.get(number, "")) for number, line in enumerate(source)]
    return lines(say("Where a graph ends", "图在哪里断开"), rows, hot=(broken,))
