"""Text to code and back.

Enters: a program, one instruction a line (`vadd.f32 v3, v1, s2`), labels (`again:`), comments behind `;`. Leaves: its
bytes (`assemble`), or from bytes a text that assembles to the same ones (`disassemble`). Refuses, with an AssemblyError
that names the line: mnemonics, types and registers that do not exist, immediates out of range, labels without a place.
"""

from __future__ import annotations

import difflib

from .isa import INSTRUCTIONS, NONE, REGISTERS, TYPES, Fields, Instruction, decode_all, encode


class AssemblyError(ValueError):
    """A line that is no instruction; `line` is its number, from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


def assemble(text: str) -> bytes:
    """The code of a program."""
    lines, places, word = [], {}, 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.partition(";")[0].strip()
        while ":" in line:
            label, _, line = (part.strip() for part in line.partition(":"))
            if not label.isidentifier():
                raise AssemblyError(number, f"{label!r} is no name for a label")
            if label in places:
                raise AssemblyError(number, f"label {label!r} stands here and in another line")
            places[label] = word
        if line:
            row = _row(number, line.split()[0].split(".")[0])
            lines.append((number, row, line))
            word += 2 if "i" in row.operands else 1
    return b"".join(_code(number, row, line, places) for number, row, line in lines)


def _row(number: int, name: str) -> Instruction:
    if name not in INSTRUCTIONS:
        near = difflib.get_close_matches(name, INSTRUCTIONS, 1)
        raise AssemblyError(number, f"unknown mnemonic {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    return INSTRUCTIONS[name]


def _code(number: int, row: Instruction, line: str, places: dict[str, int]) -> bytes:
    mnemonic, _, rest = line.partition(" ")
    types = tuple(mnemonic.split(".")[1:])
    for t in types:
        if t not in TYPES:
            raise AssemblyError(number, f"{row.name}: unknown type {t!r}; the types are {', '.join(TYPES)}")
    if len(types) != row.types:
        raise AssemblyError(number, f"{row.name} has {row.types} types, got {mnemonic!r}")
    operands = [part.strip() for part in rest.split(",")] if rest.strip() else []
    if len(operands) != len(row.operands):
        raise AssemblyError(number, f"{row.name} has {len(row.operands)} operands, got {len(operands)}")
    values = tuple(
        _value(number, row.name, kind, word, places) for kind, word in zip(row.operands, operands, strict=True)
    )
    try:
        return encode(Fields(row, types, values))
    except ValueError as error:
        raise AssemblyError(number, str(error)) from None


def _value(number: int, name: str, kind: str, word: str, places: dict[str, int]) -> int:
    if kind == "l":
        if word not in places:
            raise AssemblyError(number, f"{name}: no line has the label {word!r}")
        return places[word]
    if kind in "ni":
        try:
            return int(word, 0)
        except ValueError:
            raise AssemblyError(number, f"{name}: an immediate must be a whole number, got {word!r}") from None
    if kind == "m" and word == "-":
        return NONE
    wanted = {"s": "s", "v": "v", "x": "sv", "m": "v"}[kind]
    index = int(word[1:]) if word[1:].isascii() and word[1:].isdigit() else -1
    if word[:1] not in wanted or not word or not 0 <= index < REGISTERS:
        expected = " or ".join(f"{c}0..{c}{REGISTERS - 1}" for c in wanted) + (" or -" if kind == "m" else "")
        raise AssemblyError(number, f"{name}: an operand must be {expected}, got {word!r}")
    return index | 128 if kind == "x" and word[0] == "s" else index


def disassemble(code: bytes) -> str:
    """A program's text: labels are called `at` and the word they stand before."""
    program = decode_all(code)
    targets = {f.values[-1] for f in program.values() if f.row.operands.endswith("l")}
    stray = sorted(targets - program.keys() - {len(code) // 8})
    if stray:
        raise ValueError(f"a branch goes to word {stray[0]}, where no instruction begins")
    lines = []
    for word, fields in program.items():
        if word in targets:
            lines.append(f"at{word}:")
        lines.append("    " + spell(fields))
    if len(code) // 8 in targets:
        lines.append(f"at{len(code) // 8}:")
    return "\n".join(lines) + "\n"


def spell(fields: Fields) -> str:
    """One instruction as text."""
    row, types, values = fields
    operands = [_spelled(kind, value) for kind, value in zip(row.operands, values, strict=True)]
    return f"{'.'.join((row.name, *types))} {', '.join(operands)}".rstrip()


def _spelled(kind: str, value: int) -> str:
    if kind == "l":
        return f"at{value}"
    if kind in "ni":
        return str(value)
    if kind == "m" and value == NONE:
        return "-"
    return f"s{value & 127}" if kind == "s" or (kind == "x" and value & 128) else f"v{value}"
