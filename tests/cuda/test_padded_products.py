"""Large products of odd sizes go through padded copies on a device with a product of its own, which is NumPy's here."""

from __future__ import annotations

import ctypes
from typing import ClassVar

import numpy as np
import pytest

import rushlight as rl
from rushlight.devices import register
from tests.devices.reference_device import TAG, ReferenceDevice

F = rl.nn.functional


class Multiplying(ReferenceDevice):
    """A device with a kernel for products of bfloat16 that takes whole multiples of 8 only."""

    products = 0
    copies: ClassVar[list] = []           # kernels that copy lines
    copied: ClassVar[list[int]] = []      # how many each of them was given

    def product(self, code):
        return "product" if code == "bf16" else None

    def load(self, nest):
        if isinstance(nest, str):
            return nest
        made = super().load(nest)
        self.copies += [made] * (nest.name == "copy")
        return made

    def launch(self, handle, pointers, params, begin, end, index):
        if handle != "product":
            if any(handle is one for one in self.copies):
                self.copied.append(end - begin)
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


class Scores(rl.nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.head = rl.nn.Linear(*weight.shape[::-1], bias=False)
        self.head.weight = rl.nn.Parameter(weight.clone())

    def forward(self, x, target):
        return F.cross_entropy(self.head(x).view(-1, self.head.out_features), target)


def test_compiled_scores_have_room_behind_their_rows():
    """Scores and their gradient are written once, where the products read them: no copies of them."""
    rl.manual_seed(0)
    batch, steps, inside, outside = 4, 130, 520, 521
    x, w = rl.randn(batch, steps, inside).bfloat16(), (rl.randn(outside, inside) * 0.05).bfloat16()
    target = rl.arange(batch * steps) * 7 % outside
    results = []
    for device in ("cpu", "padform"):
        model = Scores(w).to(device)
        own = x.detach().to(device).requires_grad_()
        DEVICE.products, DEVICE.copied = 0, []
        loss = (rl.compile(model) if device == "padform" else model)(own, target.to(device))
        loss.backward()
        results.append([t.detach().cpu().float() for t in (loss, own.grad, model.head.weight.grad)])
    assert DEVICE.products == 3
    assert DEVICE.copied and batch * steps not in DEVICE.copied     # the weight was, and its gradient
    for ours, wanted in zip(results[1], results[0], strict=True):
        assert (ours - wanted).norm() <= 1e-2 * wanted.norm()
