"""`parallelize_module`: a plan, applied to the modules it names."""

from __future__ import annotations

import warnings
from fnmatch import fnmatch

from ....nn import Module
from ...device_mesh import DeviceMesh, current_mesh
from .style import ParallelStyle

__all__ = ["parallelize_module"]


def parallelize_module(
    module: Module, device_mesh: DeviceMesh | None = None,
    parallelize_plan: ParallelStyle | dict[str, ParallelStyle] | None = None, *, src_data_rank: int | None = 0,
) -> Module:
    """The module, spread over a mesh of one dimension. A plan is a style, or styles by the names of submodules
    (`"layers.*.attention.wq"`: each part of a name may be a pattern). Parameters are those of the process
    `src_data_rank`; with None everyone's own."""
    mesh = device_mesh or current_mesh()
    if mesh.ndim != 1:
        raise ValueError(
            f"parallelize_module: a mesh of one dimension is needed, got {mesh}. Take a part of it: mesh['tp']."
        )
    if parallelize_plan is None:
        warnings.warn("parallelize_module: there is no parallelize_plan, so nothing is done", stacklevel=2)
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError(
            f"parallelize_module: parallelize_plan must be a ParallelStyle or a dict of them, got {parallelize_plan!r}"
        )
    for path, style in parallelize_plan.items():
        found = _named(module, path)
        if not found:
            warnings.warn(
                f"parallelize_module: there is no submodule {path!r} in {type(module).__name__}, so that this entry of "
                "the plan does nothing",
                stacklevel=2,
            )
        for part in found:
            parallelize_module(part, mesh, style, src_data_rank=src_data_rank)
    return module


def _named(module: Module, path: str) -> list[Module]:
    """The submodules a path names; each of its parts may be a pattern."""
    found = [module]
    for token in path.split(".") if path else ():
        found = [child for part in found for name, child in part.named_children() if fnmatch(name, token)]
    return found
