"""Tables that train with rounded rows.

Enters: indices. Leaves: rows of the table as `weight_fake_quant` gives it. Refuses: qconfigs that do not round each row
by a float scale and zero point.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from ....._C import Tensor
from .....base.quantizers import per_channel_affine_float_qparams
from .....nn import Module, Parameter, functional as F
from .....nn.modules import sparse as floats
from ...sources import expect_class, expect_given_qconfig, expect_qconfig

__all__ = ["Embedding", "EmbeddingBag"]


def _expect_row_scales(name: str, qconfig: Any) -> None:
    qscheme = qconfig.weight().qscheme
    if qscheme != per_channel_affine_float_qparams:
        raise AssertionError(
            f"{name} weights requires a qscheme of {per_channel_affine_float_qparams}, Got {qscheme}. Use"
            " default_embedding_qat_qconfig"
        )


class _Rounded(Module):
    """What both tables share, before their float class in the bases."""

    _FLOAT_MODULE: ClassVar[type[Module]]

    def _round_weights(self, qconfig: Any, device: Any, dtype: Any) -> None:
        _expect_row_scales(type(self).__name__, expect_given_qconfig(self, qconfig))
        self.qconfig = qconfig
        self.weight_fake_quant = qconfig.weight(factory_kwargs={"device": device, "dtype": dtype})

    @classmethod
    def _source(cls, mod: Any) -> Any:
        method = f"qat.{cls.__name__}.from_float"
        expect_class(method, mod, cls._FLOAT_MODULE)
        _expect_row_scales(cls.__name__, expect_qconfig(method, mod))
        return mod.qconfig

    def _with_float_rows(self, result: Any) -> Any:
        result.weight = Parameter(self.weight.detach())
        return result.train(self.training)


class Embedding(_Rounded, floats.Embedding):
    """A table with rounded rows."""

    _FLOAT_MODULE: ClassVar[type[Module]] = floats.Embedding

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False, _weight: Tensor | None = None,
        device: Any = None, dtype: Any = None, qconfig: Any = None,
    ) -> None:
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight,
            device=device, dtype=dtype,
        )
        self._round_weights(qconfig, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input, self.weight_fake_quant(self.weight), self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.sparse,
        )

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Self:
        """From a float table with a qconfig."""
        qconfig = cls._source(mod)
        return cls(
            mod.num_embeddings, mod.embedding_dim, mod.padding_idx, mod.max_norm, mod.norm_type,
            mod.scale_grad_by_freq, mod.sparse, mod.weight, qconfig=qconfig,
        )

    def to_float(self) -> floats.Embedding:
        """The float table with these rows, unrounded."""
        return self._with_float_rows(floats.Embedding(
            self.num_embeddings, self.embedding_dim, self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.sparse,
        ))


class EmbeddingBag(_Rounded, floats.EmbeddingBag):
    """Sums or means of rounded rows."""

    _FLOAT_MODULE: ClassVar[type[Module]] = floats.EmbeddingBag

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, _weight: Tensor | None = None,
        include_last_offset: bool = False, padding_idx: int | None = None, qconfig: Any = None, device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            num_embeddings, embedding_dim, max_norm, norm_type, scale_grad_by_freq, mode, sparse, _weight,
            include_last_offset, padding_idx, device=device, dtype=dtype,
        )
        self._round_weights(qconfig, device, dtype)

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        return F.embedding_bag(
            input, self.weight_fake_quant(self.weight), offsets, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.mode, self.sparse, per_sample_weights, self.include_last_offset,
            self.padding_idx,
        )

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Self:
        """From a float layer with a qconfig."""
        qconfig = cls._source(mod)
        return cls(
            mod.num_embeddings, mod.embedding_dim, mod.max_norm, mod.norm_type, mod.scale_grad_by_freq, mod.mode,
            mod.sparse, mod.weight, mod.include_last_offset, mod.padding_idx, qconfig=qconfig,
        )

    def to_float(self) -> floats.EmbeddingBag:
        """The float layer with these rows, unrounded."""
        return self._with_float_rows(floats.EmbeddingBag(
            self.num_embeddings, self.embedding_dim, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode,
            self.sparse, None, self.include_last_offset, self.padding_idx,
        ))
