"""Names of C++ functions as people write them (`_Z3addi` is `add(int)`), by the C++ library of this machine."""

from __future__ import annotations

import ctypes
import functools
from typing import Any


@functools.cache
def _demangler() -> Any:
    for library in ("libstdc++.so.6", "libc++abi.so.1", "libc++.1.dylib"):
        try:
            function = ctypes.CDLL(library).__cxa_demangle
        except (OSError, AttributeError):
            continue
        function.restype = ctypes.c_void_p
        return function
    return None


def demangled(name: str) -> str:
    """The readable form of a mangled name; any other name, and where no C++ library is found, the name itself."""
    if not name.startswith("_Z") or _demangler() is None:
        return name
    status = ctypes.c_int()
    text = _demangler()(name.encode(), None, None, ctypes.byref(status))
    if not text:
        return name
    try:
        return (ctypes.string_at(text) or b"").decode()
    finally:
        ctypes.CDLL(None).free(ctypes.c_void_p(text))
