"""The interpreter of `jvp` levels: every op computes its result and the tangent of its result, one level down.

Enters: a call with tensors of the innermost jvp level. Leaves: results that carry tangents. Views are applied to the
tangent; pointwise ops have a forward form derived from their expression; everything else transposes its reverse rule
(the vjp is linear in its gradient, and the vjp of a linear map is its transpose). Refuses: writes to tensors made
outside the transformed function, and ops without a derivative.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ...autograd.backward import grad
from ...op.fused import Fused
from ...op.pointwise import Pointwise
from ...op.registry import find_op, is_differentiated_body
from ...rules import levels
from ...rules.levels import Dual, behind
from ...rules.tangent import jvp_form
from .grad import check_target


def interpret(level: levels.JvpLevel, overload: Any, args: tuple, tensors: list[Any]) -> Any:
    """One call at a jvp level."""
    for t in tensors:
        levels.join_base(t, level)
    if (
        is_differentiated_body(overload)
        or overload.definition.batch == "body"
        or (isinstance(overload.definition, Fused) and len(overload.definition.spec.returns) > 1)
    ):
        result = body_of(overload)(*args)
        return (
            result
            if level.is_ambient
            else levels.map_tensors(lambda t: levels.dual(level, t) if behind(t, level) is None else t, result)
        )
    if (overload.inplace or level.is_ambient) and all(behind(t, level) is None for t in tensors):
        return levels.below(level, overload.call, *args)
    if overload.inplace and behind(args[0], level) is None:
        if level.is_ambient:
            levels.adopt(args[0], level)
        else:
            check_target(level, overload, args[0])
    grad_mode = _C.is_grad_enabled()

    def runner(*_: Any) -> Any:
        _C._set_grad_enabled(grad_mode)   # off around what stands in for a kernel, and put back by the caller
        return levels.below(level, push, level, overload, args)

    if level.is_ambient and any(t.requires_grad for t in tensors):   # the graph around duals holds plain tensors too
        return overload.autograd(runner, *args)
    if overload.inplace or any(t.requires_grad and behind(t, level) is not None for t in tensors):
        own = levels.map_args(
            lambda t: levels.dual(level, t) if t.requires_grad and behind(t, level) is None else t, args
        )
        return overload.autograd(runner, *own)
    return runner()


def body_of(overload: Any) -> Any:
    """The op written with other ops. The smaller results of a fused op have no reverse rule to transpose."""
    definition = overload.definition
    return (lambda *args: definition.wrap(definition.compute(*args))) if isinstance(definition, Fused) else overload.run


def push(level: levels.JvpLevel, overload: Any, args: tuple) -> Any:
    """Values and tangents one level down."""
    values = levels.map_args(lambda t: levels.lowered(t, level), args)
    places = duals(level, args)
    if overload.is_view and behind(args[0], level) is not None:
        match_layout(behind(args[0], level))
        places = duals(level, args)
    if overload.inplace:
        return push_inplace(level, overload, args, values, places)
    result = overload.call(*values)
    tangents = tangents_of(overload, values, places, result) if places else None
    many = isinstance(result, (tuple, list))
    outs = list(result) if many else [result]
    results = []
    for k, r in enumerate(outs):
        if not isinstance(r, _C.Tensor):
            results.append(r)
        elif not many and args and r is values[0]:
            return args[0]
        else:
            results.append(levels.dual(level, r, tangents[k] if tangents is not None else None))
            if overload.is_view and behind(args[0], level) is not None:
                _C.mark_view(results[-1], args[0], many)
                behind(args[0], level).is_shared = behind(results[-1], level).is_shared = True
    if not many:
        return results[0]
    kinds = iter(results)
    return (
        levels.map_tensors(lambda _: next(kinds), result)
        if all(isinstance(r, _C.Tensor) for r in outs)
        else type(result)(results)
    )


def match_layout(w: Dual) -> None:
    """Give the tangent the strides of its primal, so that every view of the one is a view of the other."""
    t, v = w.tangent, w.value
    if t is None or t.stride() == v.stride() or not v._is_dense():
        return
    w.tangent = t.new_empty_strided(tuple(v.shape), v.stride()).copy_(t)


def duals(level: levels.JvpLevel, args: tuple) -> list[tuple[int, int | None, Any]]:
    """(argument, position in it for lists, tangent) of every tensor with a tangent."""
    found: list[tuple[int, int | None, Any]] = []
    for i, a in enumerate(args):
        for k, t in enumerate(a) if isinstance(a, (list, tuple)) else ((None, a),):
            tangent = levels.tangent_of(t, level) if isinstance(t, _C.Tensor) else None
            if tangent is not None:
                found.append((i, k, tangent))
    return found


def push_inplace(level: levels.JvpLevel, overload: Any, args: tuple, values: tuple, places: list) -> Any:
    """The tangent first, from the values before the write; then the write, and the same write to the tangent."""
    target, w = args[0], behind(args[0], level)
    own = levels.tangent_of(target, level)
    if w.is_shared:   # the tangent is written below, and rules may keep what they see of it
        places = [(i, k, t.clone() if i == 0 or is_alias(t, own) else t) for i, k, t in places]
    tangent = None
    if places:
        copied = [v.clone() if isinstance(v, _C.Tensor) and is_alias(v, values[0]) else v for v in values[1:]]
        before = (values[0].clone(), *copied)
        out = overload.call(*levels.map_args(lambda t: t, (before[0].clone(), *values[1:])))
        tangent = tangents_of(overload, before, places, out)[0]
        if tangent is not None and tangent.shape != values[0].shape:
            tangent = tangent.expand(values[0].shape)
    overload.call(*values)
    _C.rewrap(target, values[0])
    if tangent is None:
        if own is not None and w.is_shared:
            own.zero_()
        else:
            w.tangent = None
    elif not w.is_shared:
        w.tangent = tangent if _C.is_grad_enabled() or own is None else with_history(tangent, own)
    elif own is not None and own.shape == tangent.shape and not own._overlaps_itself():
        own.copy_(tangent)
    else:
        give_tangent(level, target, w, tangent)
    return target


def is_alias(t: Any, other: Any) -> bool:
    """Whether two tangents are views of one, or one of the other."""
    if other is None:
        return False
    return (t if t._base is None else t._base) is (other if other._base is None else other._base)


def with_history(new: Any, old: Any) -> Any:
    """What a write that is not recorded leaves of a tangent: other numbers, the same history."""
    _C._set_grad_enabled(True)
    try:
        result = old.clone()
    finally:
        _C._set_grad_enabled(False)
    return result.copy_(new)


def give_tangent(level: levels.JvpLevel, target: Any, w: Dual, tangent: Any) -> None:
    """A tangent for a tensor that had none, where others see its memory: all look at that of their base."""
    base = target._base
    root = w if base is None else behind(base, level)
    if root is None or not root.value._is_dense():
        w.tangent = tangent if tangent.dtype is w.value.dtype else tangent.to(w.value.dtype)
        return
    if root.tangent is None:
        root.tangent = find_op("empty_like")(root.value).zero_()
    w.tangent = root.tangent if root is w else levels.seen_through(root.tangent, root.value, w.value)
    w.tangent.copy_(tangent)


# --- tangents of one op -----------------------------------------------------------------------------------------------


def tangents_of(overload: Any, values: tuple, places: list, result: Any) -> list[Any]:
    """The tangents of the results (None: zero), from the tangents in `places`."""
    definition = overload.definition
    outs = list(result) if isinstance(result, (tuple, list)) else [result]
    if overload.is_view:
        tangent = places[0][2]
        try:
            answer = overload.call(tangent, *values[1:])
        except RuntimeError:
            if tangent.stride() == values[0].stride():
                raise
            # The value was copied into another order before it was viewed; its tangent was not.
            answer = overload.call(
                _C.empty(tangent.shape, values[0].stride(), tangent.dtype, tangent.device).copy_(tangent), *values[1:]
            )
        return list(answer) if isinstance(answer, (tuple, list)) else [answer]
    if not definition.differentiable or not overload.records:
        check_constant(overload, outs)
        return [None] * len(outs)
    if isinstance(definition, Pointwise) and all(k is None for _, k, _ in places):
        usable = [(i, t) for i, _, t in places]
        answer = jvp_form(overload, tuple(i for i, _ in usable)).call(*[t for _, t in usable], *values)
        answer = list(answer) if isinstance(answer, (tuple, list)) else [answer]
        return [m if is_differentiable(o) else None for m, o in zip(answer, outs, strict=True)]
    return transposed(overload, values, places, outs)


def check_constant(overload: Any, outs: list[Any]) -> None:
    """Refuse an op whose results have no tangents here though they depend on tensors that have: custom ones, and
    kernels that other ops' rules call, of which the rule of the caller should have known."""
    if overload.definition.custom:
        raise NotImplementedError(f"{overload.name}: a custom op needs register_autograd to be used with forward mode")
    if overload.name.startswith("_") and overload.definition.batch != "random" and any(map(is_differentiable, outs)):
        raise NotImplementedError(f"{overload.name}: forward mode of this op is not implemented")


def is_differentiable(t: Any) -> bool:
    """Only floating point and complex results have tangents."""
    return isinstance(t, _C.Tensor) and (t.dtype.is_floating_point or t.dtype.is_complex)


def transposed(overload: Any, values: tuple, places: list, outs: list[Any]) -> list[Any]:
    """The tangents, by differentiating the reverse rule by its gradient."""
    level = levels.GradLevel()
    followed = [k for k, o in enumerate(outs) if is_differentiable(o) and (o.numel() or len(outs) == 1)]
    answer: list[Any] = [None] * len(outs)
    if not followed:
        return answer
    start = {k: find_op("zeros_like")(outs[k].detach()) for k in followed}
    before = _C.is_grad_enabled()
    _C._set_grad_enabled(True)
    try:
        with levels.opened(level):
            level.outer_grad_mode = before
            weights = {k: levels.track(level, s).requires_grad_() for k, s in start.items()}
            pulled = reverse(level, overload, values, places, outs, weights)
            pairs = [
                (p, levels.track(level, t))
                for p, (_, _, t) in zip(pulled, places, strict=True)
                if p is not None and p.requires_grad
            ]
            if len(pairs) < sum(p is not None for p in pulled):
                check_zero(level, overload, values, places, outs, pulled)
            if pairs:
                pairs = [(p, t if p.shape == t.shape else t.expand(p.shape)) for p, t in pairs]
                result = grad(
                    [p for p, _ in pairs],
                    [weights[k] for k in followed],
                    [as_type(t, p) for p, t in pairs],
                    create_graph=True,
                    allow_unused=True,
                )
                for k, m in zip(followed, result, strict=True):
                    answer[k] = None if m is None else levels.lowered(m, level)
    finally:
        _C._set_grad_enabled(before)
    return [a if a is None or a.dtype is o.dtype else a.to(o.dtype) for a, o in zip(answer, outs, strict=True)]


def check_zero(
    level: levels.GradLevel, overload: Any, values: tuple, places: list, outs: list[Any], pulled: list[Any]
) -> None:
    """Refuse a reverse rule that is no differentiable function of its gradient, unless it gives 0 for every one."""
    weights = {k: levels.track(level, find_op("ones_like")(o)) for k, o in enumerate(outs) if is_differentiable(o)}
    for p, again in zip(pulled, reverse(level, overload, values, places, outs, weights), strict=True):
        if p is None or p.requires_grad or again is None or not levels.readable(again):
            continue
        if bool((again.detach() != 0).any()):
            raise NotImplementedError(
                f"{overload.name}: forward mode of this op is not implemented: its gradient has no derivative"
            )


def as_type(t: Any, like: Any) -> Any:
    """The tangent in the type of the gradient it is paired with."""
    return t if t.dtype is like.dtype else t.to(like.dtype)


def reverse(
    level: levels.GradLevel, overload: Any, values: tuple, places: list, outs: list[Any], weights: dict[int, Any]
) -> list[Any]:
    """The op's reverse rule at `weights`: one gradient per place."""
    definition = overload.definition
    marked = {(i, k) for i, k, _ in places}

    def shown(i: int, k: int | None, t: Any) -> Any:
        if not isinstance(t, _C.Tensor):
            return t
        result = levels.track(level, t)
        return result.requires_grad_() if (i, k) in marked else result

    args = [
        (
            [shown(i, k, t) for k, t in enumerate(a)]
            if isinstance(a, (list, tuple)) and any(isinstance(t, _C.Tensor) for t in a)
            else shown(i, None, a)
        )
        for i, a in enumerate(values)
    ]
    saved = definition.saved_names()
    kept = [a for p, a in zip(definition.spec.params, args, strict=True) if p.name in saved]
    if "result" in saved:
        results = [levels.track(level, o) if isinstance(o, _C.Tensor) else o for o in outs]
        kept.append(results[0] if len(outs) == 1 else tuple(results))
    g = weights[0] if len(outs) == 1 else tuple(weights.get(k) for k in range(len(outs)))
    tensor_params = [i for i, p in enumerate(definition.spec.params) if p.is_tensor]
    # This rule may run inside another's, of a backward pass, where other parameters are asked for.
    asked = _C._set_vjp_needs(sum(1 << tensor_params.index(i) for i in {i for i, _, _ in places}))
    try:
        result = overload.vjp(g, *kept)
    finally:
        _C._set_vjp_needs(asked)
    if not isinstance(result, dict):
        result = result if isinstance(result, tuple) and len(result) == len(tensor_params) else (result,)
        result = {definition.spec.params[i].name: m for i, m in zip(tensor_params, result, strict=False)}
    found = []
    for i, k, _ in places:
        answer = result.get(definition.spec.params[i].name)
        found.append(answer if k is None or answer is None else answer[k])
    return found


levels.interpreters["jvp"] = interpret
