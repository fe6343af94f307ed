"""PyTorch's `nn.utils`: gradients clipped, parameters flattened or parametrized, sequences packed, layers fused.

What computes with layers loads when first used: the layers themselves need `rnn` from here.
"""

import importlib as _importlib

from . import clip_grad, convert_parameters, rnn
from .clip_grad import clip_grad_norm, clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
from .convert_parameters import parameters_to_vector, vector_to_parameters

# A name may be both a file and a function of it: then the function is meant, as in PyTorch.
_LATER = {
    "fuse_conv_bn_eval": "fusion", "fuse_conv_bn_weights": "fusion", "fuse_linear_bn_eval": "fusion", "fuse_linear_bn_weights": "fusion",
    "skip_init": "init", "weight_norm": "weight_norm", "remove_weight_norm": "weight_norm", "spectral_norm": "spectral_norm",
    "remove_spectral_norm": "spectral_norm", "convert_conv2d_weight_memory_format": "memory_format",
    "convert_conv3d_weight_memory_format": "memory_format",
}  # fmt: skip
_FILES = frozenset(("fusion", "init", "memory_format", "parametrizations", "parametrize", "prune", "stateless"))


def __getattr__(name: str) -> object:
    if name in _LATER:
        file = _importlib.import_module(f".{_LATER[name]}", __name__)
        for known, where in _LATER.items():
            if where == _LATER[name]:
                globals()[known] = getattr(file, known)
        return globals()[name]
    if name in _FILES:
        return _importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, *_FILES})
