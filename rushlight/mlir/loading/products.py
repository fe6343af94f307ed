"""Products of matrices and convolutions.

Enters: tensors, and which dimensions are summed over, go along, or slide. Leaves: `mm`, `bmm` and `convolution` between
permutations. Refuses dimension numbers that do not fit the operands.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...fx import Node
from ..syntax import Number, Operation, Struct
from ..types import TensorType
from .elementwise import converted
from .reductions import Window
from .shapes import only_result, stretched
from .table import COMPLEX, compatible, counted, distinct, op, require, size_fits, tensors
from .writer import Writer

SIDES = ("lhs_batching_dimensions", "rhs_batching_dimensions", "lhs_contracting_dimensions",
         "rhs_contracting_dimensions")


def product_dims(o: Operation) -> list[list[int]]:
    fields = o.struct("dot_dimension_numbers", "dot")
    found: list[list[int]] = []
    for name in SIDES:
        numbers = [n.value if isinstance(n, Number) else n for n in fields.get(name, [])]
        require(o, all(isinstance(n, int) for n in numbers), f"{name} must be whole numbers")
        found.append([int(n) for n in numbers])
    return found


def product_type(o: Operation, left: TensorType, right: TensorType, dims: Sequence[Sequence[int]]) -> TensorType:
    a_batch, b_batch, a_sum, b_sum = dims
    distinct(o, [*a_batch, *a_sum], len(left.shape), "dimensions of the left operand")
    distinct(o, [*b_batch, *b_sum], len(right.shape), "dimensions of the right operand")
    counted(o, b_batch, len(a_batch), "batching dimensions of the right operand")
    counted(o, b_sum, len(a_sum), "contracting dimensions of the right operand")
    for i, j in zip([*a_batch, *a_sum], [*b_batch, *b_sum], strict=True):
        require(o, size_fits(left.shape[i], right.shape[j]), f"dimension {i} of {left} and {j} of {right} differ")
    require(o, (left.element in COMPLEX) == (right.element in COMPLEX), f"cannot multiply {left} and {right}")
    element = only_result(o).element
    return TensorType((*[left.shape[d] for d in a_batch],
                       *[n for d, n in enumerate(left.shape) if d not in (*a_batch, *a_sum)],
                       *[n for d, n in enumerate(right.shape) if d not in (*b_batch, *b_sum)]), element)


def _dot_general(o: Operation) -> list[TensorType]:
    left, right = tensors(o, 2)
    return [product_type(o, left, right, product_dims(o))]


@op("dot_general", _dot_general)
def dot_general(w: Writer, o: Operation, x: Node, y: Node) -> Node:
    return product(w, o, x, y, product_dims(o))


def _dot(o: Operation) -> list[TensorType]:
    left, right = tensors(o, 2)
    require(o, all(1 <= len(t.shape) <= 2 for t in (left, right)), f"expected vectors or matrices, got {left}, {right}")
    return [product_type(o, left, right, [[], [], [len(left.shape) - 1], [0]])]


@op("dot", _dot)
def dot(w: Writer, o: Operation, x: Node, y: Node) -> Node:
    return product(w, o, x, y, [[], [], [len(o.types[0].shape) - 1], [0]])


def computing(element: str) -> str:
    """The type that products are added in."""
    return "i32" if element == "i1" else "f32" if element.startswith("f8") else element


def product(w: Writer, o: Operation, x: Node, y: Node, dims: Sequence[Sequence[int]]) -> Node:
    """Any product as one of matrices."""
    a_batch, b_batch, a_sum, b_sum = dims
    left, right = o.types[:2]
    element = computing(o.type.element)
    sizes, other = w.shape(x, left), w.shape(y, right)
    a_free = [d for d in range(len(left.shape)) if d not in (*a_batch, *a_sum)]
    b_free = [d for d in range(len(right.shape)) if d not in (*b_batch, *b_sum)]
    shape = [*[sizes[d] for d in (*a_batch, *a_free)], *[other[d] for d in b_free]]
    x, y = converted(w, x, left.element, element), converted(w, y, right.element, element)
    x = grouped(w, x, left, [a_batch, a_free, a_sum], sizes)
    y = grouped(w, y, right, [b_batch, b_sum, b_free], other)
    found = w("bmm.default" if a_batch else "mm.default", x, y)
    if len(shape) != (3 if a_batch else 2) or not len(a_batch) <= len(a_free) == len(b_free) == 1:
        found = w("reshape.default", found, shape)
    return converted(w, found, element, o.type.element)


def grouped(w: Writer, x: Node, kind: TensorType, groups: Sequence[Sequence[int]], sizes: Sequence[Any]) -> Node:
    """Dimensions in groups, each group as one dimension; no batch makes a matrix."""
    order = [d for g in groups for d in g]
    if order != list(range(len(order))):
        x = w("permute.default", x, order)
    kept = groups if groups[0] else groups[1:]
    if all(len(g) == 1 for g in kept):
        return x
    shape: list[Any] = []
    for g in kept:
        known = [sizes[d] for d in g]
        fixed = all(isinstance(n, int) for n in known)
        shape.append(math.prod(known) if fixed else known[0] if len(known) == 1 else -1)
    if shape.count(-1) > 1:
        raise AssertionError("two groups of sizes that vary")
    return w("reshape.default", x, shape)


def _einsum(o: Operation) -> list[TensorType]:
    types = tensors(o, 1 if o.name.endswith("unary_einsum") else 2)
    config = o.text("einsum_config").replace(" ", "")
    inputs, arrow, output = config.partition("->")
    parts = inputs.split(",")
    letters: dict[str, int | None] = {}
    fits = bool(arrow) and len(parts) == len(types)
    for part, t in zip(parts, types, strict=False):
        fits = (fits and part.isalpha() and len(part) == len(t.shape)) or (not part and not t.shape)
        for letter, n in zip(part, t.shape, strict=False):
            fits = fits and size_fits(letters.setdefault(letter, n), n)
    fits = fits and len(set(output)) == len(output) and all(letter in letters for letter in output)
    require(o, fits, f"'{config}' does not fit the operands")
    return [TensorType(tuple([letters[letter] for letter in output]), types[0].element)]


@op("einsum unary_einsum", _einsum)
def einsum(w: Writer, o: Operation, *operands: Node) -> Node:
    return w("einsum.default", o.text("einsum_config").replace(" ", ""), list(operands))


# --- convolutions -----------------------------------------------------------------------------------------------------


class Convolution:
    """The dimension numbers, window and groups of a convolution."""

    def __init__(self, o: Operation) -> None:
        numbers = o.attributes.get("dimension_numbers")
        if not isinstance(numbers, Struct) or numbers.name != "conv":
            raise o.error("the attribute 'dimension_numbers' must be like #stablehlo.conv<[b, f, 0]x[o, i, 0]->[b, f,"
                " 0]>")
        f = numbers.fields
        self.input = [f["input_batch"], f["input_feature"], *f["input_spatial"]]
        self.kernel = [f["kernel_output_feature"], f["kernel_input_feature"], *f["kernel_spatial"]]
        self.output = [f["output_batch"], f["output_feature"], *f["output_spatial"]]
        self.rank = len(self.input) - 2
        ones = [1] * self.rank
        self.strides, self.dilations = o.integers("window_strides", ones), o.integers("rhs_dilation", ones)
        self.base = o.integers("lhs_dilation", ones)
        self.reversed = o.integers("window_reversal", [0] * self.rank)
        self.groups, self.batch_groups = o.integer("feature_group_count", 1), o.integer("batch_group_count", 1)

    def window(self, o: Operation, sizes: Sequence[int | None], padding: list[tuple[int, int]]) -> Window:
        found = Window.__new__(Window)
        found.sizes, found.strides, found.base = [n or 0 for n in sizes], self.strides, self.base
        found.dilations, found.padding = self.dilations, padding
        return found


def _convolved(o: Operation, dynamic: bool = False) -> list[TensorType]:
    left, right = tensors(o, 3 if dynamic else 2)[:2]
    c = Convolution(o)
    for t, dims in ((left, c.input), (right, c.kernel)):
        require(o, len(t.shape) == c.rank + 2 == len(dims), f"{t} has not {c.rank + 2} dimensions")
    for what in ("strides", "dilations", "base", "reversed"):
        counted(o, getattr(c, what), c.rank, f"the window's {what}")
    require(o, all(n >= 1 for n in (*c.strides, *c.dilations, *c.base)), "strides and dilations must be at least 1")
    require(o, c.groups >= 1 and c.batch_groups >= 1 and 1 in (c.groups, c.batch_groups),
            "group counts must be at least 1, and one of them 1")
    batch, channels = left.shape[c.input[0]], left.shape[c.input[1]]
    outputs, each = right.shape[c.kernel[0]], right.shape[c.kernel[1]]
    require(o, None in (channels, each) or channels == (each or 0) * c.groups,
            f"{channels} input channels, but the kernel has {each} for each of {c.groups} groups")
    require(o, batch is None or batch % c.batch_groups == 0, f"a batch of {batch} in {c.batch_groups} groups")
    require(o, outputs is None or outputs % (c.groups * c.batch_groups) == 0,
            f"{outputs} output channels in {c.groups * c.batch_groups} groups")
    padding = paddings(o, c)
    window = c.window(o, [right.shape[d] for d in c.kernel[2:]], padding)
    shape: list[int | None] = [0] * (c.rank + 2)
    shape[c.output[0]] = None if batch is None else batch // c.batch_groups
    shape[c.output[1]] = outputs
    for i in range(c.rank):
        known = not dynamic and right.shape[c.kernel[2 + i]] is not None
        shape[c.output[2 + i]] = window.count(left.shape[c.input[2 + i]], i) if known else None
    return [TensorType(tuple(shape), only_result(o).element)]


def paddings(o: Operation, c: Convolution) -> list[tuple[int, int]]:
    found = o.pairs("padding", [(0, 0)] * c.rank)
    counted(o, found, c.rank, "padding")
    return found


@op("convolution", _convolved)
def convolution(w: Writer, o: Operation, x: Node, kernel: Node) -> Node:
    return convolved(w, o, x, kernel, paddings(o, Convolution(o)))


def _dynamic_convolved(o: Operation) -> list[TensorType]:
    found = _convolved(o, dynamic=True)
    wanted = TensorType((Convolution(o).rank, 2), o.types[2].element)
    require(o, compatible(o.types[2], wanted), f"paddings must be {wanted}, got {o.types[2]}")
    return found


@op("dynamic_conv", _dynamic_convolved)
def dynamic_conv(w: Writer, o: Operation, x: Node, kernel: Node, padding: Node) -> Node:
    flat = w.elements(padding, o.types[2])
    return convolved(w, o, x, kernel, [(flat[i], flat[i + 1]) for i in range(0, len(flat), 2)])


def convolved(w: Writer, o: Operation, x: Node, kernel: Node, padding: Sequence[tuple[Any, Any]]) -> Node:
    c, (left, right) = Convolution(o), o.types[:2]
    if c.rank > 3:
        raise o.refusal(f"convolutions over {c.rank} dimensions are not supported, only up to 3")
    element = computing(o.type.element)
    x, kernel = converted(w, x, left.element, element), converted(w, kernel, right.element, element)
    x, kernel = ordered(w, x, c.input), ordered(w, kernel, c.kernel)
    flipped = [2 + i for i, flip in enumerate(c.reversed) if flip]
    if flipped:
        kernel = w("flip.default", kernel, flipped)
    even = all(isinstance(a, int) and a == b and a >= 0 for a, b in padding) and set(c.base) <= {1}
    if not even:
        low, high = ([0, 0, *[p[side] for p in padding]] for side in (0, 1))
        x = stretched(w, x, low, high, [0, 0, *[b - 1 for b in c.base]], False if element == "i1" else 0)
    groups = c.groups
    if c.batch_groups > 1:      # the groups of the batch stand side by side as channels
        x = w("unflatten.int", x, 0, [c.batch_groups, -1])
        x = w("flatten.using_ints", w("transpose.int", x, 0, 1), 1, 2)
        groups = c.batch_groups
    pads = [p[0] for p in padding] if even else [0] * c.rank
    strides, dilations = list(c.strides), list(c.dilations)
    if c.rank == 0:
        x, kernel = w("unsqueeze.default", x, -1), w("unsqueeze.default", kernel, -1)
        pads, strides, dilations = [0], [1], [1]
    found = w("convolution.default", x, kernel, None, strides, pads, dilations, False, [0] * len(pads), groups)
    if c.rank == 0:
        found = w("squeeze.dim", found, -1)
    back = sorted(range(c.rank + 2), key=lambda i: c.output[i])
    found = found if back == list(range(len(back))) else w("permute.default", found, back)
    return converted(w, found, element, o.type.element)


def ordered(w: Writer, x: Node, dims: Sequence[int]) -> Node:
    return x if list(dims) == sorted(dims) else w("permute.default", x, list(dims))
