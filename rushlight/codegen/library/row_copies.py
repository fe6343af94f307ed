"""Copies of dense rows that lie apart: one generated kernel for each number of dims, whatever the elements are.

Enters: rows of `length` bytes, of which `rows` are one distance apart in the source and another in the result, as often
as further dims say. Leaves: a `Kernel` with the usual ABI whose parallel range is runs of `run` rows, `runs` of which
are all that lie one distance apart. Refuses nothing.

A row is copied by two vectors of the largest size that fits, the second of which ends with the row; longer rows are
whole vectors and one such. As all rows have one length, each size has a loop of its own over the rows, with nothing in
it to decide. A nest cannot say this: it works in elements, and asks at every row what its length and strides are.
"""

from __future__ import annotations

from .kernel_text import TextKernel, numbers_text, operands_text, target_text

SIZES = (64, 32, 16, 8, 4, 2, 1)    # bytes of vectors


class RowCopy(TextKernel):
    """What the kernel cache asks of a nest; `outer`: dims around the rows."""

    name = "copy_rows"

    def __init__(self, outer: int) -> None:
        self.outer = outer
        around = [f"{p}{d}" for d in range(outer) for p in "nso"]
        self.params = ("length", "rows", "run", "runs", "in_row", "out_row", *around)

    def text(self, triple: str) -> str:
        return module_text(triple, self.params, self.outer)

    def __str__(self) -> str:
        return f"library kernel {self.name} within {self.outer} dims"


def module_text(triple: str, params: tuple[str, ...], outer: int) -> str:
    """LLVM IR of the kernel."""
    return f"""{target_text(triple)}
define void @copy_rows(ptr %ptrs, ptr %params, i64 %begin, i64 %end) {{
entry:
{operands_text(("base0", "base1"))}
{numbers_text(params)}
  br label %items
items:
  %item = phi i64 [ %begin, %entry ], [ %item_next, %item_done ]
  %more = icmp slt i64 %item, %end
  br i1 %more, label %start, label %finish
start:
  %which{outer} = sdiv i64 %item, %runs
  %run_at = mul i64 %which{outer}, %runs
  %number = sub i64 %item, %run_at
  %first = mul i64 %number, %run
  %left = sub i64 %rows, %first
  %is_full = icmp sge i64 %left, %run
  %count = select i1 %is_full, i64 %run, i64 %left
  %in_first = mul i64 %first, %in_row
  %out_first = mul i64 %first, %out_row
  %in{outer} = getelementptr i8, ptr %base0, i64 %in_first
  %out{outer} = getelementptr i8, ptr %base1, i64 %out_first
{places_text(outer)}
  %is_long = icmp sgt i64 %length, {2 * SIZES[0]}
  br i1 %is_long, label %long, label %try0
{long_text()}
{"".join(size_text(k, size) for k, size in enumerate(SIZES))}
item_done:
  %item_next = add i64 %item, 1
  br label %items
finish:
  ret void
}}
"""


def places_text(outer: int) -> str:
    """Where a run begins: %in0 and %out0, from places in the further dims, innermost first."""
    lines = []
    for d in range(outer - 1, -1, -1):
        at = f"%which{d + 1}"
        if d:
            lines += [
                f"  %which{d} = sdiv i64 {at}, %n{d}",
                f"  %whole{d} = mul i64 %which{d}, %n{d}",
                f"  %at{d} = sub i64 {at}, %whole{d}",
            ]
            at = f"%at{d}"
        for name, step in (("in", "s"), ("out", "o")):
            lines += [
                f"  %{name}_by{d} = mul i64 {at}, %{step}{d}",
                f"  %{name}{d} = getelementptr i8, ptr %{name}{d + 1}, i64 %{name}_by{d}",
            ]
    return "\n".join(lines)


def row_text(name: str) -> list[str]:
    """The head of a loop over the rows of a run."""
    return [
        f"{name}:",
        f"  %{name}.k = phi i64 [ 0, %{name}.first ], [ %{name}.k_next, %{name}.last ]",
        f"  %{name}.in = phi ptr [ %in0, %{name}.first ], [ %{name}.in_next, %{name}.last ]",
        f"  %{name}.out = phi ptr [ %out0, %{name}.first ], [ %{name}.out_next, %{name}.last ]",
    ]


def next_text(name: str) -> list[str]:
    """Its end."""
    return [
        f"  %{name}.k_next = add i64 %{name}.k, 1",
        f"  %{name}.in_next = getelementptr i8, ptr %{name}.in, i64 %in_row",
        f"  %{name}.out_next = getelementptr i8, ptr %{name}.out, i64 %out_row",
        f"  %{name}.going = icmp slt i64 %{name}.k_next, %count",
        f"  br i1 %{name}.going, label %{name}, label %item_done",
    ]


def size_text(k: int, size: int) -> str:
    """Rows of `size` to twice as many bytes, if they are that: two vectors each."""
    name, kind = f"rows{size}", f"<{size} x i8>" if size > 8 else f"i{8 * size}"
    test = [f"try{k}:", f"  %fits{k} = icmp sge i64 %length, {size}"]
    test.append(f"  br i1 %fits{k}, label %{name}.first, label %{f'try{k + 1}' if size > 1 else 'item_done'}")
    return "\n".join([
        *test,
        f"{name}.first:",
        f"  %{name}.behind = sub i64 %length, {size}",
        f"  br label %{name}",
        *row_text(name),
        f"  br label %{name}.last",
        f"{name}.last:",
        f"  %{name}.in_behind = getelementptr i8, ptr %{name}.in, i64 %{name}.behind",
        f"  %{name}.out_behind = getelementptr i8, ptr %{name}.out, i64 %{name}.behind",
        f"  %{name}.a = load {kind}, ptr %{name}.in, align 1",
        f"  %{name}.b = load {kind}, ptr %{name}.in_behind, align 1",
        f"  store {kind} %{name}.a, ptr %{name}.out, align 1",
        f"  store {kind} %{name}.b, ptr %{name}.out_behind, align 1",
        *next_text(name),
        "",
    ])


def long_text() -> str:
    """Rows of more than two of the largest vectors."""
    size, kind = SIZES[0], f"<{SIZES[0]} x i8>"
    move = [
        "  %in_there = getelementptr i8, ptr %all.in, i64 %there",
        "  %out_there = getelementptr i8, ptr %all.out, i64 %there",
        f"  %long_value = load {kind}, ptr %in_there, align 1",
        f"  store {kind} %long_value, ptr %out_there, align 1",
    ]
    return "\n".join([
        "long:",
        f"  %behind = sub i64 %length, {size}",
        "  br label %all.first",
        "all.first:",
        "  br label %all",
        *row_text("all"),
        "  br label %vectors",
        "vectors:",
        "  %there = phi i64 [ 0, %all ], [ %there_next, %vectors ]",
        *move,
        f"  %there_next = add i64 %there, {size}",
        "  %is_whole = icmp slt i64 %there_next, %behind",
        "  br i1 %is_whole, label %vectors, label %all.last",
        "all.last:",
        "  %in_behind = getelementptr i8, ptr %all.in, i64 %behind",
        "  %out_behind = getelementptr i8, ptr %all.out, i64 %behind",
        f"  %last_value = load {kind}, ptr %in_behind, align 1",
        f"  store {kind} %last_value, ptr %out_behind, align 1",
        *next_text("all"),
    ])
