"""Running sums of long rows: prefixes within a register, chunk after chunk.

Enters: rows of float32 or float64, and a form: "whole" rows, one chunk after the other; "folds", the sum of each chunk;
"walks", each chunk from a state that is given. Leaves: a `Kernel` with the usual ABI; sums are float64. All forms add
in the same order, so how many threads there are changes nothing.

Loop nests have no notion of moving lanes, so this kernel is written as LLVM IR text. A register of elements is added to
itself, moved by one lane, by two, by four: what is before it comes in with one more addition, which alone waits for the
register before.
"""

from __future__ import annotations

from ..text.targets import vector_bits
from .kernel_text import TextKernel, numbers_text, operands_text, target_text

PARAMS = ("length", "chunks", "row")
TYPES = {"f32": "float", "f64": "double"}
UNROLL = 2


class PrefixSums(TextKernel):
    """What the kernel cache asks of a nest: a name, parameters and a digest."""

    params = PARAMS

    def __init__(self, code: str, form: str, chunk: int) -> None:
        self.code, self.form, self.chunk = code, form, chunk
        self.name = f"prefix_sums_{form}"

    def text(self, triple: str) -> str:
        return module_text(triple, self.code, self.form, self.chunk, lanes_of())

    def __str__(self) -> str:
        return f"library kernel {self.name} of {self.code}"


def lanes_of() -> int:
    """Sums side by side: a register of them; two where registers are short."""
    return max(vector_bits() // 64, 4)


def module_text(triple: str, code: str, form: str, chunk: int, lanes: int) -> str:
    """LLVM IR of the kernel."""
    body = {"whole": _WHOLE, "folds": _FOLDS, "walks": _WALKS}[form]
    operands = {"whole": ("x", "y"), "folds": ("x", "states"), "walks": ("x", "states", "y")}[form]
    return f"""{target_text(triple)}
{chunk_text(code, lanes, form != "folds")}
define void @prefix_sums_{form}(ptr %ptrs, ptr %params, i64 %begin, i64 %end) {{
entry:
{operands_text(operands)}
{numbers_text(PARAMS)}
  br label %items
{body.replace("CHUNK", str(chunk)).replace("TYPE", TYPES[code])}
finish:
  ret void
}}
"""


_ITEMS = """items:
  %item = phi i64 [ %begin, %entry ], [ %item_next, %item_done ]
  %more = icmp slt i64 %item, %end
  br i1 %more, label %one, label %finish
"""
_PLACES = """  %start = mul i64 %c, CHUNK
  %left = sub i64 %length, %start
  %is_whole = icmp sge i64 %left, CHUNK
  %n = select i1 %is_whole, i64 CHUNK, i64 %left
  %x_row = mul i64 %which, %row
  %x_at = add i64 %x_row, %start
  %x_here = getelementptr TYPE, ptr %x, i64 %x_at
"""
_RESULTS = """  %y_row = mul i64 %which, %length
  %y_at = add i64 %y_row, %start
  %y_here = getelementptr TYPE, ptr %y, i64 %y_at
"""
_WHOLE = f"""{_ITEMS}one:
  %which = add i64 %item, 0
  br label %each
each:
  %c = phi i64 [ 0, %one ], [ %c_next, %each ]
  %now = phi double [ 0.0, %one ], [ %then, %each ]
{_PLACES}{_RESULTS}  %sum = call double @prefix_sums_chunk(ptr %x_here, ptr %y_here, i64 %n, double %now)
  %then = fadd double %now, %sum
  %c_next = add i64 %c, 1
  %again = icmp slt i64 %c_next, %chunks
  br i1 %again, label %each, label %item_done
item_done:
  %item_next = add i64 %item, 1
  br label %items
"""
_ONE = f"""{_ITEMS}one:
  %which = sdiv i64 %item, %chunks
  %c = srem i64 %item, %chunks
  %state = getelementptr double, ptr %states, i64 %item
{_PLACES}"""
_FOLDS = f"""{_ONE}  %sum = call double @prefix_sums_chunk(ptr %x_here, ptr null, i64 %n, double 0.0)
  store double %sum, ptr %state
  br label %item_done
item_done:
  %item_next = add i64 %item, 1
  br label %items
"""
_WALKS = f"""{_ONE}{_RESULTS}  %now = load double, ptr %state
  %sum = call double @prefix_sums_chunk(ptr %x_here, ptr %y_here, i64 %n, double %now)
  br label %item_done
item_done:
  %item_next = add i64 %item, 1
  br label %items
"""


def chunk_text(code: str, lanes: int, stores: bool) -> str:
    """A function that gives the sum of a chunk and, with `stores`, writes its running sums from `now` on."""
    element, vector, wide = TYPES[code], f"<{lanes} x {TYPES[code]}>", f"<{lanes} x double>"
    size = 4 if code == "f32" else 8
    zeros = ", ".join(["i32 0"] * lanes)
    lines = []
    before = "%s"
    for u in range(UNROLL):
        lines += [f"  %at{u} = add i64 %i, {u * lanes}", f"  %p{u} = getelementptr {element}, ptr %x, i64 %at{u}",
                  f"  %v{u} = load {vector}, ptr %p{u}, align {size}"]
        now = f"%v{u}"
        if code == "f32":
            lines.append(f"  %d{u} = fpext {vector} %v{u} to {wide}")
            now = f"%d{u}"
        step = 1
        while step < lanes:
            mask = ", ".join(f"i32 {k if k < step else lanes + k - step}" for k in range(lanes))
            lines += [
                f"  %t{u}_{step} = shufflevector {wide} zeroinitializer, {wide} {now}, <{lanes} x i32> <{mask}>",
                f"  %d{u}_{step} = fadd {wide} {now}, %t{u}_{step}",
            ]
            now, step = f"%d{u}_{step}", 2 * step
        last = ", ".join([f"i32 {lanes - 1}"] * lanes)
        lines += [f"  %last{u} = shufflevector {wide} {now}, {wide} poison, <{lanes} x i32> <{last}>",
                  f"  %s{u} = fadd {wide} {before}, %last{u}"]
        if stores:
            lines += [f"  %own{u} = fadd {wide} {now}, {before}", f"  %y{u} = fadd {wide} %own{u}, %nows",
                      f"  %q{u} = getelementptr {element}, ptr %y, i64 %at{u}"]
            value = f"%y{u}"
            if code == "f32":
                lines.append(f"  %n{u} = fptrunc {wide} %y{u} to {vector}")
                value = f"%n{u}"
            lines.append(f"  store {vector} {value}, ptr %q{u}, align {size}")
        before = f"%s{u}"
    each = "\n".join(lines)
    read = f"  %e = load {element}, ptr %pe, align {size}\n"
    read += "  %ed = fpext float %e to double" if code == "f32" else "  %ed = fadd double %e, -0.0"
    write = "" if not stores else (
        f"  %ye = fadd double %r_next, %now\n  %qe = getelementptr {element}, ptr %y, i64 %k\n"
        + ("  %ne = fptrunc double %ye to float\n  store float %ne, ptr %qe, align 4" if code == "f32"
           else "  store double %ye, ptr %qe, align 8"))
    return f"""
define internal double @prefix_sums_chunk(ptr %x, ptr %y, i64 %n, double %now) {{
entry:
  %now0 = insertelement {wide} poison, double %now, i32 0
  %nows = shufflevector {wide} %now0, {wide} poison, <{lanes} x i32> <{zeros}>
  %groups = sdiv i64 %n, {lanes * UNROLL}
  %whole = mul i64 %groups, {lanes * UNROLL}
  %any = icmp sgt i64 %whole, 0
  br i1 %any, label %loop, label %rest
loop:
  %i = phi i64 [ 0, %entry ], [ %i_next, %loop ]
  %s = phi {wide} [ zeroinitializer, %entry ], [ {before}, %loop ]
{each}
  %i_next = add i64 %i, {lanes * UNROLL}
  %more = icmp slt i64 %i_next, %whole
  br i1 %more, label %loop, label %rest
rest:
  %all = phi {wide} [ zeroinitializer, %entry ], [ {before}, %loop ]
  %sum = extractelement {wide} %all, i32 0
  br label %check
check:
  %k = phi i64 [ %whole, %rest ], [ %k_next, %single ]
  %r = phi double [ %sum, %rest ], [ %r_next, %single ]
  %is_left = icmp slt i64 %k, %n
  br i1 %is_left, label %single, label %done
single:
  %pe = getelementptr {element}, ptr %x, i64 %k
{read}
  %r_next = fadd double %r, %ed
{write}
  %k_next = add i64 %k, 1
  br label %check
done:
  ret double %r
}}
"""
