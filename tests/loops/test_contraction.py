"""Products of matrices as contractions: what comes before and after them is computed in their kernels."""

import os
import subprocess
import sys

import pytest
from test_inline import lowered, run

import rushlight as R
from rushlight.codegen import schedule as schedules
from rushlight.codegen.schedule.cpu.contraction import is_tiled
from rushlight.loops.inline import inline

pytestmark = pytest.mark.share(2)   # of each test that has several cases

SIZES = [(9, 130, 1100), (130, 70, 200), (3, 4, 5)]


def operands(m, n, k, dtype=R.float32):
    """Both orders of memory of each operand, and one whose lines have gaps."""
    R.manual_seed(m * n + k)
    a, b = R.randn(m, k).to(dtype), R.randn(k, n).to(dtype)
    yield a, b
    yield a.t().contiguous().t(), b
    yield a, b.t().contiguous().t()
    yield R.randn(2 * m, 2 * k).to(dtype)[::2, ::2], R.randn(2 * k, 2 * n).to(dtype)[::2, ::2]


def close(got, a, b, then=lambda x: x):
    """Against the same in double precision."""
    wide = (a.double() @ b.double(), a.double().abs() @ b.double().abs())
    tolerance = {R.float32: 1e-5, R.float64: 1e-13, R.bfloat16: 1e-2, R.float16: 2e-3}[got.dtype]
    bound = tolerance * (wide[1] + 1)
    assert got.shape == wide[0].shape
    assert bool(((got.double() - then(wide[0])).abs() <= bound).all())


@pytest.mark.parametrize("dtype", [R.float32, R.float64, R.bfloat16, R.float16], ids=lambda d: d.name)
@pytest.mark.parametrize("size", SIZES)
def test_products_of_all_layouts(size, dtype):
    for a, b in operands(*size, dtype):
        close(run(lowered("mm", a, b), a, b), a, b)


def test_integers_wrap_as_their_type_does():
    a, b = R.randint(-100, 100, (20, 90), dtype=R.int8), R.randint(-100, 100, (90, 30), dtype=R.int8)
    expected = (a.long() @ b.long()).to(R.int8)
    assert R.equal(run(lowered("mm", a, b), a, b), expected)


@pytest.mark.parametrize("shapes", [((6, 5, 40), (40, 30)), ((2, 3, 64, 70), (2, 3, 70, 80)), ((40,), (4, 40, 30)),
                                    ((3, 64, 128), (1, 128, 200)), ((50,), (50,)), ((4, 50, 20), (20,))])
def test_batches_and_vectors(shapes):
    a, b = (R.randn(*s) for s in shapes)
    R.testing.assert_close(run(lowered("matmul", a, b), a, b), (a.double() @ b.double()).float(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("size", SIZES)
def test_pointwise_ops_behind_a_product(size):
    m, n, k = size
    for a, b in operands(m, n, k):
        product, bias, rest = a @ b, R.randn(n), R.randn(m, n)
        biased = inline(lowered("add", product, bias), 0, lowered("mm", a, b))
        kept = inline(lowered("relu", product), 0, biased)
        summed = inline(lowered("mul", rest, product), 1, kept)
        close(run(kept, a, b, bias), a, b, lambda x, bias=bias: (x + bias).relu())
        got = run(summed, a, b, bias, rest)
        R.testing.assert_close(got, rest * (product + bias).relu(), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("size", SIZES)
def test_another_type_behind_and_in_front_of_a_product(size):
    m, n, k = size
    for a, b in operands(m, n, k, R.bfloat16):
        wide = a.float() @ b.float()
        product = lowered("mm", a.float(), b.float())
        left = inline(product, 0, lowered("to", a, R.float32))
        both = inline(left, 1, lowered("to", b, R.float32))
        R.testing.assert_close(run(both, a, b), wide, rtol=1e-5, atol=1e-3)
        row = R.randn(n)
        late = inline(lowered("mul", wide, row), 0, both)
        narrow = inline(lowered("to", wide, R.bfloat16), 0, late)
        R.testing.assert_close(run(narrow, a, b, row), (wide * row).bfloat16(), rtol=2e-2, atol=1e-2)


def test_what_an_epilogue_reads_may_be_computed_too():
    a, b, x, y = R.randn(64, 300), R.randn(300, 90), R.randn(90), R.randn(64, 1)
    product = inline(lowered("add", a @ b, x.exp()), 0, lowered("mm", a, b))
    product = inline(product, 2, lowered("exp", x))                 # behind, after the product was joined with it
    scaled = inline(product, 0, lowered("mul", a, y))               # and in front, of two reads
    R.testing.assert_close(run(scaled, a, y, b, x), (a * y) @ b + x.exp(), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("alpha", [1, 2, 0.5])
@pytest.mark.parametrize("beta", [1, 0, 3])
def test_addmm_is_one_product_with_an_addend(alpha, beta):
    for m, n, k in SIZES:
        a, b = R.randn(m, k), R.randn(k, n)
        for added in (R.randn(m, n), R.randn(n), R.randn(m, 1)):
            result = lowered("addmm", added, a, b, beta=beta, alpha=alpha)
            names = {"input": added, "mat1": a, "mat2": b}
            got = run(result, *[names[r.name] for r in result.memories])
            R.testing.assert_close(got, beta * added + alpha * (a @ b), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("shape", [(700,), (3, 5, 700), (40, 700)])
def test_linear(shape):
    x, w, bias = R.randn(*shape), R.randn(130, 700), R.randn(130)
    R.testing.assert_close(run(lowered("linear", x, w, bias), x, w, bias), R.nn.functional.linear(x, w, bias),
                           rtol=1e-5, atol=1e-4)


def test_large_products_are_tiles_and_small_ones_folds():
    large, small = lowered("mm", R.randn(64, 300), R.randn(300, 90)), lowered("mm", R.randn(8, 8), R.randn(8, 8))
    assert is_tiled(large) and not is_tiled(small)
    assert "multiply " in str(schedules.schedule(large))
    assert "multiply " not in str(schedules.schedule(small))


def test_two_kernels_compute_what_six_ops_would():
    a, b, bias = R.randn(400, 300).bfloat16(), R.randn(300, 256), R.randn(256)
    product = inline(lowered("mm", a.float(), b), 0, lowered("to", a, R.float32))
    result = inline(lowered("add", R.randn(400, 256), bias), 0, product)
    result = inline(lowered("tanh", R.randn(400, 256)), 0, result)
    assert len(schedules.schedule(result).launches) == 2          # columns are packed, and all the rest
    R.testing.assert_close(run(result, a, b, bias), (a.float() @ b + bias).tanh(), rtol=1e-4, atol=1e-4)


def test_a_product_says_how_it_runs():
    """In a process of its own: plans that other tests left would serve the call, and a plan says it once."""
    program = """
import rushlight as R
R.randn(65, 301) @ R.randn(301, 91)
R.randn(6, 71) @ R.randn(71, 11)
R.randn(200, 90, dtype=R.complex64) @ R.randn(90, 100, dtype=R.complex64)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "RUSHLIGHT_SHOW": "lowered"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for said in ("lowered: product", "of f32: a panel kernel, since", "c64: tiles of real numbers"):
        assert said in done.stderr, said
