"""`ops.c10d`: collectives over lists of tensors, as PyTorch's dispatcher names them, for subclasses of tensors that
register handlers for them.

Enters: tensors, a process group, a root. Leaves: the tensors written and a `Work`. Calls of `torch.distributed` do not
come by here: they go to the group at once.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ..aten.plain import PlainOverload
from . import options as opt


def _scatter(output_tensors: list[Any], input_tensors: list[list[Any]], process_group: Any, root_rank: int,
             async_op: bool = True, timeout: int = -1) -> tuple[list[Any], Any]:
    """Rank r gets the root's r-th tensor. `timeout` is in milliseconds; -1 is the group's own."""
    options = opt.ScatterOptions()
    options.rootRank = root_rank
    options.asyncOp = async_op
    if timeout != -1:
        options.timeout = timedelta(milliseconds=timeout)
    return output_tensors, process_group.scatter(output_tensors, input_tensors, options)


SCATTER = PlainOverload(
    "scatter_", _scatter,
    "(Tensor[] output_tensors, Tensor[][] input_tensors, __torch__.torch.classes.c10d.ProcessGroup process_group, "
    "int root_rank, bool asyncOp=True, int timeout=-1) -> (Tensor[], __torch__.torch.classes.c10d.Work)", "c10d",
)
OPS = {"scatter_": SCATTER}
