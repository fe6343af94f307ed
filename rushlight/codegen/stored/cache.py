"""Kernels kept on disk, so that a second process starts warm and without LLVM.

Enters: a nest and the function that makes its object file. Leaves: a loaded `Kernel`. Refuses to trust what it finds:
an entry must carry the right magic, key and checksum and load cleanly, or it is made again. Failing to write one costs
speed in the next process, never an error (one warning).

Entries are files of `disk_cache`, one per kernel, named by a key over the nest, the processor, and the sources of
`loops` and `codegen`.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from ...base import disk_cache, sources
from ...base.digest import digest
from ...loops.nest import Nest
from ..text.targets import host_identity

MAGIC = b"RLKERNEL1\n"
_CHECK = 32


class Kernel:
    """A loaded kernel: `address` of its machine code, the nest's `name` and `params`. Never unloaded."""

    __slots__ = ("name", "address", "params")

    def __init__(self, name: str, address: int, params: tuple[str, ...]) -> None:
        self.name, self.address, self.params = name, address, params

    def __repr__(self) -> str:
        return f"Kernel({self.name} at {self.address:#x}, params {', '.join(self.params)})"


_LOADED: dict[bytes, Kernel] = {}
# What each address was made of: whoever takes plans to other machines asks for the same kernels there.
_SOURCES: dict[int, Any] = {}      # address -> the nest, or what stands for it
_HANDLES: dict[int, tuple[Any, Any]] = {}      # the same of other devices, by the id of the handle
_DIGESTS: dict[int, bytes] = {}      # and the digest of that: whoever keeps plans on disk names kernels by it


def source_identity() -> bytes:
    """Changes whenever the generator's sources do."""
    return sources.identity(*sources.GENERATOR)


def key_of(nest: Nest) -> bytes:
    """16 bytes naming the machine code of a nest on this machine."""
    return key_by(nest.digest())


def key_by(nest_digest: bytes) -> bytes:
    """The same for a nest of which the digest is known."""
    return digest(nest_digest + host_identity() + source_identity())


class Source(Protocol):
    """What the cache asks of a nest, or of what stands for a function of tiles."""

    @property
    def name(self) -> str: ...
    @property
    def params(self) -> tuple[str, ...]: ...
    def digest(self) -> bytes: ...


S = TypeVar("S", bound=Source)


def kernel(nest: S, make: Callable[[S], bytes], fresh: bool = False) -> Kernel:
    """The kernel of `nest`: from memory, from disk, or made by `make(nest)`; `fresh` makes it again."""
    nest_digest = nest.digest()
    key = key_by(nest_digest)
    found = _LOADED.get(key)
    if found is not None and not fresh:
        if found.address not in _SOURCES:      # a stored plan loaded it, by its digest alone
            _SOURCES[found.address], found.params = nest, nest.params
        return found
    address = None if fresh else load_entry(nest.name, key)
    if address is None:
        result = _made(nest, make)
        address = load_code(result)[nest.name]
        problem = disk_cache.write(key.hex(), pack(key, result))
        if problem:
            _warn_once(problem)
    # Two threads may have made it; everyone must see one Kernel. One step for the interpreter:
    # no lock to find held after a fork.
    _SOURCES[address], _DIGESTS[address] = nest, nest_digest
    return _LOADED.setdefault(key, Kernel(nest.name, address, nest.params))


def _made(nest: S, make: Callable[[S], bytes]) -> bytes:
    """The machine code of a nest; a recording that runs says how long that took."""
    from ... import _extras  # the native module is not needed to generate code for other machines

    handle = _extras.record_begin(f"rushlight::compile: {nest.name}", None, _extras.COMPILE)
    try:
        return make(nest)
    finally:
        _extras.record_end(handle)


def digest_of(address: int) -> bytes | None:
    """What names the kernel at an address in every process; None for addresses of other functions."""
    return _DIGESTS.get(address)


def stored_kernel(nest_digest: bytes, name: str) -> int | None:
    """The address of a kernel that another process made, by `digest_of` there; None where it is not on disk."""
    key = key_by(nest_digest)
    found = _LOADED.get(key)
    if found is None:
        address = load_entry(name, key)
        if address is None:
            return None
        _DIGESTS[address] = nest_digest
        found = _LOADED.setdefault(key, Kernel(name, address, ()))
    return found.address


def name_of(address: int) -> str:
    """The name of the kernel at an address that `digest_of` knows."""
    return _LOADED[key_by(_DIGESTS[address])].name


def source_of(address: int) -> Nest | None:
    """The nest (or what stands for one) that the kernel at an address was made of; None for other addresses."""
    return _SOURCES.get(address)


def note_handle(handle: Any, source: Any) -> Any:
    """Remember what another device's kernel was made of. They are never unloaded."""
    _HANDLES[id(handle)] = handle, source
    return handle


def source_of_handle(handle: Any) -> Any:
    """The same as `source_of`, for another device's kernel."""
    return _HANDLES.get(id(handle), (None, None))[1]


def load_code(code: bytes) -> dict[str, int]:
    """Addresses of an object's functions, mapped into this process."""
    from ..._C import load_object  # the native module is not needed to generate code for other machines

    return load_object(code, _shared)


def _shared(name: str) -> int | None:
    """The address of a function that kernels have in common."""
    from .tile_objects import make_tiles, tile_object  # most kernels call none

    tiles = tile_object(name)
    return None if tiles is None else kernel(tiles, make_tiles).address


def load_entry(name: str, key: bytes) -> int | None:
    """Address of the kernel `name` stored under `key`; None if there is no entry or it is not sound."""
    data = disk_cache.read(key.hex())
    code = None if data is None else unpack(key, data)
    if code is None:
        return None
    try:
        return load_code(code).get(name)
    except ValueError:
        return None


def pack(key: bytes, code: bytes, magic: bytes = MAGIC) -> bytes:
    """An entry's bytes: magic, key, checksum of key and code, code."""
    return magic + key + digest(key + code, _CHECK) + code


def unpack(key: bytes, data: bytes, magic: bytes = MAGIC) -> bytes | None:
    """The code in an entry, or None if anything about it is odd."""
    head = len(magic) + len(key)
    if data[:head] != magic + key:
        return None
    code = data[head + _CHECK :]
    return code if digest(key + code, _CHECK) == data[head : head + _CHECK] else None


@functools.cache
def _warn_once(why: str) -> None:
    warnings.warn(
        f"kernel cache: entries cannot be stored ({why}), so kernels are made again in every process. "
        "Set RUSHLIGHT_CACHE to a folder of your own.",
        RuntimeWarning,
        stacklevel=4,
    )
