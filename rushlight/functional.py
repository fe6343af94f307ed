"""rushlight.functional: the top-level functions PyTorch writes in Python, under the module it keeps them in."""

from .base import homes
from .definitions.products.einsum import einsum
from .op import published
from .tensors.plain_functions import broadcast_shapes, broadcast_tensors

_NAMES = ("atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "cartesian_prod", "cdist", "chain_matmul", "istft",
          "lu", "meshgrid", "norm", "pca_lowrank", "split", "stft", "svd_lowrank", "tensordot", "unique",
          "unique_consecutive", "unravel_index")
_top = published("")
globals().update({name: _top[name] for name in _NAMES if name in _top})
for _name in _NAMES:
    if _name in _top and _name != "istft":     # that one PyTorch has in its core
        homes.settle(_top[_name], "functional")

__all__ = ["broadcast_shapes", "broadcast_tensors", "einsum", *(name for name in _NAMES if name in _top)]
