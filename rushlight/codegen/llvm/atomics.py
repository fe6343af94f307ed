"""Elements that several threads of a GPU change at once.

Enters: stores that combine, of a `Lowering` for a GPU. Leaves: instructions that change an element in one step, or
loops that exchange it until no other thread came between. Refuses: types the machine does not exchange.
"""

from __future__ import annotations

from ...loops.nest import THERE, Store
from ..text import primitives as p
from ..text.registers import Reg
from .vectorize import Addressing


class Atomics(Addressing):
    """The part of a lowering that writes such stores."""

    def combine_atomically(self, s: Store, reg: Reg) -> None:
        code, lines = reg.code, self.scopes[-1].lines
        kind = "f" if code in ("f32", "f64") else "" if s.combine in ("add", "mul") else "u" if code[0] == "u" else ""
        has_instruction = code[1:] in ("32", "64") and (s.combine == "add" or (s.combine != "mul" and kind != "f"))
        if not has_instruction:
            raise NotImplementedError(f"codegen: no atomic {s.combine} of {code} on {self.target.name}")
        offset, _, step_type = self.place(s.operand, s.index)
        pointer = self.scalar_address(s.operand, self.evaluate(offset), step_type, self.scopes[-1].depth)
        ty = p.type_of(code, 0)
        self.out.emit(lines, f"atomicrmw {kind}{s.combine} ptr {pointer}, {ty} {reg.parts[0]} monotonic")

    def swap(self, s: Store) -> None:
        """An element replaced by what is computed from it, anew until no other thread came between. Where nothing
        changes nothing is written: of many that meet, few are the largest so far."""
        here, code = self.scopes[-1], s.value.dtype
        if here.loop is not None or code not in p.SIZE or code in p.PARTS:
            raise NotImplementedError(f"codegen: no swap of {code} here")
        offset, _, step_type = self.place(s.operand, s.index)
        pointer = self.scalar_address(s.operand, self.evaluate(offset), step_type, here.depth)
        size, scope_of = p.SIZE[code], 'syncscope("device")'
        bits, own = f"i{8 * size}", p.REGISTER[code]
        first = self.out.emit(here.lines, f"load atomic {bits}, ptr {pointer} {scope_of} monotonic, align {size}")
        top, trying, after = self.out.label(), self.out.label(), self.out.label()
        found, seen = self.out.fresh(), self.out.fresh()
        scope = self.push(top)
        there = found if own == bits else self.out.emit(scope.lines, f"bitcast {bits} {found} to {own}")
        self.env[THERE] = Reg(code, 0, [there], scope.depth)
        value = self.evaluate(s.value).parts[0]
        made = value if own == bits else self.out.emit(scope.lines, f"bitcast {own} {value} to {bits}")
        same = self.out.emit(scope.lines, f"icmp eq {bits} {made}, {found}")
        self.pop()
        self.env.pop(THERE)
        self.forget({THERE})
        here.lines += [
            f"  br label %{top}", f"{top}:",
            f"  {found} = phi {bits} [ {first}, %{here.label} ], [ {seen}, %{trying} ]",
            *scope.lines, f"  br i1 {same}, label %{after}, label %{trying}", f"{trying}:",
        ]
        exchanged = f"cmpxchg ptr {pointer}, {bits} {found}, {bits} {made} {scope_of} monotonic monotonic"
        pair = self.out.emit(here.lines, exchanged)
        here.lines.append(f"  {seen} = extractvalue {{ {bits}, i1 }} {pair}, 0")
        done = self.out.emit(here.lines, f"extractvalue {{ {bits}, i1 }} {pair}, 1")
        here.lines += [f"  br i1 {done}, label %{after}, label %{top}", f"{after}:"]
        here.label = after
