"""The specialised paths of the CPU: where each is, how it is turned off, how one sees that it is taken, its own cases.

Enters: nothing. Leaves: `PATHS`. A place is "alias:name", the alias one of `MODULES`, the only list of module names
here. `off` says which functions, or numbers, answer what while the path is off; `witness` which functions make its
steps: "alias:name" counts calls that give something, "alias:name()" all calls, "alias:name=word" those with this word
among their arguments. Cases are the shapes that a path was made for, and such as are just within its rule. Nothing here
imports torch or rushlight.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path as File
from typing import Any

ROOT = File(__file__).resolve().parent.parent

# Where things are, in one place.
MODULES = {
    "attention": "definitions.attention.scaled",
    "attention_tiles": "planners.attention.tiles",
    "bidiagonal": "planners.factors.bidiagonal",
    "butterflies": "planners.fourier.butterflies",
    "channel_lanes": "codegen.library.convolution.channel_lanes",
    "chunks": "codegen.schedule.cpu.walk_chunks",
    "complex": "planners.products.complex",
    "complex_schedule": "codegen.schedule.cpu.complex",
    "contraction": "codegen.schedule.cpu.contraction",
    "conv": "planners.convolutions.convolve",
    "conv_plan": "planners.convolutions.plan",
    "conv_lanes": "planners.convolutions.lanes",
    "conv_pixels": "planners.convolutions.pixels",
    "conv_points": "planners.convolutions.points",
    "conv_tiles": "planners.convolutions.tiles",
    "conv_windows": "planners.convolutions.windows",
    "convolve": "codegen.library.convolution.convolve",
    "cpu_attention": "codegen.schedule.cpu.attention",
    "cpu_attention_backward": "codegen.schedule.cpu.attention_backward",
    "depthwise": "codegen.library.convolution.depthwise",
    "direct": "planners.fourier.direct",
    "factor_panels": "planners.factors.panels",
    "few_first": "planners.order.few_first",
    "few_rows": "codegen.library.products.few_rows",
    "flash": "planners.attention.flash",
    "fold_nests": "codegen.schedule.forms.fold",
    "fourier": "planners.fourier.transform",
    "fourier_tables": "planners.fourier.tables",
    "gemm": "planners.products.gemm",
    "grouped": "codegen.library.products.grouped_products",
    "groups": "planners.products.groups",
    "half": "planners.products.half",
    "interchange": "codegen.llvm.interchange",
    "lanes": "codegen.schedule.cpu.walk_lanes",
    "overlap": "codegen.library.convolution.overlap",
    "pieces": "codegen.schedule.cpu.pieces",
    "points": "codegen.library.convolution.points",
    "prefix_sums": "codegen.library.prefix_sums",
    "product_nests": "codegen.schedule.cpu.product",
    "quotients": "codegen.text.quotients",
    "radix": "planners.order.radix",
    "rank_select": "planners.order.rank_select",
    "ranks": "planners.order.ranks",
    "real_fourier": "planners.fourier.real",
    "reflections": "planners.factors.reflections",
    "row_nests": "codegen.schedule.forms.rows",
    "rows": "planners.fourier.rows",
    "small_factors": "planners.factors.small",
    "spans": "planners.products.spans",
    "staggered": "codegen.schedule.cpu.rows_staggered",
    "tile_attention": "codegen.library.attention.forward",
    "tile_attention_backward": "codegen.library.attention.backward",
    "tile_functions": "codegen.tiles.functions",
    "tile_packs": "codegen.library.products.tile_packs",
    "tile_products": "codegen.library.products.tile_products",
    "tiled_products": "codegen.library.products.tiled_products",
    "tiles": "planners.products.tiles",
    "transpose": "codegen.library.transpose",
    "triangles": "planners.factors.triangles",
    "walk": "codegen.schedule.forms.walk",
    "windows": "codegen.library.convolution.windows",
    "winograd": "codegen.library.convolution.winograd",
    "winograd_weight": "codegen.library.convolution.winograd_weight",
}


@dataclass(frozen=True)
class PathCase:
    """One measured expression over the name `torch`; `setup` runs once. `tolerance`: how far results with the path and
    without may be apart, by the largest number. The other fields are what worker.py asks of a case."""

    name: str
    code: str
    setup: str = ""
    tolerance: float = 1e-4
    prologue: str = ""
    unroll: int = 1
    per: int = 1


@dataclass(frozen=True)
class Path:
    """A specialised path."""

    name: str
    off: tuple[tuple[str, Any], ...]
    witness: tuple[str, ...]
    parts: tuple[str, ...]      # modules, and functions of others, that nothing else needs
    cases: tuple[PathCase, ...] = field(repr=False)
    fresh: bool = False         # it is inside of kernels: each case has processes, and a cache of kernels, of its own


@dataclass(frozen=True)
class Instead:
    """While a path is off, another function serves, given as many of the arguments as it takes; "": what comes in goes
    out."""

    place: str = ""
    arguments: int = 1


def located(place: str) -> tuple[str, str]:
    """The module, and the name in it, of a place."""
    alias, name = place.split(":")
    return "rushlight." + MODULES[alias], name


@cache
def source_of(alias: str) -> str:
    return (ROOT / "rushlight" / (MODULES[alias].replace(".", "/") + ".py")).read_text()


def freed(path: Path) -> int:
    """Lines that would go with the path."""
    total = 0
    for part in path.parts:
        alias, _, name = part.partition(":")
        if not name:
            total += len(source_of(alias).splitlines())
            continue
        found = [node for node in ast.walk(ast.parse(source_of(alias))) if getattr(node, "name", None) == name]
        if not found:
            raise ValueError(f"{path.name}: {MODULES[alias]} has no {name}. Correct the table of paths.")
        total += sum(node.end_lineno - node.lineno + 1 for node in found)
    return total


def off(*places: str, answer: Any = None) -> tuple[tuple[str, Any], ...]:
    return tuple((place, answer) for place in places)


# --- cases ------------------------------------------------------------------------------------------------------------


def op(name: str, code: str, tolerance: float = 1e-4, **tensors: tuple[int, ...] | str) -> PathCase:
    """An expression of tensors, random numbers where sizes are given."""
    made = [f"{key} = {value if isinstance(value, str) else f'torch.randn({value})'}" for key, value in tensors.items()]
    return PathCase(name, code, "\n".join(made), tolerance)


def conv(name: str, x: tuple[int, ...], w: tuple[int, ...], options: str = "", wrt: str = "") -> PathCase:
    """A convolution, or the gradient of "x" or "w" of it; transposed where the options say so."""
    function = f"conv{'_transpose' if 'transposed' in options else ''}{len(x) - 2}d"
    options = options.replace("transposed", "")
    # weights of about unit gain, as layers have: results of all sizes compare alike
    fan = w[1] * (w[2] ** (len(w) - 2))
    call = f"torch.nn.functional.{function}(x, w, {options})"
    setup = f"x, w = torch.randn({x}), torch.randn({w}) / {fan ** 0.5}"
    if not wrt:
        return PathCase(name, call, setup)
    setup += f"\n{wrt}.requires_grad_()\ny = {call}\ng = torch.randn(y.shape)"
    return PathCase(name, f"torch.autograd.grad(y, [{wrt}], g, retain_graph=True)[0]", setup)


def mm(m: int, k: int, n: int, form: str = "nn", dtype: str = "float32", tolerance: float = 1e-4) -> PathCase:
    """A product of matrices; t: the operand lies transposed."""
    a = f"torch.randn({m}, {k})" if form[0] == "n" else f"torch.randn({k}, {m}).t()"
    b = f"torch.randn({k}, {n})" if form[1] == "n" else f"torch.randn({n}, {k}).t()"
    setup = f"a, b = {a}.to(torch.{dtype}), {b}.to(torch.{dtype})"
    shown = "" if dtype == "float32" else f" {dtype}"
    return PathCase(f"{m}x{k} @ {k}x{n} {form}{shown}", "a @ b", setup, tolerance)


def fft(name: str, shape: tuple[int, ...], dtype: str = "complex64", code: str = "torch.fft.fft(x)") -> PathCase:
    return op(f"{name} of {'x'.join(map(str, shape))} {dtype}", code, x=f"torch.randn({shape}, dtype=torch.{dtype})")


def square(name: str, code: str, n: int, dtype: str = "float32", batch: str = "", columns: int = 0) -> PathCase:
    """A function of a well-conditioned matrix A, and of right sides B."""
    setup = (f"A = torch.randn({batch}{n}, {n}, dtype=torch.{dtype}) + {n} * torch.eye({n}, dtype=torch.{dtype})\n"
             f"B = torch.randn({batch}{n}, {columns or n}, dtype=torch.{dtype})\nS = A @ A.mT / {n}")
    shown = f"{batch.replace(', ', 'x')}{n}" + (f" with {columns} right sides" if columns else "")
    return PathCase(f"{name} of {shown} {dtype}", code, setup, 1e-3)


# --- convolutions -----------------------------------------------------------------------------------------------------

CONVOLUTIONS = (
    Path("convolution: one channel to a group", off("conv_tiles:depthwise_step", "conv_tiles:depthwise_weight_step"),
         ("conv_tiles:depthwise_step", "conv_tiles:depthwise_weight_step"),
         ("depthwise", "conv_tiles:Blocks", "conv_tiles:blocks_of", "conv_tiles:depthwise_params",
          "conv_tiles:depthwise_table", "conv_tiles:depthwise_step", "conv_tiles:depthwise_weight_step"), (
        conv("3x3 of 64 at 56x56", (4, 64, 56, 56), (64, 1, 3, 3), "padding=1, groups=64"),
        conv("3x3 of 32 at 112x112", (1, 32, 112, 112), (32, 1, 3, 3), "padding=1, groups=32"),
        conv("31 of 256 at 400", (4, 256, 400), (256, 1, 31), "padding=15, groups=256"),
    )),
    Path("convolution: channels in lanes", off("conv_lanes:lanes_step", "conv_lanes:lanes_weight_step"),
         ("conv_lanes:lanes_step", "conv_lanes:lanes_weight_step"), ("channel_lanes", "conv_lanes"), (
        conv("5x5 of 96 at 14x14", (8, 96, 14, 14), (96, 1, 5, 5), "padding=2, groups=96"),
        conv("5x5 of 576 at 7x7", (8, 576, 7, 7), (576, 1, 5, 5), "padding=2, groups=576"),
        conv("3x3 of 88 at 28x28", (8, 88, 28, 28), (88, 1, 3, 3), "padding=1, groups=88"),
        conv("3x3 of 72 at 28x28, step 2", (8, 72, 28, 28), (72, 1, 3, 3), "stride=2, padding=1, groups=72"),
        conv("its weight", (8, 96, 14, 14), (96, 1, 5, 5), "padding=2, groups=96", "w"),
        conv("its input, step 2", (8, 96, 28, 28), (96, 1, 5, 5), "stride=2, padding=2, groups=96", "x"),
        conv("weight of 16 at 112x112", (8, 16, 112, 112), (16, 1, 3, 3), "padding=1, groups=16", "w"),
    )),
    Path("convolution: 3x3 in tiles", off("conv_tiles:suits_tiles", answer=False), ("conv_tiles:tile_steps",),
         ("winograd", "conv_tiles:fits_tiles", "conv_tiles:suits_tiles", "conv_tiles:tile_steps",
          "conv_tiles:chunk_of", "conv_tiles:fullest_tile", "conv_tiles:multiplied", "conv_tiles:products_in"), (
        conv("64 at 56x56", (1, 64, 56, 56), (64, 64, 3, 3), "padding=1"),
        conv("128 at 28x28", (8, 128, 28, 28), (128, 128, 3, 3), "padding=1"),
        conv("256 at 14x14", (8, 256, 14, 14), (256, 256, 3, 3), "padding=1"),
        conv("512 at 7x7", (16, 512, 7, 7), (512, 512, 3, 3), "padding=1"),
        conv("16 at 64x64", (2, 16, 64, 64), (16, 16, 3, 3), "padding=1"),
        conv("input of 64 at 32x32", (8, 64, 32, 32), (64, 64, 3, 3), "padding=1", "x"),
    )),
    Path("convolution: weight of 3x3 in tiles", off("conv_tiles:weight_suits_tiles", answer=False),
         ("conv_tiles:tile_weight_steps",),
         ("winograd_weight", "conv_tiles:weight_suits_tiles", "conv_tiles:tile_weight_steps"), (
        conv("64 at 56x56", (2, 64, 56, 56), (64, 64, 3, 3), "padding=1", "w"),
        conv("256 at 14x14", (8, 256, 14, 14), (256, 256, 3, 3), "padding=1", "w"),
    )),
    Path("convolution: single pixels where they lie", off("conv_points:suits_points", answer=False),
         ("conv_points:points_step",),
         ("points", "conv_points:best_points", "conv_points:suits_points", "conv_points:points_step",
          "conv_points:strips_of", "conv:points_steps"), (
        conv("16 to 16 at 112x112", (1, 16, 112, 112), (16, 16, 1, 1)),
        conv("24 to 72 at 56x56", (8, 24, 56, 56), (72, 24, 1, 1)),
        conv("64 to 64 at 56x56", (8, 64, 56, 56), (64, 64, 1, 1)),
        conv("40 to 240 at 14x14", (8, 40, 14, 14), (240, 40, 1, 1)),
        conv("96 to 96 at 28x28", (1, 96, 28, 28), (96, 96, 1, 1)),
        conv("input of 24 to 72 at 56x56", (8, 24, 56, 56), (72, 24, 1, 1), "", "x"),
    )),
    Path("convolution: few pixels turned", off("conv_windows:suits_turned", answer=False),
         ("conv_windows:turned_steps",), ("conv_windows:suits_turned", "conv_windows:turned_steps"), (
        conv("input of 512 to 2048 at 7x7", (1, 512, 7, 7), (2048, 512, 1, 1), "", "x"),
        conv("input of 1024 to 256 at 14x14", (1, 1024, 14, 14), (256, 1024, 1, 1), "", "x"),
        conv("input of 160 to 960 at 7x7", (1, 160, 7, 7), (960, 160, 1, 1), "", "x"),
        conv("transposed 256 to 128 at 4x4", (8, 256, 4, 4), (256, 128, 1, 1), "transposed"),
    )),
    Path("convolution: single pixels as products of wide vectors", off("conv:suits_wide_product", answer=False),
         ("gemm:tiled_steps",), ("conv:suits_wide_product",), (
        conv("64 to 256 at 72x72", (1, 64, 72, 72), (256, 64, 1, 1)),
        conv("256 to 64 at 72x72", (1, 256, 72, 72), (64, 256, 1, 1)),
        conv("256 to 512 at 28x28", (8, 256, 28, 28), (512, 256, 1, 1)),
        conv("input of 512 to 128 at 28x28", (8, 512, 28, 28), (128, 512, 1, 1), "", "x"),
    )),
    Path("convolution: results with gaps", off("conv_pixels:leaves_gaps", answer=False), ("conv_pixels:spread_step",),
         ("conv_pixels:leaves_gaps", "conv_pixels:spread_step", "conv_plan:gapped_steps"), (
        conv("input of 64 to 128 at 56x56, step 2", (4, 64, 56, 56), (128, 64, 1, 1), "stride=2", "x"),
        conv("input of 256 to 512 at 14x14, step 2", (8, 256, 14, 14), (512, 256, 1, 1), "stride=2", "x"),
        conv("input of 1024 to 2048 at 14x14, step 2", (1, 1024, 14, 14), (2048, 1024, 1, 1), "stride=2", "x"),
    )),
    Path("convolution: products of all taps", off("conv_windows:scattered_steps"), ("conv_windows:scattered_steps",),
         ("conv_windows:scattered_steps", "conv_windows:scattering_pays"), (
        conv("transposed 256 to 128, 4x4, at 8x8", (4, 256, 8, 8), (256, 128, 4, 4), "stride=2, padding=1, transposed"),
        conv("transposed 512 to 256, 2x2, at 16x16", (1, 512, 16, 16), (512, 256, 2, 2), "stride=2, transposed"),
        conv("input of 256 to 512, 3x3, at 14x14, step 2", (4, 256, 14, 14), (512, 256, 3, 3), "stride=2, padding=1",
             "x"),
        conv("input of 512 at 4x4", (1, 512, 4, 4), (512, 512, 3, 3), "padding=1", "x"),
        conv("transposed 128 to 64, 4x4, at 16x16", (4, 128, 16, 16), (128, 64, 8, 8),
             "stride=4, padding=2, transposed"),
    )),
    Path("convolution: products line by line", off("conv_windows:lined_steps"), ("conv_windows:lined_steps",),
         ("conv_windows:lined_steps",), (
        conv("transposed 64 to 32, 2x2, at 32x32", (2, 64, 32, 32), (64, 32, 2, 2), "stride=2, transposed"),
    )),
    Path("convolution: overlapping windows of few channels", off("conv:suits_overlap", answer=False),
         ("conv:overlap_steps",), ("conv:suits_overlap", "conv:overlap_steps", "overlap"), (
        conv("transposed 64 to 3, 4x4, at 32x32", (8, 64, 32, 32), (64, 3, 4, 4), "stride=2, padding=1, transposed"),
        conv("transposed 128 to 1, 4x4, at 14x14", (8, 128, 14, 14), (128, 1, 4, 4), "stride=2, padding=1, transposed"),
        conv("input of 3 to 64, 7x7, at 64x64", (2, 3, 64, 64), (64, 3, 7, 7), "stride=2, padding=3", "x"),
        conv("input of 3 to 64, 3x3, at 64x64", (2, 3, 64, 64), (64, 3, 3, 3), "padding=1", "x"),
        conv("transposed 16 to 2, 3x3, at 64x64", (2, 16, 64, 64), (16, 2, 3, 3), "padding=1, transposed"),
        conv("transposed 512 to 1, 16 at 250", (1, 512, 250), (512, 1, 16), "stride=8, padding=4, transposed"),
    )),
    Path("convolution: weights where they lie", off("conv:placed_weights"), ("conv:placed_weights",),
         ("conv:placed_weights",), (
        conv("7x7 of 3 to 64, at 112x112", (1, 3, 112, 112), (64, 3, 7, 7), "stride=2, padding=3"),
        conv("3x3 of 512 at 7x7", (1, 512, 7, 7), (512, 512, 3, 3), "padding=1"),
        conv("1x1 of 512 to 128 at 28x28", (1, 512, 28, 28), (128, 512, 1, 1)),
        conv("3x3 of 128 to 256 at 28x28, step 2", (1, 128, 28, 28), (256, 128, 3, 3), "stride=2, padding=1"),
        conv("5 of 256 at 200", (1, 256, 200), (256, 256, 5), "padding=2"),
    )),
    Path("convolution: weights packed in vectors", off("conv:line_step"), ("conv:line_step",),
         ("conv:line_step", "conv:line_nest"), (
        conv("5 of 256 at 200", (1, 256, 200), (256, 256, 5), "padding=2"),
    )),
    Path("convolution: weight by dot products", off("conv:suits_dots", answer=False), ("conv:weight_dot_steps",),
         ("conv:suits_dots",), (
        conv("24 to 72 at 56x56", (8, 24, 56, 56), (72, 24, 1, 1), "", "w"),
        conv("16 to 64 at 112x112", (2, 16, 112, 112), (64, 16, 1, 1), "", "w"),
        conv("32 to 16 at 112x112", (1, 32, 112, 112), (16, 32, 1, 1), "", "w"),
        conv("48 to 48 at 40x40", (4, 48, 40, 40), (48, 48, 1, 1), "", "w"),
    )),
    Path("convolution: weight by rows of gradients", off("conv:suits_dots", answer=True), ("conv:weight_block",),
         ("convolve:weight_text", "convolve:clear_vectors", "convolve:ask_some", "convolve:next_pixels",
          "convolve:transpose_rows", "convolve:add_rows", "conv:weight_block", "conv:is_single"), (
        conv("3x3 of 64 at 56x56", (1, 64, 56, 56), (64, 64, 3, 3), "padding=1", "w"),
        conv("3x3 of 256 at 14x14", (8, 256, 14, 14), (256, 256, 3, 3), "padding=1", "w"),
        conv("3x3 of 512 at 7x7", (2, 512, 7, 7), (512, 512, 3, 3), "padding=1", "w"),
        conv("7x7 of 3 to 64 at 112x112, step 2", (1, 3, 112, 112), (64, 3, 7, 7), "stride=2, padding=3", "w"),
        conv("1x1 of 256 to 64 at 28x28", (4, 256, 28, 28), (64, 256, 1, 1), "", "w"),
    )),
    Path("convolution: weight of few outputs", off("conv:few_outs_steps"), ("conv:few_outs_steps",),
         ("conv:few_outs_steps",), (
        conv("64 to 2 at 128x128", (2, 64, 128, 128), (2, 64, 1, 1), "", "w"),
        conv("32 to 3 at 64x64", (4, 32, 64, 64), (3, 32, 1, 1), "", "w"),
    )),
    Path("convolution: weight of single pixels as a product", off("spans:span_steps"), ("spans:span_steps",),
         ("spans", "conv:weight_product_steps"), (
        conv("512 to 2048 at 7x7", (8, 512, 7, 7), (2048, 512, 1, 1), "", "w"),
        conv("1024 to 256 at 7x7", (1, 1024, 7, 7), (256, 1024, 1, 1), "", "w"),
        conv("96 to 576 at 7x7", (8, 96, 7, 7), (576, 96, 1, 1), "", "w"),
    )),
    Path("convolution: windows of tiles with masks",
         (("winograd:masked_windows_text", Instead("winograd:plain_windows_text", 3)),),
         ("winograd:masked_windows_text",), ("winograd:masked_windows_text",), (
        conv("64 at 56x56", (1, 64, 56, 56), (64, 64, 3, 3), "padding=1"),
        conv("256 at 14x14", (8, 256, 14, 14), (256, 256, 3, 3), "padding=1"),
        conv("512 at 7x7", (16, 512, 7, 7), (512, 512, 3, 3), "padding=1"),
        conv("64 at 32x32", (32, 64, 32, 32), (64, 64, 3, 3), "padding=1"),
        conv("128 at 16x16", (32, 128, 16, 16), (128, 128, 3, 3), "padding=1"),
        conv("32 at 64x64", (4, 32, 64, 64), (32, 32, 3, 3), "padding=1"),
        conv("24 at 6x6", (64, 24, 6, 6), (24, 24, 3, 3), "padding=1"),
    ), fresh=True),
    Path("convolution: near weights of tiles", (("winograd:near_kernels", Instead("winograd:kernels", 4)),),
         ("winograd:near_kernels",), ("winograd:near_kernels", "winograd:joined_pieces"), (
        conv("64 at 56x56", (1, 64, 56, 56), (64, 64, 3, 3), "padding=1"),
        conv("256 at 14x14", (8, 256, 14, 14), (256, 256, 3, 3), "padding=1"),
        conv("512 at 7x7", (16, 512, 7, 7), (512, 512, 3, 3), "padding=1"),
        conv("input of 256 at 14x14", (8, 256, 14, 14), (256, 256, 3, 3), "padding=1", "x"),
        conv("512 at 4x4", (32, 512, 4, 4), (512, 512, 3, 3), "padding=1"),
        conv("256 at 16x16", (1, 256, 16, 16), (256, 256, 3, 3), "padding=1"),
    ), fresh=True),
    Path("convolution: weight of single pixels without masks", off("conv:is_single", answer=False),
         ("conv:is_single",), ("conv:is_single", "convolve:ask_rows", "convolve:ask_some", "convolve:next_pixels"), (
        conv("256 to 64 at 28x28", (8, 256, 28, 28), (64, 256, 1, 1), "", "w"),
        conv("64 to 256 at 56x56", (2, 64, 56, 56), (256, 64, 1, 1), "", "w"),
        conv("96 to 96 at 14x14", (32, 96, 14, 14), (96, 96, 1, 1), "", "w"),
        conv("64 to 64 at 56x56", (8, 64, 56, 56), (64, 64, 1, 1), "", "w"),
        conv("256 to 256 at 14x14", (32, 256, 14, 14), (256, 256, 1, 1), "", "w"),
    )),
    Path("convolution: skipped pixels copied", off("conv_pixels:skips_pixels", answer=False),
         ("conv_pixels:gathered",), ("conv_pixels:skips_pixels", "conv_pixels:gathered"), (
        conv("64 to 128 at 56x56, step 2", (4, 64, 56, 56), (128, 64, 1, 1), "stride=2"),
    )),
    Path("convolution: windows as a matrix", off("conv_windows:window_product_steps",
                                                 "conv_windows:window_weight_steps"),
         ("conv_windows:windows_step",),
         ("windows", "conv_windows:window_product_steps", "conv_windows:window_weight_steps",
          "conv_windows:windows_step", "conv_windows:outnumbers"), (
        conv("3x3 of 512 at 4x4", (1, 512, 4, 4), (512, 512, 3, 3), "padding=1"),
        conv("its weight", (1, 512, 4, 4), (512, 512, 3, 3), "padding=1", "w"),
    )),
)

# --- products ---------------------------------------------------------------------------------------------------------

PRODUCTS = (
    Path("products: few rows", off("gemm:few_rows_step"), ("few_rows:few_rows_kernel",),
         ("few_rows", "gemm:few_rows_step", "gemm:few_rows_part", "gemm:row_step", "gemm:alone_part", "half"), (
        mm(1, 4096, 4096, "nt"), mm(1, 4096, 4096), mm(2, 768, 3072, "nt"), mm(8, 768, 3072, "nt"),
        mm(4, 768, 3072), mm(16, 768, 3072, "nt"), mm(32, 512, 2048, "nt"), mm(2, 256, 256, "nt"),
    )),
    Path("products: one row from memory", off("gemm:row_step"), ("gemm:row_step",),
         ("gemm:row_step", "gemm:alone_part"), (
        mm(1, 4096, 4096, "nt"), mm(1, 4096, 4096), mm(1, 1024, 1024), mm(1, 768, 50257, "nt"),
        op("4096x4096 @ 4096", "a @ b", a=(4096, 4096), b=(4096,)),
        op("4096x4096 transposed @ 4096 float64", "a.t() @ b", a="torch.randn(4096, 4096, dtype=torch.float64)",
           b="torch.randn(4096, dtype=torch.float64)"),
    )),
    Path("products: more than eight rows along columns", off("few_rows:MOST_ALONG", answer=8),
         ("gemm:few_rows_step",), (), (
        mm(16, 768, 3072, "nt"), mm(32, 512, 2048, "nt"), mm(64, 1024, 1024, "nt"), mm(12, 256, 256, "nt"),
    )),
    Path("products: few rows of half types", off("half:half_rows_steps"), ("half:half_rows_steps",), ("half",), (
        mm(1, 768, 3072, "nt", "bfloat16", 2e-2), mm(4, 768, 3072, "nn", "bfloat16", 2e-2),
        mm(8, 1024, 1024, "nt", "float16", 1e-2),
    )),
    Path("products: complex tiles", off("complex:complex_steps"), ("complex_schedule:schedule_complex",),
         ("complex", "complex_schedule"), (
        mm(64, 64, 64, "nn", "complex64"), mm(256, 256, 256, "nn", "complex64"),
        mm(256, 256, 256, "nt", "complex128"), mm(48, 48, 48, "nn", "complex128"),
    )),
    Path("products: instructions for groups of k", off("groups:group_steps"), ("groups:group_steps",),
         ("groups", "grouped"), (
        op("int8 256", "torch._int_mm(a, b)", a="torch.randint(-128, 128, (256, 256), dtype=torch.int8)",
           b="torch.randint(-128, 128, (256, 256), dtype=torch.int8)"),
        op("int8 1024", "torch._int_mm(a, b)", a="torch.randint(-128, 128, (1024, 1024), dtype=torch.int8)",
           b="torch.randint(-128, 128, (1024, 1024), dtype=torch.int8)"),
    )),
    Path("products: tiny ones of many", off("gemm:TINY", answer=0), ("gemm:tiny_step",),
         ("gemm:tiny_step", "gemm:tiny_nest"), (
        op("1000 of 4x4", "a @ b", a=(1000, 4, 4), b=(1000, 4, 4)),
        op("1000 of 3x3", "a @ b", a=(1000, 3, 3), b=(1000, 3, 3)),
        op("64 of 2x2", "a @ b", a=(64, 2, 2), b=(64, 2, 2)),
    )),
    Path("products: sums of vectors", off("gemm:vector_steps"), ("gemm:vector_steps",), ("gemm:vector_steps",), (
        op("64 of 64x64 by vectors", "a @ b", a=(64, 64, 64), b=(64, 64, 1)),
        op("256 dot products of 256", "a @ b", a=(256, 1, 256), b=(256, 256, 1)),
        op("1024x1024 @ 1024", "a @ b", a=(1024, 1024), b=(1024,)),
        mm(1, 512, 512, "nt"),
    )),
    Path("products: panels in the caches", off("gemm:IN_CACHE", answer=0), ("tiled_products:product_kernel",),
         ("gemm:panel_step",), (
        mm(16, 16, 16), mm(32, 32, 32), mm(64, 32, 32), mm(48, 48, 48),
        op("100 of 64x64", "a @ b", a=(100, 64, 64), b=(100, 64, 64)),
    )),
    Path("products: packed strips", off("gemm:PACKED", answer=0), ("gemm:strip_products",),
         ("gemm:strip_products", "gemm:pack_strips", "gemm:strips_of"), (
        mm(16, 64, 64, "nt"), mm(8, 64, 96, "nt"), mm(30, 30, 30, "nt"), mm(6, 300, 30, "nt"),
    )),
    Path("products: right operands where they lie",
         (("contraction:DIRECT_ROWS", 0), ("contraction:DIRECT_COLUMNS", 1 << 40)), ("contraction:Tiled.nest=direct",),
         (), (
        mm(16, 768, 3072), mm(32, 1024, 1024), mm(12, 256, 1024), mm(24, 768, 768),
    )),
    Path("products: rows where they lie", (("product_nests:SIZES.512.in_lines", False),),
         ("contraction:Tiled.nest=True",),
         ("product_nests:tiles_by_lines", "product_nests:tiles_by_groups", "tile_functions:lines_texts",
          "tile_functions:line_tile_text"), (
        mm(256, 256, 256), mm(512, 512, 512), mm(1024, 1024, 1024), mm(128, 768, 3072, "nt"), mm(197, 192, 768, "nt"),
    ), fresh=True),
    Path("products: tile registers", off("tiles:has_tiles", answer=False), ("tiles:tile_steps",),
         ("tiles", "tile_products", "tile_packs"), (mm(1024, 1024, 1024, "nn", "bfloat16", 2e-2),)),
)

# --- attention --------------------------------------------------------------------------------------------------------

_HEADS = "q, k, v = (torch.randn(2, 8, {0}, 64) for _ in range(3))"
ATTENTION = (
    Path("attention without all scores", off("attention:fits_flash", answer=False), ("flash:launch",),
         ("cpu_attention", "cpu_attention_backward"), (
        PathCase("512 positions", "torch.nn.functional.scaled_dot_product_attention(q, k, v)", _HEADS.format(512)),
        PathCase("128 positions, causal", "torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)",
                 _HEADS.format(128)),
    )),
    Path("attention of few queries", off("flash:FEW_QUERIES", answer=0), ("flash:launch=rows",),
         ("cpu_attention:_Rows",), (
        PathCase("1 of 1024 keys", "torch.nn.functional.scaled_dot_product_attention(q, k, v)",
                 "q, k, v = (torch.randn(2, 8, n, 64) for n in (1, 1024, 1024))"),
        PathCase("1 of 128 keys", "torch.nn.functional.scaled_dot_product_attention(q, k, v)",
                 "q, k, v = (torch.randn(1, 12, n, 64) for n in (1, 128, 128))"),
        PathCase("2 of 256 keys", "torch.nn.functional.scaled_dot_product_attention(q, k, v)",
                 "q, k, v = (torch.randn(2, 8, n, 64) for n in (2, 256, 256))"),
    )),
    Path("attention on tile registers", off("tiles:has_tiles", answer=False), ("attention_tiles:forward_schedule",),
         ("tile_attention", "tile_attention_backward", "attention_tiles"), (
        PathCase("512 positions, bfloat16", "torch.nn.functional.scaled_dot_product_attention(q, k, v)",
                 "q, k, v = (torch.randn(2, 8, 512, 64).bfloat16() for _ in range(3))", 2e-2),
    )),
)

# --- Fourier transforms -----------------------------------------------------------------------------------------------

FOURIER = (
    Path("fourier: vectors along a row", off("butterflies:fits", answer=False), ("rows:rows_step",),
         ("butterflies",), (
        fft("fft", (256, 1024)), fft("fft", (1, 1024)), fft("fft", (1, 4096)), fft("fft", (64, 4096), "complex128"),
        fft("fft", (1, 256)), fft("rfft", (256, 2048), "float32", "torch.fft.rfft(x)"),
        fft("fft", (1, 65536)),
    )),
    Path("fourier: real rows in two", off("rows:planned_in_two", answer=False), ("direct:Steps.real_in_two",),
         ("real_fourier",), (
        fft("rfft", (1, 100000), "float32", "torch.fft.rfft(x)"),
        fft("rfft", (4, 30000), "float32", "torch.fft.rfft(x)"), fft("rfft", (1, 9999), "float32", "torch.fft.rfft(x)"),
        fft("irfft", (1, 5001), "complex64", "torch.fft.irfft(x)"),
        fft("rfft", (4, 10000), "float64", "torch.fft.rfft(x)"),
    )),
    Path("fourier: primes as cyclic convolutions", off("fourier_tables:is_cyclic", answer=False),
         ("fourier_tables:powers",), ("fourier_tables:is_cyclic", "fourier_tables:powers"), (
        fft("fft", (64, 251)), fft("fft", (64, 257)), fft("fft", (64, 401)), fft("fft", (64, 1009)),
        fft("fft", (64, 131), "complex128"),
    )),
    Path("fourier: images some at a time", (("direct:images_at_once", Instead()),), ("direct:images_at_once",),
         ("direct:images_at_once",), (
        fft("fft2", (16, 256, 256), "complex64", "torch.fft.fft2(x)"),
        fft("rfft2", (16, 256, 256), "float32", "torch.fft.rfft2(x)"),
        fft("fft2", (64, 128, 128), "complex64", "torch.fft.fft2(x)"),
        fft("fft2", (8, 256, 256), "complex128", "torch.fft.fft2(x)"),
    )),
)

# --- order ------------------------------------------------------------------------------------------------------------

_ROWS = "x = torch.randn({0})"
ORDER = (
    Path("order: few first", off("few_first:few_launches"), ("few_first:few_launches",), ("few_first",), (
        PathCase("4 of rows of 1000", "x.topk(4)", _ROWS.format("256, 1000")),
        PathCase("1 of rows of 500", "x.topk(1)", _ROWS.format("256, 500")),
        PathCase("4 of a middle dim of 64", "x.topk(4, 1)", _ROWS.format("16, 64, 64")),
        PathCase("8 of rows of 200", "x.topk(8)", _ROWS.format("1000, 200")),
    )),
    Path("order: ranks of short dims", off("ranks:rank_launches"), ("ranks:rank_launches",), ("ranks",), (
        PathCase("rows of 16", "x.sort()", _ROWS.format("4000, 16")),
        PathCase("rows of 64", "x.sort()", _ROWS.format("1000, 64")),
        PathCase("a middle dim of 64", "x.sort(1)", _ROWS.format("16, 64, 64")),
        PathCase("20 of rows of 64", "x.topk(20)", _ROWS.format("1000, 64")),
    )),
    Path("order: one by its rank", off("rank_select:ranked_launches"), ("rank_select:ranked_launches",),
         ("rank_select",), (
        PathCase("median of rows of 64", "x.median(1)", _ROWS.format("4000, 64")),
        PathCase("median of rows of 1000", "x.median(1)", _ROWS.format("1000, 1000")),
        PathCase("median of 1M", "x.median()", _ROWS.format("1000000")),
    )),
    Path("order: by digits", off("radix:radix_launches"), ("radix:radix_launches",), ("radix",), (
        PathCase("sort of 100K", "x.sort()", _ROWS.format("100000")),
        PathCase("sort of rows of 1000", "x.sort()", _ROWS.format("100, 1000")),
        PathCase("topk(100) of 1M", "x.topk(100)", _ROWS.format("1000000")),
    )),
)

# --- factorisations ---------------------------------------------------------------------------------------------------

FACTORS = (
    Path("factors: right sides as rows", off("triangles:suits", answer=False),
         ("triangles:solve()", "triangles:invert()"), ("triangles",), (
        square("solve_triangular", "torch.linalg.solve_triangular(A, B, upper=True)", 512),
        square("solve", "torch.linalg.solve(A, B)", 512), square("inv", "torch.linalg.inv(A)", 512, "float64"),
        square("cholesky_solve", "torch.cholesky_solve(B, A.tril())", 256),
        square("solve", "torch.linalg.solve(A, B)", 64, batch="100, "),
        square("solve_triangular", "torch.linalg.solve_triangular(A, B, upper=True)", 512, columns=32),
        square("cholesky", "torch.linalg.cholesky(S)", 512),
    )),
    Path("factors: small matrices", off("small_factors:is_small", answer=False),
         ("small_factors:factor()", "small_factors:solve()", "small_factors:triangular()",
          "small_factors:cholesky()"),
         ("small_factors",), (
        square("lu_factor", "torch.linalg.lu_factor(A)", 4, batch="1000, "),
        square("lu_factor", "torch.linalg.lu_factor(A)", 16, batch="1000, "),
        square("inv", "torch.linalg.inv(A)", 8, batch="1000, "),
        square("solve_triangular", "torch.linalg.solve_triangular(A, B, upper=True)", 4, batch="1000, ", columns=1),
        square("cholesky", "torch.linalg.cholesky(S)", 8, batch="1000, "),
    )),
    Path("factors: panels of one matrix", off("factor_panels:is_shared", answer=False), ("factor_panels:is_shared",),
         ("factor_panels:panel_width", "factor_panels:cut", "factor_panels:gather_nest"), (
        square("lu_factor", "torch.linalg.lu_factor(A)", 512), square("cholesky", "torch.linalg.cholesky(S)", 512),
        square("lu_factor", "torch.linalg.lu_factor(A)", 1024, "float64"), square("inv", "torch.linalg.inv(A)", 512),
    )),
    Path("factors: reflections", off("reflections:suits", answer=False), ("reflections:suits",), ("reflections",), (
        square("qr", "torch.linalg.qr(A)", 512), square("qr", "torch.linalg.qr(A)", 512, "float64"),
        square("qr", "torch.linalg.qr(A)", 128),
    )),
    Path("factors: bidiagonal form", off("bidiagonal:suits", answer=False), ("bidiagonal:singular",),
         ("bidiagonal",), (
        square("svdvals", "torch.linalg.svdvals(A)", 512), square("svdvals", "torch.linalg.svdvals(A)", 256, "float64"),
        square("pinv", "torch.linalg.pinv(A)", 256),
    )),
)

# --- scans and moves --------------------------------------------------------------------------------------------------

SCANS = (
    Path("scans: long rows in chunks", off("chunks:chunked"), ("chunks:chunked",), ("chunks", "prefix_sums"), (
        PathCase("cumsum of 4M", "x.cumsum(0)", _ROWS.format("4000000")),
        PathCase("logcumsumexp of 1M", "x.logcumsumexp(0)", _ROWS.format("1000000")),
        PathCase("cumsum of 1M", "x.cumsum(0)", _ROWS.format("1000000")),
    )),
    Path("scans: sums within registers", off("chunks:is_plain_sum", answer=False), ("chunks:is_plain_sum",),
         ("prefix_sums", "chunks:is_plain_sum"), (
        PathCase("cumsum of 4M", "x.cumsum(0)", _ROWS.format("4000000")),
        PathCase("cumsum of 1M", "x.cumsum(0)", _ROWS.format("1000000")),
        PathCase("cumsum of 1M float64", "x.cumsum(0)", "x = torch.randn(1000000, dtype=torch.float64)"),
    )),
    Path("scans: rows in lanes", off("lanes:rows_in_lanes"), ("lanes:rows_in_lanes",), ("lanes",), (
        PathCase("cumsum of rows of 1000", "x.cumsum(1)", _ROWS.format("1000, 1000")),
        PathCase("logcumsumexp of rows of 1000", "x.logcumsumexp(1)", _ROWS.format("1000, 1000")),
        PathCase("cumprod of rows of 64", "x.cumprod(1)", _ROWS.format("4000, 64")),
        PathCase("cumsum of rows of 1000, int64", "x.cumsum(1)", "x = torch.randint(0, 9, (1000, 1000))"),
        PathCase("cummax of rows of 64", "x.cummax(1)", _ROWS.format("4000, 64")),
    )),
    Path("scans: blocks passed over", off("walk:is_rare", answer=False), ("walk:is_rare",),
         ("walk:is_rare", "walk:walked_in_blocks"), (
        PathCase("cummax of 1M", "x.cummax(0)", _ROWS.format("1000000")),
        PathCase("cummax of 1000", "x.cummax(0)", _ROWS.format("1000")),
        PathCase("cummax of rows of 4096", "x.cummax(1)", _ROWS.format("64, 4096")),
    )),
    Path("moves: rows turned into columns", off("pieces:transposing_launch"), ("pieces:transposing_launch",),
         ("transpose", "pieces:transposing_launch"), (
        PathCase("1024x1024", "x.t().contiguous()", _ROWS.format("1024, 1024")),
        PathCase("NCHW of 64 to NHWC", "x.permute(0, 2, 3, 1).contiguous()", _ROWS.format("4, 64, 56, 56")),
        PathCase("300x500", "x.t().contiguous()", _ROWS.format("300, 500")),
    )),
    Path("moves: short rows written out", off("pieces:short_rows_launch"), ("pieces:short_rows_launch",),
         ("pieces:short_rows_launch", "pieces:short_rows_nest"), (
        PathCase("NCHW of 3 to NHWC", "x.permute(0, 2, 3, 1).contiguous()", _ROWS.format("4, 3, 64, 64")),
        PathCase("pixel_shuffle", "torch.nn.functional.pixel_shuffle(x, 2)", _ROWS.format("4, 16, 32, 32")),
        PathCase("windows of 8", "x.unfold(0, 8, 4).contiguous()", _ROWS.format("65536")),
    )),
    Path("moves: boxes end to end", off("pieces:end_to_end"), ("pieces:end_to_end",),
         ("pieces:end_to_end", "pieces:fits", "pieces:side_by_side", "pieces:join_nest", "pieces:whole_pieces",
          "pieces:stack_nest"), (
        PathCase("cat of rows of 4x256", "torch.cat(x, 1)", "x = [torch.randn(4096, 256) for _ in range(4)]"),
        PathCase("cat of channels", "torch.cat(x, 1)", "x = [torch.randn(8, 64, 32, 32) for _ in range(2)]"),
        PathCase("cat of 2 of 1M along rows", "torch.cat(x, 1)", "x = [torch.randn(1024, 1024) for _ in range(2)]"),
        PathCase("stack of 16 last", "torch.stack(x, 1)", "x = [torch.randn(512, 256) for _ in range(8)]"),
    )),
    Path("loops: columns folded in memory order", (("interchange:in_memory_order", Instead()),),
         ("interchange:_folding",), ("interchange:in_memory_order", "interchange:_Interchange",
                                     "interchange:_folding", "interchange:_renamed"), (
        PathCase("sum of columns", "x.sum(0)", _ROWS.format("4096, 1000")),
        PathCase("var of columns", "x.var(0)", _ROWS.format("4096, 1000")),
        PathCase("max of columns", "x.max(0)", _ROWS.format("1000, 512")),
    ), fresh=True),
    Path("loops: transposed copies in tiles", (("interchange:in_tiles", Instead()),), ("interchange:in_tiles",),
         ("interchange:in_tiles",), (
        PathCase("1024x1024 to float64", "x.t().double()", _ROWS.format("1024, 1024")),
        PathCase("300x500 to bfloat16", "x.t().bfloat16()", _ROWS.format("300, 500")),
        PathCase("copy_ of 1000x1000", "y.copy_(x.t())", "x, y = torch.randn(1000, 1000), torch.zeros(1000, 1000)"),
    ), fresh=True),
    Path("loops: integers divided as floats", off("quotients:float_for"), ("quotients:float_for",), ("quotients",), (
        op("int32 //", "x // y", x="torch.randint(1, 1000, (65536,), dtype=torch.int32)",
           y="torch.randint(1, 9, (65536,), dtype=torch.int32)"),
        op("int8 %", "x % y", x="torch.randint(1, 100, (65536,), dtype=torch.int8)",
           y="torch.randint(1, 9, (65536,), dtype=torch.int8)"),
    ), fresh=True),
    Path("rows: memory asked for in other loops", off("row_nests:RowNest.plan_fetches"),
         ("row_nests:RowNest.plan_fetches()",), ("row_nests:plan_fetches", "row_nests:fetched"), (
        PathCase("softmax of 16M", "x.softmax(1)", _ROWS.format("4096, 4096")),
        PathCase("layer_norm of 16M", "torch.nn.functional.layer_norm(x, (1024,))", _ROWS.format("16384, 1024")),
        PathCase("log_softmax of 32000", "x.log_softmax(1)", _ROWS.format("512, 32000")),
        PathCase("layer_norm of 1M", "torch.nn.functional.layer_norm(x, (1024,))", _ROWS.format("1024, 1024")),
    ), fresh=True),
    Path("folds: matrices asked for early", off("fold_nests:FoldNest.requests", answer=[]),
         ("fold_nests:FoldNest.requests()",), ("fold_nests:requests",), (
        op("64 of 256x256 by vectors", "a @ b", a=(64, 256, 256), b=(64, 256, 1)),
        op("256 of 100x200 by vectors", "a @ b", a=(256, 100, 200), b=(256, 200, 1)),
    ), fresh=True),
    Path("rows: loops as one", off("staggered:can_stagger", answer=False), ("staggered:schedule_staggered",),
         ("staggered",), (
        PathCase("layer_norm of 1024", "torch.nn.functional.layer_norm(x, (1024,))", _ROWS.format("1024, 1024")),
    )),
)

PATHS = (*CONVOLUTIONS, *PRODUCTS, *ATTENTION, *FOURIER, *ORDER, *FACTORS, *SCANS)
