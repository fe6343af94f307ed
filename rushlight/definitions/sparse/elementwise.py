"""Elementwise ops, views and joins of sparse tensors: those that keep zeros zero."""

from __future__ import annotations

from typing import Any

from ... import _C
from ...base.shape import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from ...op import OpDefinition, find_op, ops, wrap_dim
from .container import (
    SparseTensor,
    is_sparse,
    like,
    make,
    nnz,
    put_together,
    rule,
    rules,
    sparse_dims,
    taken,
    values_of,
)
from .convert import coalesced, flat_places, replace, to_compressed, to_coo

# f(0) = 0, so that only values change; repeated indices must be added up first.
ZERO_PRESERVING = (
    "abs", "angle", "asin", "asinh", "atan", "atanh", "ceil", "deg2rad", "erf", "erfinv", "expm1", "floor", "frac",
    "isinf", "isnan", "isneginf", "isposinf", "log1p", "nan_to_num", "rad2deg", "relu", "round", "sgn", "sign",
    "signbit", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc",
)
LINEAR = ("neg", "conj", "conj_physical", "_conj", "real", "imag", "positive")


def summed(t: SparseTensor) -> SparseTensor:
    """`t` with one value per place."""
    return coalesced(t) if t._layout is sparse_coo else t


def _unary(name: str, is_linear: bool) -> None:
    def apply(t: Any, *rest: Any) -> SparseTensor:
        t = t if is_linear else summed(t)
        result = ops[name](values_of(t), *rest)
        return like(t, result) if result.requires_grad else make(t._layout, t.shape, t._index, result, t._sorted)

    rules[name] = apply
    rules[name + "_"] = lambda t, *rest: replace(t, apply(t.detach(), *rest))


for _name in ZERO_PRESERVING:
    _unary(_name, False)
for _name in LINEAR:
    _unary(_name, True)


@rule("pow")
def power(t: Any, exponent: Any) -> SparseTensor:
    if not is_sparse(t) or isinstance(exponent, _C.Tensor) or exponent == 0:
        raise NotImplementedError("pow: for sparse tensors the exponent must be a number that is not 0")
    t = summed(t)
    return like(t, values_of(t) ** exponent)


def is_number(x: Any) -> bool:
    """A Python number, or a dense tensor of one element and no dims."""
    return not isinstance(x, _C.Tensor) or (not is_sparse(x) and x.ndim == 0)


@rule("mul", "multiply")
def mul(a: Any, b: Any) -> Any:
    """Products are 0 wherever a sparse factor is."""
    if not is_sparse(a):
        a, b = b, a
    if is_number(b):
        return like(a, values_of(a) * b)
    if is_sparse(b):
        return both(a, b)
    if b.ndim > a.ndim:
        raise RuntimeError(f"mul: a sparse tensor of sizes {list(a.shape)} cannot be broadcast to {list(b.shape)}")
    return like(a, values_of(a) * taken(b.expand(a.shape), a.detach()))


def both(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """The product of two sparse tensors: the places that both hold."""
    if a.shape != b.shape:
        raise RuntimeError(f"mul: sparse tensors must have one shape, got {list(a.shape)} and {list(b.shape)}")
    if a._layout is not sparse_coo:
        return to_compressed(both(to_coo(a), to_coo(b)), a._layout)
    a, b = coalesced(a), coalesced(to_coo(b))
    if sparse_dims(a) != sparse_dims(b):
        raise RuntimeError(
            f"mul: sparse tensors must have as many sparse dims, got {sparse_dims(a)} and {sparse_dims(b)}"
        )
    if a._index[0] is b._index[0]:
        return like(a, values_of(a) * values_of(b))
    left, right = flat_places(a), flat_places(b)
    if not nnz(b):
        left = left[:0]
    at = find_op("searchsorted")(right, left).clamp(max=max(nnz(b) - 1, 0))
    kept = (right.index_select(0, at) == left).nonzero().reshape(-1)
    values = values_of(a).index_select(0, kept) * values_of(b).index_select(0, at.index_select(0, kept))
    return put_together(sparse_coo, a.shape, (a._index[0].index_select(1, kept),), values, True)


@rule("div", "divide", "true_divide")
def div(a: Any, b: Any, rounding_mode: Any = None) -> SparseTensor:
    if not is_sparse(a) or not is_number(b):
        shape = list(b.shape) if isinstance(b, _C.Tensor) else b
        raise RuntimeError(
            f"div: Sparse division requires a scalar or zero-dim dense tensor divisor (got shape {shape} for divisor)"
        )
    if rounding_mode is not None:
        a = summed(a)
        return like(a, values_of(a).div(b, rounding_mode=rounding_mode))
    return like(a, values_of(a) / b)


class PlusDense(OpDefinition):
    """dense + alpha * sparse, with a dense gradient for both."""

    schema = "_sparse_plus_dense(Tensor dense, Tensor sparse, Scalar alpha) -> Tensor"
    function = method = out = False

    def run(self, dense, sparse, alpha):
        return dense.detach() + sparse.detach().to_dense() * alpha

    def vjp(self, g, alpha):
        return {"dense": g, "sparse": g if alpha == 1 else g * alpha}


@rule("add")
def add(a: Any, b: Any, alpha: Any = 1) -> Any:
    if not is_sparse(a):
        if is_number(a):
            raise RuntimeError("add: a number and a sparse tensor cannot be added. Use to_dense() first.")
        if a.shape != b.shape:
            a = a.expand(b.shape)
        return find_op("_sparse_plus_dense")(a, b, alpha)
    if not is_sparse(b):
        raise RuntimeError("add: a dense tensor is not added to a sparse one. Write add(dense, sparse).")
    if a.shape != b.shape:
        raise RuntimeError(f"add: expected other of the size of self, {list(a.shape)}, got {list(b.shape)}")
    if a._layout is not sparse_coo or b._layout is not sparse_coo:
        result = add(to_coo(a), to_coo(b), alpha)
        return result if a._layout is sparse_coo else to_compressed(coalesced(result), a._layout)
    if sparse_dims(a) != sparse_dims(b):
        raise RuntimeError(
            f"add: sparse tensors must have as many sparse dims, got {sparse_dims(a)} and {sparse_dims(b)}"
        )
    second = values_of(b) if alpha == 1 else values_of(b) * alpha
    if a._index[0] is b._index[0]:
        return like(a, values_of(a) + second)
    cat = find_op("cat")
    result = put_together(sparse_coo, a.shape, (cat([a._index[0], b._index[0]], 1),), cat([values_of(a), second], 0))
    return coalesced(result) if a._sorted and b._sorted else result


@rule("sub", "subtract")
def sub(a: Any, b: Any, alpha: Any = 1) -> Any:
    return add(a, b, -alpha)


@rule("add_")
def add_(a: Any, b: Any, alpha: Any = 1) -> Any:
    if is_sparse(a):
        return replace(a, add(a.detach(), b.detach() if isinstance(b, _C.Tensor) else b, alpha))
    return a.add_(b.to_dense(), alpha=alpha)


@rule("sub_")
def sub_(a: Any, b: Any, alpha: Any = 1) -> Any:
    return add_(a, b, -alpha)


@rule("mul_")
def mul_(a: Any, b: Any) -> Any:
    if not is_sparse(a):
        raise RuntimeError("mul_: a dense tensor cannot become sparse in place. Use mul().")
    return replace(a, mul(a.detach(), b))


@rule("div_")
def div_(a: Any, b: Any, rounding_mode: Any = None) -> Any:
    return replace(a, div(a.detach(), b, rounding_mode))


# --- shape ------------------------------------------------------------------------------------------------------------

_TURNED = {sparse_csr: sparse_csc, sparse_csc: sparse_csr, sparse_bsr: sparse_bsc, sparse_bsc: sparse_bsr}


@rule("permute")
def permute(t: Any, dims: Any) -> SparseTensor:
    order = [wrap_dim("permute", d, t.ndim) for d in dims]
    if sorted(order) != list(range(t.ndim)):
        raise RuntimeError(f"permute: expected each of {t.ndim} dims once, got {list(dims)}")
    own = sparse_dims(t)
    if sorted(order[:own]) != list(range(own)):
        raise RuntimeError(f"permute: sparse dims ({own} of them) and dense dims cannot be exchanged, got {order}")
    size = [t.shape[d] for d in order]
    if t._layout is not sparse_coo:
        values = values_of(t)
        values = values.transpose(1, 2) if values.ndim == 3 and order != [0, 1] else values
        return t if order == [0, 1] else put_together(_TURNED[t._layout], size, t._index, values)
    values = values_of(t)
    if order[own:] != list(range(own, t.ndim)):
        values = values.permute(0, *[d - own + 1 for d in order[own:]])
    if order[:own] == list(range(own)):
        return put_together(sparse_coo, size, t._index, values, t._sorted)
    indices = t._index[0].index_select(0, t._index[0].new_tensor(order[:own]))
    return put_together(sparse_coo, size, (indices,), values, nnz(t) < 2)


@rule("transpose")
def transpose(t: Any, dim0: int, dim1: int) -> SparseTensor:
    order = list(range(t.ndim))
    a, b = wrap_dim("transpose", dim0, t.ndim), wrap_dim("transpose", dim1, t.ndim)
    order[a], order[b] = b, a
    return permute(t, order)


@rule("t")
def t_(t: Any) -> SparseTensor:
    if t.ndim > 2:
        raise RuntimeError(f"t: expects a tensor of at most 2 dims, got {t.ndim}")
    return transpose(t, 0, 1) if t.ndim == 2 else t


@rule("unsqueeze")
def unsqueeze(t: Any, dim: int) -> SparseTensor:
    dim = wrap_dim("unsqueeze", dim, t.ndim + 1)
    t, own = to_coo(t), sparse_dims(to_coo(t))
    size = [*t.shape[:dim], 1, *t.shape[dim:]]
    if dim > own:
        return put_together(sparse_coo, size, t._index, values_of(t).unsqueeze(dim - own + 1), t._sorted)
    at = t._index[0]
    indices = find_op("cat")([at[:dim], at.new_zeros((1, at.shape[1])), at[dim:]], 0)
    return put_together(sparse_coo, size, (indices,), values_of(t), t._sorted)


@rule("select")
def select(t: Any, dim: int, index: int) -> Any:
    """One slice: still sparse, unless no sparse dim is left."""
    dim = wrap_dim("select", dim, t.ndim)
    size = t.shape[dim]
    if not -size <= index < size:
        raise IndexError(f"select(): index {index} out of range for tensor of size {list(t.shape)} at dimension {dim}")
    index = index + size if index < 0 else index
    t = coalesced(to_coo(t))
    own = sparse_dims(t)
    rest = [*t.shape[:dim], *t.shape[dim + 1 :]]
    if dim >= own:
        return put_together(sparse_coo, rest, t._index, values_of(t).select(dim - own + 1, index), True)
    at = t._index[0]
    kept = (at[dim] == index).nonzero().reshape(-1)
    values = values_of(t).index_select(0, kept)
    if own == 1:
        return values.sum(0)
    others = at.new_tensor([d for d in range(own) if d != dim])
    return put_together(sparse_coo, rest, (at.index_select(0, others).index_select(1, kept),), values, True)


@rule("index_select")
def index_select(t: Any, dim: int, index: Any) -> SparseTensor:
    """Slices by number; a number may come again."""
    dim = wrap_dim("index_select", dim, t.ndim)
    t, count = to_coo(t), index.shape[0]
    own = sparse_dims(t)
    size = [count if d == dim else n for d, n in enumerate(t.shape)]
    if dim >= own:
        return put_together(sparse_coo, size, t._index, values_of(t).index_select(dim - own + 1, index), t._sorted)
    matches = (t._index[0][dim].unsqueeze(1) == index.unsqueeze(0)).nonzero()
    element, place = matches.unbind(1)
    at = t._index[0].index_select(1, element)
    indices = find_op("cat")([at[:dim], place.unsqueeze(0), at[dim + 1 :]], 0)
    return put_together(sparse_coo, size, (indices,), values_of(t).index_select(0, element))


@rule("cat", "concat", "concatenate")
def cat(tensors: Any, dim: int = 0) -> SparseTensor:
    """Sparse tensors one after another along a dim."""
    if not all(is_sparse(t) for t in tensors):
        raise RuntimeError("cat: all tensors must be sparse, or none")
    first = to_coo(tensors[0])
    dim, own = wrap_dim("cat", dim, first.ndim), sparse_dims(first)
    parts = [to_coo(t) for t in tensors]
    for t in parts:
        if (
            t.ndim != first.ndim
            or sparse_dims(t) != own
            or any(a != b for d, (a, b) in enumerate(zip(t.shape, first.shape, strict=True)) if d != dim)
        ):
            raise RuntimeError(
                f"cat: sizes must match except in dim {dim}, got {list(first.shape)} and {list(t.shape)}"
            )
    size = [sum(t.shape[dim] for t in parts) if d == dim else n for d, n in enumerate(first.shape)]
    join, indices, values, before = find_op("cat"), [], [], 0
    for t in parts:
        at, held = t._index[0], values_of(t)
        if dim < own:
            shift = at.new_zeros((own, 1))
            shift[dim] = before
            at = at + shift
        else:
            empty = [
                held.new_zeros((held.shape[0], *[n if d != dim - own else k for d, n in enumerate(held.shape[1:])]))
                for k in (before, size[dim] - before - t.shape[dim])
            ]
            held = join([empty[0], held, empty[1]], dim - own + 1)
        indices.append(at)
        values.append(held)
        before += t.shape[dim]
    return put_together(sparse_coo, size, (join(indices, 1),), join(values, 0))


@rule("stack")
def stack(tensors: Any, dim: int = 0) -> SparseTensor:
    if not all(is_sparse(t) for t in tensors):
        raise RuntimeError("stack: all tensors must be sparse, or none")
    return cat([unsqueeze(t, dim) for t in tensors], wrap_dim("stack", dim, tensors[0].ndim + 1))


@rule("expand")
def expand(t: Any, size: Any, implicit: bool = False) -> Any:
    if tuple(size) == tuple(t.shape) or (
        all(n in (-1, m) for n, m in zip(size, t.shape, strict=False)) and len(size) == t.ndim
    ):
        return t
    raise NotImplementedError(f"expand: sparse tensors cannot be expanded, from {list(t.shape)} to {list(size)}")
