"""Loops written by hand are compiled without a search for other addresses; those of nests are not."""

from __future__ import annotations

from rushlight.codegen.cpu import compile_ir, resolve_target

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
