"""What schedules of data sparsifiers share: counting steps, setting one of the settings, saving where they are."""

from __future__ import annotations

import abc
from typing import Any

from ...scheduler.base_scheduler import count_steps, warn_if_not_stepped
from ..data_sparsifier import BaseDataSparsifier

__all__ = ["BaseDataScheduler"]


class BaseDataScheduler:
    """Sets `schedule_param` of a data sparsifier's groups at each step; subclasses say it in `get_schedule_param`."""

    def __init__(
        self, data_sparsifier: BaseDataSparsifier, schedule_param: str, last_epoch: int = -1, verbose: bool = False
    ) -> None:
        if not isinstance(data_sparsifier, BaseDataSparsifier):
            raise TypeError(
                f"data_sparsifier: {type(data_sparsifier).__name__} is not an instance of BaseDataSparsifier"
            )
        count_steps(data_sparsifier)
        self.data_sparsifier, self.schedule_param, self.verbose = data_sparsifier, schedule_param, verbose
        self.last_epoch, self._step_count = last_epoch, 0
        self._get_sp_called_within_step = False
        self.base_param = self._params()
        self.step()

    def _params(self) -> dict[str, Any]:
        groups = self.data_sparsifier.data_groups
        return {name: config.get(self.schedule_param, None) for name, config in groups.items()}

    @abc.abstractmethod
    def get_schedule_param(self) -> dict[str, Any]:
        """The setting of each group for `last_epoch`; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__}.get_schedule_param is not defined")

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"{name} (\nData Sparsifier {self.data_sparsifier}\n    {self.schedule_param}: {self.base_param}\n)"

    def state_dict(self) -> dict[str, Any]:
        """Everything but the sparsifier."""
        return {key: value for key, value in self.__dict__.items() if key != "data_sparsifier"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where another schedule was."""
        self.__dict__.update(state_dict)

    def get_last_param(self) -> dict[str, Any]:
        """The settings set last."""
        return self._last_param

    def step(self) -> None:
        """Set the settings of the next epoch."""
        if self._step_count == 1:
            warn_if_not_stepped(self.data_sparsifier, "data_sparsifier")
        self._step_count += 1
        self._get_sp_called_within_step = True
        try:
            self.last_epoch += 1
            params = self.get_schedule_param()
        finally:
            self._get_sp_called_within_step = False
        for name, param in params.items():
            self.data_sparsifier.data_groups[name][self.schedule_param] = param
            if self.verbose:
                print(f"Adjusting {self.schedule_param} for group {name} to {param}")  # noqa: T201 - asked for
        self._last_param = self._params()
        self.data_sparsifier.enable_mask_update = True
