"""Pictures of the chapter on extensions: two structs byte by byte, and a filter beside its gradient."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from page_pictures import grid
from page_plots import Axis, Curve, plot

import rushlight as torch

Say = Callable[[str, str], str]
FIELDS: list[tuple[str, Any]] = [
    ("flag", ctypes.c_char), ("scale", ctypes.c_double), ("kind", ctypes.c_short), ("count", ctypes.c_int)
]


def bytes_of(fields: list[tuple[str, Any]]) -> list[str]:
    """The first letter of the field that each byte belongs to."""
    struct = type("Struct", (ctypes.Structure,), {"_fields_": fields})
    owners = [""] * ctypes.sizeof(struct)
    for name, _ in fields:
        field = getattr(struct, name)
        owners[field.offset : field.offset + field.size] = [name[0]] * field.size
    return owners


def draw_struct(say: Say) -> str:
    rows = [bytes_of(FIELDS), bytes_of(sorted(FIELDS, key=lambda field: -ctypes.sizeof(field[1])))]
    assert [row.count("") for row in rows] == [9, 1]
    return grid(
        say("Bytes of flag, scale, kind, count; gaps are marked", "flag、scale、kind、count 的各个字节，标出的是空隙"),
        rows,
        hot=lambda row, column: rows[row][column] == "",
        side=["Loose", "Tight"],
    )


def smoothed(x: torch.Tensor, a: float) -> torch.Tensor:
    last, out = torch.zeros((), dtype=torch.float64), []
    for value in x:
        last = a * value + (1 - a) * last
        out.append(last)
    return torch.stack(out)


def draw_mirror(say: Say) -> str:
    x = torch.zeros(31, dtype=torch.float64)
    x[15] = 1
    leaf = x.clone().requires_grad_()
    answer = smoothed(leaf, 0.2)
    answer[15].backward()
    assert torch.allclose(leaf.grad, smoothed(x.flip(0), 0.2).flip(0))

    def curve(label: str, values: torch.Tensor) -> Curve:
        return Curve(label, [(float(t), value) for t, value in enumerate(values.tolist())])

    return plot(
        say("Smoothing with a = 0.2", "a = 0.2 的平滑"),
        [
            curve(say("answer to an impulse at 15", "t = 15 处冲激的响应"), answer.detach()),
            curve(say("gradient of output 15", "第 15 个输出的梯度"), leaf.grad),
        ],
        Axis("t", 0, 30, range(0, 31, 5)),
        Axis("", 0, 0.22, [0, 0.05, 0.1, 0.15, 0.2]),
    )
