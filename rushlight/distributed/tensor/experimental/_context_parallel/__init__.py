"""`torch.distributed.tensor.experimental._context_parallel`: where PyTorch keeps sequences that are spread."""

from .._attention import (
    _context_parallel_shard,
    _cp_options,
    context_parallel,
    context_parallel_unshard,
    set_rotate_method,
)
from .._load_balancer import _HeadTailLoadBalancer, _LoadBalancer, _PerDocumentHeadTailLoadBalancer

__all__ = [
    "_HeadTailLoadBalancer", "_LoadBalancer", "_PerDocumentHeadTailLoadBalancer", "_context_parallel_shard",
    "_cp_options", "context_parallel", "context_parallel_unshard", "set_rotate_method",
]
