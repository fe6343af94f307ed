"""Tile registers in plain LLVM IR: kernels over them run on processors that have none, to the same results.

`product(kind)` is the kernel of codegen/library/products/tile_products.py as a function of addresses, `compiled(text,
name)` that of any module, their instructions exchanged for functions over 8 KiB of memory.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import pytest
from emulated_dots import ROUND

from rushlight.codegen.library.products import tile_products
from rushlight.codegen.text.writer import Reg, Writer
from rushlight.codegen.tiles import tiles

KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
MEMORY = "@registers = internal global [8192 x i8] zeroinitializer, align 64\n"
# Vector instructions of the same processors: what a number exceeds its floor, and a product with a power of 2.
VECTORS = """declare <16 x float> @llvm.floor.v16f32(<16 x float>)
declare <16 x float> @llvm.fabs.v16f32(<16 x float>)
declare <16 x float> @llvm.exp2.v16f32(<16 x float>)
define <16 x float> @tiles.avx512.mask.reduce.ps.512(<16 x float> %x, i32 %how, <16 x float> %o, i16 %m, i32 %r) {
  %floor = call <16 x float> @llvm.floor.v16f32(<16 x float> %x)
  %rest = fsub <16 x float> %x, %floor
  %size = call <16 x float> @llvm.fabs.v16f32(<16 x float> %x)
  %infinite = fcmp oeq <16 x float> %size, splat (float 0x7FF0000000000000)
  %result = select <16 x i1> %infinite, <16 x float> zeroinitializer, <16 x float> %rest
  ret <16 x float> %result
}
define <16 x float> @tiles.avx512.mask.scalef.ps.512(<16 x float> %x, <16 x float> %y, <16 x float> %o, i16 %m, i32 %r)
{
  %floor = call <16 x float> @llvm.floor.v16f32(<16 x float> %y)
  %power = call <16 x float> @llvm.exp2.v16f32(<16 x float> %floor)
  %result = fmul <16 x float> %x, %power
  ret <16 x float> %result
}
"""
ROWS, BYTES = 16, 64


def processor() -> Any:
    """LLVM's compiler for a processor that has such registers."""
    llvm = pytest.importorskip("llvmlite.binding")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple("x86_64-unknown-linux-gnu").create_target_machine(
        cpu="sapphirerapids", opt=2, reloc="pic"
    )


def place(w: Writer, number: Reg, row: Reg | int, byte: Reg | int) -> Reg:
    wide = w.new("i64", f"zext {number} to i64")
    at = w.total(w.mul(wide, ROWS * BYTES), w.mul(row, BYTES), byte)
    return w.at(Reg("@registers", "ptr"), at, "i8")


def move(name: str, loads: bool) -> str:
    w = Writer(name, [("i8", "number"), ("ptr", "memory"), ("i64", "apart")])
    with w.loop(0, ROWS) as r, w.loop(0, BYTES) as b:
        inside, outside = place(w, w["number"], r.i, b.i), w.at(w["memory"], w.add(w.mul(r.i, w["apart"]), b.i), "i8")
        of, to = (outside, inside) if loads else (inside, outside)
        w.store(w.load("i8", of, 1), to, 1)
    return w.text()


def zero(name: str) -> str:
    w = Writer(name, [("i8", "number")])
    with w.loop(0, ROWS * BYTES) as b:
        w.store(Reg("0", "i8"), place(w, w["number"], 0, b.i), 1)
    return w.text()


def multiply(name: str, kind: tiles.TileKind) -> str:
    """c[i, j] += a[i, word] * b[word, j], values of a word one after the other."""
    w = Writer(name, [("i8", "c"), ("i8", "a"), ("i8", "b")])
    of, to, element = ("bfloat", "float", "float") if kind is tiles.BF16 else ("i8", "i32", "i32")
    with w.loop(0, ROWS) as i, w.loop(0, 16) as j, w.loop(0, 16) as word, w.loop(0, 4 // kind.size) as e:
        inner = w.mul(e.i, kind.size)
        x = w.load(of, place(w, w["a"], i.i, w.add(w.mul(word.i, 4), inner)), 1)
        y = w.load(of, place(w, w["b"], word.i, w.add(w.mul(j.i, 4), inner)), 1)
        x, y = (w.new(to, f"{'fpext' if kind is tiles.BF16 else 'sext'} {v} to {to}") for v in (x, y))
        target = place(w, w["c"], i.i, w.mul(j.i, 4))
        old = w.load(element, target, 4)
        both = (w.fadd(old, w.fmul(x, y))) if kind is tiles.BF16 else w.add(old, w.mul(x, y))
        w.store(both, target, 4)
    return w.text()


def text_of(text: str, kind: tiles.TileKind) -> str:
    """A kernel's module, with functions for instructions."""
    text = text.replace("llvm.x86.", "tiles.")
    text = "\n".join(line for line in text.splitlines() if not line.startswith("declare") or "tiles." not in line)
    nothing = [Writer(name, given).text() for name, given in (("tiles.ldtilecfg", [("ptr", "from")]),
                                                              ("tiles.tilerelease", []))]
    own = [move(f"tiles.{name}", True) for name in ("tileloadd64", "tileloaddt164")]
    own += [move("tiles.tilestored64", False), zero("tiles.tilezero")]
    own.append(multiply(kind.multiply.replace("llvm.x86.", "tiles."), kind))
    return "\n".join([MEMORY, ROUND, VECTORS, text, *nothing, *own])


@functools.cache
def product(kind: tiles.TileKind, left_turned: bool = False, right_turned: bool = False):
    """The kernel of products as a function."""
    name = tile_products.TileProduct(kind, left_turned, right_turned).name
    return compiled(tile_products.module_text(kind, "host", left_turned, right_turned), name, kind)


def compiled(text: str, name: str, kind: tiles.TileKind = tiles.BF16):
    """The kernel of a module as a function; the engine that owns its code lives as long as the process."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text_of(text, kind)), machine)
    engine.finalize_object()
    run = KERNEL(engine.get_function_address(name))
    run.engine = engine
    return run
