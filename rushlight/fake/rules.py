"""What a call gives on tensors without data: sizes (symbolic ones included), strides, dtype and device.

Enters: an overload and its bound arguments, some of them `FakeTensor`s. The call runs on the `meta` tensors they are, with
hints as sizes: aliasing, versions and every refusal come out as usual. Then the kind's own shape rule runs once more on
symbolic sizes. No op has a rule here:

    planned (views, reductions, scans, indexed, fused, products, factories)   the plan's outputs, as Python wrote them
    pointwise                                                                 broadcasting
    extern                                                                    its `meta`
    composite                                                                 its body: parts come back one by one (tensor.py)

What no rule covers keeps its hints as plain numbers, and guards say that the sizes were these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _C
from ..op.definition import KIND_PLANNED, KIND_POINTWISE
from ..op.extern import Extern, Spec
from .symbols import SymInt

Shapes = list[tuple[Sequence[int], Sequence[int] | None]]


def symbolic_results(overload: Any, args: tuple) -> Shapes | None:
    """(sizes, strides or None) of each result; None where there is no rule."""
    definition = overload.definition
    if definition.kind == KIND_POINTWISE:
        shape = broadcast([a.shape for a in args if isinstance(a, _C.Tensor)])
        return [(shape, None)] * max(1, definition.num_results())
    if definition.kind == KIND_PLANNED and not hasattr(definition, "geometry"):
        plan = definition.plan(args)
        if plan is not None and hasattr(plan, "outputs"):
            return [(slot[2], slot[3]) for slot in plan.outputs if slot[0] in ("new", "view")]
    if hasattr(definition, "geometry"):
        made = definition.geometry(*args)
        return [(g.sizes, g.strides) for g in (made if isinstance(made, list) else [made])]
    if isinstance(definition, Extern):
        specs = definition.meta(*args)
        return [(s.shape, s.strides) for s in ((specs,) if isinstance(specs, Spec) else specs)]
    return None


def broadcast(shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The common shape; sizes that meet are asked to be equal."""
    ndim = max((len(s) for s in shapes), default=0)
    result: list[int] = [1] * ndim
    for shape in shapes:
        for d, size in enumerate(shape, ndim - len(shape)):
            if not isinstance(size, SymInt) and size == 1:
                continue
            if not isinstance(result[d], SymInt) and result[d] == 1:
                result[d] = size
            elif isinstance(size, SymInt) or isinstance(result[d], SymInt):
                assert size == result[d], "the call itself was accepted"    # as a question, so that a guard remembers it
                result[d] = result[d] if isinstance(result[d], SymInt) else size
    return tuple(result)


def matching(sizes: Sequence[int], hints: Sequence[int]) -> bool:
    """Whether a rule's sizes are those the call really gave."""
    return len(sizes) == len(hints) and all(int.__index__(s) == h for s, h in zip(sizes, hints, strict=True))


def dense_strides(sizes: Sequence[int], hints: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Strides in symbols, from the order the strides of the hints show; those of a layout with gaps stay numbers."""
    order = sorted(range(len(sizes)), key=lambda d: (strides[d], hints[d] != 1, -d))
    made: list[int] = [1] * len(sizes)
    step: int = 1
    expected = 1
    for d in order:
        if hints[d] > 1 and strides[d] != expected:
            return tuple(strides)
        made[d] = step
        step, expected = step * sizes[d], expected * hints[d]
    return tuple(made) if expected else tuple(strides)
