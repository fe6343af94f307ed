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


_LOOKUP = ("padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse")
_SUMS = ("max_norm", "norm_type", "scale_grad_by_freq", "mode", "sparse", "include_last_offset", "padding_idx")


class _Rounded(Module):
    """What both tables share, before their float class in the bases."""

    _FLOAT_MODULE: ClassVar[type[Module]]
    _SETTINGS: ClassVar[tuple[str, ...]]     # what calls need besides the rows

    num_embeddings: int
    embedding_dim: int
    weight: Any

    def _round_weights(self, qconfig: Any, device: Any, dtype: Any) -> None:
        _expect_row_scales(type(self).__name__, expect_given_qconfig(self, qconfig))
        self.qconfig = qconfig
        self.weight_fake_quant = qconfig.weight(factory_kwargs={"device": device, "dtype": dtype})

    def _settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._SETTINGS}

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Self:
        """From a float table with a qconfig."""
        method = f"qat.{cls.__name__}.from_float"
        expect_class(method, mod, cls._FLOAT_MODULE)
        qconfig = expect_qconfig(method, mod)
        _expect_row_scales(cls.__name__, qconfig)
        settings = {name: getattr(mod, name) for name in cls._SETTINGS}
        return cls(mod.num_embeddings, mod.embedding_dim, **settings, _weight=mod.weight, qconfig=qconfig)

    def to_float(self) -> Any:
        """The float table with these rows, unrounded."""
        result: Any = self._FLOAT_MODULE(self.num_embeddings, self.embedding_dim, **self._settings())
        result.weight = Parameter(self.weight.detach())
        return result.train(self.training)


class Embedding(_Rounded, floats.Embedding):
    """A table with rounded rows."""

    _FLOAT_MODULE: ClassVar[type[Module]] = floats.Embedding
    _SETTINGS = _LOOKUP

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False, _weight: Tensor | None = None,
        device: Any = None, dtype: Any = None, qconfig: Any = None,
    ) -> None:
        given = (padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
        super().__init__(
            num_embeddings, embedding_dim, **dict(zip(_LOOKUP, given)), _weight=_weight, device=device, dtype=dtype
        )
        self._round_weights(qconfig, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(input, self.weight_fake_quant(self.weight), **self._settings())


class EmbeddingBag(_Rounded, floats.EmbeddingBag):
    """Sums or means of rounded rows."""

    _FLOAT_MODULE: ClassVar[type[Module]] = floats.EmbeddingBag
    _SETTINGS = _SUMS

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, _weight: Tensor | None = None,
        include_last_offset: bool = False, padding_idx: int | None = None, qconfig: Any = None, device: Any = None,
        dtype: Any = None,
    ) -> None:
        given = (max_norm, norm_type, scale_grad_by_freq, mode, sparse, include_last_offset, padding_idx)
        super().__init__(
            num_embeddings, embedding_dim, **dict(zip(_SUMS, given)), _weight=_weight, device=device, dtype=dtype
        )
        self._round_weights(qconfig, device, dtype)

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        rows = self.weight_fake_quant(self.weight)
        return F.embedding_bag(input, rows, offsets, per_sample_weights=per_sample_weights, **self._settings())
