"""Programs as text and as code say the same; what is no program is refused by name and line."""

from __future__ import annotations

import pytest

from .chip import chip

pytest.importorskip("hypothesis")
pytest.importorskip("rushlight_npu")
from hypothesis import given, settings, strategies as st  # noqa: E402
from rushlight_npu.isa import ARGUMENTS, INSTRUCTIONS, REGISTERS, TYPES  # noqa: E402

REGISTER = st.integers(0, REGISTERS - 1)
OPERANDS = {
    "s": REGISTER.map("s{}".format), "v": REGISTER.map("v{}".format),
    "x": st.tuples(st.sampled_from("sv"), REGISTER).map(lambda t: f"{t[0]}{t[1]}"),
    "m": st.one_of(st.just("-"), REGISTER.map("v{}".format)), "n": st.integers(1, REGISTERS).map(str),
    "i": st.integers(-(1 << 63), (1 << 63) - 1).map(str), "l": st.sampled_from(("first", "last")),
}


@st.composite
def lines(draw: st.DrawFn) -> str:
    row = draw(st.sampled_from(list(INSTRUCTIONS.values())))
    types = draw(st.lists(st.sampled_from(TYPES), min_size=row.types, max_size=row.types))
    operands = [draw(OPERANDS[kind]) for kind in row.operands]
    return f"{'.'.join((row.name, *types))} {', '.join(operands)}"


@settings(max_examples=20, deadline=None)
@given(st.lists(lines(), max_size=8))
def test_text_and_code_say_the_same(program):
    code = chip.assemble("\n".join(["first: halt", *program, "last: halt"]))
    text = chip.disassemble(code)
    assert chip.assemble(text) == code
    assert chip.disassemble(chip.assemble(text)) == text
    spoken = [" ".join(line.split()) for line in text.splitlines() if not line.endswith(":")]
    for wanted, found in zip(["halt", *program], spoken, strict=False):
        assert wanted.split()[0] == found.split()[0] and wanted.count(",") == found.count(",")


def test_every_instruction_has_a_code_of_its_own():
    operand = {"s": "s9", "v": "v9", "x": "s9", "m": "-", "n": "7", "i": "-7", "l": "here"}
    text = "here: halt\n" + "\n".join(
        f"{'.'.join((row.name, *('f32', 'i64')[: row.types]))} {', '.join(operand[kind] for kind in row.operands)}"
        for row in INSTRUCTIONS.values()
    )
    assert chip.assemble(chip.disassemble(chip.assemble(text))) == chip.assemble(text)
    assert len({row.opcode for row in INSTRUCTIONS.values()}) == len(INSTRUCTIONS)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("halt\nvfoo.f32 v0, v1", "line 2: unknown mnemonic 'vfoo'"),
        ("vaddd.f32 v0, v1, v2", "did you mean 'vadd'"),
        ("vadd.f31 v0, v1, v2", "line 1: vadd: unknown type 'f31'"),
        ("vadd v0, v1, v2", "line 1: vadd has 1 types"),
        ("vadd.f32 v0, v1", "line 1: vadd has 3 operands, got 2"),
        ("; a remark\n\nvadd.f32 v128, v1, v2", r"line 3: vadd: an operand must be v0..v127, got 'v128'"),
        ("sadd s1, s2, v3", "must be s0..s127, got 'v3'"),
        ("mov s1, sx", "got 'sx'"),
        ("li s1, 9223372036854775808", "line 1: li: the immediate must be in"),
        ("li s1, many", "whole number, got 'many'"),
        (f"larg s1, {ARGUMENTS}", f"larg: the immediate must be in 0..{ARGUMENTS - 1}"),
        ("vcfg 0", "vcfg: the immediate must be in 1..128, got 0"),
        ("jmp nowhere", "no line has the label 'nowhere'"),
        ("a: halt\na: halt", "line 2: label 'a'"),
    ],
)
def test_what_is_no_program_is_refused(text, words):
    with pytest.raises(chip.AssemblyError, match=words):
        chip.assemble(text)


@pytest.mark.parametrize(
    ("code", "words"),
    [(b"\xff" * 8, "word 0: no instruction has opcode 0xff"), (b"\x01", "whole words"),
     (b"\x01\0\x01\0\0\0\0\0", "ends before the immediate"), (b"\x04\0\x80\0\0\0\0\0", "sadd has no register 128"),
     (chip.assemble("vadd.f32 v0, v1, v2").replace(b"\x0c", b"\x60"), "vadd needs a type")],
)
def test_what_is_no_code_is_refused(code, words):
    with pytest.raises(ValueError, match=words):
        chip.disassemble(code)
