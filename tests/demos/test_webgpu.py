"""The digits network as programs in WGSL: they compute what the network does, however many items there are.

No browser is needed: the texts are read as C++ here, by a few definitions and replacements of words. A browser with a
software adapter runs them in test_demos.py.
"""

from __future__ import annotations

import base64
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import rushlight as torch
from rushlight.codegen.c_text import WgslPrinter
from rushlight.devices import register
from rushlight.devices.null import NullDevice

ROOT = Path(__file__).resolve().parents[2]
COMPILER = next((path for path in map(shutil.which, ("c++", "g++", "clang++")) if path), None)
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")
HEAD = """
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>
using i32 = int32_t; using u32 = uint32_t; using f32 = float;
struct vec3 { u32 x, y, z; };
template <class T, class S> T bitcast(S x) { static_assert(sizeof(T) == sizeof(S)); T y; memcpy(&y, &x, 4); return y; }
template <class T> T select(T a, T b, bool c) { return c ? b : a; }
using std::fma; using std::floor; using std::ceil; using std::trunc; using std::sqrt; using std::abs;
static u32 special[3] = {0x7f800000u, 0xff800000u, 0x7fc00000u};
static std::vector<u32> words;
struct Memory { u32 &operator[](int k) { return words.at(k); } } memory;
"""


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable]:
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "browser"))
    import webgpu

    yield webgpu.recorded
    del sys.modules["webgpu"]


def as_cpp(code: str, name: str) -> str:
    """A program in WGSL as a function of C++ in a namespace."""
    code = re.sub(r"^(@group|var<private>).*$", "", code, flags=re.M)
    code = re.sub(r"@compute @workgroup_size\((\d+)\)", r"static const u32 SIZE = \1;", code)
    code = re.sub(r"fn main\(.*?\) \{", "void run(vec3 item, vec3 groups) {", code)
    code = re.sub(r"fn (\w+)\(a: (\w+), b: \w+\) -> (\w+)", r"static \3 \1(\2 a, \2 b)", code)
    code = re.sub(r"\bvar (\w+): (\w+)", r"\2 \1", code)
    code = re.sub(r"\blet (\w+): (\w+)", r"const \2 \1", code)
    return f"namespace {name} {{ {code} }}"


def run_as_cpp(program: dict, image: list[float], folder: Path) -> list[float]:
    """What the programs leave, item by item, on a processor."""
    memory = bytearray(program["bytes"])
    for at, text in program["memory"]:
        data = base64.b64decode(text)
        memory[at : at + len(data)] = data
    memory[program["input"] : program["input"] + 4 * len(image)] = struct.pack(f"{len(image)}f", *image)
    (folder / "memory.bin").write_bytes(memory)
    parts = [HEAD, *(as_cpp(kernel["code"], f"k{k}") for k, kernel in enumerate(program["kernels"]))]
    parts.append(f"int main() {{ words.resize({len(memory) // 4}); FILE *f = fopen(\"memory.bin\", \"rb\");"
                 "if (fread(words.data(), 4, words.size(), f) != words.size()) return 1;")
    for k, kernel in enumerate(program["kernels"]):
        x, y = kernel["groups"]
        parts.append(f"for (u32 y = {y}; y-- > 0;) for (u32 x = {x} * k{k}::SIZE; x-- > 0;)"     # in no natural order
                     f" k{k}::run(vec3{{x, y, 0}}, vec3{{{x}, {y}, 1}});")
    first = program["output"] // 4
    parts.append(f'for (int k = {first}; k < {first + program["results"]}; k++)'
                 ' printf("%.9g ", bitcast<f32>(words[k])); }')
    (folder / "all.cpp").write_text("\n".join(parts))
    subprocess.run([COMPILER, "-std=c++17", "-O1", "-ffp-contract=off", "-o", "all", "all.cpp"], cwd=folder, check=True)
    done = subprocess.run(["./all"], cwd=folder, capture_output=True, check=True)
    return [float(word) for word in done.stdout.split()]


def small_network() -> torch.nn.Module:
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3, padding=1),
        nn.Tanh(), nn.Flatten(), nn.Dropout(0.5), nn.Linear(6 * 36, 10), nn.Softmax(1),
    ).eval()


@needs_compiler
def test_programs_compute_what_the_network_does(recorded: Callable, tmp_path: Path) -> None:
    network, image = small_network(), torch.rand(1, 1, 12, 12)
    program = recorded(network, torch.zeros(1, 1, 12, 12))
    found = run_as_cpp(program, image.flatten().tolist(), tmp_path)
    np.testing.assert_allclose(found, network(image)[0].tolist(), atol=2e-6)


@needs_compiler
def test_any_number_of_groups_is_right(recorded: Callable, tmp_path: Path) -> None:
    network, image = small_network(), torch.rand(1, 1, 12, 12)
    program = recorded(network, image)
    for kernel in program["kernels"]:
        kernel["groups"] = (2, 3)
    found = run_as_cpp(program, image.flatten().tolist(), tmp_path)
    np.testing.assert_allclose(found, network(image)[0].tolist(), atol=2e-6)


def test_programs_are_wgsl_and_not_c(recorded: Callable) -> None:
    for kernel in recorded(small_network(), torch.zeros(1, 1, 12, 12))["kernels"]:
        code = kernel["code"]
        assert code.count("{") == code.count("}") and code.count("@compute") == 1
        assert not re.search(r"[?]|\bi64\b|\bstatic\b|\(f32\)|\(i32\)[^;]|->\s*\*|\+\+", code), code
        declared = set(re.findall(r"(?:var|let|const) (\w+)", code))
        assert set(re.findall(r"\bn_\w+|\bt\d+_\b", code)) <= declared, code
        assert all(1 <= groups <= 1024 for groups in kernel["groups"])


@pytest.mark.parametrize(("dtype", "says"), [("float64", "f64"), ("int64", "i64"), ("bool", "b1")])
def test_what_webgpu_has_not_is_refused_by_name(dtype: str, says: str) -> None:
    nests = []

    class Remembering(NullDevice):
        name = f"remembering_{dtype}"

        def load(self, nest: object) -> int:
            nests.append(nest)
            return len(nests)

        def launch(self, *given: object) -> None:
            pass

    register(Remembering())
    x = torch.empty(4, 4, dtype=getattr(torch, dtype), device=Remembering.name)
    x | x if dtype == "bool" else x * x
    with pytest.raises(NotImplementedError, match=f"wgsl: operands of type {says} cannot be said"):
        WgslPrinter(nests[-1], [0] * len(nests[-1].params), [0] * len(nests[-1].operands), 0, 4)
