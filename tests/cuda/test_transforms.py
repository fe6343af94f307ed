"""Fourier transforms by a device's library: which steps they are, and on a card that they are the CPU's."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.devices import register
from rushlight.planners.fourier.library import library_launches
from tests.devices.reference_device import ReferenceDevice

DEVICE = ReferenceDevice("fourierform")
DEVICE.transform = lambda what, code, sizes, batch, unit: ((what, code, *sizes, batch), (7, 9), 64)
register(DEVICE)
on_card = pytest.mark.skipif(not rl.cuda.is_available(), reason="needs a CUDA device")
CASES = {
    "fft": lambda x: rl.fft.fft(x), "ifft": lambda x: rl.fft.ifft(x), "fft of ten": lambda x: rl.fft.fft(x, 10),
    "rows": lambda x: rl.fft.fft(x, dim=0), "fft2": lambda x: rl.fft.fft2(x), "fftn": lambda x: rl.fft.fftn(x),
    "ortho": lambda x: rl.fft.ifft2(x, norm="ortho"), "rfft": lambda x: rl.fft.rfft(x.real),
    "rfft2": lambda x: rl.fft.rfft2(x.real, norm="forward"), "real": lambda x: rl.fft.fft2(x.real.contiguous()),
    "irfft": lambda x: rl.fft.irfft(x), "odd": lambda x: rl.fft.irfft(x, 2 * x.shape[-1] - 1),
    "irfft2": lambda x: rl.fft.irfft2(x), "conj": lambda x: rl.fft.fft(x.conj()), "hfft": lambda x: rl.fft.hfft(x),
    "transposed": lambda x: rl.fft.fft(x.mT), "axes": lambda x: rl.fft.fft2(x, dim=(-1, -2)),
}


def steps(x, *args):
    found = library_launches(x, *args)
    return None if found is None else [(one.key[0], one.nest(), one.operands, one.params) for one in found.launches]


def test_steps_copy_what_may_be_written_over_and_scale_where_that_is_asked():
    z = rl.zeros(3, 4, 6, dtype=rl.complex64, device="fourierform")
    assert steps(z, (2,), "c2c", 1.0, True) == [("library fft", ("c2c", "f32", 6, 12), (0, 1, 2), (7, 9, -1))]
    assert steps(z, (2, 1), "c2c", 1.0, False) == [("library fft", ("c2c", "f32", 4, 6, 3), (0, 1, 2), (7, 9, 1))]
    copy, back, scale = library_launches(z, (1, 2), "c2r", 0.5, False, 11).launches
    assert copy.operands == (0, 3) and back.operands == (3, 1, 2) and back.nest() == ("c2r", "f32", 4, 11, 3)
    assert scale.operands == (1,) and scale.extent == 3 * 4 * 11
    half = library_launches(z.real.contiguous(), (2,), "r2c", 0.5, True).launches
    assert half[0].operands == (0, 1, 2) and half[1].extent == 3 * 4 * 4 * 2
    for refused in ((z.mT, (2,), "c2c"), (z, (0,), "c2c"), (z, (), "c2c")):
        assert library_launches(*refused, 1.0, True) is None
    assert library_launches(z, (2,), "c2r", 1.0, False, 8) is None      # a spectrum of other points


@on_card
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [rl.complex64, rl.complex128])
def test_transforms_are_the_cpus(name, dtype):
    rl.manual_seed(0)
    for shape in ((5, 12), (2, 3, 16, 9), (7, 2)):
        x = rl.randn(shape, dtype=dtype)
        want, given = CASES[name](x), x.cuda()
        got, again = CASES[name](given), CASES[name](given)
        assert got.dtype == want.dtype and rl.allclose(got.cpu(), want, rtol=1e-4, atol=1e-4)
        assert (got == again).all() and (given.cpu() == x).all()      # what is given stays as it is
