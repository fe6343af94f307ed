"""Bias correction: what quantizing adds to the mean of a layer's outputs, taken off its bias.

Enters: a float model, its quantized form, data. Leaves: the quantized model with corrected biases, each of its layers
beside the float one it came from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from ..._C import Tensor
from ...nn import Conv2d, Linear, Module
from ..nn import quantized as nnq
from ..ns import _numeric_suite as ns

__all__ = ["MeanShadowLogger", "bias_correction", "get_module", "get_param", "parent_child_names"]

_supported_modules = {Linear, Conv2d}
_supported_modules_quantized = {nnq.Linear, nnq.Conv2d}


def get_module(model: Module, name: str) -> Module:
    """A submodule, by path."""
    return dict(model.named_modules())[name]


def parent_child_names(name: str) -> tuple[str, str]:
    """A path as that of the module around it, and the last name."""
    parent, _, child = name.rpartition(".")
    return parent, child


def get_param(module: Module, attr: str) -> Any:
    """A parameter, which quantized modules have as a method."""
    found = getattr(module, attr, None)
    return found() if callable(found) else found


class MeanShadowLogger(ns.Logger):
    """Keeps the means of a quantized layer's outputs and of the float layer's beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.clear()

    def forward(self, x: Tensor, y: Tensor) -> None:  # type: ignore[override]
        x = x.dequantize() if x.is_quantized else x
        self.count += 1
        self.quant_sum = x if self.quant_sum is None else self.quant_sum + x
        self.float_sum = y if self.float_sum is None else self.float_sum + y
        self.stats["quantized"] = self.quant_sum if self.count == 1 else self.quant_sum / self.count
        self.stats["float"] = self.float_sum if self.count == 1 else self.float_sum / self.count

    def clear(self) -> None:
        """Forget what was seen."""
        self.stats["float"] = self.stats["quantized"] = None
        self.count = 0
        self.float_sum: Any = None
        self.quant_sum: Any = None


def bias_correction(
    float_model: Module, quantized_model: Module, img_data: Iterable[Any],
    target_modules: Collection[type] = _supported_modules_quantized, neval_batches: int | None = None,
) -> None:
    """Correct the biases of the quantized model's layers, one after the other, over batches (their first parts)."""
    ns.prepare_model_with_stubs(float_model, quantized_model, _supported_modules, MeanShadowLogger)
    for name in [n for n, module in quantized_model.named_modules() if type(module) in target_modules]:
        bias = get_param(get_module(quantized_model, name), "bias")
        if bias is None:
            continue
        for count, batch in enumerate(img_data, start=1):
            quantized_model(batch[0])
            if count == neval_batches:
                break
        seen = ns.get_logger_dict(quantized_model)[f"{parent_child_names(name)[0]}.stats"]
        error = seen["quantized"] - seen["float"]
        bias.data = bias.data - error.mean([d for d in range(error.dim()) if d != 1])
        for module in quantized_model.modules():
            if isinstance(module, MeanShadowLogger):
                module.clear()
