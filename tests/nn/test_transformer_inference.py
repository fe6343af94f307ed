"""Transformer layers in evaluation: the short way gives the numbers of the ordinary one, and PyTorch's."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.nn.modules import inference

torch = pytest.importorskip("torch")


def copy_weights(ours: Any, theirs: Any) -> None:
    ours.load_state_dict({name: rl.tensor(value.numpy()) for name, value in theirs.state_dict().items()})


def masks(t: Any, kind: str, batch: int, length: int, heads: int) -> dict[str, Any]:
    result = {}
    if "attn" in kind:
        result["src_mask"] = t.ones(length, length, dtype=t.bool).triu(1)
    if "float" in kind:
        result["src_mask"] = t.linspace(-1, 1, length * length).reshape(length, length)
    if "heads" in kind:
        result["src_mask"] = t.linspace(-1, 1, batch * heads * length * length).reshape(batch * heads, length, length)
    if "pad" in kind:
        pad = t.zeros(batch, length, dtype=t.bool)
        pad[1, -2:] = True
        result["src_key_padding_mask"] = pad
    return result


@pytest.mark.parametrize("kind", ["none", "attn", "float", "heads", "pad", "attn pad"])
@pytest.mark.parametrize(
    "options", [{}, {"norm_first": True}, {"activation": "gelu"}, {"batch_first": False}, {"bias": False}], ids=str
)
def test_encoder_layer(options: dict[str, Any], kind: str) -> None:
    options = {"batch_first": True, **options}
    theirs = torch.nn.TransformerEncoderLayer(8, 2, 16, **options).eval()
    ours = rl.nn.TransformerEncoderLayer(8, 2, 16, **options).eval()
    copy_weights(ours, theirs)
    x = torch.randn(3, 5, 8)
    shape = (3, 5) if options["batch_first"] else (5, 3)
    with torch.no_grad(), rl.no_grad():
        # there it takes every number but 0 for True
        torch.backends.mha.set_fastpath_enabled(kind not in ("float", "heads"))
        try:
            expected = theirs(x if options["batch_first"] else x.transpose(0, 1), **masks(torch, kind, 3, 5, 2))
        finally:
            torch.backends.mha.set_fastpath_enabled(True)
        y = rl.tensor(x.numpy())
        y = y if options["batch_first"] else y.transpose(0, 1)
        got = ours(y, **masks(rl, kind, 3, 5, 2))
        inference.FastPath.is_enabled = False
        try:
            slow = ours(y, **masks(rl, kind, 3, 5, 2))
        finally:
            inference.FastPath.is_enabled = True
    assert tuple(got.shape[:2]) == shape
    seen = ~masks(torch, kind, 3, 5, 2).get("src_key_padding_mask", torch.zeros(3, 5, dtype=torch.bool)).numpy()
    seen = seen if options["batch_first"] else seen.T
    np.testing.assert_allclose(got.numpy()[seen], expected.numpy()[seen], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got.numpy(), slow.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("norm", [False, True])
def test_encoder_zeroes_padded_places(norm: bool, aligned: bool) -> None:
    result = []
    pad = np.zeros((2, 5), dtype=bool)
    pad[1, 3:] = True
    if not aligned:
        pad[1] = [True, False, False, True, False]
    weights = None
    for t in (torch, rl):
        t.manual_seed(0)
        layer = t.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        net = t.nn.TransformerEncoder(layer, 2, t.nn.LayerNorm(8) if norm else None).eval()
        if weights is None:
            weights = net
        else:
            copy_weights(net, weights)
        x = t.tensor(np.random.default_rng(0).normal(size=(2, 5, 8)).astype(np.float32))
        with t.no_grad():
            result.append(net(x, src_key_padding_mask=t.tensor(pad)).numpy())
        with_grad = net(x, src_key_padding_mask=t.tensor(pad)).detach().numpy()
        result.append(with_grad)
    for theirs, ours in zip(result[:2], result[2:], strict=True):
        keep = slice(None) if aligned else ~pad
        np.testing.assert_allclose(ours[keep], theirs[keep], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [{"batch_first": False}, {"norm_first": True}, {"nhead": 1}, {"bias": False}, {"activation": "tanh"}],
    ids=str,
)
def test_encoder_says_why_padding_is_kept(options: dict[str, Any]) -> None:
    said = []
    for t in (torch, rl):
        given = {"nhead": 2, "batch_first": True, "dim_feedforward": 16, **options}
        if given.get("activation") == "tanh":
            given["activation"] = t.tanh
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            net = t.nn.TransformerEncoder(t.nn.TransformerEncoderLayer(8, **given), 1)
        names = [
            sorted(set(re.findall(r"\b\w+(?:\.\w+)+\b", str(w.message))) - {"self.use_nested_tensor"})
            for w in caught
            if "nested" in str(w.message)
        ]
        said.append((names, net.use_nested_tensor))
    assert said[0] == said[1]     # the same reason, in other words


def test_attention_alone_with_every_mask() -> None:
    theirs = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    ours = rl.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    copy_weights(ours, theirs)
    x = torch.randn(3, 5, 8)
    for kind in ("none", "attn", "pad", "attn pad", "heads"):
        renamed = [
            {"src_mask": "attn_mask", "src_key_padding_mask": "key_padding_mask"}[n]
            for n in masks(torch, kind, 3, 5, 2)
        ]
        results = []
        for t, layer, data in ((torch, theirs, x), (rl, ours, rl.tensor(x.numpy()))):
            given = dict(zip(renamed, masks(t, kind, 3, 5, 2).values(), strict=True))
            with t.no_grad():
                results.append(
                    [
                        layer(data, data, data, need_weights=False, **given)[0].numpy(),
                        layer(data, data, data, **given)[1].numpy(),
                    ]
                )
        for a, b in zip(*results, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)


def test_hooks_and_gradients_take_the_ordinary_way() -> None:
    layer = rl.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = rl.randn(2, 3, 8)
    called = []
    handle = layer.linear1.register_forward_hook(lambda *_: called.append(1))
    with rl.no_grad():
        layer(x)
    assert called == [1]
    handle.remove()
    layer(x).sum().backward()
    assert layer.linear1.weight.grad is not None
    rl.backends.mha.set_fastpath_enabled(False)
    try:
        assert not inference.is_plain(layer, x)
    finally:
        rl.backends.mha.set_fastpath_enabled(True)
    with rl.no_grad():
        assert inference.is_plain(layer, x)
        with rl.autocast("cpu"):      # PyTorch takes the short way there too, whose result is of the lower type
            assert inference.is_plain(layer, x) and layer(x).dtype is rl.bfloat16
