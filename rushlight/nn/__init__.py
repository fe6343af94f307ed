"""Neural networks: parameters, modules, initial values, and the functional namespace they call."""

from . import attention, functional, grad, init, modules, parameter, utils
from .linear_cross_entropy_options import LinearCrossEntropyOptions
from .modules import *
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter
