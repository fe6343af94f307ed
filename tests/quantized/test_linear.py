"""Quantized linear layers: exact sums, PyTorch's roundings, packed weights, every processor's kernels."""

from __future__ import annotations

import copy
import functools

import numpy as np
import pytest

import rushlight as rl
from rushlight.codegen.library.products import byte_forms, byte_products
from rushlight.codegen.llvm.cpu import compile_ir
from rushlight.codegen.text.targets import find_target
from rushlight.op.library import Room
from rushlight.planners.products import byte_plans
from tests.quantized.emulated_forms import definition, emulated
from tests.quantized.oracle import widest_weight

single = np.float32
SIZES = [(1, 1, 1), (3, 7, 5), (5, 33, 65), (13, 64, 33), (26, 132, 40)]


def quantized_weight(rng: np.random.Generator, n: int, k: int, by_channel: bool, zeros: bool, widest: int = 127):
    """int8 weights [n, k], scales and zero points of columns, and the tensor of them."""
    w = rng.integers(-1 - widest, 1 + widest, (n, k)).astype(np.int8)
    count = n if by_channel else 1
    scales, points = rng.random(count) * 0.01 + 0.004, rng.integers(-9, 9, count) * zeros
    integers = rl.from_numpy(w)
    if by_channel:
        tensor = rl._make_per_channel_quantized_tensor(integers, rl.from_numpy(scales), rl.from_numpy(points), 0)
    else:
        tensor = rl._make_per_tensor_quantized_tensor(integers, float(scales[0]), int(points[0]))
    return w, np.broadcast_to(scales.astype(single), n), np.broadcast_to(points, n), tensor


def chosen(least: float, most: float, largest: int) -> tuple[single, int]:
    """Scale and zero point of a range, as PyTorch's dynamic layers choose them."""
    least, most = min(single(least), single(0)), max(single(most), single(0))
    scale, limit = (float(most) - float(least)) / largest, single(6.1e-5)
    if single(scale) == 0 or np.isinf(single(1) / single(scale)):
        scale = 0.1
    if scale < limit:
        more, scale = limit / single(scale), float(limit)
        if least == 0:
            most = limit * single(largest)
        elif most == 0:
            least = -limit * single(largest)
        else:
            least, most = least * more, most * more
    low, high = float(least) / scale, float(most) / scale
    zero = -low if -abs(low) < largest - abs(high) else largest - high
    return single(scale), int(np.rint(min(max(zero, 0), largest)))


@pytest.mark.parametrize("m, k, n", SIZES)
def test_static_layers_are_exact_sums_rounded_once(m: int, k: int, n: int) -> None:
    rng = np.random.default_rng(m * k)
    for by_channel, zeros, relu, bias in [(0, 0, 0, 1), (1, 0, 1, 1), (1, 1, 0, 0), (0, 1, 1, 1)]:
        w, scales, points, weight = quantized_weight(rng, n, k, bool(by_channel), bool(zeros))
        added = rng.standard_normal(n).astype(single)
        packed = rl.ops.quantized.linear_prepack(weight, rl.from_numpy(added) if bias else None)
        x = rng.integers(0, 256, (m, k)).astype(np.uint8)
        rows = rl._make_per_tensor_quantized_tensor(rl.from_numpy(x), 0.03, 117)
        scale, zero = float(k**0.5 * 0.02), int(rng.integers(0, 255))
        layer = rl.ops.quantized.linear_relu if relu else rl.ops.quantized.linear
        result = layer(rows, packed, scale, zero)
        sums = (x.astype(np.int64) - 117) @ (w.astype(np.int64) - points[:, None]).T
        both = single(0.03) * scales
        moved = sums.astype(single) + (added / both if bias else single(0))
        expected = np.rint(moved * (both / single(scale))) + zero
        assert (result.int_repr().numpy() == np.clip(expected, zero if relu else 0, 255)).all()
        assert (result.q_scale(), result.q_zero_point(), result.dtype) == (scale, zero, rl.quint8)


@pytest.mark.parametrize("m, k, n", SIZES)
def test_dynamic_layers_quantize_by_their_own_range(m: int, k: int, n: int) -> None:
    rng = np.random.default_rng(m + k)
    for size, shift, reduced, relu in [(1, 0, False, False), (1e-6, 0, False, True), (9, 40, True, False)]:
        w, scales, points, weight = quantized_weight(rng, n, k, True, bool(shift))
        added = rng.standard_normal(n).astype(single)
        packed = rl.ops.quantized.linear_prepack(weight, rl.from_numpy(added))
        x = (rng.standard_normal((m, k)) * size + shift).astype(single)
        layer = rl.ops.quantized.linear_relu_dynamic if relu else rl.ops.quantized.linear_dynamic
        result = layer(rl.from_numpy(x), packed, reduced).numpy()
        scale, zero = chosen(x.min(), x.max(), 127 if reduced else 255)
        # one rounding: a product of two singles is exact in double precision
        moved = (x.astype(np.float64) * float(single(1) / scale) + zero).astype(single)
        sums = (np.rint(np.clip(moved, 0, 255)).astype(np.int64) - zero) @ (w.astype(np.int64) - points[:, None]).T
        expected = (sums.astype(single).astype(np.float64) * (scale * scales) + added).astype(single)
        expected = np.maximum(expected, 0) if relu else expected
        assert np.allclose(result, expected, rtol=3e-7, atol=0)      # not every processor adds in the same rounding


def test_few_and_many_rows_threads_and_layouts_agree() -> None:
    rng = np.random.default_rng(3)
    *_, weight = quantized_weight(rng, 70, 4096, True, False)
    packed = rl.ops.quantized.linear_prepack(weight, rl.ones(70))
    x = rl.from_numpy(rng.integers(0, 256, (40, 4096)).astype(np.uint8))
    rows = rl._make_per_tensor_quantized_tensor(x, 0.02, 100)
    layer = functools.partial(rl.ops.quantized.linear, W_prepack=packed, Y_scale_i=2.0, Y_zero_point_i=128)
    whole = layer(rows).int_repr()
    for count in (1, 2, 11, 12, 13):
        assert layer(rows[:count]).int_repr().equal(whole[:count])
    assert layer(rows.reshape(5, 8, 4096)).int_repr().equal(whole.reshape(5, 8, 70))
    assert layer(rows[::3]).int_repr().equal(whole[::3])
    assert layer(rows[:0]).shape == (0, 70)
    before = rl.get_num_threads()
    try:
        rl.set_num_threads(1 if before > 1 else 2)
        assert layer(rows).int_repr().equal(whole)
    finally:
        rl.set_num_threads(before)


def test_packed_weights_unpack_and_copy() -> None:
    rng = np.random.default_rng(4)
    for by_channel in (False, True):
        w, scales, points, weight = quantized_weight(rng, 5, 9, by_channel, True)
        packed = rl.ops.quantized.linear_prepack(weight, rl.arange(5.0))
        assert repr(packed) == "ScriptObject <__torch__.torch.classes.quantized.LinearPackedParamsBase>"
        for other in (packed, copy.deepcopy(packed)):
            back, bias = rl.ops.quantized.linear_unpack(other)
            assert (back.int_repr().numpy() == w).all() and bias.tolist() == [0, 1, 2, 3, 4]
            if by_channel:
                assert back.q_per_channel_scales().tolist() == scales.astype(np.float64).tolist()
                assert back.q_per_channel_zero_points().tolist() == points.tolist()
            else:
                assert (back.q_scale(), back.q_zero_point()) == (scales[0], points[0])


def test_weights_in_half_precision() -> None:
    weight, bias = rl.tensor([[1.0, 1e-4, 70000.0], [0.1, -2.0, 3.0]]), rl.tensor([1.0, -50000.0])
    packed = rl.ops.quantized.linear_prepack_fp16(weight, bias)
    half = weight.clamp(-65504, 65504).half().float()
    assert rl.ops.quantized.linear_unpack_fp16(packed)[0].equal(half)
    x = rl.randn(4, 3)
    expected = x @ half.t() + bias
    assert rl.allclose(rl.ops.quantized.linear_dynamic_fp16(x, packed), expected)
    assert rl.allclose(rl.ops.quantized.linear_relu_dynamic_fp16(x, packed), expected.relu())


def test_given_scales_and_functions_that_follow() -> None:
    rng = np.random.default_rng(5)
    *_, weight = quantized_weight(rng, 6, 20, True, False)
    packed = rl.ops.quantized.linear_prepack(weight, rl.ones(6))
    x = rl.from_numpy(rng.standard_normal((3, 20)).astype(single))
    result = rl.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(x, 0.02, 101, packed)
    rows = rl.quantize_per_tensor(x, 0.02, 101, rl.quint8)
    expected = rows.dequantize() @ weight.dequantize().t() + 1
    assert rl.allclose(result, expected, atol=1e-5)
    positive = rl.ops.quantized.linear_with_input_q_dq_qweight_dq_relu_output_fp32(x, 0.02, 101, packed)
    assert positive.equal(result.relu())
    with pytest.raises(RuntimeError, match="engine"):
        rl.ops.quantized.linear_tanh(rows, packed, 0.01, 128)
    before = rl.backends.quantized.engine
    try:
        rl.backends.quantized.engine = "onednn"
        bent = rl.ops.quantized.linear_leaky_relu(rows, packed, 0.02, 128, 0.5)
        turned = rl.ops.quantized.linear_tanh(rows, packed, 0.01, 128)
        signed = rl.quantize_per_tensor(x, 0.02, -27, rl.qint8)
        alike = rl.ops.quantized.linear(signed, packed, 0.02, 0)
    finally:
        rl.backends.quantized.engine = before
    assert rl.allclose(bent.dequantize(), rl.nn.functional.leaky_relu(expected, 0.5).clamp(-2.56, 2.54), atol=0.011)
    assert rl.allclose(turned.dequantize(), expected.tanh(), atol=0.006)
    assert alike.dtype is rl.qint8
    same = rl.ops.quantized.linear(rows, packed, 0.02, 128).int_repr().int() - 128
    assert (alike.int_repr().int() - same).abs().max() == 0


def test_refusals_name_what_was_given() -> None:
    weight = rl.quantize_per_tensor(rl.randn(3, 4), 0.01, 0, rl.qint8)
    functions = rl.ops.quantized
    packed, half = functions.linear_prepack(weight, None), functions.linear_prepack_fp16(rl.randn(3, 4), None)
    rows = rl.quantize_per_tensor(rl.randn(2, 4), 0.05, 10, rl.quint8)
    for error, text, call in [
        (NotImplementedError, "expected a quantized tensor", lambda: functions.linear(rl.randn(2, 4), packed, 0.1, 5)),
        (NotImplementedError, "tensor of floats", lambda: functions.linear_dynamic(rows, packed)),
        (RuntimeError, "found .*float64", lambda: functions.linear_dynamic(rl.randn(2, 4).double(), packed)),
        (RuntimeError, r"4 columns.*\[2, 5\]", lambda: functions.linear_dynamic(rl.randn(2, 5), packed)),
        (RuntimeError, "larger than or equal to 2, got 1", lambda: functions.linear(rows[0], packed, 0.1, 5)),
        (RuntimeError, "linear_prepack_fp16", lambda: functions.linear(rows, half, 0.1, 5)),
        (RuntimeError, "W_prepack.*Tensor", lambda: functions.linear(rows, weight, 0.1, 5)),
        (RuntimeError, "N elements: 3, got 4", lambda: functions.linear_prepack(weight, rl.ones(4))),
        (RuntimeError, "2-dimensional", lambda: functions.linear_prepack(weight[0], None)),
        (RuntimeError, "QInt8", lambda: functions.linear_prepack(rows, None)),
        (NotImplementedError, "quantized weight", lambda: functions.linear_prepack(rl.randn(3, 4), None)),
        (RuntimeError, "min should be less", lambda: functions.linear_dynamic(rl.full((1, 4), float("nan")), packed)),
        (RuntimeError, "outdated", lambda: functions.linear_prepack_legacy(weight, None)),
    ]:
        with pytest.raises(error, match=text):
            call()
    with pytest.raises(RuntimeError, match="no class 'quantized.Nothing'"):
        _ = rl.classes.quantized.Nothing
    assert rl.classes.quantized.LinearPackedParamsBase


# --- instructions this processor may not have -------------------------------------------------------------------------

CODE_OF = {
    "vnni": ("x86-64-avx512", "cascadelake", "-prefer-256-bit", "vpdpbusd"),
    "vnni_256": ("x86-64-avx2", "alderlake", "", "vpdpbusd"),
    "words_512": ("x86-64-avx512", "skylake-avx512", "-prefer-256-bit", "vpmaddwd"),
    "words_256": ("x86-64-avx2", "haswell", "", "vpmaddwd"),
    "words_128": ("x86-64-avx2", "x86-64", "", "pmaddwd"),
    "usmmla": ("aarch64", "", "+neon,+i8mm", "usmmla"),
    "sdot": ("aarch64", "", "+neon,+dotprod", "sdot"),
    "plain": ("aarch64", "", "+neon", ""),
}


@pytest.mark.parametrize("form", byte_forms.ALL, ids=lambda form: form.name)
def test_tiles_stay_in_registers(form) -> None:
    name, cpu, features, instruction = CODE_OF[form.name]
    target = find_target(name)
    target = target.but(cpu=cpu or target.cpu, features=features)
    product = byte_products.ByteProduct("byte_product", byte_products.PARAMS, form, "u8", form.height, False)
    text = compile_ir(byte_products.module_text(product, target.triple), target, "asm", by_hand=True)
    if not instruction:
        return
    assert text.count(instruction + " ") + text.count(instruction + "\t") == (
        len(byte_forms.starts(form, form.height)) * (2 if form.name.startswith("words") else 1)
    )
    loop = text[text.index(instruction) : text.rindex(instruction)]
    assert "(%rsp)" not in loop and "[sp" not in loop


@pytest.mark.parametrize("form", byte_forms.ALL, ids=lambda form: form.name)
def test_products_on_instructions_spelled_out(form, monkeypatch) -> None:
    monkeypatch.setattr(byte_forms.ByteForm, "declared", definition)
    rng, form = np.random.default_rng(0), emulated(form)
    high, wide = form.height + 3, form.width + 3
    for m, k, n, by_row in [(1, 3, 5, True), (high, 37, wide, False), (3, 64, 2 * form.width, True)]:
        x, w = rng.integers(0, 256, (m, k)).astype(np.uint8), rng.integers(-128, 128, (n, k)).astype(np.int8)
        zeros = rng.integers(-5, 6, n) * by_row
        weights, sums = byte_plans.packed_weights(rl.from_numpy(w), form)
        columns = rl.zeros(4, sums.numel(), dtype=rl.int32)
        columns[0], columns[3, :n] = sums, rl.from_numpy(zeros)
        columns[0, :n] -= rl.from_numpy(zeros * k)
        flip = 128 if form.signed else 0
        head = rl.tensor([0, 17 - flip, 0, 0, 0, 0, 0, 0], dtype=rl.int32)
        rows = rl.from_numpy(x)
        room = Room(rows.device, 4, ())
        room.slots.append(("new", rl.int32, (m, n), None, -1, 0))
        sizes = byte_plans.Sizes(m, n, k, sums.numel(), bool(by_row))
        steps = byte_plans.static_steps(room, sizes, rl.uint8, rl.int32, flip, form)
        result = rl._C.Plan(4, rows.device, room.slots, steps)(rows, weights, columns, head)
        expected = (x.astype(np.int64) - 17) @ (w.astype(np.int64) - zeros[:, None]).T
        assert result.numpy().tolist() == expected.tolist()
        assert byte_plans.unpacked_weights(weights, n, k, form).numpy().tolist() == w.tolist()


# --- PyTorch, where it is installed -----------------------------------------------------------------------------------


def test_integers_and_floats_are_those_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(7)
    if "x86" not in torch.backends.quantized.supported_engines:
        pytest.skip("PyTorch's other engines round otherwise")
    for m, k, n in [(1, 16, 8), (5, 33, 65), (64, 300, 96)]:
        for by_channel, zeros, relu in [(0, 0, 1), (1, 1, 0), (1, 0, 1), (0, 1, 0)]:
            w, _, points, ours = quantized_weight(rng, n, k, bool(by_channel), bool(zeros), widest_weight(torch))
            given = torch.from_numpy(w)
            if by_channel:
                weight = torch._make_per_channel_quantized_tensor(
                    given, torch.tensor(ours.q_per_channel_scales().tolist(), dtype=torch.float64),
                    torch.tensor(points.tolist()), 0,
                )
            else:
                weight = torch._make_per_tensor_quantized_tensor(given, ours.q_scale(), ours.q_zero_point())
            bias, x = rng.standard_normal(n).astype(single), rng.standard_normal((m, k)).astype(single)
            results = []
            for library, of, make in ((torch, weight, torch.from_numpy), (rl, ours, rl.from_numpy)):
                packed = library.ops.quantized.linear_prepack(of, make(bias))
                rows = library.quantize_per_tensor(make(x), 0.031, 117, library.quint8)
                name = "linear_relu" if relu else "linear"
                static = getattr(library.ops.quantized, name)(rows, packed, float(k**0.5 * 0.02), 90)
                dynamic = getattr(library.ops.quantized, f"{name}_dynamic")(make(x), packed, bool(zeros))
                direct = library.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
                    make(x), 0.03, 99, packed
                )
                results.append([t.numpy() for t in (static.int_repr(), dynamic, direct)])
            for theirs, mine in zip(*results, strict=True):
                assert (theirs == mine).all()
