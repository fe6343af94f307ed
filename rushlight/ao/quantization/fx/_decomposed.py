"""The functions of `torch.ops.quantized_decomposed`, where PyTorch keeps them, and the library that programs add
further ops of the namespace with."""

from ....library import Library
from ....quantized.decomposed import *  # noqa: F403
from ....quantized.decomposed import (  # noqa: F401
    _DTYPE_TO_QVALUE_BOUNDS,
    _choose_qparams_per_token_asymmetric_impl,
    _per_token_quant_qparam_dim_check,
    _quant_min_max_bounds_check,
)

quantized_decomposed_lib = Library("quantized_decomposed", "FRAGMENT")
