"""torchvision with its own libraries: its ops against forms in Python, derivatives, images, training."""

from __future__ import annotations

import sys

if sys.argv[1]:
    sys.path.insert(0, sys.argv[1])

import warnings

from reporting import run_all

from rushlight import compat

compat.install()
import torch
import torchvision
from torch.autograd import gradcheck
from torchvision import io, ops

from rushlight import _stable
from rushlight.compat.neighbours import kept_boxes

ROIS = torch.tensor([[0, 1.0, 1.3, 6.2, 7.1], [1, 0.4, 2.0, 7.4, 6.6]], dtype=torch.float64)


def boxes(n: int) -> tuple:
    torch.manual_seed(0)
    corner = torch.rand(n, 2) * 50
    return torch.cat((corner, corner + 5 + torch.rand(n, 2) * 30), 1), torch.rand(n)


def check_nms():
    assert torchvision.extension._has_ops() and "nms" in dir(torch.ops.torchvision)
    for n in (0, 1, 100):
        given, scores = boxes(n)
        for threshold in (0.0, 0.3, 0.9):
            assert torch.equal(ops.nms(given, scores, threshold), kept_boxes(given, scores, threshold))
            half = given.double(), scores.double()
            assert torch.equal(ops.nms(*half, threshold), kept_boxes(*half, threshold))
    assert ops.batched_nms(*boxes(20), torch.arange(20) % 3, 0.5).dtype is torch.int64


def check_roi_align():
    from torchvision.ops.roi_align import _roi_align

    torch.manual_seed(0)
    x = torch.randn(2, 4, 9, 9, dtype=torch.float64, requires_grad=True)
    for ratio in (1, 2):
        for aligned in (False, True):
            got = ops.roi_align(x, ROIS, (3, 2), 0.9, ratio, aligned)
            torch.testing.assert_close(got, _roi_align(x, ROIS, 0.9, 3, 2, ratio, aligned))
            assert gradcheck(lambda z, r=ratio, a=aligned: ops.roi_align(z, ROIS, (3, 2), 0.9, r, a), (x,))


def check_pools():
    torch.manual_seed(0)
    x = torch.randn(2, 8, 9, 9, dtype=torch.float64, requires_grad=True)
    for call in (lambda z: ops.ps_roi_align(z, ROIS, (2, 2), 0.9, 2), lambda z: ops.ps_roi_pool(z, ROIS, (2, 2), 0.9),
                 lambda z: ops.roi_pool(z, ROIS, (3, 3), 0.9)):
        assert call(x).requires_grad and gradcheck(call, (x,))


def check_deformable_convolution():
    torch.manual_seed(0)
    x, weight, bias = torch.randn(2, 4, 7, 7), torch.randn(6, 2, 3, 3), torch.randn(6)
    still = torch.zeros(2, 18, 7, 7)
    got = ops.deform_conv2d(x, still, weight, bias, padding=1)
    torch.testing.assert_close(got, torch.nn.functional.conv2d(x, weight, bias, padding=1, groups=2), rtol=1e-4,
                               atol=1e-4)
    given = [t.double().requires_grad_() for t in (x[:1, :2, :4, :4], torch.randn(1, 18, 2, 2) * 0.3,
                                                   torch.randn(2, 2, 3, 3), torch.rand(1, 9, 2, 2))]
    assert gradcheck(lambda x, o, w, m: ops.deform_conv2d(x, o, w, mask=m), given)


def check_images():
    import os
    import tempfile

    torch.manual_seed(0)
    picture = (torch.rand(3, 20, 30) * 255).to(torch.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        png = io.encode_png(picture)
        assert torch.equal(io.decode_png(png), picture) and torch.equal(io.decode_image(png), picture)
        soft = torch.arange(600).reshape(1, 20, 30).expand(3, -1, -1).div(3).to(torch.uint8)
        near = io.decode_jpeg(io.encode_jpeg(soft.contiguous(), 95)).float() - soft
        assert near.abs().mean() < 2
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.png")
            io.write_png(picture, path)
            assert torch.equal(io.read_image(path), picture) and torch.equal(io.read_file(path), png)
        try:
            io.decode_png(torch.zeros(10, dtype=torch.uint8))
        except RuntimeError as error:
            assert "png" in str(error).lower()
        else:
            raise AssertionError("no picture was decoded")


def check_training():
    from torchvision.models.detection import fasterrcnn_mobilenet_v3_large_320_fpn

    torch.manual_seed(0)
    model = fasterrcnn_mobilenet_v3_large_320_fpn(weights=None, weights_backbone=None, num_classes=3).train()
    wanted = [{"boxes": torch.tensor([[10.0, 10, 80, 90]]), "labels": torch.tensor([1])}]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    totals, picture = [], [torch.rand(3, 100, 120)]
    for _ in range(5):
        loss = sum(model(picture, wanted).values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        totals.append(loss.item())
    assert totals[-1] < totals[0] and all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    assert set(model.eval()(picture)[0]) == {"boxes", "labels", "scores"}


def check_graphs():
    x, rois = torch.randn(2, 4, 9, 9), ROIS.float()

    def pooled(x, rois):
        return ops.roi_align(x, rois, (3, 3), 1.0, 2, True) * 2

    wanted = pooled(x, rois)
    torch.testing.assert_close(torch.compile(pooled, fullgraph=True)(x, rois), wanted)
    leaf = x.clone().requires_grad_()
    torch.compile(pooled, fullgraph=True)(leaf, rois).square().sum().backward()
    other = x.clone().requires_grad_()
    pooled(other, rois).square().sum().backward()
    torch.testing.assert_close(leaf.grad, other.grad)

    class Kept(torch.nn.Module):
        def forward(self, given, scores):
            return ops.nms(given, scores, 0.5)

    given, scores = boxes(30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")      # its fake uses an older name
        assert torch.equal(torch.export.export(Kept(), (given, scores)).module()(given, scores),
                           ops.nms(given, scores, 0.5))
    assert torch.equal(torch.jit.script(Kept())(given, scores), ops.nms(given, scores, 0.5))
    arguments = (x.clone().requires_grad_(), rois, 1.0, 3, 3, 2, True)
    assert set(torch.library.opcheck(torch.ops.torchvision.roi_align.default, arguments).values()) == {"SUCCESS"}
    assert pooled(x.to("meta"), rois.to("meta")).is_meta


def check_mixed_precision():
    given, scores = boxes(10)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = ops.roi_align(torch.randn(2, 4, 9, 9).bfloat16(), ROIS.float(), (3, 3))
        assert got.dtype is torch.bfloat16 and ops.nms(given.bfloat16(), scores.bfloat16(), 0.5).numel()


def check_errors():
    given, scores = boxes(4)
    for words, call in {
        "4 elements": lambda: ops.nms(given[:, :3], scores, 0.5),
        "same type": lambda: ops.roi_align(torch.randn(1, 1, 4, 4), ROIS, (2, 2)),
        "not implemented": lambda: ops.roi_align(torch.randn(2, 1, 4, 4).bfloat16(), ROIS.bfloat16(), (2, 2)),
    }.items():
        try:
            call()
        except RuntimeError as error:
            assert words in str(error), error
        else:
            raise AssertionError(f"no error with {words!r}")
    assert _stable.live_handles() == 0


run_all(dict(globals()))
