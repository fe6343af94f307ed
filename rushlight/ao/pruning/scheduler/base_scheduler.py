"""What schedules of sparsity share: counting steps, setting the level of each group, saving where they are."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any

from ..sparsifier.base_sparsifier import BaseSparsifier

__all__ = ["BaseScheduler"]


class BaseScheduler:
    """Sets the `sparsity_level` of a sparsifier's groups at each step; subclasses say it in `get_sl`."""

    def __init__(self, sparsifier: BaseSparsifier, last_epoch: int = -1, verbose: bool = False) -> None:
        if not isinstance(sparsifier, BaseSparsifier):
            raise TypeError(f"sparsifier: {type(sparsifier).__name__} is not an instance of ao.pruning.BaseSparsifier")
        self.sparsifier = sparsifier
        self.base_sl = [group["sparsity_level"] for group in sparsifier.groups]
        self.last_epoch = last_epoch
        count_steps(sparsifier)
        self._step_count: int = 0
        self.verbose = verbose
        self._get_sl_called_within_step: bool = False
        self.step()

    def state_dict(self) -> dict[str, Any]:
        """Everything but the sparsifier."""
        return {key: value for key, value in self.__dict__.items() if key != "sparsifier"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where another schedule was."""
        self.__dict__.update(state_dict)

    def get_last_sl(self) -> list[float]:
        """The levels set last."""
        return self._last_sl

    def get_sl(self) -> list[float]:
        """The level of each group for `last_epoch`; subclasses define it."""
        self._warn_outside_step()
        raise NotImplementedError(f"{type(self).__name__}.get_sl is not defined")

    def _warn_outside_step(self) -> None:
        if not self._get_sl_called_within_step:
            warnings.warn("get_sl() computes a new level; get_last_sl() tells the one that is set.", stacklevel=3)

    def print_sl(self, is_verbose: bool, group: int, sl: float, epoch: int | None = None) -> None:
        """Print the level of a group."""
        if is_verbose:
            when = "Adjusting" if epoch is None else f"Epoch {epoch:5d}: adjusting"
            print(f"{when} sparsity level of group {group} to {sl:.4e}.")  # noqa: T201 - asked for by `verbose`

    def __repr__(self) -> str:
        return f"{type(self).__name__} (\nSparsifier {self.sparsifier}\n    base_sl: {self.base_sl}\n)"

    def step(self, epoch: int | None = None) -> None:
        """Set the levels of the next epoch."""
        if self._step_count == 1:
            warn_if_not_stepped(self.sparsifier, "sparsifier")
        self._step_count += 1
        self._get_sl_called_within_step = True
        try:
            self.last_epoch += 1
            levels = self.get_sl()
        finally:
            self._get_sl_called_within_step = False
        for number, (group, level) in enumerate(zip(self.sparsifier.groups, levels)):
            group["sparsity_level"] = level
            self.print_sl(self.verbose, number, level, epoch)
        self._last_sl = [group["sparsity_level"] for group in self.sparsifier.groups]
        self.sparsifier.enable_mask_update = True

    def _make_sure_a_list(self, var: Any) -> list[Any]:
        """One value per group: the list given, or the value for each."""
        count = len(self.sparsifier.groups)
        if not isinstance(var, (list, tuple)):
            return [var] * count
        if len(var) != count:
            raise ValueError(f"Expected variable of length {count}, one value per group, but got {len(var)}")
        return list(var)


def count_steps(sparsifier: Any) -> None:
    """Let each `step` of a sparsifier count itself in `_step_count`, from 0."""
    if not getattr(sparsifier.step, "_with_counter", False):
        sparsifier.step = _counting(sparsifier.step)
    sparsifier._step_count = 0


def _counting(method: Any) -> Callable[..., Any]:
    to_sparsifier = weakref.ref(method.__self__)
    function = method.__func__

    @wraps(function)
    def step(*args: Any, **kwargs: Any) -> Any:
        sparsifier: Any = to_sparsifier()
        sparsifier._step_count += 1
        return function(sparsifier, *args, **kwargs)

    step._with_counter = True  # type: ignore[attr-defined]
    return step


def warn_if_not_stepped(sparsifier: Any, name: str) -> None:
    """Warn of a schedule that goes on before its sparsifier did."""
    if not hasattr(sparsifier.step, "_with_counter"):
        warnings.warn(
            f"`{name}.step()` was overridden after the schedule was made. Call `{name}.step()` before"
            " `scheduler.step()`.", UserWarning, stacklevel=3)
    elif sparsifier._step_count < 1:
        warnings.warn(
            f"Detected call of `scheduler.step()` before `{name}.step()`: the level it sets is skipped. Call"
            f" {name}.step() BEFORE any calls to the scheduler.step().", UserWarning, stacklevel=3)
