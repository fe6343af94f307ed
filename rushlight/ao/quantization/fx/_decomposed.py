"""The functions of `torch.ops.quantized_decomposed`, where PyTorch keeps them."""

from ....quantized.decomposed import *  # noqa: F403
