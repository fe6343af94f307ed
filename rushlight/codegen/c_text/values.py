"""Scalar expressions as C-like text.

Enters: Values made of primitives, and a `Table`. Leaves: texts that may be used in statements that follow, and lines
that name what they share. A complex value is two texts. Refuses: named calls, which `Printer` has expanded.

Integers wrap: sums and products of data are made without a sign. Places, which are sums and products of loop variables
and parameters, are written as they are.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence

from ...loops.expr import BITS, FLOATS, INTS, PART, Value, walk
from ..text.primitives import float_bits
from .tables import NARROW, UNSIGNED, Table, function_text

INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^", "lt": "<", "le": "<=",
         "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
WRAPS = frozenset(("add", "sub", "mul"))
PLACES = frozenset(("add", "sub", "mul", "idiv", "irem", "min", "max", "var", "const"))
LONGEST = 150            # characters of an expression that needs no name
RESERVED = frozenset("""
    auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool half uchar
    ushort uint ulong kernel global local constant private generic main exp log sin cos tan pow sqrt floor ceil trunc
    rint round fabs fma abs min max mix step clamp select sign dot cross length normalize distance any all erf gamma
    begin_ end_ params ptrs lane_ group_ item_ size_t y0 y1 yn j0 j1 jn I event_t vec_step barrier
""".split())
OURS = re.compile(r"p\d+|[iuf]\d+|b1|bf16|f8.*|as_.*|(bits|float|idiv|irem)_.*")      # what texts name themselves

Text = str | tuple[str, str]


class Values:
    """The part of a printer that writes expressions."""

    table: Table
    point: tuple[Value, ...]

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0
        self.functions: dict[str, str] = {}
        self.number_tables: dict[tuple[str, tuple], str] = {}
        self.names: dict[str, str] = {}
        self.used: set[str] = set()
        self.plain: set[str] = {"begin", "end"}     # names that hold places, not data
        self.lane_names: set[str] = set()           # names with an element for each lane

    def emit(self, line: str) -> None:
        self.lines.append("  " * self.depth + line)

    def fresh(self, stem: str = "t") -> str:
        self.count += 1
        return f"{stem}{self.count}_"

    def spell(self, name: str) -> str:
        """A nest's name as the text spells it."""
        known = self.names.get(name)
        if known is None:
            known = re.sub(r"\W|^(?=\d)", "_", name)
            if known in RESERVED or OURS.fullmatch(known):
                known += "_"
            while known in self.used:
                known += "_"
            self.used.add(known)
            self.names[name] = known
        return known

    def forget(self, name: str) -> None:
        """The end of a name's block."""
        self.used.discard(self.names.pop(name, ""))

    def need(self, name: str) -> str:
        """A function of ours, which the text then begins with."""
        if name not in self.functions:
            text, calls = function_text(name, self.table)
            for other in calls:
                self.need(other)
            self.functions[name] = f"{self.table.function} {text}"
        return name

    # Whole expressions

    def evaluate(self, values: Sequence[Value], keep: bool = False) -> list[Text]:
        """Texts of `values`; what they share has a name by then. `keep`: they are names or numbers themselves, which
        later stores do not change."""
        order = walk(values)
        uses: dict[Value, int] = {}
        for item in order:
            for a in item.args:
                uses[a] = uses.get(a, 0) + 1
        roots = set(values) if keep else set()
        done: dict[Value, Text] = {}
        for item in order:
            text = self.one(item, [done[a] for a in item.args])
            if item.op not in ("const", "var") and (item in roots or self.wants_name(item, text, uses.get(item, 0))):
                text = self.keep(item.dtype, text)
            done[item] = text
        return [done[v] for v in values]

    def wants_name(self, item: Value, text: Text, uses: int) -> bool:
        if isinstance(text, tuple):
            return item.op in ("load", "arg")
        if self.is_place(item):
            return len(text) > LONGEST
        return uses > 1 or len(text) > LONGEST

    def keep(self, code: str, text: Text) -> Text:
        """The same under a name."""
        if isinstance(text, tuple):
            part = PART[code]
            return self.keep(part, text[0]), self.keep(part, text[1])      # type: ignore[return-value]
        name = self.fresh()
        self.emit(f"const {code} {name} = {text};")
        return name

    def value(self, value: Value) -> str:
        """The text of one value that is not complex."""
        text = self.evaluate([value])[0]
        assert isinstance(text, str), value
        return text

    def is_place(self, value: Value) -> bool:
        """Whether a Value is a sum or product of loop variables and parameters."""
        if value.dtype != "i64" or value.op not in PLACES:
            return False
        return all(v.op in PLACES and (v.op != "var" or v.attr in self.plain) for v in walk((value,)))

    # Nodes

    def one(self, item: Value, args: list[Text]) -> Text:
        op, code = item.op, item.dtype
        if op == "const":
            return self.literal(item.attr, code)
        if op == "var":
            return self.read_name(item.attr, code)
        if op in ("load", "arg"):
            return self.read(item.attr, args[0] if args else None)
        if op == "complex":
            return args[0], args[1]      # type: ignore[return-value]
        if op in ("real", "imag"):
            return args[0][op == "imag"]
        texts = [str(a) for a in args]
        if op == "select":
            return f"({texts[0]} ? {texts[1]} : {texts[2]})"
        if op == "table":
            return f"{self.number_table(code, item.attr)}[{texts[0]}]"
        source = item.args[0].dtype
        if op == "cast":
            return self.cast(texts[0], source, code)
        if op == "bitcast":
            return self.bitcast(texts[0], source, code)
        if op in WRAPS and self.is_place(item):
            return f"({texts[0]} {INFIX[op]} {texts[1]})"
        return self.primitive(op, code, source, texts, item)

    def read_name(self, name: str, code: str) -> Text:
        known = self.spell(name)
        ending = "[lane_]" if name in self.lane_names else ""
        if code in PART:
            return f"{known}_re{ending}", f"{known}_im{ending}"
        return known + ending

    def literal(self, number: float, code: str) -> str:
        """A constant."""
        if code == "b1":
            return "1" if number else "0"
        if code == "f32" or code == "f64":
            if number - number == 0:
                text = float(number).hex() + ("f" if code == "f32" else "")
                return f"({text})" if text[0] == "-" else text
            word = struct.unpack("<I", struct.pack("<f", number))[0] if code == "f32" else \
                struct.unpack("<Q", struct.pack("<d", number))[0]
            return f"{self.need('float_' + code)}({word:#x}u{self.table.long_suffix if code == 'f64' else ''})"
        if code == "f16":
            return f"{struct.unpack('<H', struct.pack('<e', number))[0]:#x}"
        if code in NARROW:
            return f"{float_bits(float(number), code):#x}"
        number = int(number)
        if -(1 << 31) < number < 1 << 31:
            return f"({number})" if number < 0 else str(number)
        if code[0] == "u":
            return f"{number}u{self.table.long_suffix if number >> 32 else ''}"
        return f"({code}){number & (1 << BITS[code]) - 1:#x}u{self.table.long_suffix if code == 'i64' else ''}"

    def number_table(self, code: str, numbers: tuple) -> str:
        return self.number_tables.setdefault((code, numbers), f"numbers{len(self.number_tables)}_")

    def primitive(self, op: str, code: str, source: str, args: list[str], item: Value) -> str:
        """An operation on values of type `source`."""
        if source in NARROW:
            wide = [self.cast(a, source, "f32") for a in args]
            done = self.primitive(op, "f32" if code in NARROW else code, "f32", wide, item)
            return self.cast(done, "f32", code) if code in NARROW else done
        if source in INTS:
            found = self.whole_number(op, source, args, item)
            if found is not None:
                return found
        if op in ("min", "max"):
            first, second = (self.atom(a, source) for a in args)
            return f"({first} {'<' if op == 'min' else '>'} {second} ? {first} : {second})"
        if op in INFIX:
            return f"({args[0]} {INFIX[op]} {args[1]})"
        if op == "neg":
            return f"(-{args[0]})"
        if op == "not":
            return f"(!{args[0]})"
        name = self.table.builtins.get(op)
        if name is None or source not in FLOATS:
            raise NotImplementedError(f"c_text: no {op} of {source} in {self.table.name}")
        if "%s" in name:
            name %= self.table.suffix if source == "f32" else ""
        return f"{name}({', '.join(args)})"

    def whole_number(self, op: str, code: str, args: list[str], item: Value) -> str | None:
        """What integers do otherwise than C's: they wrap, and division by zero gives 0."""
        word = UNSIGNED.get(code, code)
        wide = word if BITS[code] >= 32 else "u32"
        if op in WRAPS:
            text = f"({wide}){args[0]} {INFIX[op]} ({wide}){args[1]}"
            return f"({code})({text})"
        if op == "neg":
            return f"({code})(0 - ({wide}){args[0]})"
        if op == "abs":
            a = self.atom(args[0], code)
            return f"({a} < 0 ? ({code})(0 - ({wide}){a}) : {a})"
        if op == "shl":
            return f"({code})(({wide}){args[0]} << {args[1]})"
        if op == "shr":
            return f"({code})({args[0]} >> {args[1]})"
        if op == "not":
            return f"({code})(~{args[0]})"
        if op in ("and", "or", "xor"):
            return f"({code})({args[0]} {INFIX[op]} {args[1]})"
        if op in ("idiv", "irem"):
            divisor = item.args[1]
            if divisor.op == "const" and divisor.attr not in (0, -1):
                return f"({code})({args[0]} {'/' if op == 'idiv' else '%'} {args[1]})"
            return f"{self.need(f'{op}_{code}')}({args[0]}, {args[1]})"
        return None

    def atom(self, text: str, code: str) -> str:
        """A text that may be written twice."""
        return text if re.fullmatch(r"[\w.]+(\[lane_\])?", text) else str(self.keep(code, text))

    def cast(self, text: str, source: str, code: str) -> str:
        """By value: towards zero into integers, to nearest even into floats, `!= 0` into b1."""
        if source == code:
            return text
        if source in NARROW:
            return self.cast(f"{self.need(f'{source}_to_f32')}({text})", "f32", code)
        if code in NARROW:
            return f"{self.need(f'f32_to_{code}')}({self.cast(text, source, 'f32')})"
        if code == "b1":
            return f"({text} != 0)"
        if source in FLOATS and code in INTS:
            middle = code if code in ("i32", "i64", "u64") else "i64" if code == "u32" else "i32"
            whole = f"{self.need(f'{source}_to_{middle}')}({text})"
            return whole if middle == code else f"({code}){whole}"
        return f"({code}){text}"

    def bitcast(self, text: str, source: str, code: str) -> str:
        if code == "b1":
            return f"({text} != 0)"
        if source in ("f32", "f64"):
            bits = f"{self.need('bits_' + source)}({text})"
            return bits if code[0] == "u" else f"({code}){bits}"
        if code in ("f32", "f64"):
            return f"{self.need('float_' + code)}((u{code[1:]}){text})"
        return f"({code}){text}"

    # Memory: what is where, Printer says

    def read(self, operand: int, index: Text | None) -> Text:
        raise NotImplementedError


def coefficient(place: Value, name: str) -> Value | int | None:
    """By what a place grows with the variable `name`: a number, a Value without it, or None where that is not plain."""
    if place.op == "var" and place.attr == name:
        return 1
    if not any(v.op == "var" and v.attr == name for v in walk((place,))):
        return 0
    if place.op in ("add", "sub"):
        a, b = (coefficient(x, name) for x in place.args)
        if b == 0:
            return a
        return b if a == 0 and place.op == "add" else None
    if place.op == "mul":
        a, b = (coefficient(x, name) for x in place.args)
        if a == 1 and b == 0:
            return number_or_value(place.args[1])
        if b == 1 and a == 0:
            return number_or_value(place.args[0])
    return None


def number_or_value(value: Value) -> Value | int:
    return value.attr if value.op == "const" else value

