"""Copies that turn rows into columns: one generated kernel per element size.

Enters: a matrix whose columns lie `row` elements apart, to be written with its rows `out_row` apart, many times over.
Leaves: a `Kernel` with the usual ABI whose parallel range is strips of 16 rows (fewer, where there are no more), batch
after batch. Refuses: element sizes above 8 bytes.

Loop nests have no notion of exchanging lanes, so this kernel is written as LLVM IR text: 16 rows of 16 bytes are read,
exchanged in registers, and leave as whole lines of the result. Written line by line, the result needs not be read
first; reading 16 rows side by side keeps their lines in cache even where all of them fall into one set.
"""

from __future__ import annotations

from typing import Any

from ..stored.cache import Kernel
from .kernel_text import TextKernel, numbers_text, operands_text, target_text

ROWS = 16
PARAMS = ("rows", "cols", "row", "out_row", "strips", "batch", "out_batch")


class Transpose(TextKernel):
    """What the kernel cache asks of a nest: a name, parameters and a digest."""

    name = "transpose_copy"
    params = PARAMS

    def __init__(self, size: int, height: int = ROWS) -> None:
        self.size, self.height = size, height

    def text(self, triple: str) -> str:
        return module_text(triple, self.size, self.height)

    def __str__(self) -> str:
        return f"library kernel {self.name} of {self.size} bytes an element, strips of {self.height}"


def transpose_kernel(size: int) -> Kernel:
    """The kernel for elements of `size` bytes: operands source and result, params as in PARAMS, all in elements."""
    return Transpose(size).compiled()


def height_for(size: int, rows: Any, cols: Any) -> int | None:
    """Rows of a strip that serve a matrix of elements of `size` bytes; None where too much of it would be left over.
    Fewer rows than a strip usually has must be whole vectors, as must be few columns."""
    lanes = 16 // size if size <= 8 else ROWS + 1
    if lanes > ROWS or not (cols >= ROWS or any(cols == n for n in range(lanes, ROWS, lanes))):
        return None
    if rows >= ROWS:
        return ROWS
    whole = next((n for n in range(lanes, ROWS, lanes) if rows == n), 0)
    return whole & -whole or None


def module_text(triple: str, size: int, height: int = ROWS) -> str:
    """LLVM IR of the kernel, of strips of `height` rows: a multiple of the elements in 16 bytes."""
    return f"""{target_text(triple)}
define void @transpose_copy(ptr %ptrs, ptr %params, i64 %begin, i64 %end) {{
entry:
{operands_text(("base0", "base1"))}
{numbers_text(PARAMS)}
  br label %items
items:
  %item = phi i64 [ %begin, %entry ], [ %item_next, %item_done ]
  %more = icmp slt i64 %item, %end
  br i1 %more, label %strip, label %finish
strip:
  %which = sdiv i64 %item, %strips
  %number = srem i64 %item, %strips
  %first = mul i64 %number, {height}
  %left = sub i64 %rows, %first
  %is_full = icmp sge i64 %left, {height}
  %count = select i1 %is_full, i64 {height}, i64 %left
  %in_a = mul i64 %which, %batch
  %in_b = mul i64 %first, %row
  %in_c = add i64 %in_a, %in_b
  %out_a = mul i64 %which, %out_batch
  %out_c = add i64 %out_a, %first
  %source = getelementptr i{8 * size}, ptr %base0, i64 %in_c
  %result = getelementptr i{8 * size}, ptr %base1, i64 %out_c
  br i1 %is_full, label %blocks, label %single
{block_text(size, height)}
{single_text(size)}
item_done:
  %item_next = add i64 %item, 1
  br label %items
finish:
  ret void
}}
"""


def block_text(size: int, height: int) -> str:
    """A strip's rows by as many columns as a register holds: read, exchanged, written as whole runs."""
    lanes = 16 // size
    kind, element = f"<{lanes} x i{8 * size}>", f"i{8 * size}"
    lines = [
        "blocks:",
        "  %c = phi i64 [ 0, %strip ], [ %c_next, %block ]",
        f"  %c_next = add i64 %c, {lanes}",
        "  %fits = icmp sle i64 %c_next, %cols",
        "  br i1 %fits, label %block, label %single",
        "block:",
        f"  %r0 = getelementptr {element}, ptr %source, i64 %c",
        "  %column = mul i64 %c, %out_row",
        f"  %w0 = getelementptr {element}, ptr %result, i64 %column",
    ]
    columns: list[list[str]] = [[] for _ in range(lanes)]
    for r in range(height):
        if r:
            lines.append(f"  %r{r} = getelementptr {element}, ptr %r{r - 1}, i64 %row")
        lines.append(f"  %v0_{r} = load {kind}, ptr %r{r}, align {size}")
    for group in range(height // lanes):
        for k, name in enumerate(
            exchange(lines, kind, lanes, [f"%v0_{group * lanes + r}" for r in range(lanes)], group)
        ):
            columns[k].append(name)
    for k in range(lanes):
        if k:
            lines.append(f"  %w{k} = getelementptr {element}, ptr %w{k - 1}, i64 %out_row")
        for group, name in enumerate(columns[k]):
            lines.append(f"  %s{k}_{group} = getelementptr {element}, ptr %w{k}, i64 {group * lanes}")
            lines.append(f"  store {kind} {name}, ptr %s{k}_{group}, align {size}")
    return "\n".join([*lines, "  br label %blocks"])


def exchange(lines: list[str], kind: str, lanes: int, vectors: list[str], group: int) -> list[str]:
    """Square blocks transposed by interleaving the two halves of the list, once per bit of the lane number."""
    half, stage = lanes // 2, 0
    low = ", ".join(f"i32 {k // 2 + (k % 2) * lanes}" for k in range(lanes))
    high = ", ".join(f"i32 {half + k // 2 + (k % 2) * lanes}" for k in range(lanes))
    while 1 << stage < lanes:
        results = []
        for k in range(half):
            for label, order in (("l", low), ("h", high)):
                name = f"%x{group}_{stage}_{k}{label}"
                lines.append(
                    f"  {name} = shufflevector {kind} {vectors[k]}, {kind} {vectors[k + half]}, <{lanes} x i32>"
                    f" <{order}>"
                )
                results.append(name)
        vectors, stage = results, stage + 1
    return vectors


def single_text(size: int) -> str:
    """What is left, element by element: the last columns of a full strip, or a strip of fewer rows."""
    element = f"i{8 * size}"
    return f"""single:
  %from = phi i64 [ 0, %strip ], [ %c, %blocks ]
  br label %columns
columns:
  %k = phi i64 [ %from, %single ], [ %k_next, %column_done ]
  %inside = icmp slt i64 %k, %cols
  br i1 %inside, label %cells, label %item_done
cells:
  %r = phi i64 [ 0, %columns ], [ %r_next, %cell ]
  %is_row = icmp slt i64 %r, %count
  br i1 %is_row, label %cell, label %column_done
cell:
  %cell_a = mul i64 %r, %row
  %cell_b = add i64 %cell_a, %k
  %cell_from = getelementptr {element}, ptr %source, i64 %cell_b
  %cell_value = load {element}, ptr %cell_from, align {size}
  %cell_c = mul i64 %k, %out_row
  %cell_d = add i64 %cell_c, %r
  %cell_to = getelementptr {element}, ptr %result, i64 %cell_d
  store {element} %cell_value, ptr %cell_to, align {size}
  %r_next = add i64 %r, 1
  br label %cells
column_done:
  %k_next = add i64 %k, 1
  br label %columns"""
