"""`x[...]` beyond the core's fast path: index tensors, assignment, modes and subclasses.

Enters: what the core's index parser could not finish alone. Leaves: views and copies made by ops.
The parser itself is in the core (csrc/index.cpp); nothing here looks at an index's meaning twice.
"""

from __future__ import annotations

from typing import Any

from .. import _C
from .._C import Tensor
from ..dispatch.dispatcher import ask_overrides, owners_in
from ..op import find_op
from ..rules import levels

_NUMBERS = (_C.int64, _C.int32, _C.int16, _C.int8)


def get(self: Tensor, index: Any) -> Tensor:
    """`self[index]` step by step through ops, so that modes, tracers and subclasses see each of them."""
    answer = ask_overrides(Tensor.__getitem__, [self, *owners_in(index)], (self, index), {})
    if answer is not NotImplemented:
        return answer
    if levels.state.stack and has_batched_number(index):
        return pick(self, index)
    basic, indices = split(self, index)
    result = self if basic is None else _apply_basic(self, basic)
    return result if indices is None else take(result, indices)


def put(self: Tensor, index: Any, value: Any) -> None:
    """`self[index] = value` step by step through ops."""
    owners = [self, *owners_in(index), *owners_in(value)]
    if ask_overrides(Tensor.__setitem__, owners, (self, index, value), {}) is not NotImplemented:
        return
    if levels.state.stack and has_batched_number(index):
        return place(self, index, value)
    basic, indices = split(self, index)
    target = self if basic is None else _apply_basic(self, basic)
    if not isinstance(value, Tensor):
        value = _C.from_data(value, _C.float32 if self.is_quantized else self.dtype, self.device)
    if indices is None and not value.ndim and target.is_quantized:
        target.fill_(value)     # numbers are quantized into rows alone, which an expanded one is not
    elif indices is None:
        assign(target, value)
    else:
        scatter(target, indices, value)


def split(self: Tensor, index: Any) -> tuple[tuple | None, list | None]:
    """(the basic part of an index, the index tensors); None for a part it does not have. Symbolic bounds are kept from
    the core, which would ask for their numbers."""
    items = index if isinstance(index, tuple) else (index,)
    told = tuple(map(_told, items))
    if not any(_is_symbolic(item) for item in told):
        return _C.split_index(self, index)
    items = told
    originals: dict[int, Any] = {}
    shown = []
    for item in items:
        if _is_symbolic(item):
            shown.append(slice(None))     # a slice that stands for it, known again by its identity
            originals[id(shown[-1])] = item
        else:
            shown.append(item)
    basic, indices = _C.split_index(self, tuple(shown))
    found = tuple(originals.get(id(item), item) for item in basic)
    if indices is not None:
        # a number takes a dim away, the slice that stood for it did not
        for dim in reversed(_selected(self, found)):
            del indices[dim : dim + 1]
    return found, indices


def _selected(self: Tensor, basic: tuple) -> list[int]:
    """Which dims, counted as if they stayed, symbolic numbers take away."""
    named = sum(item is not None and item is not Ellipsis for item in basic)
    dim, found = 0, []
    for item in basic:
        if isinstance(item, _C.SymbolicInt):
            found.append(dim)
        if item is Ellipsis:
            dim += self.ndim - named
        elif not isinstance(item, int):
            dim += 1
    return found


# --- numbers that differ between the examples of a vmap ---------------------------------------------------------------


def is_batched_number(item: Any) -> bool:
    """A 0-d integer tensor that stands for a batch: an index, but no one number."""
    return (
        isinstance(item, Tensor)
        and not item.ndim
        and item.dtype in (_C.int64, _C.int32)
        and not levels.is_readable(item)
    )


def has_batched_number(index: Any) -> bool:
    return any(is_batched_number(item) for item in (index if isinstance(index, tuple) else (index,)))


def split_numbers(self: Tensor, index: Any) -> tuple[Tensor, list[tuple[int, Tensor]]]:
    """The other items applied as views, and the dims the batched numbers name in the result."""
    items = list(index) if isinstance(index, tuple) else [index]
    if any(isinstance(item, (list, Tensor)) and not is_batched_number(item) for item in items):
        raise NotImplementedError(
            "vmap: numbers that differ between examples cannot be mixed with index tensors or masks in one index; index"
            " twice"
        )
    named = sum(item is not None and item is not Ellipsis for item in items)
    dims, found = 0, []
    for item in items:
        if is_batched_number(item):
            found.append((dims, item))
            dims += 1
        elif item is Ellipsis:
            dims += self.ndim - named
        elif item is None or isinstance(item, slice):
            dims += 1
    return self[tuple(slice(None) if is_batched_number(item) else item for item in items)], found


def pick(self: Tensor, index: Any) -> Tensor:
    """`self[i]` for a number of each example."""
    result, found = split_numbers(self, index)
    for dim, number in reversed(found):
        result = result.index_select(dim, number.reshape(1)).squeeze(dim)
    return result


def place(self: Tensor, index: Any, value: Any) -> None:
    """`self[i] = value` for a number of each example."""
    view, found = split_numbers(self, index)
    if len(found) > 1:
        raise NotImplementedError(
            "vmap: an assignment takes one number that differs between examples; assign through a view of the rest"
        )
    dim, number = found[0]
    if not isinstance(value, Tensor):
        value = _C.from_data(value, self.dtype, self.device)
    shape = (*view.shape[:dim], *view.shape[dim + 1 :])
    view.index_copy_(dim, number.reshape(1), value.to(self.dtype).expand(shape).unsqueeze(dim))


def _apply_basic(t: Tensor, index: tuple) -> Tensor:
    """Ints, slices, None and Ellipsis as select, slice and unsqueeze; a bare alias if there are none."""
    named = sum(item is not None and item is not Ellipsis for item in index)
    dim, rest, result = 0, t.ndim - named, t
    for item in index:
        if item is None:
            result, dim = result.unsqueeze(dim), dim + 1
        elif item is Ellipsis:
            dim += rest
        elif isinstance(item, slice):
            if item != slice(None):
                result = find_op("slice")(result, dim, *_bounds(item))
            dim += 1
        else:
            result = result.select(dim, item)
    return result.view(result.shape) if result is t else result


def _told(item: Any) -> Any:
    """A number that a tensor holds, and numbers of a slice, where only the tensor's class can tell them: fake tensors
    tell symbols."""
    if type(item) is slice:
        return slice(_told(item.start), _told(item.stop), _told(item.step))
    if not isinstance(item, Tensor) or item.ndim or item.dtype not in _NUMBERS:
        return item
    value = levels.readable_value(item, "__index__")
    return item if type(value).item is Tensor.item else value.item()


def _is_symbolic(item: Any) -> bool:
    return isinstance(item, _C.SymbolicInt) or (
        type(item) is slice and any(isinstance(v, _C.SymbolicInt) for v in (item.start, item.stop, item.step))
    )


def _bounds(item: slice) -> tuple[int | None, int | None, int]:
    start, stop, step = (
        v if v is None or isinstance(v, _C.SymbolicInt) else int(v) for v in (item.start, item.stop, item.step)
    )
    return start, stop, 1 if step is None else step


def take(input: Tensor, indices: list) -> Tensor:
    """Elements named by index tensors."""
    flat = under_mask(input, indices)
    if flat is not None:
        return flat.index_select(0, indices[0].view(-1).nonzero().view(-1))
    return find_op("index")(input, indices)


def under_mask(input: Tensor, indices: list) -> Tensor | None:
    """The input with the dims under its one mask as one, where both lie in order and nothing is recorded: what `index`
    and `index_put_` do with such a mask, without their rules for all others."""
    mask = indices[0]
    if len(indices) != 1 or mask is None or mask.dtype is not _C.bool or not mask._is_contiguous():
        return None
    if not input._is_contiguous() or (input.requires_grad and _C.is_grad_enabled()) or mask.device != input.device:
        return None
    sizes = tuple(input.shape)
    if tuple(mask.shape) != sizes[: mask.ndim] or not mask.ndim:
        return None
    return input.view(mask.numel(), *sizes[mask.ndim :])


def scatter(target: Tensor, indices: list, value: Tensor) -> None:
    """Write `value` to the elements named by index tensors."""
    if not value.ndim:
        if value.device != target.device:
            value = value.to(target.device)
        first = indices[0]
        if (
            len(indices) == 1
            and first.dtype is _C.bool
            and value.dtype is target.dtype
            and first.shape == target.shape[: first.ndim]
        ):
            target.masked_fill_(
                first if first.ndim == target.ndim else first[(..., *[None] * (target.ndim - first.ndim))], value
            )
            return
    elif value.ndim == 1 and value.dtype is target.dtype and not value.requires_grad:
        flat = under_mask(target, indices)
        if flat is not None and flat.ndim == 1:
            indices, target = [indices[0].view(-1).nonzero().view(-1)], flat
    find_op("index_put_")(target, indices, _without_leading_ones(value, target.ndim))


def assign(view: Tensor, value: Tensor) -> None:
    """Copy `value`, broadcast, over the elements of a view. Leading dims of one that the view lacks are dropped."""
    if value.shape != view.shape:
        value = _without_leading_ones(value, view.ndim)
        if value.ndim > view.ndim:
            raise RuntimeError(
                f"expand(rushlight.Tensor{{{list(value.shape)}}}, size={list(view.shape)}): the number of sizes"
                f" provided ({view.ndim}) must be greater or equal to the number of dimensions in the tensor"
                f" ({value.ndim})"
            )
        value = value.expand(view.shape)
    view.copy_(value)


def _without_leading_ones(value: Tensor, ndim: int) -> Tensor:
    extra = 0
    while value.ndim - extra > ndim and value.shape[extra] == 1:
        extra += 1
    return value.view(value.shape[extra:]) if extra else value


def recorder(step: int) -> Any:
    """The overload under whose name a view is put on the tape: PyTorch names it after its last step."""
    known = find_op("_basic_index").overload_list[0].definition
    definition = type(known)(known.spec)
    definition.name = ("alias", "select", "slice", "unsqueeze")[step]
    return definition.overload()


def install() -> None:
    """Tell the core's index parser where to go on."""
    _C._set_view_hooks(get, recorder)
    _C._set_index_hooks(put, take, scatter, assign)
