"""What a file may name when nothing in it is trusted.

Enters: classes and functions users call safe. Leaves: the object for a global's name, or `pickle.UnpicklingError` that
says how to allow it. What is here by default takes data and makes data: each is checked against arguments that would
allocate, recurse or reach further than the file's own size.
"""

from __future__ import annotations

import builtins
from collections import Counter, OrderedDict
from collections.abc import Callable
from functools import cache
from pickle import UnpicklingError
from typing import Any

from .. import _C, _tensor
from .._C import Tensor
from ..base import quantizers, shape
from ..definitions.nested.container import NestedTensor
from ..tensors import pickling, storages
from . import names
from .locations import StorageType
from .stand_ins import _DimRange

_BLOCKED = frozenset(("sys", "os", "posix", "nt"))
_user: set[Any] = set()
_MOST_IN_KEY = 10_000


# --- what users allow -------------------------------------------------------------------------------------------------


def add_safe_globals(safe_globals: list[Callable | tuple[Callable, str]]) -> None:
    """Let files name these classes and functions, and call them. Items are objects,
    or (object, full name in the file)."""
    _user.update(safe_globals)


def get_safe_globals() -> list[Callable | tuple[Callable, str]]:
    """What users allowed."""
    return list(_user)


def clear_safe_globals() -> None:
    """Allow nothing but the defaults again."""
    _user.clear()


class safe_globals:  # noqa: N801 - PyTorch's name
    """Allow these inside the `with` block."""

    def __init__(self, safe_globals: list[Callable | tuple[Callable, str]]) -> None:
        self.safe_globals = safe_globals

    def __enter__(self) -> None:
        self._before = set(_user)
        add_safe_globals(self.safe_globals)

    def __exit__(self, *exception: object) -> None:
        _user.difference_update(set(self.safe_globals) - self._before)


def user_globals() -> dict[str, Any]:
    """What users allowed, by the names files use."""
    found = {}
    for item in _user:
        if isinstance(item, tuple):
            if len(item) != 2:
                raise ValueError(
                    f"add_safe_globals: expected tuples of (object, full name), got one of length {len(item)}"
                )
            item, name = item
            if type(name) is not str:
                raise TypeError(f"add_safe_globals: expected the full name as str, got {type(name).__name__}")
            found[name] = item
        else:
            module, name = names.torch_name(item.__module__, item.__qualname__)
            found[f"{module}.{name}"] = item
    return found


# --- arguments that must be looked at first ---------------------------------------------------------------------------


def check_key(key: Any) -> None:
    """Hashing a tuple visits all it holds, without a limit of depth: nested ones could exhaust the stack,
    or never end."""
    if not isinstance(key, tuple):
        return
    waiting, seen, depth = [(key, 0)], 0, 0
    while waiting:
        item, depth = waiting.pop()
        seen += len(item)
        if seen > _MOST_IN_KEY or depth > 100:
            raise UnpicklingError("a dict key or set element is nested too deeply")
        waiting += [(inner, depth + 1) for inner in item if isinstance(inner, tuple)]


def _checked_set(items: Any = ()) -> set:
    for item in items:
        check_key(item)
    return set(items)


def _checked_ordered_dict(items: Any = ()) -> OrderedDict:
    for item in items:
        check_key(item)
        check_key(item[0] if isinstance(item, (list, tuple)) and item else None)
    return OrderedDict(items)


def _checked_counter(items: Any = None) -> Counter:
    if items is not None and type(items) is not dict:
        raise UnpicklingError(f"Counter: expected a dict, got {type(items).__name__}")
    return Counter(items or {})


def _checked_bytes(data: Any = b"", encoding: Any = None) -> bytearray:
    """bytearray(number) would allocate; bytearray(bytes) and bytearray(text, encoding) do not."""
    if isinstance(data, str):
        return bytearray(_checked_encode(data, encoding))
    if not isinstance(data, (bytes, bytearray)):
        raise UnpicklingError(f"bytearray: expected bytes, got {type(data).__name__}")
    return bytearray(data)


def _checked_encode(text: Any, encoding: Any = "latin1", errors: Any = "strict") -> bytes:
    if type(text) is not str or encoding not in ("latin1", "latin-1", "utf-8", "utf8", "ascii"):
        raise UnpicklingError(
            f"_codecs.encode: expected text and a plain encoding, got {type(text).__name__} and {encoding!r}"
        )
    return text.encode(encoding, "strict")


def _checked_complex(*parts: Any) -> complex:
    if not all(type(p) in (int, float) for p in parts):
        raise UnpicklingError("complex: expected numbers")
    return complex(*parts)


def _checked_size(sizes: Any = ()) -> shape.Size:
    if not isinstance(sizes, (tuple, list)):
        raise UnpicklingError(f"Size: expected a tuple, got {type(sizes).__name__}")
    return shape.Size(sizes)


def _checked_tensor(*args: Any) -> Tensor:
    """Old files make an empty tensor and set its state; sizes would allocate."""
    if args:
        raise UnpicklingError("Tensor: only an empty one may be made by a file")
    return Tensor()


def _legacy_maker(dtype: Any) -> Callable[..., Tensor]:
    def make(*args: Any) -> Tensor:
        if args:
            raise UnpicklingError("Tensor: only an empty one may be made by a file")
        return _C.empty((0,), None, dtype, None)

    return make


def _rebuild_of_type(function: Any, new_type: Any, args: Any, state: Any) -> Tensor:
    """`_tensor._rebuild_from_type_v2`, for functions and classes of this list alone."""
    allowed = [*default_globals().values(), *user_globals().values()]
    if not any(function is a for a in allowed) or not any(new_type is a for a in (Tensor, *allowed)):
        raise UnpicklingError(f"_rebuild_from_type_v2: {function!r} and {new_type!r} are not both allowed")
    if type(state) is not dict and not (type(state) is tuple and len(state) == 2) and state is not None:
        raise UnpicklingError(f"_rebuild_from_type_v2: the state is no dict but a {type(state).__name__}")
    for part in state if type(state) is tuple else (state,):
        check_attributes(part)
    return _tensor._rebuild_from_type_v2(function, Tensor if new_type is _checked_tensor else new_type, args, state)


def check_attributes(state: Any) -> None:
    """State is set as attributes: none may replace what Python itself looks up."""
    if state is None:
        return
    if not isinstance(state, dict):
        raise UnpicklingError(f"expected attributes as a dict, got {type(state).__name__}")
    for name in state:
        if type(name) is not str or name.startswith("__"):
            raise UnpicklingError(f"the attribute name {name!r} is not allowed")


def _rebuild_parameter_with_state(data: Any, requires_grad: Any, hooks: Any, state: Any) -> Any:
    for part in state if type(state) is tuple else (state,):
        check_attributes(part)
    return pickling._rebuild_parameter_with_state(data, requires_grad, hooks, state)


def _parameter(*args: Any) -> Any:
    return pickling.parameter_class()(*args)


# Classes that files name as arguments. Made by a file, they would take any size or any inner parts.
NAMED_ONLY = (NestedTensor, _C.UntypedStorage, storages.TypedStorage)


# --- the list ---------------------------------------------------------------------------------------------------------


@cache
def default_globals() -> dict[str, Any]:
    """Every name files may use without being trusted."""
    found: dict[str, Any] = {
        "collections.OrderedDict": _checked_ordered_dict, "collections.Counter": _checked_counter,
        "builtins.set": _checked_set, "builtins.bytearray": _checked_bytes,
        "builtins.complex": _checked_complex, "_codecs.encode": _checked_encode, "torch.Size": _checked_size,
        "torch.Tensor": _checked_tensor, "torch.device": _C.device,
        "torch.serialization._get_layout": shape._get_layout, "torch.nn.parameter.Parameter": _parameter,
        "torch.storage.TypedStorage": storages.TypedStorage, "torch.storage.UntypedStorage": _C.UntypedStorage,
        "torch._tensor._rebuild_from_type_v2": _rebuild_of_type,
        "torch._utils._rebuild_parameter_with_state": _rebuild_parameter_with_state,
        "torch.nested._internal.nested_tensor.NestedTensor": NestedTensor,
        "torch.nested._internal.nested_tensor._rebuild_njt": pickling._rebuild_njt,
        "torch._dynamo.decorators._DimRange": _DimRange,
    }
    for name in ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_parameter",
                 "_rebuild_sparse_tensor", "_rebuild_meta_tensor_no_storage", "_rebuild_nested_tensor",
                 "_rebuild_device_tensor_from_cpu_tensor", "_rebuild_device_tensor_from_numpy",
                 "_rebuild_wrapper_subclass", "_rebuild_qtensor"):
        found[f"torch._utils.{name}"] = getattr(pickling, name)
    for name, dtype in storages.STORAGE_DTYPES.items():
        found[f"torch.{name}"] = StorageType(name)
        found[f"torch.cuda.{name}"] = StorageType(name)
        found[f"torch.{name.removesuffix('Storage')}Tensor"] = _legacy_maker(dtype)
    for name in dir(_C):
        if isinstance(getattr(_C, name), _C.dtype):
            found[f"torch.{name}"] = getattr(_C, name)
    for name, value in vars(quantizers).items():
        if isinstance(value, quantizers.qscheme):
            found[f"torch.{name}"] = value
    return found


def find(module: str, name: str, user: dict[str, Any]) -> Any:
    """The object a file names, by default or because of `user`; UnpicklingError for everything that is not allowed."""
    full = f"{module}.{name}"
    if module.partition(".")[0] in _BLOCKED:
        raise UnpicklingError(f"Trying to load unsupported GLOBAL {full} whose module {module} is blocked.")
    found = default_globals().get(full)
    if found is not None:
        return found
    found = user.get(full)
    if found is not None:
        return found
    if module == "builtins":
        full = name if hasattr(builtins, name) else full
    raise UnpicklingError(
        f"Unsupported global: GLOBAL {full} is not on the list of what may be loaded. If you trust it, use "
        f"`torch.serialization.add_safe_globals([{full}])`, or `torch.serialization.safe_globals([{full}])` around "
        "the call."
    )
