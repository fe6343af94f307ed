"""Launches of kernels written in Triton, in captured programs: each is one node of the graph.

Enters: calls of `run` of Triton's kernels, with the grid and the arguments. Leaves: an op over the tensors and the
numbers that vary (library/triton_kernels.py), and the tensors that the kernel writes with their new values. Grids that
are functions are asked for every way that a kernel may be tuned. Triton is not imported: its classes are looked at
where a program has.
"""

from __future__ import annotations

import sys
from typing import Any

from ...library.functional_forms import Layout
from ...library.triton_kernels import chain, configurations, launch_op
from ..record.breaks import GraphBreak, shown
from ..record.machine import Machine
from .natives import SPECIAL

KERNELS = {"triton.runtime.jit": ("JITFunction",), "triton.runtime.autotuner": ("Autotuner", "Heuristics")}


def know_kernels() -> None:
    """Have launches recorded, of a Triton that was imported meanwhile."""
    for name, classes in KERNELS.items():
        module = sys.modules.get(name)
        for one in classes if module is not None else ():
            run = getattr(getattr(module, one, None), "run", None)
            if run is not None:
                SPECIAL.setdefault(run, launched)


def launched(m: Machine, function: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    """kernel.run(*args, grid=..., **kwargs)"""
    kernel, *given = args
    known = m.twin_of(kernel)
    kernel = kernel if known is None else known.real
    kwargs = dict(kwargs)
    grid, warm = kwargs.pop("grid", None), kwargs.pop("warmup", False)
    if warm or grid is None:
        raise GraphBreak("not modelled", f"{shown(kernel)} is compiled and not launched")
    bound = {**dict(zip(kernel.arg_names, given, strict=False)), **kwargs}
    choices = configurations(kernel)
    layout = Layout()
    for value in bound.values():
        layout.add(value)
    described = [(name, *kind) for name, kind in zip(bound, layout.kinds, strict=True)]
    for choice in choices:
        layout.numbers += grid_of(m, kernel, grid, {**bound, **choice})
    op, written = launch_op(kernel, described, len(given), choices)
    results = m.call(op, (layout.tensors, layout.numbers), {})
    for k, new in zip(written, results, strict=True):
        m.call(m.load_attr(layout.tensors[k], "copy_"), (new,), {})


def grid_of(m: Machine, kernel: Any, grid: Any, meta: dict[str, Any]) -> list[Any]:
    """Three numbers of blocks, for arguments as `meta` has them."""
    for one in chain(kernel):
        for name, value in getattr(one, "values", {}).items() if hasattr(one, "values") else ():
            meta[name] = m.call(value, (meta,), {})
    found = m.call(grid, (meta,), {}) if callable(grid) else grid
    found = list(found) if isinstance(found, (tuple, list)) else [found]
    return [*found, *[1] * (3 - len(found))]
