"""The program that runs kernels: it maps the memory it shares with the host, and then does what its input says.

Enters: where that memory lies and what it is called. Leaves: a program for RISC-V, from LLVM IR, with system calls of
its own and no library. Its input is records: a length, and as many bytes, which begin with the address of a function,
the four arguments of a kernel; what these point to may be behind them. Two functions are the server's own: `reply`
answers with a byte, and `mark` writes the time down.
"""

from __future__ import annotations

from rushlight.codegen.llvm.cpu import compile_ir
from rushlight.codegen.text.targets import Target

from .link import executable

TEXT = """target triple = "{triple}"
; ecall, ret: the number of a system call is its eighth argument, which is where Linux looks for it
@ecall = private constant [2 x i32] [i32 115, i32 32871], section ".ecall", align 4

define i64 @call(i64 %number, i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %f) nounwind {{
  %r = call i64 @ecall(i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %f, i64 0, i64 %number)
  ret i64 %r
}}

define void @reply(ptr %ptrs, ptr %params, i64 %begin, i64 %end) nounwind {{
  %r = call i64 @call(i64 64, i64 1, i64 {record}, i64 1, i64 0, i64 0, i64 0)      ; write to standard output
  ret void
}}

define void @mark(ptr %ptrs, ptr %params, i64 %begin, i64 %end) nounwind {{
  %r = call i64 @call(i64 113, i64 1, i64 %begin, i64 0, i64 0, i64 0, i64 0)       ; clock_gettime, monotonic
  ret void
}}

define void @fill(i64 %at, i64 %count) nounwind {{
entry:
  br label %more
more:
  %done = phi i64 [ 0, %entry ], [ %next, %some ]
  %to = add i64 %at, %done
  %left = sub i64 %count, %done
  %got = call i64 @call(i64 63, i64 0, i64 %to, i64 %left, i64 0, i64 0, i64 0)     ; read from standard input
  %ended = icmp sle i64 %got, 0
  br i1 %ended, label %exit, label %some
exit:
  %r = call i64 @call(i64 93, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  unreachable
some:
  %next = add i64 %done, %got
  %is_short = icmp slt i64 %next, %count
  br i1 %is_short, label %more, label %full
full:
  ret void
}}

define void @_start() nounwind {{
entry:
  %m = call i64 @call(i64 222, i64 {base}, i64 {size}, i64 7, i64 17, i64 {file}, i64 0)    ; mmap, shared and fixed
  br label %next
next:
  call void @fill(i64 {record}, i64 8)
  %count = load volatile i64, ptr inttoptr (i64 {record} to ptr)
  call void @fill(i64 {record}, i64 %count)
  %record = load volatile {{ ptr, ptr, ptr, i64, i64 }}, ptr inttoptr (i64 {record} to ptr)
  %function = extractvalue {{ ptr, ptr, ptr, i64, i64 }} %record, 0
  %ptrs = extractvalue {{ ptr, ptr, ptr, i64, i64 }} %record, 1
  %params = extractvalue {{ ptr, ptr, ptr, i64, i64 }} %record, 2
  %begin = extractvalue {{ ptr, ptr, ptr, i64, i64 }} %record, 3
  %end = extractvalue {{ ptr, ptr, ptr, i64, i64 }} %record, 4
  store volatile ptr %function, ptr inttoptr (i64 {running} to ptr)
  call void %function(ptr %ptrs, ptr %params, i64 %begin, i64 %end)
  store volatile i64 0, ptr inttoptr (i64 {running} to ptr)
  br label %next
}}
"""


def program(target: Target, file: int, base: int, size: int, running: int, record: int) -> tuple[bytes, dict[str, int]]:
    """The server as an executable file, and the addresses of its functions. `file` is the descriptor of the memory,
    `base` and `size` where it goes; `running` and `record` are places in it: of the function that runs, and of the
    record that says so."""
    text = TEXT.format(triple=target.triple, file=file, base=base, size=size, running=running, record=record)
    return executable(compile_ir(text, target), 0x10000)
