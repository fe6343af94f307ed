"""Levels that are the first one times a function of the epoch."""

from __future__ import annotations

from collections.abc import Callable

from ..sparsifier.base_sparsifier import BaseSparsifier
from .base_scheduler import BaseScheduler, one_per_group

__all__ = ["LambdaSL"]

_Factor = Callable[[int], float]


class LambdaSL(BaseScheduler):
    """The first level times `sl_lambda(epoch)`, one function for all groups or one for each."""

    def __init__(self, sparsifier: BaseSparsifier, sl_lambda: _Factor | list[_Factor], last_epoch: int = -1,
                 verbose: bool = False) -> None:
        self.sl_lambdas = one_per_group(sparsifier, sl_lambda)
        super().__init__(sparsifier, last_epoch=last_epoch, verbose=verbose)

    def get_sl(self) -> list[float]:
        self._warn_outside_step()
        factors = [factor(self.last_epoch) for factor in self.sl_lambdas]
        return [first * factor for first, factor in zip(self.base_sl, factors)]
