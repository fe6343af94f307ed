"""The interpreter of `functionalize` levels: writes become ops with results of their own.

Enters: a call with tensors of the level among its arguments, or none. Leaves: its result as tensors of the level. What
is behind such a tensor never changes: an in-place op runs as its functional form one level down, and the result takes
the place of what was there. Tensors that share memory share a `Memory`; a write through a view goes back to it through
the inverses of the views (`View.inverse`), and others look at it anew when they are next asked.
Refuses: writes of the level's values into tensors made outside of it, and in-place changes of sizes that are no views.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ...base import late
from ...base.promotion import can_cast
from ...op.registry import find_op, is_differentiated_body, ops
from ...rules import levels
from ...rules.levels import Functional, FunctionalizeLevel

# in place, and yet views
RESHAPED = frozenset(("t_", "transpose_", "swapdims_", "swapaxes_", "squeeze_", "unsqueeze_", "as_strided_"))


def interpret(level: FunctionalizeLevel, overload: Any, args: tuple, tensors: list[Any]) -> Any:
    """One call at a functionalize level."""
    if overload.name in RESHAPED and behind(args[0], level) is not None:
        return look_otherwise(level, args[0], find_op(overload.name[:-1])(*args))
    if is_differentiated_body(overload) and not is_draw(overload):
        return levels.map_tensors(
            lambda t: t if behind(t, level) is not None else levels.functional(level, t), overload.run(*args)
        )
    if writes_arguments(overload):
        return write_arguments(level, overload, args)
    if overload.inplace:
        return write(level, overload, args, tensors)
    values = levels.map_args(lambda t: current(level, t), args)
    result = levels.below(level, called, level, overload, values)
    return wrapped(level, overload, args, values, result)


def is_draw(overload: Any) -> bool:
    """Whether the op draws random numbers by itself: its body would draw them once, when it is traced."""
    return overload.definition.batch == "random" and not overload.definition.is_composite


def behind(t: Any, level: FunctionalizeLevel) -> Functional | None:
    return levels.behind(t, level) if isinstance(t, _C.Tensor) else None


def called(level: FunctionalizeLevel, overload: Any, values: tuple) -> Any:
    """The call itself; where views are to go, a view's copying form."""
    if overload.is_view and level.removes_views:
        name = f"{overload.definition.spec.name}_copy"
        return (
            call(find_op(name), overload, values)
            if name in ops
            else levels.map_tensors(lambda t: t.clone(), overload.call(*values))
        )
    return overload.call(*values)


def call(function: Any, overload: Any, args: tuple) -> Any:
    """function(*args), keywords where the overload has them."""
    params = overload.definition.spec.params
    positional = [a for p, a in zip(params, args, strict=True) if not p.keyword_only]
    return function(*positional, **{p.name: a for p, a in zip(params, args, strict=True) if p.keyword_only})


# --- what is behind ---------------------------------------------------------------------------------------------------


def current(level: FunctionalizeLevel, t: Any) -> Any:
    """The value of a tensor, after all writes to its memory."""
    w = behind(t, level)
    if w is None:
        return t
    if w.seen != w.memory.writes:
        w.value = levels.below(level, shown, level, w.memory.value, w.views)
        w.seen = w.memory.writes
    return w.value


def shown(level: FunctionalizeLevel, value: Any, views: tuple) -> Any:
    """What views show of a value."""
    for overload, args, which in views:
        result = called(level, overload, (value, *args))
        value = result[which] if isinstance(result, (tuple, list)) else result
    return value


def replaced(level: FunctionalizeLevel, value: Any, views: tuple, new: Any) -> Any:
    """`value` with what the views show of it exchanged for `new`."""
    if not views:
        return new
    overload, args, which = views[0]
    inside = replaced(level, shown(level, value, views[:1]), views[1:], new) if len(views) > 1 else new
    return laid_out(overload.definition.inverse(value, inside, which, *args), value)


def laid_out(new: Any, old: Any) -> Any:
    """`new` with its dims in memory as those of `old` are: views of the one must be views of the other."""
    if new.stride() == old.stride():
        return new
    order = sorted(range(old.ndim), key=lambda d: old.stride(d), reverse=True)
    back = [order.index(d) for d in range(old.ndim)]
    return new.contiguous() if order == back else new.permute(order).contiguous().permute(back)


def wrapped(level: FunctionalizeLevel, overload: Any, args: tuple, values: tuple, result: Any) -> Any:
    """Results as tensors of the level. What came back is the tensor it came from;
    a view shares memory with its source."""
    known = {id(v): a for a, v in zip(flat(args), flat(values), strict=True) if isinstance(v, _C.Tensor)}
    source = behind(args[0], level) if overload.is_view and args else None
    layouts = view_layouts(overload, args) if source is not None and level.removes_views else None
    counter = iter(range(1 << 30))

    def wrap(t: Any) -> Any:
        which = next(counter)
        if id(t) in known and behind(known[id(t)], level) is not None:
            return known[id(t)]
        if source is None:
            return levels.functional(level, t)
        answer = levels.functional(level, t, source.memory, (*source.views, (overload, values[1:], which)))
        if layouts is not None:
            _C.rewrap(answer, layouts[which])
        return answer

    return levels.map_tensors(wrap, result)


def view_layouts(overload: Any, args: tuple) -> list[Any] | None:
    """How views lie in memory, as tensors without any: what is behind them are copies,
    and yet `reshape` must see which of them could be viewed."""
    found = overload.definition.geometry(*args)
    geometries = found if isinstance(found, list) else [found]
    if any(type(n) is not int for g in geometries for n in (*g.sizes, *g.strides)):
        return None
    return [_C.empty(g.sizes, g.strides, g.dtype or args[0].dtype, _C.device("meta")) for g in geometries]


def flat(args: tuple) -> list[Any]:
    return [x for a in args for x in (a if isinstance(a, (tuple, list)) else (a,))]


# --- writes -----------------------------------------------------------------------------------------------------------


def write(level: FunctionalizeLevel, overload: Any, args: tuple, tensors: list[Any]) -> Any:
    """An in-place op: its functional form, whose result takes the place of the target's value."""
    target, w = args[0], behind(args[0], level)
    if w is None:
        if any(behind(t, level) is not None for t in tensors):
            raise RuntimeError(
                f"{overload.name}: functionalize cannot write its values into a tensor made outside of the function."
                " Pass that tensor as an argument."
            )
        return levels.below(level, overload.call, *args)
    values = levels.map_args(lambda t: current(level, t), args)
    new = levels.below(level, functional_form, overload, values)
    w.memory.value = levels.below(level, replaced, level, w.memory.value, w.views, new)
    w.memory.writes += 1
    # What was computed may lie otherwise than the view that was written to; then it is looked at anew.
    if level.removes_views or not w.views or new.stride() == target.stride():
        w.value, w.seen = new, w.memory.writes
    _C.bump_version(target)
    return target


def writes_arguments(overload: Any) -> bool:
    """Whether it is a user's op that writes to what it is given."""
    return overload.definition.custom and any(p.mutated for p in overload.definition.spec.params)


def write_arguments(level: FunctionalizeLevel, overload: Any, args: tuple) -> Any:
    """A user's op that writes: an op that returns what it would have written, which takes the place of the values."""
    values = levels.map_args(lambda t: current(level, t), args)
    result, news = levels.below(level, late.provided("functional form"), overload, values)
    for k, new in news.items():
        w = behind(args[k], level)
        if w is None:
            raise RuntimeError(
                f"{overload.name}: functionalize cannot write its values into a tensor made outside of the function."
                " Pass that tensor as an argument."
            )
        w.memory.value = levels.below(level, replaced, level, w.memory.value, w.views, new)
        w.memory.writes += 1
        _C.bump_version(args[k])
    return levels.map_tensors(lambda t: levels.functional(level, t), result)


def functional_form(overload: Any, values: tuple) -> Any:
    """What an in-place op leaves in its target, as a tensor of its own."""
    target, definition = values[0], overload.definition
    if is_draw(overload):      # a fill: it forgets what was there
        return laid_out(filled(overload, values), target)
    name = definition.spec.name if definition.is_inplace else overload.name.removesuffix("_")
    if not definition.is_inplace and not (name in ops and same_parameters(name, definition.spec)):
        result = target.clone()      # no form of its own: what is written is a copy
        overload.call(result, *values[1:])
        return result
    result = call(find_op(name), overload, values)
    if not can_cast(result.dtype, target.dtype):
        raise RuntimeError(
            f"{overload.name}: the result type {result.dtype.name} can't be cast to that of the target,"
            f" {target.dtype.name}"
        )
    if result.shape != target.shape:
        raise RuntimeError(
            f"{overload.name}: the result of shape {list(result.shape)} does not fit the target of shape"
            f" {list(target.shape)}"
        )
    return laid_out(result if result.dtype is target.dtype else result.to(target.dtype), target)


def filled(overload: Any, values: tuple) -> Any:
    """What a fill leaves in its target: numbers come in the order of the target's memory."""
    spec = overload.definition.spec
    name = spec.name.removesuffix("_")
    # `normal` is another op; `bernoulli` gives dense rows, and takes one probability
    if name == "normal" or (name == "bernoulli" and (spec.overload or not values[0].is_contiguous())):
        name += "_functional"
    return call(find_op(name), overload, values)


def same_parameters(name: str, spec: Any) -> bool:
    """Whether an op takes what its in-place form does."""
    names = [p.name for p in spec.params]
    return any([p.name for p in o.definition.spec.params] == names for o in find_op(name).overload_list)


def look_otherwise(level: FunctionalizeLevel, target: Any, view: Any) -> Any:
    """`t_` and its like: the target becomes the view of itself."""
    w, result = behind(target, level), behind(view, level)
    assert w is not None and result is not None, "both are tensors of the level"
    w.views, w.value, w.seen = result.views, result.value, result.seen
    _C.rewrap(target, result.value)
    return target


levels.interpreters["functionalize"] = interpret
