"""What can be set about saving and loading: PyTorch's `utils.serialization.config` and the functions that set parts of
it.

Enters: values for the options. Leaves: `load` and `save`, two namespaces read at each call.
Refuses values that mean nothing.
"""

from __future__ import annotations

from enum import Enum
from mmap import MAP_PRIVATE, MAP_SHARED

from ..tensors.pickling import ongoing as local


class LoadEndianness(Enum):
    """The byte order assumed of files that do not say."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class load:  # noqa: N801 - PyTorch's name
    """Options of `rushlight.load`."""

    mmap: bool = False
    endianness: LoadEndianness | None = None
    mmap_flags: int = MAP_PRIVATE
    calculate_storage_offsets: bool = False


class save:  # noqa: N801 - PyTorch's name
    """Options of `rushlight.save`. `fsync` waits until the disk has the file before it replaces the old one."""

    compute_crc32: bool = True
    use_pinned_memory_for_d2h: bool = False
    storage_alignment: int = 64
    fsync: bool = False


def get_default_load_endianness() -> LoadEndianness | None:
    """The byte order assumed of files that do not say; None means little."""
    return load.endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Say which byte order files have that do not say themselves."""
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError(
            f"set_default_load_endianness: expected a LoadEndianness or None, got {type(endianness).__name__}"
        )
    load.endianness = endianness


def get_crc32_options() -> bool:
    """Whether `save` computes a checksum for each record."""
    return save.compute_crc32


def set_crc32_options(compute_crc32: bool) -> None:
    """Whether `save` computes checksums. Without them other programs may call the archive damaged; `load` does not."""
    save.compute_crc32 = compute_crc32


def get_default_mmap_options() -> int:
    """How `load(mmap=True)` maps files."""
    return load.mmap_flags


class set_default_mmap_options:  # noqa: N801 - PyTorch's name
    """Map files with `flags`, from now on or inside a `with` block: private copies of pages on write,
    or shared with the file."""

    def __init__(self, flags: int) -> None:
        if flags not in (MAP_PRIVATE, MAP_SHARED):
            raise ValueError(f"set_default_mmap_options: expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, got {flags}")
        self._before, load.mmap_flags = load.mmap_flags, flags

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        load.mmap_flags = self._before


class skip_data:  # noqa: N801 - PyTorch's name
    """Inside the block, `save` leaves holes where the bytes of storages belong, and `load` does not read them."""

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        self._materialize = materialize_fake_tensors

    def __enter__(self) -> None:
        self._before = (local.skip_data, local.materialize_fake_tensors)
        local.skip_data, local.materialize_fake_tensors = True, self._materialize

    def __exit__(self, *exception: object) -> None:
        local.skip_data, local.materialize_fake_tensors = self._before
