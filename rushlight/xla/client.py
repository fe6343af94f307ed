"""PJRT through jaxlib: StableHLO in, machine code out, tensors handed over without copies.

Enters: StableHLO text or a portable artifact, and dense tensors of the host. Leaves: executables, and buffers that
tensors of the host can show. Refuses: machines without jaxlib, and types of elements that XLA does not have. Nothing of
`jax` is used; jaxlib is imported when somebody first asks for the client.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import sys
import threading
from collections.abc import Sequence
from importlib import metadata
from types import SimpleNamespace
from typing import Any

from .. import _C

MISSING = "the device 'xla' needs the package jaxlib, which is not installed: pip install 'rushlight[xla]'"
DTYPES = tuple(getattr(_C, name) for name in (
    "bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
    "float8_e8m0fnu",
))
"""Types of elements that programs of XLA have."""
AS_BYTES = frozenset((_C.float8_e4m3fnuz, _C.float8_e5m2fnuz, _C.float8_e8m0fnu))
"""Those that DLPack has no name for here: their buffers are bytes, and programs look at them as what they are."""
_loading = threading.RLock()


def is_installed() -> bool:
    """Whether jaxlib is there. It is not imported to find out."""
    try:
        return importlib.util.find_spec("jaxlib") is not None
    except ValueError:      # somebody put a module without a spec there
        return "jaxlib" in sys.modules


@functools.cache
def jaxlib_version() -> str:
    """The version of jaxlib, as its package says."""
    return metadata.version("jaxlib")


def _quiet_imports() -> None:
    """jaxlib asks for a file of jax whenever it makes an array, and lives without it; where jax is not installed, the
    search through all folders would take longer than small programs run."""
    if importlib.util.find_spec("jax") is None:
        sys.modules.setdefault("jax._src.sharding_impls", None)      # type: ignore[arg-type]


@functools.cache
def load() -> SimpleNamespace:
    """jaxlib's client of this machine's processor, its device, and the functions that are used of it."""
    with _loading:
        if not is_installed():
            raise RuntimeError(f"xla: {MISSING}")
        told = "TF_CPP_MIN_LOG_LEVEL" in os.environ      # XLA's own notes on standard error
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        try:
            from jaxlib import _jax, xla_client  # noqa: PLC0415 - 40 MB that most programs never need

            client = xla_client.make_cpu_client()
        finally:
            if not told:
                del os.environ["TF_CPP_MIN_LOG_LEVEL"]
        _quiet_imports()
        return SimpleNamespace(
            client=client, device=client.local_devices()[0], options=xla_client.CompileOptions,
            error=_jax.JaxRuntimeError, read=_jax.dlpack_managed_tensor_to_buffer,
            show=_jax.buffer_to_dlpack_managed_tensor,
        )


def check_dtype(dtype: Any) -> Any:
    """The type, where XLA has it."""
    if dtype not in DTYPES:
        raise TypeError(f"xla: XLA has no elements of type {dtype}. Convert the tensor first, or keep it on the CPU.")
    return dtype


class Value:
    """What a storage of the device holds: a buffer of PJRT's, and the type of its elements."""

    __slots__ = ("buffer", "dtype")

    def __init__(self, buffer: Any, dtype: Any) -> None:
        self.buffer, self.dtype = buffer, dtype

    def tensor(self) -> Any:
        """The elements, where they lie, to be read. Whoever has it keeps the buffer."""
        self.buffer.block_until_ready()
        seen, _ = _C.from_dlpack(load().show(self.buffer))
        return seen if seen.dtype is self.dtype else seen.view(self.dtype)


def value_of(tensor: Any) -> Value:
    """A dense tensor of the host as a value: the same memory where it begins at a multiple of 64 bytes, a copy
    otherwise. Nobody may write to the tensor from here on."""
    dtype = check_dtype(tensor.dtype)
    held = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if dtype in AS_BYTES:
        held = held.view(_C.uint8)
    loaded = load()
    return Value(loaded.read(_C.to_dlpack(held, False, False), loaded.device, None, None), dtype)


def compile_text(program: str | bytes) -> Any:
    """Machine code of a module with the entry `@main`."""
    loaded = load()
    try:
        return loaded.client.compile_and_load(program, [loaded.device], loaded.options())
    except loaded.error as error:
        raise RuntimeError(f"xla: XLA does not compile the program. {_first_line(error)}") from error


def run(executable: Any, buffers: Sequence[Any]) -> list[Any]:
    """Buffers of the results."""
    loaded = load()
    try:
        return executable.execute(buffers)
    except loaded.error as error:
        raise RuntimeError(f"xla: the program failed. {_first_line(error)}") from error


def stored_form(executable: Any) -> bytes:
    """Machine code, to be kept."""
    return executable.serialize()


def from_stored_form(data: bytes) -> Any | None:
    """Machine code that was kept; None where jaxlib does not take it."""
    loaded = load()
    try:
        return loaded.client.deserialize_executable(data, [loaded.device], loaded.options())
    except loaded.error:
        return None


def _first_line(error: Exception) -> str:
    return re.sub(r"\s+", " ", str(error)).strip()[:500]
