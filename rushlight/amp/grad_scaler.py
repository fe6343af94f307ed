"""Gradient scaling: multiply the loss so that small float16 gradients survive, and divide before the optimizer steps.

Enters: losses, and optimizers whose gradients came from scaled losses. Leaves: unscaled gradients and steps, skipped
when a gradient overflowed; the scale halves then, and doubles after a run of good steps. State dicts are PyTorch's.
Refuses: unscaling twice, stepping twice, closures, and float16 gradients of parameters kept in float16.
"""

from __future__ import annotations

import inspect
import warnings
from collections import defaultdict
from collections.abc import Iterable
from enum import Enum
from typing import Any

from .._C import Tensor, float16, float32, int32
from ..autograd import no_grad
from ..devices import find
from ..op import find_op

__all__ = ["GradScaler", "OptState"]

_full, _unscale, _update_scale = (
    find_op("full"),
    find_op("_amp_foreach_non_finite_check_and_unscale_"),
    find_op("_amp_update_scale_"),
)


class OptState(Enum):
    """How far an optimizer is in the present iteration."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _refresh_per_optimizer_state() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class _Copies:
    """A scalar tensor on whichever device asks for it."""

    def __init__(self, master: Tensor) -> None:
        self.master = master
        self.by_device: dict[Any, Tensor] = {}

    def get(self, device: Any) -> Tensor:
        if device not in self.by_device:
            self.by_device[device] = self.master.to(device=device, copy=True)
        return self.by_device[device]


class GradScaler:
    """scale(loss).backward(), then step(optimizer), then update()."""

    def __init__(
        self, device: str = "cuda", init_scale: float = 2.0**16, growth_factor: float = 2.0,
        backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True,
    ) -> None:
        self._device, self._enabled = device, enabled
        if enabled and device == "cuda" and not find("cuda"):
            warnings.warn("GradScaler(enabled=True): CUDA is not available, so it has no effect.", stacklevel=2)
            self._enabled = False
        if not self._enabled:
            return
        assert growth_factor > 1.0, "The growth factor must be > 1.0."
        assert backoff_factor < 1.0, "The backoff factor must be < 1.0."
        self._init_scale, self._init_growth_tracker = init_scale, 0
        self._growth_factor, self._backoff_factor, self._growth_interval = (
            growth_factor,
            backoff_factor,
            growth_interval,
        )
        self._scale: Tensor | None = None          # made on the device of the first scaled output
        self._growth_tracker: Tensor | None = None
        self._per_optimizer_states: dict[int, dict[str, Any]] = defaultdict(_refresh_per_optimizer_state)

    def _check_scale_growth_tracker(self, funcname: str) -> tuple[Tensor, Tensor]:
        for name in ("_scale", "_growth_tracker"):
            missing = (
                f"{funcname}: {name} is None: the iteration did not use scaler.scale on its loss or outputs first."
            )
            assert getattr(self, name) is not None, missing
        return self._scale, self._growth_tracker

    def _lazy_init_scale_growth_tracker(self, dev: Any) -> None:
        assert self._growth_tracker is None, "_growth_tracker initialized before _scale"
        self._scale = _full((), self._init_scale, dtype=float32, device=dev)
        self._growth_tracker = _full((), self._init_growth_tracker, dtype=int32, device=dev)

    # --- one iteration ------------------------------------------------------------------------------------------------

    def scale(self, outputs: Tensor | Iterable[Tensor]) -> Any:
        """Tensors (one, or a container of them) times the scale."""
        if not self._enabled:
            return outputs
        copies: list[_Copies] = []

        def apply(value: Any) -> Any:
            if isinstance(value, Tensor):
                if self._scale is None:
                    self._lazy_init_scale_growth_tracker(value.device)
                if not copies:
                    copies.append(_Copies(self._scale))
                return value * copies[0].get(value.device)
            if isinstance(value, Iterable):
                return type(value)(map(apply, value)) if isinstance(value, (list, tuple)) else map(apply, value)
            raise ValueError("scale: expected outputs to be a Tensor or an iterable of Tensors")

        return apply(outputs)

    def _unscale_grads_(
        self, optimizer: Any, inv_scale: Tensor, found_inf: Tensor, allow_fp16: bool
    ) -> dict[Any, Tensor]:
        inverses, flags = _Copies(inv_scale), _Copies(found_inf)
        groups: dict[Any, list[Tensor]] = defaultdict(list)
        with no_grad():
            for group in optimizer.param_groups:
                for param in group["params"]:
                    assert isinstance(param, Tensor), f"expected param to be a Tensor, got {type(param).__name__}"
                    grad = param.grad
                    if grad is None:
                        continue
                    if not allow_fp16 and grad.dtype is float16:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    if grad.is_sparse:
                        # Sums of duplicates may overflow and must be seen; repeated memory must not be divided twice.
                        if grad.dtype is float16 or grad._values()._overlaps_itself():
                            param.grad = grad = grad.coalesce()
                        grad = grad._values()
                    groups[grad.device].append(grad)
            for device, grads in groups.items():
                _unscale(grads, flags.get(device), inverses.get(device))
        return flags.by_device

    def unscale_(self, optimizer: Any) -> None:
        """Divide the optimizer's gradients by the scale now, to clip or look at them before `step`."""
        if not self._enabled:
            return
        scale, _ = self._check_scale_growth_tracker("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called for this optimizer. Call update() before the next time."
            )
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = scale.double().reciprocal().float()
        state["found_inf_per_device"] = self._unscale_grads_(
            optimizer, inverse, _full((), 0.0, dtype=float32, device=scale.device), False
        )
        state["stage"] = OptState.UNSCALED

    def _maybe_opt_step(self, optimizer: Any, optimizer_state: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        if sum(flag.item() for flag in optimizer_state["found_inf_per_device"].values()):
            return None
        return optimizer.step(*args, **kwargs)

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscale if that was not done, then `optimizer.step(*args, **kwargs)` unless a gradient overflowed."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("step: Closure arguments do not work with an enabled GradScaler.")
        self._check_scale_growth_tracker("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called for this optimizer. Call update() before the next time.")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            result = self._fused_step(optimizer, state, args, kwargs)
        else:
            if state["stage"] is OptState.READY:
                self.unscale_(optimizer)
            assert state[
                "found_inf_per_device"
            ], "step: No inf checks were recorded: none of the optimizer's parameters has a gradient."
            result = self._maybe_opt_step(optimizer, state, *args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def _fused_step(self, optimizer: Any, state: dict[str, Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        """Optimizers that unscale inside their kernel are handed the scale and whether to skip."""
        if "grad_scaler" in inspect.signature(optimizer.step).parameters:
            warnings.warn(
                "GradScaler passes itself as `grad_scaler` only to old optimizers; read `grad_scale` and `found_inf`"
                " instead.",
                FutureWarning,
                stacklevel=3,
            )
            return optimizer.step(*args, **{**kwargs, "grad_scaler": self})
        if state["stage"] is OptState.READY:
            self._check_inf_per_device(optimizer)
        scale = self._scale
        given = getattr(optimizer, "grad_scale", None)
        optimizer.grad_scale = given if state["stage"] is OptState.UNSCALED else scale * (1 if given is None else given)
        optimizer.found_inf = sum(flag.to(scale.device) for flag in state["found_inf_per_device"].values())
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            del optimizer.grad_scale, optimizer.found_inf

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """End the iteration: choose the next scale, or take `new_scale`."""
        if not self._enabled:
            return
        scale, tracker = self._check_scale_growth_tracker("update")
        if new_scale is None:
            flags = [
                flag.to(scale.device)
                for state in self._per_optimizer_states.values()
                for flag in state["found_inf_per_device"].values()
            ]
            assert flags, "update: No inf checks were recorded: call step() or unscale_() first."
            _update_scale(
                scale,
                tracker,
                sum(flags[1:], flags[0]),
                self._growth_factor,
                self._backoff_factor,
                self._growth_interval,
            )
        elif isinstance(new_scale, float):
            scale.fill_(new_scale)
        else:
            fits = (
                isinstance(new_scale, Tensor)
                and new_scale.device.type == self._device
                and new_scale.numel() == 1
                and not new_scale.requires_grad
            )
            assert fits, (
                "new_scale: expected a float, or a float tensor of 1 element on the scaler's device that requires no"
                " gradient."
            )
            scale.copy_(new_scale.reshape(()))
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    def _check_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        scale, _ = self._check_scale_growth_tracker("_check_inf_per_device")
        one, flag = _full((), 1.0, dtype=float32, device=scale.device), _full(
            (), 0.0, dtype=float32, device=scale.device
        )
        found = self._unscale_grads_(optimizer, one, flag, True)
        self._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = found
        return found

    def _found_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]

    # --- settings and state -------------------------------------------------------------------------------------------

    def _get_scale_async(self) -> Tensor | None:
        return self._scale

    def get_scale(self) -> float:
        """The scale; 1.0 when disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        """What the scale is multiplied by after a run of good steps."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set what the scale is multiplied by after a run of good steps."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the scale is multiplied by after an overflow."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set what the scale is multiplied by after an overflow."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """How many good steps make a run."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set how many good steps make a run."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else self._growth_tracker.item()

    def is_enabled(self) -> bool:
        """Whether this scaler scales."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Numbers from which `load_state_dict` continues; empty when disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(), "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval, "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from `state_dict`."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("load_state_dict: the state dict is empty, as that of a disabled GradScaler is.")
        self._init_scale, self._init_growth_tracker = state_dict["scale"], state_dict["_growth_tracker"]
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        if self._scale is not None:
            self._scale.fill_(state_dict["scale"])
        if self._growth_tracker is not None:
            self._growth_tracker.fill_(state_dict["_growth_tracker"])

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if self._enabled:
            assert (
                not self._per_optimizer_states
            ), "GradScaler: pickle it between iterations, after update() and before the next unscale_() or step()."
            state |= {
                "_init_scale": self.get_scale(),
                "_init_growth_tracker": self._get_growth_tracker(),
                "_scale": None,
                "_growth_tracker": None,
            }
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
