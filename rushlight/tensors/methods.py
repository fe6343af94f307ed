"""What a tensor can do that is no op: printing, conversion, copying, looking at other memory.

Enters: the core's Tensor type. Leaves: the same type with its Python-side methods installed; methods that are ops
come from the registry. Refuses what the core cannot undo, such as resizing a tensor that requires grad.
"""

from __future__ import annotations

import copyreg
from types import FunctionType
from typing import Any

from .. import _C
from .._C import Tensor, UntypedStorage
from ..base import homes, late, shape
from ..base.quantizers import PerTensor
from ..base.settings import must_fill_memory
from ..dispatch.keys import PRIVATE, SUBCLASS
from ..dispatch.modes import DisableTorchFunctionSubclass
from ..dispatch.overrides import ask_class, see_access, seen_method
from ..op import find_op
from . import indexing, interop, legacy_types, plain_functions, storages

_C._set_size_type(shape.Size)
_C._set_layout(shape.strided)

# --- Python's protocols -----------------------------------------------------------------------------------------------


def _repr(self: Tensor, *, tensor_contents: str | None = None) -> str:
    from .printing import tensor_text  # many processes print no tensor

    return tensor_text(self, tensor_contents)


def _page(self: Tensor) -> str:
    from .pages import tensor_page  # for notebooks alone

    return tensor_page(self)


def _format(self: Tensor, spec: str) -> str:
    if self.ndim == 0 and not self.is_meta and type(self) is Tensor and self._wrapped is None:
        return format(self.item(), spec)
    return object.__format__(self, spec)


def _contains(self: Tensor, element: Any) -> bool:
    if isinstance(element, (Tensor, int, float, complex)):
        return bool((element == self).any().item())
    raise RuntimeError(f"Tensor.__contains__: expected a Tensor or a number, got {type(element)}.")


def _reversed(self: Tensor) -> Tensor:
    return self if self.ndim == 0 else self.flip(0)


def _complex(self: Tensor) -> complex:
    if self.numel() != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    return complex(self.item())


def _dir(self: Tensor) -> list[str]:
    names = {*dir(type(self)), *self.__dict__}
    return sorted(name for name in names if name.isidentifier())


def _pickling() -> Any:
    """How tensors are pickled and copied: not needed at start."""
    from .. import _tensor

    return _tensor


def _set_state(self: Tensor, state: Any) -> None:
    _pickling().set_state(self, state)


# --- other memory -----------------------------------------------------------------------------------------------------


def _get_data(self: Tensor) -> Tensor:
    if self._keys & SUBCLASS and not self._keys & PRIVATE:
        own = ask_class("detach", self)
        if own is not NotImplemented:
            return own
    return _C.shallow_copy(self, False)


def _set_data(self: Tensor, value: Any) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"data: it has to be a tensor, got {type(value).__name__}")
    if self.requires_grad and not (value.is_floating_point() or value.is_complex()):
        raise RuntimeError("data: a tensor that requires gradients takes floating point or complex data")
    _C.set_data(self, value)
    if value._keys & PRIVATE:
        self.__dict__.update(value.__dict__)       # where a back end keeps the elements


def _set_grad_dtype(self: Tensor, value: Any) -> None:
    if value is not self.dtype:
        raise NotImplementedError(
            f"grad_dtype: gradients have the dtype of their tensor ({self.dtype}) here, got {value}"
        )


def _check_resizable(self: Tensor) -> None:
    if self.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")


def resize_(self: Tensor, *sizes: Any, memory_format: Any = None) -> Tensor:
    """Give the tensor new sizes in place, growing its storage if it must; new elements are uninitialised."""
    size = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], shape.INTS) else sizes
    size = shape.Size(size if isinstance(size, (tuple, list)) else (size,))
    _check_resizable(self)
    if any(s < 0 for s in size):
        raise RuntimeError(f"resize_: sizes must not be negative, got {list(size)}")
    if self.is_quantized and (memory_format is not None or not isinstance(self._quantizer, PerTensor)):
        raise RuntimeError(
            f"resize_: quantized tensors are resized row by row and per tensor alone, got {self._quantizer.scheme}"
        )
    if self._keys & PRIVATE:
        options = {} if memory_format is None else {"memory_format": memory_format}
        return late.provided("private method")("resize_", self, list(size), **options)
    order = shape.contiguous_format if memory_format in (None, shape.preserve_format) else memory_format
    if size == self.shape and memory_format is None:
        return self
    memory, offset = self.untyped_storage(), self.storage_offset()
    needed = (offset + size.numel()) * self.itemsize if size.numel() else 0
    had = memory.nbytes()
    if needed > had:
        if needed >= 1 << 63:
            raise RuntimeError(f"resize_: sizes {list(size)} are too large: the storage size calculation overflowed")
        memory.resize_(needed)
    self._set_storage(memory, offset, size, shape.strides_for(size, order))
    if needed > had and must_fill_memory():
        first = max(0, -(-had // self.itemsize) - offset)
        from ..op.factory import marker  # with everything factories need

        self.detach().as_strided((size.numel() - first,), (1,), offset + first).fill_(marker(self.dtype))
    return self


def resize_as_(self: Tensor, other: Tensor, *, memory_format: Any = None) -> Tensor:
    """Give the tensor the sizes of `other`."""
    return self.resize_(tuple(other.shape), memory_format=memory_format)


def set_(self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Tensor:
    """Look at the memory of `source` (a tensor or a storage) from now on; at nothing if there is none."""
    if self._keys & PRIVATE:
        given = () if source is None else (source,) if size is None else (
            source, storage_offset, list(size), *(() if stride is None else (list(stride),)))
        kind = "" if source is None else ".source_Tensor" if isinstance(source, Tensor) else ".source_Storage"
        return late.provided("private method")(
            f"set_{kind}{'_storage_offset' if size is not None else ''}", self, *given)
    if source is None:
        source = UntypedStorage(0)
    if isinstance(source, Tensor):
        if source.dtype is not self.dtype:
            raise RuntimeError(
                f"set_: could not set tensor of type {source.dtype.name} to a tensor of type {self.dtype.name}"
            )
        if size is None:
            storage_offset, size, stride = source.storage_offset(), source.shape, source.stride()
        source = source.untyped_storage()
    elif isinstance(source, storages.TypedStorage):
        if source.dtype is not self.dtype:
            raise RuntimeError(f"set_: expected a Storage of type {self.dtype.name}, but got type {source.dtype.name}")
        source = source.untyped()
    if not isinstance(source, UntypedStorage):
        raise TypeError(f"set_(): argument 'source' must be Tensor or Storage, not {type(source).__name__}")
    if size is None:
        size = ((source.nbytes() // self.itemsize) - storage_offset,)
    size = shape.Size(size)
    if stride is None:
        stride = shape.strides_for(size, shape.contiguous_format)
    needed = (storage_offset + 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=False))) * self.itemsize
    if size.numel() and needed > source.nbytes() and source.resizable():
        source.resize_(needed)
    self._set_storage(source, storage_offset, size, tuple(stride))
    _C.bump_version(self)
    return self


def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both tensors are the same elements of the same storage in the same order."""
    same = self.untyped_storage() == tensor.untyped_storage() and self.storage_offset() == tensor.storage_offset()
    same = same and self.is_conj() == tensor.is_conj() and self.is_neg() == tensor.is_neg()
    return same and self.shape == tensor.shape and self.stride() == tensor.stride()


def is_same_size(self: Tensor, other: Tensor) -> bool:
    """Whether the sizes are equal."""
    return self.shape == other.shape


def is_contiguous(self: Tensor, memory_format: Any = shape.contiguous_format) -> bool:
    """Whether the elements are dense in the order of `memory_format`."""
    if memory_format is shape.contiguous_format:
        known = self._is_plainly_contiguous()
        if known is not NotImplemented:
            return known
    if _C.is_asked(self):
        given = (self,) if memory_format is shape.contiguous_format else (self, memory_format)
        own = see_access("is_contiguous", given, None, 2)
        if own is not NotImplemented:
            return own
    if memory_format is shape.contiguous_format or memory_format is shape.preserve_format:
        return self._is_contiguous()
    if memory_format is shape.channels_last:
        return self.ndim == 4 and self._is_channels_last()
    if memory_format is shape.channels_last_3d:
        return self.ndim == 5 and self._is_channels_last()
    raise TypeError(
        f"is_contiguous(): argument 'memory_format' must be memory_format, not {type(memory_format).__name__}"
    )


def typed_storage(self: Tensor) -> storages.TypedStorage:
    """The storage, read as elements of the tensor's dtype."""
    return storages.TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype)


def share_memory_(self: Tensor) -> Tensor:
    """Move the storage to memory that other processes can be given, in place; nothing to do if it is there already."""
    self.untyped_storage().share_memory_()
    return self


def get_device(self: Tensor) -> int:
    """The index of the device; -1 on the host."""
    return -1 if self.device.index is None else self.device.index


# --- subclasses -------------------------------------------------------------------------------------------------------


def _make_subclass(cls: type, data: Tensor, require_grad: bool = False, **kwargs: Any) -> Tensor:
    """A tensor of class `cls` over the memory of `data`, outside any graph."""
    if not isinstance(data, Tensor):
        raise TypeError(f"_make_subclass(): argument 'data' must be Tensor, not {type(data).__name__}")
    result = _C.shallow_copy(data, True, cls)
    return result.requires_grad_() if require_grad else result


def as_subclass(self: Tensor, cls: type) -> Tensor:
    """The same elements and history under another class."""
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(f"as_subclass(): argument 'cls' must be a subclass of Tensor, not {cls!r}")
    if self._keys & SUBCLASS:
        own = ask_class("alias", self)
        if own is not NotImplemented:
            self = own
    if not self.requires_grad:
        return _C.shallow_copy(self, True, cls)
    with DisableTorchFunctionSubclass():   # a subclass that makes every result one of its own would have the last word
        result = self.view(self.shape)
    if cls is not Tensor:
        result.__class__ = cls
        result._keys |= _C.subclass_keys(cls)
    return result


# --- installation -----------------------------------------------------------------------------------------------------

_METHODS: dict[str, Any] = {
    "_repr_html_": _page,
    "__repr__": _repr, "__format__": _format, "__contains__": _contains, "__reversed__": _reversed,
    "__complex__": _complex, "__dir__": _dir, "__array_priority__": 1000,
    "__array__": interop.array_of, "__array_wrap__": interop.wrap_array, "numpy": interop.numpy_of,
    "__dlpack__": interop.dlpack_of, "__dlpack_device__": interop.dlpack_device_of,
    "__cuda_array_interface__": property(interop.cuda_array_of),
    "__reduce_ex__": lambda self, protocol: _pickling().reduce_tensor(self, protocol), "__setstate__": _set_state,
    "__deepcopy__": lambda self, memo: _pickling().deepcopy_tensor(self, memo),
    "storage": typed_storage, "_typed_storage": typed_storage, "share_memory_": share_memory_, "get_device": get_device,
    "is_shared": lambda self: self.untyped_storage().is_shared(),
    "resize_": resize_, "resize_as_": resize_as_, "set_": set_, "is_set_to": is_set_to, "is_same_size": is_same_size,
    "is_contiguous": is_contiguous, "type": legacy_types.as_type, "new": legacy_types.new, "as_subclass": as_subclass,
    "has_names": lambda self: False,
}

# Not seen by handlers, or shown to them by themselves.
_UNSEEN = frozenset(
    ("reinforce", "__dir__", "_typed_storage", "new", "as_subclass", "has_names", "is_contiguous", "numpy")
)

# Methods of `rare`, in place when first looked up.
_RARE = (
    "storage_type const_data_ptr resize resize_as module_load index xpu mtia ipu to_mkldnn smm sspaddmm"
    " resize_as_sparse_ conj_physical_"
)


class _Rare:
    """A method that stands in `rare`, until it is first looked up."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: Tensor | None, owner: type) -> Any:
        from ..torch_names.rare import METHODS

        method = METHODS[self.name]
        setattr(Tensor, self.name, method)
        return method.__get__(instance, owner)


# What a strided tensor on cpu, meta or a plug-in device never is.
_NEVER = (
    "is_cuda",
    "is_sparse",
    "is_sparse_csr",
    "is_mkldnn",
    "is_nested",
    "is_xla",
    "is_xpu",
    "is_mps",
    "is_vulkan",
    "is_ipu",
    "is_hpu",
    "is_mtia",
    "is_maia",
    "volatile",
)


# Named as PyTorch's ops are, for recordings.
def numpy_T(self: Tensor) -> Tensor:  # noqa: N802
    """All dims reversed."""
    return self.permute(tuple(range(self.ndim - 1, -1, -1)))


def mT(self: Tensor) -> Tensor:  # noqa: N802
    """The last two dims exchanged."""
    return self.transpose(-2, -1)


def matrix_H(self: Tensor) -> Tensor:  # noqa: N802
    """The conjugate transpose of a matrix."""
    return self.transpose(0, 1).conj() if self.is_complex() else self.transpose(0, 1)


def mH(self: Tensor) -> Tensor:  # noqa: N802
    """The conjugate transpose of the last two dims."""
    return self.adjoint()


# Transposes without arguments are attributes. Name -> how it is read, how it is written, documentation.
_ATTRIBUTES: dict[str, tuple[Any, Any, str | None]] = {
    "data": (_get_data, _set_data, "the same elements outside the graph, with a version count of their own"),
    "T": (numpy_T, None, "all dims reversed"),
    "mT": (mT, None, "the last two dims exchanged"),
    "H": (matrix_H, None, "the conjugate transpose of a matrix"),
    "mH": (mH, None, "the conjugate transpose of the last two dims"),
    "real": (lambda self: find_op("real")(self), lambda self, value: find_op("real")(self).copy_(value),
             "the real parts"),
    "imag": (lambda self: find_op("imag")(self), lambda self, value: find_op("imag")(self).copy_(value),
             "the imaginary parts"),
    "grad_dtype": (lambda self: self.dtype, _set_grad_dtype, "the dtype of the gradient"),
    "names": (lambda self: (None,) * self.ndim, None, None),
    "is_sparse_csc": (False, None, None),
    "name": (None, None, None),
    "is_quantized": (lambda t: t._quantizer is not None, None, None),
    **dict.fromkeys(_NEVER, (False, None, None)),
}


def install() -> None:
    """Put the methods of this module on the Tensor type."""
    for name, method in (*plain_functions.METHODS.items(), *_METHODS.items()):
        if type(method) is FunctionType:
            if name not in _UNSEEN:
                method = seen_method(getattr(method, "__wrapped__", method), getattr(method, "plain", None))
            method.__name__ = name     # which handlers ask for
        setattr(Tensor, name, method)
    for name, (read, write, doc) in _ATTRIBUTES.items():
        _C.add_attribute(name, read, write, doc)
    for name in _RARE.split():
        setattr(Tensor, name, _Rare(name))
    Tensor.__new__ = staticmethod(legacy_types.new_tensor_object)
    Tensor._make_subclass = staticmethod(_make_subclass)
    for kind in (Tensor, _C.Op):     # ops of other namespaces say so themselves
        homes.settle(kind, "")
    storages.install()


install()
indexing.install()
copyreg.pickle(_C.Op, lambda op: _pickling().reduce_op(op))
