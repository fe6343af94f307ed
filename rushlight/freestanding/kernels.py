"""Kernels of a plan for another machine: the same nests and library texts, lowered for it.

Enters: addresses that steps of a plan name, and a target. Leaves: LLVM IR text and the name of the function in it.
A step that calls the BLAS gets a plain product with the BLAS step's parameters. Refuses: kernels written for one
processor alone (tiles of AMX, dot products of NEON), naming them.
"""

from __future__ import annotations

import re
from typing import Any

from .. import codegen
from ..codegen.library import interface
from ..codegen.library.kernel_text import TextKernel
from ..codegen.library.products.tiled_products import PanelProduct, module_text as product_text
from ..codegen.stored import cache
from ..codegen.text.targets import Target, vector_bits
from ..loops.nest import Nest, has_tiles
from ..planners.products import blas

SCALARS = {"f32": "float", "f64": "double"}


class NotFreestanding(RuntimeError):
    """The program needs something at run time that cannot go with it."""


def kernel_text(address: int, target: Target) -> tuple[str, str]:
    """(function, LLVM IR) of the kernel at an address, for a target."""
    name, text = _text(address, target)
    if target.triple.startswith("wasm"):
        source = cache.source_of(address)
        is_sum = not isinstance(source, Nest) and getattr(source, "finish", None) is None
        text = without_fma(text, "product" in name or is_sum)
    return name, text


_FMA = re.compile(r"@llvm\.fma\.((?:v\d+)?f(?:32|64))")


def without_fma(text: str, is_sum: bool) -> str:
    """The text for a machine that cannot multiply and add in one rounding. Sums of products round twice there; the
    expansions of functions, which split products by it, compute in double what they want exactly."""
    for kind in sorted(set(_FMA.findall(text))):
        text = text.replace(f"@llvm.fma.{kind}(", f"@rl_fma_{kind}(")
        lanes = kind.partition("f")[0].removeprefix("v")
        single, double = ("float", "double") if not lanes else (f"<{lanes} x float>", f"<{lanes} x double>")
        own = single if kind.endswith("f32") else double
        text = re.sub(rf"(?m)^declare .*@rl_fma_{kind}\(.*$", "", text)
        if is_sum or own == double:
            body = f"  %p = fmul {own} %a, %b\n  %s = fadd {own} %p, %c\n  ret {own} %s"
        else:
            wide = "\n".join(f"  %{x}w = fpext {single} %{x} to {double}" for x in "abc")
            body = (f"{wide}\n  %p = fmul {double} %aw, %bw\n  %s = fadd {double} %p, %cw\n"
                    f"  %r = fptrunc {double} %s to {single}\n  ret {single} %r")
        text += f"\ndefine internal {own} @rl_fma_{kind}({own} %a, {own} %b, {own} %c) alwaysinline {{\n{body}\n}}\n"
    return text


def _text(address: int, target: Target) -> tuple[str, str]:
    source: Any = cache.source_of(address)
    if source is None:
        code = blas.code_of(address)
        if code in SCALARS:
            return "plain_product", plain_product(code, target)
        raise NotFreestanding(f"aot_compile: a step of the plan calls a library ({code or hex(address)})")
    if isinstance(source, Nest):
        # Tiles are cut for vectors of a width, and plans are made of such cuts: they stay this processor's everywhere.
        own = target.but(vector_bits=vector_bits()) if has_tiles(source.loop.body) else target
        return source.name, codegen.emit_llvm(source, own)
    head = f'target triple = "{target.triple}"\n'
    if isinstance(source, interface.Text):
        return source.name, interface.module_of(source.interface, source.tile, target, source.finish)
    if isinstance(source, TextKernel):
        return source.name, source.text(target.triple)
    if isinstance(source, PanelProduct):
        return source.name, head + product_text(source.code, source.transposed, source.whole)
    raise NotFreestanding(
        f"aot_compile: the kernel {source.name} exists for this processor alone. Use float32, which has others."
    )


# --- products where a plan would call the BLAS ------------------------------------------------------------------------

_NAMES = ("m", "n", "k", "lda", "ldb", "ldc", "ta", "tb", "sa", "sb", "sc", "alpha", "beta", "rows", "cols")


def plain_product(code: str, target: Target) -> str:
    """c = alpha * op(a) @ op(b) + beta * c for every part, by the BLAS step's parameters (csrc/extras/blas.cpp)."""
    t, size = SCALARS[code], {"f32": 4, "f64": 8}[code]
    loads = []
    for at, name in enumerate(_NAMES):
        loads += [f"  %p_{name} = getelementptr i64, ptr %params, i64 {at}"]
        kind = "double" if name in ("alpha", "beta") else "i64"
        loads += [f"  %{name}{'0' if name in ('m', 'n') else ''} = load {kind}, ptr %p_{name}"]
    scale = "" if code == "f64" else ("  %al = fptrunc double %alpha to float\n  %be = fptrunc double %beta to float\n")
    al, be = ("%alpha", "%beta") if code == "f64" else ("%al", "%be")
    pointers = "\n".join(f"  %q{x} = getelementptr ptr, ptr %ptrs, i64 {x}\n  %b{x} = load ptr, ptr %q{x}"
                         for x in range(3))
    return f"""target triple = "{target.triple}"
define void @plain_product(ptr %ptrs, ptr %params, i64 %begin, i64 %end) {{
entry:
{chr(10).join(loads)}
{scale}{pointers}
  %a_by_row = icmp eq i64 %ta, 0
  %b_by_row = icmp eq i64 %tb, 0
  %ar = select i1 %a_by_row, i64 %lda, i64 1
  %ac = select i1 %a_by_row, i64 1, i64 %lda
  %br_ = select i1 %b_by_row, i64 %ldb, i64 1
  %bc = select i1 %b_by_row, i64 1, i64 %ldb
  %keeps = fcmp une {t} {be}, 0.0
  %any = icmp slt i64 %begin, %end
  br i1 %any, label %part, label %done
part:
  %i = phi i64 [ %begin, %entry ], [ %i1, %part_end ]
  %oa = mul i64 %i, %sa
  %ob = mul i64 %i, %sb
  %oc = mul i64 %i, %sc
  %a = getelementptr i8, ptr %b0, i64 %oa
  %b = getelementptr i8, ptr %b1, i64 %ob
  %c = getelementptr i8, ptr %b2, i64 %oc
  %im = mul i64 %i, %m0
  %lm = sub i64 %rows, %im
  %cm = icmp slt i64 %lm, %m0
  %rm = select i1 %cm, i64 %lm, i64 %m0
  %hr = icmp ne i64 %rows, 0
  %m = select i1 %hr, i64 %rm, i64 %m0
  %in = mul i64 %i, %n0
  %ln = sub i64 %cols, %in
  %cn = icmp slt i64 %ln, %n0
  %rn = select i1 %cn, i64 %ln, i64 %n0
  %hc = icmp ne i64 %cols, 0
  %n = select i1 %hc, i64 %rn, i64 %n0
  %some_m = icmp sgt i64 %m, 0
  %some_n = icmp sgt i64 %n, 0
  %some = and i1 %some_m, %some_n
  br i1 %some, label %row, label %part_end
row:
  %r = phi i64 [ 0, %part ], [ %r1, %row_end ]
  %ro = mul i64 %r, %ldc
  %crow = getelementptr {t}, ptr %c, i64 %ro
  br label %first
first:
  %f = phi i64 [ 0, %row ], [ %f1, %first ]
  %fp = getelementptr {t}, ptr %crow, i64 %f
  %old = load {t}, ptr %fp, align {size}
  %kept = fmul {t} %old, {be}
  %start = select i1 %keeps, {t} %kept, {t} 0.0
  store {t} %start, ptr %fp, align {size}
  %f1 = add nuw nsw i64 %f, 1
  %fm = icmp slt i64 %f1, %n
  br i1 %fm, label %first, label %deep_check
deep_check:
  %has_k = icmp sgt i64 %k, 0
  br i1 %has_k, label %deep, label %row_end
deep:
  %d = phi i64 [ 0, %deep_check ], [ %d1, %deep_end ]
  %ao1 = mul i64 %r, %ar
  %ao2 = mul i64 %d, %ac
  %ao = add i64 %ao1, %ao2
  %ap = getelementptr {t}, ptr %a, i64 %ao
  %av = load {t}, ptr %ap, align {size}
  %as = fmul {t} %av, {al}
  %bo = mul i64 %d, %br_
  %brow = getelementptr {t}, ptr %b, i64 %bo
  br label %col
col:
  %j = phi i64 [ 0, %deep ], [ %j1, %col ]
  %bj = mul i64 %j, %bc
  %bp = getelementptr {t}, ptr %brow, i64 %bj
  %bv = load {t}, ptr %bp, align {size}
  %cp = getelementptr {t}, ptr %crow, i64 %j
  %cv = load {t}, ptr %cp, align {size}
  %pr = fmul contract {t} %as, %bv
  %su = fadd contract {t} %cv, %pr
  store {t} %su, ptr %cp, align {size}
  %j1 = add nuw nsw i64 %j, 1
  %jm = icmp slt i64 %j1, %n
  br i1 %jm, label %col, label %deep_end
deep_end:
  %d1 = add nuw nsw i64 %d, 1
  %dm = icmp slt i64 %d1, %k
  br i1 %dm, label %deep, label %row_end
row_end:
  %r1 = add nuw nsw i64 %r, 1
  %rm1 = icmp slt i64 %r1, %m
  br i1 %rm1, label %row, label %part_end
part_end:
  %i1 = add nuw nsw i64 %i, 1
  %im1 = icmp slt i64 %i1, %end
  br i1 %im1, label %part, label %done
done:
  ret void
}}
"""
