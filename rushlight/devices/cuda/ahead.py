"""What the first kernel needs, made ready while the driver makes its context, which takes longer: LLVM, and the
driver's own compiler.

Enters: nothing. Leaves: modules imported, libraries read, LLVM's code generator made and used once. Whatever goes wrong
here goes wrong again where a kernel needs it, and is reported there.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading

from ... import codegen
from ...codegen.nvptx.points import PointClass
from ...loops import expr
from ...loops.nest import pointwise_nest

COMPILER = "libnvidia-ptxjitcompiler.so.1"     # which the driver opens when it first compiles
NEIGHBOURS = 2                                 # how operands lie in PointClass


def compile_sample() -> None:
    """A small kernel's PTX, for nobody."""
    with contextlib.suppress(Exception):
        x, y = expr.arg(0, "f32"), expr.arg(1, "f32")
        nest = pointwise_nest("sample", ["f32", "f32"], ["f32"], [x + y])
        codegen.emit_point_ptx(nest, PointClass(1, (NEIGHBOURS,) * 3, True, False))


def open_compiler() -> None:
    """The driver's compiler, read from disk."""
    with contextlib.suppress(OSError):
        ctypes.CDLL(COMPILER)


def ready_first_kernel() -> None:
    """Start both, in threads; nothing where there is one processor, which would do one after the other."""
    if len(os.sched_getaffinity(0)) < 2:
        return
    threads = [threading.Thread(target=task, name="cuda ahead") for task in (compile_sample, open_compiler)]
    for thread in threads:
        thread.start()

    def wait() -> None:
        for thread in threads:
            thread.join()

    # A child forked in the middle would find modules half imported, by a thread that it does not have.
    os.register_at_fork(before=wait)
