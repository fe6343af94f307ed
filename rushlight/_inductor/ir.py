"""`torch._inductor.ir`: the classes that functions for `lowering.register_lowering` are annotated with. Nothing here is
made of them (`inductor.units` holds what is), so they refuse to be made."""

from __future__ import annotations

from typing import Any

__all__ = ["Pointwise", "TensorBox"]


class TensorBox:
    """A tensor in PyTorch's loops."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("_inductor.ir.TensorBox: PyTorch's loops are not made here")

    @classmethod
    def create(cls, *args: Any, **kwargs: Any) -> Any:
        """Refused: see above."""
        return cls()


class Pointwise(TensorBox):
    """A loop of one expression."""
