"""Pictures of the chapter on Dynamo: instructions and what becomes of them, and guards."""

from __future__ import annotations

import dis
from collections.abc import Callable
from itertools import pairwise

from page_pictures import boxes, lines

import rushlight as torch

Say = Callable[[str, str], str]


def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    y = x * factor
    return y.relu()


def draw_bytecode(say: Say) -> str:
    """Only what instructions of all supported versions of Python have in common: loads, the product, the call."""
    captured = torch._dynamo.explain(scaled)(torch.ones(3), 2.0).graphs[0]
    mul, relu = (node for node in captured.graph.nodes if node.op == "call_function")
    there = {i.opname for i in dis.get_instructions(scaled)}
    assert "BINARY_OP" in there
    rows = [
        ("LOAD_FAST x", say("push a fake: float32[3], no elements", "压入假张量：float32[3]，没有元素")),
        ("LOAD_FAST factor", say("push 2.0 and write a guard", "压入 2.0，并记一条守卫")),
        ("BINARY_OP *", say(f"a node of the graph: {mul.name}", f"图里的节点：{mul.name}")),
        ("STORE_FAST y", say("keep the fake as y", "把得到的假张量存为 y")),
        ("LOAD_FAST y", say("push it again", "再压入栈")),
        ("CALL relu", say(f"a node of the graph: {relu.name}", f"图里的节点：{relu.name}")),
        ("RETURN_VALUE", say("end: the graph is handed to the backend", "结束：把图交给后端")),
    ]
    return lines(say("The instructions of scaled(x, 2.0)", "scaled(x, 2.0) 的指令"), rows, hot=(2, 5))


def draw_guards(say: Say) -> str:
    guards = [g.partition("    #")[0] for g in torch._dynamo.explain(scaled)(torch.ones(3), 2.0).out_guards]
    names = [g.partition("(")[0] if g.startswith("modes") else g for g in guards]
    nodes = {"call": say("a call", "一次调用")} | {f"g{i}": name for i, name in enumerate(names)}
    nodes |= {"run": say("all hold:|run the compiled code", "全部成立：|运行编译好的代码"),
              "again": say("one fails:|capture again", "有一条不成立：|重新捕获")}
    chain = ["call", *(f"g{i}" for i in range(len(names)))]
    edges = [*pairwise(chain), (chain[-1], "run"), (chain[-1], "again")]
    return boxes(say("What is asked before a call", "调用之前要问的问题"), nodes, edges,
                 {"run": "DarkSeaGreen1", "again": "Salmon"})
