"""`torch.distributed.algorithms.model_averaging.utils`: the averages themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ....nn.parameter import Parameter
from ....op import find_op
from ...collectives import all_reduce
from ...groups import GroupMember, resolve

__all__ = ["average_parameters", "average_parameters_or_parameter_groups", "get_params_to_average"]
_cat = find_op("cat")


def average_parameters(params: Iterable[Any], process_group: Any) -> None:
    """Every parameter becomes its mean over the processes; all are sent as one tensor."""
    chosen = list(params)
    if process_group is GroupMember.NON_GROUP_MEMBER or not chosen:
        return
    group = resolve(process_group)
    flat = _cat([p.detach().reshape(-1) for p in chosen]).div_(group.size())
    all_reduce(flat, group=group)
    for p, mean in zip(chosen, flat.split([p.numel() for p in chosen])):
        p.detach().copy_(mean.view(p.shape))


def get_params_to_average(params: Iterable[Any]) -> list[Any]:
    """Those of a model's parameters, or of an optimizer's groups, that have a gradient."""
    found = []
    for item in params:
        if not isinstance(item, (Parameter, dict)):
            raise NotImplementedError(
                f"get_params_to_average: expected parameters or an optimizer's groups, got {type(item).__name__}"
            )
        found += [p for p in (item["params"] if isinstance(item, dict) else (item,)) if p.grad is not None]
    return found


def average_parameters_or_parameter_groups(params: Iterable[Any], process_group: Any) -> None:
    """Average those that have a gradient."""
    average_parameters(get_params_to_average(params), process_group)
