"""Pointwise ops behind a product or a convolution, computed while its sums are in the nearest cache.

Enters: a `Grouping` after merging, and the graph's outputs. Leaves: units of the form "product", a product and then the
pointwise ops that read it, or "convolution", likewise. Nobody else may read it, so a forward that keeps it for a
backward is left as it is. What else ops behind a product read must be as short as a row (a bias, a scale): rows of a
residual would be read in pieces, which takes longer than a loop of its own. Convolutions read residuals row by row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..codegen.schedule.cpu.contraction import is_tiled
from ..loops.lowered import NotLowerable
from . import conv_epilogues, settings
from .freezing import static_buffers
from .join import group_lowered
from .read_graph import Node, Reader
from .units import Grouping, Unit, numbers_in
from .values import Buffer, Value

PRODUCTS = ("linear", "mm", "matmul", "addmm")
FEWEST_ROWS = 64         # of a product that is surely run in tiles
SMALLEST = 1 << 16       # elements of a result that are worth the time to compile a kernel for them


def join_epilogues(grouping: Grouping, reader: Reader, outputs: Sequence[Value]) -> None:
    """Let units of pointwise ops become part of the products before them."""
    if not settings.fuse or reader.device.type != "cpu":
        return
    kept, units, static = {v.buffer for v in outputs}, grouping.units, static_buffers(grouping.nodes)
    readers: dict[Buffer, set[int]] = {}
    for u in units.values():
        for v in (v for n in u.nodes for v in n.inputs):
            readers.setdefault(v.buffer, set()).add(u.number)
    for u in [u for u in units.values() if u.form == "points"]:
        stored = [b for b in u.produced if b in kept or readers.get(b, set()) - {u.number}]
        if len(stored) != 1:
            continue
        for before in [units[k] for k in numbers_in(u.before)]:
            if before.form != "steps" or not fits(u, before.nodes[0], kept, readers) or between(units, before, u):
                continue
            first = before.nodes[0]
            if first.definition.name == "convolution":
                packed = first.inputs[1].buffer in static
                first.finished = conv_epilogues.finished(reader, first, *group_lowered(u.nodes, stored), packed)
                if first.finished is not None:
                    join(grouping, before, u, "convolution")
                    break
            elif (lowered := product_of(reader, first)) is not None:
                first.lowered = lowered
                join(grouping, before, u, "product")
                break


def fits(unit: Unit, product: Node, kept: set[Buffer], readers: dict[Buffer, set[int]]) -> bool:
    """Whether the unit's loop is over the product's result, which it alone reads."""
    name = product.definition.name
    if (name not in PRODUCTS and name != "convolution") or product.writes or product.is_settled:
        return False
    (result,) = product.results
    if result.buffer in kept or readers.get(result.buffer) != {unit.number}:
        return False
    if not (conv_epilogues.fits(result) if name == "convolution" else result.dtype.code == "f32"):
        return False
    values = [v for n in (product, *unit.nodes) for v in (*n.inputs, *n.results)]
    if any(v.varies for v in values) or not result.is_whole or len(result.sizes) < 2:
        return False
    made = unit.produced | {result.buffer}
    inner = [v for n in unit.nodes for v in (*n.results, *[v for v in n.inputs if v.buffer in made])]
    if any(v.sizes != result.sizes or not v.is_whole or not v.is_contiguous for v in (result, *inner)):
        return False
    if name == "convolution":
        return True
    others = [v for n in unit.nodes for v in n.inputs if v.buffer not in made]
    return all(math.prod(v.sizes) <= result.sizes[-1] for v in others)


def between(units: dict[int, Unit], first: Unit, last: Unit) -> bool:
    """Whether a third unit must run after the first and before the last."""
    return any(units[k].before >> first.number & 1 for k in numbers_in(last.before) if k != first.number)


def product_of(reader: Reader, node: Node) -> Any:
    """The product as a contraction in tiles; None where another kernel runs it."""
    sizes = node.results[0].sizes
    if math.prod(sizes[:-1]) < FEWEST_ROWS or math.prod(sizes) < SMALLEST:
        return None
    try:
        lowered = reader.asked(node.definition.lower, node.args)
    except NotLowerable:
        return None
    return lowered if tuple(lowered.shape) == sizes and is_tiled(lowered) else None


def join(grouping: Grouping, first: Unit, last: Unit, form: str) -> None:
    """Both units as one, in the place of the last."""
    product = first.nodes[0]
    last.form, last.nodes = form, [product, *last.nodes]
    own, rest = 1 << last.number, ~(1 << first.number)
    last.before = (last.before | first.before) & rest
    del grouping.units[first.number]
    grouping.unit_of[id(product)] = last
    for u in grouping.units.values():
        if u is not last and u.before >> first.number & 1:
            u.before = u.before & rest | last.before | own
