"""Products with weights of 8 and 4 bits: exact arithmetic, PyTorch's packing and results, refusals."""

from __future__ import annotations

import numpy
import pytest

import rushlight
from rushlight.codegen.library.products import weight_dots, weight_products
from rushlight.codegen.llvm.cpu import compile_ir
from rushlight.codegen.text.targets import find_target
from rushlight.definitions.quantized.weights import parted
from rushlight.planners.products.weight_plans import packing

FLOATS = ("float32", "bfloat16", "float16")
ROUNDING = {"float32": 3e-6, "bfloat16": 6e-3, "float16": 8e-4}
SIZES = [(1, 64, 64), (2, 48, 37), (7, 160, 96), (13, 80, 256), (32, 200, 64)]


def relative(found: rushlight.Tensor, wanted: rushlight.Tensor) -> float:
    return ((found.double() - wanted).abs().max() / wanted.abs().max()).item()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_eight_bits(m: int, n: int, k: int, dtype: str) -> None:
    rushlight.manual_seed(m + n + k)
    kind = getattr(rushlight, dtype)
    x, scales = rushlight.randn(m, k).to(kind), (rushlight.rand(n) + 0.1).to(kind)
    weights = rushlight.randint(-128, 128, (n, k), dtype=rushlight.int8)
    exact = (x.double() @ weights.double().t()) * scales.double()
    found = rushlight._weight_int8pack_mm(x, weights, scales)
    assert found.dtype is kind and relative(found, exact) < ROUNDING[dtype]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("m", "n", "k", "group"), [(1, 64, 64, 32), (3, 96, 128, 64), (8, 144, 256, 32), (33, 16, 64, 32)]
)
def test_four_bits(m: int, n: int, k: int, group: int, dtype: str) -> None:
    rushlight.manual_seed(m + n + k)
    kind = getattr(rushlight, dtype)
    x, pairs = rushlight.randn(m, k).to(kind), rushlight.randn(k // group, n, 2).to(kind)
    integers = rushlight.randint(0, 16, (n, k), dtype=rushlight.int32)
    scale, zero = pairs.double().permute(2, 1, 0).unsqueeze(-1)
    weights = ((integers.double().view(n, -1, group) - 8) * scale + zero).view(n, k)
    packed = rushlight._convert_weight_to_int4pack_for_cpu(integers, 1)
    found = rushlight._weight_int4pack_mm_for_cpu(x, packed, group, pairs)
    assert found.dtype is kind and relative(found, x.double() @ weights.t()) < ROUNDING[dtype]


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_share_columns(threads: int) -> None:
    before = rushlight.get_num_threads()
    rushlight.set_num_threads(threads)
    try:
        x, weights = rushlight.randn(6, 1024), rushlight.randint(-128, 128, (517, 1024), dtype=rushlight.int8)
        found = rushlight._weight_int8pack_mm(x, weights, rushlight.ones(517))
        assert relative(found, x.double() @ weights.double().t()) < ROUNDING["float32"]
    finally:
        rushlight.set_num_threads(before)


def test_packing_is_a_permutation() -> None:
    block, is_paired = packing()
    integers = rushlight.randint(0, 16, (2 * block + 16, 32), dtype=rushlight.int32)
    packed = rushlight._convert_weight_to_int4pack_for_cpu(integers, 1)
    assert packed.shape == (2 * block + 16, 16) and packed.dtype is rushlight.uint8
    full, rest = packed.view(-1)[: 2 * block * 16], packed.view(-1)[2 * block * 16 :]
    assert rushlight.equal(parted(full, block, 32, is_paired).int(), integers[: 2 * block])
    assert rushlight.equal(parted(rest, 16, 32, True).int(), integers[2 * block :])


FORMS = [
    (weight_products.WIDE, "x86-64-avx512"),
    (weight_products.MIDDLE, "x86-64-avx2"),
    (weight_products.NARROW, "aarch64"),
]


@pytest.mark.parametrize(("form", "processor"), FORMS)
@pytest.mark.parametrize(
    ("block", "is_paired", "scales"), [(0, False, "float"), (32, True, "bfloat"), (64, False, "float")]
)
def test_every_form_is_valid_for_its_processor(
    form: weight_products.FloatForm, processor: str, block: int, is_paired: bool, scales: str
) -> None:
    """LLVM accepts the text for processors that have such registers, this one or not."""
    target = find_target(processor)
    kernel = weight_products.WeightProduct("k", (), form, 1, block, is_paired, scales)
    text = compile_ir(weight_products.module_text(kernel, target.triple), target, "asm", by_hand=True)
    assert ("fmla" if processor == "aarch64" else "vfmadd") in text


def test_dots_of_bytes_are_close() -> None:
    """Rows of 16-bit floats, written as pairs of bytes: no farther off than a float16 of the largest among them."""
    target = find_target("x86-64-avx512").but(features="+avx512f,+avx512bw,+avx512vl,+avx512vnni")
    kernel = weight_dots.WeightDots("four_bit_dots", weight_dots.PRODUCT, "bfloat")
    text = compile_ir(weight_dots.module_text(kernel, target.triple), target, "asm", by_hand=True)
    assert text.count("vpdpbusd") == 2 * weight_dots.PARTS
    rows = (rushlight.randn(2, 128) * rushlight.logspace(-4, 3, 128)).to(rushlight.float16)
    rows[1, 32:64] = 0
    levels = rushlight.randint(0, 16, (64, 128), dtype=rushlight.int32)
    pairs = rushlight.stack([rushlight.full((4, 64), 0.5), rushlight.zeros(4, 64)], -1).to(rushlight.float16)
    packed = rushlight._convert_weight_to_int4pack_for_cpu(levels, 1)
    found = rushlight._weight_int4pack_mm_for_cpu(rows, packed, 32, pairs)
    exact = rows.double() @ ((levels.double() - 8) * 0.5).t()
    assert relative(found, exact) < ROUNDING["float16"]


def test_rounded_rows_times_four_bits() -> None:
    rows = rushlight.tensor([[-1.0, 0.5, 0.25, 1.0] * 16, [0.0] * 64, [3.0] * 64])
    weights = rushlight.full((2, 32), 0x9A, dtype=rushlight.uint8)      # 10 - 8 and 9 - 8 in turn
    packed = rushlight._dyn_quant_pack_4bit_weight(weights, rushlight.tensor([1.0, 2.0, 3.0, 4.0]), None, 32, 64, 2)
    assert packed.shape == (2 * 32 + 4,)
    found = rushlight._dyn_quant_matmul_4bit(rows, packed, 32, 64, 2)
    wanted = numpy.array([[0.0, 0.0], [0.0, 0.0], [432.0, 1008.0]])
    assert numpy.abs(found.numpy() - wanted).max() < 0.5 and found[1].tolist() == [0.0, 0.0]


REFUSED = [
    (lambda t: t._weight_int8pack_mm(t.ones(2, 4), t.ones(3, 5, dtype=t.int8), t.ones(3)), "4 columns"),
    (lambda t: t._weight_int8pack_mm(t.ones(2, 4), t.ones(3, 4, dtype=t.int8), t.ones(4)), r"\[3\]"),
    (lambda t: t._weight_int8pack_mm(t.ones(2, 4), t.ones(3, 4, dtype=t.int8), t.ones(3).half()), "float16"),
    (lambda t: t._weight_int8pack_mm(t.ones(2, 4).double(), t.ones(3, 4, dtype=t.int8), t.ones(3).double()), "float64"),
    (lambda t: t._convert_weight_to_int4pack_for_cpu(t.ones(8, 4, dtype=t.int32), 1), "by 16"),
    (lambda t: t._weight_int4pack_mm_for_cpu(t.ones(1, 64), t.ones(16, 32, dtype=t.uint8), 48, t.ones(1, 16, 2)), "48"),
    (lambda t: t._dyn_quant_pack_4bit_weight(t.ones(4, dtype=t.uint8), t.ones(1), None, 8, 12, 2), "block_size"),
]


@pytest.mark.parametrize(("call", "said"), REFUSED)
def test_refusals(call: object, said: str) -> None:
    with pytest.raises(RuntimeError, match=said):
        call(rushlight)


def test_pytorch_packs_and_multiplies_alike() -> None:
    torch = pytest.importorskip("torch")
    names = {"AVX512": (64, False), "AVX2": (32, False), "DEFAULT": (32, True)}
    alike = names.get(torch.backends.cpu.get_cpu_capability()) == packing()
    torch.manual_seed(1)
    for m, n, k in ((1, 64, 64), (5, 144, 128)):
        x, pairs = torch.randn(m, k), torch.randn(k // 32, n, 2)
        integers = torch.randint(0, 16, (n, k), dtype=torch.int32)
        weights = torch.randint(-128, 128, (n, k)).to(torch.int8)
        ours = {name: rushlight.from_numpy(t.numpy()) for name, t in
                {"x": x, "pairs": pairs, "integers": integers, "weights": weights}.items()}
        theirs = torch._convert_weight_to_int4pack_for_cpu(integers, 1)
        packed = rushlight._convert_weight_to_int4pack_for_cpu(ours["integers"], 1)
        assert not alike or packed.tolist() == theirs.tolist()
        wanted = torch._weight_int4pack_mm_for_cpu(x, theirs, 32, pairs).numpy()
        found = rushlight._weight_int4pack_mm_for_cpu(ours["x"], packed, 32, ours["pairs"]).numpy()
        assert numpy.abs(found - wanted).max() <= 2e-5 * numpy.abs(wanted).max()
        scales = torch.rand(n)
        wanted = torch._weight_int8pack_mm(x, weights, scales).numpy()
        found = rushlight._weight_int8pack_mm(ours["x"], ours["weights"], rushlight.from_numpy(scales.numpy())).numpy()
        assert numpy.abs(found - wanted).max() <= 2e-5 * numpy.abs(wanted).max()
        scales, bias = torch.rand(n * k // 32), torch.randn(n)
        halves = integers[:, : k // 2].to(torch.uint8)
        theirs = torch._dyn_quant_pack_4bit_weight(halves, scales, bias, 32, k, n)
        rows = torch._dyn_quant_matmul_4bit(x, theirs, 32, k, n)
        given = [rushlight.from_numpy(t.numpy()) for t in (halves, scales, bias)]
        kept = rushlight._dyn_quant_pack_4bit_weight(*given, 32, k, n)
        found = rushlight._dyn_quant_matmul_4bit(ours["x"], kept, 32, k, n).numpy()
        assert numpy.abs(found - rows.numpy()).max() <= 2e-5 * rows.abs().max().item()
