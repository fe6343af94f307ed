"""PyTorch's oldest way of making tensors: `Tensor(2, 3)`, `FloatTensor([1, 2])`, `x.new(...)`, `x.type("FloatTensor")`.

Enters: sizes, data, a storage or a tensor. Leaves: a tensor of the type asked for; sizes give uninitialised memory.
Refuses: numbers that are no sizes, and data types it cannot read.
"""

from __future__ import annotations

from typing import Any

from .. import _C
from .._C import Tensor, UntypedStorage
from .storages import TypedStorage

_DTYPES = (
    _C.bool, _C.uint8, _C.int8, _C.int16, _C.int32, _C.int64, _C.float16, _C.float32, _C.float64, _C.complex32,
    _C.complex64, _C.complex128, _C.bfloat16, _C.uint16, _C.uint32, _C.uint64, _C.float8_e4m3fn, _C.float8_e5m2,
)
_QUANTIZED = (_C.qint8, _C.quint8, _C.qint32, _C.quint4x2, _C.quint2x4)


def make(args: tuple, dtype: _C.dtype, device: Any = None) -> Tensor:
    """What `FloatTensor(*args)` makes."""
    if not args:
        return _C.empty((0,), None, dtype, device)
    first = args[0]
    if len(args) == 1:
        if isinstance(first, Tensor):
            if first.dtype is not dtype:
                raise TypeError(f"expected {dtype} (got {first.dtype})")
            return _C.shallow_copy(first)
        if isinstance(first, (TypedStorage, UntypedStorage)):
            return _over_storage(first, dtype)
        if isinstance(first, str):
            raise TypeError("new(): invalid data type 'str'")
        if type(first).__name__ == "Size":
            return _C.empty(first, None, dtype, device)
        if not _is_size(first):
            if not hasattr(first, "__len__"):
                raise TypeError(f"new(): data must be a sequence (got {type(first).__name__})")
            return _C.from_data(first, dtype, device)
    if not all(map(_is_size, args)):
        given = ", ".join(type(a).__name__ for a in args)
        raise TypeError(f"new(): expected sizes as ints, one sequence, a tensor or a storage, got ({given})")
    return _C.empty(args, None, dtype, device)


def _is_size(value: Any) -> bool:
    if isinstance(value, (bool, list, tuple)):
        return False
    return hasattr(value, "__index__") and not getattr(value, "ndim", 0)   # tensors and arrays with dimensions are data


def _over_storage(source: TypedStorage | UntypedStorage, dtype: _C.dtype) -> Tensor:
    storage = source.untyped() if isinstance(source, TypedStorage) else source
    result = _C.empty((0,), None, dtype, storage.device)
    result._set_storage(storage, 0, (storage.nbytes() // dtype.itemsize,), (1,))
    return result


def new_tensor_object(cls: type, *args: Any, device: Any = None) -> Tensor:
    """`Tensor.__new__`: the default dtype, except that a tensor argument keeps its own."""
    if len(args) == 1 and isinstance(args[0], Tensor):
        result = _C.shallow_copy(args[0].detach())
    else:
        result = make(args, _C.get_default_dtype(), device)
    return result if cls is Tensor else _C.shallow_copy(result, True, cls)


def new(self: Tensor, *args: Any, device: Any = None) -> Tensor:
    """`x.new(...)`: as the legacy constructors, with the dtype and device of `x`."""
    return make(args, self.dtype, self.device if device is None else device)


class LegacyType(type):
    """The type of `FloatTensor` and its like: instances are tensors of that dtype on the host."""

    dtype: _C.dtype

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.dtype is cls.dtype and instance.is_cpu

    def __call__(cls, *args: Any, **kwargs: Any) -> Tensor:
        if len(args) == 1 and isinstance(args[0], Tensor) and args[0].dtype is not cls.dtype:
            return args[0].detach().to(cls.dtype)
        return make(args, cls.dtype, **kwargs)

    def __repr__(cls) -> str:
        return f"<class '{_C.get_display_module()}.{cls.__name__}'>"


def _legacy_type(name: str, dtype: _C.dtype) -> LegacyType:
    result = LegacyType(f"{name}Tensor", (), {"dtype": dtype, "__module__": "rushlight", "is_cuda": False})
    return result


TYPES: dict[str, LegacyType] = {
    f"{dtype.legacy_name}Tensor": _legacy_type(dtype.legacy_name, dtype) for dtype in _DTYPES
}


class CudaLegacyType(LegacyType):
    """The type of `cuda.FloatTensor` and its like: instances are tensors of that dtype on a CUDA device."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.dtype is cls.dtype and instance.device.type == "cuda"

    def __call__(cls, *args: Any, **kwargs: Any) -> Tensor:
        raise TypeError(f"cuda.{cls.__name__}: there is no CUDA device here (Torch not compiled with CUDA enabled)")

    def __repr__(cls) -> str:
        return f"<class '{_C.get_display_module()}.cuda.{cls.__name__}'>"


def cuda_types(module: str) -> dict[str, LegacyType]:
    """The types of tensors on a CUDA device, by name."""
    return {name: CudaLegacyType(name, (), {"dtype": kind.dtype, "__module__": module, "is_cuda": True})
            for name, kind in TYPES.items() if name not in _HOST_ONLY}


_HOST_ONLY = ("ComplexDoubleTensor", "ComplexFloatTensor")


def type_name(t: Tensor) -> str:
    """PyTorch's name of a tensor's type, such as 'rushlight.FloatTensor'."""
    where = ("quantized." if t.dtype in _QUANTIZED else "") + ("" if t.is_cpu else f"{t.device.type}.")
    return f"{_C.get_display_module()}.{where}{t.dtype.legacy_name}Tensor"


def as_type(self: Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """`x.type()`: the type's name; `x.type(what)`: the tensor cast to a dtype, a legacy type or the name of one."""
    if dtype is None:
        return type_name(self)
    if isinstance(dtype, CudaLegacyType):
        return self.to("cuda", dtype.dtype)
    if isinstance(dtype, LegacyType):
        dtype = dtype.dtype
    if isinstance(dtype, str):
        name = dtype.rpartition(".")[2]
        if name not in TYPES:
            raise ValueError(f"invalid type: '{dtype}'")
        if ".cuda." in dtype:
            return self.to("cuda", TYPES[name].dtype)
        dtype = TYPES[name].dtype
    if dtype is Tensor:
        dtype = _C.get_default_dtype()
    return self.to(dtype)
