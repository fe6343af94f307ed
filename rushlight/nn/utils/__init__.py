"""PyTorch's `nn.utils`: gradients clipped, parameters flattened or parametrized, sequences packed, layers fused.

Files are imported when first used. A name may be both a file and a function of it: then the function is meant, as in
PyTorch.
"""

from ...base import late

_LATER = late.by_name({
    "clip_grad": "clip_grad_norm clip_grad_norm_ clip_grad_value_ clip_grads_with_norm_ get_total_norm",
    "convert_parameters": "parameters_to_vector vector_to_parameters",
    "fusion": "fuse_conv_bn_eval fuse_conv_bn_weights fuse_linear_bn_eval fuse_linear_bn_weights",
    "init": "skip_init",
    "memory_format": "convert_conv2d_weight_memory_format convert_conv3d_weight_memory_format",
    "spectral_norm": "spectral_norm remove_spectral_norm",
    "weight_norm": "weight_norm remove_weight_norm",
})
_FILES = (
    "clip_grad", "convert_parameters", "fusion", "init", "memory_format", "parametrizations", "parametrize", "prune",
    "rnn", "stateless",
)

__all__ = [*_LATER, *_FILES]
__getattr__, __dir__ = late.names(globals(), _LATER, _FILES)
