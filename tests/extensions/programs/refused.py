"""Libraries that cannot be loaded: each says why, and leaves nothing."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from reporting import run_all

import rushlight as rl

folder = Path(sys.argv[1])


def refused(name: str, kind: type, *words: str) -> None:
    try:
        rl.ops.load_library(folder / name)
    except kind as error:
        assert all(word in str(error) for word in words), str(error)
        assert str(folder / name) not in rl.ops.loaded_libraries
        return
    raise AssertionError(f"{name} was loaded")


def check_second_registration_says_where_the_first_was():
    rl.ops.load_library(folder / "first.so")
    refused("second.so", RuntimeError, "first.so", "second.so", "probe.cpp", "already")
    assert rl.ops.probe.keep_int(4) == 4
    try:
        rl.library.Library("probe", "FRAGMENT").define("keep_int(int x) -> int")
    except RuntimeError as error:
        assert "first.so" in str(error) and "refused.py" in str(error), error
    else:
        raise AssertionError("defined twice")


def check_failed_registrations_are_taken_back():
    for name in ("broken", "twice"):
        for _ in range(2):
            refused(f"{name}.so", (ValueError, RuntimeError), "Nonsense" if name == "broken" else "already")
            assert dir(getattr(rl.ops, name)) == []
    rl.library.define("twice::add_all", "(Tensor x) -> Tensor")      # the name is free


def check_newer_functions_are_named():
    refused("newer.so", OSError, "torch_function_of_the_future", "later PyTorch")
    assert dir(rl.ops.newer) == []


def check_cpp_classes_are_counted_and_named():
    refused("cpp_classes.so", OSError, "1 of", "_ZN2at6Tensor8backwardEv", "stable ABI")


def check_damaged_files():
    for cut in folder.glob("cut*.so"):
        refused(cut.name, OSError)
    try:
        rl.ops.load_library(folder / "nowhere.so")
    except OSError as error:
        assert "nowhere.so" in str(error)


def check_folders_of_others():
    shared = folder / "shared"
    shared.mkdir()
    (shared / "a.so").write_bytes((folder / "first.so").read_bytes())
    os.chmod(shared, stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO)
    refused("shared/a.so", OSError, "others may write")


def check_classes_load_too():
    rl.classes.load_library(folder / "first.so")
    assert os.fspath(folder / "first.so") in rl.classes.loaded_libraries


run_all(dict(globals()))
