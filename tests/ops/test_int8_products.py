"""_int_mm: int8 matrices, summed in int32, exactly."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import rushlight as rl  # noqa: E402
from rushlight.codegen.library.products import dot_instructions, grouped_products  # noqa: E402
from rushlight.codegen.llvm.cpu import compile_ir  # noqa: E402
from rushlight.codegen.text.targets import find_target  # noqa: E402
from rushlight.planners.products.gemm import Matrix  # noqa: E402
from rushlight.planners.products.groups import group_steps  # noqa: E402
from tests.ops.emulated_dots import definition, emulated  # noqa: E402

SIZES = [
    (1, 1, 1), (3, 5, 3), (8, 12, 4), (17, 31, 16), (9, 13, 17), (40, 100, 300), (33, 47, 63), (16, 16, 2100),
    (130, 64, 1), (0, 3, 4), (3, 0, 4), (3, 4, 0), (300, 70, 90),
]


def bytes_of(*shape: int):
    return torch.randint(-128, 128, shape, dtype=torch.int8)


def ours(t):
    return rl.from_numpy(t.numpy())


@pytest.mark.parametrize("m, n, k", SIZES)
@pytest.mark.parametrize("turned_a", [False, True])
@pytest.mark.parametrize("turned_b", [False, True])
def test_products_are_exact(m: int, n: int, k: int, turned_a: bool, turned_b: bool) -> None:
    torch.manual_seed(0)
    a, b = bytes_of(*((k, m) if turned_a else (m, k))), bytes_of(*((n, k) if turned_b else (k, n)))
    x, y = ours(a), ours(b)
    a, x = (a.t(), x.t()) if turned_a else (a, x)
    b, y = (b.t(), y.t()) if turned_b else (b, y)
    result = rl._int_mm(x, y)
    assert result.dtype is rl.int32 and result.shape == (m, n)
    assert result.tolist() == (a.int() @ b.int()).tolist()


def test_extreme_numbers_and_any_strides() -> None:
    low = rl.full((20, 2048), -128, dtype=rl.int8)
    assert rl._int_mm(low, low.t()).eq(128 * 128 * 2048).all()
    torch.manual_seed(1)
    a, b = bytes_of(40, 60), bytes_of(60, 50)
    result = rl._int_mm(ours(a)[::2, ::3], ours(b)[::3, 1::2])
    assert result.tolist() == (a[::2, ::3].int() @ b[::3, 1::2].int()).tolist()
    part = rl._int_mm(ours(a)[3:35, 5:44], ours(b)[5:44, 7:41])
    assert part.tolist() == (a[3:35, 5:44].int() @ b[5:44, 7:41].int()).tolist()


def test_out_and_refusals() -> None:
    a, b = ours(bytes_of(5, 6)), ours(bytes_of(6, 7))
    out = rl.empty(5, 7, dtype=rl.int32)
    assert rl._int_mm(a, b, out=out) is out and out.equal(rl._int_mm(a, b))
    with pytest.raises(RuntimeError, match="int8 matrices, got float32"):
        rl._int_mm(a.float(), b)
    with pytest.raises(RuntimeError, match="5x6 and 7x6"):
        rl._int_mm(a, b.t())
    assert rl._int_mm(a.to("meta"), b.to("meta")).shape == (5, 7)


def test_examples_of_a_batch() -> None:
    a, b = ours(bytes_of(3, 5, 6)), ours(bytes_of(6, 7))
    alone = rl.stack([rl._int_mm(x, b) for x in a])
    assert rl.func.vmap(rl._int_mm, in_dims=(0, None))(a, b).equal(alone)
    assert rl.func.vmap(rl._int_mm)(a, rl.stack([b, b, b])).equal(alone)
    transposed = rl.func.vmap(rl._int_mm, in_dims=(None, 0))(b.t(), a.transpose(1, 2))
    assert transposed.equal(alone.transpose(1, 2))


def test_threads_share_a_product_without_changing_it() -> None:
    torch.manual_seed(2)
    a, b = ours(bytes_of(300, 520)), ours(bytes_of(520, 410))
    before = rl.get_num_threads()
    try:
        rl.set_num_threads(1)
        alone = rl._int_mm(a, b)
        rl.set_num_threads(4)
        assert rl._int_mm(a, b).equal(alone)
    finally:
        rl.set_num_threads(before)


# --- instructions this processor may not have -------------------------------------------------------------------------

CODE_OF = {
    "sdot": ("aarch64", "", "+neon,+dotprod", "sdot"),
    "smmla": ("aarch64", "", "+neon,+i8mm", "smmla"),
    "vnni": ("x86-64-avx512", "cascadelake", "-prefer-256-bit", "vpdpbusd"),
    "vnni_256": ("x86-64-avx2", "alderlake", "", "vpdpbusd"),
    "bf16": ("x86-64-avx512", "cooperlake", "-prefer-256-bit", "vdpbf16ps"),
}


@pytest.mark.parametrize("dots", dot_instructions.ALL, ids=lambda dots: dots.name)
def test_kernels_are_code_for_processors_that_have_them(dots) -> None:
    name, cpu, features, instruction = CODE_OF[dots.name]
    target = find_target(name)
    target = target.but(cpu=cpu or target.cpu, features=features)
    text = compile_ir(grouped_products.module_text("group_product", dots, target.triple), target, "asm")
    assert text.count(instruction + " ") + text.count(instruction + "\t") == dots.height * dots.width // dots.lanes
    loop = text[text.index(instruction) : text.rindex(instruction)]
    assert "(%rsp)" not in loop and "[sp" not in loop          # all sums stay in registers
    for other in ("pack_groups", *(("line_sums",) if dots.flips else ())):
        assert compile_ir(grouped_products.module_text(other, dots, target.triple), target, "asm")


@pytest.mark.parametrize("dots", dot_instructions.ALL, ids=lambda dots: dots.name)
@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (3, 5, 3), (17, 31, 16), (70, 100, 300), (33, 147, 63), (13, 70, 2200)])
def test_products_on_instructions_spelled_out(dots, m, n, k, monkeypatch) -> None:
    monkeypatch.setattr(dot_instructions.Dots, "declared", definition)
    rl.manual_seed(0)
    for turned_a in (False, True):
        for turned_b in (False, True):
            shapes = ((k, m) if turned_a else (m, k), (n, k) if turned_b else (k, n))
            a, b = (rl.randint(-128, 128, shape, dtype=rl.int8) for shape in shapes)
            if dots.code == "bf16":
                a, b = a.bfloat16() / 16, b.bfloat16() / 16
            a, b = a.t() if turned_a else a, b.t() if turned_b else b
            matrices = Matrix(0, *a.stride()), Matrix(1, *b.stride()), Matrix(2, n, 1)
            steps, sizes = group_steps(dots.code, a.device, *matrices, m, n, k, 3, 1, emulated(dots))
            out = rl.int32 if dots.code == "i8" else rl.bfloat16
            slots = [("new", out, (m, n), None, -1, 0), *(("temp", rl.int8, (size,), None, -1, 0) for size in sizes)]
            result = rl._C.Plan(2, a.device, slots, steps)(a, b)
            expected = a.to(rl.float64) @ b.to(rl.float64)
            if dots.code == "i8":
                assert result.tolist() == expected.to(rl.int32).tolist()
            else:
                assert rl.allclose(result.double(), expected, rtol=1e-2, atol=0.02 * k**0.5)
