"""Pack and Multiply: the statements that matrix products are made of, and the nests made of them."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest
from interpreter import Interpreter

from rushlight import codegen
from rushlight.codegen.schedule.cpu.factor import Factor
from rushlight.codegen.schedule.cpu.product import (
    ROWS_TOGETHER,
    Blocking,
    Finish,
    computed_pack_nest,
    pack_nest,
    product_nest,
    span_pack_nest,
)
from rushlight.codegen.text.targets import TARGETS
from rushlight.codegen.tiles.shapes import TileShape
from rushlight.loops.expr import cast, const, var
from rushlight.loops.nest import Multiply, Nest, Pack, operands, rows
from rushlight.loops.verify import IllegalNest, verify

np = pytest.importorskip("numpy")

pytestmark = pytest.mark.share(2)   # of each test that has several cases

KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
SIZES = [
    (1, 1, 1),
    (14, 32, 16),
    (15, 33, 17),
    (29, 100, 800),
    (100, 65, 257),
    (3, 5, 700),
    (131, 257, 385),
    (1, 40, 384),
    (24, 49, 66),       # a last column that is alone
    (20, 53, 515),
]


def run(nest: Nest, arrays: list, params: list[int], cuts: list[tuple[int, int]]) -> None:
    pointers = (ctypes.c_int64 * len(arrays))(*(x.ctypes.data for x in arrays))
    for begin, end in cuts:
        KERNEL(codegen.compile(nest).address)(pointers, (ctypes.c_int64 * len(params))(*params), begin, end)


def product(a, b, code: str, addend=None, block_strips: int = 2, parts: int = 1, form: str = "packed", cuts=None,
            in_lines: bool = False):
    """a @ b (+ addend) through the nests, operands as they lie in memory."""
    (m, k), n, cut = a.shape, b.shape[1], Blocking(code)
    item = a.itemsize
    strips = -(-n // cut.width)
    groups = -(-strips // cut.sizes.together)
    packed = np.full(strips * cut.width * k, np.nan, a.dtype)   # whatever was there is overwritten
    out = np.full((m + 1, n + 3), 7.0, a.dtype)
    if form == "packed":
        run(
            pack_nest(code),
            [b, packed],
            [n, k, b.strides[1] // item, b.strides[0] // item, 0, strips, groups],
            [(0, groups)],
        )
    block = block_strips * cut.height
    blocks, part = -(-m // block), -(-strips // parts)
    params = [m, n, k, a.strides[0] // item, a.strides[1] // item, n + 3, 0, 0, 0, block, blocks, part, parts]
    params += [b.strides[1] // item, b.strides[0] // item] if form != "packed" else []
    finish, late = None, []
    if addend is not None:
        finish, late = Finish("addend", (code,), lambda total, reads: total + reads[0]), [addend]
        params += [addend.strides[0] // item, addend.strides[1] // item, 0]
    run(
        product_nest(code, finish, form, in_lines=in_lines),
        [a, packed if form == "packed" else b, *late, out],
        params,
        cuts or [(0, blocks * parts)],
    )
    assert (out[m:] == 7).all() and (out[:, n:] == 7).all(), "a tile wrote past the edges of the result"
    return out[:m, :n]


@pytest.mark.parametrize("code", ["f32", "f64"])
@pytest.mark.parametrize("size", SIZES, ids=["x".join(map(str, s)) for s in SIZES])
def test_products_of_all_orders_of_memory(size: tuple[int, int, int], code: str) -> None:
    m, n, k = size
    dtype = {"f32": "float32", "f64": "float64"}[code]
    random = np.random.default_rng(m * n + k)
    for left_turned in (False, True):
        for right_turned in (False, True):
            a, b = random.standard_normal((m, k)).astype(dtype), random.standard_normal((k, n)).astype(dtype)
            a = np.asfortranarray(a) if left_turned else a
            b = np.asfortranarray(b) if right_turned else b
            want = a.astype("f8") @ b.astype("f8")
            bound = k * np.finfo(dtype).eps * (np.abs(a).astype("f8") @ np.abs(b).astype("f8"))
            packed, own = product(a, b, code), product(a, b, code, form="own")
            assert (np.abs(packed - want) <= bound).all()
            assert (own == packed).all()
            if not left_turned and not Blocking(code).is_narrow:
                assert (product(a, b, code, form="own", in_lines=True) == packed).all()
                assert (product(a, b, code, in_lines=True) == packed).all()
            if not left_turned and Blocking(code).is_narrow and n <= ROWS_TOGETHER * Blocking(code).width:
                assert (product(a, b, code, form="rows") == packed).all()
            if not right_turned:
                assert (np.abs(product(a, b, code, form="direct") - want) <= bound).all()


def test_a_sum_does_not_depend_on_how_rows_and_columns_are_cut() -> None:
    random = np.random.default_rng(1)
    a, b = random.standard_normal((90, 500)).astype("f4"), random.standard_normal((500, 200)).astype("f4")
    whole = product(a, b, "f32", block_strips=8)
    assert (product(a, b, "f32", block_strips=1, parts=3) == whole).all()
    assert (product(a[14:15], b, "f32") == whole[14:15]).all()
    assert (product(a, b, "f32", block_strips=1, parts=2, form="own") == whole).all()


@pytest.mark.parametrize("form", ["packed", "own", "direct"])
def test_parts_of_columns_find_the_rows_packed_before_them(form: str) -> None:
    """However the parts are shared out: a range may begin in the midst of a block's parts."""
    random = np.random.default_rng(3)
    a, b = random.standard_normal((50, 30)).astype("f4"), random.standard_normal((30, 300)).astype("f4")
    want = product(a, b, "f32")
    all_ = 4 * -(-50 // (2 * Blocking("f32").height))      # parts of all blocks: tiles are as high as the target's
    for cuts in ([(0, all_)], [(0, 3), (3, all_)], [(5, all_), (0, 5)], [(k, k + 1) for k in range(all_)]):
        assert np.allclose(product(a, b, "f32", parts=4, form=form, cuts=cuts), want, rtol=0, atol=1e-5)


def test_an_addend_is_added_once_and_may_be_a_row() -> None:
    random = np.random.default_rng(2)
    a, b = random.standard_normal((33, 900)).astype("f4"), random.standard_normal((900, 70)).astype("f4")
    row = random.standard_normal(70).astype("f4")
    repeated = np.broadcast_to(row, (33, 70))
    assert (product(a, b, "f32", addend=repeated) == product(a, b, "f32") + row).all()


def test_nan_and_infinity_stay_in_their_rows_and_columns() -> None:
    a, b = np.ones((30, 40), "f4"), np.ones((40, 50), "f4")
    a[29, 3], b[0, 49] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        want = a @ b
    assert np.array_equal(product(a, b, "f32"), want, equal_nan=True)


@pytest.mark.parametrize("target", [name for name, t in TARGETS.items() if not t.is_gpu and name != "riscv64"])
def test_every_target_has_tiles(target: str) -> None:
    bits = TARGETS[target].vector_bits
    text = codegen.emit_asm(product_nest("f32", bits=bits, in_lines=bits > 128), target)
    fused = {"aarch64": "fmla", "wasm32": "f32x4"}.get(target, "vfmadd")
    assert fused in text
    if target == "aarch64":
        assert ".s[" in text, "multiply-add takes its factor from a lane"


SPANS = [(3, 14, 33, 10), (1, 9, 40, 1100), (4, 40, 13, 300), (9, 300, 20, 49)]     # spans, m, n, span


@pytest.mark.parametrize("size", SPANS, ids=["x".join(map(str, s)) for s in SPANS])
def test_products_whose_k_goes_through_spans(size: tuple[int, int, int, int]) -> None:
    """Spans that share a slice, that are one, and that are cut; rows in one block and in several."""
    spans, m, n, span = size
    random, cut = np.random.default_rng(sum(size)), Blocking("f32")
    a = random.standard_normal((spans, m, span)).astype("f4")
    b = random.standard_normal((spans, n, span)).astype("f4")
    strips = -(-n // cut.width)
    groups, block = -(-strips // cut.sizes.together), 3 * cut.height
    blocks = -(-m // block)
    packed, found = np.full(strips * cut.width * span * spans, np.nan, "f4"), []
    run(span_pack_nest("f32"), [b, packed], [n, span, 1, span, spans, n * span, groups, strips], [(0, spans * groups)])
    for form, right in (("packed", packed), ("own", b)):
        out = np.full((m, n), 7.0, "f4")
        params = [m, n, span * spans, span, 1, n, 0, 0, 0, block, blocks, -(-strips // 2), 2]
        params += [span, 1] if form == "own" else []
        params += [span, spans, m * span, n * span]
        run(product_nest("f32", None, form, by_span=True), [a, right, out], params, [(0, 1), (1, 2 * blocks)])
        found.append(out)
    want = np.einsum("smk,snk->mn", a.astype("f8"), b.astype("f8"))
    assert (np.abs(found[0] - want) <= spans * span * np.finfo("f4").eps * np.abs(want).max() + 1e-5).all()
    assert (found[0] == found[1]).all()


@pytest.mark.parametrize("form", ["packed", "own", "direct"])
def test_kernels_do_what_the_nests_say(form: str) -> None:
    """Against the interpreter, to rounding: small sizes that still have edges everywhere."""
    cut = Blocking("f32")
    m, n, k = cut.height + 1, cut.width + 1, 3
    random = np.random.default_rng(4)
    a, b = random.standard_normal((m, k)).astype("f4"), random.standard_normal((k, n)).astype("f4")
    packed, out = np.zeros(2 * cut.width * k, "f4"), np.zeros((m, n), "f4")
    if form == "packed":
        Interpreter(pack_nest("f32"), [b.ravel(), packed], [n, k, 1, n, 0, 2, 1], cut.unit).run(0, 1)
    params = [m, n, k, k, 1, n, 0, 0, 0, 2 * cut.height, 1, 2, 1, *([] if form == "packed" else [1, n])]
    right = packed if form == "packed" else b.ravel()
    Interpreter(product_nest("f32", form=form), [a.ravel(), right, out.reshape(-1)], params, cut.unit).run(0, 1)
    assert np.allclose(out, product(a, b, "f32", form=form), rtol=0, atol=1e-6)
    assert np.allclose(out, a @ b, rtol=0, atol=1e-6)


def test_a_gpu_has_no_tiles_yet_and_says_so() -> None:
    with pytest.raises(NotImplementedError, match="tiles"):
        codegen.emit_llvm(product_nest("f32"), "nvptx64")


def test_nests_with_tiles_print_and_are_checked() -> None:
    text = str(product_nest("f32"))
    assert "multiply" in text and "pack x" in text
    zero = const(0, "i64")
    wrong = Nest(
        "wrong", operands(["i32"], ["i32"]), (), rows(Pack(0, zero, zero, zero, 1, zero, zero, zero, zero, zero, 4))
    )
    with pytest.raises(IllegalNest, match="f32"):
        verify(wrong)
    tile = Multiply(0, zero, 0, zero, zero, 1, zero, zero, zero, zero, zero, zero, 4, 1)
    with pytest.raises(IllegalNest, match="b1"):
        verify(Nest("wrong", operands(["f32"], ["f32"]), (), rows(tile)))
    with pytest.raises(IllegalNest, match="no such name"):
        pack = Pack(0, var("nowhere"), zero, zero, 1, zero, zero, zero, zero, zero, 4)
        verify(Nest("wrong", operands(["f32"], ["f32"]), (), rows(pack)))


@pytest.mark.share(2)
@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("by_lines", [False, True])
@pytest.mark.parametrize("form", ["own", "packed"])
def test_factors_that_are_computed_on_processors_of_every_width(form: str, by_lines: bool, bits: int) -> None:
    """Both ways to lay them out, partial strips included; sums of one type become results of another."""
    cut = Blocking("f32", bits)
    m, n, k = cut.height + 3, 2 * cut.width + 5, 9
    random = np.random.default_rng(bits)
    a, b, row = (random.integers(-9, 9, size).astype("i4") for size in ((m, k), (k, n), n))
    left = Factor("a", ("i32",), ((0, 1, 2) if by_lines else (0, 2, 1),), lambda reads: cast(reads[0], "f32"))
    assert left.by_lines is by_lines
    right = Factor("b", ("i32",), ((0, 1, 2),), lambda reads: cast(reads[0], "f32") * const(2.0, "f32"))
    finish = Finish("scaled", ("i32",), lambda total, reads: cast(total, "i32") * reads[0], (1,), "i32")
    strips = -(-n // cut.width)
    out, sums, packed = np.zeros((m, n), "i4"), np.zeros(m * n, "f4"), np.zeros(strips * cut.width * k, "f4")
    if form == "packed":
        groups = -(-strips // cut.sizes.together)
        nest = computed_pack_nest("f32", right, bits=bits)
        Interpreter(nest, [b.ravel(), packed], [n, k, 1, n, 0, strips, groups, 0, 1, n], cut.unit).run(0, groups)
    params = [m, n, k, k, 1, n, 0, 0, 0, 2 * cut.height, 1, strips, 1]
    params += ([1, n] if form == "own" else []) + [0, 1, 0, n, 0] + ([0, 1, m] if by_lines else [0, k, 1])
    params += [0, 1, n] if form == "own" else []
    nest = product_nest("f32", finish, form, bits, left=left, right=right)
    flat, first = out.reshape(-1), np.ascontiguousarray(a.T if by_lines else a).ravel()
    Interpreter(nest, [first, b.ravel() if form == "own" else packed, row, flat, sums], params, cut.unit).run(0, 1)
    assert (out == 2 * (a @ b) * row).all()


@pytest.mark.parametrize("target", ["x86-64-avx2", "x86-64-avx512", "aarch64"])
def test_every_target_computes_factors(target: str) -> None:
    bits = TARGETS[target].vector_bits
    factor = Factor("a", ("bf16",), ((0, 2, 1),), lambda reads: cast(reads[0], "f32"))
    finish = Finish("narrowed", (), lambda total, reads: cast(total, "bf16"), (), "bf16")
    text = codegen.emit_asm(product_nest("f32", finish, "own", bits, left=factor), target)
    assert ("fmla" if target == "aarch64" else "vfmadd") in text


def test_asking_for_what_is_read_later_changes_no_result() -> None:
    """Wherever it lies: past the end of memory too."""
    cut, random = Blocking("f32"), np.random.default_rng(6)
    a = random.standard_normal((7, cut.pitch)).astype("f4")
    b = random.standard_normal((7, cut.width)).astype("f4")
    number, zero, found = (lambda n: const(n, "i64")), const(0, "i64"), []
    for ahead in (None, zero, number(1 << 40)):
        tile = Multiply(
            0, zero, 1, zero, number(cut.width), 2, zero, number(cut.width), number(cut.height), number(cut.width),
            number(7), const(False, "b1"), cut.height, cut.vectors, ahead=ahead,
        )
        out = np.zeros((cut.height, cut.width), "f4")
        run(Nest("asking", operands(["f32", "f32"], ["f32"]), (), rows(tile)), [a, b, out], [], [(0, 1)])
        found.append(out)
    assert np.allclose(found[0], a[:, : cut.height].T @ b, atol=1e-5)
    assert (found[0] == found[1]).all() and (found[0] == found[2]).all()


@pytest.mark.parametrize("left_turned", [False, True])
def test_operands_that_the_first_tiles_pack_where_they_lie(left_turned: bool) -> None:
    """With 16-byte vectors, on every machine: whole strips, and what is left over of rows and columns."""
    cut = Blocking("f32", 128)
    nest = product_nest("f32", None, "own", 128)
    assert "kept in" in str(nest) and "kept in" not in str(product_nest("f32", None, "own", 256))
    random = np.random.default_rng(8)
    for m, n, parts in ((cut.height - 1, 40, 1), (2 * cut.height + 3, 3 * cut.width + 5, 2), (cut.height, 7, 1)):
        k, strips = 6, -(-n // cut.width)
        a, b = (random.integers(-9, 9, size).astype("f4") for size in ((m, k), (k, n)))
        out = np.full(m * n, np.nan, "f4")
        part = -(-strips // parts)
        params = [m, n, k, *((1, m) if left_turned else (k, 1)), n, 0, 0, 0, 4 * cut.height, 1, part, parts, 1, n]
        left = np.ascontiguousarray(a.T if left_turned else a).ravel()
        Interpreter(nest, [left, b.ravel(), out], params, cut.unit).run(0, parts)
        assert (out.reshape(m, n) == a @ b).all()


def test_rows_that_are_read_where_they_lie() -> None:
    """Rows that fill no tile, and the last block of fewer, are packed; a bias is added to all columns at once."""
    cut, random = Blocking("f32", 128), np.random.default_rng(10)
    finish = Finish("bias", ("f32",), lambda total, reads: total + reads[0], (1,))
    nest = product_nest("f32", finish, "rows", 128)
    for m, n, blocks in ((cut.height - 1, 7, 1), (3 * cut.height + 2, 3 * cut.width + 5, 2), (cut.height, 12, 1)):
        k, strips, lines = 9, -(-n // cut.width), -(-m // cut.height)
        a, b, bias = (random.integers(-9, 9, size).astype("f4") for size in ((m, k), (k, n), (n,)))
        out = np.full(m * n, np.nan, "f4")
        params = [m, n, k, k, 1, n, 0, 0, 0, -(-lines // blocks) * cut.height, blocks, strips, 1, 1, n, 0, 1, 0]
        Interpreter(nest, [a.ravel(), b.ravel(), bias, out], params, cut.unit).run(0, blocks)
        assert (out.reshape(m, n) == a @ b + bias).all()


@pytest.mark.share(2)
@pytest.mark.parametrize("bits", [256, 512])
@pytest.mark.parametrize("form", ["packed", "own", "direct"])
def test_rows_whose_elements_are_broadcast_from_where_they_lie(form: str, bits: int) -> None:
    """Edges everywhere, several groups of strips and blocks of rows; a bias is added to all columns at once."""
    cut, random = Blocking("f32", bits), np.random.default_rng(11)
    finish = Finish("bias", ("f32",), lambda total, reads: total + reads[0], (1,))
    nest = product_nest("f32", finish, form, bits, in_lines=True)
    for m, n, blocks in ((cut.height - 1, 7, 1), (3 * cut.height + 2, 9 * cut.width + 5, 2)):
        k, strips, lines = 5, -(-n // cut.width), -(-m // cut.height)
        a, b, bias = (random.integers(-9, 9, size).astype("f4") for size in ((m, k + 2), (k, n), (n,)))
        out, packed = np.full(m * n, np.nan, "f4"), np.zeros(strips * cut.width * k, "f4")
        groups = -(-strips // cut.sizes.together)
        if form == "packed":
            pack = pack_nest("f32", bits)
            Interpreter(pack, [b.ravel(), packed], [n, k, 1, n, 0, strips, groups], cut.unit).run(0, groups)
        params = [m, n, k, k + 2, 1, n, 0, 0, 0, -(-lines // blocks) * cut.height, blocks, strips, 1]
        params += [*([] if form == "packed" else [1, n]), 0, 1, 0]
        right = packed if form == "packed" else b.ravel()
        Interpreter(nest, [a.ravel(), right, bias, out], params, cut.unit).run(0, blocks)
        assert (out.reshape(m, n) == a[:, :k] @ b + bias).all()


@pytest.mark.parametrize("code", ["f32", "f64"])
@pytest.mark.parametrize("columns", [1, 3, 8, 11])
@pytest.mark.parametrize("height", [1, 3, 7, 8])
def test_a_tile_that_broadcasts_elements_of_rows(height: int, columns: int, code: str, monkeypatch) -> None:
    """As processors do that take no lanes as factors; others can."""
    monkeypatch.setattr(TileShape, "by_lane", property(lambda self: False))
    cut, dtype, random = Blocking(code), {"f32": "f4", "f64": "f8"}[code], np.random.default_rng(columns)
    number, zero = (lambda n: const(n, "i64")), const(0, "i64")
    columns, width = min(columns, cut.width), cut.width + 1
    a, b = random.integers(-9, 9, (height, 20)).astype(dtype), random.integers(-9, 9, (7, width)).astype(dtype)
    for ahead in (None, number(1 << 40)):
        out = np.ones((height + 1, width), dtype)
        tile = Multiply(
            0, number(2), 1, zero, number(width), 2, zero, number(width), number(height), number(columns), number(7),
            const(True, "b1"), cut.height, cut.vectors, ahead=ahead, line=number(20),
        )
        nest = Nest("by_lines", operands([code] * 2, [code]), (), rows(tile))
        run(nest, [a, b, out], [], [(0, 1)])
        assert (out[:height, :columns] == 1 + a[:, 2:9] @ b[:, :columns]).all()
        assert (out[height:] == 1).all() and (out[:, columns:] == 1).all()


@pytest.mark.skipif(Blocking("f32").lanes != 4, reason="only 16-byte vectors have such tiles")
@pytest.mark.parametrize("code", ["f32", "f64"])
@pytest.mark.parametrize("columns", [1, 3, 8, 11])
def test_a_tile_of_rows_that_are_not_packed(columns: int, code: str) -> None:
    cut, dtype, random = Blocking(code), {"f32": "f4", "f64": "f8"}[code], np.random.default_rng(columns)
    columns = min(columns, cut.width)
    a, b = random.integers(-9, 9, (cut.height, 20)).astype(dtype), random.integers(-9, 9, (7, 13)).astype(dtype)
    number, zero = (lambda n: const(n, "i64")), const(0, "i64")
    out = np.ones((cut.height + 1, 20), dtype)
    tile = Multiply(
        0, number(2), 1, zero, number(13), 2, zero, number(20), number(cut.height), number(columns), number(7),
        const(True, "b1"), cut.height, cut.vectors, line=number(20),
    )
    run(Nest("by_rows", operands([code] * 2, [code]), (), rows(tile)), [a, b, out], [], [(0, 1)])
    assert (out[: cut.height, :columns] == 1 + a[:, 2:9] @ b[:, :columns]).all()
    assert (out[cut.height :] == 1).all() and (out[:, columns:] == 1).all()


@pytest.mark.skipif(Blocking("f32").lanes != 4, reason="tiles that keep what they read are for 16-byte vectors")
@pytest.mark.parametrize("code", ["f32", "f64"])
def test_a_tile_keeps_what_it_read_packed(code: str) -> None:
    cut, dtype, random = Blocking(code), {"f32": "f4", "f64": "f8"}[code], np.random.default_rng(9)
    a, b = random.integers(-9, 9, (7, 20)).astype(dtype), random.integers(-9, 9, (7, 50)).astype(dtype)
    left, right = np.full((7, cut.pitch), np.nan, dtype), np.full((7, cut.width), np.nan, dtype)
    number, zero = (lambda n: const(n, "i64")), const(0, "i64")
    tile = Multiply(
        0, number(3), 1, number(5), number(50), 4, zero, number(cut.width), number(cut.height), number(cut.width),
        number(7), const(True, "b1"), cut.height, cut.vectors, number(20), keep=(2, zero, 3, zero),
    )
    nest = Nest("keeping", operands([code] * 4, [code]), (), rows(tile))
    out = np.ones((cut.height, cut.width), dtype)
    run(nest, [a, b, left, right, out], [], [(0, 1)])
    assert (left == a[:, 3 : 3 + cut.height]).all() and (right == b[:, 5 : 5 + cut.width]).all()
    assert (out == 1 + left.T @ right).all()
    with pytest.raises(IllegalNest, match="pitch"):
        fields = [getattr(tile, name) for name in tile.fields]
        fields[tile.fields.index("pitch")] = None
        verify(Nest("wrong", operands([code] * 4, [code]), (), rows(Multiply(*fields))))


@pytest.mark.parametrize("target", ["x86-64-avx2", "x86-64-avx512"])
def test_wide_processors_ask_for_the_next_strip(target: str) -> None:
    """In the loop that multiplies: strips come from further away than the second cache."""
    text = codegen.emit_asm(product_nest("f32", bits=TARGETS[target].vector_bits), target)
    loops = text.split(".LBB")
    assert any(loop.count("vfmadd") >= 24 and "prefetcht1" in loop for loop in loops)


WIDE = """
import numpy as np
import rushlight as rl
from rushlight.codegen.library.products import few_rows
from rushlight.codegen.llvm import cpu
from rushlight.codegen.schedule.cpu import contraction, product
from rushlight.codegen.stored import tile_objects
from rushlight.codegen.tiles import functions as tile_functions
from rushlight.planners.products import gemm
for module in (tile_objects, product, contraction, gemm, few_rows):
    module.vector_bits = lambda: 512                        # LLVM splits vectors that the processor does not have
tile_functions.TileShape.by_lane = property(lambda self: False)
host = cpu.host_target().but(vector_bits=512)
cpu.host_target = lambda: host
random = np.random.default_rng(0)
SIZES = (1, 100, 300), (17, 513, 40), (30, 70, 700), (63, 33, 1100), (100, 100, 300), (200, 700, 64), (9, 16, 900)
for m, n, k in SIZES:
    a, b, c = (random.standard_normal(size).astype("f4") for size in ((m, k), (k, n), (n,)))
    exact = a.astype("f8") @ b.astype("f8")
    bound = 2.0**-21 * (np.abs(a).astype("f8") @ np.abs(b).astype("f8")) + 1e-6
    lefts = [rl.from_numpy(a), rl.from_numpy(np.ascontiguousarray(a.T)).t()]
    rights, bias = [rl.from_numpy(b), rl.from_numpy(np.ascontiguousarray(b.T)).t()], rl.from_numpy(c)
    for x in lefts:
        for y in rights:
            found = []
            for threads in (1, 3):
                rl.set_num_threads(threads)
                found.append((x @ y).numpy())
                assert (np.abs(found[-1] - exact) <= bound).all(), (m, n, k, threads)
                assert (np.abs(rl.addmm(bias, x, y).numpy() - exact - c) <= bound).all(), (m, n, k, threads)
            assert (found[0] == found[1]).all(), (m, n, k)
        linear = rl.nn.functional.linear(lefts[0], rights[1].t(), bias).numpy()
        assert (np.abs(linear - exact - c) <= bound).all(), (m, n, k)
"""


def test_products_of_all_forms_where_vectors_are_wide(tmp_path) -> None:
    """Rows packed in groups, columns read where they lie, dot products of many rows, strips that are not whole."""
    env = {**os.environ, "RUSHLIGHT_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", WIDE], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
