"""`torch.distributed.optim`: optimizers spread over processes. Names that are not written yet refuse to be made."""

from ...base.refusals import names_of
from .post_localSGD_optimizer import PostLocalSGDOptimizer
from .zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = ["PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]
globals().update(names_of("torch.distributed.optim"))
