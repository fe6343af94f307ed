"""Quantized tensors: creation, views, indexing, assignment, order, printing, copies and files.

Programs and their answers are in tensor_programs.txt; where PyTorch is installed, that its answers are still those.
Rounding is held against exact arithmetic.
"""

from __future__ import annotations

import io
import math
import platform
import struct
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import rushlight as rl
from rushlight.base.quantizers import PerChannel, PerTensor
from tests.quantized.tensor_answers import answer, described, programs

PROGRAMS = programs()
RANGES = {rl.quint8: (0, 255), rl.qint8: (-128, 127), rl.qint32: (-(2**31), 2**31 - 1)}


def test_programs() -> None:
    found = [(p.text, answer(rl, p.text), p.answer) for p in PROGRAMS]
    assert not [f for f, p in zip(found, PROGRAMS, strict=True) if not p.accepts(f[1])]


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="PyTorch rounds otherwise elsewhere")
def test_answers_are_those_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)        # they would wait for one another longer than they compute
    found = [(p.text, answer(torch, p.text), p.answer) for p in PROGRAMS if p.is_torchs]
    torch.set_num_threads(threads)
    assert not [f for f in found if f[1] != f[2]]


# --- exact arithmetic -------------------------------------------------------------------------------------------------


def single(exact: Fraction) -> Fraction:
    """The float32 nearest to a number, half to even, subnormal ones included."""
    if not exact:
        return exact
    size = abs(exact)
    power = size.numerator.bit_length() - size.denominator.bit_length()
    power -= Fraction(2) ** power > size
    unit = Fraction(2) ** max(power - 23, -149)
    return round(exact / unit) * unit


def float32(value: float) -> float:
    return struct.unpack("f", struct.pack("f", value))[0]


NUMBERS = st.floats(width=32, min_value=-1e6, max_value=1e6)
SCALES = st.floats(min_value=1e-4, max_value=1e3)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(NUMBERS, max_size=10), st.lists(st.integers(-60, 60), min_size=20, max_size=40), SCALES,
    st.integers(0, 127), st.sampled_from(list(RANGES)),
)
def test_quantize_is_exact(values: list[float], halves: list[int], scale: float, point: int, dtype: Any) -> None:
    """One rounding of the product and the sum for 8 bits, two for 32 and per channel; then the nearest integer."""
    low, high = RANGES[dtype]
    values = values + [float32((k + 0.5) * scale) for k in halves]      # where the last bit decides
    inverse = single(1 / single(Fraction(scale)))
    given = rl.tensor(values)

    def quantized(x: float, is_fused: bool) -> int:
        product = Fraction(x) * inverse
        return min(max(round(single((product if is_fused else single(product)) + point)), low), high)

    found = rl.quantize_per_tensor(given, scale, point, dtype).int_repr().tolist()
    assert found == [quantized(x, dtype is not rl.qint32) for x in values]
    scales = rl.tensor([scale], dtype=rl.float64)
    found = rl.quantize_per_channel(given[None], scales, rl.tensor([point]), 0, dtype).int_repr().tolist()
    assert found == [[quantized(x, False) for x in values]]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(-128, 127), min_size=1, max_size=40), SCALES, st.integers(-128, 127)
)
def test_dequantize_is_exact(integers: list[int], scale: float, point: int) -> None:
    """The product of the difference and the scale, rounded once: the scale of single precision, per channel double."""
    given = rl.tensor(integers, dtype=rl.int8)
    found = rl._make_per_tensor_quantized_tensor(given, scale, point).dequantize().tolist()
    assert found == [float(single((i - point) * single(Fraction(scale)))) for i in integers]
    scales = rl.tensor([scale], dtype=rl.float64)
    found = rl._make_per_channel_quantized_tensor(given[None], scales, rl.tensor([point]), 0).dequantize().tolist()
    # the product is a double first
    assert found == [[float(single(Fraction((i - point) * scale))) for i in integers]]


def test_what_was_quantized_comes_back() -> None:
    for dtype, scale, point in ((rl.quint8, 0.037, 11), (rl.qint8, 1.7, -5)):
        low, high = RANGES[dtype]
        plain = {rl.quint8: rl.uint8, rl.qint8: rl.int8}[dtype]
        q = rl._make_per_tensor_quantized_tensor(rl.arange(low, high + 1).to(plain), scale, point)
        assert rl.quantize_per_tensor(q.dequantize(), scale, point, dtype).equal(q)


# --- memory and views -------------------------------------------------------------------------------------------------


def matrix() -> rl.Tensor:
    return rl.quantize_per_tensor(rl.arange(12.0).reshape(3, 4), 0.5, 3, rl.quint8)


def test_views_share_memory_and_numbers() -> None:
    q = matrix()
    view = q[1:]
    assert view.data_ptr() == q.data_ptr() + 4 and view._base is q
    view.fill_(0.0)
    assert q.dequantize()[1:].eq(0).all() and q.dequantize()[0].tolist() == [0, 1, 2, 3]


def test_an_op_without_a_rule_is_refused_by_name() -> None:
    with pytest.raises(NotImplementedError, match="erfinv"):
        matrix().erfinv()


# --- files ------------------------------------------------------------------------------------------------------------


def saved(q: rl.Tensor, **options: Any) -> io.BytesIO:
    file = io.BytesIO()
    rl.save(q, file, **options)
    file.seek(0)
    return file


@pytest.mark.parametrize("is_zip", [True, False])
@pytest.mark.parametrize(
    ("quantizer", "message"),
    [
        (PerTensor(math.nan, 0), "scale nan"),
        (PerTensor(-1.0, 0), "scale -1.0"),
        (PerTensor(0.0, 0), "scale 0.0"),
        (PerTensor(math.inf, 0), "scale inf"),
        (PerTensor(1.0, 256), "zero point 256"),
        (PerTensor(1.0, -1), "zero point -1"),
        (PerTensor(1.0, 0.5), "zero point 0.5"),
        (PerChannel([1.0, 1.0, 1.0], [0, 0, 0], 2), "axis 2"),
        (PerChannel([1.0, 1.0, 1.0], [0, 0, 0], -1), "axis -1"),
        (PerChannel([1.0, 1.0], [0, 0], 0), "3 scales"),
        (PerChannel([1.0, 1.0, 1.0], [0, 300, 0], 0), "zero point 300"),
        (PerChannel([1.0, math.nan, 1.0], [0, 0, 0], 0), "scale nan"),
    ],
)
def test_files_with_impossible_qparams_are_refused(quantizer: Any, message: str, is_zip: bool) -> None:
    q = matrix()
    if isinstance(quantizer, PerChannel):
        scales, points = rl.tensor(quantizer.scales, dtype=rl.float64), rl.tensor(quantizer.zero_points)
        quantizer = PerChannel(scales, points, quantizer.axis)
    q._quantizer = quantizer
    file = saved(q, _use_new_zipfile_serialization=is_zip)
    for weights_only in (True, False):
        file.seek(0)
        with pytest.raises(RuntimeError, match=message):
            rl.load(file, weights_only=weights_only)


def test_files_go_both_ways() -> None:
    torch = pytest.importorskip("torch")

    def tensors(lib: Any) -> list:
        x = lib.arange(12.0).reshape(3, 4)
        scales, points = lib.tensor([0.5, 0.25, 1.0]), lib.tensor([1, 0, 2])
        per_channel = lib.quantize_per_channel(x, scales, points, 0, lib.qint8)
        narrow = lib.quantize_per_channel(x, scales, points.to(lib.float32), 0, lib.quint4x2)
        one = lib.quantize_per_tensor(x, 0.5, 3, lib.qint32)
        return [one, one[1:], one.t(), per_channel, narrow, lib.quantize_per_tensor(x, 0.5, 3, lib.quint2x4)]

    wanted = described(rl, tensors(rl))
    for writer, reader in ((rl, torch), (torch, rl)):
        for is_zip in (True, False):
            file = io.BytesIO()
            writer.save(tensors(writer), file, _use_new_zipfile_serialization=is_zip)
            file.seek(0)
            assert described(reader, reader.load(file)) == wanted
