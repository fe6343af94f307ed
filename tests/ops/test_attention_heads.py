"""multi_head_attention_forward: the arguments PyTorch's records leave out, and its refusals."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).parent))
from parity import agree, gradients_agree  # noqa: E402

WIDTH, HEADS, BATCH, QUERIES, KEYS = 8, 2, 3, 5, 6


def tensors():
    torch.manual_seed(0)
    sizes = (
        (QUERIES, BATCH, WIDTH),
        (KEYS, BATCH, WIDTH),
        (KEYS, BATCH, WIDTH),
        (3 * WIDTH, WIDTH),
        (3 * WIDTH,),
        (WIDTH, WIDTH),
        (WIDTH,),
    )
    return [torch.randn(s, dtype=torch.float64) for s in sizes]


def call(m, q, k, v, w, b, out_w, out_b, bias_k=None, bias_v=None, zero=False, dropout=0.0, **kwargs):
    return m.nn.functional.multi_head_attention_forward(
        q, k, v, WIDTH, HEADS, w, b, bias_k, bias_v, zero, dropout, out_w, out_b, **kwargs
    )


@pytest.mark.parametrize(
    "kwargs",
    [{}, {"need_weights": False}, {"average_attn_weights": False}, {"zero": True}, {"training": False, "dropout": 0.5}],
)
def test_plain_calls(kwargs):
    gradients_agree(lambda m, *t: [x for x in call(m, *t, **kwargs) if x is not None], *tensors(), second=False)


def test_extra_keys_and_padding():
    torch.manual_seed(1)
    bias_k, bias_v = torch.randn(1, 1, WIDTH, dtype=torch.float64), torch.randn(1, 1, WIDTH, dtype=torch.float64)
    padding = torch.zeros(BATCH, KEYS, dtype=torch.bool)
    padding[1, 3:] = True
    mask = torch.zeros(BATCH * HEADS, QUERIES, KEYS, dtype=torch.bool)
    mask[2, :, 0] = True
    for weights in (True, False):
        agree(
            lambda m, *t, w=weights: call(m, *t[:9], zero=True, key_padding_mask=t[9], attn_mask=t[10], need_weights=w),
            *tensors(),
            bias_k,
            bias_v,
            padding,
            mask,
            rtol=1e-10,
        )


def test_static_keys_and_separate_weights():
    torch.manual_seed(2)
    static = [torch.randn(BATCH * HEADS, 7, WIDTH // HEADS, dtype=torch.float64) for _ in range(2)]
    agree(lambda m, *t: call(m, *t[:7], static_k=t[7], static_v=t[8]), *tensors(), *static, rtol=1e-10)
    separate = [torch.randn(WIDTH, n, dtype=torch.float64) for n in (WIDTH, 3, 4)]
    q, _, _, _, b, out_w, out_b = tensors()
    k, v = torch.randn(KEYS, BATCH, 3, dtype=torch.float64), torch.randn(KEYS, BATCH, 4, dtype=torch.float64)
    agree(
        lambda m, q, k, v, b, ow, ob, x, y, z: call(
            m,
            q,
            k,
            v,
            None,
            b,
            ow,
            ob,
            use_separate_proj_weight=True,
            q_proj_weight=x,
            k_proj_weight=y,
            v_proj_weight=z,
        ),
        q,
        k,
        v,
        b,
        out_w,
        out_b,
        *separate,
        rtol=1e-10,
    )


def test_shared_inputs_and_unbatched():
    q, _, _, w, b, out_w, out_b = tensors()
    agree(lambda m, x, *t: call(m, x, x, x, *t), q, w, b, out_w, out_b, rtol=1e-10)
    agree(lambda m, x, y, *t: call(m, x, y, y, *t), q, q + 1, w, b, out_w, out_b, rtol=1e-10)
    agree(lambda m, x, *t: call(m, x, x, x, *t, need_weights=False), q[:, 0], w, b, out_w, out_b, rtol=1e-10)
    agree(lambda m, x, *t: call(m, x, x, x, *t), q[:, 0], w, b, out_w, out_b, rtol=1e-10)


def test_causal_is_a_hint_about_the_mask():
    q, _, _, w, b, out_w, out_b = tensors()
    mask = torch.ones(QUERIES, QUERIES).triu(1).bool()
    for weights in (True, False):
        agree(
            lambda m, x, *t, n=weights: call(m, x, x, x, *t[:4], attn_mask=t[4], is_causal=True, need_weights=n),
            q,
            w,
            b,
            out_w,
            out_b,
            mask,
            rtol=1e-10,
        )
    agree(lambda m, x, *t: call(m, x, x, x, *t, is_causal=True), q, w, b, out_w, out_b)


def test_refusals_are_pytorch_s():
    q, k, v, w, b, out_w, out_b = tensors()
    for bad in ((q[0, 0], k, v), (q, k[0], v), (q, k, v[:3]), (q[..., :4], k, v)):
        agree(lambda m, *t: call(m, *t), *bad, w, b, out_w, out_b)
    agree(lambda m, *t: call(m, *t[:7], attn_mask=t[7]), q, k, v, w, b, out_w, out_b, torch.zeros(2, 2))
    agree(
        lambda m, *t: call(m, *t[:7], attn_mask=t[7]),
        q,
        k,
        v,
        w,
        b,
        out_w,
        out_b,
        torch.zeros(QUERIES, KEYS, dtype=torch.int64),
    )
    agree(lambda m, *t: call(m, *t[:7], key_padding_mask=t[7]), q, k, v, w, b, out_w, out_b, torch.zeros(2, KEYS))
    agree(
        lambda m, *t: call(m, *t[:7], bias_k=t[7]),
        q,
        k,
        v,
        w,
        b,
        out_w,
        out_b,
        torch.zeros(1, 1, WIDTH, dtype=torch.float64),
    )
    agree(lambda m, q, k, v, *t: call(m, q, k, v, None, *t), q, k, v, b, out_w, out_b)
