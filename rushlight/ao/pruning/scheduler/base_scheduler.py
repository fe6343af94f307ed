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
        count_steps(sparsifier)
        self.sparsifier, self.verbose = sparsifier, verbose
        self.last_epoch, self._step_count = last_epoch, 0
        self._get_sl_called_within_step = False
        self.base_sl = self._levels()
        self.step()

    def _levels(self) -> list[float]:
        """The level of each group as it stands."""
        return [group["sparsity_level"] for group in self.sparsifier.groups]

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
        self._last_sl = self._levels()
        self.sparsifier.enable_mask_update = True

    def _make_sure_a_list(self, var: Any) -> list[Any]:
        """`one_per_group` of this schedule's sparsifier."""
        return one_per_group(self.sparsifier, var)


def one_per_group(sparsifier: Any, given: Any) -> list[Any]:
    """A value for each group of a sparsifier: those of the list given, or the one given for all. Refuses another number
    of values than there are groups."""
    count = len(sparsifier.groups)
    row = list(given) if isinstance(given, (list, tuple)) else [given] * count
    if len(row) != count:
        raise ValueError(f"expected one value, or a list of one for each of the {count} groups; got {len(row)} values")
    return row


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
            f"`{name}.step` was replaced after the schedule was made, so it cannot be seen whether it runs before"
            " `scheduler.step()`, as it has to.", UserWarning, stacklevel=3)
    elif sparsifier._step_count < 1:
        warnings.warn(
            f"`scheduler.step()` was called before `{name}.step()`, so no mask was made with the first level: let"
            f" {name} step first.", UserWarning, stacklevel=3)
