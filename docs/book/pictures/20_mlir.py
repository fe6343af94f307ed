"""Pictures of the chapter on MLIR: the maps of a generic operation, and the languages down to instructions."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

from page_pictures import boxes

import rushlight as torch
from rushlight import mlir

Say = Callable[[str, str], str]


def score(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (x * w.exp()).sum(-1)


def exported(dialect: str) -> str:
    return mlir.export(score, (torch.ones(2, 3), torch.ones(3)), dialect=dialect).text(locations=False)


def draw_maps(say: Say) -> str:
    product = next(line for line in exported("linalg").splitlines() if line.count("affine_map") == 3)
    maps = re.findall(r"affine_map<\(d0, d1\) -> \(([^)]*)\)>", product)
    assert maps == ["d0, d1", "d1", "d0, d1"]
    names = ("x", "exp(w)", say("result", "结果"))
    nodes = {
        "d0": say("loop d0: 2 rounds", "循环 d0：2 次"),
        "d1": say("loop d1: 3 rounds", "循环 d1：3 次"),
    }
    edges = []
    for name, places in zip(names, maps, strict=True):
        nodes[name] = f"{name} [{places}]"
        edges += [(loop, name) for loop in places.split(", ")]
    title = say("Where the product reads and writes", "乘积在哪里读、在哪里写")
    return boxes(title, nodes, edges, {"exp(w)": "Khaki1"})


def draw_levels(say: Say) -> str:
    operation = re.compile(r"^ +(?:%\w+ = )?\"?(?:torch|stablehlo|linalg|math|arith|tensor)\.", re.M)
    count = {dialect: len(operation.findall(exported(dialect))) for dialect in ("torch", "stablehlo", "linalg")}
    nodes = {
        "torch": say(f"torch: {count['torch']} operations|PyTorch's names and arguments",
                     f"torch：{count['torch']} 个操作|PyTorch 的名字和参数"),
        "stablehlo": say(f"stablehlo: {count['stablehlo']} operations|few operations, broadcasting said",
                         f"stablehlo：{count['stablehlo']} 个操作|操作种类少，广播写明"),
        "linalg": say(f"linalg, math, arith: {count['linalg']} operations|loops, maps and bodies, no order",
                      f"linalg、math、arith：{count['linalg']} 个操作|循环、映射和循环体，没有次序"),
        "loops": say("scf, memref|order, memory", "scf、memref|次序，内存"),
        "llvm": say("llvm|blocks, jumps, pointers", "llvm|基本块、跳转、指针"),
        "asm": say("instructions|registers", "机器指令|寄存器"),
    }
    order = list(nodes)
    colors = {"linalg": "Khaki1"}
    return boxes(say("What each language has decided", "每种语言定下了什么"), nodes, list(pairwise(order)), colors)
