"""Loops that the work items of a group share, and elements that several work items change at once.

Enters: nests whose loops nvptx/lower.py says how to divide, in a language with work items. Leaves: text in which
neighbouring items take neighbouring elements, members of a group meet at barriers and join their partial results in the
group's memory, and elements are exchanged until nobody came between.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...loops.expr import BITS, BUILD, FLOATS, PART, Value, var
from ...loops.nest import THERE, For, Local, Reduce, Store
from ..nvptx.lower import POINTS, ROWS
from .statements import Statements
from .values import Text


class Groups(Statements):
    """The part of a printer that writes them."""

    group: int
    sharing: str
    shared: Sequence[For | Reduce]
    combines: list[Store]

    def __init__(self) -> None:
        super().__init__()
        self.is_inside = False                    # a loop that members share: what is there is one member's
        self.arrays: dict[str, str] = {}          # of the group's memory

    # Elements that several work items change

    def can_combine(self) -> bool:
        """Whether all combining stores can be made in one step."""
        return all(self.word_of(s) in self.table.exchange for s in self.combines)

    def word_of(self, s: Store) -> int:
        """Bits of the words that a combining store exchanges; 0 where it cannot."""
        code = s.value.dtype
        if code in PART:      # parts on their own, which sums can be made of
            return BITS[PART[code]] if s.combine == "add" and code != "c32" else 0
        return max(32, BITS[code])

    def combine(self, s: Store) -> None:
        """A store that changes what is there in one step."""
        code = s.value.dtype
        index = None if s.index is None else str(self.keep("i64", self.value(s.index)))
        if code in PART:
            texts = self.evaluate([s.value], keep=True)[0]
            for part in (0, 1):
                here, old = PART[code], var(THERE, PART[code])
                self.given["addend"] = texts[part]
                self.exchange(self.element(s.operand, index, part), here, old + var("addend", here))
                del self.given["addend"]
            return
        place = self.element(s.operand, index, 0)
        adder = self.table.adders.get(BITS[code])
        if s.combine == "add" and adder and code not in FLOATS and code != "b1":
            kind = code if code[0] == "i" or BITS[code] == 32 else "u64"
            self.emit(f"{adder}((volatile {self.table.memory}{kind} *)&{place}, {self.value(s.value)});")
            return
        value = s.value
        if s.combine != "swap":
            self.given["addend"] = self.evaluate([value], keep=True)[0]
            value = BUILD[s.combine](var(THERE, code), var("addend", code))
        self.exchange(place, code, value)
        self.given.pop("addend", None)

    def exchange(self, place: str, code: str, value: Value) -> None:
        """An element replaced by what is computed from it, anew until no other item came between."""
        bits, size = max(32, BITS[code]), BITS[code]
        word, at, seen, made, found = f"u{bits}", *[self.fresh(stem) for stem in ("word", "seen", "made", "found")]
        memory = f"volatile {self.table.memory}{word} *"
        self.emit("{")
        self.depth += 1
        shift = ""
        if size < 32:     # the word that the element lies in
            shift = self.fresh("shift")
            address = self.fresh("address")
            self.emit(f"const u64 {address} = (u64)&{place};")
            self.emit(f"const int {shift} = ({address} & 3) * 8;")
            self.emit(f"{memory}{at} = ({memory})({address} & ~(u64)3);")
        else:
            self.emit(f"{memory}{at} = ({memory})&{place};")
        self.emit(f"{word} {seen} = *{at}, {found};")
        self.emit("do {")
        self.depth += 1
        self.emit(f"{found} = {seen};")
        own = f"({found} >> {shift}) & {(1 << size) - 1:#x}" if shift else found
        there = f"({own}) != 0" if code == "b1" else self.bitcast(f"(u{size})({own})", f"u{size}", code)
        self.given[THERE] = self.keep(code, there)
        result = str(self.keep(code, self.evaluate([value])[0]))
        bits_made = f"(u{size}){result}" if code == "b1" else self.bitcast(result, code, f"u{size}")
        if shift:
            mask = f"((u32){(1 << size) - 1:#x} << {shift})"
            bits_made = f"({found} & ~{mask}) | ((u32){bits_made} << {shift})"
        self.emit(f"const {word} {made} = {bits_made};")
        self.emit(f"if ({made} == {found}) break;")
        self.emit(f"{seen} = {self.table.exchange[bits]}({at}, {found}, {made});")
        del self.given[THERE]
        self.depth -= 1
        self.emit(f"}} while ({seen} != {found});")
        self.depth -= 1
        self.emit("}")

    # Loops that items share

    def outermost_of_groups(self, s: For) -> None:
        """The outermost loop where neighbouring items take neighbouring iterations."""
        (item, items), member = self.table.items[0], self.table.members[0]
        if self.sharing == POINTS:
            row, rows = self.table.items[1]
            inner = s.body[0]
            assert isinstance(inner, For)
            name = self.open_variable(s.var)
            self.emit(f"for (i64 {name} = begin + (i64){row}; {name} < end; {name} += (i64){rows}) {{")
            self.inside(lambda: self.serial(inner, f"{self.value(inner.start)} + (i64){item}",
                                            self.value(inner.stop), f"(i64){items}"))
            self.emit("}")
            return
        if self.sharing != ROWS:
            self.serial(s, f"begin + (i64){item}", "end", f"(i64){items}")
            return
        self.emit(f"const i64 group_ = {self.table.members[1]}, member_ = {member};")
        self.serial(s, "begin + group_", "end", f"(i64){items} / {self.group}")

    def is_shared(self, s: For | Reduce) -> bool:
        return not self.is_inside and any(s is one for one in self.shared)

    def loop(self, s: For) -> None:
        if self.group > 1 and self.is_shared(s):
            self.shared_loop(s)
        else:
            super().loop(s)

    def reduce(self, s: Reduce) -> None:
        if self.group > 1 and self.is_shared(s):
            self.shared_reduce(s)
        else:
            super().reduce(s)

    def stores(self, group: list[Store]) -> None:
        """What is a row's, its first member stores."""
        if self.group == 1 or self.sharing != ROWS or self.is_inside:
            super().stores(group)
            return
        self.emit("if (member_ == 0) {")
        self.depth += 1
        super().stores(group)
        self.depth -= 1
        self.emit("}")
        self.meet()

    def meet(self) -> None:
        self.emit(self.table.barrier)

    def shared_loop(self, s: For) -> None:
        """Iterations dealt to the group's members."""
        start, stop = self.value(s.start), self.value(s.stop)
        self.is_inside = True
        self.serial(s, f"{start} + member_", stop, str(self.group))
        self.is_inside = False
        self.meet()

    def shared_reduce(self, s: Reduce) -> None:
        """Elements dealt to the group's members, whose results then become one that all of them get."""
        for acc, first in zip(s.accs, s.init, strict=True):
            self.local(Local(acc, first))
            self.plain.discard(acc)
        start, stop = self.value(s.start), self.value(s.stop)
        self.is_inside = True
        self.steps(s, f"{start} + member_", stop, str(self.group))
        self.is_inside = False
        codes = {acc: first.dtype for acc, first in zip(s.accs, s.init, strict=True)}
        own = {acc: self.group_array(code, k) for k, (acc, code) in enumerate(codes.items())}
        for acc, code in codes.items():
            self.put(ended(own[acc], "[member_]"), self.spelled(acc, code, ""))
        self.meet()
        distance = 1 << (self.group - 1).bit_length() - 1
        while distance:
            self.emit(f"if (member_ < {distance} && member_ + {distance} < {self.group}) {{")
            self.depth += 1
            self.merge(s, {acc: ended(own[acc], "[member_]") for acc in codes},
                       {acc: ended(own[acc], f"[member_ + {distance}]") for acc in codes})
            self.depth -= 1
            self.emit("}")
            self.meet()
            distance //= 2
        for acc, code in codes.items():
            self.put(self.spelled(acc, code, ""), ended(own[acc], "[0]"))
        self.meet()

    def group_array(self, code: str, number: int) -> Text:
        """Names of arrays that the group's members share, an element each."""
        part = PART.get(code, code)
        names = [f"shared_{part}_{number}_{k}" for k in range(2 if code in PART else 1)]
        for name in names:
            if name not in self.arrays:
                self.arrays[name] = f"{self.table.group_memory}{part} {name}[{self.group}];"
        return (names[0], names[1]) if len(names) == 2 else names[0]


def ended(text: Text, ending: str) -> Text:
    return (text[0] + ending, text[1] + ending) if isinstance(text, tuple) else text + ending
