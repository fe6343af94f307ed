"""Levels that grow fast at first and slowly towards the end, as a cubic."""

from __future__ import annotations

from typing import Any

from ..sparsifier.base_sparsifier import BaseSparsifier
from .base_scheduler import BaseScheduler, one_per_group

__all__ = ["CubicSL"]


class CubicSL(BaseScheduler):
    """From `init_sl` at epoch `init_t` to each group's own level, `total_t` steps of `delta_t` epochs later.

    All may be one value or one per group. With `initially_zero`, the level is 0 before `init_t`.
    """

    def __init__(
        self, sparsifier: BaseSparsifier, init_sl: Any = 0.0, init_t: Any = 0, delta_t: Any = 10, total_t: Any = 100,
        initially_zero: Any = False, last_epoch: int = -1, verbose: bool = False,
    ) -> None:
        given = (init_sl, init_t, delta_t, total_t, initially_zero)
        self.init_sl, self.init_t, self.delta_t, self.total_t, self.initially_zero = (
            one_per_group(sparsifier, each) for each in given
        )
        super().__init__(sparsifier, last_epoch=last_epoch, verbose=verbose)

    @staticmethod
    def sparsity_compute_fn(
        s_0: float, s_f: float, t: float, t_0: float, dt: float, n: float, initially_zero: bool = False
    ) -> float:
        """The level at epoch `t`: between `s_0` and `s_f`, `n` steps of `dt` epochs from `t_0` on."""
        if t < t_0 and initially_zero:
            return 0
        still_to_go = 1.0 - (t - t_0) / (dt * n)
        level = s_f + (s_0 - s_f) * still_to_go**3
        return max(s_0, min(s_f, level))

    def get_sl(self) -> list[float]:
        self._warn_outside_step()
        ends, times = zip(self.init_sl, self.base_sl), zip(self.init_t, self.delta_t, self.total_t)
        return [
            self.sparsity_compute_fn(*levels, self.last_epoch, *when, initially_zero=zero)
            for levels, when, zero in zip(ends, times, self.initially_zero)
        ]
