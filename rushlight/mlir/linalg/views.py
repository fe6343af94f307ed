"""Views in the linalg dialect: by what they do to the places of elements.

Enters: a geometry (sizes, strides, offset) over a tensor in row-major order. Leaves: the tensor itself, another shape
of it, a slice, or a loop that copies. Refuses: nothing.
"""

from __future__ import annotations

from typing import Any

from ...loops.expr import cast
from ...loops.lowered import Memory
from ...op.indexed import contiguous_strides
from ..printing import Value as Built
from .lowered import Source, Sources, coordinates
from .tensors import Tensors, loop, named, product, same


def shown(tensors: Tensors, t: Built, g: Any) -> Built:
    """What a view shows of a tensor."""
    sizes = tuple(g.sizes)
    if g.dtype is not None and g.dtype.code != named(t):
        raise NotImplementedError(f"elements of {named(t)} seen as {g.dtype.code}")
    if getattr(g, "flips", 0):
        raise NotImplementedError("conjugated or negated views")
    memory = Memory("view", named(t), sizes, tuple(g.strides), tuple(range(len(sizes))), g.offset)
    plain = all(same(a, b) for a, b, n in zip(g.strides, contiguous_strides(sizes), sizes, strict=True)
                if not same(n, 1))
    if plain and same(g.offset, 0) and same(product(sizes), product(t.shape)):
        return tensors.reshape(t, sizes)
    return sliced(tensors, memory, t) or copied(tensors, memory, t)


def sliced(tensors: Tensors, memory: Memory, t: Built) -> Built | None:
    """Every so manieth of each dim, and some dims at one place."""
    found = coordinates(memory, t.shape)
    if found is None or not all(type(n) is int for n in (*memory.sizes, *t.shape)):
        return None
    starts, steps = found
    dims = [s[0] for s in steps if s is not None]
    repeats = any(s is None and n != 1 for s, n in zip(steps, memory.sizes, strict=True))
    if dims != sorted(dims) or repeats:
        return None
    sizes, strides = [1] * t.ndim, [1] * t.ndim
    for s, n in zip(steps, memory.sizes, strict=True):
        if s is not None:
            sizes[s[0]], strides[s[0]] = n, s[1]
    attributes = {
        "static_offsets": f"array<i64: {', '.join(map(str, starts))}>",
        "static_sizes": f"array<i64: {', '.join(map(str, sizes))}>",
        "static_strides": f"array<i64: {', '.join(map(str, strides))}>",
        "operandSegmentSizes": "array<i32: 1, 0, 0, 0>",
    }
    part = tensors.b.op("tensor.extract_slice", [t], tensors.like(named(t), sizes), attributes)
    return tensors.reshape(part, memory.sizes)


def copied(tensors: Tensors, memory: Memory, t: Built) -> Built:
    """The elements one by one."""
    here = [loop(d) for d in range(len(memory.sizes))]
    own = Sources(tensors, here)
    value = Source(own, memory, t).read(here)
    return tensors.pointwise(memory.sizes, own.read, [cast(value, memory.code)])[0]
