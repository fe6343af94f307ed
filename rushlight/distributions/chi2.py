"""The chi-squared distribution."""

from __future__ import annotations

from typing import Any

from .._C import Tensor
from . import constraints
from .gamma import Gamma

__all__ = ["Chi2"]


class Chi2(Gamma):
    """The sum of `df` squares of standard normals: Gamma(df / 2, 1 / 2)."""

    arg_constraints = {"df": constraints.positive}
    _batched = Gamma._batched

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        return self.concentration * 2
