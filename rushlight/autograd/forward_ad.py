"""Forward mode: dual tensors carry a tangent, and every op on them computes the tangent of its result.

Enters: `make_dual(primal, tangent)` inside `dual_level()`. Leaves: `unpack_dual(result).tangent`. No op has a forward
rule of its own: views are applied to the tangent, everything else uses the op's backward rule twice (the vjp is
linear in its gradient, and the gradient of a linear map is its transpose: the jvp). One level at a time.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

from .. import _C
from .backward import grad
from .grad_mode import enable_grad, set_grad_enabled

KEY_FORWARD_AD = 1 << 6   # kKeyForwardAD of csrc/types.h
_levels: list[list[weakref.ref]] = []


class UnpackedDualTensor(NamedTuple):
    """A dual tensor taken apart."""

    primal: Any
    tangent: Any


def enter_dual_level() -> int:
    """Open a level; returns its number."""
    if _levels:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _levels.append([])
    return len(_levels) - 1


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the innermost level: its tensors lose their tangents."""
    if not _levels:
        raise RuntimeError("Trying to exit a forward AD level but none is open.")
    if level is not None and level != len(_levels) - 1:
        raise RuntimeError(f"Trying to exit forward AD level {level}, but the innermost open one is {len(_levels) - 1}: close them in order.")
    for reference in _levels.pop():
        tensor = reference()
        if tensor is not None:
            tensor._tangent = None


class dual_level:  # noqa: N801 (PyTorch's name)
    """The block within which dual tensors live."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exc: Any) -> None:
        exit_dual_level()


@contextlib.contextmanager
def without_tangents() -> Iterator[None]:
    """Ops inside ignore tangents."""
    keys, excluded = _C.get_thread_keys()
    _C.set_thread_keys(keys, excluded | KEY_FORWARD_AD)
    try:
        yield
    finally:
        _C.set_thread_keys(keys, excluded)


def set_tangent(tensor: Any, tangent: Any) -> None:
    """Attach `tangent` to `tensor` until the level closes."""
    if not _levels:
        raise RuntimeError("Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first.")
    tensor._tangent = tangent
    _levels[-1].append(weakref.ref(tensor))


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """An alias of `tensor` that carries `tangent`, of the same shape and dtype."""
    if not _levels:
        raise RuntimeError("Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first.")
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise ValueError(f"Expected primal to be floating point or complex, but got: {tensor.dtype}")
    if not (tangent.is_floating_point() or tangent.is_complex()):
        raise ValueError(f"Expected tangent to be floating point or complex, but got: {tangent.dtype}")
    if tuple(tensor.shape) != tuple(tangent.shape):
        raise RuntimeError(f"Trying to set a forward gradient that has a different size than that of the original Tensor: {tuple(tangent.shape)}, expected {tuple(tensor.shape)}.")
    if tensor.dtype != tangent.dtype:
        raise RuntimeError(f"Expected the tangent to have the dtype of the primal, {tensor.dtype}, but got {tangent.dtype}")
    dual = alias(tensor)
    set_tangent(dual, tangent)
    return dual


def alias(tensor: Any) -> Any:
    """The same tensor under another object, without tangent but with its history."""
    with without_tangents():
        return tensor.view_as(tensor) if tensor.requires_grad else tensor.detach()


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """(primal, tangent); the tangent is None for a tensor that is no dual."""
    if not _levels or tensor._tangent is None:
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(alias(tensor), tensor._tangent)


def tangents_of(args: tuple) -> tuple | None:
    """The tangent of every argument (None where there is none), or None when no argument is a dual."""
    if not _levels:
        return None
    found = tuple(a._tangent if isinstance(a, _C.Tensor) else None for a in args)
    return found if any(t is not None for t in found) else None


# --- ops on duals ---------------------------------------------------------------------------------------------------


def jvp_call(overload: Any, args: tuple) -> Any:
    """Run `overload` on bound arguments of which some are duals; results carry their tangents."""
    if not overload.records and not overload.is_view and not overload.inplace and overload.run is not None and _is_composite(overload):
        return overload.run(*args)   # its body's ops come back here one by one
    with without_tangents():
        if overload.is_view:
            return _view(overload, args)
        if overload.inplace:
            return _in_place(overload, args)
        return _general(overload, args)


def _is_composite(overload: Any) -> bool:
    return hasattr(overload.definition, "compute")


def _view(overload: Any, args: tuple) -> Any:
    """A view of the primal carries the same view of the tangent, so that writes reach both."""
    result = overload.redispatch(*args)
    tangent = args[0]._tangent
    if tangent is not None:
        _attach(result, overload.redispatch(tangent, *args[1:]))
    return result


def _attach(results: Any, tangents: Any) -> None:
    if isinstance(results, _C.Tensor):
        results, tangents = (results,), (tangents,)
    for result, tangent in zip(results, tangents, strict=True):
        if isinstance(result, _C.Tensor) and tangent is not None:
            set_tangent(result, tangent)


def _duals(args: tuple) -> Iterator[tuple[int, int | None, Any]]:
    """(argument, position in it for lists, tensor) of every dual among the arguments."""
    for i, a in enumerate(args):
        if isinstance(a, _C.Tensor):
            if a._tangent is not None:
                yield i, None, a
        elif isinstance(a, (list, tuple)):
            for k, item in enumerate(a):
                if isinstance(item, _C.Tensor) and item._tangent is not None:
                    yield i, k, item


def _linearise(overload: Any, args: tuple) -> tuple[Any, list]:
    """Run the op on fresh aliases of its duals: (result, tangents of its results as a list)."""
    places = list(_duals(args))
    outer = _C.is_grad_enabled() and any(t.requires_grad or t._tangent.requires_grad for _, _, t in places)
    with enable_grad():
        inputs = [t.view_as(t) if outer and t.requires_grad else t.detach().requires_grad_() for _, _, t in places]
        replaced = [list(a) if isinstance(a, (list, tuple)) else a for a in args]
        for (i, k, _), x in zip(places, inputs, strict=True):
            fresh = x.clone() if overload.inplace and i == 0 else x
            if k is None:
                replaced[i] = fresh
            else:
                replaced[i][k] = fresh
        if overload.inplace and isinstance(replaced[0], _C.Tensor) and replaced[0] is args[0]:
            replaced[0] = args[0].clone()
        result = overload.redispatch(*replaced)
        outputs = [result] if isinstance(result, _C.Tensor) else [r for r in result if isinstance(r, _C.Tensor)]
        tangents = _transpose_twice(outputs, inputs, [t._tangent for _, _, t in places], outer)
    return result, tangents


def _transpose_twice(outputs: list, inputs: list, directions: list, create_graph: bool) -> list:
    followed = [y for y in outputs if y.requires_grad]
    if not followed:
        return [None] * len(outputs)
    weights = [y.detach().clone().zero_().requires_grad_() for y in followed]
    pulled = grad(followed, inputs, weights, create_graph=True, allow_unused=True)
    pairs = [(p, d) for p, d in zip(pulled, directions, strict=True) if p is not None and p.requires_grad]
    made: tuple = (None,) * len(followed)
    if pairs:
        made = grad([p for p, _ in pairs], weights, [d for _, d in pairs], create_graph=create_graph, allow_unused=True)
    tangents = iter(made)
    answer = []
    for y in outputs:
        t = next(tangents) if y.requires_grad else None
        answer.append(y.detach().clone().zero_() if t is None and y.requires_grad else t)
    return answer


def _general(overload: Any, args: tuple) -> Any:
    result, tangents = _linearise(overload, args)
    keep_history = _C.is_grad_enabled() and any(a.requires_grad for a in _tensors(args))
    if not keep_history:
        result = _map(result, lambda t: t.detach() if t.requires_grad else t)
    tensors = [result] if isinstance(result, _C.Tensor) else [r for r in result if isinstance(r, _C.Tensor)]
    _attach(tensors, tangents)
    return result


def _in_place(overload: Any, args: tuple) -> Any:
    """The tangent first, from copies; then the write, and the same write to the tangent."""
    _, tangents = _linearise(overload, args)
    result = overload.redispatch(*args)
    target = args[0]
    if tangents[0] is not None:
        if target._tangent is not None:
            with set_grad_enabled(_C.is_grad_enabled() and tangents[0].requires_grad):
                target._tangent.copy_(tangents[0])
        else:
            set_tangent(target, tangents[0])
    return result


def _tensors(args: tuple) -> Iterator[Any]:
    for a in args:
        if isinstance(a, _C.Tensor):
            yield a
        elif isinstance(a, (list, tuple)):
            yield from (item for item in a if isinstance(item, _C.Tensor))


def _map(result: Any, fn: Any) -> Any:
    if isinstance(result, _C.Tensor):
        return fn(result)
    made = [fn(r) if isinstance(r, _C.Tensor) else r for r in result]
    if isinstance(result, list):
        return made
    return type(result)(*made) if hasattr(result, "_fields") else tuple(made)
