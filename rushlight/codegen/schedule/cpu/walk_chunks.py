"""CPU schedules of walks along a few long rows: in chunks, and in every chunk several walks at once.

Enters: a Lowered with a `walk` whose halves can be merged, over dense rows. Leaves: launches, or None where rows are
many, short or strided. A walk is a chain of operations, each waiting for the one before, so parts are put
together before. One thread goes chunk after chunk, several fold all chunks first; both add in the same order.

`_Lanes`, for steps that are long: the parts of a chunk are folded, which gives where each begins, and walked on lanes.
`_Pairs`, for steps that are short, which conversions to and from lanes would outweigh: two elements are joined first.
Plain sums are added within registers where these are wide (prefix_sums.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from .... import _C
from ....loops.expr import Value, cast, const, eq, idiv, irem, load, min_, select, var, walk
from ....loops.lowered import Lowered
from ....loops.nest import Assign, For, Local, Nest, Operand, Statement, Store, operands, reduction, rows
from ...library.prefix_sums import PrefixSums
from ...text.primitives import SIZE
from ...text.targets import vector_bits
from ..forms.launch import Launch, Schedule, Temp, product
from ..forms.sources import given_bits, given_names
from ..forms.walk import element

ZERO = const(0, "i64")
SCAN_CHUNK = 65536       # elements of a long row that one thread walks at a time
MOST = 2             # rows; more are walked side by side themselves
LONG = 4             # chunks from which on a row is divided
WIDE = vector_bits() > 128     # whether sums within registers pay: of two lanes conversions cost as much as waiting
OF_LONG_STEPS = 8192     # elements of a chunk whose steps take so long that less work is worth dividing


def is_long(lowered: Lowered) -> bool:
    """Whether a step has functions in it that take many instructions."""
    init = lowered.walk.init()
    now = tuple(var(f"acc{k}", v.dtype) for k, v in enumerate(init))
    x = var("x", lowered.walk.compute)
    return any(v.op == "call" for v in walk([*lowered.walk.step(now, x, ZERO), *lowered.walk.emit(now)]))


def is_plain_sum(lowered: Lowered) -> bool:
    """Whether elements are added up as they are in float64, and registers hold enough of them to add within one."""
    past, code = lowered.walk, lowered.memories[0].code
    plain = past.way == "add" and past.plain is lowered.body and not given_names(lowered)
    return plain and WIDE and code in ("f32", "f64") and past.compute == "f64" and lowered.outs == (code,)


def chunked(lowered: Lowered) -> Schedule | None:
    """A few long dense rows in chunks; None for others."""
    memory, past = lowered.memories[0], lowered.walk
    shape, strides, dim = lowered.ranges, memory.along(), lowered.walk.dim
    count, length = product(shape[:dim]), shape[dim] if shape else 0
    if (
        past.merge is None
        or not length
        or count > MOST
        or strides[dim] != 1
        or product(shape[dim + 1 :]) != 1
        or len(lowered.outs) != 1
    ):
        return None
    writer: type[_Writer] = _Lanes if is_long(lowered) or len(past.init()) > 1 else _Pairs
    if length < LONG * writer.chunk_size:
        return None
    far = [s for n, s in zip(shape[:dim], strides[:dim], strict=True) if n != 1]
    key = ("chunks", lowered.key, memory.code, lowered.outs, writer.__name__)
    chunks = -(-length // writer.chunk_size)
    params = (length, chunks, far[0] if far else 0, *given_bits(lowered))

    in_registers = is_plain_sum(lowered)

    def launch(name: str, numbers: Sequence[int], extent: int) -> Launch:
        def nest() -> Nest | PrefixSums:
            if in_registers and name != "starts":
                return PrefixSums(memory.code, name, writer.chunk_size)
            return getattr(writer(lowered), name)()

        return Launch((*key, name, in_registers), nest, tuple(numbers), params, extent, 1)

    if _C.get_num_threads() == 1:
        return Schedule((launch("whole", (0, 1), count),))
    codes = [v.dtype for v in past.init()]
    states = range(2, 2 + len(codes))
    return Schedule(
        (
            launch("folds", (0, *states), count * chunks),
            launch("starts", states, count),
            launch("walks", (0, *states, 1), count * chunks),
        ),
        tuple([Temp(code, (count * chunks,)) for code in codes]),
    )


class _Writer:
    """The nests: names of states end in the number of the state."""

    chunk_size: ClassVar[int] = SCAN_CHUNK

    def __init__(self, lowered: Lowered) -> None:
        self.lowered, self.past = lowered, lowered.walk
        self.code, self.out = lowered.memories[0].code, lowered.outs[0]
        self.init = list(self.past.init())
        self.codes = [v.dtype for v in self.init]
        self.elements = const(self.chunk_size, "i64")
        self.params = ("length", "chunks", "row", *given_names(lowered))

    def fold(self) -> list[Statement]:
        """States called `sum` from the elements between `start` and `stop`, where these are a whole chunk."""
        raise NotImplementedError

    def chunk(self, out: int) -> list[Statement]:
        """Walks from `start` to `stop` from the states called `now`, and `sum` as above; scratch memory comes behind
        operand `out`."""
        raise NotImplementedError

    def scratch(self) -> tuple[Operand, ...]:
        raise NotImplementedError

    # Names

    def states(self, name: str) -> list[Value]:
        return [var(f"{name}{k}", code) for k, code in enumerate(self.codes)]

    def named(self, name: str, values: Sequence[Value]) -> list[Statement]:
        return [Local(f"{name}{k}", v) for k, v in enumerate(values)]

    def assigned(self, name: str, values: Sequence[Value]) -> list[Statement]:
        """New values of states, all computed from the old ones."""
        own = [Local(f"next.{name}{k}", v) for k, v in enumerate(values)]
        return [*own, *[Assign(f"{name}{k}", var(f"next.{name}{k}", c)) for k, c in enumerate(self.codes)]]

    def joined(self, a: Sequence[Value], b: Sequence[Value]) -> list[Value]:
        return list(self.past.merge(tuple(a), tuple(b)))

    def bounds(self, row: Value, chunk: Value) -> list[Statement]:
        """Where a chunk begins and ends."""
        return [
            Local("start", chunk * self.elements), Local("stop", min_(var("start") + self.elements, var("length"))),
            Local("from", row * var("row")), Local("to", row * var("length")),
        ]

    def step(self, name: str, out: int, at: Value) -> list[Statement]:
        """One element of a walk."""
        now = self.states(name)
        following = self.past.step(tuple(now), element(self.lowered, var("from") + at), at)
        store = Store(out, var("to") + at, cast(self.past.emit(tuple(now))[0], self.out))
        return [*self.assigned(name, following), store]

    def one_by_one(self, name: str, out: int, begin: Value) -> For:
        """The walk from `begin` to `stop`."""
        return For("r", begin, var("stop"), tuple(self.step(name, out, var("r"))))

    # Nests

    def whole(self) -> Nest:
        """A row, chunk after chunk."""
        following = self.assigned("now", self.joined(self.states("now"), self.states("sum")))
        chunk = For("c", ZERO, var("chunks"), (*self.bounds(var("i"), var("c")), *self.chunk(1), *following))
        all_operands = (Operand(self.code), Operand(self.out), *self.scratch())
        return Nest(f"{self.lowered.name}_row", all_operands, self.params, rows(*self.named("now", self.init), chunk))

    def walks(self) -> Nest:
        """One chunk, from a state that is given."""
        i = var("i")
        start = [load(1 + k, i, code) for k, code in enumerate(self.codes)]
        bounds = self.bounds(idiv(i, var("chunks")), irem(i, var("chunks")))
        all_operands = (Operand(self.code), *map(Operand, self.codes), Operand(self.out), *self.scratch())
        return Nest(f"{self.lowered.name}_chunks", all_operands, self.params,
                    rows(*bounds, *self.named("now", start), *self.chunk(1 + len(self.codes))))

    def folds(self) -> Nest:
        """The state at the end of every chunk that has another behind it."""
        i = var("i")
        bounds = self.bounds(idiv(i, var("chunks")), irem(i, var("chunks")))
        stores = [Store(1 + k, i, v) for k, v in enumerate(self.states("sum"))]
        return Nest(f"{self.lowered.name}_fold", operands([self.code], self.codes), self.params,
                    rows(*bounds, *self.fold(), *stores))

    def starts(self) -> Nest:
        """From the states at the ends of chunks to those at their beginnings."""
        at = var("i") * var("chunks") + var("j")
        now = self.states("now")
        here = [load(k, at, code) for k, code in enumerate(self.codes)]
        step = [
            *self.named("here", here), *[Store(k, at, v) for k, v in enumerate(now)],
            *self.assigned("now", self.joined(now, self.states("here"))),
        ]
        return Nest(f"{self.lowered.name}_starts", operands([], self.codes), self.params,
                    rows(*self.named("now", self.init), For("j", ZERO, var("chunks"), tuple(step))))


class _Lanes(_Writer):
    chunk_size = OF_LONG_STEPS

    def __init__(self, lowered: Lowered) -> None:
        super().__init__(lowered)
        # A register of the elements; short ones twice, so that two chains fill the units.
        lanes = vector_bits() // 8 // max(SIZE[self.code], SIZE[self.past.compute], 2)
        self.parts = max(lanes * (2 if vector_bits() == 128 else 1), 2)
        self.size = const(self.chunk_size // self.parts, "i64")

    def scratch(self) -> tuple[Operand, ...]:
        return tuple([Operand(code, self.parts) for code in self.codes])

    def fold(self, keep: Sequence[Statement] = ()) -> list[Statement]:
        """Part after part; before each, `keep`."""
        begin = var("start") + var("p") * self.size
        j = var("f")
        x = element(self.lowered, var("from") + j)
        names = [f"part{k}" for k in range(len(self.init))]
        fold = reduction("f", begin, begin + self.size, names, self.init,
                         lambda acc: list(self.past.step(tuple(acc), x, j)), self.joined)
        body = [*keep, fold, *self.assigned("sum", self.joined(self.states("sum"), self.states("part")))]
        is_whole = select(eq(var("stop") - var("start"), self.elements), const(self.parts, "i64"), ZERO)
        return [*self.named("sum", self.init), For("p", ZERO, is_whole, tuple(body))]

    def chunk(self, out: int) -> list[Statement]:
        firsts = self.joined(self.states("now"), self.states("sum"))
        kept = [Store(out + 1 + k, var("p"), v) for k, v in enumerate(firsts)]
        lane, j = var("v"), var("j")
        begin = [load(out + 1 + k, lane, code) for k, code in enumerate(self.codes)]
        body = self.step("acc", out, var("start") + lane * self.size + j)
        whole = eq(var("stop") - var("start"), self.elements)
        part = For("j", ZERO, select(whole, self.size, ZERO), tuple(body))
        return [
            *self.fold(kept),
            For("v", ZERO, const(self.parts, "i64"), (*self.named("acc", begin), part), vector=True),
            *self.named("last", self.states("now")),
            self.one_by_one("last", out, select(whole, var("stop"), var("start"))),
        ]


class _Pairs(_Writer):
    def scratch(self) -> tuple[Operand, ...]:
        return ()

    def each_pair(self, body: list[Statement]) -> list[Statement]:
        """`body` for every two elements, whose place is `at`, the state of both together `pair`."""
        one, two = (self.past.single(element(self.lowered, var("from") + var("at") + const(k, "i64"))) for k in (0, 1))
        head: list[Statement] = [Local("at", var("start") + var("q") * const(2, "i64"))]
        head += [*self.named("one", one), *self.named("two", two)]
        pair = self.named("pair", self.joined(self.states("one"), self.states("two")))
        total = self.assigned("sum", self.joined(self.states("sum"), self.states("pair")))
        return [
            *self.named("sum", self.init),
            For("q", ZERO, self.whole_pairs(), (*head, *pair, *body, *total)),
        ]

    def whole_pairs(self) -> Value:
        return idiv(var("stop") - var("start"), const(2, "i64"))

    def fold(self) -> list[Statement]:
        return self.each_pair([])

    def chunk(self, out: int) -> list[Statement]:
        """The sum of a pair is added to what is before it, which so is waited for half as often."""
        now, place = self.states("acc"), var("to") + var("at")
        body: list[Statement] = []
        for k, name in enumerate(("one", "pair")):
            body += self.named(f"{name}.", self.joined(now, self.states(name)))
            value = self.past.emit(tuple(self.states(f"{name}.")))[0]
            body.append(Store(out, place + const(k, "i64"), cast(value, self.out)))
        return [
            *self.named("acc", self.states("now")),
            *self.each_pair([*body, *self.assigned("acc", self.states("pair."))]),
            self.one_by_one("acc", out, var("start") + self.whole_pairs() * const(2, "i64")),
        ]
