"""Attention whose projections are layers that can be observed.

Enters: query, key, value. Leaves: attended values and weights. Refuses: causal flags (give a mask), masks of sizes that
do not fit.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, NoReturn

from ..... import _C
from ....._C import Tensor
from .....base import late
from .....nn import Module, Parameter, functional as F
from .....nn.modules import multihead as floats
from .....nn.modules.linear import Linear
from .....op import find_op
from ....quantization.stubs import DeQuantStub, QuantStub
from ...quantized.modules.functional_modules import FloatFunctional
from ...sources import expect_class

__all__ = ["MultiheadAttention"]

_PROJECTIONS = ("linear_Q", "linear_K", "linear_V")


def _as_bool(mask: Tensor | None, name: str) -> Tensor | None:
    if mask is None or mask.dtype != _C.uint8:
        return mask
    warnings.warn(f"Byte tensor for `{name}` in `nn.MultiheadAttention` is deprecated: give booleans", stacklevel=4)
    return mask.to(_C.bool)


class MultiheadAttention(floats.MultiheadAttention):
    """Attention with a linear layer for each of its four projections."""

    _FLOAT_MODULE: ClassVar[type[Module]] = floats.MultiheadAttention
    __constants__ = ["batch_first"]

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
        add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
        device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__(
            embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first, device=device,
            dtype=dtype,
        )
        options = {"bias": bias, "device": device, "dtype": dtype}
        self.linear_Q = Linear(self.embed_dim, self.embed_dim, **options)
        self.linear_K = Linear(self.kdim, self.embed_dim, **options)
        self.linear_V = Linear(self.vdim, self.embed_dim, **options)
        self.out_proj = Linear(self.embed_dim, self.embed_dim, **options)
        self.q_scaling_product = FloatFunctional()
        self.quant_attn_output = QuantStub()
        self.quant_attn_output_weights = QuantStub()
        self.dequant_q = DeQuantStub()
        self.dequant_k = DeQuantStub()
        self.dequant_v = DeQuantStub()

    def _get_name(self) -> str:
        return "QuantizableMultiheadAttention"

    @classmethod
    def from_float(cls, other: Any) -> Any:
        """From a float module with a qconfig: the module, with observers at its parts."""
        expect_class("quantizable.MultiheadAttention.from_float", other, cls._FLOAT_MODULE)
        if not hasattr(other, "qconfig"):
            raise AssertionError("quantizable.MultiheadAttention.from_float: The float module must have 'qconfig'")
        observed = cls(
            other.embed_dim, other.num_heads, other.dropout, other.in_proj_bias is not None, other.bias_k is not None,
            other.add_zero_attn, other.kdim, other.vdim, other.batch_first,
        )
        observed.bias_k, observed.bias_v = other.bias_k, other.bias_v
        observed.qconfig = other.qconfig
        observed.out_proj.weight, observed.out_proj.bias = other.out_proj.weight, other.out_proj.bias
        if other._qkv_same_embed_dim:
            weights = other.in_proj_weight.chunk(3)
        else:
            weights = other.q_proj_weight, other.k_proj_weight, other.v_proj_weight
        biases = (None,) * 3 if other.in_proj_bias is None else other.in_proj_bias.chunk(3)
        for name, weight, bias in zip(_PROJECTIONS, weights, biases):
            linear = getattr(observed, name)
            linear.weight = Parameter(weight, weight.requires_grad)
            linear.bias = None if bias is None else Parameter(bias, bias.requires_grad)
        return late.provided("quantization.prepare")(observed.eval(), inplace=True)

    def dequantize(self) -> Any:
        """The float module with the weights that the quantized ones stand for."""
        wanted = self.linear_Q._weight_bias()[1] is not None
        result: Any = self._FLOAT_MODULE(
            self.embed_dim, self.num_heads, self.dropout, wanted, self.bias_k is not None, self.add_zero_attn,
            self.kdim, self.vdim, self.batch_first,
        )
        for name in ("bias_k", "bias_v"):
            if getattr(self, name) is not None:
                setattr(result, name, Parameter(getattr(self, name).dequantize()))
        weight, bias = self.out_proj._weight_bias()
        result.out_proj.weight = Parameter(weight.dequantize())
        if bias is not None:
            result.out_proj.bias = Parameter(bias)
        parts = [getattr(self, name)._weight_bias() for name in _PROJECTIONS]
        weights, cat = [weight.dequantize() for weight, _ in parts], find_op("cat")
        if result._qkv_same_embed_dim:
            result.in_proj_weight = Parameter(cat(weights))
        else:
            for name, weight in zip(("q_proj_weight", "k_proj_weight", "v_proj_weight"), weights):
                setattr(result, name, Parameter(weight))
        if result.in_proj_bias is not None:
            result.in_proj_bias = Parameter(cat([bias for _, bias in parts]))
        return result

    @classmethod
    def from_observed(cls, other: Any) -> NoReturn:
        """Refuses: quantized.MultiheadAttention is what an observed module becomes."""
        raise NotImplementedError(
            f"quantizable.MultiheadAttention.from_observed: {type(other).__name__} becomes"
            " quantized.MultiheadAttention. Convert with the default convert_custom_config_dict"
        )

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None, average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """(attended values, weights or None), as of the float module."""
        return self._forward_impl(
            query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal
        )

    def _checked_mask(self, mask: Tensor | None, heads: int, targets: int, sources: int) -> Tensor | None:
        """The mask as [1 or heads, targets, sources]. Refuses other sizes and dtypes."""
        mask = _as_bool(mask, "attn_mask")
        if mask is None:
            return None
        if not mask.is_floating_point() and mask.dtype != _C.bool:
            raise AssertionError(f"attn_mask: expected floats or booleans, got {mask.dtype}")
        if mask.dim() not in (2, 3):
            raise RuntimeError(f"attn_mask's dimension {mask.dim()} is not supported")
        wanted = (targets, sources) if mask.dim() == 2 else (heads, targets, sources)
        if tuple(mask.shape) != wanted:
            raise RuntimeError(
                f"The size of the {mask.dim()}D attn_mask is not correct: expected {wanted}, got {tuple(mask.shape)}"
            )
        return mask.unsqueeze(0) if mask.dim() == 2 else mask

    def _by_head(self, x: Tensor, heads: int) -> Tensor:
        """[steps, batch, features] as [heads, steps, features of one]."""
        return x.contiguous().view(-1, heads, self.head_dim).transpose(0, 1)

    def _with_zero_step(self, x: Tensor) -> Tensor:
        """One more source, of zeros."""
        zeros = find_op("zeros")((x.size(0), 1, x.size(2)))
        if x.is_quantized:
            zeros = find_op("quantize_per_tensor")(zeros, x.q_scale(), x.q_zero_point(), x.dtype)
        return find_op("cat")([x, zeros], dim=1)

    def _forward_impl(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None, average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        if is_causal:
            raise AssertionError("is_causal=True has no kernel here: give the mask as attn_mask")
        if self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        targets, batch, width = query.size()
        if width != self.embed_dim:
            raise AssertionError(f"embed_dim mismatch: {self.embed_dim} != {width}")
        if key.shape[:2] != value.shape[:2]:
            raise AssertionError(
                f"key and value size mismatch: key.size()={key.size()}, value.size()={value.size()}"
            )
        heads, cat = batch * self.num_heads, find_op("cat")
        q, k, v = self.linear_Q(query), self.linear_K(key), self.linear_V(value)
        q = self.q_scaling_product.mul_scalar(q, float(self.head_dim) ** -0.5)
        attn_mask = self._checked_mask(attn_mask, heads, targets, key.size(0))
        key_padding_mask = _as_bool(key_padding_mask, "key_padding_mask")
        extra = 0
        if self.bias_k is not None and self.bias_v is not None:
            k, v = cat([k, self.bias_k.repeat(1, batch, 1)]), cat([v, self.bias_v.repeat(1, batch, 1)])
            extra += 1
        q, k, v = (self._by_head(x, heads) for x in (q, k, v))
        if self.add_zero_attn:
            k, v = self._with_zero_step(k), self._with_zero_step(v)
            extra += 1
        if extra and attn_mask is not None:
            attn_mask = F.pad(attn_mask, (0, extra))
        if extra and key_padding_mask is not None:
            key_padding_mask = F.pad(key_padding_mask, (0, extra))
        sources = k.size(1)
        if key_padding_mask is not None and tuple(key_padding_mask.shape) != (batch, sources):
            raise AssertionError(
                f"key_padding_mask.size must be {(batch, sources)}, got {tuple(key_padding_mask.shape)}"
            )
        weights, attended = self._attend(
            self.dequant_q(q), self.dequant_k(k), self.dequant_v(v), attn_mask, key_padding_mask, batch
        )
        if self.batch_first:
            # PyTorch reads the heads' results in this order, and models calibrated there rely on it: with more than one
            # head it is not the order of the float module.
            attended = attended.view(batch, targets, self.embed_dim)
        else:
            attended = attended.transpose(0, 1).contiguous().view(targets, batch, self.embed_dim)
        attended = self.out_proj(self.quant_attn_output(attended))
        weights = self.quant_attn_output_weights(weights)
        if not need_weights:
            return attended, None
        weights = weights.view(batch, self.num_heads, targets, sources)
        return attended, weights.mean(dim=1) if average_attn_weights else weights

    def _attend(
        self, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, batch: int
    ) -> tuple[Tensor, Tensor]:
        """(weights, attended values) of float heads."""
        bmm = find_op("bmm")
        scores = bmm(q, k.transpose(1, 2))
        if attn_mask is not None and attn_mask.dtype == _C.bool:
            scores = scores.masked_fill(attn_mask, float("-inf"))
        elif attn_mask is not None:
            scores = scores + attn_mask
        if key_padding_mask is not None:
            apart = scores.view(batch, self.num_heads, *scores.shape[1:])
            masked = apart.masked_fill(key_padding_mask.unsqueeze(1).unsqueeze(2), float("-inf"))
            scores = masked.view(scores.shape)
        weights = F.dropout(F.softmax(scores, dim=-1), p=self.dropout, training=self.training)
        return weights, bmm(weights, v)
