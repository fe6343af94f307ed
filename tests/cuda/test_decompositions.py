"""Linear algebra by cuSOLVER and Fourier transforms by cuFFT, against PyTorch's on the host; without a card, programs
of LAPACK calls on a device whose routines are the host's."""

from __future__ import annotations

import itertools
import warnings

import pytest

import rushlight as rl
from rushlight import _C
from rushlight.devices import register, registered
from rushlight.planners.factors import lapack
from tests.devices.reference_device import ReferenceDevice

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.share(2)   # of each test that has several cases

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
    def routines(self):
        return hosts_routine


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


def joined(P, L, U):
    """Of complex numbers of about one size, libraries choose different ones first."""
    return P @ L @ U


def from_qr(Q, R):
    return Q @ R, Q.mH @ Q


class Linear:
    """linalg of a library, and the library."""

    def __init__(self, root):
        self.root = root

    def __getattr__(self, name):
        return getattr(self.root.linalg, name)


OURS, THEIRS = Linear(rl), Linear(torch)


def theirs(t):
    return torch.from_numpy(t.detach().cpu().numpy().copy())


def close(got, want, near):
    torch.testing.assert_close(theirs(got), want.detach().resolve_conj(), rtol=near, atol=near)


# of a square matrix, a positive-definite one, three columns and a tall matrix
CALLS = {
    "inv": lambda L, a, p, b, t: L.inv(a), "inv_ex": lambda L, a, p, b, t: L.inv_ex(a),
    "cholesky": lambda L, a, p, b, t: L.cholesky(p), "cholesky_ex": lambda L, a, p, b, t: L.cholesky_ex(p, upper=True),
    "cholesky_inverse": lambda L, a, p, b, t: L.root.cholesky_inverse(L.cholesky(p)),
    "cholesky_solve": lambda L, a, p, b, t: L.root.cholesky_solve(b, L.cholesky(p)),
    "solve": lambda L, a, p, b, t: L.solve(a, b), "solve right": lambda L, a, p, b, t: L.solve(a, b.mT, left=False),
    "solve_triangular": lambda L, a, p, b, t: L.solve_triangular(p, b, upper=True),
    "triangular of rows": lambda L, a, p, b, t: L.solve_triangular(p.mT / 9e4, b, upper=False, unitriangular=True),
    "lu": lambda L, a, p, b, t: joined(*L.lu(a)), "lu tall": lambda L, a, p, b, t: joined(*L.lu(t)),
    "lu_factor_ex": lambda L, a, p, b, t: joined(*L.root.lu_unpack(*L.lu_factor_ex(a)[:2])),
    "lu_solve": lambda L, a, p, b, t: L.lu_solve(*L.lu_factor(a), b),
    "lu_solve adjoint": lambda L, a, p, b, t: L.lu_solve(*L.lu_factor(a), b, adjoint=True),
    "det": lambda L, a, p, b, t: L.det(a / a.shape[-1]), "slogdet": lambda L, a, p, b, t: L.slogdet(a),
    "qr": lambda L, a, p, b, t: from_qr(*L.qr(t)), "qr flat": lambda L, a, p, b, t: from_qr(*L.qr(t.mT)),
    "qr complete": lambda L, a, p, b, t: from_qr(*L.qr(t, mode="complete")),
    "qr r": lambda L, a, p, b, t: L.qr(t, mode="r")[1].abs(),
    "householder_product": lambda L, a, p, b, t: L.householder_product(*L.root.geqrf(t)).abs(),
    "ormqr": lambda L, a, p, b, t: L.root.ormqr(*L.root.geqrf(t), t, transpose=True).abs(),
    "eigvalsh": lambda L, a, p, b, t: L.eigvalsh(p), "eigh": lambda L, a, p, b, t: weighed(*L.eigh(p, UPLO="U")[::-1]),
    "svdvals": lambda L, a, p, b, t: L.svdvals(t), "svd": lambda L, a, p, b, t: products(*L.svd(t)),
    "svd flat": lambda L, a, p, b, t: products(*L.svd(t.mT, full_matrices=False)),
    "svd reduced": lambda L, a, p, b, t: products(*L.svd(t, full_matrices=False)),
    "pinv": lambda L, a, p, b, t: L.pinv(t), "matrix_rank": lambda L, a, p, b, t: L.matrix_rank(t),
    "lstsq": lambda L, a, p, b, t: L.lstsq(t, t @ b, driver="gels").solution,
    "lstsq flat": lambda L, a, p, b, t: L.lstsq(t.mT, b, driver="gels").solution,
}


def operands(dtype, shape):
    torch.manual_seed(3)
    a = torch.randn(shape, dtype=getattr(torch, dtype))
    n = shape[-1]
    positive = a @ a.mH + n * torch.eye(n, dtype=a.dtype)
    others = torch.randn(*shape[:-1], 3, dtype=a.dtype), torch.randn(*shape[:-2], n + 3, n, dtype=a.dtype)
    return [rl.from_numpy(t.numpy()) for t in (a, positive, *others)]


def listed(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_as_on_the_host(name, shape, device):
    for dtype in DTYPES:
        given = operands(dtype, shape)
        want = listed(CALLS[name](THEIRS, *[theirs(t) for t in given]))
        with warnings.catch_warnings():
            warnings.simplefilter("error")      # nothing is computed on the host
            got = listed(CALLS[name](OURS, *[t.to(device) for t in given]))
        near = 2e-3 if dtype in ("float32", "complex64") else 1e-9
        for one, other in zip(want, got, strict=True):
            assert str(other.device).startswith(device)
            close(other, one, near)


def test_gradients(device):
    for dtype in ("float64", "complex128"):
        given = operands(dtype, (2, 20, 20))
        for name in ("inv", "cholesky", "solve", "slogdet", "eigvalsh", "svdvals", "qr", "lstsq"):
            grads = []
            for linear, move in ((THEIRS, theirs), (OURS, lambda t: t.detach().to(device))):
                moved = [move(t).requires_grad_() for t in given]
                sum(t.abs().sum() for t in listed(CALLS[name](linear, *moved))).backward()
                grads.append([t.grad for t in moved])
            for one, other in zip(*grads, strict=True):
                assert (one is None) == (other is None)
                if one is not None:
                    close(other, one, 1e-6)


def test_failures_are_raised_at_once(device):
    for n in (4, 40):
        with pytest.raises(rl.linalg.LinAlgError, match="positive-definite"):
            rl.linalg.cholesky(-rl.eye(n).to(device))
        with pytest.raises(rl.linalg.LinAlgError, match=r"Batch element 1\).*singular"):
            rl.linalg.solve(rl.stack([rl.eye(n), rl.zeros(n, n)]).to(device), rl.ones(2, n, 1).to(device))
        assert rl.linalg.cholesky_ex(-rl.eye(n).to(device)).info.item() == 1
        assert rl.linalg.inv_ex(rl.zeros(n, n).to(device)).info.item() == 1


def test_what_the_routines_lack_is_computed_on_the_host_and_said(device):
    a = rl.randn(6, 6, dtype=rl.float64)
    try:
        rl.linalg.eigvals(a)
    except RuntimeError:
        pytest.skip("the host has no LAPACK")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = rl.linalg.eigvals(a.to(device))
    assert len(told) <= 1        # said once in a process
    close(found.abs().sort()[0], torch.linalg.eigvals(theirs(a)).abs().sort()[0], 1e-9)


def test_drivers_of_cuda():
    if not HAS_CARD:
        pytest.skip("needs a CUDA device")
    a = rl.randn(7, 5, device="cuda")
    assert rl.linalg.lstsq(a, a).rank.numel() == 0         # gels, unless another is asked for
    with pytest.raises(RuntimeError, match="gels"):
        rl.linalg.lstsq(a, a, driver="gelsd")
    for driver in ("gesvd", "gesvdj"):
        close(rl.linalg.svd(a, driver=driver).S, torch.linalg.svdvals(theirs(a)), 1e-4)
    with pytest.raises(RuntimeError, match="gesvda"):
        rl.linalg.svd(a, driver="gesvda")


# --- Fourier transforms -----------------------------------------------------------------------------------------------

FFT = {
    "fft": lambda t, x: t.fft.fft(x), "ifft first": lambda t, x: t.fft.ifft(x, dim=0, norm="ortho"),
    "fft2": lambda t, x: t.fft.fft2(x, norm="forward"), "fftn": lambda t, x: t.fft.fftn(x),
    "fftn of two": lambda t, x: t.fft.fftn(x, dim=(2, 0)), "ifftn": lambda t, x: t.fft.ifftn(x),
    "padded": lambda t, x: t.fft.fft(x, n=31, dim=1), "cut": lambda t, x: t.fft.fftn(x, s=(2, 3), dim=(0, 2)),
    "hfft": lambda t, x: t.fft.hfft(x), "irfft": lambda t, x: t.fft.irfft(x),
    "irfft odd": lambda t, x: t.fft.irfft(x, n=7),
    "irfftn": lambda t, x: t.fft.irfftn(x), "irfft2 turned": lambda t, x: t.fft.irfft2(x.transpose(0, 1)),
    "conjugate": lambda t, x: t.fft.fft(x.conj()),
}
REAL = {
    "rfft": lambda t, x: t.fft.rfft(x), "rfft first": lambda t, x: t.fft.rfft(x, dim=0, norm="ortho"),
    "rfftn": lambda t, x: t.fft.rfftn(x), "fft of reals": lambda t, x: t.fft.fft(x),
    "ihfft": lambda t, x: t.fft.ihfft(x),
    "fft2 of reals": lambda t, x: t.fft.fft2(x), "rfft2 turned": lambda t, x: t.fft.rfft2(x.transpose(1, 2)),
    "stft": lambda t, x: t.stft(x.flatten(), 16, window=t.ones(16, dtype=x.dtype, device=x.device),
                              return_complex=True),
}


@pytest.mark.skipif(not HAS_CARD, reason="needs a CUDA device")
@pytest.mark.parametrize(("name", "double"), list(itertools.product([*FFT, *REAL], (False, True))))
def test_transform(name, double):
    rl.manual_seed(4)
    for shape in ((4, 5, 6), (3, 2, 4, 3, 2), (7, 16, 30)):
        dtype = (rl.float64 if double else rl.float32) if name in REAL else rl.complex128 if double else rl.complex64
        x, call = rl.randn(shape, dtype=dtype), {**FFT, **REAL}[name]
        want = call(torch, theirs(x))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            got = call(rl, x.cuda())
        assert got.is_cuda
        close(got, want, 1e-9 if double else 2e-3)
    grads = []
    for library, moved in ((torch, theirs(x)), (rl, x.cuda())):
        call(library, moved.requires_grad_()).abs().square().sum().backward()
        grads.append(moved.grad)
    close(grads[1], grads[0], 1e-6 if double else 2e-1)
