"""`torch.onnx.ops` of opset 23, for models of older ones."""

from __future__ import annotations

from typing import Any

from .table import body


@body("onnx::RotaryEmbedding")
def rotary_embedding(*args: Any) -> Any:
    from ..ops import turned  # noqa: PLC0415 - registers ops when it is imported

    return turned(*args)


@body("onnx::Attention")
def attention(*args: Any) -> Any:
    from ..ops import attended  # noqa: PLC0415

    return attended(*args)
