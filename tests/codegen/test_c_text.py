"""Nests printed as plain C: gcc makes of them what the host's own kernels do, bit for bit where nothing is summed.

All kernels of this file are compiled in one go. Texts for OpenCL, whose results tests/opencl compares, are read here.
"""

from __future__ import annotations

import ctypes
import itertools
import re
import shutil
import subprocess
from collections.abc import Sequence

import numpy as np
import pytest
from harness import SIGNATURE, run_nest
from test_random_expressions import Grower as Expressions

from rushlight.codegen.c_text import ALONE, OPENCL, PLAIN_C, Printer, strides_of, with_dims
from rushlight.codegen.schedule.cpu.product import pack_nest
from rushlight.codegen.text.targets import vector_bits
from rushlight.loops import expr as e
from rushlight.loops.expr import BYTE_FLOATS
from rushlight.loops.nest import (
    Assign,
    Check,
    For,
    If,
    Local,
    Multiply,
    Nest,
    Store,
    operands,
    pointwise_nest,
    reduction,
    rows,
)

ZERO = e.const(0, "i64")
i, j, k, n = (e.var(name) for name in ("i", "j", "k", "n"))
RNG = np.random.default_rng(3)
SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 1.5, -2.5, 1e-40, 3e38, -7e9, 65519.9, 65520.0, 448.0, 464.0, 2.0**-25]
WHOLE = {"i8": np.int8, "u8": np.uint8, "i16": np.int16, "i32": np.int32, "u32": np.uint32, "i64": np.int64,
         "u64": np.uint64}
NARROW = {"f16": np.uint16, "bf16": np.uint16, **dict.fromkeys(BYTE_FLOATS, np.uint8)}


def flat(name: str, inputs: Sequence[str], outputs: Sequence[str], values: Sequence[e.Value]) -> Nest:
    return pointwise_nest(name, inputs, outputs, values)


def whole_numbers(code: str) -> Nest:
    a, b = e.arg(0, code), e.arg(1, code)
    values = [a + b, a - b, a * b, e.idiv(a, b), e.irem(a, b), e.floor_divide(a, b), e.remainder(a, b), e.neg(a),
              e.abs_(a), e.min_(a, b), e.shl(a, e.const(3, code)), e.shr(a, e.const(2, code)), a ^ b, e.not_(a)]
    return flat(f"whole_{code}", [code, code], [code] * len(values), values)


def conversions() -> Nest:
    x = e.arg(0, "f32")
    return flat("conversions", ["f32"], [*NARROW, *WHOLE, "b1"],
                [e.cast(x, code) for code in (*NARROW, *WHOLE, "b1")])


def widened(code: str) -> Nest:
    return flat(f"widened_{code}", [code], ["f32"], [e.cast(e.arg(0, code), "f32")])


def extremes() -> Nest:
    a, b = e.arg(0, "f32"), e.arg(1, "f32")
    values = [e.min_(a, b), e.max_(a, b), e.call("maximum", a, b), e.call("minimum", a, b), e.call("exp", a),
              e.call("tanh", b), a / b, e.sqrt(a), e.rint(a), e.copysign(a, b), e.fma(a, b, a)]
    return flat("extremes", ["f32", "f32"], ["f32"] * len(values), values)


def complex_product() -> Nest:
    a, b = e.arg(0, "c64"), e.arg(1, "c64")
    return flat("complex_product", ["c64", "c64"], ["c64", "c64"], [a * b, a / b])


def expressions(seed: int) -> Nest:
    grower = Expressions(seed)
    for _ in range(30):
        grower.grow()
    outputs = [grower.pool[code][-1] for code in ("f32", "f64", "i32", "i64")]
    return flat(f"grown{seed}", list(Expressions.INPUTS), [v.dtype for v in outputs], outputs)


def row_sums() -> Nest:
    """Sums and the place of the largest element of rows: lanes of their own, then joined."""
    x = e.load(0, i * n + j, "f32")

    def better(a: list[e.Value], b: list[e.Value]) -> list[e.Value]:
        first = e.or_(e.gt(a[0], b[0]), e.and_(e.eq(a[0], b[0]), e.lt(a[1], b[1])))
        return [e.select(first, a[0], b[0]), e.select(first, a[1], b[1]), a[2] + b[2]]
    fold = reduction("j", ZERO, n, ["top", "at", "sum"],
                     [e.const(-np.inf, "f32"), e.const(1 << 40, "i64"), e.const(0, "f32")],
                     lambda a: better(a, [x, j, x]), better, blocked=True)
    return Nest("row_sums", operands(["f32"], ["f32", "i64", "f32"]), ("n",), rows(
        fold, Store(1, i, e.var("top", "f32")), Store(2, i, e.var("at", "i64")), Store(3, i, e.var("sum", "f32"))))


def column_sums() -> Nest:
    """Columns side by side through one loop."""
    x = e.load(0, e.var("r") * n + i, "c64")
    fold = reduction("r", ZERO, e.var("count"), ["sum"], [e.const(0, "c64")], lambda a: [a[0] + x],
                     lambda a, b: [a[0] + b[0]])
    return Nest("column_sums", operands(["c64"], ["c64"]), ("n", "count"),
                rows(fold, Store(1, i, e.var("sum", "c64")), vector=True))


def gather() -> Nest:
    at = e.load(1, i, "i64")
    return Nest("gather", operands(["f32", "i64"], ["f32"], ["i64"]), ("size",), rows(
        Check(e.and_(e.ge(at, 0), e.lt(at, e.var("size"))), 3, i + 1), Store(2, i, e.load(0, at, "f32"))))


def histogram(code: str) -> Nest:
    return Nest(f"histogram_{code}", operands(["i64"], [code]), (),
                rows(Store(1, e.load(0, i, "i64"), e.const(1, code), "add"), vector=True))


def swapped(code: str) -> Nest:
    there = e.var("there", code)
    value = e.cast(i, code)
    return Nest(f"swapped_{code}", operands(["i64"], [code]), (),
                rows(Store(1, e.load(0, i, "i64"), e.select(e.lt(there, value), value, there), "swap"), vector=True))


def scan() -> Nest:
    """A serial loop that ends early, with a local that changes, a branch and a table of numbers."""
    total = e.var("total", "f32")
    step = e.load(0, i * n + j, "f32") + e.table(e.irem(j, e.const(3, "i64")), (0.5, -1.0, 2.0), "f32")
    return Nest("scan", operands(["f32"], ["f32"]), ("n",), rows(
        Local("total", e.const(0.0, "f32")),
        For("j", ZERO, n, (
            Assign("total", total + step),
            If(e.gt(total, e.const(0.0, "f32")), (Store(1, i * n + j, total),), (Store(1, i * n + j, e.neg(total)),)),
        ), going=e.lt(total, e.const(9.0, "f32"))),
    ))


def tile() -> Nest:
    numbers = [e.const(v, "i64") for v in (0, 0, 64, 0, 64)]
    return Nest("tile", operands(["f32", "f32"], ["f32"]), ("rows", "columns", "depth"), rows(
        Multiply(0, numbers[0], 1, numbers[1], numbers[2], 2, numbers[3], numbers[4], e.var("rows"), e.var("columns"),
                 e.var("depth"), e.const(False, "b1"), 4, 1, line=e.var("depth"))))


NESTS = {nest.name: nest for nest in (
    *[whole_numbers(code) for code in WHOLE], conversions(), *[widened(code) for code in NARROW], extremes(),
    complex_product(), *[expressions(seed) for seed in range(6)], row_sums(), column_sums(), gather(),
    histogram("f32"), histogram("i16"), swapped("f16"), scan(), tile(), pack_nest("f32"),
)}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Every kernel of NESTS, by gcc: the heads of all texts are the same."""
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc")
    folder = tmp_path_factory.mktemp("c_text")
    printers = {name: Printer(nest, PLAIN_C) for name, nest in NESTS.items()}
    files = []
    for name, printer in printers.items():
        files.append(folder / f"{name}.c")
        files[-1].write_text(printer.text())
    library = folder / "kernels.so"
    options = [o for o in PLAIN_C.options if o != "-O3"]
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-Werror=implicit", "-o", str(library), *options,
                    *map(str, files), "-lm"], check=True)
    handle = ctypes.CDLL(str(library))
    return {name: SIGNATURE((printer.name, handle)) for name, printer in printers.items()}


def run(kernel: object, arrays: Sequence[np.ndarray], params: Sequence[int], begin: int, end: int) -> None:
    pointers = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
    kernel(pointers, (ctypes.c_int64 * max(1, len(params)))(*params), begin, end)


def both(compiled: dict, name: str, inputs: Sequence[np.ndarray], outs: Sequence[np.ndarray], params: Sequence[int],
         end: int) -> None:
    """The same kernel by gcc and by the host, to the bit."""
    other = [out.copy() for out in outs]
    run(compiled[name], [*inputs, *outs], params, 0, end)
    run_nest(NESTS[name], [*inputs, *other], params, 0, end)
    for number, (got, want) in enumerate(zip(outs, other, strict=True)):
        np.testing.assert_array_equal(got, want, err_msg=f"{name}, result {number}")


def points(compiled: dict, name: str, inputs: Sequence[np.ndarray], outs: Sequence[type]) -> None:
    count = len(inputs[0])
    results = [np.zeros(count, kind) for kind in outs]
    steps = [a.itemsize for a in (*inputs, *results)]
    both(compiled, name, inputs, results, [count, *steps, *steps], 1)


@pytest.mark.parametrize("code", WHOLE)
def test_integers_wrap_and_divide_as_ours_do(compiled, code):
    info = np.iinfo(WHOLE[code])
    edges = [info.min, info.max, 0, 1, 2, 7, info.max - 1, *([-1, -2, -7] if info.min else [])]
    a, b = (np.array([pair[side] for pair in itertools.product(edges, edges)], WHOLE[code]) for side in (0, 1))
    points(compiled, f"whole_{code}", [a, b], [WHOLE[code]] * 14)


def test_floats_become_other_types_as_ours_do(compiled):
    x = np.concatenate([np.array(SPECIAL, np.float32), RNG.normal(size=200).astype(np.float32) * 100,
                        RNG.integers(0, 1 << 32, 5000, np.uint32).view(np.float32),
                        # halfway between neighbours of 16, 11, 4 and 3 bits: ties go to even
                        *[(RNG.integers(0, 1 << 32, 500, np.uint32) >> drop << drop | 1 << drop - 1).view(np.float32)
                          for drop in (16, 13, 20, 21)]])
    with np.errstate(all="ignore"):
        # Payloads of NaN are nobody's promise.
        x = np.where(np.isnan(x), np.float32(np.nan), x)
    points(compiled, "conversions", [x], [*NARROW.values(), *WHOLE.values(), np.bool_])


@pytest.mark.parametrize("code", NARROW)
def test_every_narrow_float_is_read_as_ours_are(compiled, code):
    x = np.arange(1 << 8 * np.dtype(NARROW[code]).itemsize).astype(NARROW[code])
    points(compiled, f"widened_{code}", [x], [np.float32])


def test_functions_and_extremes_of_floats(compiled):
    a, b = (x.ravel().astype(np.float32).copy() for x in np.meshgrid(SPECIAL, SPECIAL))
    points(compiled, "extremes", [a, b], [np.float32] * 11)
    for seed in range(6):
        inputs = [RNG.normal(size=37).astype(np.float32) * 10, RNG.normal(size=37) * 10,
                  RNG.integers(-50, 50, 37).astype(np.int32), RNG.integers(-(2**40), 2**40, 37)]
        points(compiled, f"grown{seed}", inputs, [np.float32, np.float64, np.int32, np.int64])
    pair = [(RNG.normal(size=33) + 1j * RNG.normal(size=33)).astype(np.complex64) for _ in range(2)]
    points(compiled, "complex_product", pair, [np.complex64] * 2)


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 40, 9000])
def test_reductions_in_lanes(compiled, count):
    x = RNG.integers(-8, 9, (3, count)).astype(np.float32)      # sums are exact in any order
    both(compiled, "row_sums", [x], [np.zeros(3, np.float32), np.zeros(3, np.int64), np.zeros(3, np.float32)],
         [count], 3)
    y = (RNG.integers(-8, 9, (5, count)) + 1j).astype(np.complex64)
    both(compiled, "column_sums", [y], [np.zeros(count, np.complex64)], [count, 5], count)


def test_checks_write_the_cell_and_skip(compiled):
    x, at = np.arange(9, dtype=np.float32), np.array([3, 12, 0, -1, 8])
    both(compiled, "gather", [x, at], [np.full(5, 7.0, np.float32), np.zeros(1, np.int64)], [9], 5)
    cell = np.zeros(1, np.int64)
    run(compiled["gather"], [x, at, np.zeros(5, np.float32), cell], [9], 0, 2)
    assert cell[0] == 2


def test_combining_stores_loops_that_end_early_and_tiles(compiled):
    at = RNG.integers(0, 5, 100)
    both(compiled, "histogram_f32", [at], [np.zeros(5, np.float32)], [], 100)
    both(compiled, "histogram_i16", [at], [np.zeros(5, np.int16)], [], 100)
    both(compiled, "swapped_f16", [at], [np.zeros(5, np.float16)], [], 100)
    both(compiled, "scan", [RNG.normal(size=(4, 20)).astype(np.float32)], [np.zeros((4, 20), np.float32)], [20], 4)
    a, b, c = (RNG.integers(-4, 5, (4, 64)).astype(np.float32) for _ in range(3))
    b = RNG.integers(-4, 5, (64, 64)).astype(np.float32)
    whole = vector_bits() // 32
    for high, wide in ((4, whole), (3, whole), (4, whole - 1)):
        got = np.zeros_like(c)
        run(compiled["tile"], [a, b, got], [high, wide, 64], 0, 1)
        want = np.zeros_like(c)
        want[:high, :wide] = (a @ b)[:high, :wide]
        np.testing.assert_array_equal(got, want)
    strips = np.zeros((3, 40, 64), np.float32).repeat(2, 0)
    both(compiled, "pack_strips", [b], [strips], [64, 40, 1, 64, 0, 1, 1], 1)


# --- the text ---------------------------------------------------------------------------------------------------------


def test_known_strides_are_no_arguments():
    nest = flat("plus", ["f32", "f32"], ["f32"], [e.arg(0, "f32") + e.arg(1, "f32")])
    assert strides_of(nest) == {"s0.0": 4, "s0.1": 4, "s0.2": 4}
    printer = Printer(nest, OPENCL, known={"s0.0": 4, "s0.1": 0, "s0.2": 4})
    text = printer.text()
    assert printer.sharing == "points" and "s0_0" not in text and "s1_0" in text
    assert "get_global_id(1)" in text and OPENCL.independent in text
    cube = with_dims(nest, 4)
    assert cube.params[len(nest.params):] == ("n1", "s2.0", "s2.1", "s2.2", "n2", "s3.0", "s3.1", "s3.2")
    assert "idiv_i64(i1" in Printer(cube, OPENCL).text()


def test_a_language_without_atomics_combines_in_one_work_item():
    nest = histogram("f32")
    assert Printer(nest, OPENCL).sharing == "threads" and "atomic_cmpxchg" in Printer(nest, OPENCL).text()
    assert "atomic_add" in Printer(histogram("i32"), OPENCL).text()
    poor = Printer(nest, OPENCL.but(exchange={}, adders={}))
    assert poor.sharing == ALONE and "one work item" in poor.text() and "atomic_" not in poor.text()
    words = Printer(histogram("i16"), OPENCL).text()
    assert "& ~(u64)3" in words                 # the word that holds the element


def test_groups_share_rows_and_meet():
    text = Printer(row_sums(), OPENCL, group=4).text()
    assert text.count("__local") == 3 and "barrier(" in text and "member_ == 0" in text
    assert "barrier(" not in Printer(row_sums(), OPENCL).text().partition("kernel(")[2]


def test_names_that_the_language_has_are_spelled_otherwise():
    nest = Nest("float", operands(["f32"], ["f32"]), ("global", "p0"), rows(
        Local("double", e.load(0, i * e.var("global"), "f32")), Store(1, i * e.var("p0"), e.var("double", "f32"))))
    text = Printer(nest, OPENCL).text()
    assert re.search(r"\bglobal_\b", text) and re.search(r"\bf32 double_\b", text) and "const i64 p0_" in text
