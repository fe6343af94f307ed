"""Frames in a recording: how their files are named, and which of them are not the program's.

Enters: where programs import from. Leaves: the parts of paths that names of frames go without, and how paths of files
begin whose frames are left out; csrc/extras/profile_stack.cpp, which makes the names, asks when a recording starts.
"""

from __future__ import annotations

import os
import site
import sys

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Rooms whose frames are no part of a program: what an op is made of, how it is found, and the compiler.
INNER = ("base", "loops", "codegen", "devices", "op", "planners", "rules", "definitions", "dynamo", "aot",
         "inductor", "compiler", "wiring.py")
# Files whose frames are left out alone, since what they call may be the program's: the profiler and the dispatcher.
OWN = ("profiler" + os.sep, os.path.join("autograd", "profiler"), os.path.join("autograd", "labels.py"),
       os.path.join("dispatch", "dispatcher.py"))


def frame_paths() -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Of files: folders that their names go without, the longest first; how paths of those begin
    that are left out alone; and of those that are with all they call."""
    folders = [*sys.path, *site.getsitepackages(), site.getuserbase(), site.getusersitepackages(),
               os.path.dirname(PACKAGE)]
    starts = {os.path.join(os.path.abspath(folder), "") for folder in folders if isinstance(folder, str)} - {os.sep}
    own = tuple(os.path.join(PACKAGE, part) for part in OWN)
    inner = tuple(os.path.join(PACKAGE, part if part.endswith(".py") else os.path.join(part, "")) for part in INNER)
    return tuple(sorted(starts, key=len, reverse=True)), own, inner

