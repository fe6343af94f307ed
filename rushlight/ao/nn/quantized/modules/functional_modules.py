"""Arithmetic as modules, so that its results can be observed and quantized as those of layers are.

Enters: tensors, floats or (`QFunctional`) quantized ones. Leaves: their sum, product, concatenation. Refuses: being
called as a layer: there is no one operation it stands for.
"""

from __future__ import annotations

from typing import Any, NoReturn, Self

from ..... import ops
from ....._C import Tensor
from .....nn import Module
from .....nn.modules.linear import Identity
from .....op import find_op
from .utils import OutputQParams

__all__ = ["FloatFunctional", "FXFloatFunctional", "QFunctional"]

_add, _mul, _cat, _matmul, _relu = (find_op(name) for name in ("add", "mul", "cat", "matmul", "relu"))


def _refuse_call(module: Module) -> NoReturn:
    raise RuntimeError(
        f"{type(module).__name__} is not intended to use the 'forward': call one of its operations, such as"
        " module.add(x, y)"
    )


class FXFloatFunctional(Module):
    """The operations of `FloatFunctional`, unobserved: in graphs the observers are nodes of their own."""

    def forward(self, x: Any) -> NoReturn:
        _refuse_call(self)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        return _add(x, y)

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        return _add(x, y)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        return _mul(x, y)

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        return _mul(x, y)

    def cat(self, x: list[Tensor], dim: int = 0) -> Tensor:
        return _cat(x, dim=dim)

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        return _relu(_add(x, y))

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        return _matmul(x, y)


class FloatFunctional(Module):
    """Sums, products and concatenations of floats, observed by `activation_post_process`. Results of operations with a
    number are not: their qparams follow from those of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process: Module = Identity()

    def forward(self, x: Any) -> NoReturn:
        _refuse_call(self)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        return self.activation_post_process(_add(x, y))

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        return _add(x, y)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        return self.activation_post_process(_mul(x, y))

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        return _mul(x, y)

    def cat(self, x: list[Tensor], dim: int = 0) -> Tensor:
        return self.activation_post_process(_cat(x, dim=dim))

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        return self.activation_post_process(_relu(_add(x, y)))

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        return self.activation_post_process(_matmul(x, y))


class QFunctional(OutputQParams):
    """The same operations on quantized tensors; results get the scale and zero point found by calibration."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = 1.0
        self.zero_point = 0
        self.activation_post_process: Module = Identity()

    def _get_name(self) -> str:
        return "QFunctional"

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}"

    def forward(self, x: Any) -> NoReturn:
        _refuse_call(self)

    def _rescaled(self, name: str, *operands: Any, **options: Any) -> Tensor:
        function = getattr(ops.quantized, name)
        return function(*operands, scale=self.scale, zero_point=self.zero_point, **options)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        return self.activation_post_process(self._rescaled("add", x, y))

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        return ops.quantized.add_scalar(x, y)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        return self.activation_post_process(self._rescaled("mul", x, y))

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        return ops.quantized.mul_scalar(x, y)

    def cat(self, x: list[Tensor], dim: int = 0) -> Tensor:
        return self.activation_post_process(self._rescaled("cat", x, dim=dim))

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        return self.activation_post_process(self._rescaled("add_relu", x, y))

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        return self._rescaled("matmul", x, y)

    @classmethod
    def from_float(cls, mod: FloatFunctional, use_precomputed_fake_quant: bool = False) -> Self:
        """From an observed FloatFunctional. Refuses other modules."""
        if type(mod) is not FloatFunctional:
            raise AssertionError(
                f"QFunctional.from_float: expected a FloatFunctional, got {type(mod).__name__}"
            )
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        result = cls()
        result.scale, result.zero_point = float(scale), int(zero_point)
        return result
