"""What schedulers share: the initial rates, the count of steps, and the watch over the order of calls.

Enters: an optimizer. Leaves: its groups' "lr", set at each `step` to what the subclass's `get_lr` says. Rates that are
tensors are written in place, so that whoever holds them sees the change. Refuses: resuming without "initial_lr".
"""

from __future__ import annotations

import functools
import types
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from ..._C import Tensor
from ..optimizer import Optimizer, _to_scalar

Rates = list[float | Tensor]

EPOCH_DEPRECATION_WARNING = (
    "the epoch parameter of scheduler.step() is deprecated: call it without, once an epoch. Where the scheduler has a "
    "closed form, the epoch given here is put into it; elsewhere the step is made "
    "as usual."
)


def check_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def copied(value: Any) -> Any:
    """A tensor's present value apart from the tensor; other things as they are."""
    return value.clone() if isinstance(value, Tensor) else value


def _format_param(name: str, optimizer: Optimizer, param: Any) -> list[Any]:
    """One value per group, from a list of them or one for all."""
    count = len(optimizer.param_groups)
    if not isinstance(param, (list, tuple)):
        return [copied(param) for _ in range(count)]
    if len(param) != count:
        raise ValueError(f"{name}: expected one value for each of the {count} param_groups, got {len(param)}.")
    return [copied(p) for p in param]


def _param_groups_val_list(optimizer: Optimizer, key: str) -> list[Any]:
    return [copied(group[key]) for group in optimizer.param_groups]


def _update_param_group_val(param_group: dict[str, Any], key: str, val: float | Tensor) -> None:
    if isinstance(param_group[key], Tensor):
        param_group[key].fill_(_to_scalar(val))
    else:
        param_group[key] = val


def note_steps(optimizer: Optimizer) -> None:
    """Let `optimizer.step` leave a note that it was called."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    own = weakref.ref(optimizer)   # the optimizer holds the function: it must not hold the optimizer
    func = getattr(optimizer.step, "__func__", None) or (
        lambda _, *args, step=optimizer.step, **kwargs: step(*args, **kwargs)
    )

    @functools.wraps(func)
    def step(*args: Any, **kwargs: Any) -> Any:
        optimizer = own()
        optimizer._opt_called = True
        return func(optimizer, *args, **kwargs)

    step._wrapped_by_lr_sched = True
    optimizer.step = step


class _While:
    """A flag of a scheduler, set inside a context."""

    flag = ""

    def __init__(self, o: LRScheduler) -> None:
        self.o = o

    def __enter__(self) -> _While:
        setattr(self.o, self.flag, True)
        return self

    def __exit__(self, *error: object) -> None:
        setattr(self.o, self.flag, False)


class _enable_get_lr_call(_While):  # noqa: N801
    """`get_lr` is called by a step, not by a user who wants `get_last_lr`."""

    flag = "_get_lr_called_within_step"


class _initial_mode(_While):  # noqa: N801
    """The step a scheduler makes when it is made."""

    flag = "_is_initial"


class LRScheduler:
    """Base of schedulers: subclasses give `get_lr`, the rates at `last_epoch`, and may give `_get_closed_form_lr`."""

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param_groups[{i}] has no 'initial_lr', which a scheduler that resumes (last_epoch >= 0) starts"
                    " from. Load the state of the optimizer first, or start with last_epoch=-1."
                )
        self.base_lrs: Rates = _param_groups_val_list(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        note_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        with _initial_mode(self):
            self.step()

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where `state_dict` was taken."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> Rates:
        """The rates set by the last step."""
        return self._last_lr

    def get_lr(self) -> Rates:
        """The rates at `last_epoch`; called by `step`, use `get_last_lr` to look at them."""
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Set the next rates; after `optimizer.step()`."""
        if self._step_count == 1:
            self._check_order()
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _check_order(self) -> None:
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            warnings.warn(
                "optimizer.step was overridden after the scheduler was made, so the order of calls cannot be checked: "
                "optimizer.step() comes first, then lr_scheduler.step().",
                UserWarning,
                stacklevel=3,
            )
        elif not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "`lr_scheduler.step()` was called before `optimizer.step()`. The other way round is right:"
                " `optimizer.step()` before `lr_scheduler.step()`. Otherwise the first value of the schedule is"
                " skipped.",
                UserWarning,
                stacklevel=3,
            )

    def _update_lr(self, epoch: int | None = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        with _enable_get_lr_call(self):
            closed = getattr(self, "_get_closed_form_lr", None) if epoch is not None else None
            self._set_rates(closed() if closed else self.get_lr())

    def _set_rates(self, rates: Rates) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            _update_param_group_val(group, "lr", rate)
        self._last_lr = _param_groups_val_list(self.optimizer, "lr")

    # What `get_lr` of most schedulers is made of

    def _current(self) -> Rates:
        return _param_groups_val_list(self.optimizer, "lr")

    def _times(self, factor: float) -> Rates:
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _base_times(self, factor: float) -> Rates:
        return [rate * factor for rate in self.base_lrs]


class _LRScheduler(LRScheduler):
    """The name of `LRScheduler` before PyTorch 2.0."""


def _warn_get_lr_called_within_step(lr_scheduler: LRScheduler) -> None:
    if not lr_scheduler._get_lr_called_within_step:
        warnings.warn(
            "get_lr() is for the scheduler's own use: get_last_lr() gives the rate in force.", UserWarning, stacklevel=3
        )


def callable_state(fn: Callable | None) -> dict[str, Any] | None:
    """What is saved of a user's callable: attributes of objects, nothing of functions."""
    return None if fn is None or isinstance(fn, types.FunctionType) else fn.__dict__.copy()
