"""Pointwise ops over many rows of a few elements, with operands that are repeated, sliced or written in place."""

from __future__ import annotations

import pytest

import rushlight as rl

CODES = [rl.uint8, rl.int16, rl.float32, rl.float64, rl.complex128]


def numbers(shape, dtype):
    return (rl.arange(rl.Size(shape).numel()) % 11 + 1).reshape(shape).to(dtype)


def expected(op, x, y, shape):
    """Element by element, in lists."""
    rows, columns = shape
    x, y = x.expand(shape).tolist(), y.expand(shape).tolist()
    return [[op(x[i][j], y[i][j]) for j in range(columns)] for i in range(rows)]


@pytest.mark.parametrize("dtype", CODES)
@pytest.mark.parametrize("columns", [2, 3, 7, 16, 17, 31, 63])
def test_rows_meet_columns_and_rows(dtype, columns):
    shape = (301, columns)
    x = numbers(shape, dtype)
    for y in (numbers((301, 1), dtype), numbers((columns,), dtype), numbers((301, 1), dtype).flip(0)):
        assert (x + y).tolist() == expected(lambda a, b: a + b, x, y, shape)
        assert (y - x + 20).tolist() == expected(lambda a, b: b - a + 20, x, y, shape)


@pytest.mark.parametrize("columns", [3, 5, 20])
def test_slices_are_written_in_place_and_nothing_beside_them(columns):
    wide = rl.zeros(400, columns + 4)
    inner = wide[:, 2:-2]
    inner += numbers((400, 1), rl.float32)
    inner *= numbers((columns,), rl.float32)
    want = numbers((400, 1), rl.float32).expand(400, columns) * numbers((columns,), rl.float32).contiguous()
    assert inner.tolist() == want.tolist()
    assert not wide[:, :2].any() and not wide[:, -2:].any()


def test_rows_of_several_outer_dims():
    x, y = numbers((50, 3, 3), rl.int16), numbers((3, 1), rl.int16)
    z = numbers((50, 1, 1), rl.int16)
    found = (x * y + z).tolist()
    assert all(
        found[b][i][j] == x[b, i, j] * y[i, 0] + z[b, 0, 0] for b in (0, 1, 17, 49) for i in range(3) for j in range(3)
    )


def test_results_do_not_depend_on_threads():
    x, y = rl.linspace(-3, 3, 60_000 * 5).reshape(60_000, 5), rl.linspace(0.1, 2, 60_000).reshape(-1, 1)
    before, seen = rl.get_num_threads(), []
    try:
        for threads in (1, 3):
            rl.set_num_threads(threads)
            seen.append(rl.pow(x.abs(), y).sum(0).tolist() + rl.atan2(x, y)[-1].tolist())
    finally:
        rl.set_num_threads(before)
    assert seen[0] == seen[1]
