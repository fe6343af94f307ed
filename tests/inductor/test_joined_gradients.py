"""Gradients of query, key and value, written where the gradient of their one projection has them."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.definitions.attention.device import gradients
from rushlight.devices import register
from tests.devices.reference_device import ReferenceDevice

F = rl.nn.functional
BATCH, LENGTH, HEADS, WIDTH = 2, 6, 3, 8


class Attending(ReferenceDevice):
    """A device with an attention of its own, which notes where gradients are written."""

    scheduler = "gpu"
    written: list = []

    def implementation(self, op):
        return {"attention": self.attention, "attention_backward": self.attention_backward}.get(op)

    def attention(self, outs, query, key, value, causal, scale, mask=None):
        scores = (query.float() * scale) @ key.float().transpose(-2, -1)
        outs[0].copy_(scores.softmax(-1) @ value.float())
        outs[1].copy_(scores.logsumexp(-1))

    def attention_backward(self, outs, grad, query, key, value, out, log, causal, scale, mask=None):
        self.written.append([(t.untyped_storage().data_ptr(), t.storage_offset(), t.stride()) for t in outs])
        found = gradients(*[t.float() for t in (grad, query, key, value)], causal, mask, scale)
        for target, source in zip(outs, found, strict=True):
            target.copy_(source)


DEVICE = Attending("attending")
register(DEVICE)

FORMS = {
    "permute": lambda x: x.view(BATCH, LENGTH, 3, HEADS, WIDTH).permute(2, 0, 3, 1, 4),
    "unbind": lambda x: [t.transpose(1, 2) for t in x.view(BATCH, LENGTH, 3, HEADS, WIDTH).unbind(2)],
    "split": lambda x: [t.view(BATCH, LENGTH, HEADS, WIDTH).transpose(1, 2) for t in x.split(HEADS * WIDTH, 2)],
    "parts inside heads": lambda x: x.view(BATCH, LENGTH, HEADS, 3 * WIDTH).transpose(1, 2).chunk(3, -1),
    "parts behind heads": lambda x: x.view(BATCH, LENGTH, HEADS, WIDTH, 3).permute(4, 0, 2, 1, 3),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("batch", [BATCH, 1])
def test_gradients_are_written_once(form, batch, monkeypatch):
    monkeypatch.setitem(globals(), "BATCH", batch)
    rl.manual_seed(0)
    layer, x = rl.nn.Linear(16, 3 * HEADS * WIDTH).to(rl.bfloat16), rl.randn(batch, LENGTH, 16).to(rl.bfloat16)

    def attend(layer, x):
        return F.scaled_dot_product_attention(*FORMS[form](layer(x)))

    found = []
    for device, run in (("cpu", attend), ("attending", rl.compile(attend))):
        own = rl.nn.Linear(16, 3 * HEADS * WIDTH).to(rl.bfloat16)
        own.load_state_dict(layer.state_dict())
        own, given = own.to(device), x.detach().to(device).requires_grad_()
        DEVICE.written.clear()
        run(own, given).float().square().sum().backward()
        found.append([t.grad.float().cpu() for t in (given, own.weight, own.bias)])
    for ours, wanted in zip(*found, strict=True):
        assert rl.allclose(ours, wanted, rtol=3e-2, atol=3e-2), (ours - wanted).abs().max()
    (places,) = DEVICE.written
    assert len({storage for storage, _, _ in places}) == 1 and len({offset for _, offset, _ in places}) == 3


def test_a_joined_tensor_that_others_read_stays():
    rl.manual_seed(0)

    def both(q, k, v):
        x = rl.cat([F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(k, v, q)], 0)
        return x.transpose(1, 2).contiguous(), x.sum(1)

    given = [rl.randn(1, 2, 4, 8).to(rl.bfloat16) for _ in range(3)]
    ours, wanted = rl.compile(both)(*[t.to("attending") for t in given]), both(*given)
    for a, b in zip(ours, wanted, strict=True):
        assert rl.allclose(a.cpu().float(), b.float(), atol=3e-2)


@pytest.mark.parametrize("dim", [0, 1, 2, 3, -1])
def test_results_joined_along_any_dim_then_turned(dim):
    rl.manual_seed(0)

    def joined(q, k, v):
        x = rl.cat([F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(k, v, q)], dim)
        return x.permute(2, 0, 3, 1).contiguous()

    given = [rl.randn(2, 3, 4, 8).to(rl.bfloat16) for _ in range(3)]
    ours, wanted = rl.compile(joined)(*[t.to("attending") for t in given]), joined(*given)
    assert rl.allclose(ours.cpu().float(), wanted.float(), atol=3e-2) and ours.stride() == wanted.stride()
