"""Quantized tensors: our kernels against PyTorch's quantized ones, one thread, processor time, in turns.

Enters: the session's settings. Leaves: a section for each entry of `SECTIONS`, each case with a bar of its own: how
many times faster than PyTorch. A family adds an entry: a key, a title, and cases with their bars.
"""

from __future__ import annotations

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
SECTIONS: dict[str, tuple[str, dict[Case, float]]] = {
    "elements": ("Quantized tensors, element by element", ELEMENTS),
}


def check(row: Row, bar: float) -> Check:
    ratio = row.ratio()
    shown = "not measured" if ratio is None else f"{ratio:.2f}x"
    return Check(row.case, shown, f"at least {bar:g}x", ratio is not None and ratio >= bar)


def run(session: Session) -> list[Section]:
    sections = []
    for key, (title, cases) in SECTIONS.items():
        bars = {case.name: bar for case, bar in cases.items()}
        section = settled(session).compare(Group(f"quantized {key}", title, tuple(cases)))
        section.checks = [check(row, bars[row.case]) for row in section.rows]
        sections.append(section)
    return sections
