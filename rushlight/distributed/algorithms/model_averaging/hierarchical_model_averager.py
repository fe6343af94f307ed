"""Averages at several levels: often over a few processes, seldom over all."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from ...groups import new_subgroups
from .averagers import ModelAverager
from .utils import average_parameters_or_parameter_groups

__all__ = ["HierarchicalModelAverager"]


class HierarchicalModelAverager(ModelAverager):
    """Averages over groups whose size depends on the step (hierarchical SGD, Wang et al., 2020).

    Arguments:
        period_group_size_dict: period -> number of processes, both growing; the last group must be all processes. At a
            step that several periods divide, the longest of them counts
        warmup_steps: how many steps go without
        process_group: all processes that take part
    """

    def __init__(
        self, period_group_size_dict: Mapping[int, int] | None = None, warmup_steps: int = 0, process_group: Any = None
    ) -> None:
        super().__init__(process_group)
        if not period_group_size_dict:
            raise ValueError("HierarchicalModelAverager: period_group_size_dict must not be empty")
        self._periods = list(period_group_size_dict)
        if self._periods[0] <= 0 or warmup_steps < 0:
            raise ValueError(
                f"HierarchicalModelAverager: periods must be positive and warmup_steps not negative, got "
                f"{self._periods} and {warmup_steps}"
            )
        if self._periods[-1] == 1:
            warnings.warn(
                "HierarchicalModelAverager with period 1 averages at every step: averaging gradients costs less",
                stacklevel=2,
            )
        size = self.process_group.size()
        if list(period_group_size_dict.values())[-1] != size:
            raise ValueError(
                f"HierarchicalModelAverager: the last group must be all {size} processes, got {period_group_size_dict}"
            )
        self.period_process_group_dict = {
            period: self.process_group if count == size else new_subgroups(count, group=self.process_group)[0]
            for period, count in period_group_size_dict.items()
        }
        self.warmup_steps = warmup_steps

    def _find_process_group(self) -> Any:
        for period in reversed(self._periods):
            if self.step % period == 0:
                return self.period_process_group_dict[period]
        return None

    def average_parameters(self, params: Iterable[Any]) -> None:
        """A step has ended: average over the group whose turn it is."""
        group = self._find_process_group() if self.step >= self.warmup_steps else None
        if group is not None:
            average_parameters_or_parameter_groups(params, group)
        self.step += 1
