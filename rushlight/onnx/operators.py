"""`torch.onnx.operators`: sizes as tensors, for models that are to be exported with varying shapes."""

from __future__ import annotations

from typing import Any

from ..op import ops


def shape_as_tensor(x: Any) -> Any:
    """The sizes of a tensor as an int64 tensor."""
    return ops["_shape_as_tensor"](x)


def reshape_from_tensor_shape(x: Any, shape: Any) -> Any:
    """`x` in the shape another tensor holds."""
    return x.reshape(shape.tolist())
