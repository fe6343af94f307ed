"""One program, run by Rushlight's processes and by PyTorch's, to compare what they return.

A program is a function of a test's file: it gets the library (`rushlight` or `torch`), its rank, how many there are,
and the arguments, and returns numbers in lists.
"""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Callable
from typing import Any

import pytest

from .processes import results_of, run


def _program(rank: int, size: int, library: str, path: str, function: Callable, args: tuple) -> Any:
    lib = importlib.import_module(library)
    if library == "torch":
        lib.set_num_threads(1)
        lib.distributed.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=size)
    try:
        return function(lib, rank, size, *args)
    finally:
        if library == "torch":
            lib.distributed.destroy_process_group()


def run_both(ranks: int, function: Callable, *args: Any) -> tuple[list[Any], list[Any]]:
    """What the ranks returned, with Rushlight and with PyTorch."""
    pytest.importorskip("torch")
    path = os.path.join(tempfile.mkdtemp(), "meeting")
    mine = results_of(run(ranks, _program, "rushlight", path, function, args))
    theirs = results_of(run(ranks, _program, "torch", path, function, args, make_world=False, patience=240.0))
    return mine, theirs


def module(lib: Any, name: str) -> Any:
    """A submodule of the library."""
    return importlib.import_module(f"{lib.__name__}.{name}")
