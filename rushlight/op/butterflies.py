"""Fourier transforms of rows as loops: one kernel per length, direction and dtype, for lengths that are powers of two.

Enters: a length and a complex dtype. Leaves: the nest of a self-sorting (Stockham) transform and the table of roots it
reads. Every stage turns [groups][radix][run] into [radix * groups][run]; runs are what vectors go along, until the last
stage, of radix 16 and runs of 1, goes along groups, whose numbers are exchanged in registers.
Refuses nothing: the caller asks `fits` first.
"""

from __future__ import annotations

import math

from ..codegen.primitives import SIZE
from ..codegen.targets import vector_bits
from ..loops.expr import PART, Value, bitcast, cast, complex_, const, fma, idiv, imag, load, neg, real, var
from ..loops.nest import For, Local, Nest, Statement, Store, operands, rows

Pair = tuple[Value, Value]
ZERO, ONE = const(0, "i64"), const(1, "i64")
LAST = 16
SMALLEST, LARGEST = 32, 1 << 16


def fits(n: int) -> bool:
    """Whether there is a kernel for rows of `n` elements."""
    return SMALLEST <= n <= LARGEST and n & (n - 1) == 0


def radices(n: int) -> list[int]:
    """The stages: eights with fours or a two before them, and sixteen last."""
    left = (n // LAST).bit_length() - 1
    first = {0: [], 1: [4, 4] if left >= 4 else [2], 2: [4]}[left % 3]
    used = sum(r.bit_length() - 1 for r in first)
    return [*first, *[8] * ((left - used) // 3), LAST]


def rotated(x: Pair, root: complex) -> Pair:
    """x times a root of unity known when the kernel is made."""
    re, im = x
    if root == 1:
        return x
    if abs(root.real) < 1e-9:
        return (neg(im), re) if root.imag > 0 else (im, neg(re))
    c, s = const(root.real, re.dtype), const(root.imag, re.dtype)
    if abs(abs(root.real) - abs(root.imag)) < 1e-9:   # a diagonal: one product each
        same = root.real * root.imag > 0
        return ((re - im) * c, (re + im) * s) if same else ((re + im) * c, (im - re) * c)
    return fma(neg(im), s, re * c), fma(re, s, im * c)


def times(x: Pair, w: Pair) -> Pair:
    return fma(neg(x[1]), w[1], x[0] * w[0]), fma(x[0], w[1], x[1] * w[0])


def small_transform(xs: list[Pair], sign: int) -> list[Pair]:
    """The transform of a few numbers held in registers."""
    r = len(xs)
    if r == 1:
        return xs
    even, odd = small_transform(xs[0::2], sign), small_transform(xs[1::2], sign)
    low, high = [], []
    for k, (a, b) in enumerate(zip(even, odd, strict=True)):
        angle = sign * 2 * math.pi * k / r
        b = rotated(b, 1 if k == 0 else complex(math.cos(angle), math.sin(angle)))
        low.append((a[0] + b[0], a[1] + b[1]))
        high.append((a[0] - b[0], a[1] - b[1]))
    return low + high


def roots_needed(n: int) -> list[list[int]]:
    """For every stage, the table's entries as exponents over n, in the order the kernel reads them."""
    found, groups = [], 1
    for r in radices(n):
        step = n // (groups * r)
        if groups == 1:
            found.append([])
        elif r == LAST:
            found.append([(j * m * step) % n for m in range(1, r) for j in range(groups)])
        else:
            found.append([(j * m * step) % n for j in range(groups) for m in range(1, r)])
        groups *= r
    return found


def room_for(n: int) -> int:
    """Elements of scratch a chunk needs in each of two operands; not a power of two,
    which would share lines of the cache."""
    return n + 40


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
    row, room = var("i"), idiv(var("begin"), var("rows")) * const(room_for(n), "i64")
    scale = cast(bitcast(var("scale"), "f64"), part)
    body: list[Statement] = [
        Local("from", row * const(widths[0], "i64")),
        Local("to", row * const(widths[1], "i64")),
        Local("room", room),
    ]
    given, out = (0, var("from")), (2, var("to"))
    # Stages go back and forth between two rows that stay in cache; the result is written once.
    spare = ((3, var("room")), (4, var("room")))
    ends_in_room = kind in ("half", "whole")
    halves = sum(len(part_) for part_ in roots_needed(n))
    targets = [out if k == len(stages) - 1 and not ends_in_room else spare[k % 2] for k in range(len(stages))]
    source = spare[1]
    if kind == "real":
        body += join(code, n, halves, given, source)
    else:   # one pass in order: memory is read ahead for it, not for the many strands of a stage
        body.append(
            For(
                "c",
                ZERO,
                const(n, "i64"),
                (Store(source[0], source[1] + var("c"), load(0, var("from") + var("c"), code)),),
                vector=True,
            )
        )
    groups, table = 1, 0
    for number, r in enumerate(stages):
        body.append(
            stage(code, part, number, r, groups, n // (groups * r), source, targets[number], table, sign, scale)
        )
        table += 0 if groups == 1 else groups * (r - 1)
        source, groups = targets[number], groups * r
    if ends_in_room:
        body += split(code, n, halves, source, out, kind == "whole")
    return Nest(f"fft_{kind}_{n}", operands([code, code], [code, code, code]), ("scale", "rows"), rows(*body))


def pairs_nest(code: str, kind: str) -> Nest:
    """Rows of operand 0, transforms of `n` pairs or (`real`) first halves of spectra,
    turned into each other with the roots of operand 1."""
    n, row, part = var("n"), var("i"), PART[code]
    read, written = (n + ONE, n) if kind == "real" else (n, n + ONE if kind == "half" else n * const(2, "i64"))
    source, target = (0, var("from")), (2, var("to"))
    scale = cast(bitcast(var("scale"), "f64"), part)
    body = (
        join(code, n, 0, source, target)
        if kind == "real"
        else split(code, n, 0, source, target, kind == "whole", scale)
    )
    return Nest(
        f"fft_pairs_{kind}",
        operands([code, code], [code]),
        ("n", "scale"),
        rows(Local("from", row * read), Local("to", row * written), *body),
    )


def split(
    code: str, n: int | Value, table: int, source: tuple, target: tuple, whole: bool, scale: Value | None = None
) -> list[Statement]:
    """The spectrum of 2n real numbers from the transform of n pairs of them:
    [Z(k) + Z*(n-k)] / 2 and a turned difference."""
    k, size = var("s"), const(n, "i64") if isinstance(n, int) else n
    (read, first), (write, begin) = source, target
    part = PART[code]
    scale = const(1.0, part) if scale is None else scale
    both = mirrored_sums(code, k, size, table, (read, first), const(0.5, part))
    stores = []
    for at, (re, im) in zip((k, size - k), both, strict=True):
        re, im = re * scale, im * scale
        stores.append(Store(write, begin + at, complex_(re, im)))
        if whole:
            stores.append(Store(write, begin + size + size - at, complex_(re, neg(im))))
    edge, zero = pair(load(read, first, code)), const(0.0, part)
    return [
        Store(write, begin, complex_((edge[0] + edge[1]) * scale, zero)),
        Store(write, begin + size, complex_((edge[0] - edge[1]) * scale, zero)),
        over_halves(n, size, stores),
    ]


def join(code: str, n: int | Value, table: int, source: tuple, target: tuple) -> list[Statement]:
    """n pairs to transform back, from the first n + 1 of a spectrum whose first and last are real,
    whatever they hold."""
    k, size = var("s"), const(n, "i64") if isinstance(n, int) else n
    (read, first), (write, begin) = source, target
    both = mirrored_sums(code, k, size, table, source, const(1.0, PART[code]))
    stores = [Store(write, begin + at, complex_(*z)) for at, z in zip((k, size - k), both, strict=True)]
    low, high = real(load(read, first, code)), real(load(read, first + size, code))
    return [Store(write, begin, complex_(low + high, low - high)), over_halves(n, size, stores)]


def over_halves(n: int | Value, size: Value, stores: list[Statement]) -> For:
    """A loop over k that writes k and n - k; the middle, if there is one, is both."""
    stop = const(n // 2 + 1, "i64") if isinstance(n, int) else idiv(size, const(2, "i64")) + ONE
    return For("s", ONE, stop, tuple(stores), vector=True)


def mirrored_sums(
    code: str, k: Value, size: Value, table: int, source: tuple[int, Value], weight: Value
) -> tuple[Pair, Pair]:
    """weight (a + b*) + w (a - b*) for the numbers a at k and b at n - k, and the same at n - k, which has the same
    products: the root there is the conjugate of that at k."""
    read, first = source
    a, b = pair(load(read, first + k, code)), pair(load(read, first + size - k, code))
    difference = times((a[0] - b[0], a[1] + b[1]), pair(load(1, const(table, "i64") + k, code)))
    re, im = (a[0] + b[0]) * weight, (a[1] - b[1]) * weight
    return (re + difference[0], im + difference[1]), (re - difference[0], difference[1] - im)


def pair(z: Value) -> Pair:
    return real(z), imag(z)


def stage(
    code: str,
    part: str,
    number: int,
    r: int,
    groups: int,
    run: int,
    source: tuple,
    target: tuple,
    table: int,
    sign: int,
    scale: Value,
) -> Statement:
    """One stage: along runs, or in the last along groups."""
    j, k = var(f"j{number}"), var(f"k{number}")
    width, count = const(run, "i64"), const(groups, "i64")
    (read, first), (write, begin) = source, target
    is_last = run == 1

    def element(m: int) -> Value:
        at = first + j * const(r * run, "i64") + const(m * run, "i64") + (ZERO if is_last else k)
        return load(read, at if groups > 1 else first + const(m * run, "i64") + k, code)

    xs = [pair(element(m)) for m in range(r)]
    names: list[Statement] = []
    if groups > 1 and is_last:
        xs = [
            xs[0],
            *[times(xs[m], pair(load(1, const(table + (m - 1) * groups, "i64") + j, code))) for m in range(1, r)],
        ]
    elif groups > 1:
        for m in range(1, r):
            w = load(1, const(table + m - 1, "i64") + j * const(r - 1, "i64"), code)
            names += [Local(f"w{number}.{m}r", real(w)), Local(f"w{number}.{m}i", imag(w))]
            xs[m] = times(xs[m], (var(f"w{number}.{m}r", part), var(f"w{number}.{m}i", part)))
    ys = small_transform(xs, sign)
    stores = []
    for m, (re, im) in enumerate(ys):
        if is_last:
            at, re, im = begin + const(m * groups, "i64") + j, re * scale, im * scale
        else:
            at = begin + (j + const(m * groups, "i64")) * width + k if groups > 1 else begin + const(m * run, "i64") + k
        stores.append(Store(write, at, complex_(re, im)))
    if is_last:
        return along_groups(j.attr, groups, max(vector_bits() // 8 // SIZE[part], 2), stores)
    inner = For(k.attr, ZERO, width, tuple(stores), vector=True)
    return For(j.attr, ZERO, count, (*names, inner)) if groups > 1 else inner


def along_groups(name: str, groups: int, lanes: int, stores: list[Statement]) -> For:
    """The last stage's loop: as many groups at a time as a register has lanes, whose numbers are read as squares."""
    if groups % lanes:
        return For(name, ZERO, const(groups, "i64"), tuple(stores), vector=True)
    block, lane = f"{name}.block", f"{name}.lane"
    here = Local(name, var(block) * const(lanes, "i64") + var(lane))
    square = For(lane, ZERO, const(lanes, "i64"), (here, *stores), vector=True, transposed=True)
    return For(block, ZERO, const(groups // lanes, "i64"), (square,))


def table_of(n: int, kind: str) -> list[complex]:
    """The roots a kernel reads, in order."""
    sign = 1 if kind in ("inverse", "real") else -1
    angle = sign * 2 * math.pi / n
    exponents = [e for part in roots_needed(n) for e in part]
    known = {e: complex(math.cos(angle * e), math.sin(angle * e)) for e in set(exponents)}
    found = [known[e] for e in exponents]
    if kind in ("half", "whole", "real"):
        unit = 1j if kind == "real" else -0.5j
        found += [unit * complex(math.cos(angle / 2 * k), math.sin(angle / 2 * k)) for k in range(n + 1)]
    return found


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
                rows(*body))  # fmt: skip
