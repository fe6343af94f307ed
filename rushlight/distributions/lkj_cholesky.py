"""Random correlation matrices, as Cholesky factors."""

from __future__ import annotations

import math
from typing import Any

from .._C import Tensor
from ..base.dtype import finfo
from ..base.shape import Size
from ..op import find_op
from . import constraints
from .beta import Beta
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["LKJCholesky"]

_arange, _cat, _mvlgamma, _randn = find_op("arange"), find_op("cat"), find_op("mvlgamma"), find_op("randn")


class LKJCholesky(Distribution):
    """Factors L of `dim` x `dim` correlation matrices M = L L^T of density proportional to det(M)**(concentration - 1).

    At concentration one all correlation matrices are equally likely; above, they crowd around the identity. Draws are
    made row by row (the onion method of Lewandowski, Kurowicka and Joe, 2009).
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _batched = ("concentration", "_beta")
    _carried = ("dim",)

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"LKJCholesky: expected an integer dim of at least 2, got dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        rows = _arange(dim - 1, dtype=self.concentration.dtype, device=self.concentration.device)
        rows = _cat([rows.new_zeros((1,)), rows])
        marginal = self.concentration + 0.5 * (dim - 2)
        self._beta = Beta(rows + 0.5, marginal.unsqueeze(-1) - 0.5 * rows)
        super().__init__(self.concentration.shape, Size((dim, dim)), validate_args)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        length = self._beta.sample(sample_shape).unsqueeze(-1)
        normal = _randn(self._extended_shape(sample_shape), dtype=length.dtype, device=length.device).tril(-1)
        direction = normal / normal.norm(dim=-1, keepdim=True)
        direction[..., 0, :].fill_(0.0)  # the first row has nothing below the diagonal, and zero length
        below = length.sqrt() * direction
        diagonal = (1 - below.pow(2).sum(-1)).clamp(min=finfo(below.dtype).tiny).sqrt()
        return below + diagonal.diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        a, rows = self.concentration, self.dim - 1
        exponent = 2 * (a - 1).unsqueeze(-1) + self.dim - _arange(2, self.dim + 1, device=a.device)
        density = (exponent * value.diagonal(dim1=-1, dim2=-2)[..., 1:].log()).sum(-1)
        top = a + 0.5 * rows
        return density - (0.5 * rows * math.log(math.pi) + _mvlgamma(top - 0.5, rows) - top.lgamma() * rows)
