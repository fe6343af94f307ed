"""General nests against NumPy: reductions, row programs, gathers and scatters, scans, searches."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pytest
from harness import NUMPY, run_nest

from rushlight.loops import expr as e
from rushlight.loops.nest import Assign, Check, Fetch, For, If, Local, Nest, Store, operands, reduction, rows

RNG = np.random.default_rng(1)
ZERO = e.const(0, "i64")
i, j, k, n = (e.var(name) for name in ("i", "j", "k", "n"))
SIZES = [0, 1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 33, 64, 70, 129, 1024, 5000]


def f32(value: float) -> e.Value:
    return e.const(value, "f32")


def sum_of(name: str, value: e.Value, loop: str = "j", count: e.Value = n, **options):
    zero = e.const(0, value.dtype)
    return reduction(loop, ZERO, count, [name], [zero], lambda a: [a[0] + value], lambda a, b: [a[0] + b[0]], **options)


def max_of(name: str, value: e.Value, loop: str = "j", count: e.Value = n):
    low = e.const(-np.inf, value.dtype)
    return reduction(loop, ZERO, count, [name], [low], lambda a: [e.max_(a[0], value)], lambda a, b: [e.max_(*a, *b)])


@pytest.mark.parametrize("blocked", [False, True])
@pytest.mark.parametrize("code,wide", [("f32", "f32"), ("f64", "f64"), ("f16", "f32"), ("i32", "i64"), ("u8", "i64"),
                                       ("b1", "i64"), ("c64", "c64"), ("c128", "c128")])
def test_row_sum(code, wide, blocked):
    x = e.cast(e.load(0, i * e.var("row") + j * e.var("col"), code), wide)
    nest = Nest("row_sum", operands([code], [wide]), ("n", "row", "col"),
                rows(sum_of("acc", x, blocked=blocked), Store(1, i, e.var("acc", wide))))
    for size in SIZES:
        a = RNG.integers(0, 2, (4, 2 * size)).astype(NUMPY[code])
        if code[0] in "fc":
            a = (a * RNG.normal(size=a.shape)).astype(NUMPY[code])
        for view in (a[:, :size], a[:, ::2], np.broadcast_to(a[:, :1], (4, size)) if size else a):
            out = np.full(4, 7, NUMPY[wide])
            strides = [s // a.itemsize for s in view.strides]
            run_nest(nest, [view, out], [size, *strides], 0, 4)
            reference = view.astype(np.complex128 if code[0] == "c" else np.float64).sum(1)
            np.testing.assert_allclose(out, reference, rtol=1e-5, atol=1e-4)


def test_blocked_sum_is_accurate():
    x = e.load(0, i * n + j, "f32")
    body = rows(sum_of("acc", x, blocked=True), Store(1, i, e.var("acc", "f32")))
    nest = Nest("long_sum", operands(["f32"], ["f32"]), ("n",), body)
    a, out = np.full((1, 1 << 22), 0.1, np.float32), np.zeros(1, np.float32)
    run_nest(nest, [a, out], [a.size], 0, 1)
    assert abs(float(out[0]) / (0.1 * a.size) - 1) < 1e-5


def test_result_does_not_depend_on_the_split():
    x = e.load(0, i * n + j, "f32")
    nest = Nest(
        "row_sum2", operands(["f32"], ["f32"]), ("n",), rows(sum_of("acc", x), Store(1, i, e.var("acc", "f32")))
    )
    a = RNG.normal(size=(9, 1234)).astype(np.float32)
    whole, pieces = np.zeros(9, np.float32), np.zeros(9, np.float32)
    run_nest(nest, [a, whole], [1234], 0, 9)
    for first, last in ((0, 2), (2, 3), (3, 9)):
        run_nest(nest, [a, pieces], [1234], first, last)
    np.testing.assert_array_equal(whole, pieces)


@pytest.mark.parametrize("code", ["f32", "f64", "i16", "c64"])
def test_column_reduction_is_vectorised_over_columns(code):
    x = e.load(0, e.var("r") * e.var("row") + i, code)
    total = sum_of("acc", x, "r", e.var("count"))
    body = rows(total, Store(1, i, e.var("acc", code)), vector=True)
    nest = Nest("column_sum", operands([code], [code]), ("count", "row"), body)
    for size in (0, 1, 5, 16, 17, 70):
        a = RNG.integers(0, 50, (23, size)).astype(NUMPY[code])
        out = np.zeros(size, NUMPY[code])
        run_nest(nest, [a, out], [23, size], 0, size)
        np.testing.assert_allclose(out, a.sum(0))


@pytest.mark.parametrize("size", [1, 40, 5000])
def test_column_fold_with_two_accumulators_reads_both_before_writing(size):
    """A step that exchanges its accumulators, over more columns than one tile holds."""
    x = e.load(0, e.var("r") * n + i, "f64")
    fold = reduction("r", ZERO, e.var("count"), ["a", "b"], [e.const(0.0, "f64"), e.const(1.0, "f64")],
                     lambda acc: [acc[1], acc[0] + x], lambda p, q: [p[0] + q[0], p[1] + q[1]])
    body = rows(Local("scale", e.cast(i, "f64")), fold, Store(1, i, e.var("a", "f64") * 100.0 + e.var("b", "f64")),
                Store(2, i, e.var("scale", "f64")), vector=True)
    nest = Nest("exchange", operands(["f64"], ["f64", "f64"]), ("count", "n"), body)
    data, out, scale = RNG.normal(size=(5, size)), np.zeros(size), np.zeros(size)
    run_nest(nest, [data, out, scale], [5, size], 0, size)
    a, b = np.zeros(size), np.ones(size)
    for row in data:
        a, b = b, a + row
    np.testing.assert_allclose(out, a * 100 + b)
    np.testing.assert_array_equal(scale, np.arange(size))


@pytest.mark.parametrize("code", ["f32", "i64", "u8"])
def test_argmax_with_ties(code):
    x = e.load(0, i * n + j, code)
    low = e.const(-np.inf if code[0] == "f" else e.round_to(-1, "u8") * 0 if code[0] == "u" else -(2**63), code)

    def better(value, at, best, where):
        take = e.or_(e.gt(value, best), e.and_(e.eq(value, best), e.lt(at, where)))
        return [e.select(take, value, best), e.select(take, at, where)]

    found = reduction("j", ZERO, n, ["best", "where"], [low, e.const(2**62, "i64")],
                      lambda a: better(x, j, *a), lambda a, b: better(*b, *a))
    nest = Nest("argmax", operands([code], [code, "i64"]), ("n",),
                rows(found, Store(1, i, e.var("best", code)), Store(2, i, e.var("where"))))
    for size in SIZES[1:]:
        a = RNG.integers(0, 9, (5, size)).astype(NUMPY[code])
        best, where = np.zeros(5, NUMPY[code]), np.zeros(5, np.int64)
        run_nest(nest, [a, best, where], [size], 0, 5)
        np.testing.assert_array_equal(best, a.max(1))
        np.testing.assert_array_equal(where, a.argmax(1))


def test_partial_then_final_reduction():
    """Chunks of fixed size: [chunk] sums, then one sum of those."""
    size, chunk = e.var("size"), e.var("chunk")
    start = i * chunk
    stop = e.min_(start + chunk, size)
    part = reduction("j", start, stop, ["acc"], [f32(0)], lambda a: [a[0] + e.load(0, j, "f32")],
                     lambda a, b: [a[0] + b[0]], blocked=True)
    partial = Nest(
        "partial", operands(["f32"], ["f32"]), ("size", "chunk"), rows(part, Store(1, i, e.var("acc", "f32")))
    )
    a = RNG.normal(size=100_003).astype(np.float32)
    chunks = -(-a.size // 4096)
    sums, out = np.zeros(chunks, np.float32), np.zeros(1, np.float32)
    run_nest(partial, [a, sums], [a.size, 4096], 0, chunks)
    np.testing.assert_allclose(sums, [a[c * 4096 : (c + 1) * 4096].astype("d").sum() for c in range(chunks)], atol=1e-3)
    body = rows(sum_of("acc", e.load(0, j, "f32")), Store(1, i, e.var("acc", "f32")))
    final = Nest("final", operands(["f32"], ["f32"]), ("n",), body)
    run_nest(final, [sums, out], [chunks], 0, 1)
    assert abs(out[0] - a.astype("d").sum()) < 1e-2


def test_row_program_stores_while_reducing():
    """The shape of softmax: a maximum, then powers stored while summed, then scaled in place."""
    at = i * n + k
    x = e.load(0, at, "f32")
    power = e.fma(x - e.var("top", "f32"), f32(0.01), f32(1.0))
    total = sum_of("sum", e.var("p", "f32"), "k", body=[Local("p", power), Store(1, at, e.var("p", "f32"))])
    here = i * n + e.var("l")
    scale = For("l", ZERO, n, (Store(1, here, e.load(1, here, "f32") / e.var("sum", "f32")),), vector=True)
    nest = Nest(
        "softish", operands(["f32"], ["f32"]), ("n",), rows(max_of("top", e.load(0, i * n + j, "f32")), total, scale)
    )
    for size in SIZES:
        a = RNG.normal(size=(3, size)).astype(np.float32)
        out = np.zeros_like(a)
        run_nest(nest, [a, out], [size], 0, 3)
        if size:
            p = (a - a.max(1, keepdims=True)) * np.float32(0.01) + 1
            np.testing.assert_allclose(out, p / p.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("wide", [1, 0])
def test_layer_norm_forward_with_row_and_column_operands(wide):
    """Weight per column (its stride may be 0 at run time), mean and rstd per row."""
    x = lambda v: e.load(0, i * n + v, "f32")  # noqa: E731
    mean, rstd = e.var("mean", "f32"), e.var("rstd", "f32")
    count = e.cast(n, "f32")
    moments = reduction("j", ZERO, n, ["s", "q"], [f32(0), f32(0)],
                        lambda a: [a[0] + x(j), e.fma(x(j), x(j), a[1])],
                        lambda a, b: [a[0] + b[0], a[1] + b[1]])
    variance = e.max_(e.var("q", "f32") / count - mean * mean, 0.0)
    weight = e.load(1, k * e.var("w"), "f32")
    body = rows(
        moments,
        Local("mean", e.var("s", "f32") / count),
        Local("rstd", f32(1.0) / e.sqrt(variance + 1e-5)),
        Store(3, i, mean),
        Store(4, i, rstd),
        For("k", ZERO, n, (Store(2, i * n + k, (x(k) - mean) * rstd * weight),), vector=True),
    )
    nest = Nest("layer_norm", operands(["f32", "f32"], ["f32", "f32", "f32"]), ("n", "w"), body)
    a, w = RNG.normal(size=(6, 77)).astype(np.float32), RNG.normal(size=77).astype(np.float32)
    out, means, scales = np.zeros_like(a), np.zeros(6, np.float32), np.zeros(6, np.float32)
    run_nest(nest, [a, w, out, means, scales], [77, wide], 0, 6)
    norm = (a - a.mean(1, keepdims=True)) / np.sqrt(a.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(out, norm * (w if wide else w[0]), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(means, a.mean(1), atol=1e-5)


def test_column_accumulation_into_a_chunk_buffer():
    """Weight gradient: each chunk of rows adds into its own row of a buffer."""
    size, chunk, r = e.var("rows"), e.var("chunk"), e.var("r")
    clear = For("c", ZERO, n, (Store(1, i * n + e.var("c"), f32(0)),), vector=True)
    add = For("j", ZERO, n, (Store(1, i * n + j, e.load(0, r * n + j, "f32"), "add"),), vector=True)
    each = For("r", i * chunk, e.min_((i + 1) * chunk, size), (add,))
    nest = Nest("column_chunks", operands(["f32"], ["f32"]), ("n", "rows", "chunk"), rows(clear, each))
    a = RNG.normal(size=(10, 37)).astype(np.float32)
    out = np.full((3, 37), np.nan, np.float32)
    run_nest(nest, [a, out], [37, 10, 4], 0, 3)
    np.testing.assert_allclose(out, [a[:4].sum(0), a[4:8].sum(0), a[8:].sum(0)], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("code", ["f32", "bf16", "i64", "c64", "b1"])
def test_gather_checks_bounds(code):
    at = e.load(1, i, "i64")
    wrapped = e.select(e.lt(at, 0), at + n, at)
    body = rows(
        Local("at", wrapped),
        Check(e.and_(e.ge(e.var("at"), 0), e.lt(e.var("at"), n)), 3, i + 1),
        Store(2, i, e.load(0, e.var("at"), code)),
    )
    nest = Nest("take", operands([code, "i64"], [code], ["i64"]), ("n",), body)
    source = RNG.integers(0, 2, 20).astype(NUMPY[code])
    index, out, cell = RNG.integers(-20, 20, 33), np.zeros(33, NUMPY[code]), np.zeros(1, np.int64)
    run_nest(nest, [source, index, out, cell], [20], 0, 33)
    np.testing.assert_array_equal(out, source[index])
    assert cell[0] == 0
    index[17] = 20
    out[:] = 0
    run_nest(nest, [source, index, out, cell], [20], 0, 33)
    assert cell[0] == 18 and out[17] == 0


def test_vector_gather_without_check():
    nest = Nest("lookup", operands(["f32", "i32"], ["f32"]), (),
                rows(Store(2, i, e.load(0, e.cast(e.load(1, i, "i32"), "i64"), "f32")), vector=True))
    source, index = RNG.normal(size=20).astype(np.float32), RNG.integers(0, 20, 45).astype(np.int32)
    out = np.zeros(45, np.float32)
    run_nest(nest, [source, index, out], [], 0, 45)
    np.testing.assert_array_equal(out, source[index])


def test_index_select_rows_copies_in_vectors():
    at = e.load(1, i, "i64")
    copy = For("j", ZERO, n, (Store(2, i * n + j, e.load(0, e.var("at") * n + j, "f32")),), vector=True)
    body = rows(Local("at", at), Check(e.and_(e.ge(at, 0), e.lt(at, e.var("size"))), 3, i + 1), copy)
    nest = Nest("index_select", operands(["f32", "i64"], ["f32"], ["i64"]), ("n", "size"), body)
    source, index = RNG.normal(size=(9, 41)).astype(np.float32), RNG.integers(0, 9, 15)
    out, cell = np.zeros((15, 41), np.float32), np.zeros(1, np.int64)
    run_nest(nest, [source, index, out, cell], [41, 9], 0, 15)
    np.testing.assert_array_equal(out, source[index])


@pytest.mark.parametrize("combine,rule", [("set", None), ("add", np.add), ("mul", np.multiply), ("min", np.minimum),
                                          ("max", np.maximum)])
def test_scatter_combines_duplicates(combine, rule):
    nest = Nest("scatter", operands(["f32", "i64"], ["f32"]), (),
                rows(Store(2, e.load(1, i, "i64"), e.load(0, i, "f32"), combine), vector=True))
    source, index = RNG.normal(size=50).astype(np.float32), RNG.integers(0, 7, 50)
    if rule is None:
        index = RNG.permutation(50)
    out = np.ones(50, np.float32)
    want = out.copy()
    run_nest(nest, [source, index, out], [], 0, 50)
    if rule is None:
        want[index] = source
    else:
        rule.at(want, index, source)
    np.testing.assert_allclose(out, want, rtol=1e-6)


def test_flip_and_strided_stores_inside_a_vector_loop():
    flip = Nest("flip", operands(["f32"], ["f32"]), ("n",),
                rows(For("j", ZERO, n, (Store(1, i * n + j, e.load(0, i * n + n - 1 - j, "f32")),),
                         vector=True)))
    pair = Nest(
        "pair", operands(["f32"], ["f32"]), ("n",), rows(Store(1, i * 2 + 1, e.load(0, i * 2, "f32")), vector=True)
    )
    for size in (1, 16, 37):
        a, out = RNG.normal(size=(3, size)).astype(np.float32), np.zeros((3, size), np.float32)
        run_nest(flip, [a, out], [size], 0, 3)
        np.testing.assert_array_equal(out, a[:, ::-1])
        a, out = RNG.normal(size=2 * size).astype(np.float32), np.zeros(2 * size, np.float32)
        run_nest(pair, [a, out], [size], 0, size)
        np.testing.assert_array_equal(out[1::2], a[::2])


@pytest.mark.parametrize("code", ["f32", "c64", "u8", "b1", "f16"])
def test_elements_the_other_way_round_read_and_written(code):
    """Both mirrored: what is read from the end is written to the end, and its neighbours stay as they are."""
    back = n - e.const(1, "i64") - j
    read = e.load(0, i * n + back, code)
    nest = Nest("mirror", operands([code], [code, code]), ("n",),
                rows(For("j", ZERO, n, (Store(1, i * n + j, read), Store(2, i * n + back, e.load(0, i * n + j, code))),
                         vector=True)))
    kind = {"f32": np.float32, "c64": np.complex64, "u8": np.uint8, "b1": np.bool_, "f16": np.float16}[code]
    for size in (1, 15, 64, 203):
        a = (RNG.normal(size=(3, size)) * 9 + (2j if code == "c64" else 0)).astype("c16" if code == "c64" else "f8")
        a = (np.abs(a) if code in ("u8", "b1") else a).astype(kind)
        forward, backward = np.zeros_like(a), np.zeros_like(a)
        run_nest(nest, [a, forward, backward], [size], 0, 3)
        np.testing.assert_array_equal(forward, a[:, ::-1])
        np.testing.assert_array_equal(backward, a[:, ::-1])


def copy_of(source: str, target: str) -> Nest:
    """Rows of any strides to dense ones."""
    read = e.load(0, i * e.var("row") + j * e.var("step"), source)
    move = For("j", ZERO, n, (Store(1, i * n + j, e.cast(read, target)),), vector=True)
    return Nest("copy", operands([source], [target]), ("n", "row", "step"), rows(move))


@pytest.mark.parametrize(
    "source,target",
    [*[(code, code) for code in ("f32", "f64", "f16", "u8", "b1", "c64", "c128")], ("f16", "f32"), ("f64", "f16")],
)
def test_rows_that_are_only_copied(source, target):
    nest = copy_of(source, target)
    for size in (*range(1, 20), *range(31, 36), 47, 63, 64, 65, 127, 128, 129, 200):
        for step in (0, 1, 2, 3, 4, 5):
            a = RNG.integers(0, 2 if source == "b1" else 100, (3, size * step + 5)).astype(NUMPY[source])
            out = np.zeros(3 * size + 1, NUMPY[target])
            run_nest(nest, [a[:, 2:], out], [size, a.shape[1], step], 0, 3)
            want = np.lib.stride_tricks.as_strided(a[:, 2:], (3, size), (a.strides[0], step * a.itemsize))
            np.testing.assert_array_equal(out[:-1], want.astype(NUMPY[target]).ravel())
            assert out[-1] == 0


@pytest.mark.parametrize("code", ["f64", "f32", "f16", "u8", "c64"])
def test_copies_read_nothing_behind_the_last_element(code):
    page, size_of = mmap.PAGESIZE, np.dtype(NUMPY[code]).itemsize
    memory = mmap.mmap(-1, 3 * page)
    try:
        base = np.frombuffer(memory, np.uint8)
        at = base.ctypes.data
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        for guard in (0, 2 * page):
            assert libc.mprotect(at + guard, page, 0) == 0
        middle = base[page : 2 * page].view(NUMPY[code])
        middle[:] = np.arange(middle.size) % 97
        for step in (0, 1, 2, 3, 4):
            for size in (1, 7, 8, 16, 17, 33, 64, 100):
                length = step * (size - 1) + 1
                for first in (0, middle.size - length) if length <= middle.size else ():
                    own, out = middle[first : first + length], np.zeros(size, NUMPY[code])
                    run_nest(copy_of(code, code), [own, out], [size, 0, step], 0, 1)
                    np.testing.assert_array_equal(out, own[::step] if step else np.repeat(own, size))
        assert size_of * middle.size == page
        for guard in (0, 2 * page):
            assert libc.mprotect(at + guard, page, mmap.PROT_READ | mmap.PROT_WRITE) == 0
    finally:
        del base, middle, own
        memory.close()


@pytest.mark.parametrize("code", ["f32", "f16", "b1", "c64"])
def test_rows_that_are_copied_backwards(code):
    move = For("j", ZERO, n, (Store(1, n - 1 - j, e.load(0, j * e.var("step"), code)),), vector=True)
    nest = Nest("turned", operands([code], [code]), ("n", "step"), rows(move))
    for size in (*range(1, 20), 31, 32, 33, 63, 64, 65, 127, 129, 200):
        for step in (1, 2, 3, 5):
            a, out = RNG.integers(0, 2, size * step).astype(NUMPY[code]), np.zeros(size + 2, NUMPY[code])
            run_nest(nest, [a, out[1:]], [size, step], 0, 1)
            np.testing.assert_array_equal(out[1:-1], a[::step][::-1])
            assert not out[0] and not out[-1]


def test_rows_copied_over_themselves_go_in_order():
    move = For("j", ZERO, n, (Store(1, j, e.load(0, j * e.var("step"), "f32")),), vector=True)
    nest = Nest("copy", operands(["f32"], ["f32"]), ("n", "step"), rows(move))
    for size in (5, 16, 20, 40, 70):
        for step in (1, 2, 3):
            a = np.arange(size * step, dtype=np.float32)
            run_nest(nest, [a, a], [size, step], 0, 1)
            np.testing.assert_array_equal(a[:size], np.arange(size) * step)


@pytest.mark.parametrize("code", ["f32", "i64", "c64"])
def test_scan_along_rows_and_along_columns(code):
    total = e.var("sum", code)
    zero = Local("sum", e.const(0, code))

    def step(at):
        return (Assign("sum", total + e.load(0, at, code)), Store(1, at, total))

    along = Nest("cumsum_row", operands([code], [code]), ("n",), rows(zero, For("j", ZERO, n, step(i * n + j))))
    across = Nest("cumsum_column", operands([code], [code]), ("n", "m"),
                  rows(zero, For("j", ZERO, n, step(j * e.var("m") + i)), vector=True))
    a = RNG.integers(0, 9, (11, 37)).astype(NUMPY[code])
    out = np.zeros_like(a)
    run_nest(along, [a, out], [37], 0, 11)
    np.testing.assert_allclose(out, a.cumsum(1))
    run_nest(across, [a, out], [11, 37], 0, 37)
    np.testing.assert_allclose(out, a.cumsum(0))


@pytest.mark.parametrize("vector", [False, True])
def test_binary_search_is_a_bounded_loop_with_locals(vector):
    low, high = e.var("low"), e.var("high")
    middle = (low + high) >> e.const(1, "i64")
    goes_right = e.lt(e.load(0, e.min_(middle, n - 1), "f32"), e.load(1, i, "f32"))
    active = e.lt(low, high)
    halve = (
        Local("right", e.and_(active, goes_right)),
        Local("left", e.and_(active, e.not_(goes_right))),
        Local("m", middle),
        Assign("low", e.select(e.var("right", "b1"), e.var("m") + 1, low)),
        Assign("high", e.select(e.var("left", "b1"), e.var("m"), high)),
    )
    search = For("s", ZERO, e.const(40, "i64"), halve)
    body = rows(Local("low", ZERO), Local("high", n), search, Store(2, i, low), vector=vector)
    nest = Nest("search", operands(["f32", "f32"], ["i64"]), ("n",), body)
    edges, values = np.sort(RNG.normal(size=100)).astype(np.float32), RNG.normal(size=57).astype(np.float32)
    out = np.zeros(57, np.int64)
    run_nest(nest, [edges, values, out], [100], 0, 57)
    np.testing.assert_array_equal(out, np.searchsorted(edges, values))


def test_memory_may_be_asked_for_where_there_is_none():
    at = i * n + j
    row = For("j", ZERO, n, (Store(1, at, e.load(0, at, "f32") * f32(2)), Fetch(0, at + n * e.const(1 << 40, "i64"))),
              vector=True)
    nest = Nest("fetching", operands(["f32"], ["f32"]), ("n",), rows(row))
    x = RNG.normal(size=(3, 70)).astype(np.float32)
    out = np.zeros_like(x)
    run_nest(nest, [x, out], [70], 0, 3)
    np.testing.assert_array_equal(out, x * 2)
    assert "fetch x0" in str(nest)


def test_a_ramp_keeps_nan_and_gives_zero_without_a_sign():
    x = e.load(0, i, "f32")
    ramp = e.select(e.le(x, f32(0)), f32(0), x)
    nest = Nest("ramp", operands(["f32"], ["f32"]), (), rows(Store(1, i, ramp), vector=True))
    data = np.array([-0.0, 0.0, -1, 1, np.nan, np.inf, -np.inf, -1e-45, 1e-45] * 9, np.float32)
    out = np.full_like(data, 7)
    run_nest(nest, [data, out], [], 0, len(data))
    np.testing.assert_array_equal(out, np.where(data <= 0, np.float32(0), data))
    assert not np.signbit(out[~np.isnan(out)]).any()


@pytest.mark.parametrize("vector", [False, True])
def test_branches_join_locals(vector):
    x = e.load(0, i, "f32")
    body = rows(
        Local("y", x),
        If(e.gt(x, 0.0), (Assign("y", x * 2.0), Store(2, i, e.const(1, "i32"))), (Assign("y", e.neg(x)),)),
        Store(1, i, e.var("y", "f32")),
        vector=vector,
    )
    nest = Nest("branch", operands(["f32"], ["f32", "i32"]), (), body)
    a, out, flags = RNG.normal(size=50).astype(np.float32), np.zeros(50, np.float32), np.zeros(50, np.int32)
    run_nest(nest, [a, out, flags], [], 0, 50)
    np.testing.assert_array_equal(out, np.where(a > 0, a * 2, -a))
    np.testing.assert_array_equal(flags, a > 0)


def test_uniform_branch_inside_a_vector_loop():
    x = e.load(0, i, "f32")
    body = rows(Local("y", x), If(e.gt(n, 0), (Assign("y", x * 2.0),)), Store(1, i, e.var("y", "f32")), vector=True)
    nest = Nest("switch", operands(["f32"], ["f32"]), ("n",), body)
    a, out = RNG.normal(size=50).astype(np.float32), np.zeros(50, np.float32)
    for flag in (0, 1):
        run_nest(nest, [a, out], [flag], 0, 50)
        np.testing.assert_array_equal(out, a * 2 if flag else a)


def test_store_then_load_sees_the_new_value():
    body = rows(
        Local("old", e.load(0, i, "f32")),
        Store(0, i, e.load(0, i, "f32") + 1.0),
        Store(1, i, e.load(0, i, "f32") * 10.0),
        Store(2, i, e.var("old", "f32")),
        vector=True,
    )
    nest = Nest("order", operands(["f32"], ["f32", "f32"]), (), body)
    a = RNG.normal(size=37).astype(np.float32)
    first, new, old = a.copy(), np.zeros_like(a), np.zeros_like(a)
    run_nest(nest, [a, new, old], [], 0, 37)
    np.testing.assert_array_equal(a, first + 1)
    np.testing.assert_array_equal(new, a * 10)
    np.testing.assert_array_equal(old, first)


def test_triangle_of_a_matrix():
    keep = e.le(j, i + e.var("diagonal"))
    kept = e.select(keep, e.load(0, i * n + j, "f32"), f32(0))
    body = rows(For("j", ZERO, n, (Store(1, i * n + j, kept),), vector=True))
    nest = Nest("tril", operands(["f32"], ["f32"]), ("n", "diagonal"), body)
    a, out = RNG.normal(size=(19, 37)).astype(np.float32), np.zeros((19, 37), np.float32)
    for diagonal in (-20, -3, 0, 5, 40):
        run_nest(nest, [a, out], [37, diagonal], 0, 19)
        np.testing.assert_array_equal(out, np.tril(a, diagonal))
