"""Quantized convolutions: PyTorch's integers, strides, questions and refusals; kernels of every form; files."""

from __future__ import annotations

import copy
import io
import json
from pathlib import Path
from typing import Any

import conv_programs
import pytest

import rushlight
from rushlight.codegen.library.convolution import byte_depthwise, byte_windows
from rushlight.codegen.library.products import byte_forms
from rushlight.codegen.text.targets import TARGETS, cpu_words, machine
from rushlight.definitions.quantized.byte_weights import packed_weights
from rushlight.op import find_op
from rushlight.planners.convolutions import byte_windows as planner

STORED = json.loads((Path(__file__).parent / "conv_answers.json").read_text())
Q = rushlight.ops.quantized


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


def agree(ours: dict[str, Any], theirs: dict[str, Any], most: float) -> None:
    """The same tensor; so many integers, of all, may be one off: a sum that is rounded may be on either side of a
    half."""
    assert {**ours, "integers": 0} == {**theirs, "integers": 0}
    apart = [abs(a - b) for a, b in zip(ours["integers"], theirs["integers"], strict=True)]
    assert max(apart) <= 1
    assert sum(apart) <= most * len(apart)


@pytest.mark.parametrize("name", conv_programs.CASES)
def test_results_are_pytorchs(name: str) -> None:
    agree(conv_programs.result(rushlight, conv_programs.CASES[name]), STORED[name], 0.01)


def test_questions_dynamic_and_refusals_are_pytorchs() -> None:
    assert conv_programs.questions(rushlight) == STORED["questions"]
    assert conv_programs.refusals(rushlight) == STORED["refusals"]
    ours, theirs = conv_programs.dynamic(rushlight), STORED["dynamic"]
    assert ours["strides"] == theirs["strides"]
    assert ours["ends"] == pytest.approx(theirs["ends"], rel=1e-6)
    assert ours["sum"] == pytest.approx(theirs["sum"], rel=1e-3)


def exact(case: tuple, out_scale: float, out_zero: int) -> Any:
    """The same in double precision, by float ops."""
    x, w, bias, (stride, padding, dilation, groups) = conv_programs.made(rushlight, case)
    args = (x.dequantize().double(), w.dequantize().double(), bias.double(), stride, padding)
    f = rushlight.nn.functional
    if case[1]:
        y = getattr(f, f"conv_transpose{case[0]}d")(*args, 0, groups, dilation)
    else:
        y = getattr(f, f"conv{case[0]}d")(*args, dilation, groups)
    y = y.relu() if case[11] else y
    return (y / out_scale + out_zero).round().clamp(0, 255)


@pytest.mark.parametrize("engine", ["onednn", "qnnpack"])
def test_every_engine_rounds_exact_sums(engine: str) -> None:
    before = rushlight.backends.quantized.engine
    rushlight.backends.quantized.engine = engine
    try:
        for name in ("plain", "depthwise", "groups"):
            case = conv_programs.CASES[name]
            x, weights = conv_programs.packed(rushlight, case)
            y = Q.conv2d(x, weights, 0.5, 101).int_repr().double()
            assert (y - exact(case, 0.5, 101)).abs().max() <= 1
    finally:
        rushlight.backends.quantized.engine = before


def test_large_ones_are_exact_on_several_threads() -> None:
    """Blocks of pixels, parts of strips, and windows that are read where they lie."""
    for case in (
        (2, False, 2, 64, 72, 1, 20, 3, 1, 1, 1, False, False), (2, False, 1, 64, 96, 1, 24, 1, 1, 0, 1, True, False),
        (2, False, 1, 128, 128, 128, 20, 3, 1, 1, 1, False, False),
        (2, False, 1, 64, 64, 16, 14, 3, 1, 1, 1, False, False),
    ):
        x, weights = conv_programs.packed(rushlight, case)
        op = Q.conv2d_relu if case[11] else Q.conv2d
        first = op(x, weights, 3.0, 9).int_repr()
        apart = (first.double() - exact(case, 3.0, 9)).abs()
        assert apart.max() <= 1 and (apart > 0).double().mean() < 0.001
        assert op(x.contiguous(memory_format=rushlight.channels_last), weights, 3.0, 9).int_repr().equal(first)


def test_sums_are_fused_where_the_engine_has_them() -> None:
    case = conv_programs.CASES["plain"]
    before = rushlight.backends.quantized.engine
    rushlight.backends.quantized.engine = "onednn"
    try:
        x, weights = conv_programs.packed(rushlight, case)
        y = Q.conv2d(x, weights, 0.5, 101)
        added = rushlight.quantize_per_tensor(y.dequantize().flip(0) * 0.3, 0.2, 60, rushlight.quint8)
        a, w, bias, _ = conv_programs.made(rushlight, case)
        whole = rushlight.nn.functional.conv2d(a.dequantize().double(), w.dequantize().double(), bias.double(), 1, 1)
        whole += added.dequantize().double()
        for op, wanted in ((Q.conv2d_add, whole), (Q.conv2d_add_relu, whole.relu())):
            got = op(x, added, weights, 0.5, 101)
            apart = (got.int_repr().double() - (wanted / 0.5 + 101).round().clamp(0, 255)).abs()
            assert apart.max() <= 1 and (apart > 0).double().mean() < 0.01
        with pytest.raises(RuntimeError, match="accum tensor"):
            Q.conv2d_add(x, added.dequantize(), weights, 0.5, 101)
    finally:
        rushlight.backends.quantized.engine = before
    if before != "onednn":
        with pytest.raises(RuntimeError, match="find engine"):
            Q.conv2d_add(x, added, weights, 0.5, 101)


def test_weights_with_zero_points() -> None:
    x = conv_programs.made(rushlight, conv_programs.CASES["plain"])[0]
    w = rushlight._make_per_channel_quantized_tensor(
        conv_programs.numbers(rushlight, (6, 8, 3, 3), -100, 101, 5).to(rushlight.int8),
        rushlight.full((6,), 0.03, dtype=rushlight.float64), rushlight.tensor([0, 3, -7, 20, 0, -128]), 0,
    )
    weights = Q.conv2d_prepack(w, None, [1, 1], [1, 1], [1, 1], 1)
    y = Q.conv2d(x, weights, 2.0, 100)
    wanted = rushlight.nn.functional.conv2d(x.dequantize().double(), w.dequantize().double(), None, 1, 1)
    assert ((wanted / 2.0 + 100).round().clamp(0, 255) - y.int_repr().double()).abs().max() <= 1


def test_packed_weights_travel() -> None:
    x, weights = conv_programs.packed(rushlight, conv_programs.CASES["groups"])
    wanted = Q.conv2d(x, weights, 0.5, 3).int_repr()
    loaded = rushlight.load(io.BytesIO(conv_programs.saved(rushlight)), weights_only=False)
    for other in (copy.deepcopy(weights), loaded):
        assert Q.conv2d(x, other, 0.5, 3).int_repr().equal(wanted)
    state = weights.__getstate__()
    with pytest.raises(RuntimeError, match="version"):
        type(weights).from_state(("7", *state[0][1:]))


def can_run(form: byte_forms.ByteForm) -> bool:
    """Whether this processor has a form's instruction."""
    if form.name == "plain":
        return True
    words = {"avx512vnni": b"avx512_vnni", "avxvnni": b"avx_vnni", "": b"sse2", "dotprod": b"asimddp"}
    is_here = ("neon" in form.call) == (machine() in ("aarch64", "arm64"))
    return is_here and words.get(form.feature, form.feature.encode()) in cpu_words()


@pytest.mark.parametrize("form", byte_forms.ALL, ids=lambda form: form.name)
def test_every_form_of_a_processor_gives_the_same(form: byte_forms.ByteForm, monkeypatch: pytest.MonkeyPatch) -> None:
    if not can_run(form):
        pytest.skip("another processor's")
    monkeypatch.setattr(planner, "host_form", lambda: form)
    forget_plans()
    for outs, channels, groups in ((9, 8, 1), (6, 24, 6), (64, 64, 64), (20, 20, 20)):
        x = conv_programs.numbers(rushlight, (1, channels, 6, 5), 0, 256, 4).to(rushlight.uint8)
        w = conv_programs.numbers(rushlight, (outs, channels // groups, 3, 3), -128, 128, 6).to(rushlight.int8)
        weights = packed_weights(w, groups)
        factors, added = rushlight.full((outs,), 0.004), rushlight.arange(outs, dtype=rushlight.float32)
        head = rushlight.tensor([7.0, 0.0, 0.0, -30.0, 225.0, 0, 0, 0]).view(rushlight.int32)
        head[0], head[2] = 7, 30
        y = find_op("_byte_convolution")(
            x.contiguous(memory_format=rushlight.channels_last), weights.packed, weights.columns(factors, added, 7),
            head, None, outs, (3, 3), (1, 1), (1, 1), (1, 1), groups, 0,
        )
        sums = rushlight.nn.functional.conv2d(x.double() - 7, w.double(), None, 1, 1, 1, groups)
        wanted = ((sums + added.reshape(1, -1, 1, 1)) * 0.004).round() + 30
        assert (y.double() - wanted.clamp(0, 255)).abs().max() <= 1
        assert (y.double() != wanted.clamp(0, 255)).double().mean() < 0.01
    forget_plans()


def forget_plans() -> None:
    """Plans name the kernels of a form."""
    for overload in find_op("_byte_convolution").overload_list:
        overload.clear_plans()


def test_kernels_of_other_processors_compile() -> None:
    """The instruction each form is for is in its code."""
    from rushlight.codegen.llvm.cpu import compile_ir

    for form, word in (
        (byte_forms.VNNI, "vpdpbusd"), (byte_forms.WORDS_256, "pmaddwd"), (byte_forms.SDOT, "sdot"),
        (byte_forms.USMMLA, "usmmla"),
    ):
        target = TARGETS["aarch64" if form in (byte_forms.SDOT, byte_forms.USMMLA) else "x86-64-avx512"]
        needed = {form.feature, byte_depthwise.forms_of(form)[-1].feature}
        target = target.but(features=",".join([target.features, *(f"+{name}" for name in needed)]).strip(","))
        windows = byte_windows.ByteWindows("byte_windows", byte_windows.PARAMS, form, "early")
        assert word in compile_ir(byte_windows.module_text(windows, target.triple), target, "asm", by_hand=True)
        narrow = byte_depthwise.forms_of(form)[-1]
        taps = byte_depthwise.ByteDepthwise("byte_depthwise", byte_depthwise.PARAMS, narrow, "late", 3)
        text = compile_ir(byte_depthwise.module_text(taps, target.triple), target, "asm", by_hand=True)
        assert word.replace("usmmla", "sdot") in text


def test_against_pytorch_itself(torch: Any) -> None:
    """The stored answers are PyTorch's, and files go both ways."""
    for name, case in conv_programs.CASES.items():
        if not case[1]:      # transposed: some versions of oneDNN forget the zero point
            agree(conv_programs.result(rushlight, case), conv_programs.result(torch, case), 0.01)
    theirs = rushlight.load(io.BytesIO(conv_programs.saved(torch)), weights_only=False)
    ours = torch.load(io.BytesIO(conv_programs.saved(rushlight)), weights_only=False)
    x, _ = conv_programs.packed(rushlight, conv_programs.CASES["groups"])
    y, _ = conv_programs.packed(torch, conv_programs.CASES["groups"])
    a, b = Q.conv2d(x, theirs, 0.5, 3).int_repr(), torch.ops.quantized.conv2d(y, ours, 0.5, 3).int_repr()
    assert a.reshape(-1).tolist() == b.reshape(-1).tolist()
