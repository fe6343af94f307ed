"""The Transformer: encoder and decoder layers, stacks of them, and both together.

Enters: sequences [L, N, E] (or [N, L, E] with batch_first, or [L, E] alone) and masks. Leaves: sequences of the same
shape. Refuses: batches and widths that do not fit each other, unknown activations.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

from ..._C import Tensor
from ...op import find_op
from .. import functional as F
from ..init import xavier_uniform_
from . import inference
from .activation import GELU, ReLU
from .container import ModuleList
from .descriptions import describe_layers
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .multihead import MultiheadAttention
from .normalization import LayerNorm


def _causal_mask(size: int, device: Any = None, dtype: Any = None) -> Tensor:
    """-inf above the diagonal, 0 elsewhere."""
    return find_op("full")((size, size), float("-inf"), device=device, dtype=dtype).triu(1)


def _is_causal_mask(mask: Tensor | None, told: bool | None) -> bool:
    """Whether a mask is the causal one: what the caller says, or a comparison."""
    if told is not None or mask is None:
        return bool(told)
    size = mask.size(-2)
    if tuple(mask.shape) != (size, size) or not mask.is_floating_point():
        return False
    return bool((mask == _causal_mask(size, mask.device, mask.dtype)).all())


def _added(mask: Tensor | None, like: Tensor, name: str) -> Tensor | None:
    """A mask to be added: a boolean one becomes -inf where it is True."""
    if mask is None or mask.is_floating_point():
        return mask
    if str(mask.dtype).rpartition(".")[2] != "bool":
        raise AssertionError(f"only bool and floating types of {name} are supported")
    return find_op("zeros_like")(mask, dtype=like.dtype).masked_fill_(mask, float("-inf"))


def _get_activation_fn(activation: Any) -> Callable[[Tensor], Tensor]:
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return getattr(F, activation)


def _get_clones(module: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


class TransformerEncoderLayer(Module):
    """Self-attention and a feed-forward network, each with a residual around it.

    Shape:
        input (S, N, d_model), or N first with batch_first; output of the same shape

    Example:
        >>> layer = rl.nn.TransformerEncoderLayer(8, 2, 16)
        >>> tuple(layer(rl.ones(5, 2, 8)).shape)
        (5, 2, 8)
    """

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1, activation: Any = F.relu,
        layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False, bias: bool = True,
        device: Any = None, dtype: Any = None,
    ) -> None:
        options = {"device": device, "dtype": dtype}
        super().__init__()
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **options
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **options)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **options)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **options)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **options)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = _get_activation_fn(activation)
        self.activation_relu_or_gelu = (
            1
            if self.activation is F.relu or isinstance(activation, ReLU)
            else 2 if self.activation is F.gelu or isinstance(activation, GELU) else 0
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not hasattr(self, "activation"):
            self.activation = F.relu

    def _is_plain(self, src: Tensor) -> bool:
        """Whether the layer may run without the steps that training needs."""
        if (
            not self.activation_relu_or_gelu
            or self.norm1.eps != self.norm2.eps
            or type(self) is not TransformerEncoderLayer
        ):
            return False
        return inference.is_plain(self, src, *self.parameters())

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        padding, mask = _added(src_key_padding_mask, src, "src_key_padding_mask"), _added(src_mask, src, "src_mask")
        if inference.is_simple_attention(self.self_attn, src, mask, padding, is_causal) and self._is_plain(src):
            return inference.encode(self, src, inference.joined_mask(mask, padding, src, self.self_attn.num_heads))
        if self.norm_first:
            x = src + self._sa_block(self.norm1(src), mask, padding, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(src + self._sa_block(src, mask, padding, is_causal))
        return self.norm2(x + self._ff_block(x))

    def _sa_block(
        self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        x = self.self_attn(
            x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, need_weights=False, is_causal=is_causal
        )[0]
        return self.dropout1(x)

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerDecoderLayer(Module):
    """Self-attention, attention to the encoder's output, and a feed-forward network, each with a residual.

    Shape:
        target (T, N, d_model) and memory (S, N, d_model), or N first with batch_first; output shaped as the target

    Example:
        >>> layer = rl.nn.TransformerDecoderLayer(8, 2, 16)
        >>> tuple(layer(rl.ones(5, 2, 8), rl.ones(3, 2, 8)).shape)
        (5, 2, 8)
    """

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1, activation: Any = F.relu,
        layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False, bias: bool = True,
        device: Any = None, dtype: Any = None,
    ) -> None:
        options = {"device": device, "dtype": dtype}
        super().__init__()
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, batch_first=batch_first, bias=bias, **options
        )
        self.multihead_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, batch_first=batch_first, bias=bias, **options
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **options)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **options)
        self.norm_first = norm_first
        for name in ("norm1", "norm2", "norm3"):
            setattr(self, name, LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **options))
        for name in ("dropout1", "dropout2", "dropout3"):
            setattr(self, name, Dropout(dropout))
        self.activation = _get_activation_fn(activation)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not hasattr(self, "activation"):
            self.activation = F.relu

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False, memory_is_causal: bool = False,
    ) -> Tensor:
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory_mask, memory_key_padding_mask, memory_is_causal)
        x = tgt
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *own)
            x = x + self._mha_block(self.norm2(x), memory, *other)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *own))
        x = self.norm2(x + self._mha_block(x, memory, *other))
        return self.norm3(x + self._ff_block(x))

    _sa_block = TransformerEncoderLayer._sa_block

    def _mha_block(
        self, x: Tensor, mem: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        x = self.multihead_attn(
            x, mem, mem, attn_mask=attn_mask, key_padding_mask=key_padding_mask, is_causal=is_causal, need_weights=False
        )[0]
        return self.dropout2(x)

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerEncoder(Module):
    """A stack of copies of an encoder layer, and a norm.

    Arguments:
        encoder_layer: the layer that is copied
        enable_nested_tensor: whether padding may be left out where possible
        mask_check: whether the mask is looked at for that

    Shape:
        input (S, N, d_model), or N first with batch_first; output of the same shape

    Example:
        >>> layer = rl.nn.TransformerEncoder(rl.nn.TransformerEncoderLayer(8, 2, 16), 2, enable_nested_tensor=False)
        >>> tuple(layer(rl.ones(5, 2, 8)).shape)
        (5, 2, 8)
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check
        reason = _why_not_nested(encoder_layer)
        self.use_nested_tensor = enable_nested_tensor and not reason
        if enable_nested_tensor and reason:
            warnings.warn(f"enable_nested_tensor=True has no effect here: {reason}", stacklevel=2)

    def _skips_padding(self, src: Tensor, mask: Tensor | None, padding: Tensor | None) -> bool:
        """Whether padded places come out as zeros, as they do in evaluation where PyTorch leaves them out."""
        if padding is None or mask is not None or src.dim() != 3 or not getattr(self, "use_nested_tensor", False):
            return False
        if not inference.is_plain(self.layers[0], src, *self.layers[0].parameters()):
            return False
        seen = padding == 0
        # padding comes last
        return not self.mask_check or bool((seen[:, :-1] | seen[:, 1:].logical_not()).all() & seen[:, 0].all())

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        padding, mask = _added(src_key_padding_mask, src, "src_key_padding_mask"), _added(mask, src, "mask")
        causal = _is_causal_mask(mask, is_causal)
        output = src
        for layer in self.layers:
            output = layer(output, src_mask=mask, is_causal=causal, src_key_padding_mask=padding)
        if self._skips_padding(src, mask, padding):
            output = output.masked_fill((padding != 0).unsqueeze(-1), 0.0)
        return output if self.norm is None else self.norm(output)


def _why_not_nested(layer: Any) -> str:
    """The reason padded places of an encoder's batches are not left out in evaluation; empty if they are."""
    if not isinstance(layer, TransformerEncoderLayer):
        return "encoder_layer was not TransformerEncoderLayer"
    reasons = (
        (layer.norm_first, "encoder_layer.norm_first was True"),
        (
            not layer.self_attn.batch_first,
            "encoder_layer.self_attn.batch_first was not True(use batch_first for better inference performance)",
        ),
        (not layer.self_attn._qkv_same_embed_dim, "encoder_layer.self_attn._qkv_same_embed_dim was not True"),
        (layer.self_attn.in_proj_bias is None, "encoder_layer.self_attn was passed bias=False"),
        (not layer.activation_relu_or_gelu, "encoder_layer.activation_relu_or_gelu was not True"),
        (layer.norm1.eps != layer.norm2.eps, "encoder_layer.norm1.eps was not equal to encoder_layer.norm2.eps"),
        (layer.self_attn.num_heads % 2 == 1, "encoder_layer.self_attn.num_heads is odd"),
    )
    return next((text for holds, text in reasons if holds), "")


class TransformerDecoder(Module):
    """A stack of copies of a decoder layer, and a norm.

    Arguments:
        decoder_layer: the layer that is copied

    Shape:
        target (T, N, d_model) and memory (S, N, d_model), or N first with batch_first; output shaped as the target

    Example:
        >>> layer = rl.nn.TransformerDecoder(rl.nn.TransformerDecoderLayer(8, 2, 16), 2)
        >>> tuple(layer(rl.ones(5, 2, 8), rl.ones(3, 2, 8)).shape)
        (5, 2, 8)
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None, memory_is_causal: bool = False,
    ) -> Tensor:
        causal = _is_causal_mask(tgt_mask, tgt_is_causal)
        output = tgt
        for layer in self.layers:
            output = layer(
                output, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )
        return output if self.norm is None else self.norm(output)


class Transformer(Module):
    """An encoder and a decoder that reads its output.

    Arguments:
        num_encoder_layers: layers of the encoder
        num_decoder_layers: layers of the decoder
        custom_encoder: in place of the encoder
        custom_decoder: in place of the decoder

    Shape:
        source (S, N, d_model) and target (T, N, d_model), or N first with batch_first; output shaped as the target

    Example:
        >>> layer = rl.nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
        >>> tuple(layer(rl.ones(2, 5, 8), rl.ones(2, 3, 8)).shape)
        (2, 3, 8)
    """

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6,
        dim_feedforward: int = 2048, dropout: float = 0.1, activation: Any = F.relu, custom_encoder: Any = None,
        custom_decoder: Any = None, layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False,
        bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:
        options = {"device": device, "dtype": dtype}
        layer = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        super().__init__()
        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **options)
            self.encoder = TransformerEncoder(TransformerEncoderLayer(*layer, **options), num_encoder_layers, norm)
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **options)
            self.decoder = TransformerDecoder(TransformerDecoderLayer(*layer, **options), num_decoder_layers, norm)
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self) -> None:
        for p in self.parameters():
            if p.dim() > 1:
                xavier_uniform_(p)

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None, tgt_is_causal: bool | None = None, memory_is_causal: bool = False,
    ) -> Tensor:
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and src.size(batch) != tgt.size(batch):
            raise RuntimeError("src and tgt must hold the same batch size")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the last dim of src and tgt must have size d_model")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """The mask that lets every place see itself and what came before."""
        return _causal_mask(sz, device, dtype)


describe_layers(globals())
