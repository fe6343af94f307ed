"""MultiheadAttention as a layer.

Enters: queries, keys and values, [L, N, E] (or [N, L, E] with batch_first, or [L, E] alone). Leaves: the attended
values and, if asked for, the attention weights. Refuses: heads that do not divide the width.
"""

from __future__ import annotations

from typing import Any

from ..._C import Tensor
from ...op import find_op
from .. import functional as F, init
from ..parameter import Parameter
from . import inference
from .descriptions import describe_layers
from .linear import NonDynamicallyQuantizableLinear
from .module import Module

_empty = find_op("empty")


class MultiheadAttention(Module):
    """Attention in several subspaces at once, with learned projections around it.

    Arguments:
        embed_dim: features of each step
        num_heads: attention heads
        add_bias_kv: whether a learned step is added to keys and values
        add_zero_attn: whether a step of zeros is added to keys and values
        kdim: features of keys; embed_dim if None
        vdim: features of values; embed_dim if None

    Shape:
        query (L, N, embed_dim), key (S, N, kdim), value (S, N, vdim), or N first with batch_first; output (L, N,
        embed_dim) and the weights (N, L, S)

    Example:
        >>> layer = rl.nn.MultiheadAttention(8, 2, batch_first=True)
        >>> tuple(layer(*3 * (rl.ones(2, 5, 8),))[0].shape)
        (2, 5, 8)
    """

    __constants__ = ("batch_first",)
    bias_k: Tensor | None
    bias_v: Tensor | None

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
        add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
        device: Any = None, dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads: expected numbers above 0, got embed_dim={embed_dim}, num_heads={num_heads}"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        options = {"device": device, "dtype": dtype}

        def matrix(*shape: int, wanted: bool = True) -> Parameter | None:
            return Parameter(_empty(shape, **options)) if wanted else None

        packed = self._qkv_same_embed_dim
        if packed:
            self.register_parameter("in_proj_weight", matrix(3 * embed_dim, embed_dim))
        for name, width in (("q_proj_weight", embed_dim), ("k_proj_weight", self.kdim), ("v_proj_weight", self.vdim)):
            self.register_parameter(name, matrix(embed_dim, width, wanted=not packed))
        if not packed:
            self.register_parameter("in_proj_weight", None)
        self.register_parameter("in_proj_bias", matrix(3 * embed_dim, wanted=bias))
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **options)
        self.bias_k, self.bias_v = (matrix(1, 1, embed_dim, wanted=add_bias_kv) for _ in range(2))
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (
            (self.in_proj_weight,)
            if self._qkv_same_embed_dim
            else (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        ):
            init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"_qkv_same_embed_dim": True, **state})

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None, average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """(attended values, weights or None). Boolean masks are True where attention is not allowed;
        other masks are added."""
        if (
            not need_weights
            and query is key is value
            and inference.is_simple_attention(self, query, attn_mask, key_padding_mask, is_causal)
        ):
            if inference.is_plain(
                self, query, self.in_proj_weight, self.in_proj_bias, self.out_proj.weight, self.out_proj.bias
            ):
                return (
                    inference.attend(
                        self, query, inference.joined_mask(attn_mask, key_padding_mask, query, self.num_heads)
                    ),
                    None,
                )
        transposed = self.batch_first and query.dim() == 3
        if transposed:
            query, key, value = _transposed(query, key, value)
        separate = {} if self._qkv_same_embed_dim else {
            "use_separate_proj_weight": True, "q_proj_weight": self.q_proj_weight, "k_proj_weight": self.k_proj_weight,
            "v_proj_weight": self.v_proj_weight,
        }
        attended, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias,
            training=self.training, key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
            average_attn_weights=average_attn_weights, is_causal=is_causal, **separate,
        )
        return (attended.transpose(1, 0) if transposed else attended), weights

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """(one mask, its kind: 0 attention, 1 padding, 2 both), broadcast over batch and heads when both are given."""
        if key_padding_mask is None:
            return attn_mask, None if attn_mask is None else 0
        if attn_mask is None:
            return key_padding_mask, 1
        batch, length = query.shape[:2]
        wide = (
            attn_mask.view(batch, -1, length, length)
            if attn_mask.dim() == 3
            else attn_mask.view(1, 1, length, length).expand(batch, self.num_heads, -1, -1)
        )
        return wide + key_padding_mask.view(batch, 1, 1, length).expand(-1, self.num_heads, -1, -1), 2


def _transposed(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Batch second, with the same tensor staying the same: one product then projects all three."""
    q = query.transpose(1, 0)
    k = q if key is query else key.transpose(1, 0)
    v = k if value is key else value.transpose(1, 0)
    return q, k, v


describe_layers(globals())
