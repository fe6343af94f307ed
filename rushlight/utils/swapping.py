"""Exchange two tensors in place: everyone who holds one then sees the other."""

from __future__ import annotations

import weakref
from typing import Any

from ..autograd import no_grad


def swap_tensors(t1: Any, t2: Any) -> None:
    """Exchange data, gradients, class and attributes of two leaf tensors of one dtype that nothing else is built on."""
    for t in (t1, t2):
        if weakref.getweakrefs(t):
            raise RuntimeError("Cannot swap tensors that have weakrefs to them")
        if t.grad_fn is not None or t._is_view():
            raise RuntimeError("swap_tensors: only leaf tensors that are no views can be swapped")
    flags, grads, attributes = (
        (t1.requires_grad, t2.requires_grad),
        (t1.grad, t2.grad),
        [dict(getattr(t, "__dict__", {})) for t in (t1, t2)],
    )
    if type(t1) is not type(t2):
        t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    with no_grad():
        t1.grad = t2.grad = None
        t1.data, t2.data = t2.detach(), t1.detach()
        t1.requires_grad_(flags[1])
        t2.requires_grad_(flags[0])
        t1.grad, t2.grad = grads[1], grads[0]
    for t, own in ((t1, attributes[1]), (t2, attributes[0])):
        if hasattr(t, "__dict__"):
            t.__dict__.clear()
            t.__dict__.update(own)
