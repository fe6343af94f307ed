"""Basic indexing as one view: what `x[1:3, None, 0]` puts on the tape.

Enters: a tensor and an index made of ints, slices, None and Ellipsis. Leaves: a view of the named elements.
The core computes the geometry; these definitions give it a derivative, and serve whoever calls ops by name.
"""

from __future__ import annotations

from typing import Any

from ... import _C, rules
from ...op import Geometry, Meta, OpDefinition, View, find_op


class BasicIndex(View):
    """The elements of `input` named by ints, slices, None and Ellipsis, as a view."""

    schema = "_basic_index(Tensor(a) input, any index) -> Tensor(a)"
    function = method = False

    def geometry(self, t: Any, index: Any) -> Geometry:
        sizes, strides, offset = _C.index_geometry(t, index)
        return Geometry(sizes, strides, offset - t.storage_offset())

    def vjp(self, g, input: Meta, index):
        return {"input": BACKWARD(g, input.shape, index)}


class BasicIndexBackward(OpDefinition):
    """Zeros of `size` with `grad` in the elements that `index` names."""

    schema = "_basic_index_backward(Tensor grad, int[] size, any index) -> Tensor"
    function = method = False
    out = False

    def vmap(self, level: Any, overload: Any, args: tuple) -> Any:
        grad, size, index = args
        rest = index if isinstance(index, tuple) else (index,)
        return rules.batching.wrapped(
            overload.call(rules.batching.front(grad, level), (level.batch_size, *size), (slice(None), *rest)), level
        )

    def run(self, grad: Any, size: Any, index: Any) -> Any:
        return _C.scatter_basic(grad, size, index)

    def vjp(self, g, index):
        return {"grad": find_op("_basic_index")(g, index)}


BACKWARD = find_op("_basic_index_backward")
