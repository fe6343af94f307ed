"""Linear algebra by cuSOLVER and Fourier transforms by cuFFT, against the host's results; without a card, programs of
LAPACK calls on a device whose routines are the host's."""

from __future__ import annotations

import itertools
import warnings

import pytest

import rushlight as rl
from rushlight import _C
from rushlight.devices import register, registered
from rushlight.op import lapack
from tests.devices.reference_device import ReferenceDevice

L = rl.linalg
HAS_CARD = rl.cuda.is_available()
DTYPES = ("float32", "float64", "complex64", "complex128") if HAS_CARD else ("float32", "complex128")
SHAPES = ((5, 5), (2, 2, 20, 20), (0, 3, 3), (40, 40), (3, 4, 4), (300, 300))[: 6 if HAS_CARD else 3]


def hosts_routine(program, name, code, args):
    """LAPACK's routine over copies of the device's tensors; some are missing, as with cuSOLVER."""
    if name in ("getri", "geev", "sytrf", "hetrf"):
        return False
    copies = [t.cpu() for t in program.tensors]
    plan = lapack.Program(_C.device("cpu"), len(copies), program.batch)
    plan.call(name, code, *args)
    slots = [("arg", copies[-1].dtype, (), None, len(copies) - 1, 0)]
    _C.Plan(len(copies), _C.device("cpu"), slots, plan.steps, True, None, None)(*copies)
    for there, here in zip(program.tensors[program.inputs :], copies[program.inputs :], strict=True):
        there.copy_(here)
    return True


class Solving(ReferenceDevice):
    def implementation(self, op):
        return hosts_routine if op == "lapack" else None


@pytest.fixture(scope="module")
def device():
    if HAS_CARD:
        return "cuda"
    if "solving" not in registered():
        register(Solving("solving"))
    return "solving"


def weighed(vectors, values):
    """What eigenvectors and -values are made of: no sign is free in it."""
    return (vectors * values.unsqueeze(-2)) @ vectors.mH


def products(U, S, Vh):
    return (U[..., : S.shape[-1]] * S.unsqueeze(-2)) @ Vh[..., : S.shape[-1], :], S


def from_qr(Q, R):
    return Q @ R, Q.mH @ Q


# of a square matrix, a positive-definite one, three columns and a tall matrix
CALLS = {
    "inv": lambda a, p, b, t: L.inv(a), "inv_ex": lambda a, p, b, t: L.inv_ex(a),
    "cholesky": lambda a, p, b, t: L.cholesky(p), "cholesky_ex": lambda a, p, b, t: L.cholesky_ex(p, upper=True),
    "cholesky_inverse": lambda a, p, b, t: rl.cholesky_inverse(L.cholesky(p)),
    "cholesky_solve": lambda a, p, b, t: rl.cholesky_solve(b, L.cholesky(p)),
    "solve": lambda a, p, b, t: L.solve(a, b), "solve right": lambda a, p, b, t: L.solve(a, b.mT, left=False),
    "solve_triangular": lambda a, p, b, t: L.solve_triangular(p, b, upper=True),
    "triangular of rows": lambda a, p, b, t: L.solve_triangular(p.mT / 9e4, b, upper=False, unitriangular=True),
    "lu": lambda a, p, b, t: L.lu(a), "lu tall": lambda a, p, b, t: L.lu(t),
    "lu_factor_ex": lambda a, p, b, t: L.lu_factor_ex(a), "lu_solve": lambda a, p, b, t: L.lu_solve(*L.lu_factor(a), b),
    "lu_solve adjoint": lambda a, p, b, t: L.lu_solve(*L.lu_factor(a), b, adjoint=True),
    "det": lambda a, p, b, t: L.det(a / a.shape[-1]), "slogdet": lambda a, p, b, t: L.slogdet(a),
    "qr": lambda a, p, b, t: from_qr(*L.qr(t)), "qr flat": lambda a, p, b, t: from_qr(*L.qr(t.mT)),
    "qr complete": lambda a, p, b, t: from_qr(*L.qr(t, mode="complete")),
    "qr r": lambda a, p, b, t: L.qr(t, mode="r")[1].abs(),
    "householder_product": lambda a, p, b, t: L.householder_product(*rl.geqrf(t)).abs(),
    "ormqr": lambda a, p, b, t: rl.ormqr(*rl.geqrf(t), t, transpose=True).abs(),
    "eigvalsh": lambda a, p, b, t: L.eigvalsh(p), "eigh": lambda a, p, b, t: weighed(*L.eigh(p, UPLO="U")[::-1]),
    "svdvals": lambda a, p, b, t: L.svdvals(t), "svd": lambda a, p, b, t: products(*L.svd(t)),
    "svd flat": lambda a, p, b, t: products(*L.svd(t.mT, full_matrices=False)),
    "svd reduced": lambda a, p, b, t: products(*L.svd(t, full_matrices=False)),
    "pinv": lambda a, p, b, t: L.pinv(t), "matrix_rank": lambda a, p, b, t: L.matrix_rank(t),
    "lstsq": lambda a, p, b, t: L.lstsq(t, t @ b, driver="gels").solution,
    "lstsq flat": lambda a, p, b, t: L.lstsq(t.mT, b, driver="gels").solution,
}  # fmt: skip


def operands(dtype, shape):
    rl.manual_seed(3)
    a = rl.randn(shape, dtype=getattr(rl, dtype))
    n = shape[-1]
    positive = a @ a.mH + n * rl.eye(n, dtype=a.dtype)
    return a, positive, rl.randn(*shape[:-1], 3, dtype=a.dtype), rl.randn(*shape[:-2], n + 3, n, dtype=a.dtype)


def listed(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_as_on_the_host(name, shape, device):
    for dtype in DTYPES:
        given = operands(dtype, shape)
        want = listed(CALLS[name](*given))
        with warnings.catch_warnings():
            warnings.simplefilter("error")      # nothing is computed on the host
            got = listed(CALLS[name](*[t.to(device) for t in given]))
        near = 2e-3 if dtype in ("float32", "complex64") else 1e-9
        for one, other in zip(want, got, strict=True):
            assert str(other.device).startswith(device) and other.dtype is one.dtype
            rl.testing.assert_close(other.cpu(), one, rtol=near, atol=near)


def test_gradients(device):
    for dtype in ("float64", "complex128"):
        given = operands(dtype, (2, 20, 20))
        for name in ("inv", "cholesky", "solve", "slogdet", "eigvalsh", "svdvals", "qr", "lstsq"):
            grads = []
            for place in ("cpu", device):
                moved = [t.detach().to(place).requires_grad_() for t in given]
                sum(t.abs().sum() for t in listed(CALLS[name](*moved))).backward()
                grads.append([None if t.grad is None else t.grad.cpu() for t in moved])
            for one, other in zip(*grads, strict=True):
                assert (one is None) == (other is None)
                if one is not None:
                    rl.testing.assert_close(other, one, rtol=1e-6, atol=1e-6)


def test_failures_are_raised_at_once(device):
    for n in (4, 40):
        with pytest.raises(L.LinAlgError, match="positive-definite"):
            L.cholesky(-rl.eye(n).to(device))
        with pytest.raises(L.LinAlgError, match=r"Batch element 1\).*singular"):
            L.solve(rl.stack([rl.eye(n), rl.zeros(n, n)]).to(device), rl.ones(2, n, 1).to(device))
        assert L.cholesky_ex(-rl.eye(n).to(device)).info.item() == 1
        assert L.inv_ex(rl.zeros(n, n).to(device)).info.item() == 1


def test_what_the_routines_lack_is_computed_on_the_host_and_said(device):
    a = rl.randn(6, 6, dtype=rl.float64)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = L.eigvals(a.to(device))
    assert len(told) <= 1        # said once in a process
    rl.testing.assert_close(found.cpu().abs().sort()[0], L.eigvals(a).abs().sort()[0])


def test_drivers_of_cuda():
    if not HAS_CARD:
        pytest.skip("needs a CUDA device")
    a = rl.randn(7, 5, device="cuda")
    assert L.lstsq(a, a).rank.numel() == 0         # gels, unless another is asked for
    with pytest.raises(RuntimeError, match="gels"):
        L.lstsq(a, a, driver="gelsd")
    rl.testing.assert_close(L.svd(a, driver="gesvd").S.cpu(), L.svdvals(a.cpu()), rtol=1e-4, atol=1e-4)
    with pytest.raises(RuntimeError, match="gesvdj"):
        L.svd(a, driver="gesvdj")


# --- Fourier transforms -----------------------------------------------------------------------------------------------

FFT = {
    "fft": lambda x: rl.fft.fft(x), "ifft first": lambda x: rl.fft.ifft(x, dim=0, norm="ortho"),
    "fft2": lambda x: rl.fft.fft2(x, norm="forward"), "fftn": lambda x: rl.fft.fftn(x),
    "fftn of two": lambda x: rl.fft.fftn(x, dim=(2, 0)), "ifftn": lambda x: rl.fft.ifftn(x),
    "padded": lambda x: rl.fft.fft(x, n=31, dim=1), "cut": lambda x: rl.fft.fftn(x, s=(2, 3), dim=(0, 2)),
    "hfft": lambda x: rl.fft.hfft(x), "irfft": lambda x: rl.fft.irfft(x), "irfft odd": lambda x: rl.fft.irfft(x, n=7),
    "irfftn": lambda x: rl.fft.irfftn(x), "irfft2 turned": lambda x: rl.fft.irfft2(x.transpose(0, 1)),
    "conjugate": lambda x: rl.fft.fft(x.conj()),
}  # fmt: skip
REAL = {
    "rfft": lambda x: rl.fft.rfft(x), "rfft first": lambda x: rl.fft.rfft(x, dim=0, norm="ortho"),
    "rfftn": lambda x: rl.fft.rfftn(x), "fft of reals": lambda x: rl.fft.fft(x), "ihfft": lambda x: rl.fft.ihfft(x),
    "fft2 of reals": lambda x: rl.fft.fft2(x), "rfft2 turned": lambda x: rl.fft.rfft2(x.transpose(1, 2)),
    "stft": lambda x: rl.stft(x.flatten(), 16, window=rl.ones(16, dtype=x.dtype, device=x.device),
                              return_complex=True),
}  # fmt: skip


@pytest.mark.skipif(not HAS_CARD, reason="needs a CUDA device")
@pytest.mark.parametrize(("name", "double"), list(itertools.product([*FFT, *REAL], (False, True))))
def test_transform(name, double):
    rl.manual_seed(4)
    for shape in ((4, 5, 6), (3, 2, 4, 3, 2), (7, 16, 30)):
        dtype = (rl.float64 if double else rl.float32) if name in REAL else rl.complex128 if double else rl.complex64
        x, call = rl.randn(shape, dtype=dtype), {**FFT, **REAL}[name]
        want = call(x)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            got = call(x.cuda())
        assert got.is_cuda and got.dtype is want.dtype
        rl.testing.assert_close(got.cpu(), want, rtol=1e-9 if double else 2e-4, atol=1e-9 if double else 2e-3)
    grads = []
    for place in ("cpu", "cuda"):
        moved = x.detach().to(place).requires_grad_()
        call(moved).abs().square().sum().backward()
        grads.append(moved.grad.cpu())
    rl.testing.assert_close(grads[1], grads[0], rtol=1e-8 if double else 2e-3, atol=1e-6 if double else 2e-1)
