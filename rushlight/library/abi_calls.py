"""What the C functions of the stable ABI ask of Python (csrc/stable): ops by name, tensors made, devices, streams.

Enters: Python objects that the native part made of a kernel's arguments. Leaves: tensors, numbers, and the libraries
that record registrations. Refuses: ops, layouts and devices that are not here, by name; the native part turns an
exception into the code and the words that extensions read.
"""

from __future__ import annotations

import ctypes
import functools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from .. import _C
from .._C import Tensor
from ..aten.namespaces import namespace
from ..aten.overloads import AtenSchema, _parsed, schemas_of
from ..autograd import no_grad
from ..base import late, shape
from ..base.shape import strided
from ..devices import private_use
from .abi_types import spelling
from .binary_registrations import open_library as open_library  # the native part finds it here

LAYOUTS = ("strided", "sparse_coo", "sparse_csr", "_mkldnn", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged")
FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
FROM_FILE = ("from_file(str filename, bool? shared=None, int? size=0, *, ScalarType? dtype=None, Layout? layout=None,"
             " Device? device=None, bool? pin_memory=None) -> Tensor")


# --- ops by name ------------------------------------------------------------------------------------------------------


def signature_of(name: str, overload: str) -> tuple[Callable, str, str, tuple[str, ...]]:
    """What a call of `name.overload` runs, the types of its arguments and results, and the names of those arguments
    that go by name."""
    space, _, short = name.partition("::")
    schema = _schema(space, short, overload)
    named = tuple(p.name for p in schema.arguments if p.kwarg_only)
    found = _function(space, short, overload, schema)
    where = f"{name}.{overload}" if overload else name
    return (found, "".join(spelling(p.type, where) for p in schema.arguments),
            "".join(spelling(r.type, where) for r in schema.returns), named)


def _schema(space: str, name: str, overload: str) -> AtenSchema:
    if space != "aten":
        op = getattr(namespace(space), name, None)
        if op is None:
            raise RuntimeError(f"the op {space}::{name} that an extension calls is not registered")
        return getattr(op, overload or "default")._schema
    if name == "from_file":
        return _parsed(FROM_FILE)
    known = schemas_of(name)
    for schema in known:
        if schema.overload_name == overload:
            return schema
    base = _base_of_out(overload, known)
    if base is None:
        raise RuntimeError(f"the op aten::{name}{'.' * bool(overload)}{overload} that an extension calls is not here")
    (out,) = _parsed(f"{name}(*, Tensor(a!) out) -> Tensor(a!)").arguments
    return base._replace(overload_name=overload, arguments=(*base.arguments, out))


def _base_of_out(overload: str, known: Sequence[AtenSchema]) -> AtenSchema | None:
    """The signature that the form `overload` with an output adds one to: `IntList_out` to `dim_IntList`."""
    if overload == "out":
        return next((s for s in known if s.overload_name in ("", "Tensor")), None)
    wanted = overload.removesuffix("_out")
    if wanted == overload:
        return None
    return next((s for s in known if wanted in (s.overload_name, *s.overload_name.split("_"))), None)


def _function(space: str, name: str, overload: str, schema: AtenSchema) -> Callable:
    if name == "from_file" and space == "aten":
        return _without_defaults(late.provided("from_file"))
    packet = getattr(namespace(space), name)
    if any(p.name == "out" and p.is_write for p in schema.arguments):
        return _without_defaults(packet)
    return _without_defaults(getattr(packet, overload or "default"))


def _without_defaults(function: Callable) -> Callable:
    """Ops of ours lack some of PyTorch's options: what is given as it is without them is left off."""

    @functools.wraps(function, assigned=(), updated=())
    def call(*args: Any, **named: Any) -> Any:
        given = {k: v for k, v in named.items()
                 if v is not None and v is not strided and not (k == "pin_memory" and v is False)}
        return function(*args, **given)

    return call


# --- constants --------------------------------------------------------------------------------------------------------


def number_of_layout(given: Any) -> int:
    return LAYOUTS.index(given.name)


def layout_of_number(number: int) -> Any:
    if not 0 <= number < len(LAYOUTS):
        raise RuntimeError(f"{number} is the number of no layout")
    if LAYOUTS[number] == "_mkldnn":
        raise RuntimeError("the layout _mkldnn belongs to a library that is not used here")
    return getattr(shape, LAYOUTS[number])


def number_of_memory_format(given: Any) -> int:
    return FORMATS.index(given.name)


def memory_format_of_number(number: int) -> Any:
    if not 0 <= number < len(FORMATS):
        raise RuntimeError(f"{number} is the number of no memory format")
    return getattr(shape, FORMATS[number])


def device_of_others(number: int, index: int) -> Any:
    """The device that stands behind PrivateUse1."""
    if number != 20:
        raise RuntimeError(f"{number} is the number of no type of device")
    name = private_use.state.name
    return _C.device(name) if index < 0 else _C.device(name, index)


# --- tensors made -----------------------------------------------------------------------------------------------------


def empty_strided(size: tuple, stride: tuple, dtype: Any, device: Any, pinned: bool) -> Tensor:
    made = namespace("aten").empty_strided.default(size, stride, dtype=dtype, device=device)
    return made.pin_memory() if pinned else made


def reinterpret_tensor(self: Tensor, size: tuple, stride: tuple, more: int) -> Tensor:
    with no_grad():
        return self.as_strided(size, stride, self.storage_offset() + more)


def alloc_from_pool(self: Tensor, nbytes: int, dtype: Any, size: tuple, stride: tuple) -> Tensor:
    if nbytes % dtype.itemsize:
        raise RuntimeError(f"aoti_torch__alloc_from_pool: {nbytes} bytes are no multiple of {dtype.itemsize}")
    with no_grad():
        return self.view(dtype).as_strided(size, stride, nbytes // dtype.itemsize)


def as_strided(self: Tensor, size: tuple, stride: tuple) -> Tensor:
    return self.as_strided(size, stride)


def clone(self: Tensor) -> Tensor:
    return self.clone()


def clone_preserve_strides(self: Tensor) -> Tensor:
    made = self.new_empty_strided(self.shape, self.stride())
    return made.copy_(self)


def copy_(self: Tensor, source: Tensor, non_blocking: int) -> Tensor:
    return self.copy_(source, non_blocking=bool(non_blocking))


def zero_(self: Tensor) -> Tensor:
    return self.zero_()


def fill_(self: Tensor, value: float) -> Tensor:
    return self.fill_(_number(value, self.dtype))


def _number(value: float, dtype: Any) -> Any:
    """A number that came as a double, as the type holds it."""
    is_whole = not (dtype.is_floating_point or dtype.is_complex)
    return int(value) if is_whole and math.isfinite(value) and value == int(value) else value


def amax(self: Tensor, dims: tuple, keepdim: int) -> Tensor:
    return self.amax(dims, bool(keepdim))


def narrow(self: Tensor, dim: int, start: int, length: int) -> Tensor:
    return self.narrow(dim, start, length)


def subtract(self: Tensor, other: Tensor, alpha: float) -> Tensor:
    return self.sub(other, alpha=int(alpha) if alpha == int(alpha) else alpha)


def _options(rest: tuple) -> dict[str, Any]:
    """dtype, layout, device and pin_memory as keywords; what was left out is not among them."""
    dtype, form, device, pinned = rest
    form = None if form is strided else form
    given = {"dtype": dtype, "device": device, "layout": form, "pin_memory": pinned or None}
    return {name: value for name, value in given.items() if value is not None}


def full(size: tuple, value: float, rest: tuple) -> Tensor:
    dtype = rest[0] or _C.get_default_dtype()
    return namespace("aten").full.default(size, _number(value, dtype), **{**_options(rest), "dtype": dtype})


def new_empty(self: Tensor, size: tuple, rest: tuple) -> Tensor:
    return self.new_empty(size, **_options(rest))


def new_zeros(self: Tensor, size: tuple, rest: tuple) -> Tensor:
    return self.new_zeros(size, **_options(rest))


def pad(self: Tensor, widths: tuple, mode: str, value: float | None) -> Tensor:
    return namespace("aten").pad.default(self, widths, mode, value)


def set_requires_grad(self: Tensor, requires_grad: int) -> Tensor:
    return self.requires_grad_(bool(requires_grad))


def check_inf_and_nan(name: str, self: Tensor) -> None:
    if self.is_floating_point() and not bool(self.isfinite().all()):
        raise RuntimeError(f"{name} has infinities or NaN among its elements")


def print_tensor(self: Tensor, text: str) -> None:
    print(f"{text} {self}")


def mm_plus_mm_out(out: Tensor, a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
    return out.copy_(a.mm(b).add_(c.mm(d)))


def scatter_out(out: Tensor, self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str | None,
                include_self: int) -> Tensor:
    if reduce is None:
        return out.copy_(self.scatter(dim, index, source))
    return out.copy_(self.scatter_reduce(dim, index, source, reduce, include_self=bool(include_self)))


def index_put_out(out: Tensor, self: Tensor, indices: list, values: Tensor, accumulate: int) -> Tensor:
    return out.copy_(namespace("aten").index_put.default(self, indices, values, bool(accumulate)))


def scalar_tensor(value: Any, dtype: str) -> Tensor:
    return namespace("aten").scalar_tensor.default(value, dtype=getattr(_C, dtype))


def item_bits(self: Tensor, dtype: str) -> int:
    """The 16 bits of a half's only element."""
    return self.reshape(()).to(getattr(_C, dtype)).view(_C.uint16).item()


# --- warnings ---------------------------------------------------------------------------------------------------------


def warn(function: str | None, file: str | None, line: int, text: str | None) -> None:
    warnings.warn(f"{text or ''} ({function or '?'} in {file or '?'}, line {line})", UserWarning, stacklevel=2)


# --- devices and streams ----------------------------------------------------------------------------------------------


def _accelerator() -> str:
    """The type of device whose units and streams are meant where none is named."""
    found = late.provided("accelerator").current_accelerator()
    if found is None:
        raise RuntimeError("there is no accelerator here whose device or stream could be asked for")
    return found.type


def current_device() -> int:
    return _C.current_unit(_accelerator())


class DeviceGuard:
    """The unit that is current until this is closed."""

    def __init__(self, index: int) -> None:
        self.type = _accelerator()
        self.before = _C.current_unit(self.type)
        self.set_index(index)

    def set_index(self, index: int) -> None:
        if index >= 0:
            _C.set_current_unit(self.type, index)

    def close(self) -> None:
        _C.set_current_unit(self.type, self.before)


def device_guard(index: int) -> DeviceGuard:
    return DeviceGuard(index)


def current_stream(index: int) -> Any:
    return late.provided("accelerator").current_stream(_C.device(_accelerator(), max(index, 0)))


def native_stream(stream: Any) -> int:
    return _C.stream_handle(stream.device, stream.stream_id)


def current_cuda_stream(index: int) -> int:
    return late.provided("cuda").current_stream(index if index >= 0 else None).cuda_stream


def _cuda_stream(handle: int, index: int) -> Any:
    cuda = late.provided("cuda")
    unit = index if index >= 0 else None
    usual = cuda.default_stream(unit)
    return usual if handle in (0, usual.cuda_stream) else cuda.ExternalStream(handle, unit)


def set_cuda_stream(handle: int, index: int) -> None:
    late.provided("cuda").set_stream(_cuda_stream(handle, index))


_pool: dict[tuple[int, int], list[Any]] = {}      # streams that were handed out stay


def cuda_stream_from_pool(high: int, index: int) -> int:
    cuda = late.provided("cuda")
    unit = index if index >= 0 else cuda.current_device()
    made = cuda.Stream(unit, priority=-1 if high else 0)
    _pool.setdefault((unit, high), []).append(made)
    return made.cuda_stream


def synchronize_cuda_stream(handle: int, index: int) -> None:
    _cuda_stream(handle, index).synchronize()


class StreamGuard:
    """The stream that is current on a CUDA device until this is closed."""

    def __init__(self, handle: int, index: int) -> None:
        self.cuda = late.provided("cuda")
        self.before = self.cuda.current_stream(index if index >= 0 else None)
        self.cuda.set_stream(_cuda_stream(handle, index))

    def close(self) -> None:
        self.cuda.set_stream(self.before)


def cuda_stream_guard(handle: int, index: int) -> StreamGuard:
    return StreamGuard(handle, index)


def cuda_blas_handle() -> int:
    return late.provided("cuda").current_blas_handle()


def cuda_allocate(nbytes: int) -> int:
    return late.provided("cuda").caching_allocator_alloc(nbytes)


def cuda_free(address: int) -> None:
    late.provided("cuda").caching_allocator_delete(address)


def cuda_error_words(code: int, file: str | None, function: str | None, line: int) -> str:
    """What the CUDA runtime that the extension uses says of a number of an error."""
    try:
        runtime = ctypes.CDLL("libcudart.so.13")
        runtime.cudaGetErrorString.restype = ctypes.c_char_p
        text = runtime.cudaGetErrorString(code).decode()
    except OSError:
        text = "the CUDA runtime is not loaded that could name it"
    return f"CUDA error {code}: {text} (in {function or '?'}, {file or '?'}:{line})"
