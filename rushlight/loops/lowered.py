"""Lowered ops: what an op computes, element by element, before anybody decides in which order and on what.

Enters: what a kind's `lower(args)` states: ranges, reads, a scalar body, and perhaps a fold, a walk or a scatter.
Leaves: an immutable `Lowered`, which `codegen/schedule` turns into nests for a target, `inline` (inline.py) joins with
others, and `show_lowered` prints. Refuses: schedules, targets and operand numbers; those are the scheduler's.

    sum of exp(x) along the last of two dims

    ranges   (rows, cols)                        sizes may be symbolic
    reads    Memory("x", "f32", (rows, cols), (stride, 1), dims=(0, 1))
    body     lambda at, sources: (exp(sources[0].read(at)),)
    fold     init 0, step and merge +            reduced = {1}

A read is an interface: a body asks `sources[k].read(at)` for the element that read k has at loop position `at`, and
never learns whether that is a load (`Elements`, `Placed`), a run-time number (`Given`) or another op's body
(`Computed`). Bodies with places of their own (gathers) ask `sources[k][i, j]`, in the coordinates of the operand.

This file lies in `loops` because kinds (op/) state a Lowered and schedulers (codegen/) read it, and both are above.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from .expr import BYTE_FLOATS, Value, bitcast, cast, complex_, const, eq, ge, load, lt, max_, min_, or_, select, var
from .record import Record

if TYPE_CHECKING:
    from .vocabulary import Scalars

ZERO, ONE = const(0, "i64"), const(1, "i64")
# a dim of size 1, of neighbours in memory, any other, of one element over and over
SINGLE, UNIT, GENERAL, REPEATED = 0, 1, 2, 3
LIMIT = 1 << 48
DIM_BITS = 6             # an error code holds the index and, in its low bits, which dim it was for
COMPUTE = {"f16": "f32", "bf16": "f32", **dict.fromkeys(BYTE_FLOATS, "f32"), "c32": "c64"}
Accumulators = Sequence[Value]


def compute_code(code: str) -> str:
    """The type arithmetic on `code` happens in."""
    return COMPUTE.get(code, code)


class NotLowerable(Exception):  # noqa: N818 - an answer, not a failure: the op runs as an extern then
    """Why an op, or two of them together, cannot be stated as one Lowered."""


# --- folds ------------------------------------------------------------------------------------------------------------


class Fold:
    """How elements become a result. `merge(a, b)` must commute; `init` must be neutral in it."""

    uses_index: ClassVar[bool] = False   # step and merge see positions along the reduced dims
    blocked: ClassVar[bool] = False      # long float folds go in blocks, for accuracy
    has_identity: ClassVar[bool] = True
    slow: ClassVar[bool] = False         # a step takes so long that short rows are better folded side by side

    def init(self, s: Scalars, code: str) -> Accumulators:
        """Accumulators before the first element; `code` is the compute type."""
        raise NotImplementedError

    def first(self, s: Scalars, x: Value, index: Value | None) -> Accumulators:
        """Accumulators after the first element; of some folds they are the element itself."""
        return self.step(s, self.init(s, x.dtype), x, index)

    def step(self, s: Scalars, acc: Accumulators, x: Value, index: Value | None) -> Accumulators:
        """Accumulators after one more element. By default the element is merged in."""
        return self.merge(s, acc, (x,) if index is None else (x, index))

    def merge(self, s: Scalars, a: Accumulators, b: Accumulators) -> Accumulators:
        """Two partial results as one."""
        raise NotImplementedError

    def finish(self, s: Scalars, acc: Accumulators, count: Value) -> Value | tuple[Value, ...]:
        """The outputs, from the accumulators and how many elements they saw."""
        return acc[0]


class TwoPass(Fold):
    """A fold that reads each run of elements twice, which is cheap while they are in cache.

    `first` folds the run; `middle` turns its accumulators into values that `second_step` may use; `join` makes this
    fold's accumulators of both. `step` is not needed.
    """

    first: Fold   # type: ignore[assignment]   # the fold of the first pass, not a step of this one
    careful: TwoPass | None = None             # what folds a run again that left doubts, on devices that ask for it

    def middle(self, s: Scalars, acc: Accumulators, length: Value) -> Accumulators:
        """Values the second pass knows."""
        raise NotImplementedError

    def second_init(self, s: Scalars, code: str) -> Accumulators:
        """Accumulators of the second pass; they are added up."""
        raise NotImplementedError

    def second_step(self, s: Scalars, acc: Accumulators, x: Value, known: Accumulators) -> Accumulators:
        """Second-pass accumulators after one more element."""
        raise NotImplementedError

    def join(self, s: Scalars, known: Accumulators, second: Accumulators, length: Value) -> Accumulators:
        """This fold's accumulators for the run."""
        raise NotImplementedError

    def doubts(self, s: Scalars, known: Accumulators, second: Accumulators, length: Value) -> Value:
        """Whether a run is one for `careful`: numbers left the range that theirs can be told apart in."""
        raise NotImplementedError


# --- reads, as a definition states them -------------------------------------------------------------------------------


class Memory(Record):
    """Elements of a tensor. `dims[d]` is the dim of it that range `d` runs along; None where it is repeated.

    `dims` is None where the body reads at places of its own.
    """

    name: str
    code: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dims: tuple[int | None, ...] | None = None
    offset: int = 0          # elements before the first one

    def along(self) -> tuple[int, ...]:
        """The stride of every range."""
        return tuple([0 if d is None else self.strides[d] for d in dims_of(self)])

    def classes(self) -> tuple[int, ...]:
        """What code depends on of this geometry: see SINGLE and the others."""
        return kinds_of(self.sizes, self.strides)


class Table(Memory):
    """Elements that the op works out when it is planned, in order; kernels are given them with their parameters."""

    name: str
    code: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dims: tuple[int | None, ...] | None = None
    offset: int = 0
    values: bytes = b""


class Staged(Memory):
    """Rows of another Lowered's result, each computed when the reader comes to it and kept as long as the reader works
    on it.

    The reader's position along all results' ranges but the last is that of the row;
    it reads the row at places of its own.
    """

    name: str
    code: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dims: tuple[int | None, ...] | None = None
    offset: int = 0
    producer: Any = None


class Number(Record):
    """A number that the kernel is given when it runs."""

    name: str
    code: str
    value: Any


Read = Memory | Number


def dims_of(read: Read | Elements | Computed) -> tuple[int | None, ...]:
    """The dims that ranges run along, of a tensor that is read at the loop position."""
    assert not isinstance(read, Number) and read.dims is not None, "it is read at places of the body's own"
    return read.dims


def kinds_of(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """What a kernel's code depends on of a geometry."""
    return tuple(
        [
            SINGLE if n == 1 else UNIT if s == 1 else GENERAL if s else REPEATED
            for n, s in zip(sizes, strides, strict=True)
        ]
    )


def spread(name: str, code: str, sizes: Sequence[int], strides: Sequence[int], ranges: Sequence[int]) -> Memory:
    """A tensor read at every position of `ranges`, to which it is expanded."""
    missing = len(ranges) - len(sizes)
    dims = [None] * missing + [None if sizes[d] == 1 and ranges[d + missing] != 1 else d for d in range(len(sizes))]
    return Memory(name, code, tuple(sizes), tuple(strides), tuple(dims))


# --- sources: reads as a body meets them ------------------------------------------------------------------------------


class Elements:
    """A tensor in a body: `x[i, j]` loads in its own coordinates, `read(at)` at a loop position;
    `shape` holds run-time sizes."""

    def __init__(
        self, operand: int, name: str, code: str, kinds: tuple[int, ...], dims: tuple[int | None, ...] | None = None
    ) -> None:
        self.operand, self.code, self.dims = operand, code, dims
        self.ndim = len(kinds)
        self.shape = tuple(ONE if kind == SINGLE else var(f"{name}.n{d}") for d, kind in enumerate(kinds))
        known = {SINGLE: ZERO, UNIT: ONE, REPEATED: ZERO}
        self.strides = tuple(known[kind] if kind in known else var(f"{name}.s{d}") for d, kind in enumerate(kinds))

    def place(self, at: Sequence[Value]) -> Value:
        """Element index of position `at`; dims of size 1 repeat."""
        offset = ZERO
        for i, stride in zip(at, self.strides, strict=True):
            offset = offset + i * stride
        return offset

    def __getitem__(self, at: Value | tuple[Value, ...]) -> Value:
        return load(self.operand, self.place(at if isinstance(at, tuple) else (at,)), self.code)

    def read(self, at: Sequence[Value]) -> Value:
        """The element at a loop position."""
        offset = ZERO
        for i, d in zip(at, dims_of(self), strict=True):
            if d is not None:
                offset = offset + i * self.strides[d]
        return load(self.operand, offset, self.code)

    def broadcast(self, at: Sequence[Value]) -> Value:
        """The element this tensor has at `at` once expanded."""
        return self[tuple(at[len(at) - self.ndim :])]


class Placed:
    """A tensor whose place the scheduler has worked out; it can be read at the present position only."""

    def __init__(self, operand: int, place: Value | None, code: str, leaf: Value | None = None) -> None:
        self.operand, self.place, self.code, self.leaf = operand, place, code, leaf

    def read(self, at: Sequence[Value]) -> Value:
        """The element here."""
        assert at is HERE, "an aligned body reads its operands at the present position"
        if self.leaf is not None:
            return self.leaf
        assert self.place is not None, "an operand has a place, or a value that stands for its element"
        return load(self.operand, self.place, self.code)


class Given:
    """A run-time number."""

    def __init__(self, value: Value) -> None:
        self.value, self.code = value, value.dtype
        self.shape: tuple[Value, ...] = ()
        self.ndim = 0

    def read(self, at: Sequence[Value]) -> Value:
        """The number, wherever."""
        return self.value


class Computed:
    """Another op's result, computed where it is read; the indices it looks up are checked with the reader's."""

    def __init__(
        self,
        producer: Lowered,
        sources: Sequence[Any],
        shape: Sequence[Value],
        dims: tuple[int | None, ...] | None,
        checks: list,
    ) -> None:
        self.producer, self.sources, self.shape, self.dims, self.checks = producer, sources, tuple(shape), dims, checks
        self.code, self.ndim = producer.outs[0], len(self.shape)

    def __getitem__(self, at: Value | tuple[Value, ...]) -> Value:
        position = At(at if isinstance(at, tuple) else (at,))
        position.checks = self.checks
        return cast(body_of(self.producer)(position, self.sources)[0], self.code)

    def read(self, at: Sequence[Value]) -> Value:
        """The element at a loop position of the reader."""
        own = [ZERO] * self.ndim
        for i, d in zip(at, dims_of(self), strict=True):
            if d is not None:
                own[d] = i
        return self[tuple(own)]

    def broadcast(self, at: Sequence[Value]) -> Value:
        """The element it has at `at` once expanded: dims of size 1 repeat."""
        own = at[len(at) - self.ndim :]
        return self[tuple([select(eq(n, ONE), ZERO, i) for i, n in zip(own, self.shape, strict=True)])]


class At(tuple):
    """A loop position; remembers the checks its computed indices need.

    `whole` are folded ranges whose windows are known to be whole where this code runs,
    which may spare a body some arithmetic.
    """

    checks: list[tuple[Value, Value]]
    whole: frozenset[int] = frozenset()

    def replace(self, dim: int, value: Value) -> tuple[Value, ...]:
        return (*self[:dim], value, *self[dim + 1 :])

    def at_least(self, ndim: int) -> At:
        """The same position with trailing zeros, for tensors without dims."""
        if len(self) >= ndim:
            return self
        longer = At((*self, *(ZERO,) * (ndim - len(self))))
        longer.checks = self.checks
        return longer

    def bounded(self, index: Value, size: Value, dim: int = 0, negative: bool = True) -> Value:
        """`index` checked against `size`; with `negative`, counted from the end where below 0."""
        index = cast(index, "i64")
        # Below 0 where the index is too small or too large, wrapping included: one sign instead of two comparisons.
        sign = or_(index + size if negative else index, size - ONE - index)
        # Never 0, and without overflow: an index past the limit is reported as the limit.
        shown = max_(min_(index, const(LIMIT, "i64")), const(-LIMIT, "i64"))
        shown = (shown + select(ge(shown, ZERO), ONE, ZERO)) * const(1 << DIM_BITS, "i64") + const(dim, "i64")
        self.checks.append((ge(sign, ZERO), shown))
        return select(lt(index, ZERO), index + size, index) if negative else index


HERE = At()      # the present position of an aligned body: its reads know where that is


def decode_error(code: int) -> tuple[int, int]:
    """(index, dim) of an error cell."""
    index, dim = code >> DIM_BITS, code & ((1 << DIM_BITS) - 1)
    return (index - 1 if index > 0 else index), dim


def number_value(name: str, value: object) -> Value:
    """A run-time number in a body: integers as they are, floats by their bits."""
    if isinstance(value, complex):
        return complex_(bitcast(var(f"{name}.0"), "f64"), bitcast(var(f"{name}.1"), "f64"))
    return bitcast(var(f"{name}.0"), "f64") if isinstance(value, float) else var(name)


# --- the whole --------------------------------------------------------------------------------------------------------


class Window(Record):
    """The part [first, past) of a folded range that one result is made of, by `bounds(at, sources)`; `at` is 0 along
    folded ranges.

    `whole(at, sources)`, comparisons joined by `and`, is true where that part is the same for all results, as it is
    away from edges; where code runs for such results only (`at.whole`), `bounds` must not depend on their position.
    None: there is no such stretch.
    """

    bounds: Callable[[At, Sequence[Any]], tuple[Value, Value]]
    whole: Callable[[At, Sequence[Any]], Value] | None = None


class Folding(Record):
    """Ranges that are folded away. The body gives one element, in type `compute`;
    the fold makes results of all of them.

    `epilogue(sources, results)` makes the outputs of the results where another op was inlined behind the fold;
    it reads the last `after` of the reads.

    Bodies with places of their own may say more. They may give a second value, which is the index that the fold sees.
    `windows` are folded ranges of which a result sees a part. The sizes of `written` ranges are numbers of the body's
    key, and so few that their steps may be written out; the last kept range may be one of them. A body answers None for
    a step that adds nothing. `start(at, sources)` are the first accumulators, and `result(at, sources, accumulators)`
    the results, where the fold's own do not do.

    `factors(at, sources)` are both factors of an element that is their product (loops/contraction.py).
    """

    fold: Fold
    compute: str
    reduced: frozenset[int]
    epilogue: Callable[[Sequence[Any], Sequence[Value]], Sequence[Value]] | None = None
    after: int = 0
    windows: tuple[tuple[int, Window], ...] = ()
    written: frozenset[int] = frozenset()
    start: Callable[[At, Sequence[Any]], Accumulators] | None = None
    result: Callable[[At, Sequence[Any], Accumulators], Sequence[Value]] | None = None
    factors: Callable[[At, Sequence[Any]], tuple[Value, Value]] | None = None


class Rare(Record):
    """Elements that seldom change the state of a walk: `join(a, b)`, from `init` on, tells of many at once whether any
    `moves(state, joined)` it."""

    init: Value
    join: Callable[[Value, Value], Value]
    moves: Callable[[Accumulators, Value], Value]


class Walk(Record):
    """One range is walked in order: a running state, and outputs for every element.
    `merge` is None where halves cannot be joined; `single(x)` are the accumulators of one element. `way`: how elements
    are joined, where that has a name (op/scan.py), and `plain` the body whose elements are joined so as they are."""

    dim: int
    compute: str
    init: Callable[[], Accumulators]
    step: Callable[[Accumulators, Value, Value], Accumulators]
    emit: Callable[[Accumulators], Accumulators]
    merge: Callable[[Accumulators, Accumulators], Accumulators] | None = None
    single: Callable[[Value], Accumulators] | None = None
    plain: Callable | None = None
    rare: Rare | None = None
    way: str = ""


class Scatter(Record):
    """Every position combines a value into an element of a tensor that holds something already.

    `writes(at, out, sources)` gives place and value, `combine(old, new, sources)` what the element becomes. Positions
    that differ along `serial` ranges may meet in one element, so they run in order. `cleared`: it holds zeros, which
    the schedule writes first. Where d is in `own`, position i of range d writes at i of dim d only, so that each part
    of the tensor can be cleared by whoever writes to it.
    """

    target: Memory
    serial: frozenset[int]
    writes: Callable[[At, Elements, Sequence[Any]], tuple[Sequence[Value], Value]]
    combine: Callable[[Value, Value, Sequence[Any]], Value]
    cleared: bool = False
    own: frozenset[int] = frozenset()


class Piece(Record):
    """A box of the results that shows a tensor: `sizes` positions per range from `start` on,
    a step along range d being `strides[d]` elements.

    Along the ranges in `backwards` the box is filled from its end.
    """

    memory: int                # which of the tensors read
    start: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0            # elements before the first one shown
    backwards: frozenset[int] = frozenset()
    steps: tuple[int, ...] | None = None      # in the result, of a box whose dims are not the result's; None: layout's


Body = Callable[[At, Sequence[Any]], Sequence[Value]]


class Lowered(Record):
    """One op, or several inlined into each other: see the top of this file.

    `key` names the body: two Lowereds with equal keys and reads of equal types have the same one. Sizes are not in it.
    `aligned` bodies read every operand at the loop position itself and ask nothing else of it, so ranges may be joined
    and reordered. `view` is the rule of an op that only looks at other places: how it changes a layout (sizes, strides,
    offset). A body with places of its own reads all tensors but tables at position i of range d for dim d, and asks
    nothing else of it, where d is in `through`. `pieces` says of an op that only moves elements which boxes they move
    in; the number read as `background` is everywhere else.
    """

    name: str
    key: tuple
    ranges: tuple[int, ...]
    shape: tuple[int, ...]                 # of the results
    outs: tuple[str, ...]
    reads: tuple[Read, ...]
    body: Body | None
    aligned: bool = True
    folding: Folding | None = None
    walk: Walk | None = None
    scatter: Scatter | None = None
    view: Callable[[Sequence[int], Sequence[int], int], tuple] | None = None
    on_error: Callable[[int], None] | None = None     # raises for an index found out of range
    through: frozenset[int] = frozenset()
    pieces: tuple[Piece, ...] | None = None
    background: int | None = None
    layout: tuple[int, ...] | None = None  # strides of the results, which are dense; None: row-major

    @property
    def memories(self) -> tuple[Memory, ...]:
        """The tensors among the reads, in the order kernels are given them:
        those that stages read come where the stage does."""
        found: list[Memory] = []
        for r in self.reads:
            if isinstance(r, Staged):
                found += r.producer.memories
            elif isinstance(r, Memory):
                found.append(r)
        return tuple(found)


def body_of(lowered: Lowered) -> Body:
    """The body of an op that has one: views and scatters have none."""
    assert lowered.body is not None, f"{lowered.name} has no body"
    return lowered.body


def folding_of(lowered: Lowered) -> Folding:
    """What an op that folds says of it."""
    assert lowered.folding is not None, f"{lowered.name} folds nothing"
    return lowered.folding
