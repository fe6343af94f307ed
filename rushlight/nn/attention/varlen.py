"""Attention over sequences of different lengths, laid end to end.

Enters: queries, keys and values of all sequences in one dim (total length, heads, width), and where each sequence
begins. Leaves: the same layout; with `AuxRequest(lse=True)` also the log-sum-exp per head and query.
Refuses paged keys and scales of low-precision keys.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ..._C import Tensor
from ...op import find_op

__all__ = ["AuxRequest", "varlen_attn", "varlen_attn_out"]


class AuxRequest(NamedTuple):
    """Which other results are wanted."""

    lse: bool = False


def varlen_attn(query: Tensor, key: Tensor, value: Tensor, cu_seq_q: Tensor, cu_seq_k: Tensor | None, max_q: int,
                max_k: int, *, return_aux: AuxRequest | None = None, scale: float | None = None,
                window_size: tuple[int, int] = (-1, -1), enable_gqa: bool = False,
                seqused_k: Tensor | None = None, block_table: Tensor | None = None,
                num_splits: int | None = None) -> Any:
    """Attention of each sequence's queries to the same sequence's keys. `window_size`: keys seen to the left and right,
    -1 for all."""
    if block_table is not None:
        raise NotImplementedError("varlen_attn: keys in pages (block_table) are not supported")
    if query.shape[-2] != key.shape[-2] and not enable_gqa:
        raise ValueError(
            f"varlen_attn: expected as many heads of keys as of queries ({query.shape[-2]}), got {key.shape[-2]}. Pass"
            " enable_gqa=True."
        )
    starts_q = cu_seq_q.tolist()
    starts_k = starts_q if cu_seq_k is None else cu_seq_k.tolist()
    used = None if seqused_k is None else seqused_k.tolist()
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    outs, sums = [], []
    for i in range(len(starts_q) - 1):
        end = starts_k[i + 1] if used is None else starts_k[i] + used[i]
        out, lse = _one(
            query[starts_q[i] : starts_q[i + 1]], key[starts_k[i] : end], value[starts_k[i] : end], factor, window_size
        )
        outs.append(out)
        sums.append(lse)
    result = find_op("cat")(outs)
    return (result, find_op("cat")(sums, 1)) if return_aux is not None and return_aux.lse else result


def _one(q: Tensor, k: Tensor, v: Tensor, scale: float, window: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """One sequence: (length, heads, width) in and out, and the log-sum-exp (heads, length)."""
    if q.shape[1] != k.shape[1]:
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    scores = (
        find_op("matmul")(q.transpose(0, 1), k.permute(1, 2, 0)).to(
            dtype=find_op("zeros")(()).dtype if q.dtype.itemsize < 4 else q.dtype
        )
        * scale
    )
    left, right = window
    if left >= 0 or right >= 0:
        place = (
            find_op("arange")(q.shape[0]).unsqueeze(1)
            + (k.shape[0] - q.shape[0])
            - find_op("arange")(k.shape[0]).unsqueeze(0)
        )
        hidden = (place > left) if left >= 0 else (place != place)
        hidden = hidden | (-place > right) if right >= 0 else hidden
        scores = scores.masked_fill(hidden, -math.inf)
    lse = scores.logsumexp(-1)
    weights = (scores - lse.unsqueeze(-1)).exp().nan_to_num(0.0).to(v.dtype)
    return find_op("matmul")(weights, v.transpose(0, 1)).transpose(0, 1), lse


def varlen_attn_out(out: Tensor, query: Tensor, key: Tensor, value: Tensor, cu_seq_q: Tensor, cu_seq_k: Tensor | None,
                    max_q: int, max_k: int, *, return_aux: AuxRequest | None = None, scale: float | None = None,
                    window_size: tuple[int, int] = (-1, -1), enable_gqa: bool = False,
                    seqused_k: Tensor | None = None, block_table: Tensor | None = None,
                    num_splits: int | None = None) -> Any:
    """`varlen_attn` written to `out`."""
    result = varlen_attn(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, return_aux=return_aux, scale=scale,
                         window_size=window_size,
                       enable_gqa=enable_gqa, seqused_k=seqused_k, block_table=block_table,
                       num_splits=num_splits)
    if isinstance(result, tuple):
        return out.copy_(result[0]), result[1]
    return out.copy_(result)
