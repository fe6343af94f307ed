"""Neural-network building blocks: parameters and the functional namespace."""

from . import attention, functional
from .parameter import Buffer, Parameter

__all__ = ["Buffer", "Parameter", "attention", "functional"]
