"""Levels that are the first one times a function of the epoch."""

from __future__ import annotations

from collections.abc import Callable

from ..sparsifier.base_sparsifier import BaseSparsifier
from .base_scheduler import BaseScheduler

__all__ = ["LambdaSL"]


class LambdaSL(BaseScheduler):
    """The first level times `sl_lambda(epoch)`, one function for all groups or one for each."""

    def __init__(
        self,
        sparsifier: BaseSparsifier,
        sl_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.sparsifier = sparsifier
        self.sl_lambdas = self._make_sure_a_list(sl_lambda)
        super().__init__(sparsifier, last_epoch, verbose)

    def get_sl(self) -> list[float]:
        self._warn_outside_step()
        return [base * function(self.last_epoch) for function, base in zip(self.sl_lambdas, self.base_sl)]
