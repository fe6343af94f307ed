"""Pointwise ops, norms and residuals behind a convolution run in its kernels, to the same bits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.codegen.library.convolution.finish import SUM, Finish
from rushlight.codegen.library.interface import INTERFACES, text_of
from rushlight.codegen.llvm.cpu import compile_ir
from rushlight.codegen.text.targets import find_target
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.inductor import compile_graph, settings
from rushlight.loops.expr import call, var

pytestmark = pytest.mark.share(2)   # of each test that has several cases

F = nn.functional
# images, channels, outputs, size, kernel, stride, padding, dilation, groups: every kernel that there is, whole tiles
# and parts of them
SHAPES = {
    "plain": (2, 16, 24, (20, 19), 3, 2, 1, 1, 1),
    "first layer": (1, 3, 8, (53, 55), 7, 2, 3, 1, 1),
    "tiles": (2, 64, 64, (18, 20), 3, 1, 1, 1, 1),
    "parts of tiles": (3, 64, 61, (14, 15), 3, 1, 1, 1, 1),
    "small tiles": (9, 64, 64, (4, 4), 3, 1, 1, 1, 1),
    "dilation": (2, 16, 24, (21, 17), 3, 1, 2, 2, 1),
    "groups": (2, 16, 24, (17, 16), 3, 1, 1, 1, 4),
    "single pixels": (2, 24, 16, (33, 33), 1, 1, 0, 1, 1),
    "strided pixels": (2, 24, 16, (33, 33), 1, 2, 0, 1, 1),
    "one dimension": (3, 16, 24, (200,), 5, 1, 2, 1, 1),
    "three dimensions": (1, 8, 8, (7, 12, 11), 3, 1, 1, 1, 1),
}
DEPTHWISE = {
    "wide": (2, 24, 24, (31, 70), 5, 1, 2, 1, 24),
    "strided": (2, 24, 24, (31, 29), 5, 2, 2, 1, 24),
    "short rows": (2, 96, 96, (7, 7), 3, 1, 1, 1, 96),
    "two of each": (2, 24, 48, (20, 20), 3, 1, 1, 1, 24),
}
ACTIVATIONS = {
    "relu": rl.relu, "gelu": F.gelu, "silu": F.silu, "hardswish": F.hardswish, "clamp": lambda y: y.clamp(-1, 1.5),
    "tanh": lambda y: y.tanh() * 0.5 + 1,
}


def tensors_of(shape, dtype=rl.float32):
    n, c, o, size, kernel, *rest = shape
    rl.manual_seed(0)
    taps = (kernel,) * len(size)
    x, w, b = rl.randn(n, c, *size), rl.randn(o, c // rest[-1], *taps), rl.randn(o)
    return [t.to(dtype) for t in (x, w, b)]


def convolved(shape, x, w, b):
    dims = len(shape[3])
    return (F.conv1d, F.conv2d, F.conv3d)[dims - 1](x, w, b, *shape[5:])


def joined(f, *tensors) -> bool:
    """Whether ops were joined to a convolution; the results are eager mode's to the last bit."""
    result = compile_graph(make_fx(f, tracing_mode="fake", _own_ops=True)(*tensors), list(tensors))
    (got,), expected = result(list(tensors)), f(*tensors)
    assert got.shape == expected.shape and got.stride() == expected.stride() and rl.equal(got, expected)
    return all(label.startswith("convolution[") for label in result.description.labels)


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64])
@pytest.mark.parametrize("name", SHAPES)
def test_scales_and_residuals(name, dtype) -> None:
    shape = SHAPES[name]
    x, w, b = tensors_of(shape, dtype)
    y = convolved(shape, x, w, b)
    scale, residual = rl.randn(shape[2], *(1,) * len(shape[3])).to(dtype), rl.randn_like(y)
    assert joined(lambda x, w, b, s, r: ((convolved(shape, x, w, b) - s) * s + r).relu(), x, w, b, scale, residual)
    assert joined(lambda x, w, s: convolved(shape, x, w, None) * s, x, w, scale)


@pytest.mark.share(2)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("shape", [SHAPES["plain"], SHAPES["tiles"], DEPTHWISE["wide"], DEPTHWISE["short rows"]])
def test_activations(shape, activation) -> None:
    x, w, b = tensors_of(shape)
    assert joined(lambda x, w, b: ACTIVATIONS[activation](convolved(shape, x, w, b)), x, w, b)


@pytest.mark.parametrize("name", DEPTHWISE)
def test_single_channels(name) -> None:
    shape = DEPTHWISE[name]
    x, w, b = tensors_of(shape)
    scale = rl.randn(shape[2], 1, 1)
    assert joined(lambda x, w, b, s: F.hardswish(convolved(shape, x, w, b) * s + 1), x, w, b, scale)
    residual = rl.randn_like(convolved(shape, x, w, b))
    joined(lambda x, w, b, r: convolved(shape, x, w, b) + r, x, w, b, residual)      # apart, and right


def test_transposed_convolutions() -> None:
    x, w, b = rl.randn(2, 24, 33, 30), rl.randn(24, 16, 4, 4), rl.randn(16)
    residual = rl.randn(2, 16, 66, 60)
    assert joined(lambda x, w, b, r: (F.conv_transpose2d(x, w, b, 2, 1) + r).relu(), x, w, b, residual)
    few = rl.randn(24, 2, 4, 4)
    joined(lambda x, w: F.conv_transpose2d(x, w, None, 2, 1).relu(), x, few)


@pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16])
def test_half_types(dtype) -> None:
    shape = SHAPES["plain"]
    x, w, b = tensors_of(shape, dtype)
    joined(lambda x, w, b: convolved(shape, x, w, b).relu(), x, w, b)


def test_what_lies_otherwise_stays_apart() -> None:
    shape = SHAPES["plain"]
    x, w, b = tensors_of(shape)
    y = convolved(shape, x, w, b)
    reordered = rl.randn(*reversed(y.shape)).permute(3, 2, 1, 0)
    assert not joined(lambda x, w, b, r: convolved(shape, x, w, b) + r, x, w, b, reordered)
    row = rl.randn(y.shape[-1])
    assert not joined(lambda x, w, b, r: convolved(shape, x, w, b) * r, x, w, b, row)
    last = x.to(memory_format=rl.channels_last)
    joined(lambda x, w, b: convolved(shape, x, w, b).relu(), last, w, b)


def test_results_that_others_read_stay_apart(monkeypatch) -> None:
    shape = SHAPES["tiles"]
    x, w, b = tensors_of(shape)
    assert not joined(lambda x, w, b: convolved(shape, x, w, b).relu() + convolved(shape, x, w, b).sum(), x, w, b)
    monkeypatch.setattr(settings, "fuse", False)
    assert not joined(lambda x, w, b: convolved(shape, x, w, b).relu(), x, w, b)


def block(inside: int, outside: int) -> nn.Module:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(inside, outside, 3, padding=1, bias=False), nn.BatchNorm2d(outside)
            self.short = nn.Sequential(nn.Conv2d(inside, outside, 1, bias=False), nn.BatchNorm2d(outside))

        def forward(self, x):
            return (self.norm(self.conv(x)) + self.short(x)).relu()

    rl.manual_seed(3)
    result = nn.Sequential(Block(), nn.Conv2d(outside, outside, 3, groups=outside), nn.Hardswish())
    for m in result.modules():
        if isinstance(m, nn.BatchNorm2d):
            for t in (m.running_mean, m.running_var, m.weight, m.bias):
                t.data.copy_(rl.rand(outside) + 0.5)
    return result


def test_norms_follow_their_buffers_and_weights() -> None:
    model = block(16, 32).eval()
    fast, x = rl.compile(model, fullgraph=True), rl.randn(2, 16, 24, 24)
    with rl.no_grad():
        for change in (lambda: None, lambda: model[0].norm.running_var.mul_(2), lambda: model[0].conv.weight.neg_(),
                       lambda: model[0].short[1].running_mean.add_(1)):
            change()
            for _ in range(2):
                rl.testing.assert_close(fast(x), model(x), rtol=1e-5, atol=1e-5)


def test_training_keeps_what_gradients_need() -> None:
    model, x = block(16, 32).train(), rl.randn(2, 16, 24, 24)
    fast = rl.compile(model, fullgraph=True)
    state = {k: v.clone() for k, v in model.state_dict().items()}
    found = []
    for run in (model, fast):
        model.load_state_dict(state)
        model.zero_grad()
        result = run(x)
        result.square().sum().backward()
        found.append([result.detach(), *[p.grad.clone() for p in model.parameters()], *map(rl.clone, model.buffers())])
    for expected, got in zip(*found, strict=True):
        rl.testing.assert_close(got, expected, rtol=1e-3, atol=1e-2)


@pytest.mark.share(2)
@pytest.mark.parametrize("target", ["aarch64", "x86-64-avx2", "x86-64-avx512"])
@pytest.mark.parametrize("name", sorted(k for k, v in INTERFACES.items() if v.finishes))
def test_kernels_compile_for_every_target(name, target) -> None:
    interface, machine = INTERFACES[name], find_target(target)
    for code in interface.codes:
        total, scale = var(SUM, code), var("c0", code)
        value = call("exp", total * scale) / scale
        elements = 1 if interface.finishes == "elements" else 0
        value = value + var("f0", code) if elements else value
        text = text_of(interface, code, machine, 0, Finish(code, value, 1, elements, "test"))
        assert compile_ir(text, machine, "object")[:4] == b"\x7fELF"


WIDE = """
import rushlight.codegen.library.interface as interface
interface.vector_bits = lambda: BITS
import rushlight as rl
from tests.inductor.test_conv_epilogues import DEPTHWISE, F, SHAPES, convolved, joined, tensors_of
for name in ("plain", "tiles", "parts of tiles", "groups", "single pixels"):
    shape = SHAPES[name]
    x, w, b = tensors_of(shape)
    scale, residual = rl.randn(shape[2], 1, 1), rl.randn_like(convolved(shape, x, w, b))
    assert joined(lambda x, w, b, s, r: (convolved(shape, x, w, b) * s + r).relu(), x, w, b, scale, residual), name
for shape in DEPTHWISE.values():
    x, w, b = tensors_of(shape)
    assert joined(lambda x, w, b: F.hardswish(convolved(shape, x, w, b)), x, w, b)
"""


@pytest.mark.share(3)
@pytest.mark.parametrize("bits", [128, 256, 512])
def test_every_width_of_vectors(bits: int, tmp_path: Path) -> None:
    # LLVM splits vectors that the processor does not have, so every form runs everywhere.
    done = subprocess.run(
        [sys.executable, "-c", WIDE.replace("BITS", str(bits))],
        env={**os.environ, "RUSHLIGHT_CACHE": str(tmp_path)},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
