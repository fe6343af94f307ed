"""Neural-network building blocks: parameters and the functional namespace."""

from . import attention, functional, grad
from .linear_cross_entropy_options import LinearCrossEntropyOptions
from .parameter import Buffer, Parameter

__all__ = ["Buffer", "LinearCrossEntropyOptions", "Parameter", "attention", "functional", "grad"]
