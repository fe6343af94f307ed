"""Pictures of the chapter on TorchScript: a loop in the graph, and what a saved module consists of."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable

from page_pictures import lines

import rushlight as torch
from rushlight import jit, nn

Say = Callable[[str, str], str]


def fibonacci(n: int) -> int:
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


def draw_loop(say: Say) -> str:
    text = str(jit.script(fibonacci).graph).splitlines()
    rows = [line.partition(" #")[0].rstrip() for line in text if line.strip()]
    remarks = {
        "prim::Loop": say("how often, whether to begin, first a and b", "循环次数、是否开始、a 和 b 的初值"),
        "block0": say("a round: its number, a and b of the last one", "一轮：序号，以及上一轮的 a 和 b"),
        "aten::add": say("the only arithmetic", "仅有的一次算术"),
        "->": say("whether to go on, the next a and b", "是否继续、下一轮的 a 和 b"),
        "return": say("what the loop gave", "循环的结果"),
    }
    told = [next((words for key, words in remarks.items() if key in row), "") for row in rows]
    hot = [number for number, row in enumerate(rows) if "block0" in row or "->" in row or "aten::add" in row]
    return lines(say("The loop of fibonacci in the graph", "fibonacci 的循环在图里的样子"),
                 list(zip(rows, told, strict=True)), hot)


def draw_file(say: Say) -> str:
    buffer = io.BytesIO()
    jit.save(jit.script(nn.Sequential(nn.Linear(4, 2), nn.ReLU())), buffer)
    archive = zipfile.ZipFile(io.BytesIO(buffer.getvalue()))
    kinds = [
        ("code/", say("functions, as text", "函数，以文本保存")),
        ("data.pkl", say("the table: which object has which parts", "表：哪个对象由哪些部分组成")),
        ("data/", say("a weight, raw bytes", "一份权重，原始字节")),
        ("constants", say("constants of the code", "代码里的常量")),
        ("version", say("of the format", "格式的版本")),
    ]
    rows = []
    for info in archive.infolist():
        name = info.filename.partition("/")[2]
        word = next((words for key, words in kinds if name.startswith(key)), None)
        if word and not name.endswith("debug_pkl"):
            rows.append((name, word))
    assert torch.jit is jit
    return lines(say("Inside a saved module", "保存下来的模块里有什么"), rows,
                 [number for number, (name, _) in enumerate(rows) if name.startswith("code/")])
