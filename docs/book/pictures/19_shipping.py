"""Pictures of the chapter on shipping: requests in batches, and what a program becomes for each target."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from page_pictures import boxes, lanes

import rushlight as torch
from rushlight import nn
from rushlight.freestanding import aot_compile

Say = Callable[[str, str], str]
ARRIVALS, SINGLE, BATCH, WAIT = (0, 1, 2, 9, 10, 11), 5, 6, 3      # a batch of three takes little longer than one


def draw_batches(say: Say) -> str:
    free = 0
    alone = []
    for number, arrived in enumerate(ARRIVALS):
        start = max(free, arrived)
        free = start + SINGLE
        alone.append((start, free, f"{number}"))
    free = 0
    grouped = []
    for first in (0, 3):
        start = max(free, ARRIVALS[first] + WAIT)
        free = start + BATCH
        grouped.append((start, free, f"{first} {first + 1} {first + 2}"))
    arriving = [(at, at + 0.5, f"{number}") for number, at in enumerate(ARRIVALS)]
    title = say(f"Six requests; one takes {SINGLE} ms, a batch of three {BATCH} ms and a wait of {WAIT} ms",
                f"六个请求；单独处理要 {SINGLE} ms，三个一批要 {BATCH} ms，再加等待 {WAIT} ms")
    rows = [
        (say("arrive", "到达"), arriving),
        (say("one by one", "逐个处理"), alone),
        (say("batches", "成批处理"), grouped),
    ]
    return lanes(title, rows, say("time →", "时间 →"))


def draw_targets(say: Say) -> str:
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2)).eval()
    nodes = {"program": say("the exported program", "导出的程序"), "compile": "aot_compile"}
    words = {"wasm32": say("for a browser", "给浏览器"), "aarch64": say("for a phone", "给手机"),
             "riscv64": say("for a small board", "给小板子")}
    edges = [("program", "compile")]
    with tempfile.TemporaryDirectory() as folder:
        for target, word in words.items():
            place = Path(folder, target)
            aot_compile(model, (torch.ones(1, 2, 2),), name="net", target=target, folder=str(place), link=False)
            nodes[target] = f"{word}: {target}|" + "|".join(sorted(os.listdir(place)))
            edges.append(("compile", target))
    return boxes(say("One program, three machines", "一个程序，三种机器"), nodes, edges, {"compile": "Khaki1"})
