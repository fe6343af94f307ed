"""Fake quantization whose scale and zero point are parameters: trained, or estimated by an observer.

Enters: float tensors. Leaves: floats on the grid, with gradients for the qparams too. Refuses: an empty range of
integers, one the observer's dtype cannot hold, a number of channels that is none.
"""

from __future__ import annotations

import math
from typing import Any

from ... import _C
from ..._C import Tensor
from ...base.quantizers import per_channel_affine, per_channel_symmetric, per_tensor_symmetric
from ...nn.parameter import Parameter
from ...op import find_op
from ...tensors.interop import tensor
from .bases import FakeQuantizeBase
from .fake_quantize import _check_bounds
from .observer import EPS

__all__: list[str] = []


class _LearnableFakeQuantize(FakeQuantizeBase):
    """Rounds to a grid whose `scale` and `zero_point` an optimizer may move (`enable_param_learning`), or an observer
    (`enable_static_estimate`). With `use_grad_scaling` their gradients shrink with the number of elements."""

    def __init__(
        self, observer: Any, quant_min: int = 0, quant_max: int = 255, scale: float = 1.0, zero_point: float = 0.0,
        channel_len: int = -1, use_grad_scaling: bool = False, **observer_kwargs: Any,
    ) -> None:
        super().__init__()
        if quant_min >= quant_max:
            raise AssertionError(f"quant_min must be strictly less than quant_max, got {quant_min} and {quant_max}")
        if channel_len != -1 and not (isinstance(channel_len, int) and channel_len > 0):
            raise AssertionError(f"Channel size must be a positive integer, got {channel_len}")
        self.quant_min, self.quant_max, self.use_grad_scaling = quant_min, quant_max, use_grad_scaling
        count = 1 if channel_len == -1 else channel_len
        self.scale = Parameter(tensor([scale] * count))
        self.zero_point = Parameter(tensor([zero_point] * count))
        observer_kwargs.update(quant_min=quant_min, quant_max=quant_max)
        watcher = self.activation_post_process = observer(**observer_kwargs)
        _check_bounds(quant_min, quant_max, watcher.dtype)
        self.dtype, self.qscheme = watcher.dtype, watcher.qscheme
        self.ch_axis = getattr(watcher, "ch_axis", -1)
        for switch, value in (("fake_quant_enabled", 1), ("static_enabled", 1), ("learning_enabled", 0)):
            self.register_buffer(switch, tensor([value], dtype=_C.uint8))
        self.bitwidth = int(math.log2(quant_max - quant_min + 1))
        self.register_buffer("eps", tensor([EPS]))

    def _switch(self, learning: bool, rounding: bool, observing: bool) -> _LearnableFakeQuantize:
        self.toggle_qparam_learning(learning)
        self.toggle_fake_quant(rounding)
        return self.toggle_observer_update(observing)

    def enable_param_learning(self) -> _LearnableFakeQuantize:
        """Round, and let an optimizer move the qparams."""
        return self._switch(learning=True, rounding=True, observing=False)

    def enable_static_estimate(self) -> None:
        """Round, with qparams that the observer estimates."""
        self._switch(learning=False, rounding=True, observing=True)

    def enable_static_observation(self) -> None:
        """Observe only."""
        self._switch(learning=False, rounding=False, observing=True)

    def toggle_observer_update(self, enabled: bool = True) -> _LearnableFakeQuantize:
        self.static_enabled[0] = int(enabled)
        return self

    def enable_observer(self, enabled: bool = True) -> None:
        self.toggle_observer_update(enabled)

    def toggle_qparam_learning(self, enabled: bool = True) -> _LearnableFakeQuantize:
        self.learning_enabled[0] = int(enabled)
        self.scale.requires_grad = self.zero_point.requires_grad = enabled
        return self

    def toggle_fake_quant(self, enabled: bool = True) -> _LearnableFakeQuantize:
        self.fake_quant_enabled[0] = int(enabled)
        return self

    def observe_quant_params(self) -> None:
        """Print the qparams."""
        for what, values in (("Scale", self.scale), ("Zero Point", self.zero_point)):
            print(f"_LearnableFakeQuantize {what}: {values.detach()}")

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        self.scale.data.clamp_(min=self.eps.item())
        points = self.zero_point.detach().round().clamp(self.quant_min, self.quant_max)
        return self.scale.detach(), points.to(_C.int64)

    def forward(self, X: Tensor) -> Tensor:     # noqa: N803 - PyTorch's name
        if self.static_enabled[0] == 1:
            self.activation_post_process(X.detach())
            scale, zero_point = self.activation_post_process.calculate_qparams()
            self.scale.data.copy_(scale)
            self.zero_point.data.copy_(zero_point)
        else:
            self.scale.data.clamp_(min=self.eps.item())
        return self._rounded(X) if self.fake_quant_enabled[0] == 1 else X

    def _rounded(self, x: Tensor) -> Tensor:
        if self.qscheme in (per_channel_symmetric, per_tensor_symmetric):
            self.zero_point.data.zero_()
        factor = (x.numel() * self.quant_max) ** -0.5 if self.use_grad_scaling else 1.0
        bounds = self.quant_min, self.quant_max, factor
        if self.qscheme in (per_channel_symmetric, per_channel_affine):
            learned = find_op("_fake_quantize_learnable_per_channel_affine")
            return learned(x, self.scale, self.zero_point, self.ch_axis, *bounds)
        return find_op("_fake_quantize_learnable_per_tensor_affine")(x, self.scale, self.zero_point, *bounds)
