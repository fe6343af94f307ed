"""bfloat16 products on tile registers: the kernel's text compiles for a processor that has them, and results hold where it runs."""

from __future__ import annotations

import platform

import pytest

import rushlight as rl
from rushlight.codegen import tiles


def test_kernel_compiles_for_a_processor_with_tiles():
    llvm = pytest.importorskip("llvmlite.binding")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple("x86_64-unknown-linux-gnu").create_target_machine(cpu="sapphirerapids", opt=2, reloc="pic")
    text = machine.emit_assembly(llvm.parse_assembly(tiles.module_text("x86_64-unknown-linux-gnu")))
    assert text.count("tdpbf16ps") == 4 and "tilerelease" in text


def blocks(sizes, block=32):
    return [-(-s // block) for s in sizes]


@pytest.mark.parametrize("m, n, k", [(3, 5, 7), (32, 32, 32), (33, 65, 40)])
def test_packing_keeps_every_element_and_pads_with_zeros(m, n, k):
    device = rl.device("cpu")
    from rushlight.op.pointwise import compile_for

    left, right = rl.randn(m, k).bfloat16(), rl.randn(k, n).bfloat16()
    bm, bn, bk = blocks((m, n, k))
    slots = [("new", rl.bfloat16, (bm, bk, 32, 32), None, -1, 0), ("new", rl.bfloat16, (bn, bk, 2, 16, 16, 2), None, -1, 0)]
    steps = [
        (compile_for(device, tiles.pack_left()), [0, 2], [m, k, bk, *left.stride()], bm * 32, 8, -1),
        (compile_for(device, tiles.pack_right()), [1, 3], [n, k, bk, *right.stride()], bn * bk, 1, -1),
    ]
    a, b = rl._C.Plan(2, device, slots, steps, False)(left, right)
    a = a.permute(0, 2, 1, 3).reshape(bm * 32, bk * 32)
    b = b.permute(1, 3, 5, 0, 2, 4).reshape(bk * 32, bn * 32)
    assert rl.equal(a[:m, :k], left) and rl.equal(b[:k, :n], right)
    assert float(a.float().abs().sum()) == pytest.approx(float(left.float().abs().sum()), rel=1e-5)
    assert float(b.float().abs().sum()) == pytest.approx(float(right.float().abs().sum()), rel=1e-5)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="tile registers are x86")
@pytest.mark.parametrize("m, n, k", [(33, 45, 700), (100, 513, 257), (1, 1000, 700), (512, 512, 512)])
def test_products_match_single_precision(m, n, k):
    if not rl._C.request_tiles():
        pytest.skip("this processor has no tile registers")
    a, b = rl.randn(m, k).bfloat16(), rl.randn(n, k).bfloat16()
    expected = a.float() @ b.float().t()
    error = ((a @ b.t()).float() - expected).abs().max() / expected.abs().max()
    assert float(error) < 1e-2
