"""Attention on the card with masks, wide heads and single queries, against single precision on the same card."""

from __future__ import annotations

import pytest

import rushlight as rl

pytestmark = pytest.mark.skipif(not rl.cuda.is_available(), reason="needs a CUDA device")
attend = rl.nn.functional.scaled_dot_product_attention


def drawn(*shape, dtype):
    return rl.randn(*shape, device="cuda").to(dtype)


def agree(query, key, value, **options):
    """Result and gradients are those of single precision, as near as the half type allows."""
    rough = 1e-2 if query.dtype is rl.bfloat16 else 2e-3
    halves = [t.clone().requires_grad_() for t in (query, key, value)]
    singles = [t.float().requires_grad_() for t in (query, key, value)]
    mask = options.get("attn_mask")
    wide = options if mask is None or mask.dtype is rl.bool else {**options, "attn_mask": mask.float()}
    got, want = attend(*halves, **options), attend(*singles, **wide)
    grad = rl.randn_like(want)
    got.backward(grad.to(got.dtype))
    want.backward(grad.to(got.dtype).float())
    pairs = [(got, want), *[(a.grad, b.grad) for a, b in zip(halves, singles, strict=True)]]
    for one, other in pairs:
        apart = (one.detach().float() - other.detach()).norm() / (other.detach().norm() + 1e-6)
        assert apart.item() < rough, apart


@pytest.mark.parametrize("dtype", [rl.bfloat16, rl.float16])
@pytest.mark.parametrize("sizes", [(64, 64), (100, 77), (33, 130)])
@pytest.mark.parametrize("kind", ["bool", "added", "added in float32"])
def test_masks(kind, sizes, dtype):
    rl.manual_seed(0)
    length, keys = sizes
    query, key, value = drawn(2, 4, length, 64, dtype=dtype), *[drawn(2, 4, keys, 64, dtype=dtype) for _ in range(2)]
    for shape in ((length, keys), (1, keys), (2, 1, length, keys), (2, 4, length, keys), (2, 1, 1, keys)):
        mask = rl.rand(*shape, device="cuda") > 0.3
        if kind != "bool":
            wide = rl.float32 if kind == "added in float32" else dtype
            mask = rl.randn(*shape, device="cuda").masked_fill(~mask, -float("inf")).to(wide)
        agree(query, key, value, attn_mask=mask)


@pytest.mark.parametrize("kind", ["bool", "added"])
def test_queries_that_see_no_key_get_zeros(kind):
    query, key, value = [drawn(1, 2, 16, 64, dtype=rl.bfloat16).requires_grad_() for _ in range(3)]
    mask = rl.ones(16, 16, dtype=rl.bool, device="cuda")
    mask[3] = False
    if kind == "added":
        mask = rl.zeros(16, 16, device="cuda", dtype=rl.bfloat16).masked_fill(~mask, -float("inf"))
    result = attend(query, key, value, attn_mask=mask)
    assert (result[:, :, 3] == 0).all() and result.isfinite().all() and (result[:, :, 4] != 0).all()
    result.sum().backward()
    assert (query.grad[:, :, 3] == 0).all() and all(t.grad.isfinite().all() for t in (query, key, value))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("width", [136, 192, 256])
def test_wide_heads(width, causal):
    rl.manual_seed(0)
    agree(*[drawn(2, 3, 128, width, dtype=rl.bfloat16) for _ in range(3)], is_causal=causal)


@pytest.mark.parametrize("dtype", [rl.bfloat16, rl.float16])
@pytest.mark.parametrize("heads, own, keys", [(32, 8, 4096), (8, 8, 100), (8, 2, 77), (4, 1, 1)])
@pytest.mark.parametrize("layout", ["heads first", "words first", "part of a larger cache"])
def test_a_single_query(layout, heads, own, keys, dtype):
    rl.manual_seed(0)
    query = drawn(2, heads, 1, 64, dtype=dtype)
    if layout == "words first":
        key, value = [drawn(2, keys, own, 64, dtype=dtype).transpose(1, 2) for _ in range(2)]
    else:
        extra = 8 if layout != "heads first" else 0
        key, value = [drawn(2, own, keys + extra, 64, dtype=dtype)[:, :, :keys] for _ in range(2)]
    agree(query, key, value, enable_gqa=True)
    agree(query, key, value, enable_gqa=True, attn_mask=rl.rand(2, 1, 1, keys, device="cuda") > 0.0)
    agree(query, key, value, enable_gqa=True, is_causal=True)


@pytest.mark.parametrize("form", ["plain", "causal", "mask", "shared heads", "words first"])
@pytest.mark.parametrize("dtype", [rl.bfloat16, rl.float16])
def test_dropout_keeps_the_same_weights_in_both_directions(dtype, form):
    rl.manual_seed(0)
    own = 2 if form == "shared heads" else 4
    query, key = drawn(2, 4, 128, 64, dtype=dtype), drawn(2, own, 64, 64, dtype=dtype)
    value, mask = drawn(2, own, 64, 64, dtype=dtype), rl.rand(128, 64, device="cuda") > 0.2 if form == "mask" else None
    if form == "words first":
        query, key, value = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in (query, key, value))
    causal, p = form == "causal", 0.25
    seeds = rl.empty(4, dtype=rl.int64, device="cuda").random_(1 << 31)
    op = rl.ops.aten._attention_dropped
    unit = rl.eye(64, device="cuda").to(dtype).expand(2, own, 64, 64).contiguous()
    weights = op(query, key, unit, seeds, p, causal, attn_mask=mask)[0].float()      # of one row for each key
    tensors = [t.clone().requires_grad_() for t in (query, key, value)]
    out, _ = op(*tensors, seeds, p, causal, attn_mask=mask)
    wide = [t.detach().float().requires_grad_() for t in tensors]
    keys, values = (t.repeat_interleave(4 // own, 1) for t in wide[1:])
    scores = wide[0] @ keys.mT / 8
    seen = mask if mask is not None else rl.ones(128, 64, dtype=rl.bool, device="cuda")
    seen = seen.tril() if causal else seen
    kept = (weights != 0) | (scores.detach().masked_fill(~seen, -1e9).softmax(-1) < 1e-6)
    share = (weights != 0).float().sum() / (seen.expand_as(weights)).sum()
    assert abs(share.item() - (1 - p)) < 0.02
    wanted = (scores.masked_fill(~seen, -float("inf")).softmax(-1) * kept / (1 - p)) @ values
    grad = rl.randn_like(wanted).to(dtype)
    out.backward(grad)
    wanted.backward(grad.float())
    rough = 2e-2 if dtype is rl.bfloat16 else 4e-3
    for one, other in [(out, wanted), *[(a.grad, b.grad) for a, b in zip(tensors, wide, strict=True)]]:
        apart = (one.detach().float() - other.detach()).norm() / other.detach().norm()
        assert apart.item() < rough, apart


def test_dropout_follows_the_seed():
    query, key, value = (drawn(1, 2, 64, 64, dtype=rl.bfloat16) for _ in range(3))
    found = []
    for seed in (1, 1, 2):
        rl.manual_seed(seed)
        found.append(attend(query, key, value, dropout_p=0.5))
    assert rl.equal(found[0], found[1]) and not rl.equal(found[0], found[2])
    assert not rl.equal(attend(query, key, value, dropout_p=0.5), found[2])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("queries, keys", [(64, 64), (70, 90), (5, 131), (300, 7)])
def test_dropout_in_single_precision_is_pytorchs(queries, keys, causal):
    """Weights that are dropped, the gradients of what is left, and how far the generator moved."""
    torch = pytest.importorskip("torch")
    shapes = (2, 3, queries, 64), (2, 3, keys, 64), (2, 3, keys, 64)
    torch.manual_seed(1)
    given = [torch.randn(shape, device="cuda") for shape in shapes]
    found = []
    for lib, tensors in ((torch, given), (rl, [rl.from_dlpack(t) for t in given])):
        lib.cuda.manual_seed(7)
        leaves = [t.clone().requires_grad_() for t in tensors]
        result = lib.nn.functional.scaled_dot_product_attention(*leaves, dropout_p=0.3, is_causal=causal)
        result.square().sum().backward()
        after = lib.rand(3, device="cuda")
        found.append([t.detach().cpu().numpy() for t in (result, after, *[t.grad for t in leaves])])
    for want, got in zip(*found, strict=True):
        rl.testing.assert_close(rl.from_numpy(got), rl.from_numpy(want), rtol=1e-3, atol=1e-3)
