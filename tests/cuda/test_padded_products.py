"""Large products of odd sizes go through padded copies on a device with a product of its own, which is NumPy's here."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import rushlight as rl
from rushlight.devices import register
from tests.devices.reference_device import TAG, ReferenceDevice

F = rl.nn.functional


class Multiplying(ReferenceDevice):
    """A device with a kernel for products of bfloat16 that takes whole multiples of 8 only."""

    products = 0

    def product(self, code):
        return "product" if code == "bf16" else None

    def load(self, nest):
        return nest if isinstance(nest, str) else super().load(nest)

    def launch(self, handle, pointers, params, begin, end, index):
        if handle != "product":
            super().launch(handle, pointers, params, begin, end, index)
            return
        m, n, k, lda, turned_a, _, ldb, turned_b, _, ldc, _, count = params[:12]
        assert count == 1 and not any(number % 8 for number in (m, n, k, lda, ldb, ldc))
        self.products += 1

        def memory(pointer, lines, line):
            words = (ctypes.c_uint16 * (lines * line)).from_address(pointer & ~TAG)
            return np.ctypeslib.as_array(words).reshape(-1, line)

        def matrix(pointer, high, wide, line, turned):
            found = memory(pointer, wide if turned else high, line)
            found = (found.astype(np.uint32) << 16).view(np.float32)
            return found[:wide, :high].T if turned else found[:high, :wide]

        made = matrix(pointers[0], m, k, lda, turned_a) @ matrix(pointers[1], k, n, ldb, turned_b)
        memory(pointers[2], m, ldc)[:, :n] = (made.view(np.uint32) + 0x8000 >> 16).astype(np.uint16)


DEVICE = Multiplying("padform")
DEVICE.scheduler = "gpu"
register(DEVICE)


@pytest.mark.parametrize(("rows", "inside", "outside"), [(520, 600, 1001), (513, 600, 520), (520, 515, 600)])
def test_linear_and_its_gradients(rows, inside, outside):
    rl.manual_seed(0)
    x, w, g = (rl.randn(shape).bfloat16() for shape in ((rows, inside), (outside, inside), (rows, outside)))
    results = []
    DEVICE.products = 0
    for device in ("padform", "cpu"):
        a, b = (t.to(device).requires_grad_() for t in (x, w))
        y = F.linear(a, b)
        y.backward(g.to(device))
        results.append([t.cpu().float() for t in (y.detach(), a.grad, b.grad)])
    assert DEVICE.products == 3
    for got, expected in zip(*results, strict=True):
        assert (got - expected).norm() / expected.norm() < 6e-3
