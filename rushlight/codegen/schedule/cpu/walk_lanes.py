"""CPU schedules of walks along rows: as many rows at a time as a register has lanes.

Enters: a Lowered with a `walk` over dense rows that lie one stride apart. Leaves: one launch, or None where rows are
few or short, or elements have other sizes than 4 and 8 bytes. A walk is a chain of operations, each waiting for the one
before; on lanes sixteen chains go side by side. Squares of rows and points are exchanged in registers on the way in and
out, through scratch memory on the stack, where each row's state waits from square to square.
"""

from __future__ import annotations

from ....loops.expr import Value, cast, const, idiv, load, min_, var
from ....loops.lowered import HERE, Lowered, Placed
from ....loops.nest import Assign, For, Local, Nest, Operand, Statement, Store, rows
from ...text.primitives import SIZE
from ...text.targets import vector_bits
from ..forms.launch import Launch, Schedule, grain_of
from ..forms.sources import given_bits, given_names, sources_of
from .walk_chunks import is_long

ZERO = const(0, "i64")
SHORT = 32          # points below which a row is walked on its own


def lanes_of(lowered: Lowered) -> int:
    """Rows walked together: a register of the largest elements; 0 if some have another size than 4 and 8 bytes.

    More rows would be more streams of memory than processors read ahead in. Registers of 16 bytes hold too few states
    that are wider than elements: exchanging them there and back takes longer than waiting, unless for a long step.
    """
    codes = [lowered.memories[0].code, *lowered.outs]
    if any(code not in ("f32", "f64", "i32", "i64") for code in codes):
        return 0
    widest = max(SIZE[state.dtype] for state in lowered.walk.init())
    if vector_bits() == 128 and widest > SIZE[codes[0]] and not is_long(lowered):
        return 0
    return vector_bits() // 8 // max(SIZE[code] for code in codes)


def rows_in_lanes(lowered: Lowered) -> Schedule | None:
    """The launch, where it pays."""
    memory, dim = lowered.memories[0], lowered.walk.dim
    shape, strides = lowered.ranges or (1,), memory.along() or (1,)
    width = lanes_of(lowered)
    outer = [(n, s) for n, s in zip(shape[:dim], strides[:dim], strict=True) if n != 1]
    count, length = 1, shape[dim]
    if width < 4 or strides[dim] != 1 or any(n != 1 for n in shape[dim + 1 :]) or not outer:
        return None
    for k, (n, s) in enumerate(outer):
        if k and outer[k - 1][1] != n * s:
            return None
        count *= n
    if count < width or length < SHORT:
        return None
    key = ("walk_lanes", lowered.key, memory.code, lowered.outs, width)
    params = (count, length, outer[-1][1], *given_bits(lowered))
    numbers = tuple(range(1 + len(lowered.outs)))
    return Schedule(
        (
            Launch(
                key, lambda: lanes_nest(lowered, width), numbers, params, -(-count // width), grain_of(width * length)
            ),
        )
    )


def lanes_nest(lowered: Lowered, width: int) -> Nest:
    """Blocks of rows; the last begins early, so that it is whole."""
    return _Writer(lowered, width).nest()


class _Writer:
    def __init__(self, lowered: Lowered, width: int) -> None:
        self.lowered, self.walk, self.width, self.lanes = lowered, lowered.walk, const(width, "i64"), width
        self.code, self.outs = lowered.memories[0].code, lowered.outs
        self.init = self.walk.init()
        self.names = [f"acc{k}" for k in range(len(self.init))]
        self.now = tuple(var(n, v.dtype) for n, v in zip(self.names, self.init, strict=True))
        # operands: the square of elements, then one of each output, then states
        self.square = 1 + len(self.outs)
        self.emitted = [self.square + 1 + k for k in range(len(self.outs))]
        self.states = [self.emitted[-1] + 1 + k for k in range(len(self.init))]

    def nest(self) -> Nest:
        area = self.lanes * self.lanes
        operands = [Operand(self.code), *[Operand(code) for code in self.outs], Operand(self.code, area)]
        operands += [Operand(code, area) for code in self.outs] + [Operand(v.dtype, self.lanes) for v in self.init]
        first = min_(var("i") * self.width, var("count") - self.width)
        lane = var("v0")
        begin = For(
            "v0",
            ZERO,
            self.width,
            tuple(Store(s, lane, v) for s, v in zip(self.states, self.init, strict=True)),
            vector=True,
        )
        tiles = For("t", ZERO, idiv(var("length"), self.width), (
            Local("point", var("t") * self.width), self.read_square(), self.walk_square(),
            *[s for k in range(len(self.outs)) for s in self.write_square(k)]))
        head = (Local("row", first), Local("done", idiv(var("length"), self.width) * self.width))
        params = ("count", "length", "stride", *given_names(self.lowered))
        return Nest(f"{self.lowered.name}_lanes", tuple(operands), params, rows(*head, begin, tiles, self.rest()))

    def read_square(self) -> For:
        """Elements of all rows at the points of a square, with rows next to each other."""
        lane = var("v1")
        stores = []
        for k in range(self.lanes):
            x = load(0, var("row") * var("stride") + lane * var("stride") + var("point") + const(k, "i64"), self.code)
            stores.append(Store(self.square, const(k * self.lanes, "i64") + lane, x))
        return For("v1", ZERO, self.width, tuple(stores), vector=True, transposed=True)

    def walk_square(self) -> For:
        lane, p = var("v2"), var("p")
        place = p * self.width + lane
        element = self.lowered.body(HERE, sources_of(self.lowered, [Placed(self.square, place, self.code)]))[0]
        following = self.walk.step(self.now, element, var("point") + p)
        body = self.stepped(following) + [
            Store(m, place, cast(v, code))
            for m, v, code in zip(self.emitted, self.walk.emit(self.now), self.outs, strict=True)
        ]
        start = [Local(n, load(s, lane, v.dtype)) for n, s, v in zip(self.names, self.states, self.init, strict=True)]
        keep = [Store(s, lane, v) for s, v in zip(self.states, self.now, strict=True)]
        return For("v2", ZERO, self.width, (*start, For("p", ZERO, self.width, tuple(body)), *keep), vector=True)

    def stepped(self, following: tuple[Value, ...]) -> list[Statement]:
        body: list[Statement] = [Local(f"next{k}", v) for k, v in enumerate(following)]
        return body + [
            Assign(n, var(f"next{k}", v.dtype)) for k, (n, v) in enumerate(zip(self.names, self.init, strict=True))
        ]

    def write_square(self, which: int) -> list[Statement]:
        """An output's square, exchanged back: in smaller squares where its elements are larger."""
        code = self.outs[which]
        side = min(self.lanes, vector_bits() // 8 // SIZE[code])
        results: list[Statement] = []
        for a in range(0, self.lanes, side):
            for b in range(0, self.lanes, side):
                name = f"c{which}.{a}.{b}"
                c = var(name)
                stores = []
                for r in range(side):
                    value = load(self.emitted[which], c * self.width + const(b * self.lanes + a + r, "i64"), code)
                    stores.append(
                        Store(
                            1 + which,
                            (var("row") + const(a + r, "i64")) * var("length") + var("point") + const(b, "i64") + c,
                            value,
                        )
                    )
                results.append(For(name, ZERO, const(side, "i64"), tuple(stores), vector=True, transposed=True))
        return results

    def rest(self) -> For:
        """The points after the last square, row by row."""
        lane, j = var("l"), var("j")
        source = (var("row") + lane) * var("stride") + j
        element = self.lowered.body(HERE, sources_of(self.lowered, [Placed(0, source, self.code)]))[0]
        following = self.walk.step(self.now, element, j)
        place = (var("row") + lane) * var("length") + j
        body = self.stepped(following) + [
            Store(1 + k, place, cast(v, code))
            for k, (v, code) in enumerate(zip(self.walk.emit(self.now), self.outs, strict=True))
        ]
        start = [Local(n, load(s, lane, v.dtype)) for n, s, v in zip(self.names, self.states, self.init, strict=True)]
        return For("l", ZERO, self.width, (*start, For("j", var("done"), var("length"), tuple(body))))
