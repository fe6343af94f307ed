"""An optimizer that averages parameters over processes now and then, after its steps."""

from __future__ import annotations

import warnings
from typing import Any

from ...optim.optimizer import Optimizer
from ..algorithms.model_averaging.averagers import ModelAverager

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(Optimizer):
    """Another optimizer's steps, each followed by an averager's.

    Arguments:
        optim: the optimizer
        averager: says when parameters are averaged, and over which processes
    """

    def __init__(self, optim: Optimizer, averager: ModelAverager) -> None:
        self.optim, self.averager = optim, averager
        self.param_groups = optim.param_groups

    @property
    def state(self) -> Any:     # type: ignore[override]
        """The optimizer's."""
        return self.optim.state

    def __repr__(self) -> str:
        return repr(self.optim)

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's, and which step the averager is at."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the optimizer's state and the averager's step."""
        self.optim.load_state_dict(state_dict)
        if "step" not in state_dict:
            warnings.warn("PostLocalSGDOptimizer: the state has no 'step': the averager begins at 0", stacklevel=2)
        self.averager.step = state_dict.get("step", 0)

    def step(self) -> None:     # type: ignore[override]
        """Make a step, then average if it is time."""
        self.optim.step()
        self.averager.average_parameters(self.param_groups)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget gradients."""
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """More parameters."""
        self.optim.add_param_group(param_group)
