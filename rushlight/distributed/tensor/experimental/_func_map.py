"""`local_map`: a function of plain tensors, called with each process's parts of distributed ones."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ...._C import Tensor
from ....utils._pytree import tree_flatten, tree_unflatten
from ...device_mesh import DeviceMesh
from .._api import DTensor
from ..placement_types import Placement

__all__ = ["local_map"]
Layout = Sequence[Placement] | None


def local_map(
    func: Callable[..., Any] | None = None, out_placements: Any = None, in_placements: tuple[Layout, ...] | None = None,
    in_grad_placements: tuple[Layout, ...] | None = None, device_mesh: DeviceMesh | None = None, *,
    redistribute_inputs: bool = False,
) -> Callable[..., Any]:
    """`func`, called with parts; what it gives is distributed as `out_placements` says (one entry per value, None for
    what is no tensor). Arguments must lie as `in_placements` says, or are moved there with `redistribute_inputs`."""
    if func is None:
        return lambda function: local_map(
            function, out_placements, in_placements, in_grad_placements, device_mesh,
            redistribute_inputs=redistribute_inputs,
        )

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        values, shape = tree_flatten(args)
        for name, layouts in (("in_placements", in_placements), ("in_grad_placements", in_grad_placements)):
            if layouts is not None and len(layouts) != len(values):
                raise AssertionError(f"local_map: {len(values)} values are given, but {name} has {len(layouts)}")
        mesh = device_mesh or next((v.device_mesh for v in values if isinstance(v, DTensor)), None)
        wanted = in_placements or (None,) * len(values)
        back = in_grad_placements or (None,) * len(values)
        parts = [
            _part(value, want, grad, in_placements is not None, redistribute_inputs)
            for value, want, grad in zip(values, wanted, back, strict=True)
        ]
        result = func(*tree_unflatten(parts, shape), **kwargs)
        return _distributed(result, mesh, out_placements) if any(isinstance(v, DTensor) for v in values) else result

    return mapped


def _part(value: Any, wanted: Layout, back: Layout, is_checked: bool, may_move: bool) -> Any:
    """What a function of plain tensors gets of an argument."""
    if not isinstance(value, DTensor):
        if wanted is not None and not isinstance(value, Tensor):
            raise AssertionError(f"local_map: {value!r} is no tensor, so that its in_placements must be None")
        return value
    if is_checked:
        if wanted is None:
            raise AssertionError(f"local_map: in_placements of a DTensor cannot be None; it lies as {value.placements}")
        if value.placements != tuple(wanted):
            if not may_move:
                raise ValueError(
                    f"local_map: an argument lies as {value.placements}, and in_placements wants {tuple(wanted)}. Move "
                    "it first, or pass redistribute_inputs=True."
                )
            value = value.redistribute(placements=wanted)
    return value.to_local(grad_placements=back)


def _distributed(result: Any, mesh: DeviceMesh | None, placements: Any) -> Any:
    """Parts that a function gave, as distributed tensors."""
    values, shape = tree_flatten(result)
    layouts = placements if isinstance(placements, tuple) else (placements,)
    if layouts and all(isinstance(p, Placement) for p in layouts):
        layouts = (layouts,)      # the layout of a single value
    if len(layouts) != len(values):
        raise AssertionError(f"local_map: {len(values)} values come out, but out_placements has {len(layouts)}")
    found = []
    for value, lies in zip(values, layouts, strict=True):
        if isinstance(value, DTensor):
            raise AssertionError("local_map: the function gave a DTensor where a plain tensor is expected")
        if isinstance(value, Tensor):
            found.append(DTensor.from_local(value, mesh, lies, run_check=False))
        elif lies is not None:
            raise AssertionError(f"local_map: {value!r} is no tensor, so that its out_placements must be None")
        else:
            found.append(value)
    return tree_unflatten(found, shape)
