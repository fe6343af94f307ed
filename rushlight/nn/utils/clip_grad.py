"""Gradients kept within bounds, by norm or by value.

Enters: parameters (one tensor, or any iterable of them). Leaves: their gradients changed in place; the norm before.
Refuses, if asked to, norms that are not finite.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable
from typing import Any

from ..._C import Tensor, float64
from ...autograd.grad_mode import no_grad
from ...op import find_op
from ...tensors.interop import tensor
from ...torch_names.questions import is_compiling


def _tensors(parameters: Any) -> list[Tensor]:
    if isinstance(parameters, Tensor):
        return [parameters]
    return list(parameters)


def _grouped(tensors: list[Tensor]) -> list[list[Tensor]]:
    """By device and dtype: each group is one call over a list."""
    groups: dict[Any, list[Tensor]] = {}
    for t in tensors:
        groups.setdefault((t.device, t.dtype), []).append(t)
    return list(groups.values())


def _norms(group: list[Tensor], norm_type: float, foreach: bool | None) -> list[Tensor]:
    if foreach is False or any(t.layout != group[0].layout or t.is_meta for t in group):
        return [find_op("linalg_vector_norm")(t, norm_type) for t in group]
    return list(find_op("_foreach_norm")(group, norm_type))


def _side_by_side(norms: list[Tensor]) -> Tensor:
    """The norms in one vector. A stack of hundreds is planned anew at each call:
    numbers on the host are gathered sooner."""
    on_host = not any(
        type(n) is not Tensor or n.device.type != "cpu" or n.requires_grad or n.dtype is not norms[0].dtype
        for n in norms
    )
    if len(norms) < 16 or not on_host or is_compiling():
        return find_op("stack")(norms)
    return tensor([n.item() for n in norms], dtype=norms[0].dtype)


def _scale(grads: list[Tensor], factor: Tensor) -> list[Tensor]:
    """Multiply in one kernel for all; those it does not take are returned. A graph keeps the factor a tensor."""
    if is_compiling():
        return grads
    if type(factor) is not Tensor or len({id(g) for g in grads}) != len(grads):
        return grads
    if factor.device.type != "cpu":
        table = factor.to(float64).reshape(1)
        return [] if _device_scaling().many([(g, table) for g in grads], ()) else grads
    left = _scaling()(grads, grads, {}, factor.item())
    return [grads[i] for i in left or ()]


@functools.cache
def _scaling() -> Any:
    from ...op.multi_tensor import multi_tensor_update  # with the code generator, at the first use

    return multi_tensor_update(
        "scale", (), (), 1, lambda factor: (factor,), lambda s, tensors, numbers: {0: tensors[0] * numbers[0]}
    )


@functools.cache
def _device_scaling() -> Any:
    """The same where the factor is on a device: one launch, which reads it there."""
    from ...op.multi_tensor import DeviceUpdate  # likewise

    return DeviceUpdate("scale", 1, lambda s, tensors, numbers: {0: tensors[0] * numbers[0]}, has_table=True)


def get_total_norm(
    tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """The norm of all tensors as if they were one vector."""
    found = _tensors(tensors)
    norm_type = float(norm_type)
    if not found:
        return find_op("zeros")(())
    device = found[0].device
    norms = [norm for group in _grouped(found) for norm in _norms(group, norm_type, foreach)]
    norms = [norm if norm.device == device else norm.to(device) for norm in norms]
    total = find_op("linalg_vector_norm")(_side_by_side(norms), norm_type)
    if error_if_nonfinite and not bool(total.isfinite()):
        raise RuntimeError(f"the gradients' norm of order {norm_type} is non-finite, so they cannot be clipped by it. "
                           "error_if_nonfinite=False scales them by it all the same")
    return total


def clip_grads_with_norm_(parameters: Any, max_norm: float, total_norm: Tensor, foreach: bool | None = None) -> None:
    """Scale gradients by max_norm / total_norm where that is below 1; the factor never leaves the device."""
    with no_grad():
        grads = [p.grad for p in _tensors(parameters) if p.grad is not None]
        factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
        for group in _grouped(grads):
            here = factor.to(group[0].device)
            rest = group if foreach is False else _scale(group, here)
            for g in rest:
                g.mul_(here)


def clip_grad_norm_(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale gradients so that their common norm is at most max_norm; the norm before."""
    if not isinstance(parameters, Tensor):
        given = isinstance(parameters, Iterable) and not isinstance(parameters, (list, tuple))
        parameters = list(parameters)
        if given and not parameters:
            warnings.warn("parameters: the generator is empty, so nothing is clipped.", stacklevel=2)
    with no_grad():
        grads = [p.grad for p in _tensors(parameters) if p.grad is not None]
        total = get_total_norm(grads, norm_type, error_if_nonfinite, foreach)
        clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Old spelling of clip_grad_norm_."""
    warnings.warn(
        "`nn.utils.clip_grad_norm` is now deprecated in favor of `nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Clamp every element of the gradients to ±clip_value."""
    bound = float(clip_value)
    with no_grad():
        for group in _grouped([p.grad for p in _tensors(parameters) if p.grad is not None]):
            if foreach is False:
                for g in group:
                    g.clamp_(-bound, bound)
            else:
                find_op("_foreach_clamp_min_")(group, -bound)
                find_op("_foreach_clamp_max_")(group, bound)
