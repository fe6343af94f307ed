"""Library kernels are declared, written for every vector width, accepted by LLVM, and shown like kernels of nests."""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

from rushlight.codegen import library
from rushlight.codegen.library.convolution import convolve, winograd
from rushlight.codegen.library.interface import INTERFACES, assembly_of, text_of, tile_of, tile_shapes
from rushlight.codegen.library.row_copies import RowCopy
from rushlight.codegen.llvm.cpu import compile_ir
from rushlight.codegen.text.targets import find_target

WIDTHS = {"aarch64": 128, "x86-64-avx2": 256, "x86-64-avx512": 512}
# Kernels are declared where their module is imported: all of them here, or what is collected would depend on what was
# collected before.
for module in pkgutil.walk_packages(library.__path__, library.__name__ + "."):
    importlib.import_module(module.name)


def test_every_kernel_is_declared_with_operands_parameters_and_items() -> None:
    assert len(INTERFACES) >= 11
    for name, interface in INTERFACES.items():
        assert name == interface.name and interface.operands and interface.params and interface.items
        assert len(set(interface.params)) == len(interface.params)


@pytest.mark.share(2)
@pytest.mark.parametrize("target", WIDTHS)
@pytest.mark.parametrize("name", sorted(INTERFACES))     # in whichever order they were imported
def test_texts_compile_for_every_width(name: str, target: str) -> None:
    interface, machine = INTERFACES[name], find_target(target)
    tile = tile_of("f32", 0, machine.vector_bits)
    if interface is convolve.WEIGHT and not tile.masked:
        pytest.skip("dots.py has the form for vectors without masks")
    assert machine.vector_bits == WIDTHS[target]
    text = text_of(interface, interface.codes[-1], machine)
    assert f"define void @{name}(" in text
    assert compile_ir(text, machine, "object")[:4] == b"\x7fELF"


@pytest.mark.parametrize("target", WIDTHS)
def test_register_tiles_leave_no_accumulator_in_memory(target: str) -> None:
    machine = find_target(target)
    registers = 16 if machine.vector_bits == 256 else 32
    for shape in tile_shapes(machine.vector_bits):
        tile = tile_of("f32", shape, machine.vector_bits)
        assert tile.rows * tile.vectors + tile.vectors <= registers
        assert tile.pitch * tile.size % 128 == 64, "rows of windows would fall into few cache sets"
    lines = assembly_of(convolve.FORWARD, "f32", machine).splitlines()
    fma = "fmla" if target == "aarch64" else "vfmadd"
    tile = tile_of("f32", 0, machine.vector_bits)
    assert sum(fma in line for line in lines) >= tile.rows * tile.vectors


def test_an_interface_refuses_dtypes_that_it_does_not_list() -> None:
    with pytest.raises(ValueError, match="conv_winograd_input: expected a dtype among f32, got f64"):
        text_of(winograd.INPUT, "f64", find_target("aarch64"))


def test_library_kernels_are_shown() -> None:
    code = "import rushlight as rl; rl.nn.functional.conv2d(rl.ones(1, 8, 9, 9), rl.ones(8, 8, 3, 3))"
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "RUSHLIGHT_SHOW": "llvm"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--- llvm: conv_forward" in result.stderr and "define void @conv_forward(" in result.stderr


EXACT = """
import rushlight as rl
import rushlight.codegen.library.interface as interface
import rushlight.planners.convolutions.convolve as planner
interface.vector_bits = planner.vector_bits = lambda: BITS
F = rl.nn.functional
for n, c, o, size, k, stride, padding, dilation, groups in (
    (2, 16, 24, 7, 3, 1, 1, 1, 1), (2, 16, 24, 9, 3, 2, 1, 1, 1), (1, 3, 8, 19, 7, 2, 3, 1, 1),
    (3, 5, 7, 11, 3, 1, 1, 1, 1), (1, 8, 16, 17, 1, 3, 0, 1, 1), (2, 8, 16, 10, 3, 1, 2, 2, 2),
    (2, 24, 16, 33, 1, 1, 0, 1, 1), (2, 5, 5, 7, 5, 1, 2, 1, 5), (2, 4, 4, 14, 5, 2, 2, 1, 4),
    (1, 3, 6, 9, 3, 1, 1, 1, 3), (2, 3, 3, 29, 3, 2, 1, 1, 3), (1, 2, 2, 70, 3, 3, 1, 1, 2),
    (1, 2, 2, 40, 3, 1, 2, 2, 2), (1, 128, 16, 4, 3, 1, 1, 1, 1), (2, 230, 11, 4, 3, 1, 1, 1, 1),
    (1, 1030, 20, 7, 1, 1, 0, 1, 1),
):
    x = rl.randint(-3, 4, (n, c, size, size))
    w = rl.randint(-3, 4, (o, c // groups, k, k))
    y = F.conv2d(x, w, None, stride, padding, dilation, groups)   # integers: exact, by another way
    g = rl.randint(-3, 4, tuple(y.shape))
    for dtype in (rl.float32, rl.float64):
        a, b = x.to(dtype).requires_grad_(), w.to(dtype).requires_grad_()
        z = F.conv2d(a, b, None, stride, padding, dilation, groups)
        assert rl.equal(z.detach().to(rl.int64), y), (BITS, dtype, n, c, o, size, k)
        z.backward(g.to(dtype))
        # <g, conv(u, w)> = <input gradient, u>, and likewise for weights: exact on integers.
        u, v = rl.randint(-3, 4, tuple(x.shape)), rl.randint(-3, 4, tuple(w.shape))
        assert (g * F.conv2d(u, w, None, stride, padding, dilation, groups)).sum() == (a.grad.to(rl.int64) * u).sum()
        assert (g * F.conv2d(x, v, None, stride, padding, dilation, groups)).sum() == (b.grad.to(rl.int64) * v).sum()
"""


@pytest.mark.share(2)
@pytest.mark.parametrize("bits", [128, 256, 512])
def test_convolutions_are_exact_on_integers_for_every_width_of_vectors(bits: int, tmp_path: Path) -> None:
    # LLVM splits vectors that the processor does not have, so every form runs everywhere.
    done = subprocess.run(
        [sys.executable, "-c", EXACT.replace("BITS", str(bits))],
        env={**os.environ, "RUSHLIGHT_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


PADDED = """
import ctypes
import numpy as np
import rushlight.codegen.library.interface as interface
interface.vector_bits = lambda: BITS
from rushlight.codegen.library.interface import kernel_of, tile_of
from rushlight.planners.convolutions.tiles import fullest_tile, tile_steps
from rushlight.planners.convolutions.walk import Walk, Weights, Window, array_of, forward_axes

def transformed(height, width, channels=4, outs=4):
    window = Window((3, 3), (1, 1), (1, 1), (1, 1), 1)
    axes = tuple(forward_axes((height, width), (height, width), window))
    strides = (channels * height * width, height * width, width, 1)
    walk = Walk(axes, array_of(0, strides, channels), array_of(1, strides, outs), 1, 1, channels, outs).collapsed()
    given = lambda interface, code, shape, spots: (kernel_of(interface, code, shape).address, spots)
    steps, size = tile_steps(walk, Weights(2, 0, 9 * channels, 9, (3, 1)), None, 3, 0, given)
    address, _, params, items, *_ = steps[1]
    tiles = -(-height // 2) * -(-width // 4)
    tile = tile_of("f32", fullest_tile(outs, tiles))
    panels = -(-tiles // tile.columns)
    out = np.full((24, panels, channels, tile.columns), np.nan, "f4")
    source = np.ones((channels, height, width), "f4")
    pointers = (ctypes.c_int64 * 2)(source.ctypes.data, out.ctypes.data)
    KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    KERNEL(address)(pointers, (ctypes.c_int64 * len(params))(*params), 0, items)
    return out.transpose(0, 2, 1, 3).reshape(24, channels, -1), tiles

transformed(16, 48)                        # leaves something behind on the stack
out, tiles = transformed(2, 20)
assert tiles < out.shape[2] and (out[:, :, :tiles] != 0).any() and (out[:, :, tiles:] == 0).all(), out[0, 0]
"""


@pytest.mark.parametrize("bits", [256, 512])
def test_tiles_past_the_last_are_zeros_where_others_would_be_slow(bits: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PADDED.replace("BITS", str(bits))],
        env={**os.environ, "RUSHLIGHT_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("target", WIDTHS)
def test_row_copies_compile_for_every_width(target: str) -> None:
    machine = find_target(target)
    for outer in range(3):
        text = RowCopy(outer).text(machine.triple)
        assert compile_ir(text, machine, "object")[:4] == b"\x7fELF" and "@llvm." not in text
