"""What a call gives on tensors without data: sizes (symbolic ones included), strides, dtype and device.

Enters: an overload and its bound arguments, some of them `FakeTensor`s. The call runs on the `meta` tensors they are,
with hints as sizes: aliasing, versions and every refusal come out as usual. Then the kind's own shape rule runs once
more on symbolic sizes, and leaves guards wherever other sizes would make it answer otherwise. No op has a rule here:

    planned (views, reductions, scans, indexed, fused, products, factories)   the plan's outputs, as Python wrote them
    pointwise                                                                 broadcasting, and dims in the operands'
                                                                              order
    extern, and others with a `meta`                                          that
    composite                                                                 its body: parts come back one by one
                                                                              (tensor.py)

What no rule covers keeps its hints as plain numbers, and guards say that the sizes were these.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from .. import _C
from ..op.definition import KIND_PLANNED, KIND_POINTWISE
from ..op.extern import Extern, Spec
from ..symbols.geometry import broadcast, contiguous_strides, met, pointwise_strides

Layout = tuple[tuple, tuple, Any]     # sizes, strides, offset


def symbolic_results(overload: Any, args: tuple) -> list[Layout] | None:
    """The layout of each result; None where there is no rule."""
    before = _C.keep_symbols(True)     # plans made now only state sizes
    try:
        return _results(overload, args)
    finally:
        _C.keep_symbols(before)


def _results(overload: Any, args: tuple) -> list[Layout] | None:
    definition = overload.definition
    if definition.kind == KIND_POINTWISE:
        if definition.is_planned(args):
            layout = _own(args[0]) if definition.returns_itself(args) else _pointwise(overload, args)
            return [layout] * max(1, definition.num_results())
    if hasattr(definition, "geometry"):
        result = definition.geometry(*args)
        return [
            _viewed(args[0], g.sizes, g.strides, g.offset, g.dtype)
            for g in (result if isinstance(result, list) else [result])
        ]
    if definition.kind == KIND_PLANNED:
        plan = definition.plan(args)
        if plan is not None and hasattr(plan, "outputs"):
            return [_planned(slot, args) for slot in plan.outputs if slot[0] in ("new", "view")]
    if hasattr(definition, "meta") and type(definition).meta is not Extern.meta:
        specs = definition.meta(*args)
        return [fresh(s.shape, s.strides) for s in ((specs,) if isinstance(specs, Spec) else specs)]
    return _from_body(definition, args)


def _from_body(definition: Any, args: tuple) -> list[Layout] | None:
    """The layouts a body in Python gives (of custom ops that have one, the fake body), run on the fake tensors
    themselves: each step of it is a call with a rule, or asks for numbers and leaves guards."""
    given = [t for a in args for t in (a if isinstance(a, (list, tuple)) else (a,)) if hasattr(t, "fake_mode")]
    with given[0].fake_mode.running_body() if given else nullcontext():
        custom = definition.custom
        result = definition.shape_rule()(*definition.listed(args)) if custom else definition.run(*args)
    results = [r for r in (result if isinstance(result, (tuple, list)) else (result,)) if isinstance(r, _C.Tensor)]
    # a bare tensor: the core made it from hints
    return [_own(r) for r in results] if all(hasattr(r, "symbolic") for r in results) else None


def _own(t: Any) -> Layout:
    return tuple(t.shape), t.stride(), t.storage_offset()


def _planned(slot: tuple, args: tuple) -> Layout:
    kind, dtype, sizes, strides, source, offset = slot
    if kind == "new":
        return fresh(sizes, strides)
    tensors = [t for a in args for t in (a if isinstance(a, (list, tuple)) else (a,)) if isinstance(t, _C.Tensor)]
    return _viewed(tensors[source], sizes, strides, offset, dtype)


def fresh(sizes: Sequence[Any], strides: Sequence[Any] | None) -> Layout:
    """The layout of memory of its own."""
    return tuple(sizes), contiguous_strides(sizes) if strides is None else tuple(strides), 0


def _viewed(source: Any, sizes: Sequence[Any], strides: Sequence[Any] | None, offset: Any, dtype: Any) -> Layout:
    own = source.storage_offset()
    if dtype is not None and dtype is not source.dtype and dtype.itemsize != source.itemsize:
        own = own * source.itemsize // dtype.itemsize
    return tuple(sizes), contiguous_strides(sizes) if strides is None else tuple(strides), own + offset


def _pointwise(overload: Any, args: tuple) -> Layout:
    tensors = [a for a in args if isinstance(a, _C.Tensor)]
    sizes = broadcast([t.shape for t in tensors])
    if overload.inplace:     # what is written keeps its sizes: the others must go into them
        own = args[0].shape
        return tuple(met(a, b) for a, b in zip(own, sizes, strict=True)), args[0].stride(), args[0].storage_offset()
    return sizes, pointwise_strides(sizes, [(tuple(t.shape), t.stride()) for t in tensors]), 0
