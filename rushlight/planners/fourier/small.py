"""Transforms of a few numbers in registers: the butterflies of a stage.

Enters: pairs of real and imaginary parts, as many as a radix. Leaves: pairs that are their forward transform; an
inverse one exchanges real and imaginary parts of what goes in and comes out.
"""

from __future__ import annotations

from ...loops.expr import Value, const, fma, neg, var
from ...loops.nest import Local, Statement
from .tables import smallest_factor, unit_root

Pair = tuple[Value, Value]


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


class Held:
    """Values in the order in which they are to be computed, each with a name: butterfly after butterfly, so that what
    one has read need not be kept for its other half. LLVM leaves the order as it is. `count` numbers below MANY fit
    registers in any order, and wait less for each other in that of their results (2% of a Neoverse N1's time)."""

    MANY = 6

    def __init__(self, tag: str, count: int) -> None:
        self.tag, self.is_needed = tag, count >= self.MANY
        self.statements: list[Statement] = []

    def __call__(self, *numbers: Pair) -> list[Pair]:
        """The numbers, real parts first: their names from here on."""
        if not self.is_needed:
            return list(numbers)
        held: dict[Value, Value] = {}
        for value in [z[part] for part in (0, 1) for z in numbers]:
            name = f"{self.tag}.h{len(self.statements)}"
            self.statements.append(Local(name, value))
            held[value] = var(name, value.dtype)
        return [(held[z[0]], held[z[1]]) for z in numbers]


def small_transform(xs: list[Pair], held: Held) -> list[Pair]:
    """The forward transform of a few numbers."""
    r = len(xs)
    if r == 1:
        return xs
    if r == 2:
        (a, b), (c, d) = xs
        return held((a + c, b + d), (a - c, b - d))
    if smallest_factor(r) == r:
        return prime_transform(xs, held)
    p = 4 if r % 4 == 0 and r > 4 else smallest_factor(r)
    q = r // p
    inner = [small_transform(xs[a::p], held) for a in range(p)]
    result: list[Pair] = [xs[0]] * r
    for k in range(q):
        column = [rotated(inner[a][k], unit_root(a * k, r)) for a in range(p)]
        for m, y in enumerate(small_transform(column, held)):
            result[k + q * m] = y
    return result


def prime_transform(xs: list[Pair], held: Held) -> list[Pair]:
    """An odd number of points: sums and differences of opposite ones, which share their products."""
    r, half = len(xs), len(xs) // 2
    sums, gaps = [], []
    for q in range(1, half + 1):
        a, b = xs[q], xs[r - q]
        both = held((a[0] + b[0], a[1] + b[1]), (a[0] - b[0], a[1] - b[1]))
        sums.append(both[0])
        gaps.append(both[1])
    result = [xs[0]] * r
    total = xs[0]
    for s in sums:
        total = (total[0] + s[0], total[1] + s[1])
    result[0] = total
    for m in range(1, half + 1):
        even = xs[0]
        odd: tuple[Value, Value] | None = None
        for q in range(1, half + 1):
            w = unit_root(-m * q, r)
            cosine, sine = const(w.real, xs[0][0].dtype), const(w.imag, xs[0][0].dtype)
            even = (fma(sums[q - 1][0], cosine, even[0]), fma(sums[q - 1][1], cosine, even[1]))
            gap = gaps[q - 1]
            if odd is None:
                odd = (gap[0] * sine, gap[1] * sine)
            else:
                odd = (fma(gap[0], sine, odd[0]), fma(gap[1], sine, odd[1]))
        assert odd is not None, "a prime above 2 has pairs of points"
        result[m], result[r - m] = (even[0] + odd[1], even[1] - odd[0]), (even[0] - odd[1], even[1] + odd[0])
    return result
