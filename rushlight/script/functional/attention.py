"""Attention with many heads as a script."""

# ruff: noqa: UP006, UP007, UP035, UP045 - annotations as the language reads them
from __future__ import annotations

from typing import Optional, Tuple

from ..._C import Tensor
from .activations import dropout, softmax
from .language import torch
from .sampling import pad


def _mha_shape_check(query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Optional[Tensor],
                     attn_mask: Optional[Tensor], num_heads: int) -> bool:
    """Whether there is a batch. Refuses shapes that do not go together."""
    is_batched = query.dim() == 3
    if not is_batched and query.dim() != 2:
        raise AssertionError(f"query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D query"
                             " tensor")
    if key.dim() != query.dim() or value.dim() != query.dim():
        raise AssertionError(f"For {query.dim()}-D query, expected key and value to be {query.dim()}-D but found"
                             f" {key.dim()}-D and {value.dim()}-D tensors respectively")
    if key_padding_mask is not None:
        if key_padding_mask.dim() != query.dim() - 1:
            raise AssertionError(f"For {query.dim()}-D query, expected key_padding_mask to be None or"
                                 f" {query.dim() - 1}-D but found {key_padding_mask.dim()}-D tensor instead")
    if attn_mask is not None:
        if attn_mask.dim() not in (2, 3):
            raise AssertionError(f"expected attn_mask to be None, 2-D or 3-D but found {attn_mask.dim()}-D tensor"
                                 " instead")
        if not is_batched and attn_mask.dim() == 3:
            if attn_mask.shape[0] != num_heads or attn_mask.shape[1] != query.shape[0]:
                raise AssertionError(f"expected attn_mask of one matrix for each of {num_heads} heads but got"
                                     f" {attn_mask.shape}")
    return is_batched


def _canonical_mask(mask: Optional[Tensor], mask_name: str, target: Tensor,
                    check_other: bool = True) -> Optional[Tensor]:
    """A mask as numbers to add to scores: a bool mask hides where it holds."""
    if mask is not None:
        if mask.dtype != 11 and not torch.is_floating_point(mask):
            raise AssertionError(f"only bool and floating types of {mask_name} are supported")
        if not torch.is_floating_point(mask):
            mask = torch.zeros_like(mask, dtype=target.dtype).masked_fill_(mask, float("-inf"))
    return mask


def _in_projection_packed(q: Tensor, k: Tensor, v: Tensor, w: Tensor,
                          b: Optional[Tensor] = None) -> Tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values through one weight of three parts."""
    width = q.size(-1)
    if k is v:
        if q is k:
            both = torch.linear(q, w, b)
            both = both.unflatten(-1, [3, width]).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
            return both[0], both[1], both[2]
        w_q, w_kv = w.split([width, width * 2])
        if b is None:
            b_q = b_kv = None
        else:
            b_q, b_kv = b.split([width, width * 2])
        q_proj = torch.linear(q, w_q, b_q)
        kv = torch.linear(k, w_kv, b_kv)
        kv = kv.unflatten(-1, [2, width]).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
        return q_proj, kv[0], kv[1]
    else:
        w_q, w_k, w_v = w.chunk(3)
        if b is None:
            b_q = b_k = b_v = None
        else:
            b_q, b_k, b_v = b.chunk(3)
        return torch.linear(q, w_q, b_q), torch.linear(k, w_k, b_k), torch.linear(v, w_v, b_v)


def _in_projection(q: Tensor, k: Tensor, v: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor,
                   b_q: Optional[Tensor] = None, b_k: Optional[Tensor] = None,
                   b_v: Optional[Tensor] = None) -> Tuple[Tensor, Tensor, Tensor]:
    return torch.linear(q, w_q, b_q), torch.linear(k, w_k, b_k), torch.linear(v, w_v, b_v)


def multi_head_attention_forward(
        query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int,
        in_proj_weight: Optional[Tensor], in_proj_bias: Optional[Tensor], bias_k: Optional[Tensor],
        bias_v: Optional[Tensor], add_zero_attn: bool, dropout_p: float, out_proj_weight: Tensor,
        out_proj_bias: Optional[Tensor], training: bool = True, key_padding_mask: Optional[Tensor] = None,
        need_weights: bool = True, attn_mask: Optional[Tensor] = None, use_separate_proj_weight: bool = False,
        q_proj_weight: Optional[Tensor] = None, k_proj_weight: Optional[Tensor] = None,
        v_proj_weight: Optional[Tensor] = None, static_k: Optional[Tensor] = None, static_v: Optional[Tensor] = None,
        average_attn_weights: bool = True, is_causal: bool = False) -> Tuple[Tensor, Optional[Tensor]]:
    is_batched = _mha_shape_check(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not is_batched:
        query = query.unsqueeze(1)
        key = key.unsqueeze(1)
        value = value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    tgt_len, bsz, embed_dim = query.shape
    src_len = key.size(0)
    key_padding_mask = _canonical_mask(key_padding_mask, "key_padding_mask", query)
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None
    else:
        attn_mask = _canonical_mask(attn_mask, "attn_mask", query, False)
        if key_padding_mask is not None:
            is_causal = False
    if embed_dim != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {embed_dim}")
    head_dim = embed_dim // num_heads
    if head_dim * num_heads != embed_dim:
        raise AssertionError(f"embed_dim {embed_dim} not divisible by num_heads {num_heads}")
    if not use_separate_proj_weight:
        assert in_proj_weight is not None, "use_separate_proj_weight is False but in_proj_weight is None"
        q, k, v = _in_projection_packed(query, key, value, in_proj_weight, in_proj_bias)
    else:
        assert q_proj_weight is not None, "use_separate_proj_weight is True but q_proj_weight is None"
        assert k_proj_weight is not None, "use_separate_proj_weight is True but k_proj_weight is None"
        assert v_proj_weight is not None, "use_separate_proj_weight is True but v_proj_weight is None"
        if in_proj_bias is None:
            b_q = b_k = b_v = None
        else:
            b_q, b_k, b_v = in_proj_bias.chunk(3)
        q, k, v = _in_projection(query, key, value, q_proj_weight, k_proj_weight, v_proj_weight, b_q, b_k, b_v)
    if attn_mask is not None:
        if attn_mask.dim() == 2:
            attn_mask = attn_mask.unsqueeze(0)
    if bias_k is not None and bias_v is not None:
        assert static_k is None, "bias cannot be added to static key."
        assert static_v is None, "bias cannot be added to static value."
        k = torch.cat([k, bias_k.repeat(1, bsz, 1)])
        v = torch.cat([v, bias_v.repeat(1, bsz, 1)])
        if attn_mask is not None:
            attn_mask = pad(attn_mask, (0, 1))
        if key_padding_mask is not None:
            key_padding_mask = pad(key_padding_mask, (0, 1))
    q = q.view(tgt_len, bsz * num_heads, head_dim).transpose(0, 1)
    if static_k is None:
        k = k.view(k.shape[0], bsz * num_heads, head_dim).transpose(0, 1)
    else:
        k = static_k
    if static_v is None:
        v = v.view(v.shape[0], bsz * num_heads, head_dim).transpose(0, 1)
    else:
        v = static_v
    if add_zero_attn:
        k = torch.cat([k, torch.zeros([bsz * num_heads, 1, head_dim], dtype=k.dtype, device=k.device)], dim=1)
        v = torch.cat([v, torch.zeros([bsz * num_heads, 1, head_dim], dtype=v.dtype, device=v.device)], dim=1)
        if attn_mask is not None:
            attn_mask = pad(attn_mask, (0, 1))
        if key_padding_mask is not None:
            key_padding_mask = pad(key_padding_mask, (0, 1))
    src_len = k.size(1)
    if key_padding_mask is not None:
        key_padding_mask = key_padding_mask.view(bsz, 1, 1, src_len).expand(-1, num_heads, -1, -1).reshape(
            bsz * num_heads, 1, src_len)
        if attn_mask is None:
            attn_mask = key_padding_mask
        else:
            attn_mask = attn_mask + key_padding_mask
    if not training:
        dropout_p = 0.0
    if need_weights:
        scaled = q * (1.0 / float(head_dim)) ** 0.5
        if attn_mask is not None:
            weights = torch.baddbmm(attn_mask, scaled, k.transpose(-2, -1))
        else:
            weights = torch.bmm(scaled, k.transpose(-2, -1))
        weights = softmax(weights, dim=-1)
        if dropout_p > 0.0:
            weights = dropout(weights, p=dropout_p)
        attn_output = torch.bmm(weights, v).transpose(0, 1).contiguous().view(tgt_len * bsz, embed_dim)
        attn_output = torch.linear(attn_output, out_proj_weight, out_proj_bias).view(tgt_len, bsz, embed_dim)
        weights = weights.view(bsz, num_heads, tgt_len, src_len)
        if average_attn_weights:
            weights = weights.mean(dim=1)
        if not is_batched:
            attn_output = attn_output.squeeze(1)
            weights = weights.squeeze(0)
        return attn_output, weights
    else:
        if attn_mask is not None:
            if attn_mask.size(0) == 1 and attn_mask.dim() == 3:
                attn_mask = attn_mask.unsqueeze(0)
            else:
                attn_mask = attn_mask.view(bsz, num_heads, -1, src_len)
        q = q.view(bsz, num_heads, tgt_len, head_dim)
        k = k.view(bsz, num_heads, src_len, head_dim)
        v = v.view(bsz, num_heads, src_len, head_dim)
        attn_output = torch.scaled_dot_product_attention(q, k, v, attn_mask, dropout_p, is_causal)
        attn_output = attn_output.permute(2, 0, 1, 3).contiguous().view(bsz * tgt_len, embed_dim)
        attn_output = torch.linear(attn_output, out_proj_weight, out_proj_bias).view(tgt_len, bsz, embed_dim)
        if not is_batched:
            attn_output = attn_output.squeeze(1)
        return attn_output, None
