"""Fourier transforms of rows as loops: one kernel per length, direction and dtype, for powers of two and multiples of
what fills the registers of the last stage.

Enters: a length and a complex dtype. Leaves: the nest of a self-sorting (Stockham) transform and the table of roots it
reads. Every stage turns [groups][radix][run] into [radix * groups][run]; runs are what vectors go along, until the last
stage, of radix 16 and runs of 1, goes along groups, whose numbers are exchanged in registers.
Refuses nothing: the caller asks `fits` first.
"""

from __future__ import annotations

from functools import cache

from ...codegen.text.primitives import SIZE
from ...codegen.text.targets import vector_bits
from ...loops.expr import PART, Value, bitcast, cast, complex_, const, idiv, imag, load, neg, real, var
from ...loops.nest import For, Local, Nest, Statement, Store, operands, rows
from .small import Held, Pair, small_transform, times
from .tables import largest_factor, unit_root

ZERO, ONE = const(0, "i64"), const(1, "i64")
LAST = 16
SMALLEST, LARGEST = 32, 1 << 16
FAR_APART = 1 << 13          # bytes of a row
LARGEST_MIXED = 1 << 12      # of lengths that are no power of two
# What a stage of a radix costs a point.
COSTS = {16: 4.2, 8: 3.5, 7: 4.2, 6: 3.8, 5: 3.7, 4: 3.0, 3: 3.1, 2: 2.5}


class Numbers:
    """Complex numbers of an operand from `first` on, each a real and an imaginary part side by side."""

    def __init__(self, operand: int, first: Value, code: str) -> None:
        self.operand, self.first, self.code = operand, first, code

    def read(self, at: Value) -> Pair:
        return pair(load(self.operand, self.first + at, self.code))

    def write(self, at: Value, z: Pair) -> list[Statement]:
        return [Store(self.operand, self.first + at, complex_(*z))]


class Planes:
    """Complex numbers in scratch memory: all real parts, then all imaginary ones, so that vectors of either are read
    and written as they are. `gap`: how far apart the two are."""

    def __init__(self, operand: int, first: Value, code: str, gap: int) -> None:
        self.operand, self.first, self.part, self.gap = operand, first, PART[code], const(gap, "i64")

    def read(self, at: Value) -> Pair:
        place = self.first + at
        return load(self.operand, place, self.part), load(self.operand, place + self.gap, self.part)

    def write(self, at: Value, z: Pair) -> list[Statement]:
        place = self.first + at
        return [Store(self.operand, place, z[0]), Store(self.operand, place + self.gap, z[1])]


Memory = Numbers | Planes


def fits(n: int) -> bool:
    """Whether there is a kernel for rows of `n` elements: a power of two, or a moderate number that fills the registers
    of its last stage."""
    if n & (n - 1) == 0:
        return SMALLEST <= n <= LARGEST
    return n <= LARGEST_MIXED and n % (LAST * max(vector_bits() // 32, 4)) == 0 and largest_factor(n) in COSTS


@cache
def radices(n: int) -> tuple[int, ...]:
    """The stages: the cheapest, and sixteen last."""
    best: dict[int, tuple[float, tuple[int, ...]]] = {1: (0.0, ())}
    for left in range(2, n // LAST + 1):
        found = [
            (best[left // r][0] + cost, (r, *best[left // r][1]))
            for r, cost in COSTS.items()
            if left % r == 0 and left // r in best
        ]
        if found:
            best[left] = min(found)
    return *sorted(best[n // LAST][1], reverse=True), LAST


def roots_needed(n: int) -> list[list[int]]:
    """For every stage, the table's entries as exponents over n, in the order the kernel reads them."""
    found: list[list[int]] = []
    groups = 1
    for r in radices(n):
        step = n // (groups * r)
        if groups == 1:
            found.append([])
        elif step == 1:     # the last
            found.append([(j * m * step) % n for m in range(1, r) for j in range(groups)])
        else:
            found.append([(j * m * step) % n for j in range(groups) for m in range(1, r)])
        groups *= r
    return found


def table_places(n: int) -> list[int]:
    """Where the roots of every stage begin, in numbers: the last stage's first, so that its vectors are whole lines;
    at the end, what follows them."""
    sizes = [len(part) for part in roots_needed(n)]
    places, at = [], sizes[-1]
    for size in sizes[:-1]:
        places.append(at)
        at += size
    return [*places, 0, at]


def room_for(n: int) -> int:
    """Elements of scratch a chunk needs in each of two operands; not a power of two,
    which would share lines of the cache."""
    return n + 48


KINDS = ("forward", "inverse", "half", "whole", "real")


def transform_nest(code: str, n: int, kind: str) -> Nest:
    """Rows of operand 0 transformed to operand 2 with the roots of operand 1; operands 3 and 4 are
    room for each chunk of `rows` rows.

    `forward` and `inverse` are complex transforms of `n`. The others have rows of 2n real numbers, seen as n pairs:
    `half` and `whole` give the first n + 1 or all 2n of their spectrum, `real` comes back from the first n + 1.
    """
    part, sign = PART[code], 1 if kind in ("inverse", "real") else -1
    stages = radices(n)
    widths = {"half": (n, n + 1), "whole": (n, 2 * n), "real": (n + 1, n)}.get(kind, (n, n))
    gap = room_for(n)
    row, room = var("i"), idiv(var("begin"), var("rows")) * const(2 * gap, "i64")
    scale = cast(bitcast(var("scale"), "f64"), part)
    body: list[Statement] = [
        Local("from", row * const(widths[0], "i64")),
        Local("to", row * const(widths[1], "i64")),
        Local("room", room),
    ]
    given, out = Numbers(0, var("from"), code), Numbers(2, var("to"), code)
    # Stages go back and forth between two rows that stay in cache; the result is written once.
    spare = (Planes(3, var("room"), code, gap), Planes(4, var("room"), code, gap))
    splits = kind in ("half", "whole")
    # Short vectors wait for memory, which is read ahead, and written without being read, for one strand in order, not
    # for those of a stage: 64 rows of 4096 take half as long on a Neoverse N1. Wide ones take a tenth longer for it.
    ends_in_room = splits or (vector_bits() == 128 and n * SIZE[code] >= FAR_APART)
    places = table_places(n)
    halves = Planes(1, const(2 * places[-1], "i64"), code, n + 1)
    targets = [out if k == len(stages) - 1 and not ends_in_room else spare[k % 2] for k in range(len(stages))]
    source: Numbers | Planes = given
    if kind == "real":
        source = spare[1]
        body += join(part, n, halves, given, source)
    elif vector_bits() == 128:
        source = spare[1]
        body.append(copied("c", n, given, source))
    groups = 1
    for number, r in enumerate(stages):
        target, table = targets[number], places[number]
        body.append(stage(part, number, r, groups, n // (groups * r), source, target, table, sign, scale))
        source, groups = targets[number], groups * r
    if splits:
        body += split(part, n, halves, source, out, kind == "whole")
    elif ends_in_room:
        body.append(copied("e", n, source, out))
    return Nest(f"fft_{kind}_{n}", operands([code, part], [code, part, part]), ("scale", "rows"), rows(*body))


def copied(name: str, n: int, source: Memory, target: Memory) -> For:
    """A row as it is."""
    return For(name, ZERO, const(n, "i64"), tuple(target.write(var(name), source.read(var(name)))), vector=True)


def pairs_nest(code: str, kind: str) -> Nest:
    """Rows of operand 0, transforms of `n` pairs or (`real`) first halves of spectra,
    turned into each other with the roots of operand 1."""
    n, row, part = var("n"), var("i"), PART[code]
    read, written = (n + ONE, n) if kind == "real" else (n, n + ONE if kind == "half" else n * const(2, "i64"))
    source, target, table = Numbers(0, var("from"), code), Numbers(2, var("to"), code), Numbers(1, ZERO, code)
    scale = cast(bitcast(var("scale"), "f64"), part)
    body = (
        join(part, n, table, source, target)
        if kind == "real"
        else split(part, n, table, source, target, kind == "whole", scale)
    )
    return Nest(
        f"fft_pairs_{kind}",
        operands([code, code], [code]),
        ("n", "scale"),
        rows(Local("from", row * read), Local("to", row * written), *body),
    )


def split(
    part: str, n: int | Value, table: Memory, source: Memory, target: Memory, whole: bool, scale: Value | None = None
) -> list[Statement]:
    """The spectrum of 2n real numbers from the transform of n pairs of them:
    [Z(k) + Z*(n-k)] / 2 and a turned difference."""
    k, size = var("s"), const(n, "i64") if isinstance(n, int) else n
    scale = const(1.0, part) if scale is None else scale
    both = mirrored_sums(k, size, table, source, const(0.5, part))
    stores = []
    for at, (re, im) in zip((k, size - k), both, strict=True):
        re, im = re * scale, im * scale
        stores += target.write(at, (re, im))
        if whole:
            stores += target.write(size + size - at, (re, neg(im)))
    edge, zero = source.read(ZERO), const(0.0, part)
    return [
        *target.write(ZERO, ((edge[0] + edge[1]) * scale, zero)),
        *target.write(size, ((edge[0] - edge[1]) * scale, zero)),
        over_halves(n, size, stores),
    ]


def join(part: str, n: int | Value, table: Memory, source: Memory, target: Memory) -> list[Statement]:
    """n pairs to transform back, from the first n + 1 of a spectrum whose first and last are real,
    whatever they hold."""
    k, size = var("s"), const(n, "i64") if isinstance(n, int) else n
    both = mirrored_sums(k, size, table, source, const(1.0, part))
    stores = [s for at, z in zip((k, size - k), both, strict=True) for s in target.write(at, z)]
    low, high = source.read(ZERO)[0], source.read(size)[0]
    return [*target.write(ZERO, (low + high, low - high)), over_halves(n, size, stores)]


def over_halves(n: int | Value, size: Value, stores: list[Statement]) -> For:
    """A loop over k that writes k and n - k; the middle, if there is one, is both."""
    stop = const(n // 2 + 1, "i64") if isinstance(n, int) else idiv(size, const(2, "i64")) + ONE
    return For("s", ONE, stop, tuple(stores), vector=True)


def mirrored_sums(k: Value, size: Value, table: Memory, source: Memory, weight: Value) -> tuple[Pair, Pair]:
    """weight (a + b*) + w (a - b*) for the numbers a at k and b at n - k, and the same at n - k, which has the same
    products: the root there is the conjugate of that at k."""
    a, b = source.read(k), source.read(size - k)
    difference = times((a[0] - b[0], a[1] + b[1]), table.read(k))
    re, im = (a[0] + b[0]) * weight, (a[1] - b[1]) * weight
    return (re + difference[0], im + difference[1]), (re - difference[0], difference[1] - im)


def pair(z: Value) -> Pair:
    return real(z), imag(z)


def stage(
    part: str,
    number: int,
    r: int,
    groups: int,
    run: int,
    source: Memory,
    target: Memory,
    table: int,
    sign: int,
    scale: Value,
) -> Statement:
    """One stage: along runs, or in the last along groups."""
    j, k = var(f"j{number}"), var(f"k{number}")
    width, count = const(run, "i64"), const(groups, "i64")
    is_last = run == 1

    def element(m: int) -> Pair:
        at = j * const(r * run, "i64") + const(m * run, "i64") + (ZERO if is_last else k)
        return source.read(at if groups > 1 else const(m * run, "i64") + k)

    xs = [element(m) for m in range(r)]
    names: list[Statement] = []
    if groups > 1 and is_last:
        for m in range(1, r):
            real_at = const(2 * (table + (m - 1) * groups), "i64") + j
            xs[m] = times(xs[m], (load(1, real_at, part), load(1, real_at + count, part)))
    elif groups > 1:
        for m in range(1, r):
            at = const(2 * (table + m - 1), "i64") + j * const(2 * (r - 1), "i64")
            names += [Local(f"w{number}.{m}r", load(1, at, part)), Local(f"w{number}.{m}i", load(1, at + ONE, part))]
            xs[m] = times(xs[m], (var(f"w{number}.{m}r", part), var(f"w{number}.{m}i", part)))
    held = Held(f"s{number}", r)
    ys = exchanged(small_transform(exchanged(xs, sign), held), sign)
    stores: list[Statement] = list(held.statements)
    for m, (re, im) in enumerate(ys):
        if is_last:
            at, re, im = const(m * groups, "i64") + j, re * scale, im * scale
        else:
            at = (j + const(m * groups, "i64")) * width + k if groups > 1 else const(m * run, "i64") + k
        stores += target.write(at, (re, im))
    if is_last:
        return along_groups(j.attr, groups, max(vector_bits() // 8 // SIZE[part], 2), stores)
    inner = For(k.attr, ZERO, width, tuple(stores), vector=True)
    return For(j.attr, ZERO, count, (*names, inner)) if groups > 1 else inner


def exchanged(numbers: list[Pair], sign: int) -> list[Pair]:
    """What a forward transform makes an inverse one of."""
    return numbers if sign < 0 else [(im, re) for re, im in numbers]


def along_groups(name: str, groups: int, lanes: int, stores: list[Statement]) -> For:
    """The last stage's loop: as many groups at a time as a register has lanes, whose numbers are read as squares."""
    if groups % lanes:
        return For(name, ZERO, const(groups, "i64"), tuple(stores), vector=True)
    block, lane = f"{name}.block", f"{name}.lane"
    here = Local(name, var(block) * const(lanes, "i64") + var(lane))
    square = For(lane, ZERO, const(lanes, "i64"), (here, *stores), vector=True, transposed=True)
    return For(block, ZERO, const(groups // lanes, "i64"), (square,))


def table_of(n: int, kind: str) -> list[complex]:
    """The memory of the roots that a kernel reads, in order. Those that vectors are read of lie in planes: real parts
    of as many as a stage has groups, then imaginary parts."""
    back = kind in ("inverse", "real")
    needed = roots_needed(n)
    known = {e: unit_root(-e if back else e, n) for e in {e for part in needed for e in part}}
    groups = n // LAST
    last = [known[e] for e in needed[-1]]
    found = [z for m in range(0, len(last), groups) for z in planes(last[m : m + groups])]
    found += [known[e] for part in needed[:-1] for e in part]
    if kind in ("half", "whole", "real"):
        unit = 1j if kind == "real" else -0.5j
        found += planes([unit * unit_root(-k if back else k, 2 * n) for k in range(n + 1)])
    return found


def planes(numbers: list[complex]) -> list[complex]:
    """Memory that holds the numbers' real parts, then their imaginary parts."""
    flat = [z.real for z in numbers] + [z.imag for z in numbers]
    return [complex(re, im) for re, im in zip(flat[::2], flat[1::2], strict=True)]


def times_nest(code: str, is_real: bool, has_table: bool) -> Nest:
    """A row of the result: a row of the input times a table, then zeros."""
    part, k, row = PART[code], var("k"), var("i")
    nothing = const(0.0, part)
    place = var("from") + k
    x = load(0, place, part if is_real else code)
    z = (x, nothing) if is_real else (real(x), imag(x))
    if has_table:
        w = load(1, k, code)
        z = (x * real(w), x * imag(w)) if is_real else times(z, (real(w), imag(w)))
    out = 2 if has_table else 1
    given = [part if is_real else code, *([code] if has_table else [])]

    def each(name: str, begin: Value, end: Value, value: Value) -> For:
        return For(name, begin, end, (Store(out, var("to") + var(name), value),), vector=True)

    zero = const(0, "i64")
    body = (
        Local("from", row * var("given")),
        Local("to", row * var("wide")),
        each("k", zero, var("n"), complex_(*z)),
        each("z", var("n"), var("wide"), complex_(nothing, nothing)),
    )
    return Nest(f"fft_{'times' if has_table else 'copies'}", operands(given, [code]), ("n", "given", "wide"),
                rows(*body))
