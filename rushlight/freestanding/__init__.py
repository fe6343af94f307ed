"""Ahead of time: a model as machine code for another machine, called from C, C++ or JavaScript.

Enters: an ExportedProgram, or a module and example arguments, and a target. Leaves: files: an object (a `.wasm` module
for WebAssembly), a C and a C++ header, the weights; a shared library where a linker is at hand. Neither Python nor
Rushlight is needed to run them. Kernels come from the inductor's units and schedules, for one thread.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..codegen.text.targets import TARGETS, Target
from ..export.capture import export
from ..export.exported_program import ExportedProgram
from ..nn import Module
from .headers import c_header, cpp_header, javascript, sealed
from .kernels import NotFreestanding
from .objects import built
from .plans import Prepared, prepared
from .wasm import exporting

__all__ = ["Artifact", "NotFreestanding", "aot_compile"]

SHORT = {"x86-64": "x86-64-avx2", "x86_64": "x86-64-avx2", "arm64": "aarch64", "riscv": "riscv64", "wasm": "wasm32"}


class Artifact(NamedTuple):
    """The files of a program, and what it takes to run it."""

    name: str
    target: str
    object: str                     # the object; for WebAssembly the module
    header: str
    cpp_header: str
    weights: str
    library: str | None             # the shared library, where one was linked
    javascript: str | None          # the loader of a WebAssembly module
    code_size: int                  # bytes of the object
    weights_size: int
    workspace_size: int             # bytes for the largest sizes

    def __str__(self) -> str:
        return (
            f"{self.name} for {self.target}: code {self.code_size:,} bytes, weights {self.weights_size:,}, "
            f"workspace {self.workspace_size:,}"
        )


def aot_compile(
    program: ExportedProgram | Module,
    args: tuple | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    target: str = "host",
    dynamic_shapes: Any = None,
    name: str = "model",
    folder: str | os.PathLike = ".",
    link: bool | None = None,
) -> Artifact:
    """Compile a program for a target and write its files to `folder`.

    Targets: host, x86-64 (AVX2), x86-64-avx512, aarch64, riscv64 (with vectors), wasm32. `link`: also a shared
    library, with the compiler driver on PATH that makes code for the target (None: if there is one). Sizes that vary
    need a `max`.
    """
    chosen = _target(target)
    if not name.isidentifier() or not name.isascii():
        raise ValueError(f"aot_compile: name must be an identifier of C, got {name!r}")
    if isinstance(program, ExportedProgram):
        if args is not None or kwargs or dynamic_shapes is not None:
            raise ValueError("aot_compile: an ExportedProgram has its arguments and sizes already")
    elif isinstance(program, Module):
        if args is None:
            raise ValueError("aot_compile: a module needs example arguments: aot_compile(model, (x,))")
        program = export(program, args, kwargs, dynamic_shapes=dynamic_shapes)
    else:
        raise TypeError(f"aot_compile: expected an ExportedProgram or a Module, got {type(program).__name__}")
    result = prepared(program)
    return _written(name, result, chosen, os.fspath(folder), link)


def _target(name: str) -> Target:
    from ..codegen.llvm.cpu import resolve_target  # noqa: PLC0415 - LLVM loads when code is made

    name = SHORT.get(name, name)
    if name != "host" and (name not in TARGETS or TARGETS[name].is_gpu):
        known = ", ".join(["host", *[n for n, t in TARGETS.items() if not t.is_gpu]])
        raise ValueError(f"aot_compile: unknown target {name!r}. Known: {known}.")
    return resolve_target(name)


def _written(name: str, result: Prepared, target: Target, folder: str, link: bool | None) -> Artifact:
    os.makedirs(folder, exist_ok=True)
    code = built(name, result.members, target, list(result.dims.values()))
    loader, is_wasm = None, target.triple.startswith("wasm")
    if is_wasm:
        code, end = exporting(code, [f"{name}_run", f"{name}_workspace_size"])
        loader = _put(folder, f"{name}.mjs", javascript(name, result, end).encode())
    object_path = _put(folder, f"{name}.wasm" if is_wasm else f"{name}.o", code)
    header = _put(folder, f"{name}.h", c_header(name, result).encode())
    cpp = _put(folder, f"{name}.hpp", cpp_header(name, result).encode())
    weights = _put(folder, f"{name}.weights", sealed(result.weights))
    library = None if is_wasm or link is False else _linked(name, object_path, folder, target, link is True)
    return Artifact(name, target.name, object_path, header, cpp, weights, library, loader, len(code),
                    len(result.weights), result.workspace)


def _put(folder: str, name: str, data: bytes) -> str:
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(data)
    return path


def _linked(name: str, object_path: str, folder: str, target: Target, is_wanted: bool) -> str | None:
    """A shared library, by the compiler driver of the target."""
    machine = target.triple.split("-")[0]
    mine = os.uname().machine if hasattr(os, "uname") else ""
    drivers = [f"{machine}-linux-gnu-gcc", *(["cc", "gcc"] if machine == {"arm64": "aarch64"}.get(mine, mine) else [])]
    driver = next((d for d in map(shutil.which, drivers) if d), None)
    if driver is None:
        if is_wanted:
            raise RuntimeError(f"aot_compile(link=True): none of {', '.join(drivers)} is on PATH. Link {object_path}.")
        return None
    path = os.path.join(folder, f"lib{name}.so")
    run = subprocess.run([driver, "-shared", "-o", path, object_path], capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"aot_compile: {driver} cannot link {object_path}: {run.stderr.strip()[-500:]}")
    return path
