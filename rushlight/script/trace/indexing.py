"""`x[...]` and `x[...] = y` while a program is traced: the ops that PyTorch makes of them.

Enters: a tensor, an index and a value. Leaves: the part that was read, or nothing. Numbers select, slices slice, None
adds a dimension, tensors and lists gather (`aten::index`) or scatter (`aten::index_put_`), booleans do both.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ...base import late
from .aten import call, call_with, ignored, lifted
from .recorder import Recorder, wrapped

Tensor = _C.Tensor
_END = 2**63 - 1


def _is_number(item: Any) -> bool:
    return isinstance(item, int) and not isinstance(item, bool)


def _dims(tensor: Any) -> int:
    return ignored(lambda: tensor.dim())


def _is_scalar_tensor(item: Any) -> bool:
    return isinstance(item, Tensor) and ignored(
        lambda: item.dim() == 0 and item.dtype not in (_C.bool, _C.uint8) and not item.is_floating_point())


def _taken(item: Any) -> int:
    """How many dimensions an index uses up."""
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    if isinstance(item, Tensor) and ignored(lambda: item.dtype in (_C.bool, _C.uint8)):
        return _dims(item)
    return 1


def _as_tuple(index: Any) -> tuple[Any, ...]:
    if isinstance(index, tuple):
        return index
    if isinstance(index, list) and any(
            isinstance(item, (list, tuple, slice, Tensor)) or item is None or item is Ellipsis for item in index) and (
            len(index) < 32):
        return tuple(index)
    return (index,)


def _bound(bound: Any, default: int) -> Any:
    if bound is None:
        return default
    return bound if isinstance(bound, Tensor) else int(bound)


def _sliced(tensor: Any, dim: int, item: slice) -> Any:
    return call("slice", tensor, dim, _bound(item.start, 0), _bound(item.stop, _END), _bound(item.step, 1))


def _apply(tensor: Any, index: tuple[Any, ...]) -> tuple[Any, list[Any]]:
    """What numbers, slices and None make of a tensor, and the tensors that are left for each dimension."""
    used = sum(map(_taken, index))
    if used > _dims(tensor):
        raise IndexError(f"too many indices for tensor of dimension {_dims(tensor)}")
    dim, left = 0, []
    for at, item in enumerate(index):
        if _is_number(item):
            tensor = call("select", tensor, dim, int(item))
        elif isinstance(item, slice):
            tensor = _sliced(tensor, dim, item)
            dim += 1
        elif item is Ellipsis:
            dim = _dims(tensor) - sum(map(_taken, index[at + 1:]))
        elif item is None:
            tensor = call("unsqueeze", tensor, dim)
            dim += 1
        elif isinstance(item, bool):
            tensor = call("unsqueeze", tensor, dim)
            left += [None] * (dim - len(left))
            left.append(_flag(item))
            dim += 1
        elif _is_scalar_tensor(item):          # a tensor of one number selects, as a number does
            tensor = call("select", tensor, dim, item)
        else:
            held = item if isinstance(item, Tensor) else _row(item)
            left += [None] * (dim - len(left))
            left.append(held)
            dim += max(_taken(held), 1) if isinstance(item, Tensor) else 1
    return tensor, left


def _flag(item: bool) -> Any:
    return ignored(lambda: late.provided("package").tensor([item]))


def _row(item: Any) -> Any:
    """A list of numbers as a tensor; the trace has it as a constant."""
    torch = late.provided("package")
    return lifted(ignored(lambda: torch.tensor(item)))


def read(recorder: Recorder, tensor: Any, index: Any) -> Any:
    """`tensor[index]`."""
    items = _as_tuple(index)
    if len(items) == 1 and items[0] is Ellipsis:
        return call("alias", tensor)
    part, left = _apply(tensor, items)
    if left:
        return call("index", part, left)
    if part is tensor:
        return call("alias", tensor)
    return part


def write(recorder: Recorder, tensor: Any, index: Any, value: Any) -> None:
    """`tensor[index] = value`."""
    items = _as_tuple(index)
    made = not isinstance(value, Tensor)
    if made:
        dtype = ignored(lambda: tensor.dtype)
        value = ignored(lambda: wrapped(value, dtype))
    if len(items) == 1 and (items[0] is Ellipsis):
        _put(tensor, value, made)
        return
    part, left = _apply(tensor, items)
    if left:
        value = _slimmed(part, value)
        call("index_put_", part, left, value, False)
        return
    _put(part, value, made)


def _put(part: Any, value: Any, made: bool) -> None:
    if made and _dims(part) > 0:
        call("fill_", part, value)
        return
    if _dims(value) > _dims(part):
        value = _slimmed(part, value)
    call_with("copy_", lambda target, source, _: target.copy_(source), (part, value, False), {})


def _slimmed(part: Any, value: Any) -> Any:
    """Leading dimensions of one element are dropped, as assignment does."""
    sizes = ignored(lambda: list(value.shape))
    extra = 0
    while extra < len(sizes) and sizes[extra] == 1:
        extra += 1
    if extra and _dims(value) > _dims(part):
        return call("view", value, sizes[extra:])
    return value
