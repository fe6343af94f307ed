"""Causal biases: masks that attention recognises and need not read.

Enters: numbers of queries and keys. Leaves: a tensor subclass standing for the triangular mask, which
`scaled_dot_product_attention` takes as `attn_mask`. Refuses: being used together with is_causal.
"""

from __future__ import annotations

import enum
import warnings
from typing import Any

from ... import _C
from .. import functional as F


class CausalVariant(enum.IntEnum):
    """Which corner of the scores the diagonal starts from."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(_C.Tensor):
    """The triangular mask of causal attention: made only where a form of attention has to read it."""

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> CausalBias:
        return _C.empty((0,), None, _C.float32, _C.device("cpu")).as_subclass(cls)

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"CausalBias: variant must be a CausalVariant, got {type(variant).__name__}")
        self.variant, self.seq_len_q, self.seq_len_kv = variant, seq_len_q, seq_len_kv
        if seq_len_q > seq_len_kv and variant is CausalVariant.LOWER_RIGHT:
            warnings.warn(
                "Lower right causal bias leaves queries without keys when seq_len_q > seq_len_kv!", stacklevel=2
            )

    def _materialize(self, device: Any = None) -> Any:
        """The mask as a bool tensor."""
        shift = self.seq_len_kv - self.seq_len_q if self.variant is CausalVariant.LOWER_RIGHT else 0
        whole = _C.empty((self.seq_len_q, self.seq_len_kv), None, _C.bool, _C.device(device or "cpu"))
        return whole.fill_(True).tril(shift)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        if func is F.scaled_dot_product_attention:
            return _attend(*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs or {})

    def __repr__(self) -> str:
        return repr(self._materialize())


def _attend(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: CausalBias,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    if is_causal:
        raise ValueError("CausalBias should not be used with is_causal=True. Leave is_causal out.")
    upper = attn_mask.variant is CausalVariant.UPPER_LEFT or attn_mask.seq_len_q == attn_mask.seq_len_kv
    mask = None if upper else attn_mask._materialize(query.device)
    return F.scaled_dot_product_attention(query, key, value, mask, dropout_p, upper, scale=scale, enable_gqa=enable_gqa)


def causal_upper_left(*size: int) -> CausalBias:
    """The bias whose diagonal starts at the first key."""
    return _of(CausalVariant.UPPER_LEFT, size)


def causal_lower_right(*size: int) -> CausalBias:
    """The bias whose diagonal ends at the last key."""
    return _of(CausalVariant.LOWER_RIGHT, size)


def _of(variant: CausalVariant, size: tuple[int, ...]) -> CausalBias:
    if len(size) != 2:
        raise AssertionError(f"{variant.name.lower()} causal bias needs 2 sizes (queries, keys), got {len(size)}")
    return CausalBias(variant, *size)


__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]
