"""rushlight.nested: batches of tensors that differ in one size.

Enters: lists of tensors, or values with offsets or lengths. Leaves: nested tensors (`definitions/nested/`) of the
jagged layout, or with the strided layout's refusals of sizes as a whole. Refuses:
components that differ in more than one dim.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from . import _C
from .base.shape import jagged, strided
from .definitions.nested.container import NestedTensor, put_together
from .definitions.sparse.construct import as_tensor
from .op import find_op

__all__ = [
    "NestedTensor",
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]


def _layout(name: str, layout: Any) -> Any:
    if layout not in (None, strided, jagged):
        raise RuntimeError(f"{name}: specified layout is unsupported for nested tensors: {layout}")
    return layout or strided


def _ragged_dim(name: str, parts: list) -> int:
    """The one dim in which components differ; the first if there is none."""
    if not parts:
        raise RuntimeError(f"{name}: expected at least one tensor in the list to make a nested one of")
    if any(p.ndim != parts[0].ndim for p in parts):
        raise RuntimeError(f"{name}: expected tensors with one number of dimensions (dim) in the list")
    if not parts[0].ndim:
        raise RuntimeError(f"{name}: expected tensors with dimensions in the list, got zero-dim ones")
    differ = [d for d in range(parts[0].ndim) if len({p.shape[d] for p in parts}) > 1]
    if len(differ) > 1:
        raise RuntimeError(f"{name}: components may differ in one dim, but these differ in dims {differ}")
    return differ[0] + 1 if differ else 1


def _joined(name: str, parts: list, layout: Any) -> NestedTensor:
    ragged = _ragged_dim(name, parts)
    lengths = [p.shape[ragged - 1] for p in parts]
    starts = [0]
    for n in lengths:
        starts.append(starts[-1] + n)
    offsets = _C.from_data(starts, _C.int64, parts[0].device)
    return put_together(find_op("cat")(parts, ragged - 1), offsets, None, ragged, layout)


def nested_tensor(
    tensor_list: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> NestedTensor:
    """A new nested tensor, a leaf, that holds copies of the tensors (or nested lists of numbers) given."""
    layout = _layout("nested_tensor", layout)
    if pin_memory:
        raise RuntimeError("nested_tensor: pin_memory=True needs a CUDA device, and none is available")
    if not isinstance(tensor_list, (list, tuple)):
        raise TypeError("nested_tensor(): argument 'tensor_list' must be a list of tensors")
    parts = [as_tensor(t, dtype, device).detach() for t in tensor_list]
    result = _joined("nested_tensor", parts, layout)
    return result.requires_grad_() if requires_grad else result


def as_nested_tensor(ts: Any, dtype: Any = None, device: Any = None, layout: Any = None) -> NestedTensor:
    """A nested tensor of tensors, differentiable in them; of one tensor, its slices along dim 0."""
    layout = _layout("as_nested_tensor", layout)
    if isinstance(ts, NestedTensor):
        return ts if dtype is None else ts.to(dtype)
    if not isinstance(ts, (list, tuple, _C.Tensor)) or (
        not isinstance(ts, _C.Tensor) and not all(isinstance(t, _C.Tensor) for t in ts)
    ):
        raise TypeError("as_nested_tensor: expected a tensor, or a list or tuple of tensors")
    if isinstance(ts, _C.Tensor) and ts.ndim < 2:
        raise RuntimeError("as_nested_tensor(): Expected tensor argument to have dim() > 1")
    return _joined(
        "as_nested_tensor",
        [as_tensor(t, dtype, device) for t in (ts.unbind(0) if isinstance(ts, _C.Tensor) else ts)],
        layout,
    )


def nested_tensor_from_jagged(
    values: Any,
    offsets: Any = None,
    lengths: Any = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> NestedTensor:
    """A nested tensor over `values`, whose components begin at `offsets`, have `lengths`, or both."""
    if offsets is None and lengths is None:
        raise RuntimeError("nested_tensor_from_jagged: expected offsets, lengths or both.")
    jagged_dim = 1 if jagged_dim is None else jagged_dim
    if not 1 <= jagged_dim <= values.ndim:
        raise RuntimeError(
            f"nested_tensor_from_jagged(): jagged_dim must be between 1 and {values.ndim}, got {jagged_dim}"
        )
    for name, part in (("offsets", offsets), ("lengths", lengths)):
        if part is not None and (part.ndim != 1 or part.dtype not in (_C.int32, _C.int64)):
            raise RuntimeError(
                f"nested_tensor_from_jagged(): {name} must be a vector of int32 or int64, got {part.ndim} dims of"
                f" {part.dtype.name}"
            )
    if offsets is None:
        ends = lengths.to(_C.int64).cumsum(0)
        offsets, lengths = find_op("cat")([ends.new_zeros((1,)), ends]), None
    offsets = offsets.to(_C.int64)
    _check_offsets(offsets, lengths, values.shape[jagged_dim - 1])
    return put_together(values, offsets, lengths if lengths is None else lengths.to(_C.int64), jagged_dim)


def _check_offsets(offsets: Any, lengths: Any, total: int) -> None:
    """Components must lie inside the values, one after another: nothing later asks again."""
    starts = offsets.tolist()
    if not starts or starts[0] < 0 or starts[-1] > total or any(a > b for a, b in pairwise(starts)):
        raise RuntimeError(
            f"nested_tensor_from_jagged(): offsets must rise from at least 0 to at most {total}, got"
            f" {starts[:8]}{'...' if len(starts) > 8 else ''}"
        )
    if lengths is not None:
        sizes = lengths.tolist()
        if len(sizes) != len(starts) - 1 or any(
            n < 0 or first + n > total for first, n in zip(starts, sizes, strict=False)
        ):
            raise RuntimeError(
                "nested_tensor_from_jagged(): lengths must be one per component and stay inside the values, got"
                f" {sizes[:8]}"
            )


def narrow(tensor: Any, dim: int, start: Any, length: Any, layout: Any = strided) -> NestedTensor:
    """A nested tensor of the parts of a dense one that begin at `start` and are `length` long, per component."""
    if dim != 1:
        raise RuntimeError(f"narrow: only dim 1 can become ragged, got {dim}")
    if layout is not jagged:
        raise RuntimeError("narrow: only the jagged layout can be made here. Pass layout=rushlight.jagged.")
    count, room = tensor.shape[0], tensor.shape[1]
    first = start.to(_C.int64) if isinstance(start, _C.Tensor) else tensor.new_full((count,), start, dtype=_C.int64)
    sizes = length.to(_C.int64) if isinstance(length, _C.Tensor) else tensor.new_full((count,), length, dtype=_C.int64)
    if first.numel() and (first.min().item() < 0 or sizes.min().item() < 0 or (first + sizes).max().item() > room):
        raise RuntimeError(f"narrow: start and length must stay inside the {room} elements of dim 1")
    base = find_op("arange")(count, device=tensor.device) * room + first
    offsets = find_op("cat")([base, base.new_full((1,), count * room)])
    return put_together(tensor.flatten(0, 1), offsets, sizes, 1)


def masked_select(tensor: Any, mask: Any) -> NestedTensor:
    """A nested tensor of the elements of each row of `tensor` whose mask is True."""
    if tensor.layout is not strided:
        raise RuntimeError("masked_select: requires a strided tensor")
    mask = mask.expand(tensor.shape)
    lengths = mask.flatten(1).sum(1)
    ends = lengths.cumsum(0)
    offsets = find_op("cat")([ends.new_zeros((1,)), ends])
    return put_together(tensor.masked_select(mask), offsets, None, 1)


def to_padded_tensor(input: Any, padding: float, output_size: Any = None) -> Any:
    """A dense tensor of all components, filled up with `padding`."""
    return input.to_padded_tensor(padding, output_size)
