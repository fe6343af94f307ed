"""Draw the pictures of the documentation: the path of a call, from loops to machine code, and the benchmark chart.

Enters: the tables below. Leaves: docs/pictures/*.svg, which read on a light and on a dark page. Run it after a change:

    python tools/draw_pictures.py
    python tools/draw_pictures.py layers.json ...    the chart of layers alone, from `benchmarks layers --json`
"""

from __future__ import annotations

import json
import math
import sys
from html import escape
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"
STYLE = """<style>
text { font: 14px system-ui, sans-serif; fill: #222 } .small { font-size: 12px; fill: #555 }
.code { font: 12px ui-monospace, monospace }
.box { fill: #fff; stroke: #444; stroke-width: 1.2 } .hot { fill: #ffe8d9; stroke: #d9480f }
.line { stroke: #444; stroke-width: 1.4; fill: none }
.bar { fill: #d9480f } .second { fill: #1971c2 } .grid { stroke: #ccc; stroke-width: 1 }
.one { stroke: #222; stroke-width: 1.5 }
.page { fill: #fbfaf8 }
</style>
<defs><marker id="tip" markerWidth="9" markerHeight="9" refX="8" refY="4.5" orient="auto">
<path d="M0 0 L9 4.5 L0 9 z" fill="#444"/></marker></defs>"""


class Picture:
    """SVG elements on a page of a fixed size."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width, self.height = width, height
        self.parts = [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
                f' role="img"><title>{escape(title)}</title>'
            ),
            STYLE,
            f'<rect class="page" width="{width}" height="{height}" rx="8"/>',
        ]

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> None:
        self.parts.append(
            f'<text x="{x}" y="{y}" class="{kind}" text-anchor="{anchor}" xml:space="preserve">{escape(words)}</text>'
        )

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        title: str,
        *lines: str,
        kind: str = "box",
        code: bool = False,
    ) -> None:
        self.parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>')
        self.text(x + 12, y + 22, title)
        for i, line in enumerate(lines):
            self.text(x + 12, y + 42 + 17 * i, line, "code" if code else "small")

    def arrow(self, *points: tuple[float, float]) -> None:
        path = " L".join(f"{x} {y}" for x, y in points)
        self.parts.append(f'<path class="line" d="M{path}" marker-end="url(#tip)"/>')

    def svg(self) -> str:
        return "\n".join([*self.parts, "</svg>"]) + "\n"

    def save(self, name: str) -> None:
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / name).write_text(self.svg(), encoding="utf-8")


def draw_call_path() -> None:
    """x + y: the second call stays in C++; the first one, or an unusual one, asks Python."""
    p = Picture(860, 430, "The path of a call")
    p.text(24, 34, "x + y")
    p.text(24, 52, "Python", "small")
    p.box(130, 16, 300, 62, "op object (C++)", "binds arguments by the op's schema", kind="box hot")
    p.box(130, 118, 300, 62, "plan table (C++)", "dtypes, devices, layout → plan", kind="box hot")
    p.box(
        130,
        220,
        300,
        80,
        "launch (C++)",
        "output from the caching allocator,",
        "kernel over the thread pool",
        kind="box hot",
    )
    p.box(130, 340, 300, 62, "tape (C++)", "a node, if an input requires grad", kind="box hot")
    p.arrow((66, 47), (130, 47))
    p.arrow((280, 78), (280, 118))
    p.arrow((280, 180), (280, 220))
    p.arrow((280, 300), (280, 340))
    p.text(292, 206, "hit: replay", "small")
    p.box(520, 16, 316, 62, "dispatcher (Python)", "modes, subclasses, transforms, autocast")
    p.arrow((430, 47), (520, 47))
    p.text(436, 40, "unusual", "small")
    p.box(520, 118, 316, 62, "definition and kind (Python)", "shapes, promotion, loop nest")
    p.arrow((430, 149), (520, 149))
    p.text(448, 142, "miss", "small")
    p.arrow((678, 78), (678, 118))
    p.box(
        520,
        220,
        316,
        80,
        "code generator (Python)",
        "cache folder, or LLVM in process:",
        "about 30 ms, once per machine",
    )
    p.arrow((678, 180), (678, 220))
    p.arrow((520, 260), (430, 260))
    p.text(440, 253, "new plan", "small")
    p.text(520, 362, "orange: every call, well under a microsecond in all", "small")
    p.text(520, 382, "white: the first call with these types, or an unusual one", "small")
    p.save("call_path.svg")


def draw_loops_to_llvm() -> None:
    """One definition, each form it takes until it runs."""
    p = Picture(860, 470, "From a definition to machine code")
    p.box(
        24,
        20,
        380,
        100,
        "definition",
        "class Softsign(Pointwise):",
        '    schema = "softsign(Tensor input) -> Tensor"',
        "    def expr(self, s, x): return x / (1 + s.abs(x))",
        code=True,
    )
    p.box(
        456,
        20,
        380,
        100,
        "loop nest",
        "for i1 in begin .. end:",
        "    for i0 in 0 .. n0 vector:",
        "        x1[.] = x0 / (1 + abs(x0))",
        code=True,
    )
    p.box(
        24,
        180,
        380,
        100,
        "LLVM",
        "%a = call <16 x float> @llvm.fabs.v16f32(...)",
        "%b = fadd <16 x float> %a, splat (float 1.0)",
        "%c = fdiv <16 x float> %x, %b",
        code=True,
    )
    p.box(
        456,
        180,
        380,
        100,
        "the same nest elsewhere",
        "AArch64, RISC-V, WebAssembly, PTX (a GPU);",
        "derived: the derivative's nest, the batched nest,",
        "the shape without data",
    )
    p.box(
        24,
        340,
        380,
        100,
        "machine code",
        "vandps  zmm1, zmm0, zmm2",
        "vaddps  zmm1, zmm1, zmm3",
        "vdivps  zmm0, zmm0, zmm1",
        kind="box hot",
        code=True,
    )
    p.box(
        456,
        340,
        380,
        100,
        "object in the cache folder",
        "the next process needs neither LLVM nor a compiler;",
        "keyed by the nest, the processor and the version;",
        "only a folder of your own is trusted",
    )
    p.arrow((404, 70), (456, 70))
    p.arrow((560, 120), (560, 150), (214, 150), (214, 180))
    p.arrow((646, 120), (646, 180))
    p.arrow((214, 280), (214, 340))
    p.arrow((404, 390), (456, 390))
    p.save("loops_to_llvm.svg")


# Ratios to PyTorch 2.13 from `python -m benchmarks` on two idle cores (docs/speed.md): case, AArch64 (Neoverse-N1),
# x86-64 (Cascade Lake).
# None: not measured on that machine.
SPEED: tuple[tuple[str, float | None, float | None], ...] = (
    ("import", 48, None),
    ("process start to first training step", 33, None),
    ("MLP training step, AdamW", 18, None),
    ("20-op chain, forward and backward", 16.6, None),
    ("MLP training step, SGD", 11.7, None),
    ("small ops, geometric mean of 28", 10.9, 6.06),
    ("LSTM cell, forward and backward", 5.8, None),
    ("ResNet-18 (CIFAR) training step", 3.6, None),
    ("norms, embedding, cross entropy", None, 3.36),
    ("conv2d, geometric mean", 3.3, None),
    ("attention, forward and backward", 2.03, 2.64),
    ("sort, scans, gathers, copies", 1.93, 2.08),
    ("elementwise and reductions, 16M floats", 1.87, 3.82),
    ("GPT training step", 1.37, None),
    ("float32 matmul 256 (worst)", 0.96, None),
    ("linear algebra, 512 and 1000 of 4 (worst)", None, 0.22),
)
MACHINES = (("bar", "AArch64, two Neoverse-N1 cores"), ("bar second", "x86-64, two Cascade Lake cores"))


def draw_speed() -> None:
    """Bars on a logarithmic scale, from PyTorch's time at 1; one bar for each machine that a case was measured on."""
    left, right, top, bar, gap = 280, 800, 80, 14, 9
    rows = [
        (name, [(kind, ratio) for (kind, _), ratio in zip(MACHINES, ratios) if ratio is not None])
        for name, *ratios in SPEED
    ]
    bottom = top + sum(bar * len(bars) + gap for _, bars in rows)
    p = Picture(860, bottom + 40, "Times faster than PyTorch")
    p.text(24, 32, "Times faster than PyTorch 2.13 on a CPU (logarithmic)")
    for i, (kind, words) in enumerate(MACHINES):
        p.parts.append(f'<rect class="{kind}" x="{left + 240 * i}" y="46" width="12" height="12" rx="2"/>')
        p.text(left + 240 * i + 18, 56, words, "small")
    lowest, highest = math.log(0.2), math.log(64)

    def place(ratio: float) -> float:
        return left + (math.log(ratio) - lowest) / (highest - lowest) * (right - left)

    for mark in (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64):
        x = round(place(mark), 1)
        p.parts.append(
            f'<line class="{"one" if mark == 1 else "grid"}" x1="{x}" x2="{x}" y1="{top - 8}" y2="{bottom}"/>'
        )
        p.text(x, bottom + 18, f"{mark:g}x", "small", "middle")
    y = top
    for name, bars in rows:
        p.text(left - 12, y + bar * len(bars) / 2 + 4, name, "small", "end")
        for kind, ratio in bars:
            start, end = sorted((place(1), place(ratio)))
            p.parts.append(
                f'<rect class="{kind}" x="{start:.1f}" y="{y}" width="{max(end - start, 1):.1f}" height="{bar - 1}"'
                ' rx="2"/>'
            )
            p.text(max(end, place(1)) + 6, y + bar - 3, f"{ratio:g}x", "small")
            y += bar
        y += gap
    p.save("speed.svg")


COLOURS = ("#d9480f", "#1971c2", "#2f9e44", "#9c36b5", "#f08c00", "#0c8599", "#846358", "#495057")
PER_LINE = 4         # names of models in a line of the chart of layers
RATIOS, SHARES = (0.8, 8.0), (0.0, 1.8)      # what the axes of the chart of layers span


def draw_layers(reports: list[str]) -> None:
    """A dot for every pass of every layer: PyTorch's time over ours, and our share of the machine's floor."""
    sections = [section for name in reports for section in json.loads(Path(name).read_text())["sections"]]
    lines = -(-len(sections) // PER_LINE)
    left, top, wide, high = 70, 20 + 20 * lines, 640, 310
    picture = Picture(760, top + high + 70, "Layers: times faster than PyTorch, and share of the floor")

    def across(ratio: float) -> float:
        low, past = (math.log(r) for r in RATIOS)
        return left + wide * (math.log(min(max(ratio, RATIOS[0]), RATIOS[1])) - low) / (past - low)

    def up(share: float) -> float:
        return top + high * (1 - min(share, SHARES[1]) / SHARES[1])

    for ratio in (1, 1.5, 2, 3, 4, 6, 8):
        kind = "one" if ratio == 1 else "grid"
        picture.parts.append(f'<path class="{kind}" d="M{across(ratio):.1f} {top}v{high}"/>')
        picture.text(across(ratio), top + high + 18, f"{ratio:g}x", "small", "middle")
    for share in (0, 0.4, 0.8, 1.2, 1.6):
        kind = "one" if share == 0.8 else "grid"
        picture.parts.append(f'<path class="{kind}" d="M{left} {up(share):.1f}h{wide}"/>')
        picture.text(left - 8, up(share) + 4, f"{share:.0%}", "small", "end")
    for k, section in enumerate(sections):
        colour = COLOURS[k % len(COLOURS)]
        rows = [row for row in section["rows"] if row["ratio"] is not None]
        for row in rows:
            x, y = across(row["ratio"]), up(row["floor"] / row["median"]["rushlight"])
            picture.parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" fill="{colour}" fill-opacity="0.6">'
                f"<title>{escape(row['case'])}: {row['ratio']:.2f}x</title></circle>"
            )
        x, y = left + 8 + 160 * (k % PER_LINE), 16 + 20 * (k // PER_LINE)
        picture.parts.append(f'<circle cx="{x}" cy="{y}" r="5" fill="{colour}"/>')
        picture.text(x + 10, y + 5, f"{section['title'].removeprefix('Layers of ')} ({len(rows)})", "small")
    picture.text(left + wide / 2, top + high + 40, "PyTorch's time over Rushlight's", "small", "middle")
    picture.text(left + wide / 2, top + high + 58, "up: flops or bytes at the machine's best rate, over the time taken",
                 "small", "middle")
    picture.save("layers.svg")


if __name__ == "__main__":
    if sys.argv[1:]:
        draw_layers(sys.argv[1:])
        sys.exit()
    draw_call_path()
    draw_loops_to_llvm()
    draw_speed()
