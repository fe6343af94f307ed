"""Matrix products on the array, in tiles whose DMA runs ahead.

`program(code)` is assembler for c = alpha * a @ b + beta * c of f32, f16 or bf16 (sums in f32), with the arguments that
`rushlight.devices.Device.product` names. Tiles of 128 x 128 of a and b lie in two pairs of registers: while the array
works on one pair, the load DMA fills the other. Elements come in any of the two layouts by the strides of the DMA.
"""

from __future__ import annotations

TILE = 128
ARGUMENTS = (
    "a b c m n k a_line a_turned a_batch b_line b_turned b_batch c_line c_batch batch alpha beta begin end".split()
)
# scalar registers by name
_NAMES = (
    "one tile item row column depth rows columns deep next a_row a_step b_row b_step c_at at size test deep2 lanes"
    " four c_step half zero part".split()
)
S = {name: f"s{k + 1}" for k, name in enumerate((*ARGUMENTS, *_NAMES))}
A, B, SUM, OLD, WIDE, RAW = ("v0", "v2"), ("v1", "v3"), "v4", "v5", "v6", "v7"
BITS_OF_ONE = 0x3F800000


def program(code: str) -> str:
    """The assembler text of products of a type."""
    size = 4 if code == "f32" else 2
    lines = ["vcfg 16"]
    lines += [f"larg {S[name]}, {k}" for k, name in enumerate(ARGUMENTS)]
    lines += [f"li {S['one']}, 1", f"li {S['tile']}, {TILE}", f"li {S['size']}, {size}"]
    # a line is a row, or a column where it is turned; steps are in bytes
    for side in "ab":
        line, turned = S[f"{side}_line"], S[f"{side}_turned"]
        lines += [
            f"smul {line}, {line}, {S['size']}",
            f"ssel {S[side + '_row']}, {turned}, {S['size']}, {line}",
            f"ssel {S[side + '_step']}, {turned}, {line}, {S['size']}",
            f"smul {S[side + '_batch']}, {S[side + '_batch']}, {S['size']}",
        ]
    lines += [f"smul {S['c_line']}, {S['c_line']}, {S['size']}", f"smul {S['c_batch']}, {S['c_batch']}, {S['size']}"]
    lines += _loop("item", "batch", "one", _loop("row", "m", "tile", _rows(code)), after=[
        f"sadd {S[x]}, {S[x]}, {S[x + '_batch']}" for x in "abc"
    ])
    return "\n".join([*lines, "halt"]) + "\n"


def _loop(name: str, stop: str, step: str, body: list[str], after: list[str] | None = None) -> list[str]:
    """`body` for a register from 0 to another one's value."""
    at = S[name]
    return [
        f"mov {at}, s0", f"{name}_again:", f"slt {S['test']}, {at}, {S[stop]}", f"bz {S['test']}, {name}_done", *body,
        *(after or []), f"sadd {at}, {at}, {S[step]}", f"jmp {name}_again", f"{name}_done:",
    ]


def _rows(code: str) -> list[str]:
    """All tiles of the result in one band of rows."""
    cut = [f"ssub {S['rows']}, {S['m']}, {S['row']}", f"smin {S['rows']}, {S['rows']}, {S['tile']}"]
    inside = [
        f"ssub {S['columns']}, {S['n']}, {S['column']}", f"smin {S['columns']}, {S['columns']}, {S['tile']}",
        f"smul {S['lanes']}, {S['rows']}, {S['columns']}", f"vl {S['lanes']}", f"vmov.f32 {SUM}, s0",
        *_depths(code), *_finish(code),
    ]
    return [*cut, *_loop("column", "n", "tile", inside)]


def _depths(code: str) -> list[str]:
    """The sum over k of one tile: the next pair of tiles is on its way while one is multiplied."""
    lines = [f"mov {S['depth']}, s0", f"mov {S['deep2']}, s0", f"vl {S['lanes']}", *_fetch(code, 0), "deeper:"]
    for pair in (0, 1):
        lines += [
            f"mov {S['deep']}, {S['deep2']}",
            f"slt {S['test']}, {S['depth']}, {S['k']}",
            f"bz {S['test']}, last{pair}",
            *_fetch(code, 1 - pair),
            f"last{pair}:",
            f"amul.{code} {SUM}, {A[pair]}, {B[pair]}, {S['rows']}, {S['columns']}, {S['deep']}",
            f"bz {S['test']}, summed",
        ]
    return [*lines, "jmp deeper", "summed:", f"vl {S['lanes']}"]


def _fetch(code: str, pair: int) -> list[str]:
    """Tiles of both factors from `depth` on, which moves past them; `deep2` says how deep they are."""
    at, part = S["at"], S["part"]
    return [
        f"ssub {S['deep2']}, {S['k']}, {S['depth']}", f"smin {S['deep2']}, {S['deep2']}, {S['tile']}",
        f"smul {at}, {S['row']}, {S['a_row']}", f"smul {part}, {S['depth']}, {S['a_step']}",
        f"sadd {at}, {at}, {part}", f"sadd {at}, {at}, {S['a']}",
        f"smul {part}, {S['rows']}, {S['deep2']}", f"vl {part}",
        f"dld.{code} {A[pair]}, {at}, {S['rows']}, {S['a_row']}, {S['deep2']}, {S['a_step']}",
        f"smul {at}, {S['column']}, {S['b_step']}", f"smul {part}, {S['depth']}, {S['b_row']}",
        f"sadd {at}, {at}, {part}", f"sadd {at}, {at}, {S['b']}",
        f"smul {part}, {S['columns']}, {S['deep2']}", f"vl {part}",
        f"dld.{code} {B[pair]}, {at}, {S['deep2']}, {S['b_row']}, {S['columns']}, {S['b_step']}",
        f"sadd {S['depth']}, {S['depth']}, {S['deep2']}",
    ]


def _finish(code: str) -> list[str]:
    """alpha * sum + beta * c, narrowed and stored; what changes nothing is left out."""
    at, part = S["c_at"], S["part"]
    place = f"{at}, {S['rows']}, {S['c_line']}, {S['columns']}, {S['size']}"
    lines = [
        f"smul {at}, {S['row']}, {S['c_line']}", f"smul {part}, {S['column']}, {S['size']}", f"sadd {at}, {at}, {part}",
        f"sadd {at}, {at}, {S['c']}",
        # alpha and beta are the bits of doubles, and sums are f32
        f"li {part}, 0x3FF0000000000000", f"seq {S['test']}, {S['alpha']}, {part}", f"bnz {S['test']}, unscaled",
        f"vcvt.f32.f64 {WIDE}, {S['alpha']}", f"vmul.f32 {SUM}, {SUM}, {WIDE}", "unscaled:",
        f"bz {S['beta']}, fresh", f"dld.{code} {RAW}, {place}", f"vcvt.f32.{code} {OLD}, {RAW}",
        f"vcvt.f32.f64 {WIDE}, {S['beta']}", f"vfma.f32 {SUM}, {OLD}, {WIDE}, {SUM}", "fresh:",
    ]
    if code == "f32":
        return [*lines, f"dst.f32 {SUM}, {place}"]
    return [*lines, f"vcvt.{code}.f32 {RAW}, {SUM}", f"dst.{code} {RAW}, {place}"]
