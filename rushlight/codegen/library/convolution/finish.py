"""Pointwise ops behind a convolution, written by its own kernel while results are in the nearest cache.

Enters: a `Finish`, the ops as one expression of a sum, of numbers per channel, and of elements of tensors that lie like
the result. Leaves: the text of one function, `finish`, that kernels of this folder call for what they have just stored:

    finish(to, row, rows, columns, step, channel, each, ptrs)

elements to[r * row + c * step], whose channel is channel + r * each. Further operands of the kernel are the tensors:
those of channels, then those like the result. The expression is that of the loop an op would have by itself, rounded as
there. Refuses: dtypes other than the kernel's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ....loops.expr import Value, walk
from ....loops.math.expand import lower
from ...text import primitives as p
from ...text.writer import Reg, Writer, mask_declarations
from ..interface import Tile

SUM = "sum"
ARGS = (
    ("ptr", "to"), ("i64", "row"), ("i64", "rows"), ("i64", "columns"), ("i64", "step"), ("i64", "channel"),
    ("i64", "each"), ("ptr", "ptrs"),
)
AT_ONCE = 4              # vectors whose expressions are computed side by side


@dataclass(frozen=True)
class Finish:
    """`value` is an expression over the variables `sum`, `c0`, `c1`, ... (of channels) and `f0`, `f1`, ... (elements).
    `key` names it: expressions of one key are equal."""

    code: str
    value: Value = field(compare=False)
    channels: int
    elements: int
    key: str

    @property
    def operands(self) -> int:
        """Tensors that it reads besides the sums."""
        return self.channels + self.elements


class InWriter(p.Output):
    """Primitive operations as lines of a `Writer`, under names of its own."""

    def __init__(self, w: Writer) -> None:
        super().__init__(saturate=False)
        self.w = w

    def fresh(self) -> str:
        return f"%v{self.w.fresh()}"

    def label(self) -> str:
        return f"L{self.w.fresh()}"

    def emit(self, lines: list[str], text: str) -> str:
        name = self.fresh()
        lines.append(f"  {name} = {text}")
        return name


class Evaluator:
    """Writes the expression on vectors, or (lanes 0) on scalars."""

    def __init__(self, w: Writer, finish: Finish) -> None:
        self.w, self.out = w, InWriter(w)
        (self.root,) = lower([finish.value])
        self.order = [v for v in walk((self.root,)) if v.op not in ("const", "var")]

    def results(self, lanes: int, given: Sequence[dict[str, str]]) -> list[str]:
        """Registers of the results, one for each of the variables' registers."""
        known: list[dict[Value, str]] = [{} for _ in given]

        def text(value: Value, k: int) -> str:
            if value.op == "const":
                return p.splat_literal(p.literal(value.attr, value.dtype), value.dtype, lanes)
            return given[k][value.attr] if value.op == "var" else known[k][value]

        for value in self.order:     # operation by operation, so that those of several vectors overlap
            source = value.args[-1 if value.op == "select" else 0].dtype
            for k in range(len(given)):
                args = [text(a, k) for a in value.args]
                known[k][value] = p.primitive(self.out, self.w.lines, value.op, value.dtype, source, lanes, args)
        return [text(self.root, k) for k in range(len(given))]


def can_finish(finish: Finish) -> bool:
    """Whether the expression is one of primitive operations, without tables."""
    (root,) = lower([finish.value])
    return not any(v.op in ("table", "load", "arg", "call", "real", "imag", "complex") for v in walk((root,)))


def finish_text(tile: Tile, finish: Finish, inputs: int, result: int, known: str) -> str:
    """The function for a kernel with so many operands of its own, of which `result` is the one that it writes.
    `known` is the text of the rest of the module: what that declares is not declared again."""
    w = Writer("finish", ARGS, "internal ")
    pointers = [w.load("ptr", w.at(w["ptrs"], inputs + k, "ptr"), 8) for k in range(finish.operands)]
    start = w.load("ptr", w.at(w["ptrs"], result, "ptr"), 8)
    here = w.new("i64", f"sub i64 {address(w, w['to'])}, {address(w, start)}")
    moved = [w.at(q, here, "i8") for q in pointers[finish.channels :]]
    evaluator = Evaluator(w, finish)
    with w.loop(0, w["rows"], carry=[w["to"], *moved]) as r:
        to, *others = r.carry
        channel = w.add(w["channel"], w.mul(r.i, w["each"]))
        numbers = [w.load(tile.element, w.at(q, channel, tile.element), tile.size)
                   for q in pointers[: finish.channels]]
        finish_row(w, tile, evaluator, to, others, numbers)
        r.next = [w.at(q, w["row"], tile.element) for q in r.carry]
    declared = [line for line in evaluator.out.declared.values() if line not in known]
    if tile.masked and "@llvm.masked.load" not in known:
        declared.append(mask_declarations(tile.lanes, tile.element))
    return "\n".join([w.text(), *declared])


def address(w: Writer, pointer: Reg) -> str:
    return w.new("i64", f"ptrtoint {pointer} to i64").text


def variables(read: Sequence[Reg], numbers: Sequence[Reg]) -> dict[str, str]:
    """Registers by variables: a sum and elements, which were read, and numbers of the channel."""
    first, *rest = read
    named = {f"c{k}": n.text for k, n in enumerate(numbers)} | {f"f{k}": e.text for k, e in enumerate(rest)}
    return {SUM: first.text, **named}


def finish_row(w: Writer, tile: Tile, evaluator: Evaluator, to: Reg, others: Sequence[Reg], numbers: Sequence[Reg]
               ) -> None:
    """One row: several vectors at once, single ones, and the rest of its elements."""
    spread = [w.splat(n, tile.lanes) for n in numbers]
    unit = w.compare("eq", w["step"], 1)
    many = w.select(unit, w["columns"], 0)

    def vectors(at: Reg, count: int) -> None:
        places = [[w.at(q, w.add(at, v * tile.lanes), tile.element) for q in (to, *others)] for v in range(count)]
        read = [[w.load(tile.vector, q, tile.size) for q in every] for every in places]
        for every, value in zip(places, evaluator.results(tile.lanes, [variables(r, spread) for r in read]),
                                strict=True):
            w.store(Reg(value, tile.vector), every[0], tile.size)

    with w.loop(0, w.sub(many, AT_ONCE * tile.lanes - 1), AT_ONCE * tile.lanes) as wide:
        vectors(wide.i, AT_ONCE)
    with w.loop(wide.i, w.sub(many, tile.lanes - 1), tile.lanes) as single:
        vectors(single.i, 1)
    begin = single.i
    if tile.masked:
        with w.loop(single.i, many, tile.lanes) as last:
            mask = w.lanes_in(0, w.sub(many, last.i), tile.lanes)
            places = [w.at(q, last.i, tile.element) for q in (to, *others)]
            read = [w.load_some(tile.vector, q, mask, tile.size) for q in places]
            (value,) = evaluator.results(tile.lanes, [variables(read, spread)])
            w.store_some(Reg(value, tile.vector), places[0], mask, tile.size)
        begin = many
    with w.loop(begin, w["columns"]) as j:
        at = w.mul(j.i, w["step"])
        places = [w.at(q, at, tile.element) for q in (to, *others)]
        read = [w.load(tile.element, q, tile.size) for q in places]
        (value,) = evaluator.results(0, [variables(read, numbers)])
        w.store(Reg(value, tile.element), places[0], tile.size)
