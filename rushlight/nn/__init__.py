"""Neural networks: parameters, modules, initial values, and the functional namespace they call.

Enters: tensors, and the sizes of layers. Leaves: modules with parameters and a state, and results of ops. Refuses:
sizes that do not fit, as PyTorch does.

Layers and the files of this package are imported when first used.
"""

from ..base import late
from .modules import LAYERS, Module
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

_LATER = {
    **{name: f"modules.{file}" for name, file in LAYERS.items()},
    "DataParallel": "parallel", "LinearCrossEntropyOptions": "linear_cross_entropy_options",
    "factory_kwargs": "factory",
}
_FILES = (
    "attention", "common_types", "functional", "grad", "init", "modules", "parallel", "parameter", "utils",
    # older names of what is in ao.nn
    "intrinsic", "qat", "quantizable", "quantized",
)

__all__ = ["Buffer", "Module", "Parameter", "UninitializedBuffer", "UninitializedParameter", *_LATER, *_FILES]
__getattr__, __dir__ = late.names(globals(), _LATER, _FILES)
