"""The functions that pickles of tensors call to make them again.

Enters: storages, sizes and strides as a file or another process tells them. Leaves: tensors. Nothing said is believed:
a view must lie inside its storage, indices of sparse tensors inside their sizes; qparams must be possible ones.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

from .. import _C
from .._C import Tensor, UntypedStorage
from ..base import late
from ..base.bits import CONJUGATE, NEGATIVE
from ..base.quantizers import PLAIN, PerChannel, PerChannelFloat, PerTensor, Quantizer, qscheme
from ..base.shape import sparse_coo
from ..definitions.nested.container import start as start_nested
from ..definitions.quantized.create import POINTS
from ..definitions.quantized.subbyte import PER_BYTE
from ..definitions.sparse.container import COMPRESSED
from ..op import find_op


class _Ongoing(threading.local):
    """What holds for the saves and loads of one thread."""

    skip_data: bool = False
    materialize_fake_tensors: bool = False
    map_location: Any = None
    is_fake: bool = False            # loading inside a FakeTensorMode: shapes alone are wanted
    unchecked: list | None = None    # checks of elements that are not there yet: the old format ends with them


ongoing = _Ongoing()


def _restored_device(device: Any) -> Any:
    """Where a tensor goes that was pickled without a storage, as `map_location` says."""
    where = ongoing.map_location
    if where is None:
        return device
    if isinstance(where, dict):
        return where.get(device, device)
    return where if isinstance(where, (str, _C.device)) else device


def _finish(result: Tensor, requires_grad: bool, hooks: Any, metadata: dict | None) -> Tensor:
    if metadata:
        if metadata.get("conj") and not result.is_complex():
            raise RuntimeError(f"load: a tensor of {result.dtype.name} is said to show conjugates")
        result._keys |= (CONJUGATE if metadata.get("conj") else 0) | (NEGATIVE if metadata.get("neg") else 0)
    if requires_grad:
        result.requires_grad_()
    if hooks:
        result._backward_hooks = hooks
    return result


def _view_of(storage: Any, offset: int, size: tuple, stride: tuple, dtype: _C.dtype) -> Tensor:
    storage = storage if type(storage) is UntypedStorage else storage._untyped_storage
    result = _C.empty((0,), None, dtype, storage.device)
    result._set_storage(storage, offset, size, stride)
    # Among fake tensors, what is loaded is fake too: the op goes to the mode.
    return find_op("empty_strided")(tuple(result.shape), result.stride(), dtype=dtype) if ongoing.is_fake else result


def _rebuild_tensor(storage: Any, storage_offset: int, size: tuple, stride: tuple) -> Tensor:
    return _view_of(storage, storage_offset, size, stride, storage.dtype)


def _rebuild_tensor_v2(
    storage: Any,
    storage_offset: int,
    size: tuple,
    stride: tuple,
    requires_grad: bool,
    backward_hooks: Any,
    metadata: dict | None = None,
) -> Tensor:
    """A tensor over a typed storage."""
    result = _view_of(storage, storage_offset, size, stride, storage.dtype)
    return (
        _finish(result, requires_grad, backward_hooks, metadata)
        if requires_grad or backward_hooks or metadata
        else result
    )


def _rebuild_tensor_v3(
    storage: Any,
    storage_offset: int,
    size: tuple,
    stride: tuple,
    requires_grad: bool,
    backward_hooks: Any,
    dtype: _C.dtype,
    metadata: dict | None = None,
) -> Tensor:
    """A tensor of a dtype that storages have no class for."""
    return _finish(_view_of(storage, storage_offset, size, stride, dtype), requires_grad, backward_hooks, metadata)


def _rebuild_meta_tensor_no_storage(dtype: _C.dtype, size: tuple, stride: tuple, requires_grad: bool) -> Tensor:
    result = _C.empty(tuple(size), tuple(stride), dtype, "meta")
    return result.requires_grad_() if requires_grad else result


def _rebuild_device_tensor_from_cpu_tensor(data: Tensor, dtype: _C.dtype, device: str, requires_grad: bool) -> Tensor:
    return data.to(device=_restored_device(device), dtype=dtype).requires_grad_(requires_grad)


def _rebuild_device_tensor_from_numpy(data: Any, dtype: _C.dtype, device: str, requires_grad: bool) -> Tensor:
    return _C.from_buffer(data).to(device=_restored_device(device), dtype=dtype).requires_grad_(requires_grad)


_rebuild_xla_tensor = _rebuild_device_tensor_from_numpy


def _rebuild_wrapper_subclass(
    cls: type,
    dtype: _C.dtype,
    size: tuple,
    stride: tuple,
    storage_offset: int,
    layout: Any,
    device: Any,
    requires_grad: bool,
) -> Tensor:
    """A tensor of a subclass that has no memory of its own; its parts come with its state."""
    result = _C.make_wrapper(cls, tuple(size), tuple(stride), dtype, _restored_device(device))
    return result.requires_grad_() if requires_grad else result


# --- quantized tensors ------------------------------------------------------------------------------------------------


def _rebuild_qtensor(
    storage: Any,
    storage_offset: int,
    size: tuple,
    stride: tuple,
    quantizer_params: tuple,
    requires_grad: bool,
    backward_hooks: Any,
) -> Tensor:
    """A quantized tensor over a typed storage; `quantizer_params` are the scheme and what belongs to it."""
    dtype = getattr(storage, "dtype", None)
    if dtype not in PLAIN:
        raise RuntimeError(f"load: a quantized tensor needs a storage of a quantized dtype, got {dtype}")
    quantizer = _quantizer_said(quantizer_params, dtype, size)
    result = quantized_over(storage, storage_offset, size, stride, quantizer)
    return _finish(result, requires_grad, backward_hooks, None)


def quantized_over(storage: Any, offset: int, size: tuple, stride: tuple, quantizer: Quantizer) -> Tensor:
    """A quantized tensor that looks at a typed storage."""
    whole = _C.empty((0,), None, _C.uint8, storage.device)
    whole._set_storage(storage.untyped(), 0, (storage.nbytes(),), (1,))
    result = _C.alias(whole, tuple(size), tuple(stride), offset, storage.dtype)
    if storage.dtype in PER_BYTE and (offset or not result.is_contiguous()):
        raise RuntimeError(f"a tensor of {storage.dtype.name}, whose elements share bytes, must begin with its storage")
    result._quantizer = quantizer
    return result


def _quantizer_said(said: Any, dtype: _C.dtype, size: tuple) -> Quantizer:
    """The quantizer a file tells of; raises for qparams that no quantized tensor of `dtype` and `size` has."""
    scheme = said[0] if isinstance(said, tuple) and said and isinstance(said[0], qscheme) else None
    if scheme is PerTensor.scheme and len(said) == 3:
        _check_scales(dtype, said[1:2])
        _check_points(dtype, said[2:])
        return PerTensor(float(said[1]), said[2])
    if scheme not in (PerChannel.scheme, PerChannelFloat.scheme) or len(said) != 4:
        raise RuntimeError(f"load: a quantized tensor is said to be quantized as {str(said)[:100]}, which is no scheme")
    scales, points, axis = said[1:]
    # PyTorch calls both schemes by one name: the dtype of the zero points tells them apart
    is_float = isinstance(points, Tensor) and points.dtype.is_floating_point
    kind, *dtypes = (PerChannelFloat, _C.float32, _C.float32) if is_float else (PerChannel, _C.float64, _C.int64)
    for what, values, wanted in zip(("scales", "zero points"), (scales, points), dtypes, strict=True):
        is_vector = isinstance(values, Tensor) and values.ndim == 1 and values.is_contiguous()
        if not is_vector or values.dtype is not wanted:
            raise RuntimeError(
                f"load: the {what} of a quantized tensor must be a vector of {wanted.name}, got {values!s:.80}"
            )
    if type(axis) is not int or not 0 <= axis < len(size):
        raise RuntimeError(f"load: a quantized tensor of {list(size)} cannot have the axis {axis!r}")
    if not len(scales) == len(points) == size[axis]:
        raise RuntimeError(
            f"load: a quantized tensor of {list(size)} needs {size[axis]} scales and zero points along axis {axis}, got"
            f" {len(scales)} and {len(points)}"
        )
    _when_read(lambda: _check_scales(dtype, scales.tolist()))
    if kind is PerChannel:
        _when_read(lambda: _check_points(dtype, points.tolist()))
    return kind(scales, points, axis)


def _check_scales(dtype: _C.dtype, scales: Any) -> None:
    for scale in scales:
        if type(scale) not in (int, float) or not 0 < scale < math.inf:
            raise RuntimeError(f"load: a quantized tensor of {dtype.name} cannot have the scale {scale!r}")


def _check_points(dtype: _C.dtype, points: Any) -> None:
    low, high = POINTS[dtype]
    for point in points:
        if type(point) is not int or not low <= point <= high:
            raise RuntimeError(
                f"load: a quantized tensor of {dtype.name} cannot have the zero point {point!r} ({low} to {high})"
            )


def _when_read(check: Callable[[], Any]) -> None:
    """Do a check of elements, now or when they are there: the old format ends with them."""
    if ongoing.unchecked is None:
        check()
    else:
        ongoing.unchecked.append(check)


# --- sparse and nested tensors ----------------------------------------------------------------------------------------


def _rebuild_sparse_tensor(layout: Any, data: tuple) -> Tensor:
    """A sparse tensor from its indices and values, which are checked against its size."""
    if layout is not sparse_coo and layout not in COMPRESSED:
        raise NotImplementedError(f"rebuilding sparse tensor for layout {layout}")
    if ongoing.unchecked is None:
        return _sparse_of(layout, data, True)
    ongoing.unchecked.append(lambda: _sparse_of(layout, data, True))
    return _sparse_of(layout, data, False)


def _sparse_of(layout: Any, data: tuple, check: bool) -> Tensor:
    if layout is sparse_coo:
        indices, values, size, *rest = data
        return find_op("sparse_coo_tensor")(
            indices, values, tuple(size), check_invariants=check, is_coalesced=rest[0] if rest else None
        )
    compressed, plain, values, size = data
    return find_op("sparse_compressed_tensor")(
        compressed, plain, values, tuple(size), layout=layout, check_invariants=check
    )


def _validate_loaded_sparse_tensors() -> None:
    """Check the tensors that were made before their elements were there."""
    waiting, ongoing.unchecked = ongoing.unchecked, None
    for check in waiting or ():
        check()


def refuse_nested_in_old_format() -> None:
    """The old format ends with the elements, but a nested tensor needs those of its sizes to be made."""
    if ongoing.unchecked is not None:
        raise RuntimeError(
            "nested tensors cannot be saved in or loaded from the format before PyTorch 1.6. Save them with"
            " _use_new_zipfile_serialization=True."
        )


def _rebuild_nested_tensor(buffer: Tensor, sizes: Tensor, strides: Tensor, storage_offsets: Tensor) -> Tensor:
    """A nested tensor whose components are views of `buffer`."""
    refuse_nested_in_old_format()
    parts = [
        find_op("as_strided")(buffer, tuple(size), tuple(stride), offset)
        for size, stride, offset in zip(sizes.tolist(), strides.tolist(), storage_offsets.tolist(), strict=True)
    ]
    return late.provided("as_nested_tensor")(parts)


def _rebuild_njt(parts: dict) -> Tensor:
    """A jagged tensor from its values and offsets, which must lie inside the values."""
    refuse_nested_in_old_format()
    values, offsets, lengths, ragged = (
        parts["values"],
        parts["offsets"],
        parts.get("lengths"),
        parts.get("_ragged_idx", 1),
    )
    if offsets.ndim != 1 or not offsets.numel() or not 1 <= ragged <= values.ndim:
        raise RuntimeError(
            f"nested tensor: expected offsets as a vector and a ragged dim from 1 to {values.ndim}, got"
            f" {tuple(offsets.shape)} and {ragged}"
        )
    places = offsets.tolist()
    ends = places[1:] if lengths is None else [at + length for at, length in zip(places, lengths.tolist(), strict=True)]
    if (
        places[0] < 0
        or places != sorted(places)
        or any(not at <= end <= values.shape[ragged - 1] for at, end in zip(places, ends, strict=False))
    ):
        raise RuntimeError("nested tensor: the offsets lie outside the values")
    result = start_nested(values, offsets, lengths, ragged)
    return result.requires_grad_() if parts.get("requires_grad") else result


# --- parameters and state ---------------------------------------------------------------------------------------------


def parameter_class() -> type:
    """`nn.Parameter`; its package loads when the first one is met."""
    return late.provided("Parameter")


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any) -> Tensor:
    result = parameter_class()(data, requires_grad)
    if backward_hooks:
        result._backward_hooks = backward_hooks
    return result


def _rebuild_parameter_with_state(data: Tensor, requires_grad: bool, backward_hooks: Any, state: Any) -> Tensor:
    return _set_obj_state(_rebuild_parameter(data, requires_grad, backward_hooks), state)


def _get_obj_state(obj: Any) -> Any:
    """What an object of a Python class holds: its dict, or (dict, slots)."""
    return obj.__getstate__()


def _set_obj_state(obj: Any, state: Any) -> Any:
    """Give an object what `_get_obj_state` took from another."""
    if isinstance(state, tuple) and len(state) != 2:
        raise RuntimeError(f"Invalid serialized state: {state}")
    for part in state if isinstance(state, tuple) else (state,):
        for name, value in (part or {}).items():
            setattr(obj, name, value)
    return obj
