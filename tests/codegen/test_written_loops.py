"""Loops written by hand are compiled without a search for other addresses; those of nests are not."""

from __future__ import annotations

from rushlight.codegen import only_calls_tiles
from rushlight.codegen.llvm.cpu import compile_ir, resolve_target
from rushlight.loops.expr import const, load, var
from rushlight.loops.nest import BEGIN, Nest, Pack, Store, operands, rows

ZERO = const(0, "i64")

# Four arrays walked by one number: the search replaces the multiplication by sums of addresses.
LOOP = """
define void @walk(ptr %a, ptr %b, i64 %n, i64 %step) {
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %at = mul i64 %i, %step
  %p = getelementptr float, ptr %a, i64 %at
  %q = getelementptr float, ptr %b, i64 %at
  %x = load float, ptr %p
  store float %x, ptr %q
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""


def test_addresses_of_written_loops_stay_as_they_are() -> None:
    target = resolve_target("aarch64")
    nest, written = (compile_ir(LOOP, target, "asm", by_hand=by_hand) for by_hand in (False, True))
    assert "mul" not in nest and "mul" in written
    assert compile_ir(LOOP, target, "asm") == nest      # the option is put back


def test_other_processors_are_compiled_as_before() -> None:
    target = resolve_target("x86-64-avx512")
    assert compile_ir(LOOP, target, "asm", by_hand=True) == compile_ir(LOOP, target, "asm")


def test_loops_around_tiles_are_compiled_with_less_effort() -> None:
    """Addresses of tiles are computed as they are written; what computes elements is compiled with all effort."""
    pack = Pack(0, BEGIN, const(1, "i64"), const(9, "i64"), 1, ZERO, ZERO, const(12, "i64"), const(4, "i64"),
                const(1, "i64"), 12)
    copies = Store(1, var("i"), load(0, var("i"), "f32"))
    computes = Store(1, var("i"), load(0, var("i"), "f32") + const(1.0, "f32"))
    of_tiles, with_copies, with_sums, of_points = (
        Nest("some", operands(["f32"], ["f32"]), (), rows(*body))
        for body in ([pack], [pack, copies], [pack, computes], [copies])
    )
    assert only_calls_tiles(of_tiles) and only_calls_tiles(with_copies)
    assert not only_calls_tiles(with_sums) and not only_calls_tiles(of_points)

    target = resolve_target("aarch64")
    text = LOOP.replace("  %next", "  %unused = mul i64 %at, 7\n  %next")
    assert compile_ir(text, target, "asm", only_calls=True) != compile_ir(text, target, "asm")
    assert "sp" not in compile_ir(text, target, "asm", only_calls=True)      # nothing waits in memory
