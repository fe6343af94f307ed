"""Pictures of the chapter on a new chip: the path of an operation, and what a step of training asks of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples" / "device_package"))

import rushlight_tally  # noqa: F401 - registers the device
from page_pictures import bars, boxes

import rushlight as torch

Say = Callable[[str, str], str]


def draw_path(say: Say) -> str:
    tally = torch.tally
    tally.counts.clear()
    x = torch.ones(2, 3).to("tally")
    (x * 2).sum(), x @ x.t()
    assert tally.counts["kernels launched"] and tally.counts["matrix products"]
    nodes = {
        "op": say("an operation on the chip", "芯片上的一个运算"),
        "nest": say("its kind: a loop nest", "由种类给出：循环嵌套"),
        "own": say("implementation(op)|a routine of the chip", "implementation(op)|芯片自带的例程"),
        "host": say("neither: the host computes|and a warning says so", "都没有：由主机计算|并给出警告"),
        "load": "load(nest)",
        "launch": "launch(handle, ...)",
        "memory": say("memory of the chip", "芯片的内存"),
    }
    edges = [("op", "nest"), ("op", "own"), ("op", "host"), ("nest", "load"), ("load", "launch"), ("launch", "memory"),
             ("own", "memory"), ("host", "memory")]
    colors = {"own": "Khaki1", "host": "Salmon", "launch": "DarkSeaGreen1"}
    return boxes(say("Who computes", "由谁来算"), nodes, edges, colors)


def draw_counts(say: Say) -> str:
    tally = torch.tally
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).to("tally")
    inputs, targets = torch.randn(64, 4).to("tally"), torch.randn(64, 1).to("tally")
    tally.counts.clear()
    torch.nn.functional.mse_loss(model(inputs), targets).backward()
    words = {
        "matrix products": say("matrix products", "矩阵乘法"),
        "bytes to the host": say("bytes to the host", "送往主机的字节"),
    }
    rows = [(words[name], tally.counts[name], str(tally.counts[name])) for name in words]
    return bars(say("One forward and backward, as the chip saw it", "一次前向加反向，从芯片的角度看"), rows, hot=(1,))
