"""What ops do with masked tensors: elementwise ones with the data, views with data and mask alike, reductions with what
counts.

Enters: an op's name and its arguments, at least one of them masked. Leaves: masked tensors, with a graph between them
in which gradients are masked too. Refuses masks that differ, arguments these forms do not have, and every other op, by
name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .. import _C
from .._C import Tensor
from ..autograd.backward import grad as gradients_of
from ..autograd.function import Function
from ..autograd.grad_mode import enable_grad, no_grad
from ..base.shape import sparse_coo, strided
from ..op import find_op, published
from . import reduce
from .tensor import MaskedTensor

UNARY = frozenset(
    "abs absolute acos arccos acosh arccosh angle asin arcsin asinh arcsinh atan arctan atanh arctanh bitwise_not ceil"
    " clamp clip conj_physical cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 fix floor frac lgamma log log10"
    " log1p log2 logit i0 isnan nan_to_num neg negative positive rad2deg reciprocal round rsqrt sigmoid sign sgn"
    " signbit sin sinc sinh sqrt square tan tanh trunc isfinite real".split()
)
BINARY = frozenset(
    "add atan2 arctan2 bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift div divide"
    " floor_divide fmod logaddexp logaddexp2 mul multiply nextafter remainder sub subtract true_divide eq ne le ge"
    " greater greater_equal gt less_equal lt less maximum minimum fmax fmin not_equal pow float_power isclose".split()
)
VIEWS = frozenset(
    "select transpose split t slice index expand view reshape flatten ravel chunk narrow swapaxes swapdims unsqueeze"
    " unfold stack cat concat concatenate hstack im2col col2im __getitem__ view_as expand_as reshape_as unflatten"
    " adjoint tensor_split mT".split()
)
REDUCTIONS = frozenset("sum mean amin amax argmin argmax prod all var std".split())
CASTS = frozenset("to float double half int long short bool char type_as contiguous clone cpu".split())
_POWERS = ("pow", "float_power")     # of numbers: a tensor of exponents would need its mask
# What operators and private forms are called here.
SPELLINGS = {
    "__eq__": "eq", "__invert__": "bitwise_not", "__and__": "bitwise_and", "__or__": "bitwise_or", "__xor__":
    "bitwise_xor", "__floordiv__": "floor_divide", "__lshift__": "bitwise_left_shift", "__rshift__":
    "bitwise_right_shift", "__iand__": "bitwise_and_", "__ior__": "bitwise_or_", "__ixor__": "bitwise_xor_",
    "special_expm1": "expm1", "special_exp2": "exp2", "special_erf": "erf", "special_softmax": "softmax",
}


def call(name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """An op with masked tensors among its arguments."""
    name = SPELLINGS.get(name, name).removeprefix("_functional_")
    base = name[:-1] if name.endswith("_") else name
    if name != base and (base in UNARY or base in BINARY or base == "copy"):
        return in_place(name, base, args, kwargs)
    if name in UNARY:
        return unary(name, args, kwargs)
    if name in BINARY and not (name in _POWERS and _is_tensor(args, 1)):
        return binary(name, args, kwargs)
    if name in REDUCTIONS:
        return reduction(name, *args, **kwargs)
    rule = _RULES.get(name, view if name in VIEWS else cast if name in CASTS else None)
    if rule is None:
        raise _unknown(name)
    return rule(name, args, kwargs)


def _unknown(name: str) -> TypeError:
    return TypeError(f"no implementation found for '{name}' on types that implement it: [MaskedTensor]")


MaskedTensor.rules = staticmethod(call)


def _is_tensor(args: tuple, at: int) -> bool:
    return len(args) > at and isinstance(args[at], Tensor)


@functools.cache
def _function(name: str) -> Any:
    """The function of a name at top level, aliases included."""
    return published("").get(name) or find_op(name)


def data_of(value: Any) -> Any:
    """The data of a masked tensor, outside every graph; lists of them likewise, anything else as it is."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(data_of, value))
    return value._masked_data if isinstance(value, MaskedTensor) else value


def mask_of(value: Any) -> Any:
    """The mask of a masked tensor, as `data_of` takes its data."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(mask_of, value))
    return value._masked_mask if isinstance(value, MaskedTensor) else value


# --- the graph --------------------------------------------------------------------------------------------------------


class Rule:
    """A function of the data, the masks of its results, and the function that says where gradients count."""

    def __init__(self, compute: Callable, masks: Any, places: Callable | None = None) -> None:
        self.compute, self.masks, self.places = compute, masks, places


class _Recorded(Function):
    """Masked tensors from tensors, masked or not: gradients are masked tensors as well."""

    @staticmethod
    def forward(ctx: Any, rule: Rule, *tensors: Tensor) -> Any:
        ctx.rule, ctx.tensors = rule, tensors
        with no_grad():
            results = rule.compute(*map(_plain, tensors))
        if isinstance(results, (tuple, list)):
            return tuple(MaskedTensor(r, m) for r, m in zip(results, rule.masks, strict=True))
        return MaskedTensor(results, rule.masks)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple:
        rule, wanted = ctx.rule, [i for i, needed in enumerate(ctx.needs_input_grad[1:]) if needed]
        found = _pull(rule.compute, [_finite(t) for t in ctx.tensors], wanted, [_kept(g) for g in grads])
        result: list[Any] = [None] * len(ctx.tensors)
        places = rule.places
        if places is None:
            masks = [_own_mask(ctx.tensors[i]) for i in wanted]
        else:
            floats = [_own_mask(t).to(_C.float32) for t in ctx.tensors]
            counted = _pull(places, floats, wanted, [_own_mask(g).to(_C.float32) for g in grads])
            masks = [None if c is None else c > 0 for c in counted]  # type: ignore[misc]
        for i, g, m in zip(wanted, found, masks, strict=True):
            result[i] = None if g is None or m is None else MaskedTensor(g, m)
        return (None, *result)


def _plain(t: Tensor) -> Tensor:
    return (t._masked_data if isinstance(t, MaskedTensor) else t).detach()


def _finite(t: Tensor) -> Tensor:
    """Data with ones where it does not count: zero gradients times what lies there must stay zero."""
    return find_op("where")(t._masked_mask, t._masked_data, 1) if isinstance(t, MaskedTensor) else t.detach()


def _own_mask(t: Tensor) -> Tensor:
    return t._masked_mask if isinstance(t, MaskedTensor) else find_op("ones_like")(t.detach(), dtype=_C.bool)


def _kept(g: Tensor) -> Tensor:
    """A gradient with zeros where it does not count: what is summed must not hold them."""
    return find_op("where")(g._masked_mask, g._masked_data, 0.0) if isinstance(g, MaskedTensor) else g


def _pull(function: Callable, values: list[Tensor], wanted: list[int], grads: list[Tensor]) -> list[Any]:
    """Gradients of the wanted values, from those of the function's results."""
    with enable_grad():
        given = [v.detach().requires_grad_() if i in wanted else v for i, v in enumerate(values)]
        results = function(*given)
        results = list(results) if isinstance(results, (tuple, list)) else [results]
        pairs = [(r, g) for r, g in zip(results, grads, strict=True) if g is not None and r.requires_grad]
        if not pairs:
            return [None] * len(wanted)
        outs, starts = zip(*pairs, strict=True)
        return list(gradients_of(outs, [given[i] for i in wanted], starts, allow_unused=True))


def _record(rule: Rule, tensors: Sequence[Tensor]) -> Any:
    """The result, in the graph where an argument is and the result can be."""
    if all(t.layout is strided for t in tensors):
        return _Recorded.apply(rule, *tensors)
    return MaskedTensor(rule.compute(*map(_plain, tensors)), rule.masks)


# --- elementwise ------------------------------------------------------------------------------------------------------


def _on_values(function: Callable) -> Callable:
    """An elementwise function of tensors, with sparse ones done by their values."""

    def compute(first: Tensor, *others: Tensor) -> Tensor:
        if first.layout is strided:
            return function(first, *others)
        values = function(first.values(), *(o.values() if o.layout is not strided else o for o in others))
        if first.layout is sparse_coo:
            return find_op("sparse_coo_tensor")(first.indices(), values, tuple(first.shape)).coalesce()
        return find_op("sparse_csr_tensor")(first.crow_indices(), first.col_indices(), values, tuple(first.shape))

    return compute


def unary(name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """An op of one tensor, and of numbers."""
    if kwargs and name not in ("clamp", "clip"):
        raise ValueError(f"{name}: masked tensors take no keyword arguments here, got {list(kwargs)}")
    if any(isinstance(a, Tensor) for a in args[1:]):
        raise TypeError(f"{name}: expected no tensors beside the masked one")
    op, rest = _function(name), args[1:]
    rule = Rule(_on_values(lambda x: op(x, *rest, **kwargs)), args[0]._masked_mask, lambda m: m * 1)
    return _record(rule, [args[0]])


def binary(name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """An op of two tensors, or of one and a number. Two masks must be one."""
    if kwargs and name != "isclose":
        raise ValueError(f"{name}: masked tensors take no keyword arguments here, got {list(kwargs)}")
    a, b, *rest = args
    if any(isinstance(r, Tensor) for r in rest):
        raise TypeError(f"{name}: expected no tensors beside the two operands")
    mask = _common_mask(name, a, b)
    op, tensors = _function(name), [x for x in (a, b) if isinstance(x, Tensor)]

    def compute(*given: Tensor) -> Tensor:
        waiting = iter(given)
        return op(*(next(waiting) if isinstance(x, Tensor) else x for x in (a, b)), *rest, **kwargs)

    function = _on_values(compute) if tensors[0].layout is not strided else compute
    if tensors[0].layout is strided:
        mask = mask.expand(_broadcast(tensors))
    places = (lambda *m: m[0] * 1) if len(tensors) == 1 else (lambda m, n: m + n)
    return _record(Rule(function, mask, places), tensors)


def _broadcast(tensors: list[Tensor]) -> tuple[int, ...]:
    """The shape of tensors combined."""
    shapes = [tuple(t.shape) for t in tensors]
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    return tuple(max(sizes) if 0 not in sizes else 0 for sizes in zip(*padded, strict=True))


def _common_mask(name: str, a: Any, b: Any) -> Tensor:
    masks = [x._masked_mask for x in (a, b) if isinstance(x, MaskedTensor)]
    if len(masks) == 2:
        first, second = (m.values() if m.layout is not strided else m for m in masks)
        if first.ndim != second.ndim or not bool((first == second).all()):
            raise ValueError(f"{name}: the masks of both operands must match")
    return masks[0]


def in_place(name: str, base: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """An elementwise op that writes to its first argument, whose mask stays."""
    target = args[0]
    if not isinstance(target, MaskedTensor):
        raise TypeError(f"{name}: a masked tensor cannot be written into a plain one. Use to_tensor(value) first.")
    if target.requires_grad and _C.is_grad_enabled():
        raise RuntimeError(f"{name}: a leaf Variable that requires grad is being used in an in-place operation")
    if kwargs and base not in ("clamp", "clip"):
        raise ValueError(f"{name}: masked tensors take no keyword arguments here, got {list(kwargs)}")
    if base in UNARY and base not in BINARY and any(isinstance(a, Tensor) for a in args[1:]):
        raise TypeError(f"{name}: expected no tensors beside the masked one")
    if base == "pow" and _is_tensor(args, 1):
        raise _unknown(name)
    if _is_tensor(args, 1):
        _common_mask(name, target, args[1])
    with no_grad():
        getattr(target._masked_data, name)(*map(data_of, args[1:]), **kwargs)
    return target


# --- views and casts --------------------------------------------------------------------------------------------------


def _masked_in(args: Any) -> list[MaskedTensor]:
    found = []
    for a in args:
        if isinstance(a, MaskedTensor):
            found.append(a)
        elif isinstance(a, (list, tuple)):
            found += _masked_in(a)
    return found


def _filled_in(args: Any, given: Any) -> Any:
    """Arguments with the masked tensors replaced, in order, by what `given` yields."""
    kept = [
        next(given) if isinstance(a, MaskedTensor) else _filled_in(a, given) if isinstance(a, (list, tuple)) else a
        for a in args
    ]
    return kept if isinstance(args, list) else tuple(kept)


def view(name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """An op that arranges elements: done with the data, and with the mask."""
    masked = _masked_in(args)
    joined = args[0] if args and isinstance(args[0], (list, tuple)) else ()
    if any(isinstance(x, Tensor) and not isinstance(x, MaskedTensor) for x in joined):
        raise TypeError(f"{name}: masked and plain tensors cannot be put together: mask must have dtype bool")
    op = Tensor.__getitem__ if name == "__getitem__" else getattr(Tensor, name, None) or _function(name)
    op = _function(name) if name in ("stack", "cat", "concat", "concatenate", "hstack") else op

    def compute(*given: Tensor) -> Any:
        return op(*_filled_in(args, iter(given)), **kwargs)

    masks = compute(*(m._masked_mask for m in masked))
    return _record(Rule(compute, masks, compute), masked)


def cast(name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Another dtype, device or arrangement of the same elements."""
    source, rest = args[0], args[1:]
    method = getattr(Tensor, name)
    result = method(source._masked_data, *rest, **kwargs)
    if result is source._masked_data and name != "clone":
        return source
    mask = source._masked_mask.to(result.device)
    mask = mask.contiguous() if name == "contiguous" else mask
    return _record(Rule(lambda x: method(x, *rest, **kwargs), mask, lambda m: m * 1), [source])


# --- reductions -------------------------------------------------------------------------------------------------------

_ALL = object()     # no dim given: every element


def reduction(name: str, input: Any, dim: Any = _ALL, keepdim: bool = False, dtype: Any = None) -> Any:
    """One of `REDUCTIONS` of the elements that count; a result counts where any of its elements did."""
    if not isinstance(input, MaskedTensor):
        raise TypeError(f"{name}: expected a MaskedTensor, got {type(input).__name__}")
    _check_reduction(name, input, dim)
    mask = input._masked_mask
    if input.is_sparse:
        if dim is not _ALL:
            raise TypeError(f"no implementation found for '{name}' over dims of sparse masked tensors")
        return _reduce_sparse(name, input)
    options: dict[str, Any] = {} if dim is _ALL else {"dim": dim, "keepdim": keepdim}
    if name == "all":
        function = lambda x: find_op("all")(x.masked_fill(~mask, True), *((dim, keepdim) if options else ()))  # noqa: E731
    else:
        options = {**options, **({} if dtype is None else {"dtype": dtype})}
        function = lambda x: getattr(reduce, name)(x, mask=mask, **options)  # noqa: E731
    counted = _any(mask, dim, keepdim)
    if name in ("all", "argmin", "argmax"):
        return MaskedTensor(function(input._masked_data), counted)
    return _record(Rule(function, counted), [input])


def _check_reduction(name: str, input: MaskedTensor, dim: Any) -> None:
    if name == "mean" and not input.dtype.is_floating_point:
        raise ValueError(f"mean: expected a floating point dtype, got {input.dtype}")
    if input.dtype is _C.bool and name in ("amin", "amax", "argmin", "argmax"):
        raise NotImplementedError(f"{name}: not implemented for masked tensors of bool")
    if input.dtype is _C.bool and name in ("var", "std"):
        raise RuntimeError(f"{name}: expected a floating point dtype, got {input.dtype}")
    if dim is None or (name in ("argmin", "argmax", "prod") and isinstance(dim, (tuple, list))):
        raise TypeError(f"{name}: expected dim as an int, got {dim}")


def _any(mask: Tensor, dim: Any, keepdim: bool) -> Tensor:
    if dim is _ALL:
        return mask.any()
    dims = [dim] if isinstance(dim, int) else [d % mask.ndim for d in dim]
    for d in sorted(dims, reverse=True):
        mask = mask.any(d, keepdim)
    return mask


def _reduce_sparse(name: str, input: MaskedTensor) -> MaskedTensor:
    data, mask = input._masked_data, input._masked_mask.values()
    values = data.values()
    if name == "all":
        result = values.masked_fill(~mask, True).all()
    else:
        result = getattr(reduce, name)(values, mask=mask)
    if name in ("argmin", "argmax") and input.is_sparse_coo():     # as a position among all elements
        at = data.indices()[:, int(result.item())].tolist()
        place = 0
        for size, index in zip(data.shape, at, strict=True):
            place = place * size + index
        result = _C.from_data(float(place), None, None)
    return MaskedTensor(result, mask.any())


# --- others -----------------------------------------------------------------------------------------------------------


def _softmax_options(dim: int, dtype: Any = None, _stacklevel: int = 3) -> tuple[int, Any]:
    return dim, dtype if isinstance(dtype, _C.dtype) else None


def _softmax(name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    input, (dim, dtype) = args[0], _softmax_options(*args[1:], **kwargs)
    mask = input._masked_mask

    def compute(x: Tensor) -> Tensor:
        return x.masked_fill(~mask, float("-inf")).softmax(dim, dtype=dtype)

    return _record(Rule(compute, mask), [input])


def _where(name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    if len(args) != 3 or kwargs:
        raise ValueError(f"where: masked tensors take a condition and two values, got {len(args)} and {list(kwargs)}")
    condition, op = args[0], find_op("where")
    parts = [_as_masked(v, next(a for a in args[1:] if isinstance(a, MaskedTensor))) for v in args[1:]]

    def compute(a: Tensor, b: Tensor) -> Tensor:
        return op(condition, a, b)

    return _record(Rule(compute, compute(*(p._masked_mask for p in parts)), compute), parts)


def _as_masked(value: Any, like: MaskedTensor) -> MaskedTensor:
    if isinstance(value, MaskedTensor):
        return value
    data = value if isinstance(value, Tensor) else _C.from_data(value, like.dtype, like.device)
    return MaskedTensor(data, find_op("ones_like")(data, dtype=_C.bool))


def _ones_like(name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    return MaskedTensor(find_op("ones_like")(args[0]._masked_data, **kwargs), args[0]._masked_mask)


def _quotient(name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """`number / masked`: operands in the order they were written in."""
    number, op = args[1], find_op("div")
    rule = Rule(_on_values(lambda x: op(number, x)), args[0]._masked_mask, lambda m: m * 1)
    return _record(rule, [args[0]])


def _to_layout(name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    source = args[0]
    data, mask = source._masked_data, source._masked_mask
    if name == "to_dense":
        return source if data.layout is strided else MaskedTensor(data.to_dense(), mask.to_dense())
    if name == "to_sparse_csr" and data.ndim != 2:
        raise ValueError(f"to_sparse_csr: expected 2 dims, got shape {tuple(data.shape)}")
    if (name == "to_sparse_csr" and source.is_sparse_csr()) or (name != "to_sparse_csr" and source.is_sparse_coo()):
        return source
    places = mask.to_sparse_csr() if name == "to_sparse_csr" else mask.to_sparse().coalesce()
    return MaskedTensor(data.sparse_mask(places), places)


def _item(name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    return MaskedTensor.item(args[0])


_RULES: dict[str, Callable] = {
    "softmax": _softmax, "_softmax": _softmax, "where": _where, "ones_like": _ones_like, "__rdiv__": _quotient,
    "to_dense": _to_layout, "to_sparse": _to_layout, "to_sparse_coo": _to_layout, "to_sparse_csr": _to_layout,
    "_local_scalar_dense": _item,
}
