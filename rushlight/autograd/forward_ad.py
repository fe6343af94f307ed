"""Forward mode: dual tensors carry a tangent, and every op on them computes the tangent of its result.

Enters: `make_dual(primal, tangent)` inside `dual_level()`. Leaves: `unpack_dual(result).tangent`. A dual level is a
level of the function transforms (rules/levels.py; dispatch/levels/jvp.py has the rules), so it composes with all of
them.
Refuses: tangents that do not fit their primal, and dual levels inside dual levels, as PyTorch does: `func.jvp` nests.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from ..rules import levels
from ..rules.levels import JvpLevel

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class _Open(threading.local):
    def __init__(self) -> None:
        self.levels: list[JvpLevel] = []


_open = _Open()


class UnpackedDualTensor(NamedTuple):
    """A dual tensor taken apart."""

    primal: Any
    tangent: Any


def enter_dual_level() -> int:
    """Open a level; returns its number."""
    if _open.levels:
        raise RuntimeError("Nested levels of forward mode AD are not supported")
    level = JvpLevel(is_ambient=True)
    levels.enter(level)
    _open.levels.append(level)
    return len(_open.levels) - 1


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the innermost level: its tensors lose their tangents."""
    if not _open.levels:
        raise RuntimeError("Trying to exit a forward AD level but none is open.")
    if level is not None and level != len(_open.levels) - 1:
        raise RuntimeError(
            f"Trying to exit forward AD level {level}, but the innermost open one is {len(_open.levels) - 1}: close"
            " them in order."
        )
    levels.leave(_open.levels.pop())


class dual_level:  # noqa: N801 (PyTorch's name)
    """The block within which dual tensors live."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exc: Any) -> None:
        exit_dual_level()


def check_tangent(tensor: Any, tangent: Any) -> None:
    """Raise unless `tangent` can be the tangent of `tensor`."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise ValueError(f"make_dual: expected a floating point or complex primal, got {tensor.dtype}")
    if not (tangent.is_floating_point() or tangent.is_complex()):
        raise ValueError(f"make_dual: expected a floating point or complex tangent, got {tangent.dtype}")
    if tuple(tensor.shape) != tuple(tangent.shape):
        raise RuntimeError(
            f"make_dual: expected a tangent of the primal's size, {tuple(tensor.shape)}, got {tuple(tangent.shape)}."
        )
    if tensor.dtype != tangent.dtype:
        raise RuntimeError(
            f"Expected the tangent to have the dtype of the primal, {tensor.dtype}, but got {tangent.dtype}"
        )


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """An alias of `tensor` that carries `tangent`, of the same shape and dtype."""
    if not _open.levels:
        raise RuntimeError("make_dual: no level is entered. Call it inside dual_level(), or after enter_dual_level().")
    check_tangent(tensor, tangent)
    current = _open.levels[-1]
    value = levels.lowered(tensor, current)
    result = value.view_as(value) if value.requires_grad else value.detach()
    result = levels.lowered(result, current)
    dual = levels.dual(current, result, levels.lowered(tangent, current))
    return dual


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """(primal, tangent); the tangent is None for a tensor that is no dual."""
    if not _open.levels:
        return UnpackedDualTensor(tensor, None)
    current = _open.levels[-1]
    levels.join_base(tensor, current)
    tangent = levels.tangent_of(tensor, current)
    return UnpackedDualTensor(tensor if tangent is None else tensor._wrapped.value, tangent)
