"""A device that gives the core a table of C functions is called without its Python methods."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import rushlight
import rushlight as torch
from rushlight import codegen
from rushlight.devices import Device, register

P, I, N = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
KERNEL = ctypes.CFUNCTYPE(None, P, P, ctypes.c_int64, ctypes.c_int64)


class Launch(ctypes.Structure):
    """RushlightLaunch of device_table.h."""

    _fields_ = [
        ("kernel", P), ("num_operands", ctypes.c_int32), ("num_params", ctypes.c_int32),
        ("operands", ctypes.POINTER(P)), ("constant_bytes", ctypes.POINTER(ctypes.c_int32)), ("params", P),
        ("begin", ctypes.c_int64), ("end", ctypes.c_int64), ("ndim", ctypes.c_int32), ("pitch", ctypes.c_int32),
        ("sizes", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
    ]


FUNCTIONS = {
    "allocate": ctypes.CFUNCTYPE(I, P, I, N, ctypes.POINTER(P)), "free": ctypes.CFUNCTYPE(I, P, I, P, N),
    "copy": ctypes.CFUNCTYPE(I, P, I, P, I, P, P, N), "launch": ctypes.CFUNCTYPE(I, P, I, P, ctypes.POINTER(Launch)),
}
LATER = ("synchronize", "new_stream", "record", "wait", "finish", "query", "forget", "elapsed", "copy_between", "error")


class Table(ctypes.Structure):
    """RushlightDevice of device_table.h."""

    _fields_ = [
        ("version", ctypes.c_uint32),
        ("nd", ctypes.c_uint32),
        ("context", P),
        *FUNCTIONS.items(),
        *((name, P) for name in LATER),
    ]


class NativeDevice(Device):
    """Host memory behind a table; `load` is all that stays a method."""

    def __init__(self, name: str, version: int = 1) -> None:
        self.name = name
        self.buffers: dict[int, Any] = {}
        self.table = Table(
            version, 0, None, **{key: kind(getattr(self, f"c_{key}")) for key, kind in FUNCTIONS.items()}
        )
        self.launches = 0

    def native(self) -> int:
        return ctypes.addressof(self.table)

    def load(self, nest: Any) -> int:
        return codegen.compile(nest).address

    def c_allocate(self, context: Any, unit: int, nbytes: int, address: Any) -> int:
        if nbytes > 64 << 20:
            return 1
        buffer = ctypes.create_string_buffer(nbytes + 64)
        place = (ctypes.addressof(buffer) + 63) // 64 * 64
        self.buffers[place] = buffer
        address[0] = place
        return 0

    def c_free(self, context: Any, unit: int, address: int, nbytes: int) -> int:
        del self.buffers[address]
        return 0

    def c_copy(self, context: Any, unit: int, stream: Any, way: int, target: int, source: int, nbytes: int) -> int:
        ctypes.memmove(target, source, nbytes)
        return 0

    def c_launch(self, context: Any, unit: int, stream: Any, launch: Any) -> int:
        self.launches += 1
        one = launch[0]
        assert one.ndim == -1
        KERNEL(one.kernel)(ctypes.cast(one.operands, P), one.params, one.begin, one.end)
        return 0


DEVICE = NativeDevice("nativedev")
register(DEVICE)


def test_ops_run_through_the_table():
    x = torch.arange(24.0).reshape(2, 3, 4)
    y = x.to("nativedev")
    for f in (
        lambda t: t * 2 + 1,
        lambda t: t.sum(1),
        lambda t: t.permute(2, 0, 1) - t.permute(2, 0, 1).flip(0),
        lambda t: t.reshape(6, 4) @ t.reshape(4, 6),
    ):
        assert torch.allclose(f(y).cpu(), f(x))
    assert DEVICE.launches >= 4


def test_a_status_becomes_an_error():
    with pytest.raises(torch.OutOfMemoryError, match="nativedev:0' is out of memory"):
        torch.empty(100 << 20, dtype=torch.uint8, device="nativedev")


def test_tables_of_another_version_are_refused():
    with pytest.raises(RuntimeError, match="version 77"):
        register(NativeDevice("nativeold", 77))
    with pytest.raises(RuntimeError, match="expected one of|no 'nativeold' device"):
        torch.empty(1, device="nativeold")


def test_the_header_lies_in_the_package_and_is_plain_c(tmp_path):
    """Whoever writes a device in another language includes it from there; the structures above are those it states."""
    header = Path(rushlight.devices.__path__[0]) / "device_table.h"
    text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)
    members = text.partition("typedef struct RushlightDevice {")[2].partition("}")[0].split(";")
    fields = [re.search(r"\(\*(\w+)\)|(\w+)$", m.strip()) for m in members]
    assert [name for name, *_ in Table._fields_] == [f[1] or f[2] for f in fields if f]
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    source = tmp_path / "device.c"
    source.write_text('#include "device_table.h"\nRushlightDevice table = {RUSHLIGHT_DEVICE_VERSION};\n')
    command = [compiler, "-std=c99", "-Wall", "-Werror", "-fsyntax-only", "-I", str(header.parent), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
