"""Pictures of the chapter on few bits and few weights: an integer product, errors by bits, and two kinds of masks."""

from __future__ import annotations

from collections.abc import Callable

from page_pictures import bars, boxes, grid

import rushlight as torch
from rushlight import nn
from rushlight.nn.utils import prune

Say = Callable[[str, str], str]


def draw_product(say: Say) -> str:
    q = torch.quantize_per_tensor(torch.tensor([1.0]), 0.05, 60, torch.quint8)
    assert q.int_repr().item() == 80
    nodes = {
        "a": say("activations|bytes 0 ... 255", "激活值|字节 0 … 255"),
        "w": say("weights|bytes -128 ... 127", "权重|字节 -128 … 127"),
        "sums": say("sum a * w|integers of 32 bits", "a * w 求和|32 位整数"),
        "once": say("za * sum w|made once", "za * w 的和|只算一次"),
        "scale": say("times sa * sw, plus bias|floats, in registers", "乘 sa * sw，加偏置|浮点数，在寄存器里"),
        "out": say("round, limit|bytes of the next layer", "取整，限幅|下一层的字节"),
    }
    edges = [("a", "sums"), ("w", "sums"), ("w", "once"), ("sums", "scale"), ("once", "scale"), ("scale", "out")]
    colors = {"scale": "Khaki1", "sums": "DarkSeaGreen1", "once": "DarkSeaGreen1"}
    return boxes(say("One linear layer of bytes", "一层字节的线性层"), nodes, edges, colors)


def draw_bits(say: Say) -> str:
    weight = torch.arange(-1000.0, 1001.0) / 1000
    rows = []
    for bits in (8, 6, 4, 3, 2):
        scale = 1.0 / (2 ** (bits - 1) - 1)
        error = ((weight / scale).round() * scale - weight).abs().max().item()
        rows.append((say(f"{bits} bits", f"{bits} 位"), error, f"{error:.3f}"))
    title = say("Largest rounding error of weights from -1 to 1", "-1 到 1 之间的权重，最大的舍入误差")
    return bars(title, rows, hot=(0,))


def draw_masks(say: Say) -> str:
    torch.manual_seed(0)
    first = nn.Linear(8, 4)
    second = nn.Linear(8, 4)
    second.load_state_dict(first.state_dict())
    values = first.weight.detach()
    prune.l1_unstructured(first, "weight", amount=16)
    prune.ln_structured(second, "weight", amount=2, n=2, dim=0)
    masks = [first.weight_mask.bool().tolist(), second.weight_mask.bool().tolist()]
    cells, side, gone = [], [], set()
    for number, mask in enumerate(masks):
        word = say("smallest", "最小的") if number == 0 else say("whole rows", "整行")
        for i in range(4):
            side.append(word if i == 0 else "")
            cells.append([f"{values[i, j].item():+.2f}" for j in range(8)])
            gone |= {(4 * number + i, j) for j in range(8) if not mask[i][j]}
    title = say("16 of 32 weights removed, in two ways (coloured: gone)",
                "32 个权重去掉 16 个的两种办法（着色的被去掉）")
    return grid(title, cells, lambda row, column: (row, column) in gone, side)
