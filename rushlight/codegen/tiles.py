"""bfloat16 matrix products on AMX tiles: one generated kernel over packed operands.

Enters: operands packed in blocks of 32x32 (`pack_left`, `pack_right`: plain nests). Leaves: a `Kernel` with the usual ABI
whose parallel range is blocks of 32 rows. Refuses nothing: callers ask the core (`request_tiles`) whether the processor has them.

Loop nests have no notion of a tile register, so this kernel is written as LLVM IR text directly; a block of 32x32 results is
four tiles that stay in registers while k runs. Columns are walked in panels, so that a panel of the right operand stays in
the second-level cache while every row block of the chunk meets it.
"""

from __future__ import annotations

import hashlib
from typing import Any

from ..loops import expr
from ..loops.nest import For, Nest, Store, operands, rows
from . import cache
from .cache import Kernel

BLOCK = 32
PANEL = 8            # column blocks per panel
BLOCK_BYTES = BLOCK * BLOCK * 2


class TileProduct:
    """What the kernel cache asks of a nest: a name, parameters and a digest."""

    name = "bf16_tiles"
    params = ("m", "n", "blocks_k", "blocks_n", "row")

    def digest(self) -> bytes:
        return hashlib.blake2b(module_text("host").encode(), digest_size=16).digest()


def product_kernel() -> Kernel:
    """The kernel: operands packed left, packed right, result; params m, n, blocks along k, blocks along n, result row stride."""
    return cache.kernel(TileProduct(), _object)


def _object(product: Any) -> bytes:
    from .cpu import compile_ir, host_target

    return compile_ir(module_text(host_target().triple), host_target(), "object")


def pack_left() -> Nest:
    """Rows of the left operand in blocks [row block, k block, 32, 32], zeros past the edges. Parallel over padded rows."""
    p = {name: expr.var(name) for name in ("m", "k", "blocks_k", "row", "col")}
    zero, size = expr.const(0, "i64"), expr.const(BLOCK, "i64")
    i, kb, c = expr.var("i"), expr.var("kb"), expr.var("c")
    inside = expr.min_(size, expr.max_(p["k"] - kb * BLOCK, zero))
    limit = expr.select(expr.lt(i, p["m"]), inside, zero)
    at = ((expr.idiv(i, size) * p["blocks_k"] + kb) * BLOCK + expr.irem(i, size)) * BLOCK
    copy = For("c", zero, limit, (Store(1, at + c, expr.load(0, i * p["row"] + (kb * BLOCK) * p["col"] + c * p["col"], "u16")),), vector=True)
    clear = For("z", limit, size, (Store(1, at + expr.var("z"), expr.const(0, "u16")),), vector=True)
    return Nest("pack_left", operands(["u16"], ["u16"]), tuple(p), rows(For("kb", zero, p["blocks_k"], (copy, clear))))


def pack_right() -> Nest:
    """The right operand in blocks [column block, k block, half, k pair, 16] of pairs of k. Parallel over column block x k block."""
    p = {name: expr.var(name) for name in ("n", "k", "blocks_k", "row", "col")}
    zero, sixteen = expr.const(0, "i64"), expr.const(16, "i64")
    i, h, pair, c = expr.var("i"), expr.var("h"), expr.var("pair"), expr.var("c")
    nb, kb = expr.idiv(i, p["blocks_k"]), expr.irem(i, p["blocks_k"])
    first = nb * BLOCK + h * 16
    k = kb * BLOCK + pair * 2
    columns = expr.min_(sixteen, expr.max_(p["n"] - first, zero))
    both = expr.select(expr.lt(k + 1, p["k"]), columns, zero)
    one = expr.select(expr.lt(k, p["k"]), columns, zero)
    at = ((i * 2 + h) * 16 + pair) * 16
    column = (first + c) * p["col"]
    low = expr.cast(expr.load(0, k * p["row"] + column, "u16"), "u32")
    high = expr.cast(expr.load(0, (k + 1) * p["row"] + column, "u16"), "u32")
    pairs = For("c", zero, both, (Store(1, at + c, expr.or_(low, expr.shl(high, expr.const(16, "u32")))),), vector=True)
    singles = For("c", both, one, (Store(1, at + c, low),), vector=True)
    clear = For("z", one, sixteen, (Store(1, at + expr.var("z"), expr.const(0, "u32")),), vector=True)
    return Nest("pack_right", operands(["u16"], ["u32"]), tuple(p), rows(For("h", zero, expr.const(2, "i64"), (For("pair", zero, sixteen, (pairs, singles, clear)),))))


def module_text(triple: str) -> str:
    """LLVM IR of the kernel."""
    tiles = [(tile, row, half) for tile, (row, half) in enumerate(((0, 0), (0, 1), (1, 0), (1, 1)))]
    zero = "\n".join(f"  call void @llvm.x86.tilezero(i8 {t})" for t, _, _ in tiles)
    store = "\n".join(
        f"  %to{t} = getelementptr float, ptr %scratch, i64 {row * 16 * BLOCK + half * 16}\n"
        f"  call void @llvm.x86.tilestored64(i8 {t}, ptr %to{t}, i64 {BLOCK * 4})"
        for t, row, half in tiles
    )
    multiply = "\n".join(f"  call void @llvm.x86.tdpbf16ps(i8 {t}, i8 {4 + row}, i8 {6 + half})" for t, row, half in tiles)
    config = "\n".join(
        f"  %cols{t} = getelementptr i8, ptr %config, i64 {16 + 2 * t}\n  store i16 64, ptr %cols{t}\n"
        f"  %rows{t} = getelementptr i8, ptr %config, i64 {48 + t}\n  store i8 16, ptr %rows{t}"
        for t in range(8)
    )
    target = "" if triple == "host" else f'target triple = "{triple}"\n'
    return f"""{target}
declare void @llvm.x86.ldtilecfg(ptr)
declare void @llvm.x86.tilerelease()
declare void @llvm.x86.tilezero(i8)
declare void @llvm.x86.tileloadd64(i8, ptr, i64)
declare void @llvm.x86.tilestored64(i8, ptr, i64)
declare void @llvm.x86.tdpbf16ps(i8, i8, i8)

define void @bf16_tiles(ptr %ptrs, ptr %params, i64 %begin, i64 %end) {{
entry:
  %a = load ptr, ptr %ptrs
  %ptr1 = getelementptr ptr, ptr %ptrs, i64 1
  %b = load ptr, ptr %ptr1
  %ptr2 = getelementptr ptr, ptr %ptrs, i64 2
  %c = load ptr, ptr %ptr2
  %m = load i64, ptr %params
  %param1 = getelementptr i64, ptr %params, i64 1
  %n = load i64, ptr %param1
  %param2 = getelementptr i64, ptr %params, i64 2
  %blocks_k = load i64, ptr %param2
  %param3 = getelementptr i64, ptr %params, i64 3
  %blocks_n = load i64, ptr %param3
  %param4 = getelementptr i64, ptr %params, i64 4
  %row = load i64, ptr %param4
  %config = alloca [64 x i8], align 64
  %scratch = alloca [{BLOCK * BLOCK} x float], align 64
  call void @llvm.memset.p0.i64(ptr %config, i8 0, i64 64, i1 false)
  store i8 1, ptr %config
{config}
  call void @llvm.x86.ldtilecfg(ptr %config)
  %strip = mul i64 %blocks_k, {BLOCK_BYTES}
  br label %panels
panels:
  %panel = phi i64 [ 0, %entry ], [ %panel_end, %panel_done ]
  %more_panels = icmp slt i64 %panel, %blocks_n
  br i1 %more_panels, label %panel_body, label %finish
panel_body:
  %panel_next = add i64 %panel, {PANEL}
  %panel_last = icmp slt i64 %panel_next, %blocks_n
  %panel_end = select i1 %panel_last, i64 %panel_next, i64 %blocks_n
  br label %row_blocks
row_blocks:
  %mb = phi i64 [ %begin, %panel_body ], [ %mb_next, %row_done ]
  %more_rows = icmp slt i64 %mb, %end
  br i1 %more_rows, label %row_body, label %panel_done
panel_done:
  br label %panels
row_body:
  %a_offset = mul i64 %mb, %strip
  %a_strip = getelementptr i8, ptr %a, i64 %a_offset
  %m0 = mul i64 %mb, {BLOCK}
  %m_left = sub i64 %m, %m0
  %m_full = icmp sge i64 %m_left, {BLOCK}
  %m_rows = select i1 %m_full, i64 {BLOCK}, i64 %m_left
  br label %column_blocks
column_blocks:
  %nb = phi i64 [ %panel, %row_body ], [ %nb_next, %block_done ]
  %more_columns = icmp slt i64 %nb, %panel_end
  br i1 %more_columns, label %block, label %row_done
row_done:
  %mb_next = add i64 %mb, 1
  br label %row_blocks
block:
  %b_offset = mul i64 %nb, %strip
  %b_strip = getelementptr i8, ptr %b, i64 %b_offset
{zero}
  br label %k_loop
k_loop:
  %kb = phi i64 [ 0, %block ], [ %kb_next, %k_body ]
  %more_k = icmp slt i64 %kb, %blocks_k
  br i1 %more_k, label %k_body, label %k_done
k_body:
  %step = mul i64 %kb, {BLOCK_BYTES}
  %a0 = getelementptr i8, ptr %a_strip, i64 %step
  %a1 = getelementptr i8, ptr %a0, i64 {BLOCK_BYTES // 2}
  %b0 = getelementptr i8, ptr %b_strip, i64 %step
  %b1 = getelementptr i8, ptr %b0, i64 {BLOCK_BYTES // 2}
  call void @llvm.x86.tileloadd64(i8 4, ptr %a0, i64 64)
  call void @llvm.x86.tileloadd64(i8 6, ptr %b0, i64 64)
  call void @llvm.x86.tileloadd64(i8 7, ptr %b1, i64 64)
  call void @llvm.x86.tileloadd64(i8 5, ptr %a1, i64 64)
{multiply}
  %kb_next = add i64 %kb, 1
  br label %k_loop
k_done:
{store}
  %n0 = mul i64 %nb, {BLOCK}
  %n_left = sub i64 %n, %n0
  %n_full = icmp sge i64 %n_left, {BLOCK}
  %m0_row = mul i64 %m0, %row
  %corner = add i64 %m0_row, %n0
  %out = getelementptr i16, ptr %c, i64 %corner
  br label %out_rows
out_rows:
  %r = phi i64 [ 0, %k_done ], [ %r_next, %out_row_done ]
  %more_out = icmp slt i64 %r, %m_rows
  br i1 %more_out, label %out_row, label %block_done
out_row:
  %r_from = mul i64 %r, {BLOCK}
  %from = getelementptr float, ptr %scratch, i64 %r_from
  %r_to = mul i64 %r, %row
  %to = getelementptr i16, ptr %out, i64 %r_to
  br i1 %n_full, label %whole_row, label %columns
whole_row:
  %values = load <{BLOCK} x float>, ptr %from, align 64
  %narrow = fptrunc <{BLOCK} x float> %values to <{BLOCK} x bfloat>
  store <{BLOCK} x bfloat> %narrow, ptr %to, align 2
  br label %out_row_done
columns:
  %q = phi i64 [ 0, %out_row ], [ %q_next, %column ]
  %more_q = icmp slt i64 %q, %n_left
  br i1 %more_q, label %column, label %out_row_done
column:
  %q_from = getelementptr float, ptr %from, i64 %q
  %value = load float, ptr %q_from
  %short = fptrunc float %value to bfloat
  %q_to = getelementptr i16, ptr %to, i64 %q
  store bfloat %short, ptr %q_to, align 2
  %q_next = add i64 %q, 1
  br label %columns
out_row_done:
  %r_next = add i64 %r, 1
  br label %out_rows
block_done:
  %nb_next = add i64 %nb, 1
  br label %column_blocks
finish:
  call void @llvm.x86.tilerelease()
  ret void
}}

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""
