"""bfloat16 products on tile registers: the kernels' text compiles for a processor that has them,
packing is right on any, products where they run."""

from __future__ import annotations

import ctypes
import platform

import emulated_tiles
import pytest

import rushlight as rl
from rushlight.codegen.library.products import tile_packs, tile_products
from rushlight.codegen.tiles import tiles
from rushlight.planners.products import tiles as gemm_tiles
from rushlight.planners.products.gemm import Matrix
from rushlight.planners.products.tiles import tile_parts, tile_slice

pytestmark = pytest.mark.share(2)   # of each test that has several cases

SIZES = [(40, 300, 70), (300, 40, 70), (3, 5, 7), (32, 32, 64), (33, 65, 40), (70, 31, 96), (96, 64, 130)]


@pytest.fixture(scope="module")
def machine():
    return emulated_tiles.processor()


KINDS = pytest.mark.parametrize("kind", tiles.KINDS.values(), ids=lambda kind: kind.code)


@KINDS
@pytest.mark.parametrize("turned", [(False, False), (True, True)])
def test_product_compiles_for_a_processor_with_tiles(machine, kind, turned):
    import llvmlite.binding as llvm

    source = tile_products.module_text(kind, "x86_64-unknown-linux-gnu", *turned)
    text = machine.emit_assembly(llvm.parse_assembly(source))
    loops = 3 + 2     # with rows that are written meanwhile, without, from further away; first products of two forms
    assert text.count(kind.multiply.rpartition(".")[2]) == 4 * loops and "tilerelease" in text


@KINDS
@pytest.mark.parametrize("turned", [(False, False), (True, True)])
def test_packing_compiles_without_spilling_rows(machine, kind, turned):
    import llvmlite.binding as llvm

    text = machine.emit_assembly(llvm.parse_assembly(tile_packs.module_text(kind, "x86_64-unknown-linux-gnu", *turned)))
    assert "zmm" in text


def ordered(t, is_turned):
    """The same matrix, with its rows or its columns consecutive in memory."""
    return t.t().contiguous().t() if is_turned else t


def random(kind, *shape):
    return rl.randn(*shape).bfloat16() if kind.code == "bf16" else rl.randint(-128, 128, shape, dtype=rl.int8)


@KINDS
@pytest.mark.parametrize("left_turned", [False, True])
@pytest.mark.parametrize("right_turned", [False, True])
@pytest.mark.parametrize("m, n, k", SIZES)
def test_packing_keeps_every_element_and_pads_with_zeros(m, n, k, left_turned, right_turned, kind):
    left, right = ordered(random(kind, m, k), left_turned), ordered(random(kind, k, n), right_turned)
    bm, bn, bk = -(-m // 32), -(-n // 32), -(-k // kind.deep)
    first = tile_packs.params_of(
        kind, *((k, m, left.stride(1)) if left_turned else (m, k, left.stride(0))), left_turned, bk
    )
    second = tile_packs.params_of(
        kind, *((n, k, right.stride(1)) if right_turned else (k, n, right.stride(0))), not right_turned, bk
    )
    strips = (
        -(-first[0] // tile_packs.block_of(kind, left_turned)[0]),
        -(-second[0] // tile_packs.block_of(kind, not right_turned)[0]),
    )
    kernel = tile_packs.pack_kernel(kind, left_turned, right_turned).address
    slots = [
        ("new", left.dtype, (bm, bk, 32, kind.deep), None, -1, 0),
        ("new", left.dtype, (bn, bk, 2, 16, 16, 4 // kind.size), None, -1, 0),
    ]
    plan = rl._C.Plan(
        2, rl.device("cpu"), slots, [(kernel, [0, 2, 1, 3], [*first, *second, strips[0]], sum(strips), 1, -1)], False
    )
    a, b = plan(left, right)
    a = a.permute(0, 2, 1, 3).reshape(bm * 32, bk * kind.deep)
    b = b.permute(1, 3, 5, 0, 2, 4).reshape(bk * kind.deep, bn * 32)
    assert rl.equal(a[:m, :k], left) and rl.equal(b[:k, :n], right)
    assert not a[m:].any() and not a[:, k:].any() and not b[k:].any() and not b[:, n:].any()


def test_parts_fit_a_thread_s_sums_and_slices_cover_k():
    for blocks in (1, 3, 16, 33, 128):
        for deep in (1, 16, 60, 200):
            for items in (1, 4, 16):
                cut = tile_parts(blocks, blocks, deep, True, items)
                parts = -(-blocks // cut.part_m) * -(-blocks // cut.part_n)
                assert 1 <= cut.part_m * cut.part_n <= tile_products.PART and 1 <= cut.chunk <= parts
                assert not cut.packs or cut.chunk % -(-blocks // cut.part_m) == 0, "two threads would pack the same"
        assert tile_slice(blocks) >= 1


def packed_blocks(x, kind, is_right):
    """A matrix as tile_packs.py lays it out, made with ops: [k, n] on the right, [m, k] on the left."""
    lines, deep = (x.shape[1], x.shape[0]) if is_right else x.shape
    strips, blocks, group = -(-lines // 32), -(-deep // kind.deep), 4 // kind.size
    whole = rl.zeros(strips * 32, blocks * kind.deep, dtype=x.dtype)
    whole[:lines, :deep] = x.t() if is_right else x
    if not is_right:
        return whole.reshape(strips, 32, blocks, kind.deep).permute(0, 2, 1, 3).contiguous()
    return whole.reshape(strips, 2, 16, blocks, 16, group).permute(0, 3, 1, 4, 2, 5).contiguous()


@KINDS
@pytest.mark.parametrize(
    "m, n, k",
    [(33, 45, 70), (64, 64, 64), (96, 100, 257), (1, 32, 130), (40, 31, 1), (64, 96, 1400), (96, 64, 1344)],
)
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("slice_", [2, 32])
def test_products_on_emulated_registers(m, n, k, biased, slice_, kind):
    pytest.importorskip("llvmlite.binding")
    if biased and kind is not tiles.BF16:
        pytest.skip("integers have no bias")
    rl.manual_seed(m)
    a, b, bias = random(kind, m, k), random(kind, k, n), random(kind, n)
    blocks_m, blocks_n, blocks_k = -(-m // 32), -(-n // 32), -(-k // kind.deep)
    left, right, walk = packed_blocks(a, kind, False), packed_blocks(b, kind, True), [blocks_k * 2048, 2048, 1024, 64]
    if not (m % 32 or k % kind.deep):
        left, pitch = a, k * kind.size
        walk = [32 * pitch, 64, 16 * pitch, pitch]
    out = rl.full((m + 1, n + 5), 7, dtype=rl.bfloat16 if kind is tiles.BF16 else rl.int32)
    params = [m, n, blocks_k, blocks_n, n + 5, slice_, 2, 2, 1, -(-blocks_m // 2), *walk, int(biased), 1, *[0] * 8, m]
    pointers = [left.data_ptr(), right.data_ptr(), out.data_ptr(), bias.data_ptr(), 0, 0]
    parts = -(-blocks_m // 2) * blocks_n
    kernel = emulated_tiles.product(kind)
    for begin, end in ((0, parts // 2), (parts // 2, parts)):
        kernel((ctypes.c_int64 * 6)(*pointers), (ctypes.c_int64 * len(params))(*params), begin, end)
    assert bool((out[m:] == 7).all()) and bool((out[:, n:] == 7).all())
    exact = a.double() @ b.double()
    if kind is not tiles.BF16:
        assert rl.equal(out[:m, :n], exact.to(rl.int32))
        return
    exact = exact + bias.double() if biased else exact
    distance = (out[:m, :n].double() - exact).abs()
    slack = 1e-5 * (a.double().abs() @ b.double().abs())       # of sums in single precision
    assert bool((distance <= exact.abs() * 2**-8 * 1.01 + slack).all()), "rounded more than once"


@pytest.mark.share(2)
@KINDS
@pytest.mark.parametrize("left_turned", [False, True])
@pytest.mark.parametrize("right_turned", [False, True])
@pytest.mark.parametrize("m, n, k", [(70, 300, 100), (200, 45, 70), (96, 330, 1100), (70, 160, 64)])
@pytest.mark.parametrize("items", [1, 2, 16])
def test_steps_on_emulated_registers(m, n, k, left_turned, right_turned, items, kind, monkeypatch):
    """All that a product's plan does, operands packed where they are used or before, by any number of threads."""
    pytest.importorskip("llvmlite.binding")

    def emulated(*order):
        code = emulated_tiles.product(*order)
        return tile_products.Kernel("emulated", ctypes.cast(code, ctypes.c_void_p).value, ())

    monkeypatch.setattr(tile_products, "product_kernel", emulated)
    monkeypatch.setattr(gemm_tiles, "items_for_threads", lambda: items)
    rl.manual_seed(m)
    left, right = ordered(random(kind, m, k), left_turned), ordered(random(kind, k, n), right_turned)
    matrices = Matrix(0, *left.stride()), Matrix(1, *right.stride()), Matrix(2, n, 1)
    steps, sizes = gemm_tiles.tile_steps(kind.code, *matrices, 3, m, n, k)
    dtype = rl.bfloat16 if kind is tiles.BF16 else rl.int32
    slots = [("new", dtype, (m, n), None, -1, 0), *(("temp", rl.int8, (size,), None, -1, 0) for size in sizes)]
    threads = rl.get_num_threads()
    rl.set_num_threads(1)      # emulated registers are the process's, not a thread's
    try:
        out = rl._C.Plan(2, rl.device("cpu"), slots, steps, True)(left, right)
    finally:
        rl.set_num_threads(threads)
    exact = left.double() @ right.double()
    if kind is not tiles.BF16:
        assert rl.equal(out, exact.to(rl.int32))
        return
    slack = 1e-5 * (left.double().abs() @ right.double().abs())
    assert bool(((out.double() - exact).abs() <= exact.abs() * 2**-8 * 1.01 + slack).all())


needs_tiles = pytest.mark.skipif(
    platform.machine() != "x86_64" or not rl._C.request_tiles(), reason="this processor has no tile registers"
)


@needs_tiles
@pytest.mark.parametrize("m, n, k", [(33, 45, 700), (100, 513, 257), (1, 1000, 700), (512, 512, 512), (300, 290, 1030)])
@pytest.mark.parametrize("left_turned", [False, True])
@pytest.mark.parametrize("right_turned", [False, True])
def test_products_match_single_precision(m, n, k, left_turned, right_turned):
    a, b = ordered(rl.randn(m, k).bfloat16(), left_turned), ordered(rl.randn(k, n).bfloat16(), right_turned)
    expected = a.float() @ b.float()
    error = ((a @ b).float() - expected).abs().max() / expected.abs().max()
    assert float(error) < 1e-2


@needs_tiles
def test_batches_and_strided_operands():
    a, b = rl.randn(3, 200, 256).bfloat16(), rl.randn(3, 256, 130).bfloat16()
    for x, y in ((a, b), (a[:, ::2], b), (a[:, :, ::2], b[:, ::2]), (a, b[:1]), (a, b[0])):
        expected = x.float() @ y.float()
        assert float(((x @ y).float() - expected).abs().max() / expected.abs().max()) < 1e-2


@needs_tiles
@pytest.mark.parametrize("m, n, k", [(33, 45, 700), (100, 513, 257), (1, 1000, 700), (512, 512, 512), (300, 290, 1030)])
@pytest.mark.parametrize("left_turned", [False, True])
@pytest.mark.parametrize("right_turned", [False, True])
def test_products_of_bytes_are_exact(m, n, k, left_turned, right_turned):
    a, b = ordered(random(tiles.INT8, m, k), left_turned), ordered(random(tiles.INT8, k, n), right_turned)
    assert rl.equal(rl._int_mm(a, b), (a.double() @ b.double()).to(rl.int32))


@needs_tiles
@pytest.mark.parametrize("rows, ins, outs", [(64, 512, 512), (70, 257, 129), (300, 1024, 96)])
def test_linear_adds_its_bias_before_rounding(rows, ins, outs):
    x, weight, bias = rl.randn(rows, ins).bfloat16(), rl.randn(outs, ins).bfloat16(), (100 * rl.randn(outs)).bfloat16()
    exact = x.double() @ weight.double().t() + bias.double()
    distance = (rl.nn.functional.linear(x, weight, bias).double() - exact).abs()
    slack = 1e-5 * (x.double().abs() @ weight.double().abs().t())
    assert bool((distance <= exact.abs() * 2**-8 * 1.01 + slack).all())
