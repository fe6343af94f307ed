"""Products from register tiles: every edge of a tile, both orders of the left operand, scaling, batches,
other processors."""

from __future__ import annotations

import struct

import pytest

import rushlight as rl
from rushlight.codegen.library.products import tiled_products

SIZES = [
    (1, 1, 1), (8, 8, 8), (3, 5, 7), (13, 29, 6), (64, 64, 64), (17, 40, 33), (9, 3, 100), (5, 130, 2), (20, 33, 9),
    (30, 16, 5),
]


def product(a, b, c, turned, alpha, beta, whole=(False, False)):
    batch, m, n = c.shape
    k, size = b.shape[1], c.element_size()
    bits = struct.unpack("<qq", struct.pack("<dd", alpha, beta))
    params = [
        m,
        n,
        k,
        a.stride(1),
        b.stride(1),
        c.stride(1),
        int(turned),
        0,
        *(t.stride(0) * size for t in (a, b, c)),
        *bits,
        c.stride(1),
        c.stride(0) * size,
    ]
    kernel = tiled_products.product_kernel(c.dtype.code, turned, whole).address
    return rl._C.Plan(
        3, rl.device("cpu"), [("arg", None, None, None, 2, 0)], [(kernel, [0, 1, 2, 2], params, batch, 1, -1)]
    )(a, b, c)


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("m, n, k", SIZES)
def test_every_edge(m, n, k, turned, dtype):
    for alpha, beta in ((1.0, 0.0), (0.5, 1.0), (2.0, -0.5)):
        a = rl.randn((2, k, m) if turned else (2, m, k), dtype=dtype)
        b, c = rl.randn(2, k, n, dtype=dtype), rl.randn(2, m, n, dtype=dtype)
        left = a.transpose(1, 2) if turned else a
        exact = alpha * (left.double().unsqueeze(-1) * b.double().unsqueeze(1)).sum(2) + beta * c.double()
        got = product(a, b, c.clone(), turned, alpha, beta)
        assert float((got.double() - exact).abs().max()) < (1e-12 if dtype is rl.float64 else 1e-4)


@pytest.mark.parametrize("whole", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("turned", [False, True])
def test_kernels_of_whole_tiles_have_no_others(turned, whole):
    tall = tiled_products.ROWS[tiled_products.vector_bits()][0]
    wide = 2 * tiled_products.vector_bits() // 32
    m, n, k = 3 * tall + (not whole[0]) * 5, 2 * wide + (not whole[1]) * 3, 21
    assert tiled_products.are_whole("f32", m, n) == whole
    assert len(tiled_products.module_text("f32", turned, whole)) < len(tiled_products.module_text("f32", turned))
    a = rl.randn((2, k, m) if turned else (2, m, k))
    b, c = rl.randn(2, k, n), rl.randn(2, m, n)
    left = a.transpose(1, 2) if turned else a
    exact = (left.double().unsqueeze(-1) * b.double().unsqueeze(1)).sum(2) + c.double()
    got = product(a, b, c.clone(), turned, 1.0, 1.0, whole)
    assert float((got.double() - exact).abs().max()) < 1e-4
    assert rl.equal(got, product(a, b, c.clone(), turned, 1.0, 1.0))


def test_without_beta_the_result_is_not_read():
    a, b = rl.ones(1, 9, 5), rl.ones(1, 5, 11)
    assert rl.equal(product(a, b, rl.full((1, 9, 11), float("nan")), False, 1.0, 0.0), rl.full((1, 9, 11), 5.0))


def test_a_bias_is_added_to_every_row():
    x, w, b = rl.randn(40, 24), rl.randn(51, 24), rl.randn(51)
    exact = (x.double().unsqueeze(1) * w.double()).sum(-1) + b.double()
    for rows in (1, 4, 7, 40):
        assert float((rl.nn.functional.linear(x[:rows], w, b).double() - exact[:rows]).abs().max()) < 1e-5


@pytest.mark.parametrize("m, n, k", [(4, 1, 3), (5, 16, 1), (9, 17, 20), (300, 70, 33), (7, 130, 64)])
@pytest.mark.parametrize("dtype", [rl.float32, rl.float64])
def test_transposed_right_operand_is_packed(m, n, k, dtype):
    x, w = rl.randn(m, k, dtype=dtype), rl.randn(n, k + 3, dtype=dtype)[:, :k]
    exact = (x.double().unsqueeze(1) * w.double()).sum(-1)
    assert float((x @ w.t() - exact).abs().max()) < (1e-12 if dtype is rl.float64 else 1e-4)
    assert rl.allclose(x.expand(3, m, k).contiguous() @ w.t(), exact.to(dtype).expand(3, m, n), atol=1e-4)


def test_strided_operands_through_matmul():
    x, y = rl.randn(40, 64, dtype=rl.float64), rl.randn(64, 48, dtype=rl.float64)
    exact = (x.unsqueeze(-1) * y.unsqueeze(0)).sum(1)
    wide = rl.randn(64, 100, dtype=rl.float64)
    wide[:, 7:55] = y
    for a, b in ((x, y), (x.t().contiguous().t(), y), (x, wide[:, 7:55]), (x.expand(1, 40, 64)[0], y)):
        assert rl.allclose(a @ b, exact, atol=1e-12)
    assert rl.allclose(x[:1] @ y, exact[:1]) and rl.allclose(x[:, :1] @ y[:1], x[:, :1] * y[:1])


@pytest.mark.parametrize("bits, cpu", [(256, "haswell"), (512, "skylake-avx512")])
def test_compiles_for_other_widths(bits, cpu, monkeypatch):
    llvm = pytest.importorskip("llvmlite.binding")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    monkeypatch.setattr(tiled_products, "vector_bits", lambda: bits)
    machine = llvm.Target.from_triple("x86_64-unknown-linux-gnu").create_target_machine(
        cpu=cpu, features="-prefer-256-bit", opt=2, reloc="pic"
    )
    text = machine.emit_assembly(
        llvm.parse_assembly('target triple = "x86_64-unknown-linux-gnu"\n' + tiled_products.module_text("f32", False))
    )
    assert "vfmadd" in text and ("zmm" if bits == 512 else "ymm") in text
