"""Inner loops of the matrix kernels by llvm-mca: which share of a processor's peak their instructions allow.

    python -m benchmarks.mca                 every kernel, on every processor it is for
    python -m benchmarks.mca --only f32      those whose name contains this
    python -m benchmarks.mca --show          with the loops themselves

Needs no such processor: kernels are generated for it, and llvm-mca (LLVM 16 or later, in PATH or /usr/lib/llvm-*/bin)
simulates their innermost loop with all memory in the nearest cache. The peak is that of the model too: how often it can
start the multiplying instruction. Two things to know of the models: Intel's after Cascade Lake have one port for
512-bit multiply-adds where servers have two, so what else a loop does weighs half as much there; and Cascade Lake's
counts a broadcast from memory as work for those ports, which it is not. No model knows AMX: of those loops the tile
instructions count as Intel documents them (16 cycles to multiply, 8 to load), everything else as the model says.
"""

from __future__ import annotations

import argparse
import dataclasses
import glob
import re
import shutil
import subprocess
import sys
from collections.abc import Callable

from rushlight.codegen.library.convolution import convolve
from rushlight.codegen.library.interface import assembly_of
from rushlight.codegen.library.products import dot_instructions, grouped_products, tile_products
from rushlight.codegen.llvm.cpu import compile_ir
from rushlight.codegen.schedule.cpu.product import SIZES
from rushlight.codegen.text.targets import Target, find_target
from rushlight.codegen.tiles import functions as tile_functions, shapes as tile_shapes, tiles

BAR = 0.95
TURNS = 200                      # of the loop that are simulated
TILE_CYCLES = {"tileload": 8, "tdp": 16}
INTEL = ("cascadelake", "sapphirerapids")


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel: its assembly for a processor, the instruction that multiplies, processors it is for."""

    name: str
    assembly: Callable[[Target], str]
    word: str
    target: str
    processors: tuple[str, ...]
    features: str = ""

    def loop(self, processor: str) -> list[str]:
        target = find_target(self.target).but(cpu=processor, features=self.features)
        return innermost(self.assembly(target), self.word)


def tile(code: str) -> Callable[[Target], str]:
    """The register tile of products, as blocks of rows call it."""

    def assembly(target: Target) -> str:
        height, vectors = SIZES[target.vector_bits].height, SIZES[target.vector_bits].vectors
        shape = tile_shapes.TileShape(code, target)
        asks = target.vector_bits > 128
        text = tile_functions.tile_text(shape, height, vectors, shape.pitch(height), asks)
        declared = tile_functions.declarations(shape.lanes, shape.element)
        texts = [text.replace("define internal", "define"), *tile_functions.put_texts(shape).values()]
        return compile_ir(module(target, declared, *texts), target, "asm")

    return assembly


def unpacked(kind: str) -> Callable[[Target], str]:
    """Tiles whose operands are read where they lie: columns and rows that are kept, rows in vectors along k."""

    def assembly(target: Target) -> str:
        shape = tile_shapes.TileShape("f32", target)
        sizes = SIZES[target.vector_bits]
        function = tile_functions.TileFunction(kind, shape, (sizes.height, sizes.vectors))
        declared = tile_functions.declarations(shape.lanes, shape.element)
        return compile_ir(module(target, declared, *function.texts("").values()), target, "asm", by_hand=True)

    return assembly


def broadcast(code: str) -> Callable[[Target], str]:
    """Tiles that broadcast elements of rows from where they lie."""

    def assembly(target: Target) -> str:
        shape, sizes = tile_shapes.TileShape(code, target), SIZES[target.vector_bits]
        text = tile_functions.line_tile_text(shape, "tile", sizes.height, sizes.vectors, 0)
        declared = tile_functions.declarations(shape.lanes, shape.element)
        texts = [text.replace("define internal", "define"), *tile_functions.put_texts(shape).values()]
        return compile_ir(module(target, declared, *texts), target, "asm", by_hand=True)

    return assembly


def dots(instruction: dot_instructions.Dots) -> Callable[[Target], str]:
    def assembly(target: Target) -> str:
        return compile_ir(grouped_products.module_text("group_product", instruction, target.triple), target, "asm")

    return assembly


def on_tiles(kind: tiles.TileKind) -> Callable[[Target], str]:
    return lambda target: compile_ir(tile_products.module_text(kind, target.triple, False, False), target, "asm")


def convolution(target: Target) -> str:
    return assembly_of(convolve.FORWARD, "f32", target)


def module(target: Target, *texts: str) -> str:
    return "\n".join([f'target triple = "{target.triple}"', *texts])


WIDE, NARROW, ARM = "x86-64-avx512", "x86-64-avx2", "aarch64"
NO_256 = "-prefer-256-bit"
KERNELS = (
    Kernel("f32 product, AVX-512", tile("f32"), "vfmadd231ps", WIDE, INTEL, NO_256),
    Kernel("f64 product, AVX-512", tile("f64"), "vfmadd231pd", WIDE, INTEL, NO_256),
    Kernel("f32 product by rows, AVX-512", broadcast("f32"), "vfmadd231ps", WIDE, INTEL, NO_256),
    Kernel("f64 product by rows, AVX-512", broadcast("f64"), "vfmadd231pd", WIDE, INTEL, NO_256),
    Kernel("f32 convolution, AVX-512", convolution, "vfmadd231ps", WIDE, INTEL, NO_256),
    Kernel("f32 product, AVX2", tile("f32"), "vfmadd231ps", NARROW, ("haswell", "skylake", "znver3")),
    Kernel("f64 product, AVX2", tile("f64"), "vfmadd231pd", NARROW, ("haswell", "skylake", "znver3")),
    Kernel("int8, VNNI", dots(dot_instructions.VNNI), "vpdpbusd", WIDE, INTEL, NO_256),
    Kernel("int8, AVX-VNNI", dots(dot_instructions.VNNI_256), "vpdpbusd", NARROW, ("alderlake",)),
    Kernel("bf16, AVX-512 BF16", dots(dot_instructions.BF16), "vdpbf16ps", WIDE, ("sapphirerapids", "znver4"), NO_256),
    Kernel("bf16, AMX", on_tiles(tiles.BF16), "tdpbf16ps", WIDE, ("sapphirerapids",), NO_256),
    Kernel("int8, AMX", on_tiles(tiles.INT8), "tdpbssd", WIDE, ("sapphirerapids",), NO_256),
    Kernel("f32 product, NEON", tile("f32"), "fmla", ARM, ("neoverse-n1", "neoverse-v1")),
    Kernel("f32 product that keeps, NEON", unpacked("keep"), "fmla", ARM, ("neoverse-n1", "neoverse-v1")),
    Kernel("f32 product by rows, NEON", unpacked("rows"), "fmla", ARM, ("neoverse-n1", "neoverse-v1")),
    Kernel("f64 product, NEON", tile("f64"), "fmla", ARM, ("neoverse-n1", "neoverse-v1")),
    Kernel("int8, SDOT", dots(dot_instructions.SDOT), "sdot", ARM, ("neoverse-n1", "neoverse-v1"), "+dotprod"),
    Kernel("int8, SMMLA", dots(dot_instructions.SMMLA), "smmla", ARM, ("neoverse-v1",), "+i8mm"),
)


def innermost(assembly: str, word: str) -> list[str]:
    """The loop without inner labels in which the instruction stands most often."""
    found: list[list[str]] = []
    label, body = "", []
    for line in assembly.splitlines():
        start = re.match(r"(\.L\w+):", line)
        if start:
            label, body = start[1], []
        elif line.startswith("\t") and not line.startswith(("\t.", "\t#", "\t//")):
            body.append(line)
            if label and re.match(rf"\t(j|b|cb|tb)\S*\s.*{re.escape(label)}$", line.rstrip()):
                found.append(body)
                label = ""
    return max(found, key=lambda loop: sum(word in line for line in loop))


def find_mca() -> str:
    """The newest llvm-mca there is."""
    versions = glob.glob("/usr/lib/llvm-*/bin/llvm-mca")
    newest = max(versions, key=lambda path: int(re.findall(r"\d+", path)[0]), default=None)
    found = newest or shutil.which("llvm-mca")
    if found is None:
        sys.exit("benchmarks.mca: no llvm-mca in PATH or /usr/lib/llvm-*/bin. Install LLVM's tools (apt install llvm).")
    return found


def simulate(mca: str, triple: str, processor: str, loop: list[str]) -> str:
    command = [mca, f"-mtriple={triple}", f"-mcpu={processor}", f"-iterations={TURNS}"]
    done = subprocess.run(command, input="\n".join(loop) + "\n", capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"llvm-mca: {done.stderr.strip().splitlines()[0]}")
    return done.stdout


def cycles_of(report: str) -> float:
    """Cycles of a turn of the loop."""
    return int(re.search(r"Total Cycles:\s+(\d+)", report)[1]) / TURNS


def share(mca: str, kernel: Kernel, processor: str, loop: list[str]) -> tuple[int, float, float]:
    """How often the loop multiplies, its cycles, and the share of the peak."""
    triple, count = find_target(kernel.target).triple, sum(kernel.word in line for line in loop)
    if "tdp" in kernel.word:
        plain = [line for line in loop if not any(word in line for word in TILE_CYCLES)]
        needed = {word: cycles * sum(word in line for line in loop) for word, cycles in TILE_CYCLES.items()}
        cycles = max(cycles_of(simulate(mca, triple, processor, plain)), *needed.values())
        return count, cycles, needed["tdp"] / cycles
    report = simulate(mca, triple, processor, loop)
    info = report.partition("Instruction Info")[2].partition("Resources:")[0]
    apart = min(float(line.split()[2]) for line in info.splitlines() if kernel.word in line)     # cycles, at the peak
    return count, cycles_of(report), count * apart / cycles_of(report)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mca", description="Inner loops by llvm-mca.")
    parser.add_argument("--only", default="", help="only kernels whose name contains this")
    parser.add_argument("--show", action="store_true", help="print the loops")
    options = parser.parse_args(arguments)
    mca, missed = find_mca(), 0
    print(f"{'kernel':26s} {'processor':16s} {'multiplies':>10s} {'instructions':>12s} {'cycles':>7s} {'of peak':>8s}")
    for kernel in KERNELS:
        for processor in kernel.processors if options.only in kernel.name else ():
            loop = kernel.loop(processor)
            try:
                count, cycles, of_peak = share(mca, kernel, processor, loop)
            except RuntimeError as problem:
                print(f"{kernel.name:26s} {processor:16s} {problem}")
                continue
            missed += of_peak < BAR
            print(f"{kernel.name:26s} {processor:16s} {count:10d} {len(loop):12d} {cycles:7.1f} {of_peak:8.1%}")
            if options.show:
                print("\n".join(loop))
    print(f"{missed} below {BAR:.0%}" if missed else f"all at {BAR:.0%} or above")


if __name__ == "__main__":
    main()
