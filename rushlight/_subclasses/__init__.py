"""`torch._subclasses`: where PyTorch keeps fake tensors; here they are `rushlight.fake`."""

from ..fake import DataDependentOutputException, FakeTensor, FakeTensorMode, UnsupportedFakeTensorException

__all__ = ["DataDependentOutputException", "FakeTensor", "FakeTensorMode", "UnsupportedFakeTensorException"]
