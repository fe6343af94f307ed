"""Storages seen from Python: bytes, bytes read as elements of one dtype, and files mapped into memory.

Enters: tensors, sizes, sequences, buffers, file names. Leaves: `UntypedStorage` with its Python-side methods,
`TypedStorage` and the classes named after one dtype (`FloatStorage`), made when first asked for.
Refuses storages of dtypes that have none.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from io import BytesIO
from typing import Any
from weakref import finalize

from .. import _C
from .._C import Tensor, UntypedStorage
from ..base import late
from ..base.quantizers import PLAIN

# The names storages of one dtype have, in Python and in files. Newer dtypes have none:
# their storages are saved as bytes.
STORAGE_DTYPES: dict[str, _C.dtype] = {
    "DoubleStorage": _C.float64, "FloatStorage": _C.float32, "HalfStorage": _C.float16, "LongStorage": _C.int64,
    "IntStorage": _C.int32, "ShortStorage": _C.int16, "CharStorage": _C.int8, "ByteStorage": _C.uint8,
    "BoolStorage": _C.bool, "BFloat16Storage": _C.bfloat16, "ComplexDoubleStorage": _C.complex128,
    "ComplexFloatStorage": _C.complex64, "QUInt8Storage": _C.quint8, "QInt8Storage": _C.qint8,
    "QInt32Storage": _C.qint32, "QUInt4x2Storage": _C.quint4x2, "QUInt2x4Storage": _C.quint2x4,
}
STORAGE_NAMES: dict[_C.dtype, str] = {dtype: name for name, dtype in STORAGE_DTYPES.items()}

_mapped_files: dict[int, str] = {}    # address of a mapping -> name of the file


def face_of(t: Tensor) -> UntypedStorage:
    """The storage of `t`, the same object every time as long as one is held."""
    return t.untyped_storage()


def _over(storage: UntypedStorage, dtype: _C.dtype) -> Tensor:
    """All of a storage as a vector of `dtype`; of a quantized one, the integers."""
    dtype = PLAIN.get(dtype, dtype)
    result = _C.empty((0,), None, dtype, storage.device)
    result._set_storage(storage, 0, (storage.nbytes() // dtype.itemsize,), (1,))
    return result


def moved(storage: UntypedStorage, device: Any) -> UntypedStorage:
    """The bytes on another device; the storage itself if they are there already."""
    device = _C.device(device)
    if storage.device == device or (storage.device.type == device.type and device.index is None):
        return storage
    return (
        UntypedStorage(storage.nbytes(), device)
        if device.type == "meta"
        else _over(storage, _C.uint8).to(device).untyped_storage()
    )


def over_buffer(buffer: Any) -> UntypedStorage:
    """A storage over the memory of a (writable or not) buffer, which it keeps alive."""
    view = memoryview(buffer).cast("B")
    return _C.from_buffer(view).untyped_storage() if view.nbytes else UntypedStorage(0)


# --- pickling and copying ---------------------------------------------------------------------------------------------


def _rebuild_storage(data: Any, device: str = "cpu") -> UntypedStorage:
    view = memoryview(data)
    storage = UntypedStorage(view.nbytes)
    if view.nbytes:
        storage.write(view)
    return moved(storage, device)


def _reduce_storage(self: UntypedStorage, protocol: int = 4) -> tuple:
    if self.device.type == "meta":
        return UntypedStorage, (self.nbytes(), "meta")
    from pickle import PickleBuffer  # whoever pickles has imported it

    host = moved(self, "cpu")
    data = PickleBuffer(host) if protocol >= 5 and len(host) else host.tobytes()
    return _rebuild_storage, (data, str(self.device))


def _load_from_bytes(data: bytes) -> Any:
    """A storage that PyTorch pickled by itself: inside is a file of the old format."""
    return late.provided("load")(BytesIO(data), weights_only=False)


def deepcopy_storage(self: UntypedStorage, memo: dict) -> UntypedStorage:
    """A copy of the bytes, made once per storage and deepcopy."""
    copied = memo.setdefault("rushlight", {})
    if self._cdata not in copied:
        # The original is kept with its copy, so that its number cannot be taken by another storage meanwhile.
        copied[self._cdata] = (_clone(self), self)
    return copied[self._cdata][0]


# --- untyped storages -------------------------------------------------------------------------------------------------


def _copy(self: UntypedStorage, source: Any, non_blocking: bool = False) -> UntypedStorage:
    other = source.untyped() if isinstance(source, TypedStorage) else source
    if other.nbytes() != self.nbytes():
        raise RuntimeError(f"copy_: storages must have one size, got {other.nbytes()} and {self.nbytes()} bytes")
    _over(self, _C.uint8).copy_(_over(other, _C.uint8))
    return self


def _clone(self: UntypedStorage) -> UntypedStorage:
    result = UntypedStorage(self.nbytes(), self.device)
    return result if self.device.type == "meta" else _copy(result, self)


def _fill(self: UntypedStorage, value: int) -> UntypedStorage:
    _over(self, _C.uint8).fill_(value)
    return self


def _get(self: UntypedStorage, index: Any) -> Any:
    if not isinstance(index, slice):
        return _get_byte(self, index)
    start, stop, step = index.indices(self.nbytes())
    if step != 1:
        raise RuntimeError(f"storage: expected slices with step 1, got a step of {step}")
    return over_buffer(memoryview(self)[start:stop])


def _set(self: UntypedStorage, index: Any, value: Any) -> None:
    _over(self, _C.uint8)[index] = value


def _text(self: UntypedStorage) -> str:
    is_bare = self.device.type == "meta" or not self.nbytes()
    items = "" if is_bare else "".join(f" {v}\n" for v in moved(self, "cpu").tobytes())
    return f"{items}[{_C.get_display_module()}.storage.UntypedStorage(device={self.device}) of size {self.nbytes()}]"


def _byteswap(self: UntypedStorage, dtype: _C.dtype) -> None:
    """Reverse the bytes of every element (of each half of a complex one), in place."""
    width = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
    if width > 1:
        whole = _over(self, _C.uint8)[: self.nbytes() // width * width].view(-1, width)
        whole.copy_(whole.flip(1))


def from_file(cls: type, filename: Any, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
    """A storage over the bytes of a file. `shared`: writes go to the file,
    which is made or grown to `nbytes` if need be."""
    import mmap
    import os

    name = os.fspath(filename)
    with open(
        os.open(name, (os.O_RDWR | os.O_CREAT) if shared else os.O_RDONLY, 0o666),
        "r+b" if shared else "rb",
        buffering=0,
    ) as file:
        size = os.fstat(file.fileno()).st_size
        if size < nbytes and not shared:
            raise RuntimeError(f"from_file: {name} has {size} bytes, fewer than the {nbytes} asked for")
        if size < nbytes:
            os.ftruncate(file.fileno(), nbytes)
        if not (nbytes or size):
            return UntypedStorage(0)
        flags = mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE
        mapping = mmap.mmap(file.fileno(), nbytes or size, flags, mmap.PROT_READ | mmap.PROT_WRITE)
    result = over_buffer(mapping)
    _mapped_files[result.data_ptr()] = str(name)
    finalize(mapping, _mapped_files.pop, result.data_ptr(), None)
    return result


def _from_buffer(
    cls: type, *args: Any, dtype: _C.dtype = _C.uint8, byte_order: str = "native", count: int = -1, offset: int = 0
) -> UntypedStorage:
    """A copy of the bytes of a buffer, of `dtype` elements in a byte order."""
    view = memoryview(args[0]).cast("B")
    size = dtype.itemsize
    if byte_order not in ("native", "little", "big"):
        raise ValueError(f"invalid byte_order '{byte_order}' (expected 'native', 'little' or 'big')")
    if (
        not 0 <= offset <= view.nbytes
        or (count < 0 and (view.nbytes - offset) % size)
        or offset + count * size > view.nbytes
    ):
        raise ValueError(
            f"from_buffer: a buffer of {view.nbytes} bytes does not hold {count} elements of {size} bytes at {offset}"
        )
    result = _rebuild_storage(view[offset : offset + count * size if count >= 0 else None])
    if byte_order not in ("native", sys.byteorder):
        _byteswap(result, dtype)
    return result


def _to_cuda(self: Any, device: Any = None, non_blocking: bool = False) -> Any:
    return self.to(device="cuda" if device is None else f"cuda:{device}" if isinstance(device, int) else device)


def _pinned(self: Any, device: Any = "cuda") -> Any:
    raise RuntimeError("pin_memory: there is no device here that could read pinned memory")


def _converts(dtype: _C.dtype) -> Any:
    def convert(self: Any) -> TypedStorage:
        return _converted(self, dtype)

    return convert


def _converted(self: Any, dtype: _C.dtype) -> TypedStorage:
    """The elements of a storage (bytes, if it has no dtype) as another dtype."""
    elements = self._whole() if isinstance(self, TypedStorage) else _over(self, _C.uint8)
    return TypedStorage(wrap_storage=elements.to(dtype).clone().untyped_storage(), dtype=dtype)


_CASTS = {"bfloat16": _C.bfloat16, "bool": _C.bool, "byte": _C.uint8, "char": _C.int8, "complex_double": _C.complex128,
          "complex_float": _C.complex64, "double": _C.float64, "float": _C.float32, "half": _C.float16, "int": _C.int32,
          "long": _C.int64, "short": _C.int16, "float8_e4m3fn": _C.float8_e4m3fn,
          "float8_e5m2": _C.float8_e5m2}


def _type(self: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The name of the storage's class, or its elements converted."""
    return f"{_C.get_display_module()}.storage.UntypedStorage" if dtype is None else _converted(self, dtype)


_METHODS: dict[str, Any] = {
    "copy_": _copy, "clone": _clone, "fill_": _fill, "tolist": lambda self: list(moved(self, "cpu").tobytes()),
    "element_size": lambda self: 1, "untyped": lambda self: self, "new": lambda self: UntypedStorage(0, self.device),
    "cpu": lambda self: moved(self, "cpu"), "to": lambda self, *, device, non_blocking=False: moved(self, device),
    "byteswap": _byteswap, "get_device": lambda self: -1 if self.device.index is None else self.device.index,
    "type": _type,
    "cuda": _to_cuda, "pin_memory": _pinned, "is_pinned": lambda self, device="cuda": False,
    "filename": property(lambda self: _mapped_files.get(self.data_ptr())),
    "from_file": classmethod(from_file), "from_buffer": classmethod(_from_buffer), "is_cuda": False, "is_hpu": False,
    "is_sparse": False, "is_sparse_csr": False, "__getitem__": _get, "__setitem__": _set, "__repr__": _text,
    "__reduce_ex__": _reduce_storage, "__deepcopy__": deepcopy_storage, "__iter__": lambda self: iter(self.tolist()),
    "__copy__": _clone, "__sizeof__": lambda self: 64 + self.nbytes(),
}
_get_byte = UntypedStorage.__getitem__


def install() -> None:
    """Teach untyped storages what is not in the core."""
    for name, method in _METHODS.items():
        setattr(UntypedStorage, name, method)
    for name, dtype in _CASTS.items():
        setattr(UntypedStorage, name, _converts(dtype))


# --- typed storages ---------------------------------------------------------------------------------------------------


class TypedStorage:
    """A storage whose bytes are read as elements of one dtype."""

    is_sparse = is_hpu = False
    cuda, pin_memory = _to_cuda, _pinned

    def __init__(
        self,
        *args: Any,
        wrap_storage: UntypedStorage | None = None,
        dtype: _C.dtype | None = None,
        device: Any = None,
        _internal: bool = False,
    ) -> None:
        self.dtype = dtype or _C.get_default_dtype()
        if wrap_storage is not None:
            if args or device is not None:
                raise RuntimeError("TypedStorage: neither sizes nor a device may be given with wrap_storage")
            self._untyped_storage = wrap_storage
        elif not args:
            self._untyped_storage = UntypedStorage(0, device)
        elif isinstance(args[0], (TypedStorage, UntypedStorage)):
            self._untyped_storage = args[0].untyped()
        elif hasattr(args[0], "__index__"):
            self._untyped_storage = UntypedStorage(int(args[0]) * self.dtype.itemsize, device)
        else:
            plain = PLAIN.get(self.dtype, self.dtype)
            self._untyped_storage = _C.from_data(list(args[0]), plain, device).untyped_storage()

    def untyped(self) -> UntypedStorage:
        """The bytes underneath."""
        return self._untyped_storage

    def _whole(self) -> Tensor:
        return _over(self._untyped_storage, self.dtype)

    def _wrapped(self, storage: UntypedStorage) -> TypedStorage:
        return TypedStorage(wrap_storage=storage, dtype=self.dtype)

    def __len__(self) -> int:
        return self._untyped_storage.nbytes() // self.dtype.itemsize

    size = _size = __len__

    @property
    def device(self) -> _C.device:
        return self._untyped_storage.device

    @property
    def _cdata(self) -> int:
        return self._untyped_storage._cdata

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    @property
    def filename(self) -> str | None:
        return self._untyped_storage.filename

    def nbytes(self) -> int:
        return self._untyped_storage.nbytes()

    def element_size(self) -> int:
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        return self._untyped_storage.data_ptr()

    def get_device(self) -> int:
        return self._untyped_storage.get_device()

    def resizable(self) -> bool:
        return self._untyped_storage.resizable()

    def resize_(self, size: int) -> None:
        self._untyped_storage.resize_(size * self.dtype.itemsize)

    _nbytes, _element_size, _data_ptr, _resize_ = nbytes, element_size, data_ptr, resize_

    def pickle_storage_type(self) -> str:
        """What files call storages of this dtype."""
        if self.dtype not in STORAGE_NAMES:
            raise KeyError(f"dtype {self.dtype} is not recognized")
        return STORAGE_NAMES[self.dtype]

    _pickle_storage_type = pickle_storage_type

    def copy_(self, source: Any, non_blocking: bool | None = None) -> TypedStorage:
        if isinstance(source, TypedStorage):
            self._whole().copy_(source._whole())
        else:
            self._untyped_storage.copy_(source)
        return self

    def fill_(self, value: Any) -> TypedStorage:
        self._whole().fill_(value)
        return self

    def clone(self) -> TypedStorage:
        return self._wrapped(self._untyped_storage.clone())

    __copy__ = clone

    def cpu(self) -> TypedStorage:
        return self._wrapped(self._untyped_storage.cpu())

    def to(self, *, device: Any, non_blocking: bool = False) -> TypedStorage:
        return self._wrapped(moved(self._untyped_storage, device))

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of the class for this dtype, or the elements as another dtype."""
        return (
            f"{_C.get_display_module()}.{self.pickle_storage_type()}"
            if dtype is None
            else _converted(self, getattr(dtype, "dtype", dtype))
        )

    def tolist(self) -> list:
        return _C.Tensor.tolist(self._whole())

    def is_shared(self) -> bool:
        return self._untyped_storage.is_shared()

    def share_memory_(self) -> TypedStorage:
        self._untyped_storage.share_memory_()
        return self

    _is_shared, _share_memory_ = is_shared, share_memory_

    def _new_shared(self, size: int, *, device: Any = None) -> TypedStorage:
        """Another of this dtype, of `size` elements in shared memory."""
        untyped = UntypedStorage._new_shared(size * self.element_size(), device=device)
        return TypedStorage(wrap_storage=untyped, dtype=self.dtype, _internal=True)

    def is_pinned(self, device: Any = "cuda") -> bool:
        return self._untyped_storage.is_pinned(device)

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, size: int = 0) -> TypedStorage:
        """A storage of `size` elements over a file."""
        dtype = getattr(cls, "dtype", None)
        if not isinstance(dtype, _C.dtype):
            raise RuntimeError("from_file can only be called on storages of one dtype, such as FloatStorage")
        result = UntypedStorage.from_file(filename, shared, size * dtype.itemsize)
        return TypedStorage(wrap_storage=result, dtype=dtype)

    @classmethod
    def from_buffer(cls, *args: Any, dtype: _C.dtype | None = None, **kwargs: Any) -> TypedStorage:
        dtype = dtype or getattr(cls, "dtype", None)
        if not isinstance(dtype, _C.dtype):
            raise TypeError("from_buffer: a dtype must be given")
        return TypedStorage(wrap_storage=UntypedStorage.from_buffer(*args, dtype=dtype, **kwargs), dtype=dtype)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} out of range for storage of size {len(self)}")
        return _C.Tensor.item(self._whole()[index])

    def __setitem__(self, index: int | slice, value: Any) -> None:
        self._whole()[index] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TypedStorage)
            and self._untyped_storage == other._untyped_storage
            and self.dtype is other.dtype
        )

    def __hash__(self) -> int:
        return hash(self._untyped_storage)

    def __repr__(self) -> str:
        items = "" if self.device.type == "meta" else "".join(f" {v}\n" for v in self.tolist())
        return (
            f"{items}[{_C.get_display_module()}.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size"
            f" {len(self)}]"
        )

    def __reduce__(self) -> tuple:
        return _rebuild_typed, (self._untyped_storage, self.dtype)

    def __deepcopy__(self, memo: dict) -> TypedStorage:
        return self._wrapped(deepcopy_storage(self._untyped_storage, memo))


for _name, _dtype in _CASTS.items():
    setattr(TypedStorage, _name, _converts(_dtype))


def _rebuild_typed(storage: UntypedStorage, dtype: _C.dtype) -> TypedStorage:
    return TypedStorage(wrap_storage=storage, dtype=dtype)


class _LegacyStorageMeta(type):
    """The type of `FloatStorage` and its like: typed storages of that dtype on the host are instances."""

    dtype: _C.dtype

    def __instancecheck__(cls, instance: Any) -> bool:
        return type(instance) is TypedStorage and instance.dtype is cls.dtype and instance.device.type == "cpu"

    def __call__(cls, *args: Any, wrap_storage: UntypedStorage | None = None) -> TypedStorage:
        return TypedStorage(*args, wrap_storage=wrap_storage, dtype=cls.dtype)

    def __repr__(cls) -> str:
        return f"<class '{_C.get_display_module()}.{cls.__name__}'>"


def legacy_class(name: str) -> type:
    """The class named after one dtype, made when first asked for."""
    if name not in _legacy:
        _legacy[name] = _LegacyStorageMeta(
            name, (TypedStorage,), {"dtype": STORAGE_DTYPES[name], "__module__": "rushlight", "is_cuda": False}
        )
    return _legacy[name]


_legacy: dict[str, type] = {}


class _CudaStorageMeta(_LegacyStorageMeta):
    """The type of `cuda.FloatStorage` and its like: typed storages of that dtype on a CUDA device are instances."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return type(instance) is TypedStorage and instance.dtype is cls.dtype and instance.device.type == "cuda"

    def __call__(cls, *args: Any, wrap_storage: UntypedStorage | None = None) -> TypedStorage:
        raise AssertionError(
            f"cuda.{cls.__name__}: there is no CUDA device here (Torch not compiled with CUDA enabled)"
        )

    def __repr__(cls) -> str:
        return f"<class '{_C.get_display_module()}.cuda.{cls.__name__}'>"


def cuda_storages(module: str) -> dict[str, type]:
    """The classes of storages on a CUDA device, by name."""
    return {
        name: _CudaStorageMeta(name, (TypedStorage,), {"dtype": dtype, "__module__": module, "is_cuda": True})
        for name, dtype in STORAGE_DTYPES.items()
        if dtype not in PLAIN
    }


# --- what files call storages -----------------------------------------------------------------------------------------


def _dtype_to_storage_type_map() -> dict[_C.dtype, str]:
    return dict(STORAGE_NAMES)


def _storage_type_to_dtype_map() -> dict[str, _C.dtype]:
    return dict(STORAGE_DTYPES)


def _get_dtype_from_pickle_storage_type(pickle_storage_type: str) -> _C.dtype:
    if pickle_storage_type not in STORAGE_DTYPES:
        raise KeyError(f'pickle storage type "{pickle_storage_type}" is not recognized')
    return STORAGE_DTYPES[pickle_storage_type]


def _new_dtypes() -> set[_C.dtype]:
    """Dtypes without a storage name of their own."""
    return {v for v in vars(_C).values() if isinstance(v, _C.dtype) and v not in STORAGE_NAMES}


def _warn_typed_storage_removal(stacklevel: int = 2) -> None:
    """PyTorch means to remove typed storages and says so; here they stay."""
