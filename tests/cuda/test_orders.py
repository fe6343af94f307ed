"""Sorts, selections, distinct elements, positions and scans: the nests run by a CPU, and on a card where there is one.
Nothing goes to the host."""

from __future__ import annotations

import warnings

import pytest

import rushlight as rl
from rushlight.devices import register
from tests.devices.reference_device import ReferenceDevice

from .orders import DTYPES, EXACT, NEAR, SHAPES, compare

pytestmark = pytest.mark.share(2)   # of each test that has several cases

DEVICE = ReferenceDevice("orderform")
DEVICE.scheduler = "gpu"
register(DEVICE)
on_card = pytest.mark.skipif(not rl.cuda.is_available(), reason="needs a CUDA device")
PLACES = ["orderform", pytest.param("cuda", marks=on_card)]


@pytest.mark.share(2)
@pytest.mark.parametrize("device", PLACES)
@pytest.mark.parametrize("name", [*EXACT, *NEAR])
def test_order(name, device):
    with warnings.catch_warnings():
        warnings.simplefilter("error")      # a fallback to the host warns
        for dtype in DTYPES if device == "cuda" else (rl.float32, rl.int64, rl.bool, rl.bfloat16):
            for shape in SHAPES if device == "cuda" else SHAPES[:-1:2]:
                compare(name, shape, dtype, device)


@pytest.mark.parametrize("device", PLACES)
@pytest.mark.parametrize("length", [255, 256, 4096, 4097, 100_000])
def test_long_rows_are_scanned_in_pieces(device, length):
    x = (rl.arange(length) * 7919 % 1013).to(rl.int64)
    assert (x.to(device).cumsum(0).cpu() == x.cumsum(0)).all()
    pair = x.reshape(1, -1, 1).expand(2, length, 3).contiguous()
    for found, want in zip(pair.to(device).cummax(1), pair.cummax(1), strict=True):
        assert (found.cpu() == want).all()
    complexes = rl.complex(x[:300].float(), -x[:300].float()) / 1013
    assert rl.allclose(complexes.to(device).cumprod(0).cpu(), complexes.cumprod(0), rtol=1e-4)


@pytest.mark.parametrize("device", PLACES)
@pytest.mark.parametrize("length", [65, 1024, 70_001])
def test_sorts_of_all_lengths_are_stable(device, length):
    x = (rl.arange(length) * 7919 % 101).to(rl.float32)
    values, places = x.to(device).sort()
    want = x.sort(stable=True)
    assert (values.cpu() == want[0]).all() and (places.cpu() == want[1]).all()
    values, places = x.to(device).sort(descending=True)
    want = x.sort(descending=True, stable=True)
    assert (values.cpu() == want[0]).all() and (places.cpu() == want[1]).all()


@pytest.mark.parametrize("device", PLACES)
@pytest.mark.parametrize("shape, k", [((70_001,), 50), ((3, 9000), 1), ((9000, 2), 1000), ((20_000,), 2500)])
def test_few_of_long_rows_are_those_a_sort_has_first(device, shape, k):
    """With elements that are equal: those that come first are taken."""
    dim = 0 if shape[0] >= k and shape[0] > 100 else 1
    count = shape[0] if len(shape) == 1 else shape[0] * shape[1]
    for dtype in (rl.float32, rl.int64, rl.uint8, rl.bfloat16):
        x = (rl.arange(count) * 7919 % 4001 % 251).reshape(shape).to(dtype)
        for largest in (True, False):
            values, places = x.to(device).topk(k, dim, largest)
            want = x.sort(stable=True, dim=dim, descending=largest)
            assert (values.cpu() == want[0].narrow(dim, 0, k)).all()
            assert (places.cpu() == want[1].narrow(dim, 0, k)).all()


@pytest.mark.parametrize("device", PLACES)
def test_negative_repeats_are_refused(device):
    with pytest.raises(RuntimeError, match="negative"):
        rl.arange(3).to(device).repeat_interleave(rl.tensor([1, -1, 2]).to(device))
