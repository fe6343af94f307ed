"""`torch.onnx.ops`: operators of ONNX in the body of a model.

Enters: tensors. Leaves: `symbolic` and `symbolic_multi_out`: one node of any operator, which gives zeros of the right
sizes outside of an export; `rotary_embedding` and `attention`: what the operators of opset 23 compute, here too, and
one node each from that opset on.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import _C
from .._C import Tensor
from ..library import custom_op
from ..op import ops
from ..op.pack import BY_CODE
from .model import ELEMENT

__all__ = ["aten_decompositions", "attention", "rotary_embedding", "symbolic", "symbolic_multi_out"]

DOMAIN = "onnx"


@custom_op(f"{DOMAIN}::symbolic", mutates_args=(),
           schema="(Tensor?[] inputs, str what, str[] dtypes, SymInt[] sizes, int[] ranks) -> Tensor[]")
def _symbolic(inputs: Any, what: str, dtypes: Any, sizes: Any, ranks: Any) -> list[Tensor]:
    return _zeros(dtypes, sizes, ranks)


@_symbolic.register_fake
def _symbolic_like(inputs: Any, what: str, dtypes: Any, sizes: Any, ranks: Any) -> list[Tensor]:
    return _zeros(dtypes, sizes, ranks)


def _zeros(dtypes: Sequence[str], sizes: Sequence[int], ranks: Sequence[int]) -> list[Tensor]:
    found, at = [], 0
    for code, rank in zip(dtypes, ranks, strict=True):
        found.append(ops["zeros"](list(sizes[at:at + rank]), dtype=BY_CODE[code]))
        at += rank
    return found


def symbolic(domain_op: str, /, inputs: Sequence[Any], attrs: Mapping[str, Any] | None = None, *, dtype: Any,
             shape: Sequence[Any], version: int | None = None, metadata_props: Mapping[str, str] | None = None
             ) -> Tensor:
    """One node of an operator, "domain::Name", with one result of a type and a shape."""
    return symbolic_multi_out(domain_op, inputs, attrs, dtypes=(dtype,), shapes=(shape,), version=version,
                              metadata_props=metadata_props)[0]


def symbolic_multi_out(domain_op: str, /, inputs: Sequence[Any], attrs: Mapping[str, Any] | None = None, *,
                       dtypes: Sequence[Any], shapes: Sequence[Sequence[Any]], version: int | None = None,
                       metadata_props: Mapping[str, str] | None = None) -> Sequence[Tensor]:
    """The same with several results."""
    if not isinstance(domain_op, str) or not domain_op:
        raise TypeError(f"onnx.ops.symbolic: expected an operator like 'domain::Name', got {domain_op!r}")
    if len(dtypes) != len(shapes):
        raise ValueError(f"onnx.ops.symbolic: expected a shape for each dtype, got {len(shapes)} for {len(dtypes)}")
    domain, _, name = domain_op.rpartition("::")
    settings = {key: list(v) if isinstance(v, (tuple, list)) else v for key, v in (attrs or {}).items()}
    what = json.dumps({"domain": domain, "op": name, "attrs": settings, "version": version,
                       "metadata": dict(metadata_props or {})})
    codes = [_code(d) for d in dtypes]
    sizes = [n for shape in shapes for n in shape]
    return _symbolic(list(inputs), what, codes, sizes, [len(shape) for shape in shapes])


def _code(dtype: Any) -> str:
    if isinstance(dtype, int):
        found = next((code for code, n in ELEMENT.items() if n == dtype), None)
        if found is None:
            raise ValueError(f"onnx.ops.symbolic: {dtype} is no number of a type of ONNX's that is here")
        return found
    return dtype.code


# --- operators that are computed here too -----------------------------------------------------------------------------


def rotary_embedding(X: Any, cos_cache: Any, sin_cache: Any, position_ids: Any = None, *, interleaved: bool = False,
                     num_heads: int = 0, rotary_embedding_dim: int = 0) -> Tensor:
    """X [batch, heads, length, width] (or [batch, length, heads * width], with num_heads) turned by the angles whose
    cosines and sines are given: [positions, width / 2], or [batch, length, width / 2] without position_ids."""
    return _rotary(X, cos_cache, sin_cache, position_ids, interleaved, num_heads, rotary_embedding_dim)


@custom_op(f"{DOMAIN}::RotaryEmbedding", mutates_args=(),
           schema="(Tensor X, Tensor cos_cache, Tensor sin_cache, Tensor? position_ids, bool interleaved, int"
                  " num_heads, int rotary_embedding_dim) -> Tensor")
def _rotary(X: Any, cos_cache: Any, sin_cache: Any, position_ids: Any, interleaved: bool, num_heads: int,
            rotary_embedding_dim: int) -> Tensor:
    return turned(X, cos_cache, sin_cache, position_ids, interleaved, num_heads, rotary_embedding_dim)


@_rotary.register_fake
def _rotary_like(X: Any, *rest: Any) -> Tensor:
    return ops["empty_like"](X)


def turned(X: Any, cos_cache: Any, sin_cache: Any, position_ids: Any, interleaved: bool, num_heads: int,
           rotary_embedding_dim: int) -> Tensor:
    """The rotation, by ops."""
    shape = X.shape
    if X.ndim == 3:
        if not num_heads:
            raise ValueError("onnx.ops.rotary_embedding: num_heads is needed for an input of 3 dims")
        X = X.reshape(shape[0], shape[1], num_heads, -1).transpose(1, 2)
    width = rotary_embedding_dim or X.shape[-1]
    half = width // 2
    cos, sin = (t if position_ids is None else t[position_ids] for t in (cos_cache, sin_cache))
    cos, sin = cos[..., :half].unsqueeze(1), sin[..., :half].unsqueeze(1)
    moved, rest = X[..., :width], X[..., width:]
    a, b = (moved[..., ::2], moved[..., 1::2]) if interleaved else (moved[..., :half], moved[..., half:])
    parts = cos * a - sin * b, sin * a + cos * b
    if interleaved:
        result = ops["stack"](list(parts), -1).flatten(-2)
    else:
        result = ops["cat"](list(parts), -1)
    result = ops["cat"]([result, rest], -1)
    return result if len(shape) == 4 else result.transpose(1, 2).reshape(shape)


def attention(Q: Any, K: Any, V: Any, attn_mask: Any = None, past_key: Any = None, past_value: Any = None, *,
              is_causal: bool = False, kv_num_heads: int = 0, q_num_heads: int = 0, qk_matmul_output_mode: int = 0,
              scale: float | None = None, softcap: float = 0.0, softmax_precision: int | None = None
              ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Attention of queries to keys and values [batch, heads, length, width] (or with the heads side by side, whose
    numbers are given then): the result, all keys, all values, and what `qk_matmul_output_mode` asks to see."""
    return tuple(_attention(Q, K, V, attn_mask, past_key, past_value, is_causal, kv_num_heads, q_num_heads,
                            qk_matmul_output_mode, scale, softcap, softmax_precision))


_ATTENTION = ("(Tensor Q, Tensor K, Tensor V, Tensor? attn_mask, Tensor? past_key, Tensor? past_value, bool is_causal,"
              " int kv_num_heads, int q_num_heads, int qk_matmul_output_mode, float? scale, float softcap, int?"
              " softmax_precision) -> (Tensor, Tensor, Tensor, Tensor)")


@custom_op(f"{DOMAIN}::Attention", mutates_args=(), schema=_ATTENTION)
def _attention(*args: Any) -> tuple[Tensor, ...]:
    return tuple(t.clone() for t in attended(*args))


@_attention.register_fake
def _attention_like(*args: Any) -> tuple[Tensor, ...]:
    return tuple(ops["empty_like"](t) for t in attended(*args))


def attended(Q: Any, K: Any, V: Any, attn_mask: Any, past_key: Any, past_value: Any, is_causal: bool, kv_num_heads: int,
             q_num_heads: int, qk_matmul_output_mode: int, scale: float | None, softcap: float,
             softmax_precision: int | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Attention, by ops."""
    side_by_side = Q.ndim == 3
    if side_by_side:
        if not q_num_heads or not kv_num_heads:
            raise ValueError("onnx.ops.attention: q_num_heads and kv_num_heads are needed for inputs of 3 dims")
        Q, K, V = (t.reshape(t.shape[0], t.shape[1], n, -1).transpose(1, 2)
                   for t, n in ((Q, q_num_heads), (K, kv_num_heads), (V, kv_num_heads)))
    K = K if past_key is None else ops["cat"]([past_key, K], 2)
    V = V if past_value is None else ops["cat"]([past_value, V], 2)
    shared = Q.shape[1] // K.shape[1]
    keys, values = (t.repeat_interleave(shared, 1) if shared > 1 else t for t in (K, V))
    root = math.sqrt(scale if scale is not None else 1 / math.sqrt(Q.shape[-1]))
    scores = (Q * root) @ (keys * root).transpose(-1, -2)
    seen = [scores]
    bias = _bias(Q, keys, attn_mask, is_causal, 0 if past_key is None else past_key.shape[2])
    scores = scores if bias is None else scores + bias
    seen.append(scores)
    if softcap:
        scores = ops["tanh"](scores / softcap) * softcap
    seen.append(scores)
    kind = scores.dtype if softmax_precision is None else BY_CODE[_code(softmax_precision)]
    weights = scores.to(kind).softmax(-1).to(values.dtype)
    seen.append(weights)
    result = weights @ values
    if side_by_side:
        result = result.transpose(1, 2).flatten(2)
    return result, K, V, seen[qk_matmul_output_mode]


def _bias(Q: Any, keys: Any, attn_mask: Any, is_causal: bool, past: Any) -> Any:
    found = None
    if is_causal:
        i = ops["arange"](Q.shape[2], device=Q.device).unsqueeze(1) + past
        allowed = ops["arange"](keys.shape[2], device=Q.device) <= i
        found = ops["where"](allowed, 0.0, -math.inf).to(Q.dtype)
    if attn_mask is not None:
        own = attn_mask
        if own.dtype is _C.bool:
            own = ops["where"](own, 0.0, -math.inf).to(Q.dtype)
        found = own if found is None else found + own
    return found


def aten_decompositions() -> dict[Any, Callable]:
    """Operators that are computed here, by their overloads: `exported.run_decompositions(...)` takes the table."""
    return {_rotary._opoverload: turned, _attention._opoverload: attended}
