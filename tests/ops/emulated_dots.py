"""Dot-product instructions spelled out in plain LLVM IR, so that kernels over them run on processors without them."""

from __future__ import annotations

from rushlight.codegen.library.products.dot_instructions import Dots
from rushlight.codegen.text.writer import Reg, Writer

# What processors without an instruction for it call to round to bfloat16.
ROUND = """define bfloat @__truncsfbf2(float %x) {
  %bits = bitcast float %x to i32
  %high = lshr i32 %bits, 16
  %odd = and i32 %high, 1
  %half = add i32 %odd, 32767
  %sum = add i32 %bits, %half
  %top = lshr i32 %sum, 16
  %short = trunc i32 %top to i16
  %result = bitcast i16 %short to bfloat
  ret bfloat %result
}
"""


def emulated(dots: Dots) -> Dots:
    """The same record, calling a function that `definition` writes."""
    return dots.but(call=f"emulated_{dots.name}", feature="")


def definition(dots: Dots) -> str:
    """What the instruction does, lane by lane; in place of its declaration."""
    w = Writer(dots.call, [(dots.sums, "total"), (dots.factors, "x"), (dots.factors, "y")], "internal ")
    count = dots.lanes * 4 // dots.size
    wide = f"<{count} x {dots.element}>"
    narrow = f"<{count} x {'i8' if dots.code == 'i8' else 'bfloat'}>"
    widen = ("zext" if dots.flips else "sext", "sext") if dots.code == "i8" else ("fpext", "fpext")
    x, y = (
        w.new(wide, f"{how} {w.new(narrow, f'bitcast {w[name]} to {narrow}')} to {wide}")
        for name, how in zip("xy", widen, strict=True)
    )
    total = w["total"]
    multiply, add = ("mul", "add") if dots.code == "i8" else ("fmul", "fadd")
    for u in range(dots.group):
        if dots.form == "square":
            left = w.shuffle(x, x, [row * dots.group + u for row in (0, 0, 1, 1)])
            right = w.shuffle(y, y, [column * dots.group + u for column in (0, 1, 0, 1)])
        else:
            left, right = (w.every(t, dots.group, dots.lanes, u) for t in (x, y))
        total = w.binary(add, total, w.binary(multiply, left, right))
    text = w.text().replace("define internal void", f"define internal {dots.sums}")
    rounding = ROUND if dots.code == "bf16" else ""
    return text.replace("ret void", f"ret {Reg(total.text, dots.sums)}") + "\n" + rounding
