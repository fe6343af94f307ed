"""From a list of samples to a batch, and from one sample to tensors.

Enters: samples of tensors, arrays, numbers, strings and containers of them. Leaves: tensors with a batch dim in the
same containers (tuples become lists, as in PyTorch). Refuses: samples of unequal sizes, types it does not know (with
TypeError), nested and sparse tensors. In a worker process, tensors are stacked straight into shared memory.

NumPy's entries of `default_collate_fn_map` are added when a NumPy value first turns up, or when someone outside asks
for the map: until then no program has to wait for NumPy to be imported.
"""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

from ...._C import Tensor, float64
from ....base.shape import strided
from ....op import find_op
from ....tensors.interop import as_tensor, tensor

np_str_obj_array_pattern = re.compile(r"[SaUO]")
default_collate_err_msg_format = (
    "default_collate: expected tensors, arrays, numbers, strings, dicts or lists in the batch, got {}"
)

# In a worker process: calls a function so that the tensors it makes are in memory the loader's process sees.
call_in_shared: Callable[..., Any] | None = None


def _call(function: Callable, *args: Any) -> Any:
    return function(*args) if call_in_shared is None else call_in_shared(function, *args)


# --- containers -------------------------------------------------------------------------------------------------------


def _rebuild_mapping(original: Mapping, values: Callable[[], dict]) -> Any:
    """A mapping of the class of `original` with new values; a dict where that class cannot be made or updated.

    A mutable mapping is copied and updated, since it may have attributes of its own.
    """
    result = values()
    try:
        if not isinstance(original, MutableMapping):
            return type(original)(result)
        clone = copy.copy(original)
        clone.update(result)
        return clone
    except TypeError:
        return result


def _rebuild_sequence(original: Sequence, values: list) -> Any:
    """A sequence of the class of `original` with new items; a list where that class cannot be made so."""
    try:
        if not isinstance(original, MutableSequence):
            return type(original)(values)
        clone = copy.copy(original)
        for i, value in enumerate(values):
            clone[i] = value
        return clone
    except TypeError:
        return values


# --- conversion of one sample -----------------------------------------------------------------------------------------


def default_convert(data: Any) -> Any:
    """NumPy values inside `data` as tensors; everything else as it is, tuples as lists."""
    if isinstance(data, Tensor):
        return data
    cls = type(data)
    if cls.__module__ == "numpy" and cls.__name__ not in ("str_", "string_"):
        if cls.__name__ == "ndarray" and np_str_obj_array_pattern.search(data.dtype.str):
            return data
        return as_tensor(data)
    if isinstance(data, Mapping):
        return _rebuild_mapping(data, lambda: {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple):
        items = [default_convert(d) for d in data]
        return cls(*items) if hasattr(data, "_fields") else items
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _rebuild_sequence(data, [default_convert(d) for d in data])
    return data


# --- collation --------------------------------------------------------------------------------------------------------


def collate(batch: Any, *, collate_fn_map: dict[type | tuple[type, ...], Callable] | None = None) -> Any:
    """Merge a list of samples, by the function `collate_fn_map` holds for their type, else by their structure.

    An entry for the exact type wins; then entries are tried in order by isinstance. Each is called as
    `function(batch, collate_fn_map=collate_fn_map)`.
    """
    elem = batch[0]
    cls = type(elem)
    if collate_fn_map is not None:
        found = collate_fn_map.get(cls)
        if found is not None:
            return found(batch, collate_fn_map=collate_fn_map)
        if collate_fn_map is _default_map and "numpy" in sys.modules:
            _add_numpy()
        for types, function in collate_fn_map.items():
            if isinstance(elem, types):
                return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(elem, Mapping):
        return _rebuild_mapping(
            elem, lambda: {key: collate([d[key] for d in batch], collate_fn_map=collate_fn_map) for key in elem}
        )
    if isinstance(elem, tuple) and hasattr(elem, "_fields"):
        return cls(*(collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch)))
    if isinstance(elem, Sequence):
        size = len(elem)
        if any(len(sample) != size for sample in batch):
            raise RuntimeError("default_collate: the lists of a batch must be of equal size")
        columns = [collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch)]
        return columns if isinstance(elem, tuple) else _rebuild_sequence(elem, columns)
    raise TypeError(default_collate_err_msg_format.format(cls))


def collate_tensor_fn(batch: Sequence[Tensor], *, collate_fn_map: dict | None = None) -> Tensor:
    """Stack along a new first dim."""
    elem = batch[0]
    if elem.layout is not strided or elem.is_nested:
        kind = "nested" if elem.is_nested else "sparse"
        raise RuntimeError(
            f"default_collate: no batches of {kind} tensors. "
            "Pass a collate_fn of your own."
        )
    return _call(find_op("stack"), batch, 0)


def collate_numpy_array_fn(batch: Sequence[Any], *, collate_fn_map: dict | None = None) -> Any:
    """Arrays as tensors, then as tensors are collated. Refuses arrays of strings and objects."""
    elem = batch[0]
    if np_str_obj_array_pattern.search(elem.dtype.str):
        raise TypeError(default_collate_err_msg_format.format(elem.dtype))
    return collate([as_tensor(b) for b in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Sequence[Any], *, collate_fn_map: dict | None = None) -> Tensor:
    return _call(as_tensor, batch)


def _doubles(batch: Sequence[float]) -> Tensor:
    return tensor(batch, dtype=float64)


def collate_float_fn(batch: Sequence[float], *, collate_fn_map: dict | None = None) -> Tensor:
    return _call(_doubles, batch)


def collate_int_fn(batch: Sequence[int], *, collate_fn_map: dict | None = None) -> Tensor:
    return _call(tensor, batch)


def collate_str_fn(batch: Any, *, collate_fn_map: dict | None = None) -> Any:
    return batch


_default_map: dict[type | tuple[type, ...], Callable] = {
    Tensor: collate_tensor_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}
_has_numpy_entries = False


def _add_numpy() -> None:
    """Put NumPy's entries after the tensor's: numpy.float64 is a float too, and must be found first."""
    global _has_numpy_entries
    if _has_numpy_entries:
        return
    _has_numpy_entries = True
    import numpy as np

    entries = list(_default_map.items())
    ours = {np.ndarray: collate_numpy_array_fn, (np.bool_, np.number, np.object_): collate_numpy_scalar_fn}
    at = next((i + 1 for i, (types, _) in enumerate(entries) if types is Tensor), 0)
    _default_map.clear()
    _default_map.update(entries[:at])
    _default_map.update(ours)
    _default_map.update(entries[at:])


def default_collate(batch: Any) -> Any:
    """The `collate_fn` of a DataLoader that batches: numbers and tensors become tensors with a batch dim."""
    return collate(batch, collate_fn_map=_default_map)


def collates_tensors_plainly(function: Any) -> bool:
    """Whether `function` is `default_collate` with nobody's own entry for tensors."""
    return function is default_collate and _default_map.get(Tensor) is collate_tensor_fn


def __getattr__(name: str) -> Any:
    if name == "default_collate_fn_map":
        _add_numpy()
        globals()[name] = _default_map
        return _default_map
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
