"""Pictures of the chapter on reading the source: which rooms import which, and a loop nest line by line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from page_pictures import boxes, lines

import rushlight as torch
from rushlight.devices import register
from rushlight.devices.null import NullDevice

Say = Callable[[str, str], str]
STATEMENT = re.compile(r"^\s*from (\.+)(\w*)[\w.]* import (.+)$", re.M)


def imported(room: str) -> set[str]:
    root = Path(torch.__file__).parent
    found = set()
    for file in (root / room).rglob("*.py"):
        for dots, first, names in STATEMENT.findall(file.read_text(encoding="utf-8")):
            if len(dots) == len(file.relative_to(root).parts):
                found |= {first} if first else set(re.findall(r"\w+", names))
    return found


def draw_rooms(say: Say) -> str:
    words = {
        "definitions": say("what each operation is", "每个算子是什么"),
        "planners": say("steps for products, sorts, ...", "乘积、排序等的步骤"),
        "op": say("kinds, and plans", "种类，以及计划"),
        "codegen": say("machine code from loops", "由循环生成机器码"),
        "loops": say("the loop language", "循环语言"),
        "base": say("shapes, dtypes, errors", "形状、类型、错误"),
    }
    edges = []
    for room in words:
        below = imported(room) & set(words) - {room}
        # An arrow that follows from others is left out.
        implied = {one for one in below if any(one in imported(other) for other in below - {one})}
        edges += [(room, one) for one in words if one in below - implied]
    nodes = {room: f"{room}|{word}" for room, word in words.items()}
    return boxes(say("Imports point down", "导入只向下"), nodes, edges, {"definitions": "Khaki1"})


class Remembering(NullDevice):
    def __init__(self) -> None:
        super().__init__()
        self.nests: list[str] = []

    def load(self, nest: object) -> str:
        self.nests.append(str(nest))
        return super().load(nest)


def draw_nest(say: Say) -> str:
    device = Remembering()
    device.name = say("nullen", "nullzh")
    register(device)
    torch.hypot(torch.empty(3, 4, device=device.name), torch.empty(4, device=device.name))
    code = next(nest for nest in device.nests if nest.startswith("nest hypot")).splitlines()
    remarks = []
    for line in code:
        if line.startswith("nest"):
            remarks.append(say("operands; sizes and byte strides are given at run time",
                               "操作数；尺寸和字节步长在运行时给出"))
        elif "is byte" in line:
            number = int(re.search(r"x(\d)", line)[1])
            what = say("the result", "结果") if number == 2 else say(f"operand {number}", f"操作数 {number} ")
            remarks.append(say(f"where {what} is", f"{what}在哪里"))
        elif "begin" in line:
            remarks.append(say("threads take pieces of this loop", "各线程分走这层循环的一段"))
        elif "vector" in line:
            remarks.append(say("several elements at a time", "一次做几个元素"))
        else:
            remarks.append(say("one element: expanded by loops/math", "一个元素：由 loops/math 展开"))
    return lines(say("hypot as loops", "hypot 变成循环"), list(zip(code, remarks, strict=True)), hot=(len(code) - 1,))
