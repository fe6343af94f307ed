"""Pictures of the chapter on lazy tensors: what is written down, and the way of a step."""

from __future__ import annotations

import re
from collections.abc import Callable

from page_pictures import boxes

import rushlight as torch
from rushlight import lazy
from rushlight.lazy import debug, metrics

Say = Callable[[str, str], str]


def draw_graph(say: Say) -> str:
    x = torch.arange(6.0).reshape(2, 3).to("lazy")
    y = (x * 2 + 1).relu().sum(1)
    text = debug.render_ir_graph([y])
    nodes = {"input0": "x|float32[2, 3]"}
    nodes |= {name: label.replace(r"\n", "|") for name, label in re.findall(r'(node\d+) \[label="([^"]+)"\]', text)}
    edges = [(a, b) for a, b in re.findall(r"(\w+) -> (\w+)", text) if a in nodes and b in nodes]
    return boxes(say("Written down, not computed", "已经记下，尚未计算"), nodes, edges, {"input0": "PowderBlue"})


def draw_step(say: Say) -> str:
    metrics.reset()
    for length in (2, 3, 2):
        kept = (torch.ones(length).to("lazy") * 3).sin()
        lazy.mark_step()
        assert kept.shape == (length,)
    new, known = metrics.counter_value("UncachedCompile"), metrics.counter_value("CachedCompile")
    times = say("times", "次")
    nodes = {
        "calls": say("Python calls:|written down", "Python 调用：|记下来"),
        "mark": "mark_step()",
        "hash": say("hash of the structure", "结构的哈希"),
        "compile": say(f"new: compile|lengths 2, 3, 2: {new} {times}", f"没见过：编译|长度 2、3、2：{new} {times}"),
        "cache": say(f"known: take it|lengths 2, 3, 2: {known} {times}",
                     f"见过：直接取用|长度 2、3、2：{known} {times}"),
        "run": say("run", "运行"),
    }
    edges = [("calls", "mark"), ("mark", "hash"), ("hash", "compile"), ("hash", "cache"), ("compile", "run"),
             ("cache", "run")]
    return boxes(say("The way of a step", "一步的经过"), nodes, edges, {"compile": "Salmon", "cache": "DarkSeaGreen1"})
