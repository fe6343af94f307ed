"""Tables of rows in bytes or half bytes, each row with a float scale and zero point.

Enters: indices. Leaves: float rows, or sums of them. Refuses: weights of other dtypes and schemes.
"""

from __future__ import annotations

from typing import Any, Self

from ..... import _C, ops
from ....._C import Tensor
from .....base.quantizers import per_channel_affine_float_qparams
from .....nn import Module
from .....nn.modules import sparse as floats
from .....op import find_op
from ....quantization.qconfig import float_qparams_weight_only_qconfig
from ...qat.modules import embedding_ops as rounded
from ...sources import expect_class, expect_qconfig
from .utils import _hide_packed_params_repr, _quantize_weight

__all__ = ["EmbeddingPackedParams", "Embedding", "EmbeddingBag"]

_DTYPES = (_C.quint8, _C.quint4x2)


def _empty_rows(rows: int, width: int, dtype: _C.dtype) -> Tensor:
    return find_op("_empty_per_channel_affine_quantized")(
        [rows, width], scales=find_op("ones")(rows, dtype=_C.float32),
        zero_points=find_op("zeros")(rows, dtype=_C.float32), axis=0, dtype=dtype,
    )


class EmbeddingPackedParams(Module):
    """A table in the order its kernels read it; the state holds it as a tensor."""

    _version = 1

    def __init__(self, num_embeddings: int, embedding_dim: int, dtype: _C.dtype = _C.quint8) -> None:
        super().__init__()
        self.dtype = dtype
        self._expect_dtype()
        self.set_weight(_empty_rows(num_embeddings, embedding_dim, dtype))

    def _expect_dtype(self) -> None:
        if self.dtype not in _DTYPES:
            raise NotImplementedError(
                f"Unsupported dtype on quantized embedding! Supports quint8 and quint4x2. Got dtype: {self.dtype}"
            )

    def set_weight(self, weight: Tensor) -> None:
        """Pack a quantized table."""
        self._expect_dtype()
        self._packed_weight = ops.quantized.embedding_bag_prepack(weight)

    def _weight(self) -> Tensor:
        self._expect_dtype()
        return ops.quantized.embedding_bag_unpack(self._packed_weight)

    def forward(self, x: Any) -> Any:
        return x

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_weight"] = self._weight()

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *reports: list[str]
    ) -> None:
        self.dtype = state_dict.pop(prefix + "dtype")
        self.set_weight(state_dict.pop(prefix + "_packed_weight"))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *reports)

    def __repr__(self) -> str:
        return repr(self._weight())


class Embedding(Module):
    """Rows of a quantized table, as floats."""

    _version = 1
    _TABLES: tuple[type, type] = (floats.Embedding, rounded.Embedding)     # in floats, and trained with rounding

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False, _weight: Tensor | None = None,
        dtype: _C.dtype = _C.quint8,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.dtype = dtype
        if _weight is not None and list(_weight.shape) != [num_embeddings, embedding_dim]:
            raise AssertionError(
                f"_weight: expected num_embeddings rows of embedding_dim, {[num_embeddings, embedding_dim]}, got"
                f" {list(_weight.shape)}"
            )
        self._packed_params = EmbeddingPackedParams(num_embeddings, embedding_dim, dtype)
        self.set_weight(_empty_rows(num_embeddings, embedding_dim, _C.quint8) if _weight is None else _weight)

    def forward(self, indices: Tensor) -> Tensor:
        function = ops.quantized.embedding_4bit if self.dtype == _C.quint4x2 else ops.quantized.embedding_byte
        return function(self._packed_params._packed_weight, indices)

    def _get_name(self) -> str:
        return "QuantizedEmbedding"

    def __repr__(self) -> str:
        return _hide_packed_params_repr(self, EmbeddingPackedParams)

    def extra_repr(self) -> str:
        return (
            f"num_embeddings={self.num_embeddings}, embedding_dim={self.embedding_dim},"
            f" dtype={self._packed_params.dtype}, qscheme={self.weight().qscheme()}"
        )

    def set_weight(self, w: Tensor) -> None:
        """Pack a quantized table."""
        self._packed_params.set_weight(w)

    def weight(self) -> Tensor:
        """The table, unpacked."""
        return self._packed_params._weight()

    @classmethod
    def _observer_of(cls, mod: Any) -> Any:
        """The observer of a table's rows, after it looked at them. Refuses tables and observers that do not fit."""
        method, (plain, trained) = f"nnq.{cls.__name__}.from_float", cls._TABLES
        if hasattr(mod, "weight_fake_quant"):
            if cls is Embedding:
                expect_class(f"{method} with fake quant", mod, trained)
            observer = mod.weight_fake_quant
        else:
            expect_class(method, mod, plain)
            qconfig = expect_qconfig(method, mod, may_be_none=True)
            given = qconfig is not None and qconfig.weight is not None
            observer = (qconfig if given else float_qparams_weight_only_qconfig).weight()
        if observer.qscheme != per_channel_affine_float_qparams:
            raise AssertionError(
                f"{cls.__name__} quantization is only supported with float_qparams_weight_only_qconfig, got an observer"
                f" of {observer.qscheme}"
            )
        if observer.dtype not in _DTYPES:
            raise AssertionError(
                f"The only supported dtype for nnq.{cls.__name__} is torch.quint8 and torch.quint4x2, got"
                f" {observer.dtype}"
            )
        observer(mod.weight)
        return observer

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From a float table with a qconfig, or one trained with rounding."""
        observer = cls._observer_of(mod)
        weight = _quantize_weight(mod.weight.float(), observer)
        result = cls(mod.num_embeddings, mod.embedding_dim, dtype=observer.dtype)
        result.set_weight(weight)
        return result

    @classmethod
    def from_reference(cls, ref_embedding: Any) -> Self:
        """From a reference table."""
        return cls(
            ref_embedding.num_embeddings, ref_embedding.embedding_dim, ref_embedding.padding_idx,
            ref_embedding.max_norm, ref_embedding.norm_type, ref_embedding.scale_grad_by_freq, ref_embedding.sparse,
            ref_embedding.get_quantized_weight(), ref_embedding.weight_dtype,
        )


class EmbeddingBag(Embedding):
    """Sums of rows of a quantized table, as floats."""

    _version = 1
    _TABLES: tuple[type, type] = (floats.EmbeddingBag, rounded.EmbeddingBag)

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "sum", sparse: bool = False, _weight: Tensor | None = None,
        include_last_offset: bool = False, dtype: _C.dtype = _C.quint8,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, _weight=_weight, dtype=dtype)
        self.mode = mode
        self.pruned_weights = False
        self.include_last_offset = include_last_offset

    def forward(
        self, indices: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None,
        compressed_indices_mapping: Tensor | None = None,
    ) -> Tensor:
        half = self.dtype == _C.quint4x2
        function = ops.quantized.embedding_bag_4bit if half else ops.quantized.embedding_bag_byte
        return function(
            self._packed_params._packed_weight, indices, offsets, False, 0, self.pruned_weights, per_sample_weights,
            compressed_indices_mapping, self.include_last_offset,
        )

    def _get_name(self) -> str:
        return "QuantizedEmbeddingBag"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From a float layer with a qconfig, or one trained with rounding. Kernels only sum, whatever its mode."""
        observer = cls._observer_of(mod)
        weight = _quantize_weight(mod.weight.float(), observer)
        result = cls(
            mod.num_embeddings, mod.embedding_dim, max_norm=mod.max_norm, norm_type=mod.norm_type,
            scale_grad_by_freq=mod.scale_grad_by_freq, mode=mod.mode, sparse=mod.sparse,
            include_last_offset=mod.include_last_offset, dtype=observer.dtype,
        )
        result.set_weight(weight)
        return result

    @classmethod
    def from_reference(cls, ref_embedding_bag: Any) -> Self:
        """From a reference layer."""
        ref = ref_embedding_bag
        return cls(
            ref.num_embeddings, ref.embedding_dim, ref.max_norm, ref.norm_type, ref.scale_grad_by_freq, ref.mode,
            ref.sparse, ref.get_quantized_weight(), ref.include_last_offset, ref.weight_dtype,
        )
