"""Kernels written as PTX, run by NumPy in lockstep: sorts, running sums; and what ptxas says of them."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest

from rushlight.codegen.nvptx import counts as nvptx_counts, scan as nvptx_scan, select as nvptx_select
from rushlight.codegen.nvptx.sort import KERNELS
from rushlight.codegen.schedule.gpu.walk import schedule_walk
from rushlight.devices.cuda.driver import starting_early
from rushlight.loops.lowered import Lowered, Memory, Walk
from rushlight.planners.order.radix_blocks import few_steps, select_steps, sort_steps
from rushlight.planners.order.true_positions import TILE, tile_counts, tile_positions

from . import lockstep

pytestmark = pytest.mark.share(2)   # of each test that has several cases

SIZES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "f32": 4, "f64": 8, "i64": 8}


def launched(launches, temps, first, memory, shift=0):
    """The launches over `memory` (a dict of operands, as bytes) and temporaries from operand `first` on; what is given
    misses a vector's place by `shift` bytes."""
    for k, temp in enumerate(temps or ()):
        if first + k not in memory:
            memory[first + k] = np.full(temp.sizes[0] * SIZES[temp.code], 0x5A, np.uint8)
    for one in launches:
        shifts = [shift if k < first else 0 for k in one.operands]
        lockstep.run(one.nest(), one.extent, [memory[k] for k in one.operands], list(one.params), shifts)
    return memory


@pytest.mark.parametrize("bits, number, length", [
    (32, 2, 4097), (64, 1, 5000), (16, 1, 6000), (8, 3, 4500), (32, 3, 300), (64, 2, 700), (8, 2, 65),
    (16, 1, 256),
])
def test_sort(bits, number, length):
    rng = np.random.default_rng(bits + length)
    keys = rng.integers(0, 1 << min(bits, 20), number * length, dtype=np.uint64)
    keys[rng.integers(0, len(keys), 20)] = np.uint64((1 << bits) - 1)
    keys = keys.astype(f"u{bits // 8}")
    launches, temps, ordered = sort_steps(bits, number, length, 3)
    memory = launched(launches, temps, 3, {3: keys.copy().view(np.uint8)})
    found = memory[ordered].view(np.uint32).reshape(number, length)
    assert (found == np.argsort(keys.reshape(number, length), 1, kind="stable")).all()


@pytest.mark.parametrize("bits, number, length, count, most", [
    (32, 2, 9000, 50, 20), (64, 1, 5000, 3, 62), (16, 2, 4500, 7, 5), (8, 1, 20_000, 40, 3), (32, 1, 40_000, 5000, 32),
    (32, 3, 8192, 1, 2),
])
def test_select(bits, number, length, count, most):
    """The first few in order, of keys with many that are equal and of those that differ in every digit."""
    rng = np.random.default_rng(bits + length)
    keys = rng.integers(0, 1 << min(bits, most), number * length, dtype=np.uint64).astype(f"u{bits // 8}")
    launches, temps, ordered = select_steps(bits, number, length, count, 3)
    zeros = np.zeros(temps[1].sizes[0], np.uint32)
    memory = launched(launches, temps, 3, {3: keys.view(np.uint8), 4: zeros.view(np.uint8)})
    among = memory[ordered].view(np.uint32)[: number * count].reshape(number, count)
    places = memory[6].view(np.uint32).reshape(number, count)
    wanted = np.argsort(keys.reshape(number, length), 1, kind="stable")[:, :count]
    assert (np.take_along_axis(places, among.astype(np.int64), 1) == wanted).all()


@pytest.mark.parametrize("bits, number, length, count", [
    (32, 11, 64, 2), (16, 3, 500, 32), (8, 9, 37, 5), (32, 8, 130, 9),
])
def test_few_of_short_rows(bits, number, length, count):
    rng = np.random.default_rng(length)
    keys = rng.integers(0, 1 << min(bits, 5), number * length, dtype=np.uint64)
    keys[rng.integers(0, len(keys), len(keys) // 2)] = (1 << bits) - 1
    keys = keys.astype(f"u{bits // 8}")
    launches, temps, ordered = few_steps(bits, number, length, count, 3)
    memory = launched(launches, temps, 3, {3: keys.view(np.uint8)})
    found = memory[ordered].view(np.uint32).reshape(number, length)[:, :count]
    assert (found == np.argsort(keys.reshape(number, length), 1, kind="stable")[:, :count]).all()


def test_sums_of_many_counts():
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 9, 40_000, dtype=np.uint32)
    sums = np.zeros(10, np.uint32)
    memory = [counts.copy().view(np.uint8), sums.view(np.uint8)]
    lockstep.run(KERNELS["sums"](), 10, memory, [len(counts)])
    lockstep.run(KERNELS["spine"](), 1, memory[1:], [10])
    lockstep.run(KERNELS["before"](), 10, memory[::-1], [len(counts)])
    assert (memory[0].view(np.uint32) == np.cumsum(counts) - counts).all()


@pytest.mark.parametrize("shape", [(5000,), (3, 41, 77), (4096,), (1, 1)])
@pytest.mark.parametrize("often", [0.0, 0.3, 1.0])
def test_positions(shape, often):
    rng = np.random.default_rng(3)
    mask = rng.random(shape) < often
    counts = tile_counts(mask.size)
    before = np.full(-(-mask.size // TILE) + 1, 99, np.int32)
    memory = {0: mask.reshape(-1).view(np.uint8), 1: before.view(np.uint8)}
    launched(counts.launches, (), 2, memory)
    wanted = np.argwhere(mask)
    assert before[0] == 0 and before[-1] == len(wanted)
    first = tile_positions((mask.size,), mask.size, len(wanted)).launches
    result = np.zeros(len(wanted), np.int64)
    launched(first, (), 3, {**memory, 2: result.view(np.uint8)})
    assert (result == np.flatnonzero(mask)).all()


@pytest.mark.parametrize("code", ["i32", "i64"])
@pytest.mark.parametrize("length, bins", [(5000, 7), (9000, 1000), (100, 300)])
def test_counts_of_numbers(code, length, bins):
    """Numbers that are all the same, in part, and some that are none of those counted."""
    numbers = np.random.default_rng(1).integers(-3, bins + 9, length).astype(CODES[code])
    numbers[: length // 2] = 5
    result, portion = np.zeros(bins, np.int64), nvptx_counts.STEP * 2
    memory = [numbers.view(np.uint8), result.view(np.uint8)]
    kernel = nvptx_counts.counting(code, next(n for n in nvptx_counts.ROOMS if n >= bins))
    lockstep.run(kernel, -(-length // portion), memory, [length, portion, bins])
    assert (result == np.bincount(numbers[(numbers >= 0) & (numbers < bins)], minlength=bins)).all()


CODES = {"b1": np.bool_, "i32": np.int32, "f32": np.float32, "f64": np.float64, "i64": np.int64, "f16": np.float16}


@pytest.mark.parametrize("shift", [0, 8])        # bytes by which the tensors miss a vector's place
@pytest.mark.parametrize("code, out, number, length", [
    ("f32", "f32", 2, 5000), ("f32", "f32", 3, 300), ("f64", "f64", 1, 4200), ("i64", "i64", 2, 2049),
    ("i32", "i64", 1, 700), ("f16", "f16", 2, 4097), ("f32", "f32", 5, 2),
    ("f32", "f32", 19, 128), ("f32", "f32", 9, 127), ("f16", "f16", 8, 256), ("i64", "i64", 3, 200),
    ("i32", "i64", 2, 77), ("b1", "i64", 2, 5000), ("b1", "i64", 7, 90), ("b1", "i64", 2, 300),
])
def test_running_sums(code, out, number, length, shift):
    rng = np.random.default_rng(length)
    x = (rng.standard_normal((number, length)) * (1 if code[0] == "f" else 1000)).astype(CODES[code])
    compute = {"f16": "f32", "f32": "f64", "i32": "i64", "b1": "i64"}.get(code, code)
    result = np.full(x.size, 77, CODES[out])
    scanned("add", x, compute, [result], code, shift)
    wanted = np.cumsum(x.astype(CODES[compute]), 1).astype(CODES[out])
    room = 1e-2 if code == "f16" else 1e-6
    assert np.allclose(result.reshape(x.shape), wanted, rtol=room, atol=room)


def scanned(way, x, compute, results, code, shift):
    """A scan of rows into arrays that are given, by written kernels alone."""
    body, outs = object(), tuple([next(k for k, d in CODES.items() if r.dtype == d) for r in results])
    memory = Memory("input", code, x.shape, (x.shape[1], 1), (0, 1))
    walk = Walk(1, compute, None, None, None, plain=body, way=way)
    plan = schedule_walk(Lowered("scan", (), x.shape, x.shape, outs, (memory,), body, walk=walk), written=True)
    arrays = {0: x.reshape(-1).view(np.uint8), **{1 + k: r.view(np.uint8) for k, r in enumerate(results)}}
    launched(plan.launches, plan.temps, 1 + len(results), arrays, shift)


@pytest.mark.parametrize("shift", [0, 8])
@pytest.mark.parametrize("code, number, length", [
    ("f32", 19, 128), ("f32", 9, 127), ("f64", 3, 40), ("i64", 8, 200), ("f16", 8, 256), ("i32", 9, 33),
])
def test_running_products(code, number, length, shift):
    rng = np.random.default_rng(length)
    x = rng.integers(1, 4, (number, length)) if code[0] == "i" else 1 + rng.standard_normal((number, length)) / 16
    x, out = x.astype(CODES[code]), "i64" if code == "i32" else code
    compute = {"f16": "f32", "f32": "f64", "i32": "i64"}.get(code, code)
    result = np.full(x.size, 77, CODES[out])
    scanned("mul", x, compute, [result], code, shift)
    with np.errstate(over="ignore"):
        wanted = np.cumprod(x.astype(CODES[compute]), 1).astype(CODES[out])
    assert np.allclose(result.reshape(x.shape), wanted, rtol=1e-2 if code == "f16" else 1e-6)


@pytest.mark.parametrize("way", ["max", "min"])
@pytest.mark.parametrize("code, number, length", [
    ("f32", 19, 128), ("f32", 9, 127), ("f64", 3, 40), ("i64", 8, 200), ("f16", 8, 256), ("i32", 9, 33), ("f32", 5, 2),
])
def test_running_extremes(code, number, length, way):
    """Equal elements, of which the last counts, zeros of both signs, and NaN, which stays."""
    rng = np.random.default_rng(length)
    x = rng.integers(-5, 6, (number, length)).astype(CODES[code])
    if code[0] == "f" and length > 2:
        x[1::3, length // 2] = np.nan
        x[2::3, length // 3 :: 5] = -0.0
    values, places = np.full(x.size, 77, CODES[code]), np.full(x.size, 77, np.int64)
    scanned(way, x, {"f16": "f32"}.get(code, code), [values, places], code, 0)
    for row, found, at in zip(x, values.reshape(x.shape), places.reshape(x.shape), strict=True):
        best = 0
        for k in range(length):
            takes = np.isnan(row[k]) or (row[k] >= row[best] if way == "max" else row[k] <= row[best])
            best = k if takes else best
            assert at[k] == best and found[k : k + 1].tobytes() == row[best : best + 1].tobytes(), (row, k)


@pytest.mark.parametrize("code, number, length", [("f32", 9, 128), ("f32", 4, 127), ("f16", 3, 256)])
def test_logarithms_of_running_sums(code, number, length):
    """Elements that differ by much, infinities of both signs, and NaN, which stays."""
    x = (np.random.default_rng(length).standard_normal((number, length)) * 20).astype(CODES[code])
    x[0, :9], x[1, :5] = -np.inf, [-np.inf, 1, np.inf, np.inf, -np.inf]
    x[2, length // 2] = np.nan
    result = np.full(x.size, 77, CODES[code])
    scanned("logaddexp", x, "f32", [result], code, 0)
    with np.errstate(invalid="ignore"):
        wanted = np.logaddexp.accumulate(x.astype(np.float64), 1)
    assert np.allclose(result.reshape(x.shape), wanted, rtol=2e-3 if code == "f16" else 1e-6, atol=1e-6, equal_nan=True)


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not installed")
@pytest.mark.parametrize("form", nvptx_scan.FORMS)
def test_ptxas_accepts_scans(form, tmp_path):
    most = nvptx_scan.MOST_ITEMS[nvptx_scan.SIZES[form[1]]]
    kernels = (nvptx_scan.summing(form, most), nvptx_scan.spine(form), nvptx_scan.running(form, most, False),
               nvptx_scan.running(form, 1, True), nvptx_scan.running_rows(form, 8, True),
               nvptx_scan.running_rows(form, 4, False), nvptx_scan.running_rows(form, 4, True, "mul"),
               nvptx_scan.placing(16))
    for number, one in enumerate(kernels):
        accepted(one.text(), tmp_path / f"{number}.ptx")


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not installed")
@pytest.mark.parametrize("form", nvptx_scan.EXTREMES)
def test_ptxas_accepts_extremes(form, tmp_path):
    for way in nvptx_scan.WORSE:
        accepted(nvptx_scan.extreme_rows(form, 8, way == "max", way).text(), tmp_path / f"{way}.ptx")
    if form in nvptx_scan.LOGS:
        accepted(nvptx_scan.log_rows(form, 4, True, "logaddexp").text(), tmp_path / "logs.ptx")


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not installed")
@pytest.mark.parametrize("code", ["i32", "i64"])
def test_ptxas_accepts_counting(code, tmp_path):
    accepted(nvptx_counts.counting(code, 8192).text(), tmp_path / "kernel.ptx")


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not installed")
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("name", nvptx_select.KERNELS)
def test_ptxas_accepts_selection(name, bits, tmp_path):
    accepted(nvptx_select.KERNELS[name](bits).text(), tmp_path / "kernel.ptx")
    if bits <= 32:
        accepted(nvptx_select.finding_few(bits, 16).text(), tmp_path / "few.ptx")


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not installed")
@pytest.mark.parametrize("name, form", [
    ("count", (32, 16)), ("deal", (32, 16)), ("deal", (64, 8)), ("deal", (8, 16)), ("row", (16, 16)), ("row", (64, 1)),
    ("sums", ()), ("spine", ()), ("before", ()),
])
def test_ptxas_accepts(name, form, tmp_path):
    accepted(KERNELS[name](*form).text(), tmp_path / "kernel.ptx")


def accepted(text, source):
    for one in (text, starting_early(text)):
        source.write_text(one)
        done = subprocess.run(["ptxas", "-arch=sm_90", str(source), "-o", str(source.with_suffix(".cubin"))],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
