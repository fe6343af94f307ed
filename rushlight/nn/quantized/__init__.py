"""`torch.nn.quantized`: arithmetic as modules, so that a converted model can quantize its results;
and quantized layers by name."""

from __future__ import annotations

from typing import Any

from ...base.refusals import names_of
from ...op import ops
from ..modules import Identity
from ..modules.module import Module


class FloatFunctional(Module):
    """Additions, products and concatenations as a module; results pass its `activation_post_process`."""

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process = Identity()

    def forward(self, x: Any) -> Any:
        raise RuntimeError(
            "FloatFunctional is not intended to use the 'forward'. Please use the corresponding operation"
        )

    def add(self, x: Any, y: Any) -> Any:
        return self.activation_post_process(ops["add"](x, y))

    add_scalar = add

    def mul(self, x: Any, y: Any) -> Any:
        return self.activation_post_process(ops["mul"](x, y))

    mul_scalar = mul

    def cat(self, x: Any, dim: int = 0) -> Any:
        return self.activation_post_process(ops["cat"](x, dim))

    def add_relu(self, x: Any, y: Any) -> Any:
        return self.activation_post_process(ops["relu"](ops["add"](x, y)))

    def matmul(self, x: Any, y: Any) -> Any:
        return self.activation_post_process(ops["matmul"](x, y))


globals().update(names_of("torch.nn.quantized"))
