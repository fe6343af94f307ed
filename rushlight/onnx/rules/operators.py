"""`torch.onnx.ops` as the nodes that they name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ... import _C
from ...op.pack import BY_CODE
from ..building import Builder, Size
from ..model import ELEMENT, Value
from .table import INT64, rule

NATIVE = 23      # the first opset with RotaryEmbedding and Attention


@rule("onnx::symbolic")
def symbolic(g: Builder, inputs: Sequence[Any], what: str, dtypes: Sequence[str], sizes: Any, ranks: Any) -> tuple:
    said = json.loads(what)
    domain = "" if said["domain"] in ("", "ai.onnx") else said["domain"]
    if domain:
        g.domains[domain] = said["version"] or 1
    elif said["version"] is not None and said["version"] > g.opset:
        raise NotImplementedError(f"{said['op']} of opset {said['version']}, in a model of opset {g.opset}")
    before, g.origin = g.origin, {**g.origin, **said["metadata"]}
    found = g.nodes(said["op"], *inputs, dtypes=[BY_CODE[c] for c in dtypes], domain=domain, **said["attrs"])
    g.origin = before
    return tuple(found)


@rule("onnx::NonMaxSuppression")
def non_max_suppression(g: Builder, boxes: Value, scores: Value, most: Any, overlap: Value | None, least: Value | None,
                        is_centered: bool) -> Value:
    limit = g.node("Reshape", g.scalar(most, INT64), g.ints([1])) if isinstance(most, Size) else g.ints([most])
    return g.node("NonMaxSuppression", g.cast(boxes, _C.float32), g.cast(scores, _C.float32), limit, overlap, least,
                  dtype=INT64, center_point_box=int(is_centered))


@rule("onnx::RotaryEmbedding")
def rotary_embedding(g: Builder, X: Value, cos_cache: Value, sin_cache: Value, position_ids: Value | None,
                     interleaved: bool, num_heads: int, rotary_embedding_dim: int) -> Value:
    return g.node("RotaryEmbedding", X, cos_cache, sin_cache, position_ids, interleaved=int(interleaved),
                  num_heads=num_heads, rotary_embedding_dim=rotary_embedding_dim)


@rule("onnx::Attention")
def attention(g: Builder, Q: Value, K: Value, V: Value, attn_mask: Value | None, past_key: Value | None,
              past_value: Value | None, is_causal: bool, kv_num_heads: int, q_num_heads: int,
              qk_matmul_output_mode: int, scale: float | None, softcap: float, softmax_precision: Any) -> tuple:
    kind = softmax_precision if softmax_precision is None or isinstance(softmax_precision, int) else ELEMENT[
        softmax_precision.code]
    return tuple(g.nodes(
        "Attention", Q, K, V, attn_mask, past_key, past_value, dtypes=[Q.dtype] * 4, is_causal=int(is_causal),
        kv_num_heads=kv_num_heads or None, q_num_heads=q_num_heads or None, qk_matmul_output_mode=qk_matmul_output_mode,
        scale=scale, softcap=float(softcap), softmax_precision=kind))
