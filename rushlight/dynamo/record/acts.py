"""What the code of captured frames calls to change objects: the fixed few functions that effects consist of.

Enters: an object and what it is to hold. Leaves: the object changed. Kept apart from the code that finds effects:
frames that are found on disk need these and nothing else, and name them (`ACTS`).
"""

from __future__ import annotations

import collections
import types
from collections.abc import Callable
from typing import Any

from ..._C import Tensor
from ...autograd import Function, enable_grad


def refill(owner: Any, members: list) -> None:
    if isinstance(owner, collections.deque):
        owner.clear()
        owner.extend(members)
    else:
        owner[:] = members


def refill_base(owner: list, members: list) -> None:
    list.__setitem__(owner, slice(None), members)


def refill_dict(owner: dict, now: dict) -> None:
    owner.clear()
    owner.update(now)


def refill_dict_base(owner: dict, now: dict) -> None:
    base = collections.OrderedDict if isinstance(owner, collections.OrderedDict) else dict
    base.clear(owner)
    for key, value in now.items():
        base.__setitem__(owner, key, value)


def refill_set(owner: set, now: list) -> None:
    owner.clear()
    owner.update(now)


def set_grad(owner: Any, value: Any) -> None:
    owner.grad = value


def set_item(owner: Any, key: Any, value: Any) -> None:
    owner[key] = value


def delete_item(owner: Any, key: Any) -> None:
    del owner[key]


def fill_cell(cell: types.CellType, contents: Any) -> None:
    cell.cell_contents = contents


def fill_object(owner: Any, own: dict[str, Any]) -> None:
    object.__getattribute__(owner, "__dict__").update(own)


def step_behind(optimizer: Any, params: tuple, gradients: tuple) -> None:
    """A step of one of our optimizers, behind the graph that computed its gradients."""
    from ...optim.rule import RuledOptimizer  # noqa: PLC0415 - loaded, where there is an optimizer

    for p, g in zip(params, gradients, strict=True):
        if p.grad is not g:
            p.grad = g
    RuledOptimizer.step(optimizer)


class _Spent(Function):
    """The history of a loss behind its backward()."""

    @staticmethod
    def forward(ctx: Any, t: Tensor) -> Tensor:
        return t.view_as(t)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        raise RuntimeError(
            "Trying to backward through the graph a second time: what was saved for it is gone since backward() ran in"
            " compiled code. Specify retain_graph=True in the first backward()."
        )


def spent(t: Tensor) -> Tensor:
    """A loss as it is behind its backward(): it wants a gradient, and has none to give."""
    with enable_grad():
        return _Spent.apply(t.requires_grad_())


ACTS: dict[str, Callable[..., None]] = {
    **{f.__name__: f for f in (refill, refill_base, refill_dict, refill_dict_base, refill_set, set_grad, set_item,
                               delete_item, fill_cell, step_behind)},
    "set_attribute": object.__setattr__, "delete_attribute": object.__delattr__,
}
