"""One launch of a nest as a program in WGSL, the language of WebGPU: what browsers compile for the GPU they find.

Enters: a nest, the values of its parameters, the byte address of each operand in one storage buffer, and the range of
the launch. Leaves: `WgslPrinter.text()`, a whole module whose entry point is `main`, and `groups`, how many workgroups
of `GROUP` items to dispatch along two axes; any number is right. All operands lie in one buffer of words, since two
bindings of WebGPU may not overlap. Places are 32 bits wide here. Refuses, by name: types that are not 32 bits wide or
boolean, matrix tiles, checks of values, and numbers that need more bits.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence

from ...loops.expr import FLOATS, Value
from ...loops.nest import Check, For, Local, Multiply, Nest, Pack, Reduce, Statement
from ..nvptx.lower import POINTS
from .printer import ALONE, Printer
from .tables import PLAIN_C
from .values import INFIX, WRAPS, Text

GROUP = 64               # items of a workgroup
MOST_GROUPS = 1024       # along an axis: more items than a browser's GPU has, and fewer than WebGPU allows
TYPES = {"i64": "i32", "i32": "i32", "u32": "u32", "f32": "f32", "b1": "bool"}
IN_MEMORY = ("f32", "i32", "u32")

WGSL = PLAIN_C.but(
    name="wgsl",
    builtins={"sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "round", "fma": "fma",
              "abs": "abs", "copysign": "copysign_f32"},
    items=(("item.x", "groups.x"), ("item.y", "groups.y")),
)
FUNCTIONS = {
    "idiv": "fn {name}(a: {type}, b: {type}) -> {type} {{ if (b == {zero}) {{ return {zero}; }} return a / b; }}",
    "irem": "fn {name}(a: {type}, b: {type}) -> {type} {{ if (b == {zero}) {{ return {zero}; }} return a % b; }}",
    "copysign": "fn {name}(a: f32, b: f32) -> f32 {{ return bitcast<f32>((bitcast<u32>(a) & 0x7fffffffu) | "
                "(bitcast<u32>(b) & 0x80000000u)); }}",
}


class WgslPrinter(Printer):
    """The text of one launch."""

    def __init__(self, nest: Nest, params: Sequence[int], addresses: Sequence[int], begin: int, end: int) -> None:
        self.addresses, self.begin, self.end = addresses, begin, end
        self.groups = (1, 1)
        super().__init__(nest, WGSL, known=dict(zip(nest.params, params, strict=True)))

    def text(self) -> str:
        parts = [f"// {self.nest.name}, {self.begin} to {self.end}",
                 "@group(0) @binding(0) var<storage, read_write> memory: array<u32>;",
                 "var<private> special: array<u32, 3> = array<u32, 3>(0x7f800000u, 0xff800000u, 0x7fc00000u);",
                 *self.tables_of_numbers(), *self.functions.values(), *self.lines]
        return "\n".join(parts) + "\n"

    def tables_of_numbers(self) -> list[str]:
        return [f"const {name} = array<{type_of(code)}, {len(numbers)}>"
                f"({', '.join(self.literal(n, code) for n in numbers)});"
                for (code, numbers), name in self.number_tables.items()]

    def need(self, name: str) -> str:
        kind, _, code = name.partition("_")
        if name not in self.functions:
            zero = "0u" if type_of(code) == "u32" else "0"
            self.functions[name] = FUNCTIONS[kind].format(name=name, type=type_of(code), zero=zero)
        return name

    # Names: with a mark, since WGSL reserves many words

    def spell(self, name: str) -> str:
        if name not in self.names:
            known = super().spell(name)
            self.names[name] = f"n_{known}"
        return self.names[name]

    def forget(self, name: str) -> None:
        self.used.discard(self.names.pop(name, "").removeprefix("n_"))

    def keep(self, code: str, text: Text) -> Text:
        name = self.fresh()
        self.emit(f"let {name}: {type_of(code)} = {text};")
        return name

    def declare(self, name: str, code: str, texts: Text | None = None) -> None:
        self.emit(f"var {self.spell(name)}: {type_of(code)}{'' if texts is None else f' = {texts}'};")

    # The entry point, and how items share its loops

    def kernel(self) -> None:
        for operand in self.nest.operands:
            if operand.code not in IN_MEMORY:
                raise refused(f"operands of type {operand.code}")
        self.depth = 0
        self.emit(f"@compute @workgroup_size({1 if self.sharing == ALONE else GROUP})")
        given = "@builtin(global_invocation_id) item: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>"
        self.emit(f"fn main({given}) {{")
        self.depth = 1
        for k, operand in enumerate(self.nest.operands):
            if operand.stack:
                self.emit(f"var p{k}: array<{type_of(operand.code)}, {operand.stack}>;")
        self.outermost(self.nest.loop)
        self.depth = 0
        self.emit("}")

    def outermost(self, s: For) -> None:
        begin, end, many = str(self.begin), str(self.end), self.end - self.begin
        along, across = ("i32(item.x)", f"i32(groups.x) * {GROUP}"), ("i32(item.y)", "i32(groups.y)")
        if self.sharing == ALONE:
            self.serial(s, begin, end)
            return
        inner = s.body[0]
        if self.sharing == POINTS:
            assert isinstance(inner, For)
            self.groups = (groups_for(self.iterations(inner)), min(MOST_GROUPS, max(1, many)))
            self.loop_of(s, begin, end, *across, lambda: self.loop_of(
                inner, self.value(inner.start), self.value(inner.stop), *along, lambda: self.statements(inner.body)))
            return
        shared = [one for one in s.body if isinstance(one, For)]
        if shared and all(isinstance(one, Local) or (isinstance(one, For) and one.vector and one.going is None)
                          for one in s.body):
            self.groups = (max(groups_for(self.iterations(one)) for one in shared), min(MOST_GROUPS, max(1, many)))
            self.loop_of(s, begin, end, *across, lambda: self.shared_body(s.body, along))
            return
        self.groups = (groups_for(many), 1)
        self.loop_of(s, begin, end, *along, lambda: self.statements(s.body))

    def shared_body(self, body: Sequence[Statement], along: tuple[str, str]) -> None:
        """Loops of independent iterations, dealt to items; what stands between them every item computes."""
        for one in body:
            if isinstance(one, For):
                self.loop_of(one, self.value(one.start), self.value(one.stop), *along,
                             lambda one=one: self.statements(one.body))
            else:
                self.statement(one)

    def iterations(self, s: For) -> int:
        """How many iterations a loop has, where that is known."""
        start, stop = (v.attr if v.op == "const" else None for v in (s.start, s.stop))
        return GROUP if start is None or stop is None else max(0, stop - start)

    # Loops: one iteration after the other, lanes being the items

    def loop(self, s: For) -> None:
        self.serial(s, self.value(s.start), self.value(s.stop))

    def serial(self, s: For, start: str, stop: str, step: str = "1") -> None:
        def write() -> None:
            self.statements(s.body)
            if s.going is not None:
                self.emit(f"if (!({self.value(s.going)})) {{ break; }}")

        self.loop_of(s, start, stop, "0", step, write)

    def reduce(self, s: Reduce) -> None:
        for acc, first in zip(s.accs, s.init, strict=True):
            self.local(Local(acc, first))
            self.plain.discard(acc)
        self.loop_of(s, self.value(s.start), self.value(s.stop), "0", "1", lambda: self.one_step(s))

    def loop_of(self, s: For | Reduce, start: str, stop: str, first: str, step: str, write: object) -> None:
        """A loop from `start + first` in steps."""
        name = self.open_variable(s.var)
        begin = start if first == "0" else f"{start} + {first}"
        self.emit(f"for (var {name}: i32 = {begin}; {name} < {stop}; {name} += {step}) {{")
        self.inside(write)      # type: ignore[arg-type]
        self.close_block(s.body)
        self.forget(s.var)
        self.emit("}")

    def check(self, s: Check, rest: Sequence[Statement]) -> None:
        raise refused("checks of values, which have nowhere to report to")

    def pack(self, s: Pack) -> None:
        raise refused("packed matrices")

    def multiply(self, s: Multiply) -> None:
        raise refused("tiles of matrix products")

    # Memory

    def element(self, operand: int, index: Text | None, part: int) -> str:
        if self.nest.operands[operand].stack:
            return f"p{operand}[{index}]"
        base, rest = divmod(self.addresses[operand], 4)
        if rest:
            raise refused(f"an operand at the odd address {self.addresses[operand]}")
        place = f"({self.value(self.point[operand])}) / 4" if index is None else str(index)
        return f"memory[{base} + {place}]"

    def read(self, operand: int, index: Text | None) -> Text:
        code, place = self.nest.operands[operand].code, self.element(operand, index, 0)
        return place if self.nest.operands[operand].stack or code == "u32" else f"bitcast<{code}>({place})"

    def write(self, operand: int, index: Text | None, text: Text) -> None:
        is_word = self.nest.operands[operand].stack or self.nest.operands[operand].code == "u32"
        self.emit(f"{self.element(operand, index, 0)} = {text if is_word else f'bitcast<u32>({text})'};")

    # Expressions

    def one(self, item: Value, args: list[Text]) -> Text:
        type_of(item.dtype)
        if item.op == "select":
            return f"select({args[2]}, {args[1]}, {args[0]})"
        return super().one(item, args)

    def literal(self, number: float, code: str) -> str:
        if code == "b1":
            return "true" if number else "false"
        if code == "f32":
            rounded = struct.unpack("<f", struct.pack("<f", number))[0] if number - number == 0 else number
            if rounded - rounded == 0:
                text = f"{rounded.hex()}f"
                return f"({text})" if text[0] == "-" else text
            return f"bitcast<f32>(special[{2 if rounded != rounded else int(rounded < 0)}])"
        number = int(number)
        if type_of(code) == "u32":
            return f"{number & 0xFFFFFFFF}u"
        if not -(1 << 31) <= number < 1 << 31:
            raise refused(f"the number {number}")
        return f"i32({number})" if number == -(1 << 31) else f"({number})" if number < 0 else str(number)

    def primitive(self, op: str, code: str, source: str, args: list[str], item: Value) -> str:
        if op in ("min", "max"):
            first, second = (self.atom(a, source) for a in args)
            return f"select({second}, {first}, {first} {'<' if op == 'min' else '>'} {second})"
        if source == "b1":
            return f"(!{args[0]})" if op == "not" else f"({args[0]} {'!=' if op == 'xor' else INFIX[op]} {args[1]})"
        if op == "copysign":
            self.need("copysign_f32")
        return super().primitive(op, code, source, args, item)

    def whole_number(self, op: str, code: str, args: list[str], item: Value) -> str | None:
        """Integers wrap, as they do in WGSL."""
        if op in WRAPS or op in ("and", "or", "xor"):
            return f"({args[0]} {INFIX[op]} {args[1]})"
        if op in ("shl", "shr"):
            return f"({args[0]} {'<<' if op == 'shl' else '>>'} u32({args[1]}))"
        if op in ("neg", "not"):
            return f"({'-' if op == 'neg' else '~'}{args[0]})"
        if op == "abs":
            return f"abs({args[0]})"
        if op in ("idiv", "irem"):
            divisor = item.args[1]
            if divisor.op == "const" and divisor.attr not in (0, -1):
                return f"({args[0]} {'/' if op == 'idiv' else '%'} {args[1]})"
            return f"{self.need(f'{op}_{code}')}({args[0]}, {args[1]})"
        return None

    def cast(self, text: str, source: str, code: str) -> str:
        if type_of(source) == type_of(code):
            return text
        if code == "b1":
            return f"({text} != {self.literal(0, source)})"
        return f"{type_of(code)}({text})"

    def bitcast(self, text: str, source: str, code: str) -> str:
        if "b1" in (source, code) or ((source in FLOATS) + (code in FLOATS) and "i64" in (source, code)):
            raise refused(f"the bits of {source} as {code}")
        return f"bitcast<{type_of(code)}>({text})"

    def atom(self, text: str, code: str) -> str:
        return text if re.fullmatch(r"[\w.]+", text) else str(self.keep(code, text))


def type_of(code: str) -> str:
    """The type that holds values of `code`."""
    if code not in TYPES:
        raise refused(f"values of type {code}")
    return TYPES[code]


def groups_for(items: int) -> int:
    return min(MOST_GROUPS, max(1, -(-items // GROUP)))


def refused(what: str) -> NotImplementedError:
    return NotImplementedError(f"wgsl: {what} cannot be said in WebGPU's language. Run this program as WebAssembly.")


__all__ = ["GROUP", "WGSL", "WgslPrinter"]
