"""When parameters are averaged over processes."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from ...groups import resolve
from .utils import average_parameters_or_parameter_groups

__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager(ABC):
    """Something that averages parameters at some of its steps."""

    def __init__(self, process_group: Any = None) -> None:
        self.process_group = resolve(process_group)
        self.step = 0

    @abstractmethod
    def average_parameters(self, params: Iterable[Any]) -> None:
        """A step has ended."""


class PeriodicModelAverager(ModelAverager):
    """Averages at every `period`-th step, after `warmup_steps` without."""

    def __init__(self, period: int, warmup_steps: int = 0, process_group: Any = None) -> None:
        super().__init__(process_group)
        if warmup_steps < 0 or period < 1:
            raise ValueError(
                f"PeriodicModelAverager: period must be positive and warmup_steps not negative, got {period} and "
                f"{warmup_steps}"
            )
        if period == 1:
            warnings.warn("PeriodicModelAverager(period=1) averages at every step: averaging gradients costs less",
                          stacklevel=2)
        self.warmup_steps, self.period = warmup_steps, period

    def average_parameters(self, params: Iterable[Any]) -> None:
        """A step has ended: average if it is time. `params` are parameters, or an optimizer's groups of them."""
        if self.step >= self.warmup_steps and (self.step - self.warmup_steps) % self.period == 0:
            average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1
