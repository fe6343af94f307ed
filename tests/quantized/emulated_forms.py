"""Instructions of byte products spelled out in plain LLVM IR, so that kernels over them run on every processor."""

from __future__ import annotations

from rushlight.codegen.library.products.byte_forms import ByteForm
from rushlight.codegen.text.writer import Reg, Writer


def emulated(form: ByteForm) -> ByteForm:
    """The same record, calling a function that `definition` writes."""
    return form.but(call=f"emulated_{form.name}" if form.call else "", feature="")


def definition(form: ByteForm) -> str:
    """What the instruction does, lane by lane; in place of its declaration."""
    if not form.call:
        return ""
    is_words = form.name.startswith("words")
    given = [(form.factors, "x"), (form.factors, "y")]
    w = Writer(form.call, given if is_words else [(form.sums, "total"), *given], "internal ")
    narrow = form.factors if is_words else form.bytes
    count = int(narrow.strip("<").split()[0])
    wide = f"<{count} x i32>"
    how = ("sext" if is_words or form.signed else "zext", "sext")
    x, y = (
        w.new(wide, f"{h} {w.new(narrow, f'bitcast {w[name]} to {narrow}')} to {wide}")
        for name, h in zip("xy", how, strict=True)
    )
    total = Reg("zeroinitializer", form.sums) if is_words else w["total"]
    group = 2 if is_words else form.group
    for u in range(group):
        if form.is_square:
            left = w.shuffle(x, x, [row * group + u for row in (0, 0, 1, 1)])
            right = w.shuffle(y, y, [column * group + u for column in (0, 1, 0, 1)])
        else:
            left, right = (w.every(t, group, form.lanes, u) for t in (x, y))
        total = w.add(total, w.mul(left, right))
    text = w.text().replace("define internal void", f"define internal {form.sums}")
    return text.replace("ret void", f"ret {Reg(total.text, form.sums)}") + "\n"
