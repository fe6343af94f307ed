"""`torch._subclasses.fake_tensor`: fake tensors under PyTorch's name for their module."""

from typing import Any

from ..fake import DataDependentOutputException, FakeTensor, FakeTensorMode, UnsupportedFakeTensorException

__all__ = ["DataDependentOutputException", "FakeTensor", "FakeTensorMode", "UnsupportedFakeTensorException", "is_fake"]


def is_fake(x: Any) -> bool:
    """Whether `x` is a tensor without data, made in a FakeTensorMode."""
    return isinstance(x, FakeTensor)
