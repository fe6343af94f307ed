"""Running what aot_compile writes: in this process, from C and C++, in Node, under emulators."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess

import numpy as np
import pytest


def needs(*tools: str):
    """Skip where a tool is not installed."""
    missing = [t for t in tools if shutil.which(t) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not installed")


def aligned(size: int) -> np.ndarray:
    whole = np.zeros(size + 64, np.uint8)
    start = -whole.ctypes.data % 64
    return whole[start : start + size]


def pointers(arrays):
    return (ctypes.c_void_p * max(1, len(arrays)))(*[a.ctypes.data for a in arrays])


class Library:
    """A shared library, called as C would."""

    def __init__(self, result) -> None:
        library = ctypes.CDLL(os.path.abspath(result.library))
        self.run_ = getattr(library, f"{result.name}_run")
        self.size_ = getattr(library, f"{result.name}_workspace_size")
        self.size_.restype = ctypes.c_int64
        self.weights = aligned(result.weights_size)
        self.weights[:] = np.fromfile(result.weights, np.uint8)

    def size(self, *dims: int) -> int:
        return self.size_((ctypes.c_int64 * max(1, len(dims)))(*dims))

    def __call__(self, inputs, outputs, *dims: int) -> int:
        space = aligned(max(1, self.size(*dims)))
        given = (ctypes.c_int64 * max(1, len(dims)))(*dims)
        return self.run_(ctypes.c_void_p(self.weights.ctypes.data), ctypes.c_void_p(space.ctypes.data),
                         pointers(inputs), pointers(outputs), given)


MAIN = """#include "{name}.hpp"
#include <cstdio>
template <typename T> std::vector<T> read(const char* path) {{
  std::ifstream f(path, std::ios::binary | std::ios::ate);
  std::vector<T> v(static_cast<size_t>(f.tellg()) / sizeof(T));
  f.seekg(0);
  f.read(reinterpret_cast<char*>(v.data()), static_cast<std::streamsize>(v.size() * sizeof(T)));
  return v;
}}
int main(int, char** argv) {{
  try {{
    rushlight::{name} model(argv[1]);
    auto y = model({dims}read<{kind}>(argv[2]));
    std::fwrite(y.data(), sizeof(y[0]), y.size(), stdout);
  }} catch (const std::exception& e) {{
    std::fprintf(stderr, "%s\\n", e.what());
    return 1;
  }}
}}
"""


def cpp_program(result, folder, kind="float", dims=(), compiler="g++", options=()) -> str:
    """An executable that runs the model on a file and prints the bytes of the result."""
    text = MAIN.format(name=result.name, kind=kind, dims="".join(f"{d}, " for d in dims))
    (folder / "main.cc").write_text(text)
    command = [compiler, "-std=c++14", "-Wall", "-Wextra", "-Werror", "-I", os.path.dirname(result.header),
               str(folder / "main.cc"), result.object, "-o", str(folder / "main"), *options]
    subprocess.run(command, check=True)
    return str(folder / "main")


def in_node(result, folder, x: np.ndarray, shape, dims=()) -> np.ndarray:
    """The result of a WebAssembly module."""
    kind = {"float32": "Float32Array", "int64": "BigInt64Array"}[x.dtype.name]
    x.tofile(folder / "x.bin")
    (folder / "run.mjs").write_text(f"""import fs from "fs";
import {{ load }} from "./{result.name}.mjs";
const bytes = (name) => new Uint8Array(fs.readFileSync(name)).buffer;
const f = await load(bytes("{os.path.abspath(result.object)}"), bytes("{os.path.abspath(result.weights)}"));
const [y] = f({"".join(f"{d}, " for d in dims)}new {kind}(bytes("{folder / 'x.bin'}")));
fs.writeFileSync("{folder / 'y.bin'}", new Uint8Array(y.buffer, y.byteOffset, y.byteLength));
""")
    subprocess.run(["node", str(folder / "run.mjs")], check=True)
    return np.fromfile(folder / "y.bin", np.float32).reshape(shape)
