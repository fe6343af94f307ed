"""Whole layers of a recurrence as one plan: the kernels of lstm, gru and rnn over rows grouped by step.

Enters: projected inputs of all steps [rows, gates * width], first states [batch, width], the hidden weight; how many
rows each step has. Leaves: plans that fill outputs, last states and what the gradient reads; and plans of the gradient.
A step is one product with the hidden weight, packed once for all steps, and one kernel for everything between products.
Refuses nothing: definitions/sequence/recurrence.py asks only for dense tensors of single or double precision on the
host.

States live in one buffer of [batch, width] that every step updates in its first rows: a sequence that has ended keeps
its last state, one that has not begun its first. So sequences of different lengths, in either direction, are one case.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .. import _C
from ..codegen.library.products import few_rows
from ..codegen.llvm.widths import FEW
from ..codegen.schedule.forms.pieces import copy_nest
from ..codegen.schedule.forms.wishes import Wishes
from ..codegen.text.targets import second_cache, vector_bits
from ..loops.expr import Value, const, idiv, load, var
from ..loops.nest import For, Local, Nest, Statement, Store, operands, rows
from ..loops.vocabulary import Scalars
from ..op.pack import BY_CODE, compile_for
from ..op.step import Step
from .products.gemm import (
    PACKED_ROWS,
    SIZES,
    SMALL,
    Matrix,
    copy_step,
    few_rows_step,
    pack_strips,
    steps,
    strip_products,
    tiled_steps,
)

GATES = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}
# values per unit that the forward kernel keeps for the backward one
KEPT = {"lstm": 4, "gru": 4, "tanh": 0, "relu": 0}
WORK = 4096                                            # units of a row block that one thread takes
COPIED = 1 << 15                                       # elements that one thread copies
LONG = 512                                             # steps of a sequence whose plan is not kept
# Rows of every step that read the hidden weight where it lies (four fill a tile, which is as fast), and vectors of k
# from which on that pays.
FEW_ROWS, FEW_FROM = (1, 2, 3, 5, 6, 7), 16
PLACES = range(5)                                      # left, right, what is added, result, packed right of a product
CPU = _C.device("cpu")
s = Scalars()


# --- one element ------------------------------------------------------------------------------------------------------


class Element:
    """Writes the statements of element `j` of row `i`; operands are [rows, parts * width]. `turn`: a number of elements
    of which the width is a multiple in every call, so that the loop over them leaves no rest."""

    def __init__(self, code: str, turn: int = 1) -> None:
        self.code, self.turn = code, turn
        self.statements: list[Statement] = []
        self.i, self.j, self.width = var("i"), var("j"), var("width")

    def at(self, part: int = 0, parts: int = 1) -> Value:
        return (self.i * parts + part) * self.width + self.j

    def read(self, operand: int, part: int = 0, parts: int = 1) -> Value:
        return load(operand, self.at(part, parts), self.code)

    def keep(self, name: str, value: Value) -> Value:
        """A value that is used more than once, or whose place is overwritten."""
        self.statements.append(Local(name, value))
        return var(name, value.dtype)

    def write(self, operand: int, value: Value, part: int = 0, parts: int = 1) -> None:
        self.statements.append(Store(operand, self.at(part, parts), value))

    def nest(self, name: str, inputs: int, outputs: int) -> Nest:
        stop = self.width if self.turn == 1 else idiv(self.width, const(self.turn, "i64")) * self.turn
        body: list[Statement] = [For("j", const(0, "i64"), stop, tuple(self.statements), vector=True)]
        return Nest(name, operands([self.code] * inputs, [self.code] * outputs), ("width",), rows(*body))


def lstm_forward(code: str, turn: int) -> Nest:
    """Operands: c; gates (before and after activation), h, out, cells."""
    e = Element(code, turn)
    write, keep, new, read = (
        e.keep(n, f(e.read(1, k, 4)))
        for k, (n, f) in enumerate((("write", s.sigmoid), ("keep", s.sigmoid), ("new", s.tanh), ("read", s.sigmoid)))
    )
    c = e.keep("c", keep * e.read(0) + write * new)
    h = e.keep("h", read * s.tanh(c))
    for k, gate in enumerate((write, keep, new, read)):
        e.write(1, gate, k, 4)
    for operand, value in ((2, h), (3, h), (4, c), (0, c)):
        e.write(operand, value)
    return e.nest("lstm_forward", 0, 5)


def lstm_backward(code: str, turn: int) -> Nest:
    """Operands: gradient of out, gates, cells, cells before; gradient of h and of c so far, gradient of the gates."""
    e = Element(code, turn)
    write, keep, new, read = (e.keep(n, e.read(1, k, 4)) for k, n in enumerate(("write", "keep", "new", "read")))
    dh = e.keep("dh", e.read(0) + e.read(4))
    lit = e.keep("lit", s.tanh(e.read(2)))
    dc = e.keep("dc", e.read(5) + dh * read * (1 - lit * lit))
    slopes = (
        dc * new * write * (1 - write),
        dc * e.read(3) * keep * (1 - keep),
        dc * write * (1 - new * new),
        dh * lit * read * (1 - read),
    )
    for k, slope in enumerate(slopes):
        e.write(6, slope, k, 4)
    e.write(5, dc * keep)
    return e.nest("lstm_backward", 4, 3)


def gru_forward(code: str, turn: int) -> Nest:
    """Operands: projected input, projected state; h, out, kept."""
    e = Element(code, turn)
    reset = e.keep("reset", s.sigmoid(e.read(0, 0, 3) + e.read(1, 0, 3)))
    update = e.keep("update", s.sigmoid(e.read(0, 1, 3) + e.read(1, 1, 3)))
    inner = e.keep("inner", e.read(1, 2, 3))
    new = e.keep("new", s.tanh(e.read(0, 2, 3) + reset * inner))
    h = e.keep("h", new + update * (e.read(2) - new))
    for k, value in enumerate((reset, update, new, inner)):
        e.write(4, value, k, 4)
    e.write(2, h)
    e.write(3, h)
    return e.nest("gru_forward", 2, 3)


def gru_backward(code: str, turn: int) -> Nest:
    """Operands: gradient of out, kept, h before; gradient of h so far, gradients of the two projections."""
    e = Element(code, turn)
    reset, update, new, inner = (e.keep(n, e.read(1, k, 4)) for k, n in enumerate(("reset", "update", "new", "inner")))
    dh = e.keep("dh", e.read(0) + e.read(3))
    d_new = e.keep("d_new", dh * (1 - update) * (1 - new * new))
    d_update = e.keep("d_update", dh * (e.read(2) - new) * update * (1 - update))
    d_reset = e.keep("d_reset", d_new * inner * reset * (1 - reset))
    for k, (given, hidden) in enumerate(((d_reset, d_reset), (d_update, d_update), (d_new, d_new * reset))):
        e.write(4, given, k, 3)
        e.write(5, hidden, k, 3)
    e.write(3, dh * update)
    return e.nest("gru_backward", 3, 3)


def rnn_forward(code: str, turn: int, kind: str) -> Nest:
    """Operands: out (before and after activation), h."""
    e = Element(code, turn)
    h = e.keep("h", s.tanh(e.read(0)) if kind == "tanh" else s.relu(e.read(0)))
    e.write(0, h)
    e.write(1, h)
    return e.nest(f"rnn_{kind}_forward", 0, 2)


def rnn_backward(code: str, turn: int, kind: str) -> Nest:
    """Operands: gradient of out, out, gradient of h so far; gradient of the projection."""
    e = Element(code, turn)
    dh, out = e.read(0) + e.read(2), e.keep("out", e.read(1))
    e.write(3, dh * (1 - out * out) if kind == "tanh" else s.where(out > 0, dh, const(0, code)))
    return e.nest(f"rnn_{kind}_backward", 3, 1)


@functools.cache
def kernel(mode: str, code: str, backward: bool, turn: int) -> int:
    """The address of a mode's kernel."""
    if mode in ("tanh", "relu"):
        return compile_for(CPU, (rnn_backward if backward else rnn_forward)(code, turn, mode))
    nests = {"lstm": (lstm_forward, lstm_backward), "gru": (gru_forward, gru_backward)}
    return compile_for(CPU, nests[mode][backward](code, turn))


@functools.cache
def copy_kernel(code: str) -> int:
    """The address of a copy of elements in a row, one that last states are joined by too."""
    return compile_for(CPU, copy_nest(code, code, 1))


def turn_of(code: str, width: int) -> int:
    """Elements of a turn of a loop over vectors, where the width is a number of turns: else 1."""
    turn = FEW * vector_bits() // 8 // SIZES[code]
    return turn if width % turn == 0 else 1


# --- plans ------------------------------------------------------------------------------------------------------------


def spread_runs(runs: Sequence[int]) -> list[int]:
    """[count, size, count, size, ...] as the size of every step."""
    return [size for count, size in zip(runs[::2], runs[1::2], strict=True) for _ in range(count)]


def join_runs(sizes: Sequence[int]) -> list[int]:
    """The other way round: short where steps are alike, so that few plans serve many calls."""
    result: list[int] = []
    for size in sizes:
        if result and result[-1] == size:
            result[-2] += 1
        else:
            result += [1, size]
    return result


class Walk:
    """Steps of a plan over the steps of a sequence."""

    def __init__(self, mode: str, code: str, runs: Sequence[int], width: int, backwards: bool) -> None:
        self.mode, self.code, self.width, self.size = mode, code, width, SIZES[code]
        self.gates, self.kept = GATES[mode] * width, KEPT[mode] * width
        self.dtype, self.turn = BY_CODE[code], turn_of(code, width)
        sizes = spread_runs(runs)
        starts = [0]
        for n in sizes:
            starts.append(starts[-1] + n)
        self.rows, self.batch = starts[-1], max(sizes)
        self.order = list(zip(sizes, starts))[:: -1 if backwards else 1]   # as the states go: (rows, first row)
        self.steps: list[Step] = []
        # One product with few rows is over before packing the weight would pay.
        self.packs = len(sizes) > 1 or self.batch >= PACKED_ROWS or self.batch * self.gates * width <= SMALL
        self.tiles: dict[int, Step] = {}               # steps of products by their rows, with PLACES for slots

    def slot(self, rows: int, cols: int, kind: str = "new") -> tuple:
        return (kind, self.dtype, (rows, cols), None, -1, 0)

    def copy(self, source: int, target: int, rows: int, cols: int, row: int) -> None:
        """Rows of `cols` elements that lie `row` apart, or are one (0), into a dense slot."""
        if row == cols:
            count = rows * cols
            self.steps.append(Step(copy_kernel(self.code), [source, target], [count, 1, 1], count, COPIED, -1))
            return
        self.steps.append(copy_step(CPU, source, target, self.code, (rows, cols), (row, 1), cols))

    def pack(self, weight: int, scratch: int, transposed: bool, added: int | None = None, tiles: bool = True) -> tuple:
        """The hidden weight [gates, width] for products with states (transposed) or with gradients of gates; leaves
        what the slot `scratch` is. `added`: columns of what is added to all products (0: a bias), None for nothing.

        Few rows meet weights where they lie. Else these are packed, for the register tiles of all products where every
        step has rows enough, and `tiles` says that nothing is added in place, or for tiles that read rows as they lie.
        """
        n, k = (self.gates, self.width) if transposed else (self.width, self.gates)
        self.weight = Matrix(weight, 1, k) if transposed else Matrix(weight, n, 1)
        if not self.packs:
            return self.slot(n, k, "temp")
        sizes = {m for m, _ in self.order}
        if len(sizes) == 1 and self.suits_few(n, k):       # each number of rows has a kernel of its own
            few = few_rows_step(self.code, CPU, *self.matrices(n, k), self.batch, n, k, 1, self.addend(added), least=1)
            if few is not None:
                self.tiles[self.batch] = few
                return self.slot(0, 0, "temp")
        answers = {m: self.tiled(m, n, k, added) for m in sizes} if tiles else {}
        found = {m: answer for m, answer in answers.items() if answer is not None}
        if not found or len(found) != len(answers):
            self.steps += pack_strips(self.code, self.weight, n, k, scratch)
            return self.slot(n, k, "temp")
        self.tiles = {m: product for m, ((_, product), _) in found.items()}
        (packing, _), elements = found[self.batch]
        self.steps.append(packing._replace(operands=[weight, scratch]))
        return self.slot(1, elements, "temp")

    def suits_few(self, n: int, k: int) -> bool:
        """Whether a step's rows are better multiplied with weights where these lie."""
        wide = vector_bits() == 512
        if wide and self.batch <= few_rows.MOST and n * k * self.size > second_cache():    # memory is waited for
            return True
        return self.batch in FEW_ROWS and k * self.size * 8 >= FEW_FROM * vector_bits()

    def matrices(self, n: int, k: int) -> tuple[Matrix, Matrix, Matrix]:
        """Left, right and result of a product, at PLACES."""
        a, b, _, c, _ = PLACES
        return Matrix(a, k, 1), Matrix(b, self.weight.row, self.weight.col), Matrix(c, n, 1)

    def addend(self, added: int | None) -> Matrix | None:
        return None if added is None else Matrix(PLACES[2], added, 1)

    def tiled(self, m: int, n: int, k: int, added: int | None) -> tuple[list[Step], int] | None:
        """Steps that pack the weight and multiply m rows in register tiles, and elements of the packed weight."""
        apart = Wishes(packs_apart=True)
        return tiled_steps(self.code, CPU, *self.matrices(n, k), m, n, k, PLACES[4], 1, self.addend(added), apart)

    def multiply(
        self,
        m: int,
        a: tuple[int, int, int],
        c: tuple[int, int, int],
        scratch: int,
        addend: tuple[int, int, int] | None = None,
    ) -> None:
        """c = a @ packed (+ addend) for m rows; each is (slot, first element, columns), 0 columns for a bias."""
        x, out = Matrix(a[0], a[2], 1), Matrix(c[0], c[2], 1)
        added = None if addend is None else Matrix(addend[0], addend[2], 1)
        if not self.packs:   # a single step: every slot begins at its first element
            if addend is not None and addend[0] != c[0]:
                self.copy(addend[0], c[0], m, c[2], addend[2])
            product = steps(
                self.code, CPU, x, self.weight, out, m, c[2], a[2], 1, 1.0, 0.0 if addend is None else 1.0
            )
            assert product is not None, "rows of floats are multiplied somehow"
            self.steps += product
        elif self.tiles:
            tiled = self.tiles[m]
            given = (a, (self.weight.slot, 0), addend, c, (scratch, 0))
            places = {place: t and (t[0], t[1] * self.size) for place, t in zip(PLACES, given, strict=True)}
            self.steps.append(tiled._replace(operands=[places[place] for place in tiled.operands]))
        else:
            starts = (a[1], c[1], addend[1] if addend else 0)
            self.steps += strip_products(self.code, x, scratch, out, m, c[2], a[2], added, starts)

    def gate(self, m: int, backward: bool, places: Sequence[tuple[int, int]]) -> None:
        """The kernel over m rows; places are (slot, first element)."""
        at = [(slot, first * self.size) for slot, first in places]
        address = kernel(self.mode, self.code, backward, self.turn)
        self.steps.append(Step(address, at, [self.width], m, max(1, WORK // self.width), -1))


def short_lived(make: Callable) -> Callable:
    """Keep the plans of recent calls, but not those of very long sequences, which are large. Graphs ask for new ones,
    which they take apart. Products are cut for a number of threads."""
    kept = functools.lru_cache(maxsize=64)(lambda threads, *args: make(*args))

    @functools.wraps(make)
    def plan(mode: str, code: str, runs: tuple[int, ...], *rest: Any, is_new: bool = False) -> Any:
        if is_new or sum(runs[::2]) > LONG:
            return make(mode, code, runs, *rest)
        return kept(_C.get_num_threads(), mode, code, runs, *rest)

    return plan


@short_lived
def forward_plan(mode: str, code: str, runs: tuple[int, ...], width: int, backwards: bool, has_bias: bool) -> Any:
    """Inputs: given, h, [c], weight, [bias]. Results: out, last h, [last c, cells], [kept]."""
    w = Walk(mode, code, runs, width, backwards)
    given, first_h, first_c = 0, 1, 2
    weight = 3 if mode == "lstm" else 2
    count = weight + 1 + has_bias
    out, h, c, cells = count, count + 1, count + 2, count + 3
    slots = [w.slot(w.rows, width), w.slot(w.batch, width)]
    if mode == "lstm":
        slots += [w.slot(w.batch, width), w.slot(w.rows, width)]
    kept = count + len(slots)
    if w.kept:
        slots.append(w.slot(w.rows, w.kept))
    packed, projected = count + len(slots), count + len(slots) + 1
    added = (0 if has_bias else None) if mode == "gru" else w.gates
    slots += [
        w.pack(weight, packed, True, added), w.slot(w.batch if mode == "gru" else 0, w.gates, "temp"),
    ]
    w.copy(first_h, h, w.batch, width, width)
    if mode == "lstm":
        w.copy(first_c, c, w.batch, width, width)
    for m, row in w.order:
        state, rows_out, ahead = (h, 0, width), row * width, row * w.gates
        if mode == "lstm":
            w.multiply(m, state, (kept, ahead, w.gates), packed, (given, ahead, w.gates))
            w.gate(m, False, [(c, 0), (kept, ahead), (h, 0), (out, rows_out), (cells, rows_out)])
        elif mode == "gru":
            w.multiply(m, state, (projected, 0, w.gates), packed, (weight + 1, 0, 0) if has_bias else None)
            w.gate(m, False, [(given, ahead), (projected, 0), (h, 0), (out, rows_out), (kept, row * w.kept)])
        else:
            w.multiply(m, state, (out, rows_out, width), packed, (given, ahead, width))
            w.gate(m, False, [(out, rows_out), (h, 0)])
    return _C.Plan(count, CPU, slots, w.steps, False)


@short_lived
def backward_plan(mode: str, code: str, runs: tuple[int, ...], width: int, backwards: bool) -> Any:
    """Inputs: gradients of out, last h, [last c]; weight; lstm: gates, cells, cells before; gru: kept, h before; rnn:
    out.

    Results: gradients of h, [c], given, [gru: the projected state]."""
    w = Walk(mode, code, runs, width, backwards)
    weight = 3 if mode == "lstm" else 2
    count = weight + {"lstm": 4, "gru": 3}.get(mode, 2)
    dh, dc = count, count + 1
    slots = [w.slot(w.batch, width)] * (2 if mode == "lstm" else 1)
    d_given = count + len(slots)
    slots += [w.slot(w.rows, w.gates)] * (2 if mode == "gru" else 1)
    d_hidden, packed = count + len(slots) - 1, count + len(slots)
    in_place = mode == "gru"         # the product is added to what the gate's kernel left there
    slots.append(w.pack(weight, packed, False, width if in_place else None, tiles=not in_place))
    w.copy(1, dh, w.batch, width, width)
    if mode == "lstm":
        w.copy(2, dc, w.batch, width, width)
    for m, row in reversed(w.order):
        at, ahead = row * width, row * w.gates
        if mode == "lstm":
            w.gate(
                m,
                True,
                [
                    (0, at),
                    (weight + 1, row * w.kept),
                    (weight + 2, at),
                    (weight + 3, at),
                    (dh, 0),
                    (dc, 0),
                    (d_given, ahead),
                ],
            )
        elif mode == "gru":
            w.gate(
                m,
                True,
                [(0, at), (weight + 1, row * w.kept), (weight + 2, at), (dh, 0), (d_given, ahead), (d_hidden, ahead)],
            )
        else:
            w.gate(m, True, [(0, at), (weight + 1, at), (dh, 0), (d_given, ahead)])
        w.multiply(m, (d_hidden, ahead, w.gates), (dh, 0, width), packed, (dh, 0, width) if mode == "gru" else None)
    return _C.Plan(count, CPU, slots, w.steps, False)
