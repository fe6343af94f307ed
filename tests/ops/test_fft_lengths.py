"""Transforms of lengths that are no power of two: against NumPy's in double precision,
on every path that `fft_rows` knows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import codegen
from rushlight.codegen.text.targets import vector_bits
from rushlight.definitions.spectral import rows as fft_rows
from rushlight.planners.fourier import (
    direct as fft_direct,
    real as real_fourier,
    rows as row_plans,
    tables as fourier_tables,
    transform as fourier,
)

pytestmark = pytest.mark.share(2)   # of each test that has several cases

# One row and many, powers of two and other lengths along which vectors go (640, 1536, 2048 and 4096, which has a stage
# of 16 in the middle), small factors, primes behind smooth numbers (131, 257, 307, 1009) and others (263, 347: chirps),
# two kernels for one row, and a chirp of those.
LENGTHS = (
    1,
    2,
    3,
    5,
    6,
    7,
    11,
    12,
    13,
    17,
    30,
    97,
    100,
    101,
    113,
    121,
    131,
    257,
    263,
    307,
    347,
    225,
    640,
    1000,
    1009,
    1331,
    1536,
    2048,
    4096,
    4199,
    6000,
    10007,
)
ROWS = (1, 3, 17, 33)
EPSILON = {"complex64": 2.0**-24, "complex128": 2.0**-53}
BOUND = 3.0   # of the relative error in the 2-norm, in epsilons times log2(2 n): docs/accuracy.md


def error(result: Any, exact: np.ndarray) -> float:
    return float(np.linalg.norm(result.numpy() - exact) / max(np.linalg.norm(exact), 1e-300))


def sample(rows: int, n: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(n * 64 + rows)
    real = random.standard_normal((rows, n)).astype("f4" if kind == "complex64" else "f8")
    return (real + 1j * random.standard_normal((rows, n))).astype(kind), real


@pytest.mark.share(3)
@pytest.mark.parametrize("kind", ["complex64", "complex128"])
@pytest.mark.parametrize("n", LENGTHS)
def test_transforms_of_any_length_are_within_the_stated_error(n: int, kind: str) -> None:
    limit = BOUND * EPSILON[kind] * math.log2(2 * n)
    for rows in ROWS if n < 4000 else ROWS[:2]:
        z, x = sample(rows, n, kind)
        wide = z.astype("c16")
        assert error(rl.fft.fft(rl.from_numpy(z)), np.fft.fft(wide)) <= limit
        assert error(rl.fft.ifft(rl.from_numpy(z)), np.fft.ifft(wide)) <= limit
        assert error(rl.fft.fft(rl.from_numpy(z), norm="ortho"), np.fft.fft(wide, norm="ortho")) <= limit
        assert error(rl.fft.rfft(rl.from_numpy(x)), np.fft.rfft(x.astype("f8"))) <= limit
        assert error(rl.fft.fft(rl.from_numpy(x)), np.fft.fft(x.astype("f8"))) <= limit
        half = np.ascontiguousarray(wide[:, : n // 2 + 1]).astype(kind)
        assert error(rl.fft.irfft(rl.from_numpy(half), n), np.fft.irfft(half.astype("c16"), n)) <= limit


@pytest.mark.share(2)
@pytest.mark.parametrize("n", [7, 15, 64, 100, 243, 501, 509, 1000, 1024, 2500])
@pytest.mark.parametrize("kind", ["complex64", "complex128"])
def test_rows_do_not_know_of_each_other(n: int, kind: str) -> None:
    """A quiet row beside loud ones is as exact as alone, and one that is not a number spoils no other."""
    limit = BOUND * EPSILON[kind] * math.log2(2 * n)
    for rows in (2, 6, 33):
        _, x = sample(rows, n, kind)
        x[::2] *= 1e6
        half = np.fft.rfft(x.astype("f8")).astype(kind)
        exact = np.fft.rfft(x.astype("f8"))
        results = rl.fft.rfft(rl.from_numpy(x)), rl.fft.irfft(rl.from_numpy(half), n)
        for k in range(rows):
            assert error(results[0][k], exact[k]) <= limit
            assert error(results[1][k], np.fft.irfft(half[k].astype("c16"), n)) <= limit
        x[1, n // 2], half[1, 0] = np.nan, np.nan
        spoilt = rl.fft.rfft(rl.from_numpy(x)), rl.fft.fft(rl.from_numpy(x)), rl.fft.irfft(rl.from_numpy(half), n)
        for result in spoilt:
            assert result.isnan().any(1).tolist() == [k == 1 for k in range(rows)]


def test_columns_that_two_blocks_hold_are_written_by_one_thread() -> None:
    for rows in range(1, 6):
        for blocks in range(1, 40):
            for least in range(1, 50):
                grain = row_plans.with_last_blocks(least, rows, blocks)
                assert grain >= least
                chunks = [i // grain for i in range(rows * blocks)]
                last = [(row + 1) * blocks - 1 for row in range(rows)]
                assert blocks == 1 or all(chunks[i] == chunks[i - 1] for i in last)


@pytest.mark.parametrize("n", [20000, 20002, 30030])
def test_long_real_rows_that_fill_lanes(n: int) -> None:
    limit = BOUND * EPSILON["complex64"] * math.log2(2 * n)
    z, x = sample(4, n, "complex64")
    assert error(rl.fft.rfft(rl.from_numpy(x)), np.fft.rfft(x.astype("f8"))) <= limit
    assert error(rl.fft.fft(rl.from_numpy(x)), np.fft.fft(x.astype("f8"))) <= limit
    half = np.ascontiguousarray(z[:, : n // 2 + 1])
    assert error(rl.fft.irfft(rl.from_numpy(half), n), np.fft.irfft(half.astype("c16"), n)) <= limit


@pytest.mark.share(3)
@pytest.mark.parametrize("n", [999, 1010, 9999, 12288, 46189, 99999])
@pytest.mark.parametrize("kind", ["complex64", "complex128"])
def test_long_real_rows_in_two_steps(n: int, kind: str) -> None:
    """Odd lengths and even ones, large primes among their factors, of dims that are the last and others."""
    limit = BOUND * EPSILON[kind] * math.log2(2 * n)
    # 999 and 1010 have no two factors that fill the lanes of wide registers, and go as one row there.
    assert n < 2000 or row_plans.planned_in_two(n, {"complex64": "c64", "complex128": "c128"}[kind])
    for rows in (1, 3):
        z, x = sample(rows, n, kind)
        exact, t = np.fft.fft(x.astype("f8")), rl.from_numpy(x)
        assert error(rl.fft.rfft(t), exact[:, : n // 2 + 1]) <= limit
        assert error(rl.fft.fft(t), exact) <= limit
        assert error(rl.fft.rfft(t, norm="ortho"), exact[:, : n // 2 + 1] / math.sqrt(n)) <= limit
        assert error(rl.fft.rfft(t.t(), dim=0), exact[:, : n // 2 + 1].T) <= limit
        half = np.ascontiguousarray(z[:, : n // 2 + 1])
        back = np.fft.irfft(half.astype("c16"), n)
        assert error(rl.fft.irfft(rl.from_numpy(half), n), back) <= limit
        assert error(rl.fft.irfft(rl.from_numpy(half).t(), n, dim=0, norm="forward"), back.T * n) <= limit


def test_two_steps_of_real_rows_do_not_depend_on_threads() -> None:
    """The last block of columns begins early, so that two threads write the same numbers."""
    threads, x = rl.get_num_threads(), rl.randn(2, 30030 * 3)
    results = []
    try:
        for count in (1, 2):
            rl.set_num_threads(count)
            results.append((rl.fft.rfft(x), rl.fft.fft(x), rl.fft.irfft(rl.fft.rfft(x), 30030 * 3)))
    finally:
        rl.set_num_threads(threads)
    assert all(rl.equal(one, two) for one, two in zip(*results, strict=True))


@pytest.mark.parametrize("shape", [(20, 33), (100, 6, 5), (2, 15, 40), (3, 101, 24), (1000, 2), (2, 0, 12)])
def test_other_dims_and_strides(shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(7)
    z = random.standard_normal(shape) + 1j * random.standard_normal(shape)
    t = rl.from_numpy(z)
    for dim in range(len(shape)):
        if shape[dim]:
            assert error(rl.fft.fft(t, dim=dim), np.fft.fft(z, axis=dim)) < 1e-14
            assert (
                error(rl.fft.ifft(t.transpose(0, -1), dim=dim), np.fft.ifft(z.swapaxes(0, -1), axis=dim)) < 1e-14
                or not z.swapaxes(0, -1).shape[dim]
            )
    if 0 not in shape:
        assert error(rl.fft.fftn(t), np.fft.fftn(z)) < 1e-14
        assert error(rl.fft.rfftn(t.real), np.fft.rfftn(z.real)) < 1e-14
        every = rl.from_numpy(np.repeat(z, 7, axis=-1))[..., ::7]
        assert error(rl.fft.fft(every), np.fft.fft(z)) < 1e-14


def test_lanes_and_threads_do_not_change_results() -> None:
    """Whichever lane a row is in, alone or among others, on one thread or two."""
    threads = rl.get_num_threads()
    x = rl.randn(70, 300, dtype=rl.complex64)
    try:
        rl.set_num_threads(1)
        one = rl.fft.fft(x)
        rl.set_num_threads(2)
        assert rl.equal(rl.fft.fft(x), one)
    finally:
        rl.set_num_threads(threads)
    assert rl.equal(rl.fft.fft(x[5:40]), one[5:40])
    assert rl.equal(rl.fft.fft(x[:69]), one[:69])


def test_imaginary_parts_that_a_real_result_cannot_have_are_ignored() -> None:
    for n, rows in ((12, 20), (15, 20), (1000, 20), (1000, 1), (4095, 1)):
        half = rl.randn(rows, n // 2 + 1, dtype=rl.complex64)
        cleared = half.clone()
        cleared[:, 0].imag.zero_()
        if n % 2 == 0:
            cleared[:, -1].imag.zero_()
        assert rl.equal(rl.fft.irfft(half, n), rl.fft.irfft(cleared, n))


@pytest.mark.parametrize("n", [2500, 4199, 6561, 10007, 15000, 30030])
@pytest.mark.parametrize("kind", ["complex64", "complex128"])
def test_the_library_and_the_kernels_agree_where_either_may_be_used(
    n: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    z, x = sample(1, n, kind)
    half = np.ascontiguousarray(z[:, : n // 2 + 1])

    def all_of_them() -> list[Any]:
        numbers, reals, spectra = map(rl.from_numpy, (z, x, half))
        return [fft_rows.complex_along(numbers, 1, True, 1.0), fft_rows.complex_along(numbers, 1, False, 1 / n),
                fft_rows.half_along(reals, 1, 1.0), fft_rows.whole_along(reals, 1, 1.0),
                fft_rows.real_along(spectra, 1, n, 1 / n)]

    chosen = []
    monkeypatch.setattr(fft_rows, "library_is_faster", lambda *args: chosen.append(args) or False)
    kernels = all_of_them()
    monkeypatch.setattr(fft_rows, "library_is_faster", lambda *args: True)
    # Real rows that are cut in two are never asked about; even ones that are not long are one row of half the length.
    in_two = n % 2 and row_plans.planned_in_two(n, {"complex64": "c64", "complex128": "c128"}[kind])
    assert len(chosen) == (2 if in_two else 5)
    for ours, theirs in zip(kernels, all_of_them(), strict=True):
        assert ours.dtype is theirs.dtype
        assert error(ours, theirs.numpy()) <= 2 * BOUND * EPSILON[kind] * math.log2(2 * n)


def test_which_lengths_are_the_librarys() -> None:
    """Those it was faster at; never a length that one kernel's scratch memory holds."""
    faster = fft_rows.library_is_faster
    assert all(faster(n, 1, "c128", is_real) for n in (4199, 15000, 30030, 100000) for is_real in (False, True))
    assert faster(4199, 1, "c64", True) and faster(4199, 1, "c64", True, True) and faster(10007, 1, "c64", True, True)
    assert not faster(4199, 1, "c64") and not faster(15000, 1, "c64", True) and not faster(1 << 20, 1, "c128")
    assert not any(faster(n, 1, "c128", True) for n in (2, 1000, 1331, 2048))
    assert faster(15000, 100, "c128") == faster(10007, 100, "c128", True) == (vector_bits() > 128)   # few lanes


@pytest.mark.share(2)
@pytest.mark.parametrize("n", [32, 64, 128, 512, 2048, 4096, 4200, 10000])
@pytest.mark.parametrize("kind", ["complex64", "complex128"])
def test_rows_alone_and_together(n: int, kind: str) -> None:
    """Rows of a power of two have kernels of their own, many share one; long rows go in one kernel if they are many."""
    z, x = sample(21, n, kind)
    both, real = rl.from_numpy(z), rl.from_numpy(x)
    half = np.ascontiguousarray(z[:, : n // 2 + 1])
    bound = BOUND * EPSILON[kind] * math.log2(2 * n)
    for count in (1, 3, 5, 21):
        assert error(rl.fft.fft(both[:count]), np.fft.fft(z[:count])) <= bound
        assert error(rl.fft.ifft(both[:count]), np.fft.ifft(z[:count])) <= bound
        assert error(rl.fft.rfft(real[:count]), np.fft.rfft(x[:count])) <= bound
        assert error(rl.fft.fft(real[:count]), np.fft.fft(x[:count])) <= bound
        assert error(rl.fft.irfft(rl.from_numpy(half[:count]), n), np.fft.irfft(half[:count], n)) <= bound
    assert error(rl.fft.fft(both, dim=0), np.fft.fft(z, axis=0)) <= bound


def test_a_kernel_holds_only_the_stages_of_its_length() -> None:
    """The first transform of a program waits for its kernel: every stage written out costs a tenth of a second."""
    assert fourier_tables.forms(1000) == ((5, True), (8, False))
    assert fourier_tables.forms(17 * 19) == ((0, True),)
    for code in ("c64", "c128"):
        for module in (fourier, real_fourier):
            for kind in module.KINDS:
                text = codegen.emit_llvm(module.transform_nest(code, kind, fourier_tables.forms(1000)))
                assert text.count("\n") < 2500, (code, kind)


def test_lengths_are_factored_into_stages() -> None:
    for n in range(2, 3000):
        stages = fourier_tables.radices(n)
        largest = max(p for p in range(2, n + 1) if n % p == 0 and fourier_tables.smallest_factor(p) == p)
        assert bool(stages) == (largest <= fourier_tables.LARGEST_PRIME)
        assert not stages or math.prod(stages) == n
    assert all(fourier_tables.convolution_length(n) >= 2 * n - 1 for n in (2, 101, 1009, 10007))


def test_primes_behind_smooth_numbers_are_cyclic_convolutions() -> None:
    """Two transforms of p - 1 points; a chirp would take two of twice as many."""
    assert [p for p in (127, 131, 257, 263, 311, 1009, 1019, 1021) if fourier_tables.is_cyclic(p)] == [
        131, 257, 311, 1009, 1021
    ]
    assert not fourier_tables.is_cyclic(253) and not fourier_tables.is_cyclic(2 * 257)
    for p in (131, 257, 1009):
        order = fourier_tables.powers(p)
        assert sorted(order[:-1]) == list(range(1, p)) and order[-1] == 1
        stages = fourier_tables.stages_and_roots(p)[0]
        assert stages[fourier_tables.FIELDS * fourier_tables.stage_count(p) :] == order
    assert fourier_tables.smooth(257) and fourier_tables.smooth(1009) and not fourier_tables.smooth(1019)


@pytest.mark.parametrize("shape", [(3, 300), (7, 13, 143), (2, 40, 1), (1, 1013), (5, 6, 7, 8), (64, 250), (1, 1, 12)])
def test_several_dims_as_one_plan(shape: tuple[int, ...]) -> None:
    """All dims, and all but the last; each against NumPy, and on the way there no Python between kernels."""
    z, x = (a.reshape(shape) for a in sample(1, math.prod(shape), "complex64"))
    bound = len(shape) * BOUND * EPSILON["complex64"] * math.log2(2 * math.prod(shape))
    numbers, reals = rl.from_numpy(z), rl.from_numpy(x)
    n, dims = shape[-1], tuple(range(len(shape)))
    for norm in ("backward", "ortho", "forward"):
        assert error(rl.fft.fftn(numbers, norm=norm), np.fft.fftn(z, norm=norm)) <= bound
        assert error(rl.fft.ifftn(numbers, norm=norm), np.fft.ifftn(z, norm=norm)) <= bound
        assert error(rl.fft.rfftn(reals, norm=norm), np.fft.rfftn(x, norm=norm)) <= bound
    assert error(rl.fft.fftn(reals), np.fft.fftn(x)) <= bound
    assert error(rl.fft.fftn(numbers, dim=dims[:-1]), np.fft.fftn(z, axes=dims[:-1])) <= bound
    if n % 2 == 0:
        half = np.fft.rfftn(x).astype("complex64")
        assert error(rl.fft.irfftn(rl.from_numpy(half)), x) <= bound


def test_what_one_plan_computes() -> None:
    numbers, reals = rl.randn(1, 1000, dtype=rl.complex64), rl.randn(64, 250)

    def launches(x: Any, dims: tuple[int, ...], kind: str) -> int:
        schedule = fft_direct.direct_launch(x, dims, kind, [1.0] * len(dims))
        return 0 if schedule is None else len(schedule.launches)

    assert launches(numbers, (1,), "forward") == 2          # 25 and 40
    # Columns of real numbers, then rows of half of them; 1000 has no two factors that fill the widest registers:
    # pairs of its numbers are transformed by columns and rows, and parted.
    assert launches(rl.randn(1, 1000), (1,), "half") == (2 if row_plans.planned_in_two(1000, "c64") else 3)
    assert launches(rl.randn(1, 9999), (1,), "half") == 2
    assert launches(rl.randn(1, 99999), (1,), "half") == launches(rl.randn(3, 99999), (1,), "whole") == 2
    assert launches(rl.randn(1, 1019), (1,), "half") >= 5   # a chirp
    assert launches(reals, (0, 1), "half") == 2
    assert launches(reals.t(), (1,), "half") == launches(rl.randn(1, 100003), (1,), "half") == 0


@pytest.mark.parametrize("n", [8, 360, 1009, 65536])
def test_roots_are_as_exact_as_their_type(n: int) -> None:
    """Angles beyond an eighth of a turn are mirrored into it: cosines of large rounded angles are off by some ulps."""
    e = np.arange(-3, n + 3)
    angle = 2 * np.arctan(np.longdouble(1)) * 4 * e / n
    exact = np.cos(angle) - 1j * np.sin(angle)
    roots = np.array([fourier_tables.unit_root(int(k), n) for k in e])
    for found in (roots, fourier_tables.unit_roots(e, n)):
        assert np.abs((found - exact).real).max() < 1.2 * 2.0**-53
        assert np.abs((found - exact).imag).max() < 1.2 * 2.0**-53


def test_images_are_transformed_in_blocks_that_a_cache_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fft_direct, "second_cache", lambda: 1 << 17)
    random = np.random.default_rng(7)
    z = random.standard_normal((6, 40, 44)) + 1j * random.standard_normal((6, 40, 44))
    x = random.standard_normal((3, 2, 40, 50))
    assert fft_direct.images_at_once(6, 40 * 44, 2, "c128") == 2
    assert fft_direct.images_at_once(6, 40 * 44, 1, "c128") == 6    # one dim needs no second pass
    assert fft_direct.images_at_once(6, 1 << 20, 2, "c128") == 6    # no cache holds one
    plan = fft_direct.direct_launch(rl.from_numpy(z), (1, 2), "forward", (1.0, 1.0))
    assert len(plan.launches) == 6 and plan.temps[0].sizes[0] == 2
    limit = BOUND * EPSILON["complex128"] * math.log2(2 * 40 * 50)
    assert error(rl.fft.fft2(rl.from_numpy(z)), np.fft.fft2(z)) <= limit
    assert error(rl.fft.ifft2(rl.from_numpy(z)), np.fft.ifft2(z)) <= limit
    assert error(rl.fft.rfft2(rl.from_numpy(x)), np.fft.rfft2(x)) <= limit
    half = np.fft.rfft2(x)
    assert error(rl.fft.irfft2(rl.from_numpy(half), (40, 50)), np.fft.irfft2(half, (40, 50))) <= limit
