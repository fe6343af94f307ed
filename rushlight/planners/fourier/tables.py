"""Lengths of Fourier transforms: their stages, what those cost, and the tables that they read.

Enters: a number of points. Leaves: radices, the numbers of every stage and the roots of unity, as
`planners/fourier/transform.py` reads them; a prime p whose p - 1 has small factors gets those of two transforms of p -
1 (Rader), any other length of large factors those of a longer convolution (Bluestein).
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from ...codegen.text.targets import vector_bits

RADICES = (16, 13, 11, 8, 7, 6, 5, 4, 3, 2)
LARGEST_PRIME = 257     # a stage of one prime costs as many products as it has points; above, a chirp costs less
# What a stage of eight costs where registers hold 16 bytes: eight points, their roots and what is between do not fit
# the 32 there are. Less than a four and a two, more than half of three fours.
EIGHT = 4.75
SIXTEEN = 4.8           # less than two fours, more than an eight and what is saved elsewhere
PRODUCT = 1             # the "radix" of the stage between the two transforms of a chirp
# and of what is around and between those of a prime: points in the order of powers, products and sums, points put back
ORDERED, SUMMED, RETURNED = -1, -2, -3
CYCLIC_FROM, CYCLIC_LARGEST = 128, 31   # primes from which that costs less than sums of products, and factors of p - 1
FIELDS = 4              # numbers per stage: radix, groups, run, where its roots begin


# --- lengths ----------------------------------------------------------------------------------------------------------


def stage_cost(r: int) -> float:
    """What a stage costs per point, in loads and stores."""
    if r == 8 and vector_bits() == 128:
        return EIGHT
    if r in (11, 13):      # twice as many numbers as registers hold
        return 2 + 0.5 * r
    if r == 16:            # more numbers than short registers hold
        return SIXTEEN if vector_bits() == 512 else math.inf
    return 2 + 0.5 * math.log2(r) * (1 if r in (2, 4, 8, 16) else 1.4) if r in RADICES else 2.0 + r


@cache
def radices(n: int) -> tuple[int, ...]:
    """The stages of a transform of `n` points, the cheapest together; () if some prime is too large."""
    best: dict[int, tuple[float, tuple[int, ...]]] = {1: (0.0, ())}

    def solve(left: int) -> tuple[float, tuple[int, ...]]:
        if left not in best:
            found: list[tuple[float, tuple[int, ...]]] = [(math.inf, ())]
            choices = [r for r in RADICES if left % r == 0] or [smallest_factor(left)]
            for r in choices:
                if r <= LARGEST_PRIME:
                    price, rest = solve(left // r)
                    found.append((price + stage_cost(r), (r, *rest)))
            best[left] = min(found)
        return best[left]

    price, stages = solve(n)
    return tuple(sorted(stages, reverse=True)) if price < math.inf else ()


def smallest_factor(n: int) -> int:
    return next((k for k in range(2, math.isqrt(n) + 1) if n % k == 0), n)


@cache
def largest_factor(n: int) -> int:
    """The largest prime factor."""
    while (factor := smallest_factor(n)) < n:
        n //= factor
    return n


def smooth(n: int) -> bool:
    """Whether `n` has only small prime factors, or is a prime behind a number that has."""
    return n == 1 or bool(radices(n)) or is_cyclic(n)


@cache
def is_cyclic(n: int) -> bool:
    """Whether rows of `n` points are a cyclic convolution of n - 1: a prime whose n - 1 has small factors."""
    if n < CYCLIC_FROM or smallest_factor(n) != n:
        return False
    stages = radices(n - 1)
    return bool(stages) and max(stages) <= CYCLIC_LARGEST


def powers(p: int) -> list[int]:
    """The p powers of a number of which every one but 0 is a power, modulo the prime `p`; the last is 1 again."""
    factors = {r for r in range(2, p) if (p - 1) % r == 0 and smallest_factor(r) == r}
    g = next(g for g in range(2, p) if all(pow(g, (p - 1) // r, p) != 1 for r in factors))
    result = [1]
    for _ in range(p - 1):
        result.append(result[-1] * g % p)
    return result


# Stages of 2 to 8 per point as measured on registers of 16 bytes (Neoverse-N1), a four being 3.
MEASURED = {2: 2.4, 3: 2.8, 4: 3.0, 5: 4.5, 6: 4.4, 7: 5.1, 8: 5.0}


def convolution_cost(r: int) -> float:
    """What a stage of a convolution costs, near enough to choose among lengths."""
    return MEASURED[r] if vector_bits() == 128 else 2 + 0.5 * math.log2(r)


@cache
def convolution_length(n: int) -> int:
    """The cheapest length of small factors that holds a convolution of `n` points: at least 2n - 1."""
    def price(m: int) -> float:
        stages = radices(m)
        return m * sum(map(convolution_cost, stages)) if stages and max(stages) < 9 else math.inf

    low = 2 * n - 1
    return min(range(low, low + max(low // 4, 16)), key=price)


# --- tables -----------------------------------------------------------------------------------------------------------

# Cosine and sine of an angle from those of one in the first eighth of a turn: whether they change places, their signs.
EIGHTHS = ((0, 1, 1), (1, 1, 1), (1, -1, 1), (0, -1, 1), (0, -1, -1), (1, -1, -1), (1, 1, -1), (0, 1, -1))


def unit_root(e: int, n: int) -> complex:
    """exp(-2 pi i e / n). Angles beyond an eighth of a turn are mirrored into it, where their rounding is that of a
    small number: a table's errors are those of a transform."""
    eighth, rest = divmod(8 * (e % n), n)
    angle = (n - rest if eighth % 2 else rest) / n * (math.pi / 4)
    pair = (math.cos(angle), math.sin(angle)) if rest or not eighth % 2 else (math.sqrt(0.5), math.sqrt(0.5))
    second, c, s = EIGHTHS[eighth]
    return complex(c * pair[second], -s * pair[1 - second])


def unit_roots(exponents: Any, n: int) -> Any:
    """The same for an array of integers."""
    import numpy as np  # loaded with the first long transform

    eighth, rest = np.divmod(8 * (exponents % n), n)
    angle = np.where(eighth % 2, n - rest, rest) / n * (np.pi / 4)
    second, c, s = np.array(EIGHTHS).T[:, eighth]
    cos, sin = np.cos(angle), np.sin(angle)
    return c * np.where(second, sin, cos) - 1j * (s * np.where(second, cos, sin))


def stages_and_roots(n: int) -> tuple[list[int], list[complex]]:
    """The numbers of every stage, and the roots of unity of all of them in the order they are read."""
    if is_cyclic(n):
        return cyclic_tables(n)
    numbers: list[int] = []
    roots: list[complex] = []
    unit = [unit_root(e, n) for e in range(n)]
    groups = 1
    for r in radices(n):
        step = n // (groups * r)
        numbers += [r, groups, step, len(roots)]
        if r not in RADICES:
            roots += [unit[e * (n // r)] for e in prime_exponents(r)]
        roots += [unit[(j * m * step) % n] for j in range(groups) for m in range(1, r)]
        groups *= r
    return numbers, roots


def chirp_tables(n: int) -> tuple[list[int], list[complex]]:
    """The same for a chirp: its factors exp(-i pi k^2 / n), then the convolution's transforms around a product."""
    import numpy as np  # loaded with the first chirp

    m = convolution_length(n)
    factors = unit_roots(np.arange(n, dtype=np.int64) ** 2, 2 * n)
    wave = np.zeros(m, dtype=np.complex128)
    wave[:n] = factors.conj()
    wave[m - n + 1 :] = factors[:0:-1].conj()
    spectrum = np.fft.fft(wave) / m
    numbers, roots = stages_and_roots(m)
    table = [*factors.tolist(), *spectrum.tolist(), *roots]
    moved = [x + (n + m if k % FIELDS == FIELDS - 1 else 0) for k, x in enumerate(numbers)]
    return [*moved, PRODUCT, 1, m, n, *moved], table


def cyclic_tables(p: int) -> tuple[list[int], list[complex]]:
    """The same for a prime: X[g^-m] = x[0] + sum over q of x[g^q] b[m - q] with b[t] = exp(-2 pi i g^-t / p).
    The powers of g lie behind the stages."""
    import numpy as np  # loaded with the first such prime

    order = powers(p)
    spectrum = np.fft.fft(unit_roots(np.array(order[:0:-1]), p)) / (p - 1)
    numbers, roots = stages_and_roots(p - 1)
    moved = [x + (p - 1 if k % FIELDS == FIELDS - 1 else 0) for k, x in enumerate(numbers)]
    at = 2 * len(moved) + 3 * FIELDS
    stages = [ORDERED, 1, p - 1, at, *moved, SUMMED, 1, p - 1, 0, *moved, RETURNED, 1, p - 1, at]
    return [*stages, *order], [*spectrum.tolist(), *roots]


def stage_count(n: int) -> int:
    """How many stages the tables of `n` begin with."""
    return 2 * len(radices(n - 1)) + 3 if is_cyclic(n) else len(radices(n))


@cache
def forms(n: int) -> tuple[tuple[int, bool], ...]:
    """The kinds of stages of `n` points: a radix, 0 for any large prime, and whether it turns what it reads."""
    if is_cyclic(n):
        return ((ORDERED, True), *forms(n - 1))
    stages = radices(n)
    return tuple(sorted({(r, k > 0) if r in RADICES else (0, True) for k, r in enumerate(stages)}))


@cache
def between(n: int) -> tuple[tuple[int, bool], ...]:
    """The kinds of stages of `n` points that are neither first nor last, where all of them are small."""
    return tuple(sorted({(r, True) for r in radices(n)[1:-1]}))


def prime_block() -> int:
    """Pairs of results of a large prime that are summed together: four sums and two roots each stay in registers."""
    return 2 if vector_bits() == 256 else 4


def prime_exponents(r: int) -> list[int]:
    """m q mod r for q of the first half, for some m of it together, then the next of them."""
    half, block = r // 2, prime_block()
    firsts = [min(1 + t, half + 1 - block) for t in range(0, half, block)]
    return [m * q % r for first in firsts for q in range(1, half + 1) for m in range(first, first + block)]
