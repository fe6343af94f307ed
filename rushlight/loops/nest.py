"""Nests: the loops around scalar expressions, and the operands they read and write.

Enters: operand dtypes, names of run-time parameters, and statements holding `Value`s (expr.py).
Leaves: an immutable `Nest`, which prints as readable pseudo-code (`str`), hashes to a `digest` that is the same
in every process, is checked by `verify.py` and becomes one machine function in `codegen`:

    void kernel(char **ptrs, const int64_t *params, int64_t begin, int64_t end)

Refuses: shapes and schedules. Sizes and strides are run-time parameters; which slice [begin, end) of the
outermost loop to run, and on which thread, is the caller's.

The statements:

    For(var, start, stop, body, vector)     serial loop; vector=True says the iterations are independent;
                                            `going`: it ends behind an iteration where that holds on no lane
    Reduce(var, start, stop, accs, ...)     loop that folds into accumulators, in vectors, in a fixed order
    Local(name, value) / Assign(name, value)   a named scalar; Assign changes one declared outside or here
    Store(operand, index, value, combine)   write element `index`; combine in set add mul min max; with swap the value
                                            is computed from the element there, var(THERE), in one step on all devices
    If(condition, then, otherwise)          a branch
    Fetch(operand, index)                   element `index` will be read soon; changes nothing
    Check(condition, cell, value)           if it fails: cell[0] = value, and the rest of the block is skipped
    Pack(source, target, ...)               lines of a matrix side by side, as Multiply reads them
    Multiply(a, b, c, ...)                  a tile of a matrix product, summed in registers

Names are read with `var(name, dtype)`: loop variables and parameters are i64, locals have their value's dtype.
Indices count elements, not bytes. Values are read where they are used: a `load` after a `Store` to the same
operand sees the new element; use a Local to keep the old one. Two operands may be the same memory only if they
are accessed at the same index in the same iteration (in-place).

Vector loops. In `For(vector=True)` and `Reduce` the inner body runs on many elements at once. Loads and stores
whose index is `base + var` become vector accesses; `base + stride * var` with a run-time stride is tested for
0 or 1 once per loop and takes a scalar loop otherwise; other indices are gathered lane by lane. Inside a vector
loop further loops run serially, all lanes together, so they must have bounds that do not depend on it (a column
reduction is a Reduce inside a vector For). A vector For whose body branches on lanes runs as a scalar loop.

Pointwise, the shape-generic form (`pointwise_nest`):

    a, b = arg(0, "f32"), arg(1, "f32")
    pointwise_nest("hypot2", ["f32", "f32"], ["f32"], [a * a + b * b])

Row reduction (sum of each row of a [rows, cols] array with strides row, col):

    i, j, n = var("i"), var("j"), var("cols")
    x = load(0, i * var("row") + j * var("col"), "f32")
    total = reduction("j", const(0, "i64"), n, ["acc"], [const(0.0, "f32")],
                      step=lambda acc: [acc[0] + x], merge=lambda a, b: [a[0] + b[0]], blocked=True)
    Nest("row_sum", operands(["f32"], ["f32"]), ("cols", "row", "col"),
         rows(total, Store(1, i, var("acc", "f32"))))

Column reduction: the outer loop itself is the vector loop, the reduction runs inside it.

    x = load(0, var("r") * var("row") + i, "f32")
    Nest("column_sum", operands(["f32"], ["f32"]), ("count", "row"),
         rows(reduction("r", const(0, "i64"), var("count"), ...), Store(1, i, var("acc", "f32")), vector=True))

Row program (softmax): several inner loops share per-row locals; a Reduce may also store.

    biggest = reduction("j", zero, n, ["top"], ...)
    power = exp(load(0, i * n + var("k"), "f32") - var("top", "f32"))
    total = reduction("k", zero, n, ["sum"], ..., body=[Store(1, i * n + var("k"), power)])
    scale = For("l", zero, n, (Store(1, at, load(1, at, "f32") / var("sum", "f32")),), vector=True)
    Nest("softmax", operands(["f32"], ["f32"]), ("n",), rows(biggest, total, scale))

Gather with a bounds check (the error cell is operand 3), and a scan along a dimension:

    at = load(1, i, "i64")
    rows(Check(and_(ge(at, 0), lt(at, var("size"))), 3, i + 1), Store(2, i, load(0, at, "f32")))

    rows(Local("sum", const(0.0, "f32")),
         For("j", zero, n, (Assign("sum", var("sum", "f32") + x), Store(1, i * n + var("j"), var("sum", "f32")))))

Partial and final reductions of a large array are two nests: one whose outer index is a fixed-size chunk number
and that stores its accumulators at [chunk], one whose Reduce folds those with `merge`. The association order
depends on sizes only, never on threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ..base.digest import digest
from .expr import Value, const, var
from .record import Record

COMBINES = ("set", "add", "mul", "min", "max", "swap")
THERE = "there"      # the element that a Store with `swap` replaces


class Operand(Record):
    """An array the kernel sees as a bare pointer: its element dtype.

    `stack` elements of it are the kernel's own scratch memory instead; such operands come last, and callers pass none.
    """

    code: str
    stack: int = 0


class For(Record):
    """Run `body` for var in [start, stop); `vector` asserts independent iterations.

    A vector loop may ask for memory `ahead` bytes before its contiguous operands are read: many streams at once are
    more than some processors' own prediction follows. A `transposed` vector loop, of as many iterations as a register
    has lanes, reads at base + stride * var + k for every k below that number: whole registers are read along k and
    exchanged, not single elements. A serial loop with `going` ends early, behind the first iteration after which that
    condition holds on no lane: series and fractions that converge at different speeds. `gathers`: see Reduce.
    """

    var: str
    start: Value
    stop: Value
    body: tuple[Statement, ...]
    vector: bool = False
    ahead: int = 0
    transposed: bool = False
    going: Value | None = None
    gathers: bool = False


class Reduce(Record):
    """Fold elements start..stop into accumulators, which are locals afterwards.

    `step` computes the next accumulators from `var(acc)`, `var(self.var)` and locals of `body`, which runs first.
    `merge` joins two partial results, read as `var(acc + ".a")` and `var(acc + ".b")`, the first from lower lanes.
    `init` must be neutral for merge. Elements are dealt round-robin to lanes, so merge must commute (arg-reductions
    compare indices). `blocked` folds long ranges in blocks, which keeps float sums accurate. `gathers`: strides that
    are known when it runs are known not to be 1 already, so elements are read lane by lane, not one after another.
    """

    var: str
    start: Value
    stop: Value
    accs: tuple[str, ...]
    init: tuple[Value, ...]
    step: tuple[Value, ...]
    merge: tuple[Value, ...]
    body: tuple[Statement, ...] = ()
    blocked: bool = False
    vector: bool = True
    gathers: bool = False


class Local(Record):
    """Name a value until the end of the block; may be changed by Assign."""

    name: str
    value: Value


class Assign(Record):
    name: str
    value: Value


class Store(Record):
    """Write one element. `index` None is the current point of a pointwise nest."""

    operand: int
    index: Value | None
    value: Value
    combine: str = "set"


class If(Record):
    condition: Value
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


class Check(Record):
    """Unless `condition` holds, write `value` (i64) to element 0 of operand `cell` and skip the rest of the block."""

    condition: Value
    cell: int
    value: Value


class Fetch(Record):
    """Ask for the memory of element `index`, which need not exist: inside of a vector loop, along which the index must
    run one by one; elsewhere it is nothing. A loop that computes asks for what the next one reads from far away."""

    operand: int
    index: Value


class Pack(Record):
    """Lines of a matrix side by side, in `count` strips of `width` lines:

    target[at + strip * apart + k * pitch + r] = source[start + (strip * width + r) * line + k * step]     for k <
                                                                                                           length

    Only `lines` of them exist; the last one stands for those that are missing, so that what is made of them is as
    finite as the rest (nobody looks at it). Either `line` or `step` is 1. `pitch` is `width`,
    rounded up to whole vectors where the target stores no less.

    `pairs`: of complex numbers, whose parts are neighbouring lines, as factors of real ones. `line` is 1, `step` leads
    to the next complex number, and values of k are two by two (re, im, ...) and (-im, re, ...) of it.
    """

    source: int
    start: Value
    line: Value
    step: Value
    target: int
    at: Value
    apart: Value
    lines: Value
    length: Value
    count: Value
    width: int
    pairs: bool = False


class Multiply(Record):
    """A tile of a matrix product: c[r, j] = (c[r, j] if `add`) + sum over k < depth of a[r, k] * b[k, j], depth >= 1.

    `a` was packed `height` rows side by side, `b` is read in rows of `vectors` vectors; both may hold more than `rows`
    and `columns` of them, `c` does not. How wide a vector is, and how sums are kept (vector or matrix registers), is
    the target's. Values of k of `a` are `pitch` elements apart, or as far as `Pack` puts `height` lines.
    `ahead`: from which element on `b` will be read later, a cache line for two values of k is asked for meanwhile.
    `keep`, of whole tiles whose `pitch` is given: two operands and places in them to which the values of `a` and `b`
    that were read go, packed as other tiles will read them. `line`: all `height` rows of `a` exist and are not packed,
    but so many elements apart, values of k side by side.
    """

    a: int
    a_at: Value
    b: int
    b_at: Value
    b_step: Value
    c: int
    c_at: Value
    c_step: Value
    rows: Value
    columns: Value
    depth: Value
    add: Value
    height: int
    vectors: int
    pitch: Value | None = None
    ahead: Value | None = None
    keep: tuple[int, Value, int, Value] | None = None
    line: Value | None = None


Statement = For | Reduce | Local | Assign | Store | If | Check | Fetch | Pack | Multiply


class Nest(Record):
    """One kernel: `loop` runs over [begin, end) of the parallel range.

    `point` gives, in pointwise nests, each operand's byte offset of the current point (for `arg` and
    Store(index=None)).
    """

    name: str
    operands: tuple[Operand, ...]
    params: tuple[str, ...]
    loop: For
    point: tuple[Value, ...] = ()

    def digest(self) -> bytes:
        """16 bytes naming the nest by structure, the same in every process."""
        form: list[object] = [self.name, [(o.code, o.stack) if o.stack else o.code for o in self.operands], self.params]
        _describe(self.loop, form)
        form.append([v.digest() for v in self.point])
        return digest(repr(form).encode())

    def __str__(self) -> str:
        from .show import show_nest  # a nest is printed only on request

        return show_nest(self)


# Which digests do not name where they say nothing.
LATE_FIELDS = ("transposed", "going", "gathers", "pitch", "ahead", "keep", "line")


def _describe(item: object, form: list[object]) -> None:
    if isinstance(item, Value):
        form.append(item.digest())
    elif isinstance(item, tuple):
        form.append(len(item))
        for part in item:
            _describe(part, form)
    elif item is None or isinstance(item, (str, int, bool)):
        form.append(item)
    else:
        assert isinstance(item, Record), item
        form.append(type(item).__name__)
        for field in item.fields:
            value = getattr(item, field)
            if field not in LATE_FIELDS or not (value is None or value is False):
                _describe(value, form)


def values_of(item: object) -> list[Value]:
    """Every Value held by a statement, a tuple of statements or a nest, in order."""
    if isinstance(item, Value):
        return [item]
    if isinstance(item, tuple):
        return [value for part in item for value in values_of(part)]
    if item is None or isinstance(item, (str, int, bool, Operand)):
        return []
    assert isinstance(item, Record), item
    return [value for field in item.fields for value in values_of(getattr(item, field))]


def map_values(item: object, mapping: Mapping[Value, Value]) -> object:
    """The same statements (or nest) with each Value exchanged for `mapping[value]`."""
    if isinstance(item, Value):
        return mapping[item]
    if isinstance(item, tuple):
        return tuple(map_values(part, mapping) for part in item)
    if item is None or isinstance(item, (str, int, bool, Operand)):
        return item
    assert isinstance(item, Record), item
    return type(item)(*[map_values(getattr(item, field), mapping) for field in item.fields])


def has_tiles(body: Iterable[Statement]) -> bool:
    """Whether statements pack strips or multiply them, whose sizes are whole vectors."""
    return any(isinstance(s, (Pack, Multiply)) or has_tiles((*getattr(s, "body", ()), *getattr(s, "then", ()),
               *getattr(s, "otherwise", ()))) for s in body)


BEGIN, END = var("begin"), var("end")


def rows(*body: Statement, name: str = "i", vector: bool = False, ahead: int = 0) -> For:
    """The outermost loop: `body` for every index `name` of [begin, end)."""
    return For(name, BEGIN, END, tuple(body), vector, ahead)


def operands(inputs: Sequence[str], outputs: Sequence[str], extra: Sequence[str] = ()) -> tuple[Operand, ...]:
    """Operands in calling order: inputs, outputs, then `extra` (error cells, scratch)."""
    return tuple(Operand(code) for code in (*inputs, *outputs, *extra))


def reduction(
    name: str,
    start: Value,
    stop: Value,
    accs: Sequence[str],
    init: Sequence[Value],
    step: Callable[[list[Value]], Sequence[Value]],
    merge: Callable[[list[Value], list[Value]], Sequence[Value]],
    body: Sequence[Statement] = (),
    blocked: bool = False,
    vector: bool = True,
    gathers: bool = False,
) -> Reduce:
    """A Reduce from plain functions over lists of accumulator Values."""
    pairs = list(zip(accs, init, strict=True))
    now = [var(acc, first.dtype) for acc, first in pairs]
    left = [var(acc + ".a", first.dtype) for acc, first in pairs]
    right = [var(acc + ".b", first.dtype) for acc, first in pairs]
    return Reduce(
        name, start, stop, tuple(accs), tuple(init), tuple(step(now)), tuple(merge(left, right)), tuple(body), blocked,
        vector, gathers,
    )


def pointwise_nest(
    name: str, inputs: Sequence[str], outputs: Sequence[str], values: Sequence[Value], single: Sequence[int] = ()
) -> Nest:
    """Elementwise kernel over two strided dimensions; `values[j]` (of dtype outputs[j]) reads `arg(i, inputs[i])`.

    Parameters: n0, then the inner byte stride of every operand, then the outer byte stride of every operand. Those of
    `single` operands, which have one element, are not looked at: the element is read once.
    """
    count = len(inputs) + len(outputs)
    inner = [f"s0.{k}" for k in range(count)]
    outer = [f"s1.{k}" for k in range(count)]
    point = tuple(
        const(0, "i64") if k in single else var("i1") * var(outer[k]) + var("i0") * var(inner[k]) for k in range(count)
    )
    stores = tuple(Store(len(inputs) + j, None, value) for j, value in enumerate(values))
    body = For("i0", const(0, "i64"), var("n0"), stores, vector=True)
    params = ("n0", *inner, *outer)
    return Nest(name, operands(inputs, outputs), params, rows(body, name="i1"), point)


__all__ = [
    "Assign", "BEGIN", "Check", "END", "Fetch", "For", "If", "Local", "Multiply", "Nest", "Operand", "Pack", "Reduce",
    "Statement", "Store",
    "has_tiles", "operands", "pointwise_nest", "reduction", "rows",
]
