"""An optimizer run for a while on other parameters and state, given from outside.

Enters: an optimizer, parameters by name in the order of its groups, and a dict as `state_dict` gives it. Inside the
context the optimizer works on them; afterwards it has its own back. Refuses: dicts that do not match the groups.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from .._C import Tensor
from .optimizer import Optimizer

NAME = "swap_in_optimizer_params_and_state"


def check(is_right: bool, message: str) -> None:
    if not is_right:
        raise RuntimeError(f"{NAME} requires {message}")


def check_state(optimizer: Optimizer, given: Any) -> tuple[dict[Any, Any], list[dict[str, Any]]]:
    """The state and the groups of the given dict, if they are of the right kinds."""
    check(bool(optimizer.state), "initialized optimizer state.")
    check(isinstance(given, dict), "a DCP-style optimizer state_dict.")
    state, groups = given.get("state"), given.get("param_groups")
    check(
        isinstance(state, dict),
        f"['state'] to be a dict from packed parameter ids to state, got {type(state).__name__}.",
    )
    check(
        not any(isinstance(key, Tensor) for key in state),
        "optimizer.state_dict()-style state keyed by packed parameter ids.",
    )
    check(
        all(isinstance(v, dict) for k, v in state.items() if isinstance(k, int)),
        "per-parameter optimizer state entries to be dictionaries.",
    )
    check(isinstance(groups, list), f"['param_groups'] to be a list of param-group dicts, got {type(groups).__name__}.")
    check(len(groups) == len(optimizer.param_groups), "the same number of parameter groups as the live optimizer has.")
    return state, groups


def check_group(number: int, live: dict[str, Any], group: Any) -> None:
    check(isinstance(group, dict), "each optimizer param group to be a dictionary.")
    ids = group.get("params")
    check(
        isinstance(ids, list) and all(isinstance(i, int) for i in ids),
        "param_groups[*]['params'] entries keyed by packed parameter ids.",
    )
    check(len(ids) == len(live["params"]), f"as many params in group {number} as the live optimizer has.")
    check(set(group) == set(live),
          f"param group keys to exactly match the live optimizer group keys for group {number}, "
          f"got {sorted(set(group) ^ set(live))} in one of them only.")


@contextlib.contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, Tensor], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """Let `optimizer` work on `swapin_parameters` with `swapin_optim_state` inside the context."""
    state, groups = check_state(optimizer, swapin_optim_state)
    for number, (live, group) in enumerate(zip(optimizer.param_groups, groups, strict=True)):
        check_group(number, live, group)
    ids = [i for group in groups for i in group["params"]]
    tensors = list(swapin_parameters.values())
    check(len(tensors) >= len(ids), "the explicit parameter state to match optimizer.param_groups ordering.")
    check(
        set(state) <= set(ids),
        f"['state'] to be keyed only by packed parameter ids, got {sorted(set(state) - set(ids), key=str)} besides.",
    )
    own_state, own_groups = optimizer.state, [dict(group) for group in optimizer.param_groups]
    try:
        optimizer.state = defaultdict(dict, {p: dict(state.get(i, {})) for i, p in zip(ids, tensors, strict=False)})
        rest = iter(tensors)
        for live, group in zip(optimizer.param_groups, groups, strict=True):
            live.update(group, params=[next(rest) for _ in group["params"]])
        yield
    finally:
        for live, own in zip(optimizer.param_groups, own_groups, strict=True):
            live.clear()
            live.update(own)
        optimizer.state = own_state
