"""Tables of vectors looked up by index: Embedding and EmbeddingBag.

Enters: integer indices. Leaves: rows of the table, or reduced bags of them.
Refuses indices of padding outside the table.
"""

from __future__ import annotations

from typing import Any, Self

from ..._C import Tensor
from ...autograd.grad_mode import no_grad
from ...op import find_op
from .. import functional as F, init
from ..parameter import Parameter
from .descriptions import describe_layers
from .module import Module

_empty = find_op("empty")


def _padding_row(padding_idx: int | None, rows: int) -> int | None:
    """The row that stands for padding, as a non-negative number."""
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise AssertionError("padding_idx must be within num_embeddings")
    return padding_idx % rows if padding_idx < 0 else padding_idx


class _Table(Module):
    weight: Parameter

    def _make_weight(self, given: Tensor | None, frozen: bool, device: Any, dtype: Any) -> None:
        shape = (self.num_embeddings, self.embedding_dim)
        if given is None:
            self.weight = Parameter(_empty(shape, device=device, dtype=dtype), requires_grad=not frozen)
            self.reset_parameters()
        else:
            if tuple(given.shape) != shape:
                raise AssertionError("the weight's shape must be (num_embeddings, embedding_dim)")
            self.weight = Parameter(given, requires_grad=not frozen)

    def reset_parameters(self) -> None:
        """Normal rows; the padding row is zero."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)


class Embedding(_Table):
    """Rows of a learned table.

    Shape:
        indices of any shape (...); output (..., embedding_dim)

    Example:
        >>> layer = rl.nn.Embedding(10, 4)
        >>> tuple(layer(rl.tensor([[1, 2, 3]])).shape)
        (1, 3, 4)
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False, _weight: Tensor | None = None,
        _freeze: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = _padding_row(padding_idx, num_embeddings)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self._make_weight(_weight, _freeze, device, dtype)
        self.sparse = sparse

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}" + _unusual(self)

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
    ) -> Self:
        """A table of given vectors, not learned unless freeze is off."""
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, width = embeddings.shape
        return cls(
            rows,
            width,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight=embeddings,
            _freeze=freeze,
        )


class EmbeddingBag(_Table):
    """Sums, means or largest elements of bags of rows, without the rows in between.

    Arguments:
        mode: `sum`, `mean` or `max`
        include_last_offset: whether the last offset ends the last bag

    Shape:
        indices (N, L), or (L,) with offsets (N,); output (N, embedding_dim)

    Example:
        >>> layer = rl.nn.EmbeddingBag(10, 4)
        >>> tuple(layer(rl.tensor([[1, 2, 3]])).shape)
        (1, 4)
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, _weight: Tensor | None = None,
        include_last_offset: bool = False, padding_idx: int | None = None, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.padding_idx = _padding_row(padding_idx, num_embeddings)
        self._make_weight(_weight, False, device, dtype)
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode, self.sparse,
            per_sample_weights, self.include_last_offset, self.padding_idx,
        )

    def extra_repr(self) -> str:
        shown = {k: repr(v) for k, v in self.__dict__.items()}
        text = (
            f"{self.num_embeddings}, {self.embedding_dim}"
            + _unusual(self, padding_first=False)
            + f", mode={shown['mode']}"
        )
        return text if self.padding_idx is None else text + f", padding_idx={self.padding_idx}"

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Self:
        """A table of given vectors, not learned unless freeze is off."""
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, width = embeddings.shape
        result = cls(
            rows,
            width,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            embeddings,
            include_last_offset,
            padding_idx,
        )
        result.weight.requires_grad = not freeze
        return result


def _unusual(table: Any, padding_first: bool = True) -> str:
    """Settings that differ from their defaults."""
    found = [("padding_idx", table.padding_idx, None)] if padding_first else []
    found += [
        ("max_norm", table.max_norm, None),
        ("norm_type", table.norm_type, 2),
        ("scale_grad_by_freq", table.scale_grad_by_freq, False),
    ]
    if padding_first:
        found.append(("sparse", table.sparse, False))
    return "".join(
        f", {name}={value}" if name != "sparse" else ", sparse=True"
        for name, value, usual in found
        if value is not usual and value != usual
    )


describe_layers(globals())
