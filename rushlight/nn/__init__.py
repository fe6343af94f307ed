"""Neural networks: parameters, modules, initial values, and the functional namespace they call."""

from . import attention, common_types, functional, grad, init, modules, parallel, parameter, utils
from .factory import factory_kwargs
from .linear_cross_entropy_options import LinearCrossEntropyOptions
from .modules import *
from .parallel import DataParallel
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter
