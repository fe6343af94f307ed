"""PyTorch's place for DLPack: tensors shared with other libraries without copies."""

from ..tensors.interop import DLDeviceType, from_dlpack, to_dlpack

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]
