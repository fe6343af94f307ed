"""Tensors from foreign data and foreign data from tensors: NumPy, DLPack, buffers, nested Python sequences.

Enters: lists, arrays, capsules, anything with the buffer protocol. Leaves: tensors that share the memory wherever
sharing is possible, and copy only where asked to or where dtype and device differ. Refuses: types without an
equivalent, negative strides, other byte orders, exporting tensors that require grad.
NumPy is imported when first needed.
"""

from __future__ import annotations

import warnings
from enum import IntEnum
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from .. import _C
from .._C import Tensor
from ..devices import find, placed, private_use
from ..dispatch.modes import state
from ..dispatch.overrides import ask_modes, computes_itself, see_access
from ..op import find_op

# The dtypes that NumPy has too, under the same names.
_IN_NUMPY = frozenset(
    (
        "bool",
        "uint8",
        "int8",
        "int16",
        "int32",
        "int64",
        "float16",
        "float32",
        "float64",
        "complex64",
        "complex128",
        "uint16",
        "uint32",
        "uint64",
    )
)


@cache
def _numpy() -> ModuleType:
    return import_module("numpy")


@cache
def _array_type(name: str) -> tuple[Any, Any]:
    """NumPy's array class, and its dtype of this name."""
    np = _numpy()
    return np.ndarray, np.dtype(name)


def _is_array(obj: Any) -> bool:
    """A NumPy array. Found by name, so that asking does not import NumPy."""
    cls = type(obj)
    if cls.__name__ == "ndarray" and cls.__module__ == "numpy":
        return True
    return any(t.__name__ == "ndarray" and t.__module__ == "numpy" for t in cls.__mro__)


# --- from Python data -------------------------------------------------------------------------------------------------


def tensor(
    data: Any,
    *,
    dtype: _C.dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A new tensor holding a copy of `data`, never part of a graph.

    Arguments:
        data: numbers, lists of them, an array
        dtype: dtype of the result; None for the one that fits the data
        device: where the result is made; None for the default one
        requires_grad: whether operations on the result are recorded
        pin_memory: whether the memory is one that a GPU reads directly

    Example:
        >>> rl.tensor([[1.0, 2.0], [3.0, 4.0]])
        tensor([[1., 2.],
                [3., 4.]])
        >>> rl.tensor([1, 2], dtype=rl.float64)
        tensor([1., 2.], dtype=rushlight.float64)
    """
    if state.function_modes:
        options = {"dtype": dtype, "device": device, "requires_grad": requires_grad, "pin_memory": pin_memory}
        own = ask_modes(tensor, (data,), options)
        if own is not NotImplemented:
            return own
    device = placed() if device is None else device
    if isinstance(data, Tensor):
        warnings.warn(
            "tensor: to copy construct from a tensor, write source.detach().clone(), "
            "with .requires_grad_() where it should be a leaf that wants a gradient.",
            UserWarning,
            stacklevel=2,
        )
        result = _copied(data.detach(), dtype, device)
    else:
        result = _from_data(data, dtype, device)
        if state.dispatch_modes:
            result = seen_by_modes(result)
    result = result.pin_memory() if pin_memory else result
    return result.requires_grad_() if requires_grad else result


def seen_by_modes(made: Tensor) -> Tensor:
    """A tensor of data, as a mode that makes a graph wants it; those of programs see it come."""
    for mode in state.dispatch_modes:
        if mode.fresh is not None:
            made = mode.fresh(made)
    modes = state.dispatch_modes
    return made if not modes or modes[-1].own_ops else find_op("lift_fresh")(made)


def _from_data(data: Any, dtype: _C.dtype | None, device: Any) -> Tensor:
    if private_use.is_private(device):     # made here, and handed to the back end
        return _C.from_data(data, dtype, "cpu").to(device)
    return _C.from_data(data, dtype, device)


def _copied(source: Tensor, dtype: _C.dtype | None, device: Any) -> Tensor:
    """A copy of `source` that shares nothing with it."""
    moved = _moved(source, dtype, device)
    return source.clone() if moved is source else moved


def _moved(source: Tensor, dtype: _C.dtype | None, device: Any) -> Tensor:
    """`source` itself where dtype and device already match."""
    if device is not None and _C.device(device) != source.device:
        source = source.to(device)
    return source.to(dtype) if dtype is not None and dtype is not source.dtype else source


def as_tensor(data: Any, dtype: _C.dtype | None = None, device: Any = None) -> Tensor:
    """`data` as a tensor, sharing its memory and its history where possible.

    Arguments:
        data: a tensor, an array, numbers or lists of them
        dtype: dtype of the result; None for that of the data
        device: where the result shall be; None for where the data are

    Example:
        >>> rl.as_tensor([1, 2, 3])
        tensor([1, 2, 3])
    """
    if state.function_modes:
        own = ask_modes(as_tensor, (data,), {"dtype": dtype, "device": device})
        if own is not NotImplemented:
            return own
    device = placed() if device is None else device
    if isinstance(data, Tensor):
        return _moved(data, dtype, device)
    if _is_array(data):
        return _moved(from_numpy(data), dtype, device)
    if hasattr(data, "__cuda_array_interface__"):
        return _moved(from_cuda_array(data), dtype, device)
    return seen_by_modes(_from_data(data, dtype, device))


def asarray(
    obj: Any,
    *,
    dtype: _C.dtype | None = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`obj` as a tensor: shared where possible, unless `copy` says True;
    an error if `copy` is False and it cannot be.

    Arguments:
        obj: a tensor, an array, a buffer, numbers or lists of them
        dtype: dtype of the result; None for that of the data
        device: where the result shall be; None for where the data are
        copy: True for a copy, False for none, None for one where it must be
        requires_grad: whether operations on the result are recorded

    Example:
        >>> rl.asarray([1, 2, 3])
        tensor([1, 2, 3])
    """
    if state.function_modes:
        options = {"dtype": dtype, "device": device, "copy": copy, "requires_grad": requires_grad}
        own = ask_modes(asarray, (obj,), options)
        if own is not NotImplemented:
            return own
    source, device = _shared(obj, dtype), placed() if device is None else device
    if source is None:
        if copy is False:
            raise ValueError("asarray: a sequence has no memory that a tensor could alias. Leave copy=None.")
        result = _from_data(obj, dtype, device)
    elif copy:
        result = _copied(source, dtype, device)
    else:
        result = _moved(source, dtype, device)
        if result is not source and copy is False:
            what = "device" if device is not None and _C.device(device) != source.device else "dtype"
            raise ValueError(
                f"can't alias tensor with {what} '{getattr(source, what)}' into {what} '{getattr(result, what)}'."
            )
    if result.requires_grad and not requires_grad:
        result = result.detach()
    return result.requires_grad_() if requires_grad and not result.requires_grad else result


def _shared(obj: Any, dtype: _C.dtype | None) -> Tensor | None:
    """A tensor over the memory of `obj`; None if it has no memory to share."""
    if isinstance(obj, Tensor):
        return obj
    if _is_array(obj):
        return from_numpy(obj)
    if hasattr(obj, "__cuda_array_interface__"):
        return from_cuda_array(obj)
    if hasattr(obj, "__dlpack__") or type(obj).__name__ == "PyCapsule":
        return from_dlpack(obj)
    if isinstance(obj, (list, tuple, range, str)):
        return None
    try:
        with memoryview(obj) as view:
            is_empty = not view.nbytes
    except TypeError:
        return None
    if is_empty:
        return _C.empty((0,), None, dtype or _C.get_default_dtype(), None)
    return frombuffer(obj, dtype=dtype or _C.get_default_dtype())


def read_foreign(obj: Any) -> Tensor | None:
    """For the core's `from_data`: a tensor over an object that is no sequence but knows how to be an array."""
    if hasattr(obj, "__cuda_array_interface__"):
        return from_cuda_array(obj)
    if hasattr(obj, "__array__"):
        return _C.from_buffer(_numpy().asarray(obj))
    if hasattr(obj, "__dlpack__"):
        return from_dlpack(obj)
    return None


# --- NumPy and buffers ------------------------------------------------------------------------------------------------


def from_numpy(array: Any) -> Tensor:
    """A tensor sharing the memory of a NumPy array.

    Arguments:
        array: an array of NumPy

    Example:
        >>> import numpy
        >>> array = numpy.zeros(2)
        >>> x = rl.from_numpy(array)
        >>> array[0] = 5
        >>> x
        tensor([5., 0.], dtype=rushlight.float64)
    """
    if not _is_array(array):
        raise TypeError(f"expected np.ndarray (got {_type_name(array)})")
    result = _C.from_buffer(array)
    if not array.flags.writeable:
        _warn_read_only("The given NumPy array is")
    return result


def _type_name(obj: Any) -> str:
    t = type(obj)
    return t.__name__ if t.__module__ == "builtins" else f"{t.__module__}.{t.__name__}"


def _warn_read_only(what: str) -> None:
    warnings.warn(
        f"{what} not writable, and tensors cannot be read-only: writing to this one is undefined behaviour. "
        "Copy the data first if the tensor will be written to.",
        UserWarning,
        stacklevel=3,
    )


def refuse_bits(what: str, t: Tensor) -> None:
    """Refuse a tensor whose memory holds the conjugates or negatives of its elements."""
    for is_set, bit, remedy in (
        (t.is_conj(), "conjugate", "resolve_conj"), (t.is_neg(), "negative", "resolve_neg")
    ):
        if is_set:
            raise RuntimeError(f"Can't call {what} on Tensor that has {bit} bit set. Use tensor.{remedy}() first.")


def numpy_of(self: Tensor, *, force: bool = False) -> Any:
    """The tensor as a NumPy array over the same memory. `force` detaches, moves to the host and copies if it must."""
    if _C.is_odd(self):
        own = see_access("numpy", (self,), {"force": True} if force else None, 2)
        if own is not NotImplemented:
            return own
        if computes_itself(self):
            raise RuntimeError(f"numpy: unsupported for classes with __torch_dispatch__, got {_type_name(self)}")
        if self.is_cpu and not len(self.untyped_storage()) and self.numel():
            raise RuntimeError(f"numpy: the tensor has {self.numel()} elements, but its data is not allocated")
    source = self.detach().cpu().resolve_conj().resolve_neg() if force else self
    if not source.is_cpu:
        raise TypeError(
            f"can't convert a tensor on {source.device} to numpy: it is not in host memory. Use Tensor.cpu() first."
        )
    if source.requires_grad and _C.is_grad_enabled():
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
    refuse_bits("numpy()", source)
    name = source.dtype.name
    if name not in _IN_NUMPY:
        raise TypeError(f"Got unsupported ScalarType {source.dtype.legacy_name}")
    array_type, dtype = _array_type(name)
    shape, size = tuple(source.shape), source.itemsize
    if not source.numel():
        return array_type(shape, dtype)
    strides = tuple([s * size for s in source.stride()])
    return array_type(shape, dtype, source.untyped_storage(), source.storage_offset() * size, strides)


def array_of(self: Tensor, dtype: Any = None, copy: bool | None = None) -> Any:
    """NumPy's array protocol."""
    array = numpy_of(self)
    if dtype is None or array.dtype == dtype:
        return array.copy() if copy else array
    if copy is False:
        raise ValueError(f"Unable to avoid copy while creating an array of {dtype} from a tensor of {self.dtype}")
    return array.astype(dtype)


def wrap_array(self: Tensor, array: Any, context: Any = None, return_scalar: bool = False) -> Tensor:
    """What a NumPy function of a tensor returns: a tensor over the array it made."""
    return from_numpy(_numpy().asarray(array))


def frombuffer(
    buffer: Any, *, dtype: _C.dtype, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A 1-D tensor over the bytes of an object with the buffer protocol, from `offset` bytes on.

    Arguments:
        buffer: bytes, a bytearray, an array, …
        dtype: dtype of the elements
        count: how many; -1 for as many as there are
        offset: bytes that are left out at the beginning
        requires_grad: whether operations on the result are recorded

    Example:
        >>> rl.frombuffer(bytearray([1, 2, 3]), dtype=rl.uint8)
        tensor([1, 2, 3], dtype=rushlight.uint8)
    """
    try:
        view = memoryview(buffer)
    except TypeError:
        raise ValueError("frombuffer: expected an object with the buffer protocol.") from None
    length, size = view.nbytes, dtype.itemsize
    if not length or not count:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"frombuffer: expected an offset from 0 to below the length of the buffer, {length} bytes, got {offset}"
        )
    if count < 0:
        if (length - offset) % size:
            raise ValueError(
                f"frombuffer: the {length - offset} bytes after offset {offset} are not a multiple of the element size"
                f" {size}"
            )
        count = (length - offset) // size
    elif offset + count * size > length:
        raise ValueError(
            f"frombuffer: expected count * {size} bytes after offset {offset} to lie within the buffer's {length}, "
            f"got count={count}"
        )
    if view.readonly:
        _warn_read_only("The given buffer is")
    whole = _C.from_buffer(view.cast("B")[offset : offset + count * size])
    result = _C.alias(whole, (count,), (1,), 0, dtype)
    return result.requires_grad_() if requires_grad else result


# --- DLPack -----------------------------------------------------------------------------------------------------------


class DLDeviceType(IntEnum):
    """Device numbers of the DLPack specification."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14


def dlpack_of(
    self: Tensor,
    *,
    stream: Any = -1,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A DLPack capsule over the tensor's memory; versioned when the consumer says it understands that."""
    if dl_device is not None and tuple(dl_device) != tuple(dlpack_device_of(self)):
        raise BufferError(f"__dlpack__: cannot export to device {tuple(dl_device)}")
    source = self.clone() if copy else self
    if self.device.type == "cuda" and stream is not None and stream != -1:
        _C.synchronize(self.device, _C.current_stream(self.device))    # the consumer's stream is no stream of ours
    return _C.to_dlpack(source, max_version is not None and max_version[0] >= 1, bool(copy))


def dlpack_device_of(self: Tensor) -> tuple[DLDeviceType, int]:
    """(device type, index) in DLPack's numbers."""
    if self.device.type == "cuda":
        return DLDeviceType.kDLCUDA, self.device.index
    if not self.is_cpu:
        raise ValueError(f"Unknown device type {self.device.type} for Dlpack")
    return (DLDeviceType.kDLCUDAHost if _C.is_pinned(self) else DLDeviceType.kDLCPU), 0


# DLPack has no types of arrays, this has: what each of ours is called there.
_ARRAY_TYPES = {"float16": "<f2", "float32": "<f4", "float64": "<f8", "complex64": "<c8", "complex128": "<c16",
                "uint8": "|u1", "int8": "|i1", "int16": "<i2", "int32": "<i4", "int64": "<i8", "uint16": "<u2",
                "uint32": "<u4", "uint64": "<u8", "bool": "|b1", "bfloat16": "<V2"}


def cuda_array_of(self: Tensor) -> dict[str, Any]:
    """`__cuda_array_interface__`, version 2: where the elements of a CUDA tensor are."""
    if self.device.type != "cuda":
        raise AttributeError(
            f"__cuda_array_interface__: expected a tensor on cuda, got one on {self.device}. Use .cuda() first."
        )
    if self.requires_grad:
        raise RuntimeError(
            "__cuda_array_interface__: this tensor requires grad, and writes by others would not be recorded."
            " Use .detach() first."
        )
    if self.dtype.name not in _ARRAY_TYPES:
        raise TypeError(f"__cuda_array_interface__: {self.dtype.name} has no such type")
    refuse_bits("__cuda_array_interface__", self)
    strides = None if self.is_contiguous() else tuple([s * self.itemsize for s in self.stride()])
    return {"typestr": _ARRAY_TYPES[self.dtype.name], "shape": tuple(self.shape), "strides": strides,
            "data": (self.data_ptr() if self.numel() else 0, False), "version": 2}


def from_cuda_array(obj: Any) -> Tensor:
    """A tensor over the memory of an object with `__cuda_array_interface__`, which stays alive as long as it does."""
    given = obj.__cuda_array_interface__
    if not find("cuda"):
        raise RuntimeError("__cuda_array_interface__: there is no CUDA device here")
    if given.get("mask") is not None:
        raise NotImplementedError("__cuda_array_interface__: masked arrays have no tensors")
    name = next((n for n, text in _ARRAY_TYPES.items() if text[1:] == given["typestr"][1:]), None)
    if name is None or given["typestr"][0] == ">":
        raise TypeError(f"__cuda_array_interface__: no tensor has elements of type {given['typestr']!r}")
    dtype, shape = getattr(_C, name), tuple(given["shape"])
    strides = given.get("strides")
    elements = None if strides is None else tuple([s // dtype.itemsize for s in strides])
    if given.get("stream") is not None:
        _C.synchronize(_C.device("cuda", _C.current_unit("cuda")))
    device = _C.device("cuda", _C.current_unit("cuda"))
    return _C.wrap_memory(given["data"][0], shape, elements, dtype, device, obj)


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of anything that exports DLPack, or of a capsule.

    Arguments:
        ext_tensor: a tensor of any library that has `__dlpack__`, or a capsule
        device: where the result shall be; None for where it is
        copy: True for a copy, False for none, None for one where it must be

    Example:
        >>> rl.from_dlpack(rl.ones(2))
        tensor([1., 1.])
    """
    capsule = ext_tensor
    if hasattr(ext_tensor, "__dlpack__"):
        wanted: dict[str, Any] = {"max_version": (1, 0)}
        place = ext_tensor.__dlpack_device__() if hasattr(ext_tensor, "__dlpack_device__") else (1, 0)
        if int(place[0]) == DLDeviceType.kDLCUDA:
            if not find("cuda"):
                raise BufferError("from_dlpack: the array is on a CUDA device, and none is found here")
            unit = _C.device("cuda", int(place[1]))
            wanted["stream"] = _C.stream_handle(unit, _C.current_stream(unit)) or 1    # 1: the driver's first queue
        if copy is not None:
            wanted["copy"] = copy
        try:
            capsule = ext_tensor.__dlpack__(**wanted)
        except TypeError:  # a producer from before versions
            capsule = ext_tensor.__dlpack__()
    result, is_read_only = _C.from_dlpack(capsule)
    if is_read_only and not copy:
        _warn_read_only("The given DLPack data is")
    return result if device is None else _moved(result, None, device)


def to_dlpack(source: Tensor) -> Any:
    """A DLPack capsule over the memory of `source`."""
    return dlpack_of(source)


_C._set_foreign_reader(read_foreign)
