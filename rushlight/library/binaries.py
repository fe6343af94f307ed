"""Binary extensions: shared libraries that were built for PyTorch's stable C ABI, loaded and registered.

Enters: the path of a library. Leaves: its ops and kernels in `library`'s tables, as if Python had registered them; they
stay as long as the process. Refuses, with OSError and before anything of it runs: libraries that were built for
PyTorch's C++ classes, that miss a library or a function, that lie where others may write; a library that registers
something twice is taken back whole.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

from ..base import late
from . import binary_registrations, elf_symbols
from .binary_registrations import Loading

PACKAGE = Path(__file__).resolve().parent.parent
STAND_INS = ("libc10.so", "libtorch.so", "libtorch_cpu.so", "libtorch_python.so", "libc10_cuda.so", "libtorch_cuda.so")
RTLD_NOLOAD = 4
C_NAMES = ("aoti_torch_", "torch_", "aoti_record_")
MANGLED = tuple(f"N{const}{name}" for const in ("", "K") for name in ("2at", "3c10", "5torch"))     # in C++ names
# Releases whose libraries need the stable ABI alone, by what their folders are called.
STABLE_SINCE = {"torchvision": "0.29", "torchaudio": "2.11", "torchao": "0.18", "torchcodec": "0.17"}
# Packages of the index that have libraries which extensions name, and the folders they are in.
HELPERS = {
    "libcudart.so.13": ("nvidia-cuda-runtime", "nvidia/cu13/lib"),
    "libnvrtc.so.13": ("nvidia-cuda-nvrtc", "nvidia/cu13/lib"),
    "libnvjpeg.so.13": ("nvidia-nvjpeg", "nvidia/cu13/lib"),
    "libnppicc.so.13": ("nvidia-npp", "nvidia/cu13/lib"),
    "libcublas.so.13": ("nvidia-cublas", "nvidia/cu13/lib"),
}

_lock = threading.RLock()


def native() -> ModuleType:
    """The module with the C functions, told whom to ask."""
    if not _native:
        try:
            from .. import _stable
        except ImportError as error:
            raise OSError(
                "ops.load_library: this Rushlight was built without rushlight._stable, the part that binary extensions"
                f" call ({error}). Build it with GCC or Clang: pip install . in a source tree"
            ) from None
        _stable.use_hooks(late.import_module(".abi_calls", __package__))
        _native.append(_stable)
    return _native[0]


_native: list[ModuleType] = []
_stand_ins: list[Any] = []


def prepare() -> None:
    """Have the names of PyTorch's libraries lead here, for all that is loaded from now on."""
    if _stand_ins:
        return
    native()
    for name in STAND_INS:
        try:
            held = ctypes.CDLL(name, mode=RTLD_NOLOAD)
        except OSError:
            continue
        if not hasattr(held, "rushlight_stable_is_here"):
            raise OSError(
                f"ops.load_library: PyTorch's own {name} is loaded in this process, and extensions would find that one."
                " Do not import PyTorch where Rushlight loads extensions."
            )
    folder = next((f for f in (PACKAGE / "lib", *_core_folders()) if (f / STAND_INS[0]).exists()), None)
    if folder is None:
        raise OSError(f"ops.load_library: {PACKAGE / 'lib'} lacks {STAND_INS[0]}; this Rushlight is not whole")
    _stand_ins.extend(ctypes.CDLL(str(folder / name)) for name in STAND_INS)


def _core_folders() -> list[Path]:
    """Where an editable installation keeps what was compiled."""
    return [Path(str(native().__file__)).parent / "lib"]


def load_library(path: Any) -> None:
    """Load a library, and register the ops and kernels it has."""
    full = os.path.realpath(os.fspath(path))
    with _lock:
        if full in _loaded:
            return
        symbols = elf_symbols.read(full)
        check_place(full)
        check_symbols(full, symbols)
        prepare()
        check_names(full, symbols)
        helpers = load_helpers(full, symbols)
        loading = Loading(full)
        binary_registrations.loading.append(loading)
        library = None
        try:
            library = ctypes.CDLL(full)
            loading.commit()
        except BaseException as error:
            loading.undo()
            if library is not None:
                _close(library)
            if isinstance(error, OSError):
                raise OSError(f"ops.load_library: {full} cannot be loaded: {error}") from None
            raise
        finally:
            binary_registrations.loading.remove(loading)
        _loaded[full] = library
        binary_registrations.kept.extend((loading, helpers))


_loaded: dict[str, Any] = {}


def _close(library: Any) -> None:
    """Let go of a library whose registrations were taken back, so that loading it again starts anew."""
    close = ctypes.CDLL(None).dlclose
    close.argtypes = (ctypes.c_void_p,)
    close(library._handle)


def check_place(path: str) -> None:
    """Nothing is loaded that users without rights to this account could have put there."""
    for place in (path, os.path.dirname(path)):
        found = os.stat(place)
        shared = found.st_mode & stat.S_IWOTH and not (stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX)
        if shared or found.st_uid not in (0, os.geteuid()):
            raise OSError(f"ops.load_library: others may write to {place}, so nothing is loaded from there."
                          " Copy the library to a folder of your own.")


def check_symbols(path: str, symbols: elf_symbols.Symbols) -> None:
    """Refuse what was built for the C++ classes of PyTorch: their layout is compiled into it."""
    mangled = [s for s in symbols.undefined if s.startswith("_Z") and any(m in s for m in MANGLED)]
    if not mangled:
        return
    package = next((p for p in Path(path).parts if p in STABLE_SINCE), None)
    remedy = "A release of it that uses the stable ABI (PyTorch 2.10 and later) would load"
    if package is not None:
        since = STABLE_SINCE[package]
        remedy = f"{package} {since} and later have it: pip install '{package}>={since}'"
    raise OSError(
        f"ops.load_library: {path} is built for PyTorch's C++ classes, not for its stable C ABI: {len(mangled)} of"
        f" their functions are not here, the first are {', '.join(mangled[:3])}. {remedy}."
    )


def check_names(path: str, symbols: elf_symbols.Symbols) -> None:
    """Refuse what calls C functions that are newer than these."""
    here = _stand_ins[1]
    missing = [s for s in symbols.undefined if s.startswith(C_NAMES) and not hasattr(here, s)]
    if missing:
        raise OSError(f"ops.load_library: {path} calls {len(missing)} functions of PyTorch's C interface that are not"
                      f" here: {', '.join(missing[:8])}. It was built for a later PyTorch; use an older release of it.")


def load_helpers(path: str, symbols: elf_symbols.Symbols) -> list[Any]:
    """Load the libraries of NVIDIA that an extension names and the loader would not find: they are in wheels."""
    found = []
    for name in symbols.needed:
        if name not in HELPERS or _is_loadable(name, path, symbols):
            continue
        package, folder = HELPERS[name]
        file = next((f for f in (Path(p) / folder / name for p in sys.path) if f.exists()), None)
        if file is None:
            raise OSError(f"ops.load_library: {path} needs {name}, even to run on the CPU, and it is not here."
                          f" Install it: pip install {package}")
        found.append(ctypes.CDLL(str(file)))
    return found


def _is_loadable(name: str, path: str, symbols: elf_symbols.Symbols) -> bool:
    folders = [f.replace("$ORIGIN", os.path.dirname(path)).replace("${ORIGIN}", os.path.dirname(path))
               for f in symbols.folders]
    if any(os.path.exists(os.path.join(f, name)) for f in folders if f):
        return True
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True
