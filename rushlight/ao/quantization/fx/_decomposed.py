"""The functions of `torch.ops.quantized_decomposed`, where PyTorch keeps them."""

from ....library import Library
from ....quantized.decomposed import *  # noqa: F403
from ....quantized.decomposed import _per_token_quant_qparam_dim_check  # noqa: F401

quantized_decomposed_lib = Library("quantized_decomposed", "FRAGMENT")
