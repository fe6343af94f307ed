"""The interpreter of `grad` and `vjp` levels: the tape around the level below.

Enters: a call with tensors of the innermost grad level among its arguments. Leaves: its result as tensors of that
level, recorded on their own histories while the values are computed one level down. Refuses: in-place writes to tensors
made outside the transformed function.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ...op.registry import is_differentiated_body
from ...rules import levels


def interpret(level: levels.GradLevel, overload: Any, args: tuple, tensors: list[Any]) -> Any:
    """One call at a grad level."""
    if is_differentiated_body(overload):
        return lifted(level, overload.run(*args))
    if overload.inplace and levels.behind(args[0], level) is None:
        if all(levels.behind(t, level) is None for t in tensors):
            return levels.below(level, overload.call, *args)
        check_target(level, overload, args[0])
    grad_mode = _C.is_grad_enabled()

    def runner(*_: Any) -> Any:
        _C._set_grad_enabled(grad_mode)   # off around what stands in for a kernel, and put back by the caller
        values = levels.map_args(lambda t: levels.lowered(t, level), args)
        result = levels.below(level, overload.call, *values, grad_mode=grad_mode and level.outer_grad_mode)
        if overload.inplace:
            _C.rewrap(args[0], values[0])
            return args[0]
        return wrap_result(level, overload, args, values, result)

    # Tensors of lower levels may have histories there, which are none of this level's business.
    if overload.definition.custom and overload.definition.node is not None:
        return overload.definition.record(args, runner())
    own = levels.map_args(
        lambda t: levels.track(level, t) if t.requires_grad and levels.behind(t, level) is None else t, args
    )
    return overload.autograd(runner, *own)


def check_target(level: levels.Level, overload: Any, target: Any) -> None:
    """A write must stay inside the transformed function; memory an op's body made is inside."""
    if levels.state.is_internal:
        levels.adopt(target, level)
    else:
        raise RuntimeError(
            f"{overload.name}: the function given to a {level.kind} transform (grad, vjp, jvp, ...) writes to a tensor"
            " made outside of it, which cannot be differentiated. Pass that tensor as an argument, or write to a copy"
            " made inside."
        )


def lifted(level: levels.Level, result: Any) -> Any:
    """Results of a body; what it made without ops of this level joins the level."""
    return levels.map_tensors(lambda t: levels.track(level, t) if levels.behind(t, level) is None else t, result)


def wrap_result(level: levels.Level, overload: Any, args: tuple, values: tuple, result: Any) -> Any:
    """Results as tensors of the level; a value that came back is the tensor it came from."""
    base = args[0] if args and isinstance(args[0], _C.Tensor) else None
    many = isinstance(result, (tuple, list))

    def wrap(t: Any) -> Any:
        if base is not None and t is values[0] and not many:
            return base
        answer = levels.track(level, t)
        if overload.is_view and base is not None and levels.behind(base, level) is not None:
            _C.mark_view(answer, base, many)
        return answer

    return levels.map_tensors(wrap, result)


levels.interpreters["grad"] = interpret
