"""The driver: a plan as LLVM IR that calls its kernels one after the other, with plain pointers and numbers.

Enters: members (plans, each with the sizes it holds for), layouts, and the functions of the kernels. Leaves: the text
of a module with `<name>_run` and `<name>_workspace_size`. A member begins by checking that it holds for the sizes of
the call; the first that does runs. No memory is asked for, nothing is called but kernels.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from ..op.extents import Extent, Trace
from ..op.step import Step
from .layout import ALIGNMENT, Layout

COMPARE = {"==": "eq", "!=": "ne", "<": "slt", "<=": "sle"}
PLAIN = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "<<": "shl", ">>": "ashr"}
SIGNATURE = "ptr %weights, ptr %workspace, ptr %inputs, ptr %outputs, ptr %dims, ptr %space"
GIVEN = "ptr %weights, ptr %workspace, ptr %inputs, ptr %outputs, ptr %dims"

HELPERS = """
define internal i64 @rl_floordiv(i64 %a, i64 %b) {
  %q = sdiv i64 %a, %b
  %r = srem i64 %a, %b
  %x = xor i64 %r, %b
  %neg = icmp slt i64 %x, 0
  %some = icmp ne i64 %r, 0
  %both = and i1 %neg, %some
  %one = zext i1 %both to i64
  %s = sub i64 %q, %one
  ret i64 %s
}
define internal i64 @rl_mod(i64 %a, i64 %b) {
  %q = call i64 @rl_floordiv(i64 %a, i64 %b)
  %m = mul i64 %q, %b
  %s = sub i64 %a, %m
  ret i64 %s
}
define internal void @rl_copy(ptr %to, ptr %from, i64 %size) {
entry:
  %some = icmp sgt i64 %size, 0
  br i1 %some, label %l, label %done
l:
  %i = phi i64 [ 0, %entry ], [ %n, %l ]
  %p = getelementptr i8, ptr %from, i64 %i
  %q = getelementptr i8, ptr %to, i64 %i
  %v = load i8, ptr %p
  store i8 %v, ptr %q
  %n = add nuw nsw i64 %i, 1
  %c = icmp slt i64 %n, %size
  br i1 %c, label %l, label %done
done:
  ret void
}
"""


class Member:
    """A plan: its slots and steps, where they lie, and how its numbers follow from the dims of a call."""

    def __init__(self, steps: Sequence[Step], layout: Layout, weights: dict[int, int], trace: Trace | None,
                 given: Sequence[Any]) -> None:
        self.steps, self.layout, self.weights, self.trace, self.given = steps, layout, weights, trace, given


class Driver:
    """Writes the text."""

    def __init__(self, name: str, kernels: dict[int, str], triple: str, limits: Sequence[tuple[int, int]]) -> None:
        self.name, self.kernels, self.triple, self.limits = name, kernels, triple, limits
        self.globals: list[str] = []
        self.constants: dict[bytes, str] = {}
        self.functions: list[str] = []

    def text(self, members: Sequence[Member]) -> str:
        for number, member in enumerate(members):
            self.functions.append(_Function(self, member, number).text())
        declared = "\n".join(f"declare void @{f}(ptr, ptr, i64, i64)" for f in sorted(set(self.kernels.values())))
        return "\n".join([
            f'target triple = "{self.triple}"', *self.globals, declared, HELPERS, *self.functions,
            self.entry(len(members)), self.size(),
        ])

    def constant(self, data: bytes, kind: str) -> str:
        """The name of constant bytes."""
        key = kind.encode() + data
        if key not in self.constants:
            name = f"@rl_c{len(self.constants)}"
            body = "".join(f"\\{b:02x}" for b in data)
            self.globals.append(f'{name} = private unnamed_addr constant [{len(data)} x i8] c"{body}", align 16')
            self.constants[key] = name
        return self.constants[key]

    def entry(self, count: int) -> str:
        lines = [f"define i32 @{self.name}_run({GIVEN}) {{", "entry:", "  br label %try0"]
        for k in range(count):
            lines += [
                f"try{k}:",
                f"  %r{k} = call i32 @{self.name}_plan{k}({GIVEN}, ptr null)",
                f"  %no{k} = icmp eq i32 %r{k}, 1",
                f"  br i1 %no{k}, label %{f'try{k + 1}' if k + 1 < count else 'none'}, label %ok{k}",
                f"ok{k}:", f"  ret i32 %r{k}",
            ]
        return "\n".join([*lines, "none:", "  ret i32 1", "}"])

    def size(self) -> str:
        count, nothing = len(self.functions), ", ".join(["ptr null"] * 4)
        lines = [f"define i64 @{self.name}_workspace_size(ptr %dims) {{", "entry:", "  %space = alloca i64",
                 "  store i64 -1, ptr %space", "  br label %try0"]
        for k in range(count):
            lines += [
                f"try{k}:",
                f"  %r{k} = call i32 @{self.name}_plan{k}({nothing}, ptr %dims, ptr %space)",
                f"  %no{k} = icmp eq i32 %r{k}, 1",
                f"  br i1 %no{k}, label %{f'try{k + 1}' if k + 1 < count else 'done'}, label %done",
            ]
        return "\n".join([*lines, "done:", "  %s = load i64, ptr %space", "  ret i64 %s", "}"])


class _Function:
    """One member as a function: 0 when it ran, 1 when it does not hold for the dims, 2 and more for bad values."""

    def __init__(self, driver: Driver, member: Member, number: int) -> None:
        self.driver, self.member, self.number = driver, member, number
        self.lines: list[str] = []
        self.count = 0
        self.registers: dict[int, str] = {}
        self.bins: list[str] = []

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def put(self, text: str) -> str:
        name = self.fresh()
        self.lines.append(f"  {name} = {text}")
        return name

    def text(self) -> str:
        head = f"define internal i32 @{self.driver.name}_plan{self.number}({SIGNATURE}) {{\nentry:"
        most = max([len(s.operands) for s in self.member.steps], default=1) or 1
        width = max([len(s.params) for s in self.member.steps], default=1) or 1
        self.lines += [f"  %ptrs = alloca ptr, i32 {most}", f"  %numbers = alloca i64, i32 {width}"]
        self.compute()
        self.workspace()
        for at, step in enumerate(self.member.steps):
            self.step(at, step)
        for copy in self.member.layout.copies:
            source = self.offset(self.pointer(copy.slot), copy.offset)
            target = self.loaded("%outputs", copy.output)
            self.lines.append(f"  call void @rl_copy(ptr {target}, ptr {source}, i64 {self.number_of(copy.size)})")
        return "\n".join([head, *self.lines, "  ret i32 0", "no:", "  ret i32 1", "}"])

    # --- numbers ------------------------------------------------------------------------------------------------------

    def number_of(self, n: Any) -> str:
        return self.registers[n.register] if isinstance(n, Extent) else str(int(n))

    def compute(self) -> None:
        """The registers of the trace; conditions that do not hold end the function."""
        trace = self.member.trace
        if trace is None:
            return
        for k, (low, high) in enumerate(self.driver.limits):
            own = self.dim(k)
            for n, (relation, limit) in enumerate((("sge", low), ("sle", high))):
                held, label = self.put(f"icmp {relation} i64 {own}, {limit}"), f"l{k}_{n}"
                self.lines += [f"  br i1 {held}, label %{label}, label %no", f"{label}:"]
        for k, entry in enumerate(self.member.given):
            self.registers[k] = entry(self) if callable(entry) else str(entry)
        for k, step in enumerate(trace.steps):
            if step is None:
                continue
            name, *parts = step
            a, b = (str(p[0]) if isinstance(p, tuple) else self.registers[p] for p in parts)
            if name in COMPARE:
                held, label = self.put(f"icmp {COMPARE[name]} i64 {a}, {b}"), f"c{k}"
                self.lines += [f"  br i1 {held}, label %{label}, label %no", f"{label}:"]
            elif name in PLAIN:
                self.registers[k] = self.put(f"{PLAIN[name]} i64 {a}, {b}")
            elif name in ("//", "%"):
                helper = "rl_floordiv" if name == "//" else "rl_mod"
                self.registers[k] = self.put(f"call i64 @{helper}(i64 {a}, i64 {b})")
            else:
                less = self.put(f"icmp slt i64 {a}, {b}")
                first, second = (a, b) if name == "min" else (b, a)
                self.registers[k] = self.put(f"select i1 {less}, i64 {first}, i64 {second}")

    def dim(self, index: int) -> str:
        """A dim of the call."""
        at = self.put(f"getelementptr i64, ptr %dims, i64 {index}")
        return self.put(f"load i64, ptr {at}, align 8")

    def times(self, a: str, b: str) -> str:
        if a.isdigit() and b.isdigit():
            return str(int(a) * int(b))
        return self.put(f"mul i64 {a}, {b}")

    # --- memory -------------------------------------------------------------------------------------------------------

    def workspace(self) -> None:
        """Where each bin begins; a call that asks for the size alone ends here."""
        total = "0"
        for sizes in self.member.layout.bins:
            self.bins.append(total)
            fixed = max([n for n in sizes if not isinstance(n, Extent)], default=0)
            largest = str(fixed)
            for n in sizes:
                if isinstance(n, Extent):
                    own = self.number_of(n)
                    more = self.put(f"icmp sgt i64 {own}, {largest}")
                    largest = self.put(f"select i1 {more}, i64 {own}, i64 {largest}")
            total = self.aligned(total, largest)
        asks = self.put("icmp ne ptr %space, null")
        self.lines += [f"  br i1 {asks}, label %tell, label %go", "tell:", f"  store i64 {total}, ptr %space",
                       "  ret i32 0", "go:"]

    def aligned(self, begin: str, size: str) -> str:
        if begin.isdigit() and size.isdigit():
            return str(-(-(int(begin) + int(size)) // ALIGNMENT) * ALIGNMENT)
        end = self.put(f"add i64 {begin}, {size}")
        up = self.put(f"add i64 {end}, {ALIGNMENT - 1}")
        return self.put(f"and i64 {up}, {-ALIGNMENT}")

    def loaded(self, array: str, index: int) -> str:
        at = self.put(f"getelementptr ptr, ptr {array}, i64 {index}")
        return self.put(f"load ptr, ptr {at}")

    def offset(self, pointer: str, amount: Any) -> str:
        number = self.number_of(amount)
        return pointer if number == "0" else self.put(f"getelementptr i8, ptr {pointer}, i64 {number}")

    def pointer(self, slot: int) -> str:
        home = self.member.layout.homes[slot]
        if home.kind == "input":
            return self.loaded("%inputs", home.index)
        if home.kind == "output":
            return self.loaded("%outputs", home.index)
        if home.kind == "weight":
            return self.put(f"getelementptr i8, ptr %weights, i64 {self.member.weights[home.index]}")
        begin = self.bins[home.index]
        return "%workspace" if begin == "0" else self.put(f"getelementptr i8, ptr %workspace, i64 {begin}")

    # --- steps --------------------------------------------------------------------------------------------------------

    def step(self, at: int, step: Step) -> None:
        error, extent = step.error, step.extent
        constants = self.driver.constant(step.constants, "c") if step.constants else ""
        cell = ""
        for k, operand in enumerate(step.operands):
            slot, start = operand if isinstance(operand, tuple) else (operand, 0)
            pointer = self.offset(constants, start) if slot < 0 else self.offset(self.pointer(slot), start)
            if slot == error and slot >= 0:
                cell = pointer
            place = self.put(f"getelementptr ptr, ptr %ptrs, i64 {k}")
            self.lines.append(f"  store ptr {pointer}, ptr {place}")
        if error >= 0:
            cell = cell or self.pointer(error)
            self.lines.append(f"  store i64 0, ptr {cell}, align 8")
        numbers = self.numbers(step.params)
        function, count = self.driver.kernels[step.kernel], self.number_of(extent)
        if isinstance(extent, Extent):
            some = self.put(f"icmp sgt i64 {count}, 0")
            self.lines += [f"  br i1 {some}, label %s{at}, label %e{at}", f"s{at}:"]
        elif int(extent) <= 0:
            return
        self.lines.append(f"  call void @{function}(ptr %ptrs, ptr {numbers}, i64 0, i64 {count})")
        if isinstance(extent, Extent):
            self.lines += [f"  br label %e{at}", f"e{at}:"]
        if error >= 0:
            code = self.put(f"load i64, ptr {cell}, align 8")
            bad = self.put(f"icmp ne i64 {code}, 0")
            self.lines += [f"  br i1 {bad}, label %bad{at}, label %fine{at}", f"bad{at}:", "  ret i32 2", f"fine{at}:"]

    def numbers(self, params: Sequence[Any]) -> str:
        """The parameters of a kernel: constants where they are, computed otherwise."""
        if not any(isinstance(p, Extent) for p in params):
            data = b"".join(struct.pack("<q", _signed(int(p))) for p in params) or bytes(8)
            return self.driver.constant(data, "p")
        for k, p in enumerate(params):
            place = self.put(f"getelementptr i64, ptr %numbers, i64 {k}")
            self.lines.append(f"  store i64 {self.number_of(p)}, ptr {place}")
        return "%numbers"


def _signed(n: int) -> int:
    return n - (1 << 64) if n >= 1 << 63 else n


Given = Callable[[_Function], str]
