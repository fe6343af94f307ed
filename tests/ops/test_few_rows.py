"""Products of up to eight rows with a matrix that is read where it lies."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import rushlight as rl
from rushlight.codegen.library.products import few_rows
from rushlight.codegen.text.targets import find_target

pytestmark = pytest.mark.share(2)   # of each test that has several cases

SIZES = [(513, 300), (700, 1100), (129, 2051), (1030, 67)]
TOLERANCE = {"f4": 2.0**-21, "f8": 2.0**-50}


def sample(seed: int, *shape: int, dtype: str) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("rows", range(2, 10))
@pytest.mark.parametrize("n, k", SIZES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_products_of_few_rows(rows: int, n: int, k: int, dtype: str) -> None:
    a, b, bias = (sample(s, *shape, dtype=dtype) for s, shape in enumerate(((rows, k), (k, n), (n,))))
    exact = a.astype("f8") @ b.astype("f8")
    # of every element's sum of absolute products
    bound = TOLERANCE[dtype] * (np.abs(a).astype("f8") @ np.abs(b).astype("f8") + 1)
    x, y, z = (rl.from_numpy(t) for t in (a, b, bias))
    transposed = rl.from_numpy(np.ascontiguousarray(b.T))
    for right in (y, transposed.t()):
        assert (np.abs((x @ right).numpy() - exact) <= bound).all()
        assert (np.abs(rl.addmm(z, x, right).numpy() - (exact + bias)) <= bound + np.abs(bias) * 1e-6).all()
    added = rl.nn.functional.linear(x, transposed, z)
    assert (np.abs(added.numpy() - (exact + bias)) <= bound + np.abs(bias) * 1e-6).all()
    wide = rl.from_numpy(np.concatenate([a, a], 1))[:, :k]           # rows that lie apart
    assert wide.stride(0) == 2 * k and (wide @ y).equal(x @ y) and (wide @ transposed.t()).equal(x @ transposed.t())


WIDE = """
import numpy as np
import rushlight as rl
from rushlight.codegen.library.products import few_rows
from rushlight.planners.products import gemm
made = []
kept = gemm.few_rows_step
gemm.few_rows_step = lambda *args, **given: made.append(kept(*args, **given)) or made[-1]
gemm.vector_bits = few_rows.vector_bits = lambda: 512     # LLVM splits vectors that the processor does not have
random = np.random.default_rng(0)
for m, k in ((611, 577), (83, 9001), (5000, 64)):
    for dtype, bound in (("f4", 2.0**-21), ("f8", 2.0**-50)):
        a, x = random.standard_normal((m, k)).astype(dtype), random.standard_normal(k).astype(dtype)
        exact, most = a.astype("f8") @ x.astype("f8"), bound * (np.abs(a).astype("f8") @ np.abs(x).astype("f8") + 1)
        matrix, vector = rl.from_numpy(a), rl.from_numpy(x)
        for result in (matrix @ vector, vector @ matrix.t(), vector[None] @ matrix.t(), matrix @ vector[:, None]):
            assert result.numel() == m and (np.abs(result.flatten().numpy() - exact) <= most).all(), (m, k, dtype)
        assert len(made) >= 4 and all(made), (m, k, dtype)          # plans of sizes that vary serve later ones
        both = rl.stack([matrix, matrix + 1]) @ vector
        assert (np.abs(both[0].numpy() - exact) <= most).all() and both[1].allclose((matrix + 1) @ vector)
"""


ALONE = """
import sys
import numpy as np
import rushlight as rl
from rushlight.codegen.library.products import few_rows
from rushlight.planners.products import gemm
bits = int(sys.argv[1])
made = []
kept = gemm.few_rows_step
gemm.few_rows_step = lambda *args, **given: made.append(kept(*args, **given)) or made[-1]
gemm.vector_bits = few_rows.vector_bits = lambda: bits     # LLVM splits vectors that the processor does not have
random = np.random.default_rng(1)
for k, n in ((311, 2049), (9001, 1030), (64, 20003)):
    for dtype, bound in (("f4", 2.0**-22), ("f8", 2.0**-50)):
        a, x = random.standard_normal((k, n)).astype(dtype), random.standard_normal(k).astype(dtype)
        exact, most = x.astype("f8") @ a.astype("f8"), bound * (np.abs(x).astype("f8") @ np.abs(a).astype("f8") + 1)
        matrix, vector = rl.from_numpy(a), rl.from_numpy(x)
        made.clear()
        found = []
        for threads in (1, 3):
            rl.set_num_threads(threads)
            found += [matrix.t() @ vector, vector @ matrix]
            found += [(vector[None] @ matrix)[0], (matrix.t() @ vector[:, None])[:, 0]]
        assert all((np.abs(y.numpy() - exact) <= most).all() and y.equal(found[0]) for y in found), (k, n, dtype)
        assert made and all(made), (k, n, dtype)
        both = vector @ rl.stack([matrix, matrix + 1])
        assert both[0].equal(found[0]) and both[1].allclose(vector @ (matrix + 1))
"""


@pytest.mark.parametrize("bits", [128, 512])
def test_rows_of_a_matrix_meet_one_vector(bits: int, tmp_path) -> None:
    """Sums are no less exact than those of columns, and threads, which have columns each, change none."""
    env = {**os.environ, "RUSHLIGHT_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", ALONE, str(bits)], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_matrices_of_long_runs_meet_one_vector_where_vectors_are_wide(tmp_path) -> None:
    env = {**os.environ, "RUSHLIGHT_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", WIDE], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 8, 9])
@pytest.mark.parametrize("n, k", [*SIZES, (2048, 96)])
@pytest.mark.parametrize("dtype, digits", [(rl.float16, 11), (rl.bfloat16, 8)])
def test_half_types_are_summed_in_single_precision(rows: int, n: int, k: int, dtype: rl.dtype, digits: int) -> None:
    shapes = (rows, k), (k, n), (n,)
    x, right, bias = (rl.from_numpy(sample(s, *shape, dtype="f4")).to(dtype) for s, shape in enumerate(shapes))
    exact = x.double().numpy() @ right.double().numpy()
    columns = right.t().contiguous()
    wide = rl.stack([x, x], 1).flatten(0, 1)[::2]           # rows that lie apart
    added = exact + bias.double().numpy()

    def close(result: rl.Tensor, wanted: np.ndarray, also_rounded: np.ndarray | float = 0.0) -> bool:
        assert result.dtype is dtype and result.shape == (rows, n)
        bound = 2.0**-digits * (np.abs(wanted) + np.abs(also_rounded)) + 1e-4
        return bool((np.abs(result.double().numpy() - wanted) <= bound).all())

    # More rows on matrix registers round the product before the addend joins, and so does a scaled one.
    product = exact if rows > few_rows.MOST else 0.0
    for b in (right, columns.t()):
        assert close(x @ b, exact) and close(wide @ b, exact)
        assert close(rl.addmm(bias, x, b), added, product)
        assert close(rl.addmm(bias.expand(rows, n), x, b, alpha=2), added + exact, 2 * exact)
    linear = rl.nn.functional.linear
    assert close(linear(x, columns, bias), added, product) and close(linear(x, columns), exact)
    assert close(linear(x, columns, rl.stack([bias, bias], 1)[:, 0]), added, product)
    assert linear(x.view(rows, 1, k), columns, bias).shape == (rows, 1, n)


def test_half_weights_keep_infinities_and_nans() -> None:
    for dtype in (rl.float16, rl.bfloat16):
        x, w = rl.ones(1, 300, dtype=dtype), rl.ones(600, 300, dtype=dtype)
        w[3, 7], w[5, 299] = float("inf"), float("nan")
        result = rl.nn.functional.linear(x, w)[0]
        assert result[3].isinf() and result[5].isnan() and result[[0, 1, 2, 4]].eq(300).all()


def test_columns_and_threads_do_not_change_an_element() -> None:
    a, b = (rl.from_numpy(sample(7, *shape, dtype="f4")) for shape in ((6, 900), (900, 1700)))
    threads = rl.get_num_threads()
    try:
        for right in (b, b.t().contiguous().t()):
            rl.set_num_threads(1)
            alone = a @ right
            rl.set_num_threads(3)
            assert (a @ right).equal(alone)
            assert (a @ right[:, 37:1241]).equal(alone[:, 37:1241])
    finally:
        rl.set_num_threads(threads)


@pytest.mark.parametrize("turned", [False, True])
def test_batches_are_products_one_after_another(turned: bool) -> None:
    a, b = rl.from_numpy(sample(3, 5, 4, 300, dtype="f4")), rl.from_numpy(sample(4, 5, 300, 700, dtype="f4"))
    b = b.transpose(1, 2).contiguous().transpose(1, 2) if turned else b
    assert (a @ b).equal(rl.stack([x @ y for x, y in zip(a, b, strict=True)]))
    assert (a @ b[2]).shape == (5, 4, 700) and rl.allclose((a @ b[2:3])[1], a[1] @ b[2], atol=1e-4)
    assert (a.transpose(0, 1) @ b[0]).shape == (4, 5, 700)


@pytest.mark.parametrize("code, right", [("f32", ""), ("f64", ""), ("f32", "bf16"), ("f32", "f16")])
def test_kernels_take_lanes_and_keep_sums_in_registers(code: str, right: str) -> None:
    from rushlight.codegen.llvm.cpu import compile_ir

    target = find_target("aarch64")
    for along in (False, True):
        product = few_rows.few_rows(code, few_rows.MOST, along, bits=128, right=right)
        text = compile_ir(few_rows.module_text(product, target.triple), target, "asm")
        products = [line for line in text.splitlines() if "fmla" in line]
        assert products and along != any("[1]" in line for line in products)


@pytest.mark.parametrize("rows", [2, 3, 5, 8])
def test_rows_that_share_cache_sets_multiply_the_same(rows: int) -> None:
    a, b = sample(5, rows, 67, dtype="f4"), sample(6, 67, 2048, dtype="f4")
    result = rl.from_numpy(a) @ rl.from_numpy(b)
    assert np.abs(result.numpy() - a.astype("f8") @ b.astype("f8")).max() < 1e-4


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("rows", [2, 3, 8])
def test_every_width_of_vectors_multiplies_the_same(rows: int, bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # LLVM splits vectors that the processor does not have, so every form runs everywhere.
    monkeypatch.setattr(few_rows, "vector_bits", lambda: bits)
    few_rows.few_rows_kernel.cache_clear()
    try:
        rl._C.forget_plans()
        a, b = sample(8, rows, 333, dtype="f4"), sample(9, 333, 1030, dtype="f4")
        exact, x = a.astype("f8") @ b.astype("f8"), rl.from_numpy(a)
        for right in (rl.from_numpy(b), rl.from_numpy(np.ascontiguousarray(b.T)).t()):
            assert np.abs((x @ right).numpy() - exact).max() < 2e-4
    finally:
        few_rows.few_rows_kernel.cache_clear()
        rl._C.forget_plans()


def test_kernels_of_wide_vectors_keep_sums_in_registers() -> None:
    from rushlight.codegen.llvm.cpu import compile_ir

    for name in ("x86-64-avx2", "x86-64-avx512"):
        target = find_target(name)
        for along in (False, True):
            product = few_rows.few_rows("f32", few_rows.MOST, along, bits=target.vector_bits)
            text = compile_ir(few_rows.module_text(product, target.triple), target, "asm")
            register = "zmm" if target.vector_bits == 512 else "ymm"
            assert any("vfmadd" in line and register in line for line in text.splitlines())
