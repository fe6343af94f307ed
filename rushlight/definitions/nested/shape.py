"""Views, parts and joins of nested tensors: the ragged dim may move, but components stay components."""

from __future__ import annotations

from typing import Any

from ...op import Composite, find_op, wrap_dim
from .container import (
    NestedTensor,
    inner_dim,
    is_nested,
    lengths_of,
    like,
    regular_dim,
    rows,
    rule,
    values_of,
)
from .pointwise import same_raggedness


@rule("unbind")
def unbind(t: Any, dim: int = 0) -> tuple:
    """The components."""
    if wrap_dim("unbind", dim, t.ndim) != 0:
        raise RuntimeError("unbind(): only supported for NestedTensor on dim=0")
    values, starts = values_of(t), t._starts.tolist()
    return tuple(values.narrow(t._ragged - 1, first, n) for first, n in zip(starts, lengths_of(t), strict=False))


@rule("select")
def select(t: Any, dim: int, index: int) -> Any:
    if wrap_dim("select", dim, t.ndim) == 0:
        if not -len(t) <= index < len(t):
            raise IndexError(f"select(): index {index} out of range for a nested tensor of {len(t)} components")
        first, n = t._starts.tolist()[index % len(t)], lengths_of(t)[index]
        return values_of(t).narrow(t._ragged - 1, first, n)
    at = regular_dim("select", t, dim)
    return like(t, values_of(t).select(at, index), t._ragged - (at < t._ragged - 1))


@rule("__getitem__")
def getitem(t: Any, key: Any) -> Any:
    """Components by number; numbers and slices in the dims that are not ragged."""
    parts = list(key) if isinstance(key, tuple) else [key]
    at = next((k for k, p in enumerate(parts) if p is Ellipsis), None)
    if at is not None:
        parts[at : at + 1] = [slice(None)] * (t.ndim - len(parts) + 1)
    result: Any = t
    for dim in range(len(parts) - 1, -1, -1):
        part = parts[dim]
        if isinstance(part, slice):
            if part != slice(None):
                result = find_op("slice")(result, dim, part.start, part.stop, part.step or 1)
        elif isinstance(part, int) and not isinstance(part, bool):
            result = result.select(dim, part)
        else:
            raise NotImplementedError(f"nested tensors can be indexed with numbers, slices and '...', got {part!r}")
    return result


@rule("slice")
def slice_(t: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> NestedTensor:
    return like(t, find_op("slice")(values_of(t), regular_dim("slice", t, dim), start, end, step))


@rule("narrow")
def narrow(t: Any, dim: int, start: int, length: int) -> NestedTensor:
    return like(t, values_of(t).narrow(regular_dim("narrow", t, dim), start, length))


@rule("chunk")
def chunk(t: Any, chunks: int, dim: int = 0) -> tuple:
    return tuple(like(t, part) for part in values_of(t).chunk(chunks, regular_dim("chunk", t, dim)))


@rule("split", "split_with_sizes")
def split(t: Any, sizes: Any, dim: int = 0) -> tuple:
    return tuple(like(t, part) for part in values_of(t).split(sizes, regular_dim("split", t, dim)))


@rule("permute")
def permute(t: Any, dims: Any) -> NestedTensor:
    order = [wrap_dim("permute", d, t.ndim) for d in dims]
    if sorted(order) != list(range(t.ndim)):
        raise RuntimeError(f"permute: expected each of {t.ndim} dims once, got {list(dims)}")
    if order[0] != 0:
        raise ValueError("permute: the batch dim of a nested tensor cannot be moved")
    return like(t, values_of(t).permute([d - 1 for d in order[1:]]), order.index(t._ragged))


@rule("transpose")
def transpose(t: Any, dim0: int, dim1: int) -> NestedTensor:
    a, b = wrap_dim("transpose", dim0, t.ndim), wrap_dim("transpose", dim1, t.ndim)
    if a == b:
        return t
    if 0 in (a, b):
        raise ValueError("transpose: the batch dimension of a jagged tensor stays where it is")
    order = list(range(t.ndim))
    order[a], order[b] = b, a
    return permute(t, order)


@rule("unsqueeze")
def unsqueeze(t: Any, dim: int) -> NestedTensor:
    at = wrap_dim("unsqueeze", dim, t.ndim + 1)
    if at == 0:
        raise RuntimeError("unsqueeze(): not supported for NestedTensor on dim=0")
    return like(t, values_of(t).unsqueeze(at - 1), t._ragged + (at <= t._ragged))


@rule("squeeze")
def squeeze(t: Any, dim: Any = None) -> Any:
    if dim is None:
        raise RuntimeError("squeeze(): nested tensors need the dims to squeeze by number")
    result = t
    for at in sorted({inner_dim("squeeze", t, d) for d in ((dim,) if isinstance(dim, int) else dim)}, reverse=True):
        if at != result._ragged - 1 and result._held.shape[at] == 1:
            result = like(result, values_of(result).squeeze(at), result._ragged - (at < result._ragged - 1))
    return result


@rule("view", "reshape", "expand")
def view(t: Any, size: Any, *rest: Any) -> NestedTensor:
    """Other sizes behind the ragged dim; the batch and the ragged dim (its symbol, or -1) stay."""
    size = list(size)
    if t._ragged != 1:
        raise NotImplementedError(
            f"view: nested tensors can be viewed while dim 1 is ragged, here it is dim {t._ragged}. Transpose first."
        )
    if len(size) < 2 or int(size[0]) not in (-1, len(t)) or int(size[1]) not in (-1, int(t._symbol)):
        raise RuntimeError(
            f"view: cannot view a nested tensor of size {tuple(t.shape)} as {size}: the batch dim and the ragged dim"
            " must stay"
        )
    return like(
        t, values_of(t).reshape(t._held.shape[0], *(n if n != -1 or k > 1 else -1 for k, n in enumerate(size[2:], 2)))
    )


@rule("unflatten")
def unflatten(t: Any, dim: int, sizes: Any) -> NestedTensor:
    at = regular_dim("unflatten", t, dim)
    return like(t, values_of(t).unflatten(at, sizes), t._ragged + (len(sizes) - 1 if at < t._ragged - 1 else 0))


@rule("flatten")
def flatten(t: Any, start_dim: int = 0, end_dim: int = -1) -> NestedTensor:
    first, last = regular_dim("flatten", t, start_dim), regular_dim("flatten", t, end_dim)
    if first < t._ragged - 1 < last:
        raise RuntimeError("flatten(): not supported for NestedTensor on ragged dim")
    return like(t, values_of(t).flatten(first, last), t._ragged - (last - first if last < t._ragged - 1 else 0))


@rule("cat", "concat", "concatenate")
def cat(tensors: Any, dim: int = 0) -> NestedTensor:
    if not all(is_nested(t) for t in tensors):
        raise RuntimeError("cat: all tensors must be nested, or none")
    first = tensors[0]
    at = regular_dim("cat", first, dim)
    for t in tensors:
        same_raggedness("cat", first, t)
    return like(first, find_op("cat")([values_of(t) for t in tensors], at))


@rule("stack")
def stack(tensors: Any, dim: int = 0) -> NestedTensor:
    if not all(is_nested(t) for t in tensors):
        raise RuntimeError("stack: all tensors must be nested, or none")
    return cat([unsqueeze(t, dim) for t in tensors], wrap_dim("stack", dim, tensors[0].ndim + 1))


class ToPadded(Composite):
    """A dense tensor of all components, filled up with `padding` along the ragged dim."""

    schema = "to_padded_tensor(Tensor input, float padding, int[]? output_size=None) -> Tensor"
    function = out = False

    def compute(self, input, padding, output_size):
        if not is_nested(input):
            raise RuntimeError("to_padded_tensor: expected a nested tensor")
        values, component, position = rows(input)
        at = input._ragged
        longest = input._max_seqlen
        wanted = [len(input), *input._held.shape] if output_size is None else list(output_size)
        if len(wanted) != input.ndim:
            raise RuntimeError(f"to_padded_tensor: output_size must have {input.ndim} numbers, got {len(wanted)}")
        count = longest if output_size is None else wanted[at]
        if count < longest:
            kept = (position < count).nonzero().reshape(-1)
            values, component, position = (
                values.index_select(0, kept),
                component.index_select(0, kept),
                position.index_select(0, kept),
            )
        out = values.new_full((len(input), count, *values.shape[1:]), padding).index_put((component, position), values)
        out = out.movedim(1, at)
        if list(out.shape) != [*wanted[:at], count, *wanted[at + 1 :]]:
            raise RuntimeError(
                f"to_padded_tensor: output_size {wanted} does not fit components that give {list(out.shape)}"
            )
        return out
