"""Batches of small matrices by one launch: on the card against the CPU, and how ops hand them over, without one."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import rushlight as rl
from rushlight.devices import register
from rushlight.devices.cuda import small_qr
from tests.devices.reference_device import ReferenceDevice

from .on_host import HostKernel

linalg = rl.linalg


class Small(ReferenceDevice):
    """Does what the launches do, with the host's own decompositions."""

    done: list = []

    def implementation(self, op):
        return self.factored if op == "_small_factors" else None

    def factored(self, what, count, numbers, tensors, strided):
        self.done.append(what)
        host = [t.cpu() for t in tensors]
        if what == "lu":
            _, _, _, solves, turned = numbers
            lu, pivots, info = linalg.lu_factor_ex(host[0])
            results = {2: lu, 3: pivots, 4: info, 6: linalg.det(host[0])}
            if solves:
                sides = rl.eye(numbers[0], dtype=lu.dtype).expand_as(host[0]) if solves == 2 else host[1]
                results[5] = linalg.solve_ex(host[0].mT if turned else host[0], sides)[0]
        elif what == "qr":
            rows, _, size, forms = numbers
            q, r = linalg.qr(host[0], mode="complete" if size == rows else "reduced")
            results = {2: r, **({1: q} if forms else {})}
        elif what == "cholesky":
            factor, info = linalg.cholesky_ex(host[0], upper=bool(numbers[1]))
            results = {1: factor, 2: info}
        else:
            _, _, upper, unit = numbers
            results = {2: linalg.solve_triangular(*host[:2], upper=bool(upper), unitriangular=bool(unit))}
        for k, value in results.items():
            tensors[k].copy_(value.reshape(tensors[k].shape))
        return True


DEVICE = Small("small")
register(DEVICE)
PLACES = ["small", *(["cuda"] if rl.cuda.is_available() else [])]


def matrices(n, *batch, dtype=rl.float64):
    rl.manual_seed(n)
    a = rl.randn(*batch, n, n, dtype=dtype)
    return a, a @ a.mT + n * rl.eye(n, dtype=dtype)


def same(ours, wanted, rough=1e-8):
    ours, wanted = (x if isinstance(x, tuple) else (x,) for x in (ours, wanted))
    for one, other in zip(ours, wanted, strict=True):
        assert one.shape == other.shape and one.dtype is other.dtype and one.stride() == other.stride()
        assert rl.allclose(one.cpu().double(), other.double(), rtol=rough, atol=rough)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("dtype", [rl.float32, rl.float64])
@pytest.mark.parametrize("n, batch", [(1, (3,)), (4, (2, 5)), (16, (7,)), (31, (3,)), (32, (2, 2)), (5, ())])
def test_results_are_the_cpus(place, dtype, n, batch):
    pytest.importorskip("scipy_openblas64")      # the CPU's own
    a, positive = matrices(n, *batch, dtype=dtype)
    b = rl.randn(*batch, n, 3, dtype=dtype)
    wide = rl.randn(*batch, 40, n, dtype=dtype)
    rough = 2e-2 if dtype is rl.float32 else 1e-7
    DEVICE.done.clear()
    for given in (a, a.mT, positive):
        there = given.contiguous().to(place) if given is not a.mT else a.to(place).mT
        same(tuple(linalg.lu_factor_ex(there)), tuple(linalg.lu_factor_ex(given)), rough)
        same(linalg.det(there), linalg.det(given), rough)
        same(linalg.inv(there), linalg.inv(given), rough)
        same(linalg.solve(there, b.to(place)), linalg.solve(given, b), rough)
        same(linalg.solve(there, wide.to(place), left=False), linalg.solve(given, wide, left=False), rough)
    for upper in (False, True):
        same(linalg.cholesky(positive.to(place), upper=upper), linalg.cholesky(positive, upper=upper), rough)
        for unit in (False, True):
            given = positive / n if unit else positive
            how = {"upper": upper, "unitriangular": unit}
            same(linalg.solve_triangular(given.to(place), b.to(place), **how),
                 linalg.solve_triangular(given, b, **how), rough * 10)
            same(linalg.solve_triangular(given.to(place), wide.to(place), left=False, **how),
                 linalg.solve_triangular(given, wide, left=False, **how), rough * 10)
    assert place != "small" or {*DEVICE.done} == {"lu", "cholesky", "triangular"}


@pytest.mark.parametrize("place", PLACES)
def test_what_has_no_answer_raises_as_it_does_elsewhere(place):
    a = rl.eye(4).repeat(3, 1, 1)
    a[1, 2, 2] = 0
    there = a.to(place)
    for call in (linalg.inv, linalg.cholesky, lambda t: linalg.solve(t, t)):
        with pytest.raises(linalg.LinAlgError, match="Batch element 1"):
            call(there)
    assert linalg.inv_ex(there)[1].tolist() == [0, 3, 0] == linalg.cholesky_ex(there)[1].tolist()
    assert linalg.lu_factor_ex(there)[2].tolist() == [0, 3, 0]


@pytest.mark.parametrize("place", PLACES)
def test_gradients(place):
    _, positive = matrices(6, 3)
    for f in (linalg.inv, linalg.cholesky, linalg.det, lambda t: linalg.solve(t, t.mT + 1)):
        grads = []
        for device in ("cpu", place):
            given = positive.detach().to(device).requires_grad_()
            f(given).sin().sum().backward()
            grads.append(given.grad.cpu())
        assert rl.allclose(*grads, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("dtype", [rl.float32, rl.float64])
@pytest.mark.parametrize("m, n, batch", [(16, 16, (7,)), (1, 5, (2,)), (40, 33, (2, 2)), (33, 60, (3,)), (128, 100, ()),
                                         (128, 128, (3,))])
def test_qr_is_lapacks(place, dtype, m, n, batch):
    """Signs and all; results lie by columns."""
    if place == "small":
        pytest.importorskip("scipy_openblas64")      # the device is the CPU's own then
    rl.manual_seed(n)
    a = rl.randn(*batch, m, n, dtype=dtype)
    if min(m, n) > 2:
        a[..., 2] = 0
    DEVICE.done.clear()
    for given, there in ((a, a.to(place)), (a.mT, a.to(place).mT)):
        for mode in ("reduced", "complete", "r"):
            found = linalg.qr(there, mode=mode)
            wanted = np.linalg.qr(given.double().numpy(), mode)
            pairs = zip(found[1:] if mode == "r" else found, [wanted] if mode == "r" else wanted, strict=True)
            for one, other in pairs:
                assert one.dtype is dtype and (one.stride(-2) == 1 or one.shape[-2] == 1)
                rough = 1e-3 if dtype is rl.float32 else 1e-10
                assert np.allclose(one.cpu().double().numpy(), other, rtol=rough, atol=rough), mode
    assert place != "small" or DEVICE.done == ["qr"] * 6


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("m, n, complete", [(5, 3, True), (32, 32, False), (7, 20, False), (1, 4, False)])
def test_the_kernel_of_qr(m, n, complete, tmp_path):
    """Its text, compiled for the host: LAPACK's signs, columns of zeros, and NaN that is not lost."""
    kernel = HostKernel(tmp_path, "small_qr", small_qr.source("f64", 32), "T", 4, 13)
    a = np.random.default_rng(m).standard_normal((3, m, n))
    a[1, :, 1], a[1, :, 0] = 0, a[1, :, 0] * 1e-200
    a[2, -1, 0] = np.nan
    size = m if complete else min(m, n)
    q, r, kept = np.full((3, size, m), 9.0), np.full((3, n, size), 9.0), np.zeros((3, n, m))
    kernel([a, q, r, kept], [m, n, size, 1, m * n, n, 1, m * size, 1, m, size * n, 1, size], 64, 3)
    q, r = q.transpose(0, 2, 1), r.transpose(0, 2, 1)
    for k in range(2):
        want = np.linalg.qr(a[k], "complete" if complete else "reduced")
        assert np.allclose(q[k], want[0], atol=1e-12) and np.allclose(r[k], want[1], atol=1e-12)
    assert np.isnan(r[2, 0, 0])
