"""Values that share a local: variables that loops carry, exchange and read late."""

import pytest

from rushlight.script.unit import Unit


def swaps(n: int, k: int):
    a, b = k, 1
    for i in range(n):
        a, b = b, a + b
    return a, b


def late_reads(n: int, k: int):
    a, last, seen = k, 0, 0
    for i in range(n):
        new = a * 3 - i
        if new % 2 == 0:
            seen += a
        a = new
        last = seen - a
    return a, last, seen


def rotation(n: int, k: int):
    a, b, c = k, k + 1, k + 2
    while n > 0:
        if n % 3 == 1:
            a, b, c = b, c, a
        elif n % 3 == 2:
            a, c = c, a
        n -= 1
    return a, b, c, n


def nested(n: int, k: int):
    total, before = 0, k
    for i in range(n):
        old = total
        for j in range(i):
            total += before - old
            if total > 50:
                total -= old
                old = total
        before = old + total
    return total, before


def branch_reads_old(n: int, k: int):
    x, y = k, 0
    for i in range(n):
        if x % 2 == 0:
            z = x // 2
            y += x
        else:
            z = x + y
            y = x - z
        x = z
    return x, y


def shared_result(n: int, k: int):
    a, b = k, k
    for i in range(n):
        c = a + i
        a = c
        b = c + b
        if c > 20:
            a, b = b - c, c
    return a, b


def early(n: int, k: int):
    found = -1
    for i in range(n):
        if (k + i) % 7 == 3:
            found = i
            break
        if i % 2 == 0:
            continue
        found = found - i
    return found, k


def one_for_two(n: int, k: int):
    a, b = k, 1
    for i in range(n):
        c = a * 2 - b + i
        a, b = c, c
    return a, b


def inner_reads(n: int, k: int):
    a, t = k, 0
    for i in range(n):
        t = i
        for j in range(3):
            if j == 1:
                t = a + j
            else:
                t = t * 2
        a = t
    return a, t


def one_for_two_branches(n: int, k: int):
    if k > 0:
        c = k * n
        a, b = c, c
    else:
        a, b = n - k, k * 2
    return a, b


PROGRAMS = (one_for_two_branches, one_for_two, inner_reads,
            swaps, late_reads, rotation, nested, branch_reads_old, shared_result, early)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_values_are_pythons(program) -> None:
    compiled = Unit().compile(program)
    for n in range(9):
        for k in (-3, 0, 2, 5):
            assert compiled(n, k) == program(n, k), (n, k)
