"""Convolutions with few outputs as ones with several, each of which is a neighbour along one dim.

Enters: the nodes of a graph, and which of their buffers are static. Leaves: the same convolutions under weights that
are shifted copies of one another, where kernels for many outputs take far less time: one line under a long window, and
images that become one to three channels. Refuses nothing: what is no such convolution stays.

    y[i * b + j] = sum over k of x[s * b * i + (s * j + k)] * w[k]       b windows, as one of k + s * (b - 1) taps

The taps around a shifted copy are zero, so sums have other zeros in them than before, and an infinite or missing number
in the input reaches the neighbours that share its window, as it does under transformed tiles (docs/accuracy.md).
"""

from __future__ import annotations

import math
from typing import Any

from .. import _C
from ..loops.inline import row_major
from ..op import find_op
from .freezing import static_buffers
from .read_graph import Node, Reader
from .values import Value

MOST_OUTPUTS = 3
LINE, LEAST_LINE, LEAST_TAPS = 32, 512, 8        # neighbours along a line, for results so long under windows so long
ROWS, LEAST_WIDTH, LEAST_WINDOW = 4, 16, 64      # neighbours down an image, for rows so wide under so many products


def widen(reader: Reader) -> None:
    """Rewrite the reader's nodes."""
    if reader.device.type != "cpu":
        return
    static = static_buffers(reader.nodes)
    found: list[Node] = []
    for node in reader.nodes:
        dim = dim_of(node, static)
        if dim is None:
            found.append(node)
            continue
        before, reader.nodes = reader.nodes, []
        together(reader, node, dim)
        made, reader.nodes = reader.nodes, before
        found += made
    reader.nodes = found


def dim_of(node: Node, static: set[Any]) -> int | None:
    """The dim along which neighbours are taken together; None for other nodes."""
    if node.definition.name != "convolution" or node.writes:
        return None
    x, w, bias, stride, _, dilation, transposed, _, groups = node.args
    y = node.results[0]
    if transposed or groups != 1 or x.dtype is not _C.float32 or w.sizes[0] > MOST_OUTPUTS or y.varies or x.varies:
        return None
    is_known = all(v is None or v.buffer in static for v in (w, bias))
    if not is_known or len(x.sizes) not in (3, 4) or not y.is_contiguous or not math.prod(y.sizes):
        return None
    last = len(x.sizes) - 1
    if y.sizes[last] >= LEAST_LINE and math.prod(y.sizes[2:last]) == math.prod(w.sizes[2:last]) == 1:
        return last if w.sizes[last] >= LEAST_TAPS and dilation[-1] == 1 else None
    is_image = last == 3 and w.sizes[2] > 1 and y.sizes[2] % ROWS == 0 and y.sizes[3] >= LEAST_WIDTH
    return 2 if is_image and dilation[0] == 1 and stride[1] == 1 and math.prod(w.sizes[1:]) >= LEAST_WINDOW else None


def together(reader: Reader, node: Node, dim: int) -> None:
    """The nodes that compute a convolution with neighbours along a dim as outputs of their own."""
    x, w, bias, stride, padding, dilation, transposed, output, groups = node.args
    y, place = node.results[0], dim - 2
    count = LINE if dim == len(x.sizes) - 1 else ROWS
    step, outs, length = stride[place], w.sizes[0], y.sizes[dim]
    blocks = -(-length // count)
    rest = step * (blocks * count - length)
    pad, after = find_op("constant_pad_nd"), 2 * (len(x.sizes) - 1 - dim)
    if rest:
        x = reader.op(pad, x, [0] * (after + 1) + [rest])
    copies = [reader.op(pad, w, [0] * after + [step * j, step * (count - 1 - j)]) for j in range(count)]
    weight = reader.op(find_op("cat"), copies, 0)
    bias = None if bias is None else reader.op(find_op("cat"), [bias] * count, 0)
    wider = [*stride]
    wider[place] = step * count
    found = reader.op(find_op("convolution"), x, weight, bias, wider, padding, dilation, transposed, output, groups)
    # [n, count, outs, ..., blocks, ...] -> [n, outs, ..., blocks, count, ...]
    sizes, strides = list(found.sizes), list(found.strides)
    sizes = [sizes[0], outs, *sizes[2 : dim + 1], count, *sizes[dim + 1 :]]
    strides = [strides[0], strides[1], *strides[2 : dim + 1], outs * strides[1], *strides[dim + 1 :]]
    assert sizes[dim] == blocks, f"{node}: {sizes[dim]} blocks of {count}, expected {blocks}"
    dense = reader.dense(Value(found.buffer, sizes, strides, found.offset, found.dtype))
    whole = [*y.sizes[:dim], blocks * count, *y.sizes[dim + 1 :]]
    reader.op(find_op("clone"), Value(dense.buffer, y.sizes, row_major(whole), 0, y.dtype))
    reader.nodes[-1].results = [y]
