"""`torch.autograd.variable`: tensors under the name they had before tensors could require gradients."""

from .._C import Tensor as Variable

VariableMeta = type(Variable)
__all__ = ["Variable", "VariableMeta"]
