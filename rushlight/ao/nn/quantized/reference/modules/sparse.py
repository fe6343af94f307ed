"""Tables whose rows are rounded to integers and back on every call."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from ......_C import Tensor
from ......nn import functional as F
from ......nn.modules import sparse as floats
from .utils import ReferenceQuantizedModule

__all__ = ["Embedding", "EmbeddingBag"]


_LOOKUP = ("padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse")
_SUMS = ("max_norm", "norm_type", "scale_grad_by_freq", "mode", "sparse", "include_last_offset", "padding_idx")


class _Table(ReferenceQuantizedModule):
    """What both tables share, after their float class in the bases."""

    _SETTINGS: ClassVar[tuple[str, ...]]

    def _get_name(self) -> str:
        return "QuantizedEmbedding(Reference)"

    def _settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._SETTINGS}

    @classmethod
    def _made(cls, mod: Any, weight_qparams: dict[str, Any]) -> Self:
        settings = {name: getattr(mod, name) for name in cls._SETTINGS}
        rows = mod.weight
        return cls(
            mod.num_embeddings, mod.embedding_dim, **settings, _weight=rows, device=rows.device, dtype=rows.dtype,
            weight_qparams=weight_qparams,
        )


class Embedding(_Table, floats.Embedding):
    """Rows of a table, as their integers give them."""

    _SETTINGS = _LOOKUP

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False, _weight: Tensor | None = None,
        device: Any = None, dtype: Any = None, weight_qparams: dict[str, Any] | None = None,
    ) -> None:
        given = (padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
        super().__init__(
            num_embeddings, embedding_dim, **dict(zip(_LOOKUP, given)), _weight=_weight, device=device, dtype=dtype
        )
        self._init_weight_qparams(weight_qparams, device)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(input, self.get_weight(), **self._settings())

    @classmethod
    def from_float(cls, mod: Any, weight_qparams: dict[str, Any]) -> Self:
        """From a float table and the qparams of its rows."""
        return cls._made(mod, weight_qparams)


class EmbeddingBag(_Table, floats.EmbeddingBag):
    """Sums or means of rows, as their integers give them."""

    _SETTINGS = _SUMS

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, _weight: Tensor | None = None,
        include_last_offset: bool = False, padding_idx: int | None = None, device: Any = None, dtype: Any = None,
        weight_qparams: dict[str, Any] | None = None,
    ) -> None:
        given = (max_norm, norm_type, scale_grad_by_freq, mode, sparse, include_last_offset, padding_idx)
        super().__init__(
            num_embeddings, embedding_dim, **dict(zip(_SUMS, given)), _weight=_weight, device=device, dtype=dtype
        )
        self._init_weight_qparams(weight_qparams, device)

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        return F.embedding_bag(
            input, self.get_weight(), offsets, per_sample_weights=per_sample_weights, **self._settings()
        )

    @classmethod
    def from_float(
        cls, mod: Any, weight_qparams: dict[str, Any], use_precomputed_fake_quant: bool = False
    ) -> Self:
        """From a float layer and the qparams of its rows."""
        return cls._made(mod, weight_qparams)
