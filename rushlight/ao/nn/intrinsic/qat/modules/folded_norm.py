"""A layer and the batch norm after it, trained as the one layer they will become.

The weights are rounded as they will be in the end, scaled by what the batch norm does to each channel:
w' = round(w * gamma / std), with the running std (it jumps less from batch to batch than the batch's own). The layer
runs on w', its result is scaled back by std / gamma, and the batch norm then does its usual work on that.
Enters: floats. Leaves: floats, and running statistics renewed while they are not frozen.
Refuses: statistics that are not tracked.
"""

from __future__ import annotations

from typing import Any, Self

from ......_C import Tensor
from ......nn import Module, init
from ......op import find_op
from ....sources import BATCH_NORM, expect_class, expect_given_qconfig, expect_qconfig

_sqrt, _zeros, _zeros_like = (find_op(name) for name in ("sqrt", "zeros", "zeros_like"))


class FoldedNorm(Module):
    """What layers with a batch norm `bn` inside share; the float layer stands after it in the bases."""

    bn: Any
    bias: Any
    weight: Any
    freeze_bn: bool
    _FLOAT_MODULE: Any

    def _fold(self, bn: Module, freeze_bn: bool, qconfig: Any) -> None:
        """Set up the norm and the rounding; the layer itself is there, and its bias."""
        self.qconfig = expect_given_qconfig(self, qconfig)
        self.freeze_bn = freeze_bn if self.training else True
        self.bn = bn
        self.weight_fake_quant = qconfig.weight()

    def _settle(self, freeze_bn: bool) -> None:
        self.reset_bn_parameters()
        if self.training and not freeze_bn:
            self.update_bn_stats()
        else:
            self.freeze_bn_stats()

    def reset_running_stats(self) -> None:
        """Forget what was seen."""
        self.bn.reset_running_stats()

    def reset_bn_parameters(self) -> None:
        """Forget what was seen, and draw the norm's scale anew."""
        self.bn.reset_running_stats()
        init.uniform_(self.bn.weight)
        init.zeros_(self.bn.bias)

    def update_bn_stats(self) -> Self:
        """Let batches renew the running statistics."""
        self.freeze_bn = False
        self.bn.training = True
        return self

    def freeze_bn_stats(self) -> Self:
        """Keep the running statistics as they are, and normalize by them."""
        self.freeze_bn = True
        self.bn.training = False
        return self

    def train(self, mode: bool = True) -> Self:
        """As of every module, except that a frozen norm stays frozen."""
        self.training = mode
        if not self.freeze_bn:
            for child in self.children():
                child.train(mode)
        return self

    def _scales(self) -> tuple[Tensor, Tensor]:
        """(running std, gamma / std) by channel."""
        if self.bn.running_var is None:
            raise AssertionError(f"{type(self).__name__}: self.bn.running_var must not be None: the norm must track it")
        std = _sqrt(self.bn.running_var + self.bn.eps)
        return std, self.bn.weight / std

    def _by_output(self, values: Tensor) -> Tensor:
        """Values by channel, as they meet the weights."""
        return values.reshape([-1] + [1] * (self.weight.dim() - 1))

    def _by_channel(self, values: Tensor) -> Tensor:
        """Values by channel, as they meet the layer's results."""
        return values.reshape([1, -1] + [1] * (self.weight.dim() - 2))

    def _rounded_weight(self, factor: Tensor) -> Tensor:
        return self.weight_fake_quant(self.weight * self._by_output(factor))

    def _zero_bias(self, channels: int, like: Tensor | None, dtype: Any) -> Tensor:
        if like is not None:
            return _zeros_like(like, dtype=dtype)
        return _zeros(channels, device=self.weight.device, dtype=dtype)

    def _normalized(self, raw: Tensor, factor: Tensor) -> Tensor:
        """The norm of the layer's results on scaled weights."""
        plain = raw / self._by_channel(factor)
        if self.bias is not None:
            plain = plain + self._by_channel(self.bias)
        return self.bn(plain)

    @classmethod
    def _source(cls, mod: Any) -> tuple[Any, Any, Any]:
        """(layer, norm, qconfig) of the chain that is taken over."""
        method = f"qat.{cls.__name__}.from_float"
        expect_class(method, mod, cls._FLOAT_MODULE)
        return mod[0], mod[1], expect_qconfig(method, mod)

    def _take_over(self, layer: Any, bn: Any) -> Self:
        self.weight, self.bias = layer.weight, layer.bias
        for name in BATCH_NORM:
            setattr(self.bn, name, getattr(bn, name))
        return self
