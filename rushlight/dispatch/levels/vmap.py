"""The interpreter of `vmap` levels: batching rules, and what drawing random numbers means for a batch.

Enters: a call at the innermost vmap level. Leaves: results as tensors of that level, or plain ones where no argument
had the batch. Refuses: random ops unless `randomness` says what they mean,
and ops whose results depend on data in shape.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ...autograd.function_levels import VmapInfo, with_dims
from ...op.registry import is_body
from ...rules import batching, levels
from ...rules.batching import check_target, expanded, front, wrapped
from ...rules.levels import VmapLevel, behind
from ...rules.random_level import random_error


def interpret(level: VmapLevel, overload: Any, args: tuple, tensors: list[Any]) -> Any:
    """One call at a vmap level."""
    definition = overload.definition
    is_batched = any(behind(t, level) is not None for t in tensors)
    if definition.batch == "random":
        return draws(level, overload, args, is_batched)
    if not is_batched and not is_body(overload):
        return levels.below(level, overload.call, *args)
    if is_body(overload):
        return overload.run(*args)
    rule = custom_rule if definition.custom and definition.vmap_rule is not None else batching.rule_of(overload)
    return levels.below(level, rule, level, overload, args)


def custom_rule(level: VmapLevel, overload: Any, args: tuple) -> Any:
    """The rule given to library.register_vmap."""
    params = overload.definition.spec.params

    def taken_apart(a: Any) -> tuple[Any, Any]:
        if isinstance(a, (list, tuple)) and any(isinstance(t, _C.Tensor) for t in a):
            pairs = [taken_apart(t) for t in a]
            return [p[0] for p in pairs], [p[1] for p in pairs]
        w = behind(a, level) if isinstance(a, _C.Tensor) else None
        return (a, None) if w is None else (w.value, w.dim)

    pairs = [taken_apart(a) for a in args]
    positional = [v for p, (v, _) in zip(params, pairs, strict=True) if not p.keyword_only]
    named = {p.name: v for p, (v, _) in zip(params, pairs, strict=True) if p.keyword_only}
    result = overload.definition.vmap_rule(
        VmapInfo(level.batch_size, level.randomness), tuple(d for _, d in pairs), *positional, **named
    )
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(
            f"{overload.name}: its vmap rule must return (output, out_dims), got {type(result).__name__}"
        )
    return with_dims(level, *result, overload.name)


def draws(level: VmapLevel, overload: Any, args: tuple, is_batched: bool) -> Any:
    """An op that draws numbers: once for all examples, or for each of them."""
    different = level.randomness == "different"
    if is_body(overload):   # what it draws into comes back here
        if different and not is_batched:
            args = levels.map_args(lambda t: levels.batch(level, expanded(t, level), 0), args)
        return overload.run(*args)
    if level.randomness == "error":
        random_error(overload.name)
    if overload.inplace:
        return levels.below(level, fill, level, overload, args, is_batched)
    if not different:
        if is_batched:
            raise RuntimeError(
                f"vmap: {overload.name} draws from parameters that differ between examples, which randomness='same'"
                " cannot do. Use randomness='different'."
            )
        return levels.below(level, overload.call, *args)
    return levels.below(level, draw_each, level, overload, args)


def fill(level: VmapLevel, overload: Any, args: tuple, is_batched: bool) -> Any:
    """Random numbers written over a tensor."""
    if behind(args[0], level) is None:
        if is_batched:
            check_target(overload, args, level)
        if level.randomness == "different":
            raise RuntimeError(
                f"vmap: {overload.name} cannot write different numbers into a tensor that is the same for all examples"
            )
        overload.call(*args)
        return args[0]
    target = front(args[0], level)
    if level.randomness == "different":
        overload.call(*levels.map_args(lambda t: expanded(t, level), args))
    else:
        first = target.select(0, 0).clone()
        overload.call(first, *args[1:])
        target.copy_(first)
    return args[0]


def draw_each(level: VmapLevel, overload: Any, args: tuple) -> Any:
    """Numbers for every example: a larger size, or parameters repeated."""
    names = [p.name for p in overload.definition.spec.params]
    given = list(levels.map_args(lambda t: expanded(t, level), args))
    if "size" in names:
        at = names.index("size")
        size = given[at]
        given[at] = (level.batch_size, *(size if isinstance(size, (tuple, list)) else (size,)))
        return wrapped(overload.call(*given), level)
    if any(isinstance(a, _C.Tensor) for a in args):
        return wrapped(overload.call(*given), level)
    return wrapped(batching.stacked([overload.call(*args) for _ in range(level.batch_size)]), level)


levels.interpreters["vmap"] = interpret
