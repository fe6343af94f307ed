"""torch._lazy.tensor_factory_functions: functions that make tensors without being given one."""

from ..op import find_op, ops

tensor_factory_functions = tuple(find_op(name) for name in (
    "arange", "bartlett_window", "blackman_window", "empty", "empty_strided", "eye", "full", "hamming_window",
    "hann_window", "kaiser_window", "linspace", "logspace", "normal", "ones", "rand", "randint", "randn", "randperm",
    "range", "scalar_tensor", "tril_indices", "triu_indices", "zeros",
) if name in ops)

__all__ = ["tensor_factory_functions"]
