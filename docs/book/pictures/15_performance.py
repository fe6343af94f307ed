"""Pictures of the chapter on performance: a roofline, the windows of an image, multiplications by three methods."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from page_pictures import bars, grid
from page_plots import Axis, Curve, plot

import rushlight as torch
from rushlight.utils.flop_counter import FlopCounterMode

Say = Callable[[str, str], str]
PEAK, BANDWIDTH = 100e9, 10e9


def intensity(function: Callable[..., torch.Tensor], *shapes: tuple[int, ...]) -> float:
    """Operations for each byte that goes in or out once."""
    inputs = [torch.zeros(shape) for shape in shapes]
    with FlopCounterMode(display=False) as counter:
        result = function(*inputs)
    return counter.get_total_flops() / (4 * (sum(map(prod, shapes)) + result.numel()))


def draw_roof(say: Say) -> str:
    kernels = {
        "x + y": 1 / 12,
        "W @ x, 512": intensity(torch.mm, (512, 512), (512, 1)),
        say("W @ X, 16 columns", "W @ X，16 列"): intensity(torch.mm, (512, 512), (512, 16)),
        "W @ X, 128": intensity(torch.mm, (128, 128), (128, 128)),
        say("convolution 3 x 3", "3 x 3 卷积"): intensity(torch.conv2d, (4, 32, 34, 34), (64, 32, 3, 3)),
    }
    assert abs(kernels["W @ X, 128"] - 128 / 6) < 1e-9

    def reached(per_byte: float) -> float:
        return min(PEAK, BANDWIDTH * per_byte) / 1e9

    corners = [(per_byte, reached(per_byte)) for per_byte in (0.05, PEAK / BANDWIDTH, 400.0)]
    points = [Curve(name, [(per_byte, reached(per_byte))], dots=True) for name, per_byte in kernels.items()]
    return plot(
        say("A machine with 100 GFLOP/s and 10 GB/s", "一台 100 GFLOP/s、10 GB/s 的机器"),
        [Curve(say("limit", "上限"), corners), *points],
        Axis(say("operations for each byte", "每字节的运算数"), 0.05, 400, [0.1, 1, 10, 100], log=True),
        Axis(say("GFLOP/s at best", "至多 GFLOP/s"), 0.4, 130, [1, 10, 100], log=True),
    )


def draw_windows(say: Say) -> str:
    image = torch.arange(16.0).reshape(1, 1, 4, 4)
    rows = torch.nn.functional.unfold(image, 3)[0].T.int().tolist()
    assert sum(row.count(5) for row in rows) == 4
    return grid(
        say("The windows of a 4 × 4 image; pixel 5 is marked", "4 × 4 图像的各个窗口，标出的是 5 号像素"),
        [[str(pixel) for pixel in row] for row in rows],
        hot=lambda row, column: rows[row][column] == 5,
        side=[say(f"window {number}", f"窗口 {number}") for number in range(4)],
    )


def draw_winograd(say: Say) -> str:
    rows = [(say("definition", "按定义"), 9.0, "9")]
    for step in (2, 4):
        size = step + 2
        label = say(f"tiles of {step}", f"边长 {step} 的块")
        rows.append((label, size**2 / step**2, f"{size**2} / {step**2} = {size**2 / step**2:g}"))
    return bars(
        say("Multiplications for a result and channel, 3 × 3", "每个结果、每个通道的乘法次数，3 × 3"), rows, hot=(0,)
    )
