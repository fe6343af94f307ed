"""Rows whose loops run as one, each a row behind the one before it: equal to ops one by one, whatever the number and
length of rows."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.codegen.schedule.cpu import rows_staggered
from rushlight.codegen.text.targets import vector_bits
from tests.inductor.harness import compiled

SIZES = ((1, 65), (2, 64), (3, 1000), (7, 77), (40, 63), (65, 1024), (131, 2048), (20, 2049), (700, 100))


def is_staggered(cols: int) -> bool:
    return vector_bits() == 128 and rows_staggered.SHORTEST <= cols <= rows_staggered.LONGEST


@pytest.fixture
def staggered(monkeypatch) -> list:
    """The programs that were scheduled so."""
    found = []
    real = rows_staggered.schedule_staggered

    def noted(program, *rest):
        found.append(program.name)
        return real(program, *rest)

    monkeypatch.setattr(rows_staggered, "schedule_staggered", noted)
    return found


@pytest.mark.parametrize("rows, cols", SIZES)
@pytest.mark.parametrize("dtype", (rl.float32, rl.float64, rl.bfloat16))
def test_layer_norm_of_a_sum(rows, cols, dtype, staggered):
    rl.manual_seed(rows)
    x, y, w, b = (rl.randn(*s).to(dtype) for s in ((rows, cols), (rows, cols), (cols,), (cols,)))

    def normalised(x, y, w, b):
        return rl.nn.functional.layer_norm(x + y * 3, (cols,), w, b)

    got = compiled(normalised, (x, y, w, b))([x, y, w, b])[0]
    assert bool(staggered) == is_staggered(cols)
    wide = (x + y * 3).double()
    centred = wide - wide.mean(-1, keepdim=True)
    want = centred * (centred.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * w.double() + b.double()
    tolerance = {rl.float32: 2e-5, rl.float64: 1e-12, rl.bfloat16: 0.06}[dtype]
    assert rl.allclose(got.double(), want, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("rows, cols", SIZES)
def test_numbers_of_rows_between_loops(rows, cols, staggered):
    rl.manual_seed(cols)
    x, y, r = rl.randn(rows, cols), rl.randn(rows, cols), rl.randn(rows, 1)

    def around(x, y, r):
        scaled = x * r
        return (scaled - scaled.amax(-1, keepdim=True)) * y - r

    got = compiled(around, (x, y, r))([x, y, r])[0]
    assert bool(staggered) == (rows >= 16 and is_staggered(cols))
    rl.testing.assert_close(got, around(x, y, r))


def test_what_does_not_gain_is_left(staggered):
    x, y = rl.randn(100, 96), rl.randn(100, 96)

    def two(x, y):
        return x + y, rl.nn.functional.layer_norm(x + y, (96,))

    assert rl.allclose(compiled(lambda x: x.softmax(-1) * 2, (x,))([x])[0], x.softmax(-1) * 2)
    assert rl.allclose(compiled(two, (x, y))([x, y])[1], two(x, y)[1], atol=1e-5)
    assert "softmax_mul" not in staggered and "add_layer_norm_rows" not in staggered


def test_rows_that_lie_apart():
    x = rl.randn(50, 3, 96)

    def middle(x):
        return rl.nn.functional.layer_norm(x[:, 1] * 2, (96,))

    assert rl.allclose(compiled(middle, (x,))([x])[0], middle(x), atol=1e-5)


def test_results_do_not_depend_on_threads():
    x, y, w, b = rl.randn(3000, 257), rl.randn(3000, 257), rl.randn(257), rl.randn(257)
    f = compiled(lambda x, y, w, b: rl.nn.functional.layer_norm(x + y, (257,), w, b), (x, y, w, b))
    before, found = rl.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            rl.set_num_threads(threads)
            found.append(f([x, y, w, b])[0])
    finally:
        rl.set_num_threads(before)
    assert rl.equal(found[0], found[1]) and rl.equal(found[0], found[2])
