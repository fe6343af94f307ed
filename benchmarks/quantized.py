"""Quantized tensors: our kernels against PyTorch's quantized ones, one thread, processor time, in turns.

Enters: the session's settings. Leaves: a section for each entry of `SECTIONS`, each case with a bar of its own: how
many times faster than PyTorch. A family adds an entry: a key, a title, and cases with their bars.
"""

from __future__ import annotations

import math

from benchmarks.cases import Case, Check, Group, Row, Section
from benchmarks.harness import Session
from benchmarks.profiler import settled

SETUP = """
import warnings
warnings.simplefilter("ignore")
torch.manual_seed(0)
x = torch.randn(1 << 20)
q = torch.quantize_per_tensor(x, 0.05, 100, torch.quint8)
r = torch.quantize_per_tensor(x.flip(0), 0.03, 90, torch.quint8)
ops, functional = torch.ops.quantized, torch.nn.functional
"""
ELEMENTS = {
    Case("quantize, 1M elements", "torch.quantize_per_tensor(x, 0.05, 100, torch.quint8)", SETUP): 2.0,
    Case("dequantize, 1M elements", "q.dequantize()", SETUP): 2.0,
    Case("add, 1M elements", "ops.add(q, r, 0.07, 110)", SETUP): 2.0,
    Case("add_relu, 1M elements", "ops.add_relu(q, r, 0.07, 110)", SETUP): 2.0,
    Case("mul, 1M elements", "ops.mul(q, r, 0.07, 110)", SETUP): 2.0,
    Case("relu, 1M elements", "torch.relu(q)", SETUP): 2.0,
    Case("sigmoid, 1M elements", "torch.sigmoid(q)", SETUP): 2.0,
    Case("hardswish, 1M elements", "ops.hardswish(q, 0.05, 100)", SETUP): 2.0,
}
FAKE = """
torch.manual_seed(0)
x = torch.randn(1 << 20, requires_grad=True)
rows = torch.randn(1024, 1024, requires_grad=True)
scales, zeros = torch.full((1024,), 0.05), torch.zeros(1024, dtype=torch.int32)
def back(y):
    y.sum().backward()
    x.grad = rows.grad = None
"""
FAKED = {
    Case(
        "fake quantize and its gradient, 1M", "back(torch.fake_quantize_per_tensor_affine(x, 0.05, 10, 0, 255))", FAKE
    ): 2.0,
    Case(
        "by channel and its gradient, 1M",
        "back(torch.fake_quantize_per_channel_affine(rows, scales, zeros, 0, -128, 127))", FAKE,
    ): 2.0,
}


def linear(m: int, k: int, n: int) -> str:
    """A static and a dynamic layer, and one of floats."""
    return f"""
import warnings
warnings.simplefilter("ignore")
torch.manual_seed(0)
weight, bias, x = torch.randn({n}, {k}), torch.randn({n}), torch.randn({m}, {k})
scales, zeros = torch.full(({n},), 0.011, dtype=torch.float64), torch.zeros({n}, dtype=torch.int64)
integers = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
packed, packed_too = (torch.ops.quantized.linear_prepack(integers, bias) for _ in range(2))
q = torch.quantize_per_tensor(x, 0.031, 117, torch.quint8)
ops = torch.ops.quantized
"""


def convolution(channels: int, size: int, window: int, groups: int, stride: int = 1) -> str:
    """A convolution of bytes over one image."""
    return f"""
torch.manual_seed(0)
weight = torch.randn({channels}, {channels // groups}, {window}, {window})
scales, zeros = torch.full(({channels},), 0.02, dtype=torch.float64), torch.zeros({channels}, dtype=torch.int64)
integers = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
ops, edge = torch.ops.quantized, {window // 2}
packed = ops.conv2d_prepack(integers, torch.randn({channels}), [{stride}] * 2, [edge] * 2, [1, 1], {groups})
x = torch.randn(1, {channels}, {size}, {size}).contiguous(memory_format=torch.channels_last)
q = torch.quantize_per_tensor(x, 0.03, 110, torch.quint8)
"""


LINEARS = ((1, 1024, 1024), (64, 768, 3072), (8, 1024, 1024), (512, 768, 768), (33, 500, 300))
WINDOWS = (
    (64, 56, 3, 1), (128, 28, 3, 1), (256, 14, 3, 1), (64, 56, 1, 1), (256, 14, 1, 1), (96, 56, 3, 96),
    (384, 14, 3, 384),
)
LAYERS = {
    **{
        Case(f"{kind} linear {m}x{k}x{n}", call, linear(m, k, n)): 0.9
        for kind, call in (
            ("static", "ops.linear(q, packed, 0.3, 120)"), ("dynamic", "ops.linear_dynamic(x, packed_too)")
        )
        for m, k, n in LINEARS
    },
    **{
        Case(f"{w}x{w} of {c} channels by {groups} groups, {size} wide", "ops.conv2d_relu(q, packed, 0.5, 100)",
             convolution(c, size, w, groups)): 0.9
        for c, size, w, groups in WINDOWS
    },
    Case("_int_mm 512", "torch._int_mm(a, b)", """
a, b = (torch.randint(-128, 128, (512, 512), dtype=torch.int8) for _ in range(2))
"""): 0.9,
}


def weights(m: int, n: int, k: int) -> str:
    """Rows of bfloat16, and weights of 8 and 4 bits."""
    return f"""
torch.manual_seed(0)
x = torch.randn({m}, {k}).to(torch.bfloat16)
eight, scales = torch.randint(-128, 128, ({n}, {k}), dtype=torch.int8), torch.rand({n}).to(torch.bfloat16)
four = torch._convert_weight_to_int4pack_for_cpu(torch.randint(0, 16, ({n}, {k}), dtype=torch.int32), 1)
pairs = torch.rand({k} // 64, {n}, 2).to(torch.bfloat16)
"""


SIZES = ((1, 4096, 4096), (32, 4096, 4096), (1, 3072, 768), (32, 3072, 768), (1, 1024, 1024), (32, 1024, 1024))
WEIGHTS = {
    Case(f"{bits}-bit weights {m}x{n}x{k}", call, weights(m, n, k)): 1.0
    for bits, call in (
        (8, "torch._weight_int8pack_mm(x, eight, scales)"),
        (4, "torch._weight_int4pack_mm_for_cpu(x, four, 64, pairs)"),
    )
    for m, n, k in SIZES
}
SECTIONS: dict[str, tuple[str, dict[Case, float]]] = {
    "elements": ("Quantized tensors, element by element", ELEMENTS),
    "fake": ("Fake quantization", FAKED),
    "layers": ("Layers of bytes", LAYERS),
    "weights": ("Products with weights of few bits", WEIGHTS),
}
MEANS = {"layers": 1.2, "weights": 1.2}        # geometric means that sections must reach


def check(row: Row, bar: float) -> Check:
    ratio = row.ratio()
    shown = "not measured" if ratio is None else f"{ratio:.2f}x"
    return Check(row.case, shown, f"at least {bar:g}x", ratio is not None and ratio >= bar)


def mean(rows: list[Row], bar: float) -> Check:
    ratios = [ratio for row in rows if (ratio := row.ratio()) is not None]
    found = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else 0.0
    return Check("geometric mean", f"{found:.2f}x", f"at least {bar:g}x", found >= bar)


def run(session: Session) -> list[Section]:
    sections = []
    for key, (title, cases) in SECTIONS.items():
        bars = {case.name: bar for case, bar in cases.items()}
        section = settled(session).compare(Group(f"quantized {key}", title, tuple(cases)))
        section.checks = [check(row, bars[row.case]) for row in section.rows]
        if key in MEANS:
            section.checks.append(mean(section.rows, MEANS[key]))
        sections.append(section)
    return sections
