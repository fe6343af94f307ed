"""`torch.ao.pruning`: models made sparse while they are trained, and channels taken out of them for good.

Enters: a model and the tensors to sparsify. Leaves: masks kept as parametrizations until `squash_mask` bakes them in;
schedules of the sparsity level; `shrink`, which takes masked channels out of a model, so that it computes less.
"""

from ...base import late
from .scheduler.base_scheduler import BaseScheduler
from .scheduler.cubic_scheduler import CubicSL
from .scheduler.lambda_scheduler import LambdaSL
from .shrinking import shrink
from .sparsifier.base_sparsifier import BaseSparsifier
from .sparsifier.nearly_diagonal_sparsifier import NearlyDiagonalSparsifier
from .sparsifier.utils import FakeSparsity, fqn_to_module, get_arg_info_from_tensor_fqn, module_to_fqn
from .sparsifier.weight_norm_sparsifier import WeightNormSparsifier

__all__ = [
    "BaseScheduler", "BaseSparsifier", "CubicSL", "FakeSparsity", "LambdaSL", "NearlyDiagonalSparsifier",
    "WeightNormSparsifier", "fqn_to_module", "get_arg_info_from_tensor_fqn", "get_dynamic_sparse_quantized_mapping",
    "get_static_sparse_quantized_mapping", "module_to_fqn", "shrink",
]
__getattr__, __dir__ = late.names(
    globals(), late.by_name({"_mappings": "get_dynamic_sparse_quantized_mapping get_static_sparse_quantized_mapping"})
)
