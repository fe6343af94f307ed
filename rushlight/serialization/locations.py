"""Where storages are, as files call it, and where they go when loaded.

Enters: storages, the tags files give them, and a `map_location`. Leaves: tags, and storages on the device asked for.
Refuses tags of devices that are not here, saying how to map them to one that is.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from .. import _C
from .._C import UntypedStorage
from ..base import late
from ..tensors.storages import STORAGE_DTYPES, moved

Restore = Callable[[UntypedStorage, str], UntypedStorage]
_registry: list[tuple[int, Callable, Callable]] = []


class StorageType:
    """Stands in a file for a class such as `FloatStorage`: a dtype under a name."""

    def __init__(self, name: str) -> None:
        self._dtype = STORAGE_DTYPES[name]

    @property
    def dtype(self) -> _C.dtype:
        return self._dtype

    def __str__(self) -> str:
        return f"StorageType(dtype={self.dtype})"


def register_package(priority: int, tagger: Callable, deserializer: Callable) -> None:
    """Teach saving and loading about another place for storages; those of lower priority numbers are asked first.

    `tagger(storage)` names the place, `deserializer(storage, tag)` puts a storage there;
    both return None when it is not theirs.
    """
    _registry.append((priority, tagger, deserializer))
    _registry.sort(key=operator.itemgetter(0))


def location_tag(storage: Any) -> str:
    """What a file calls the place of a storage."""
    for _, tagger, _ in _registry:
        tag = tagger(storage)
        if tag:
            return tag
    raise RuntimeError(f"save: no registered tagger knows the location of a {type(storage).__name__}")


def default_restore_location(storage: Any, location: str) -> Any:
    """The storage, at the place a tag names."""
    for _, _, deserializer in _registry:
        found = deserializer(storage, location)
        if found is not None:
            return found
    if location.partition(":")[0] == "cuda":
        raise RuntimeError(
            "load: the file's storages are on a CUDA device, and this machine has none. "
            "Pass map_location='cpu'."
        )
    raise RuntimeError(
        f"load: no registered deserializer takes a {type(storage).__name__} to {location!r}. "
        "Use map_location to say where such storages should go, for example map_location='cpu'."
    )


def _cpu_tag(storage: Any) -> str | None:
    return "cpu" if storage.device.type == "cpu" else None


def _at_cpu(storage: Any, location: str) -> Any:
    return storage if location == "cpu" else None


def _meta_tag(storage: Any) -> str | None:
    return "meta" if storage.device.type == "meta" else None


def _at_meta(storage: Any, location: str) -> Any:
    return UntypedStorage(storage.nbytes(), "meta") if location == "meta" else None


def _device_tag(storage: Any) -> str:
    return str(storage.device)


def _at_device(source: Any, location: str) -> Any:
    """A device that a plug-in registered."""
    try:
        return moved(source, _C.device(location))
    except (RuntimeError, AssertionError):    # no such device, or one that this machine lacks
        return None


register_package(10, _cpu_tag, _at_cpu)
register_package(22, _meta_tag, _at_meta)
register_package(90, _device_tag, _at_device)


def restore_of(map_location: Any) -> Restore:
    """A function from a loaded storage and its tag to the storage where it should be."""
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        return lambda storage, location: default_restore_location(storage, str(map_location.get(location, location)))
    if isinstance(map_location, bytes):
        map_location = map_location.decode("ascii")
    if isinstance(map_location, (str, _C.device)):
        where = str(map_location)
        return lambda storage, location: default_restore_location(storage, where)
    if not callable(map_location):
        raise TypeError(
            f"load: map_location must be a str, a device, a dict or a function, got {type(map_location).__name__}"
        )

    def restore(storage: Any, location: str) -> Any:
        found = map_location(storage, location)
        return default_restore_location(storage, location) if found is None else found

    return restore


def is_meta(map_location: Any) -> bool:
    """Whether everything goes to the meta device, so that no bytes need to be read."""
    return isinstance(map_location, (str, _C.device)) and str(map_location).partition(":")[0] == "meta"


def stays_on_host(map_location: Any) -> bool:
    """Whether loaded storages are used as they are, for sure."""
    return isinstance(map_location, (str, _C.device)) and str(map_location) == "cpu"


def normalize_storage_type(storage_type: type) -> type:
    """The class as the top module calls it."""
    return getattr(late.provided("package"), storage_type.__name__)


def storage_to_tensor_type(storage: Any) -> Any:
    """The legacy tensor type of a storage type: `FloatTensor` for `FloatStorage`."""
    return getattr(late.provided("package"), type(storage).__name__.replace("Storage", "Tensor"))
