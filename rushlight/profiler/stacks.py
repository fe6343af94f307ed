"""Frames and modules in a recording: how files are named, and which module a call belongs to.

Enters: for names, where programs import from; for modules, the rows of a recording and what it says of modules. Leaves:
the parts of paths that names of frames go without (csrc/extras/profile_stack.cpp makes the names), and for each row the
path of modules around it, as PyTorch writes it for scripted ones: `TOP(Net)::forward.layer(Linear)::forward.`
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Mapping, Sequence

MODULE = 10      # EventKind::Module of csrc/profile.h
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Rooms whose frames are no part of a program: what an op is made of, how it is found, and the compiler.
INNER = ("base", "loops", "codegen", "devices", "op", "planners", "rules", "aten", "definitions", "dynamo", "aot",
         "inductor", "compiler", "wiring.py")
OWN = ("profiler" + os.sep, os.path.join("autograd", "profiler"), os.path.join("autograd", "labels.py"))


def frame_paths() -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Of files: folders that their names go without, the longest first; how paths of the profiler's own begin; and
    those of our inner rooms."""
    folders = [*sys.path, *site.getsitepackages(), site.getuserbase(), site.getusersitepackages(),
               os.path.dirname(PACKAGE)]
    starts = {os.path.join(os.path.abspath(folder), "") for folder in folders if isinstance(folder, str)} - {os.sep}
    own = tuple(os.path.join(PACKAGE, part) for part in OWN)
    inner = tuple(os.path.join(PACKAGE, part if part.endswith(".py") else os.path.join(part, "")) for part in INNER)
    return tuple(sorted(starts, key=len, reverse=True)), own, inner


def module_paths(
    kinds: Sequence[int], names: Sequence[int], parents: Sequence[int], modules: Mapping[int, tuple[str, str]]
) -> dict[int, str]:
    """Row -> the path of modules around it, for rows within a call of a module.

    `modules` is the recording's: number of a module's name -> (its class, what the module that first called it calls
    it). One that its caller does not hold has no name of its own: `(Linear)::forward.`
    """
    around: dict[int, int] = {}      # row -> the innermost module's
    texts: dict[int, str] = {}
    for row, kind in enumerate(kinds):
        above = around.get(parents[row], -1)
        if kind == MODULE and names[row] in modules:
            cls, path = modules[names[row]]
            texts[row] = f"{texts.get(above, '')}{path if above >= 0 else 'TOP'}({cls})::forward."
            above = row
        if above >= 0:
            around[row] = above
    return {row: texts[module] for row, module in around.items() if row != module}
