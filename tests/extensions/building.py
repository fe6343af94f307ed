"""Small extensions for the stable ABI, built by the machine's C++ compiler, and programs that load them.

Libraries are loaded in processes of their own: in one with PyTorch in it they would find PyTorch's libraries.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

PROGRAMS = Path(__file__).with_name("programs")
ROOT = Path(__file__).resolve().parents[2]
COMPILER = shutil.which("g++") or shutil.which("c++")


def build(folder: Path, name: str = "probe", source: str = "probe.cpp", flags: tuple[str, ...] = ()) -> Path:
    """`name`.so in a folder, from a file in programs/."""
    target = folder / f"{name}.so"
    subprocess.run([COMPILER, "-std=c++17", "-O1", "-shared", "-fPIC", *flags, "-o", str(target),
                    str(PROGRAMS / source), *named_libraries(folder)], check=True, timeout=120)
    return target


def named_libraries(folder: Path) -> list[str]:
    """What makes a library name libtorch.so, as wheels do, whichever is there when it is loaded."""
    there = folder / "libtorch.so"
    if not there.exists():
        subprocess.run([COMPILER, "-shared", "-fPIC", "-x", "c++", "/dev/null", "-Wl,-soname,libtorch.so", "-o",
                        str(there)], check=True, timeout=120)
    return ["-Wl,--no-as-needed", f"-L{folder}", "-ltorch", "-Wl,--allow-shlib-undefined"]


def run(program: str, *args: object, timeout: int = 200) -> dict[str, str]:
    """What each check of a program says: nothing, or what went wrong."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, str(PROGRAMS / program), *map(str, args)], capture_output=True, text=True,
                          env=environment, timeout=timeout)
    lines = done.stdout.strip().splitlines()
    assert done.returncode == 0 and lines, f"{done.stdout}\n{done.stderr}"
    return json.loads(lines[-1])
