"""bfloat16 products on tile registers: the kernels' text compiles for a processor that has them,
packing is right on any, products where they run."""

from __future__ import annotations

import platform

import pytest

import rushlight as rl
from rushlight.codegen import tile_packs, tiles
from rushlight.op.gemm import tile_parts, tile_slice

SIZES = [(3, 5, 7), (32, 32, 32), (33, 65, 40), (70, 31, 96)]


@pytest.fixture(scope="module")
def machine():
    llvm = pytest.importorskip("llvmlite.binding")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple("x86_64-unknown-linux-gnu").create_target_machine(
        cpu="sapphirerapids", opt=2, reloc="pic"
    )


def test_product_compiles_for_a_processor_with_tiles(machine):
    import llvmlite.binding as llvm

    text = machine.emit_assembly(llvm.parse_assembly(tiles.module_text("x86_64-unknown-linux-gnu")))
    assert text.count("tdpbf16ps") == 4 and "tilerelease" in text


@pytest.mark.parametrize("turned", [(False, False), (True, True)])
def test_packing_compiles_without_spilling_rows(machine, turned):
    import llvmlite.binding as llvm

    text = machine.emit_assembly(llvm.parse_assembly(tile_packs.module_text("x86_64-unknown-linux-gnu", *turned)))
    assert "zmm" in text


def ordered(t, is_turned):
    """The same matrix, with its rows or its columns consecutive in memory."""
    return t.t().contiguous().t() if is_turned else t


@pytest.mark.parametrize("left_turned", [False, True])
@pytest.mark.parametrize("right_turned", [False, True])
@pytest.mark.parametrize("m, n, k", SIZES)
def test_packing_keeps_every_element_and_pads_with_zeros(m, n, k, left_turned, right_turned):
    left, right = ordered(rl.randn(m, k).bfloat16(), left_turned), ordered(rl.randn(k, n).bfloat16(), right_turned)
    bm, bn, bk = (-(-size // 32) for size in (m, n, k))
    first = tile_packs.params_of(*((k, m, left.stride(1)) if left_turned else (m, k, left.stride(0))), left_turned, bk)
    second = tile_packs.params_of(
        *((n, k, right.stride(1)) if right_turned else (k, n, right.stride(0))), not right_turned, bk
    )
    strips = -(-first[0] // 32), -(-second[0] // 32)
    kernel = tile_packs.pack_kernel(left_turned, right_turned).address
    slots = [
        ("new", rl.bfloat16, (bm, bk, 32, 32), None, -1, 0),
        ("new", rl.bfloat16, (bn, bk, 2, 16, 16, 2), None, -1, 0),
    ]
    plan = rl._C.Plan(
        2, rl.device("cpu"), slots, [(kernel, [0, 2, 1, 3], [*first, *second, strips[0]], sum(strips), 1, -1)], False
    )
    a, b = plan(left, right)
    a = a.permute(0, 2, 1, 3).reshape(bm * 32, bk * 32)
    b = b.permute(1, 3, 5, 0, 2, 4).reshape(bk * 32, bn * 32)
    assert rl.equal(a[:m, :k], left) and rl.equal(b[:k, :n], right)
    assert not a[m:].any() and not a[:, k:].any() and not b[k:].any() and not b[:, n:].any()


def test_parts_fit_a_thread_s_sums_and_slices_cover_k():
    for blocks in (1, 3, 16, 33, 128):
        rows, columns = tile_parts(blocks, blocks)
        assert 1 <= rows * columns <= tiles.PART
        assert tile_slice(blocks) >= 1


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
