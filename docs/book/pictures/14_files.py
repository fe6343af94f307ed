"""Pictures of the chapter on files: the records of a checkpoint, and a write that is seen at any moment."""

from __future__ import annotations

import os
import struct
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from page_pictures import grid, lanes

import rushlight as torch
from rushlight import nn

Say = Callable[[str, str], str]


def draw_records(say: Say) -> str:
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 1))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.pt")
        torch.save(model.state_dict(), path)
        data = path.read_bytes()
        records = zipfile.ZipFile(path).infolist()
    recipe, numbers, other = [], [], []
    for record in records:
        start = record.header_offset + 30 + sum(struct.unpack_from("<2H", data, record.header_offset + 26))
        lane = recipe if record.filename.endswith("data.pkl") else numbers if "/data/" in record.filename else other
        lane.append((float(start), float(start + record.file_size), record.filename.removeprefix("model/")))
    assert len(recipe) == 1 and len(numbers) == 9 and all(start % 64 == 0 for start, _, _ in numbers)
    end = max(stop for lane in (recipe, numbers, other) for _, stop, _ in lane)
    directory = [(end, float(len(data)), say("names", "目录"))]
    return lanes(
        say("Where the records of model.pt lie", "model.pt 里各条记录的位置"),
        [
            (say("recipe", "配方"), recipe),
            (say("storages", "存储"), numbers),
            (say("versions", "版本等"), other),
            (say("directory", "zip 目录"), directory),
        ],
        say(f"bytes 0 to {len(data)}; storages begin at multiples of 64",
            f"字节 0 到 {len(data)}；存储都从 64 的倍数开始"),
    )


def held(path: Path) -> str:
    return path.read_text() if path.is_file() else "-"


def draw_atomic(say: Say) -> str:
    moments = {"in place": [], "renamed": []}
    with tempfile.TemporaryDirectory() as folder:
        for name, seen in moments.items():
            target = Path(folder, "state")
            target.write_text("old old")
            at = target if name == "in place" else Path(folder, "state.new")
            seen.append(held(target))
            with open(at, "w", buffering=1) as file:
                for part in ("new", " new"):
                    file.write(part)
                    file.flush()
                    seen.append(held(target))
            if at != target:
                os.replace(at, target)
            seen.append(held(target))
    broken = [[text not in ("old old", "new new") for text in seen] for seen in moments.values()]
    assert any(broken[0]) and not any(broken[1])
    head = [say("before", "写之前"), say("half", "写一半"), say("written", "写完"), say("after", "之后")]
    return grid(
        say("What a reader of the file sees", "这时去读文件会看到什么"),
        [head, *moments.values()],
        hot=lambda row, column: row > 0 and broken[row - 1][column],
        side=["", say("in place", "就地写"), say("renamed", "改名")],
    )
