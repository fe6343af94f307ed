"""Batching rules, derived from kinds: how one call on examples becomes one call on the whole batch.

Enters: an overload and bound arguments some of which belong to a vmap level. Leaves: the results as tensors of that
level. Rules run one level down and are written with ops, or make an overload of their own (see `batch_overloads.py`),
so every level below sees ordinary calls.

    pointwise     dims are aligned: the batch in front, ones where an operand has fewer dims
    reduction     dims shift by one; without dims, each example is one row
    view          the geometry of one example, with the batch's size and stride in front
    indexed       one more outer range around the same loop body
    scan, "dim"   an op along `dim`: it shifts by one
    fused         rows are rows: the kernel takes more of them; with operands per column, the body
    composite     its body, whose ops come back one by one
    extern        what the definition declares:

`batch = "leading"`: the op takes any number of leading batch dims.   `batch = "dim"`: it works along `dim`.
`batch = "fold"`: dim 0 holds independent examples (of `example_ndim` dims each): the batch joins them.
`batch = "pointwise"`: a body over elements that looks at them: dims are aligned.
`batch = "body"`: `run` is written with ops.   `batch = "data"`: its result's shape depends on data: refused.
`batch = "random"`: it draws numbers (`random/fills.py` has the rules).
`vmap(self, level, overload, args)`: a rule of its own.
`batch = "loop"`, the default of externs: one example after another, with a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from .. import _C
from ..base.tracebacks import users_level
from ..op.definition import OpDefinition
from ..op.fused import Fused
from ..op.indexed import Indexed, Scattered
from ..op.pointwise import Pointwise, Promote
from ..op.reduction import Reduction
from ..op.registry import find_op, ops
from ..op.scan import Scan
from ..op.schema import OPERAND_TYPES
from ..op.view import View, wrap_dim
from .batch_overloads import gather_form, opaque_form, row_form, scatter_form, view_form
from .levels import VmapLevel, adopt, batch, behind, map_args, map_tensors, state

_FORMATS = ("channels_last", "channels_last_3d")
_warned: set[str] = set()


# --- physical tensors -------------------------------------------------------------------------------------------------


def front(t: Any, level: VmapLevel) -> Any:
    """All examples of `t` with the batch as dim 0; None for a tensor that is the same for all."""
    w = behind(t, level)
    if w is None:
        return None
    return w.value if w.dim == 0 else w.value.movedim(w.dim, 0)


def expanded(t: Any, level: VmapLevel) -> Any:
    """All examples of `t`, also where they are the same."""
    v = front(t, level)
    return t.unsqueeze(0).expand((level.batch_size, *t.shape)) if v is None else v


def align(v: Any, ndim: int) -> Any:
    """The batch with ones behind it, so that examples have `ndim` dims."""
    missing = ndim - (v.ndim - 1)
    return v.reshape((v.shape[0], *(1,) * missing, *v.shape[1:])) if missing > 0 else v


def wrapped(result: Any, level: VmapLevel) -> Any:
    """Results whose dim 0 is the batch, as tensors of the level."""
    return map_tensors(lambda r: batch(level, r, 0), result)


def check_target(overload: Any, args: tuple, level: VmapLevel) -> None:
    """A write of examples needs a target that has them."""
    if overload.inplace and behind(args[0], level) is None:
        if state.is_internal:
            return adopt(args[0], level)
        raise RuntimeError(
            f"vmap: {overload.name} is not possible in place: it would write a batch of {level.batch_size} examples"
            " into a tensor that is the same for all of them. Use the out-of-place form, or make the target from a"
            " batched tensor (x.new_zeros(...) instead of zeros(...))."
        )


# --- rules ------------------------------------------------------------------------------------------------------------


def pointwise(level: VmapLevel, overload: Any, args: tuple) -> Any:
    """Align dims, keep types as one example would have them."""
    definition = overload.definition
    check_target(overload, args, level)
    tensors = [a for a in args if isinstance(a, _C.Tensor)]
    ndim = max(t.ndim for t in tensors)
    dtype = (
        example_dtype(definition, args)
        if isinstance(definition, Pointwise) and any(not t.ndim for t in tensors) and ndim
        else None
    )

    def physical(i: int, a: Any) -> Any:
        if not isinstance(a, _C.Tensor):
            return None if getattr(a, "name", None) in _FORMATS or str(a).rpartition(".")[2] in _FORMATS else a
        v = front(a, level)
        if v is None:
            return a
        if (
            dtype is not None
            and not a.ndim
            and v.dtype is not dtype
            and definition.spec.params[i].name not in definition.apart
        ):
            v = v.to(dtype)
        return align(v, ndim)

    result = overload.call(*[physical(i, a) for i, a in enumerate(args)])
    return args[0] if overload.inplace else wrapped(result, level)


def example_dtype(definition: Pointwise, args: tuple) -> Any:
    """The type that examples are promoted to: a number-like example must not count as a tensor with dims."""
    if definition.promote is Promote.KEEP or any(
        p.type not in OPERAND_TYPES and p.is_tensor for p in definition.spec.params
    ):
        return None
    return definition.common_dtype(args, definition.operand_indices(args))


def reduction(level: VmapLevel, overload: Any, args: tuple) -> Any:
    """Shift dims; fold everything else away where none are named."""
    definition, t = overload.definition, args[0]
    if any(isinstance(a, _C.Tensor) for a in args[1:]):
        return loop(level, overload, args)
    at_dim, at_keepdim, _ = definition.positions
    v = front(t, level)
    if definition.is_rows:   # rows of a batch inside this one
        answer = overload.call(v.flatten(0, 1), *args[1:])
        return wrapped(map_tensors(lambda r: r.reshape(v.shape[:2]), answer), level)
    if at_dim is None:
        return wrapped(row_form(overload).call(v.reshape((v.shape[0], max(t.numel(), 0))), *args[1:]), level)
    dim = args[at_dim]
    given = list(args)
    if not t.ndim:
        v = v.unsqueeze(1)
    if dim is None and definition.spec.params[at_dim].type == "int?":   # positions count over the flattened example
        given[0], given[at_dim] = v.reshape((v.shape[0], max(t.numel(), 0))), 1
        keepdim = at_keepdim is not None and given[at_keepdim]
        if at_keepdim is not None:
            given[at_keepdim] = False
        result = overload.call(*given)
        return wrapped(
            map_tensors(lambda r: r.reshape((r.shape[0], *(1,) * t.ndim)), result) if keepdim else result, level
        )
    given[0], given[at_dim] = v, shifted_dims(definition, dim, t.ndim)
    result = overload.call(*given)
    if not t.ndim:
        result = map_tensors(lambda r: r.squeeze(1) if r.ndim == 2 else r, result)
    return wrapped(result, level)


def shifted_dims(definition: Any, dim: Any, ndim: int) -> Any:
    """The dims of an example as dims of the batch."""
    if dim is None or (
        isinstance(dim, (list, tuple)) and not dim and not getattr(definition, "reduce_none_if_empty", False)
    ):
        return tuple(range(1, max(ndim, 1) + 1))
    if isinstance(dim, (list, tuple)):
        return tuple([wrap_dim(definition.name, d, ndim) + 1 for d in dim])
    return wrap_dim(definition.name, dim, ndim) + 1


def view(level: VmapLevel, overload: Any, args: tuple) -> Any:
    """The geometry of one example, with the batch in front."""
    if behind(args[0], level) is None:
        raise RuntimeError(f"{overload.name}: only the tensor that is looked at can be batched")
    result = wrapped(view_form(overload).call(front(args[0], level), *args[1:]), level)
    many = isinstance(result, (tuple, list))
    for part in result if many else (result,):   # a write at another level must find what it is a view of
        _C.mark_view(part, args[0], many)
    return result


def indexed(level: VmapLevel, overload: Any, args: tuple) -> Any:
    """One more outer range."""
    definition = overload.definition
    check_target(overload, args, level)
    make = gather_form
    if overload.inplace and not isinstance(definition, Scattered):   # what gathers writes nothing
        forms, own = find_op(definition.spec.name).overload_list, definition.spec.overload
        plain = next(o for o in forms if o.definition.spec.overload == own)
        front(args[0], level).copy_(front(indexed(level, plain, args), level))
        return args[0]
    if isinstance(definition, Scattered):
        make = scatter_form
        args = (batch(level, expanded(args[0], level), 0), *args[1:])   # what is written has the batch
    mask = mask_of(level, args)
    physical = map_args(lambda t: t if behind(t, level) is None else front(t, level), args)
    result = make(overload, mask).call(*physical)
    return args[0] if overload.inplace else wrapped(result, level)


def mask_of(level: VmapLevel, args: tuple) -> tuple:
    """Which arguments (and which items of lists) are batched."""

    def one(a: Any) -> Any:
        if isinstance(a, _C.Tensor):
            return behind(a, level) is not None
        return (
            tuple([one(x) for x in a])
            if isinstance(a, (list, tuple)) and any(isinstance(x, _C.Tensor) for x in a)
            else False
        )

    return tuple([one(a) for a in args])


def along_dim(level: VmapLevel, overload: Any, args: tuple) -> Any:
    """Ops along `dim` (or `dims`) over tensors of one rank."""
    definition = overload.definition
    names = [p.name for p in definition.spec.params]
    at = next(names.index(n) for n in ("dim", "dims") if n in names)
    tensors = [t for a in args for t in (a if isinstance(a, (list, tuple)) else [a]) if isinstance(t, _C.Tensor)]
    check_target(overload, args, level)
    joins = definition.batch == "new dim"
    ndim = tensors[0].ndim if joins else max(t.ndim for t in tensors)
    if isinstance(args[0], (list, tuple)) and not joins:   # empty vectors join anything, adding nothing
        args = ([t for t in args[0] if t.ndim == ndim or t.numel()], *args[1:])
    bare = not ndim and not joins
    physical = list(map_args(lambda t: align(expanded(t, level), 1) if bare else expanded(t, level), args))
    dim = args[at]
    if isinstance(dim, (list, tuple)):
        physical[at] = tuple([wrap_dim(definition.name, d, ndim) + 1 for d in dim])
    elif dim is not None:
        physical[at] = wrap_dim(definition.name, dim, ndim + joins) + 1
    result = overload.call(*physical)
    if overload.inplace:
        return args[0]
    return wrapped(map_tensors(lambda r: r.squeeze(1), result) if bare else result, level)


def fused(level: VmapLevel, overload: Any, args: tuple) -> Any:
    """Rows are rows; operands shared by rows make it a matter of the body."""
    definition = overload.definition
    if "dim" in [p.name for p in definition.spec.params]:
        return along_dim(level, overload, args)
    if definition.column_operands or any(
        isinstance(a, (list, tuple)) and any(isinstance(x, _C.Tensor) for x in a) for a in args
    ):
        return body(level, overload, args)
    result = overload.call(*map_args(lambda t: expanded(t, level).contiguous(), args))
    return wrapped(result, level)


def body(level: VmapLevel, overload: Any, args: tuple) -> Any:
    """A body written with ops: each of them is batched. The derivative stays the op's own."""
    mask = mask_of(level, args)
    physical = map_args(lambda t: t if behind(t, level) is None else front(t, level), args)
    result = opaque_form(overload, mask).call(*physical)
    return args[0] if overload.inplace else wrapped(result, level)


def leading(level: VmapLevel, overload: Any, args: tuple) -> Any:
    """Ops that take leading batch dims: examples of the same rank with the batch in front."""
    check_target(overload, args, level)
    result = overload.call(
        *map_args(lambda t: repeated(t, level) if behind(t, level) is None else front(t, level), args)
    )
    if overload.inplace:
        return args[0]
    # What the op did not compute has no batch.
    return map_tensors(lambda r: batch(level, r, 0) if r.ndim and r.shape[0] == level.batch_size else r, result)


def repeated(t: Any, level: VmapLevel) -> Any:
    """A copy of `t` for every example, for libraries that read no repeated memory."""
    return t.new_empty((level.batch_size, *t.shape)).copy_(t)


def folded(level: VmapLevel, overload: Any, args: tuple) -> Any:
    """Ops on a pile of independent examples in dim 0: the batch joins the pile."""
    definition = overload.definition
    check_target(overload, args, level)
    tensors = [a for a in args if isinstance(a, _C.Tensor)]
    ndim = max(t.ndim for t in tensors)
    if ndim <= definition.example_ndim:   # the pile was left out: the batch is one
        return leading(level, overload, args)
    pile = max(t.shape[0] for t in tensors if t.ndim == ndim)

    def flat(t: Any) -> Any:
        v = align(expanded(t, level), ndim)
        v = v if v.shape[1] == pile else v.expand((v.shape[0], pile, *v.shape[2:]))
        return v.reshape((v.shape[0] * pile, *v.shape[2:]))

    result = overload.call(*map_args(flat, args))
    return wrapped(map_tensors(lambda r: r.reshape((level.batch_size, pile, *r.shape[1:])), result), level)


def product(level: VmapLevel, a: Any, b: Any) -> Any:
    """a @ b of examples, as one product with leading batch dims."""
    left, right = front(a, level), front(b, level)
    if right is None and b.ndim <= 2 and a.ndim:
        return wrapped(find_op("matmul")(left, b), level)
    batch_dims = max(a.ndim - 2, b.ndim - 2, 0)

    def ready(v: Any, t: Any, extra: int) -> Any:
        if t.ndim == 1:
            v = (t if v is None else v).unsqueeze(extra)
        elif v is None:
            return t
        return v if t._wrapped is None or behind(t, level) is None else align(v, batch_dims + 2)

    result = find_op("matmul")(ready(left, a, -2), ready(right, b, -1))
    if a.ndim == 1:
        result = result.squeeze(-2)
    if b.ndim == 1:
        result = result.squeeze(-1)
    return wrapped(result, level)


def data_dependent(level: VmapLevel, overload: Any, args: tuple) -> Any:
    """Examples would have results of different shapes."""
    raise RuntimeError(
        f"vmap: {overload.name} cannot be batched: the shape of its result depends on the elements of its input, so"
        " examples of a batch would differ. Use ops whose shapes are known, such as where() or masked_fill()."
    )


def loop(level: VmapLevel, overload: Any, args: tuple) -> Any:
    """One example after another; slow, and said once."""
    name = overload.name
    if name not in _warned:
        _warned.add(name)
        warnings.warn(
            f"vmap: {name} has no batching rule and runs once per example, which is slow. Its definition can declare"
            " one (batch = ... or a vmap method).",
            UserWarning,
            stacklevel=users_level(),
        )
    check_target(overload, args, level)
    result = []
    for k in range(level.batch_size):
        result.append(
            overload.call(
                *map_args(lambda t, k=k: t if behind(t, level) is None else front(t, level).select(0, k), args)
            )
        )
    if overload.inplace:
        return args[0]
    if not result:
        raise RuntimeError(
            f"vmap: {name} has no batching rule, and with a batch of size 0 there is no example to run it on"
        )
    return wrapped(stacked(result), level)


def stacked(results: list[Any]) -> Any:
    """Results of every example as one with the batch in front."""
    first = results[0]
    if isinstance(first, _C.Tensor):
        return find_op("stack")(results, 0)
    parts = [
        stacked(list(part)) if isinstance(part[0], (_C.Tensor, tuple, list)) else part[0]
        for part in zip(*results, strict=True)
    ]
    return map_like(first, parts)


def map_like(first: Any, parts: list[Any]) -> Any:
    """`parts` in the container `first` is."""
    if type(first) in (tuple, list):
        return type(first)(parts)
    return type(first)._make(parts) if hasattr(type(first), "_make") else type(first)(parts)


# --- which rule -------------------------------------------------------------------------------------------------------

DECLARED: dict[str, Callable] = {
    "leading": leading, "dim": along_dim, "new dim": along_dim, "fold": folded, "pointwise": pointwise,
    "data": data_dependent, "loop": loop, "body": body,
}
KINDS: tuple[tuple[type, Callable], ...] = (
    (Pointwise, pointwise), (Reduction, reduction), (View, view), (Indexed, indexed), (Scan, along_dim), (Fused, fused),
)


def rule_of(overload: Any) -> Callable:
    """The batching rule of an op: its own, the declared one, or its kind's."""
    definition: OpDefinition = overload.definition
    if definition.vmap is not None:
        return definition.vmap
    if definition.batch is not None and definition.batch in DECLARED:
        return DECLARED[definition.batch]
    for kind, rule in KINDS:
        if isinstance(definition, kind):
            return rule
    return body if definition.body else loop


def call_op(name: str, *args: Any) -> Any:
    """An op by name, for rules."""
    return ops[name](*args)
