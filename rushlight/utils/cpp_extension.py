"""C++ extensions written for PyTorch: its headers and libraries are not here, so building one is refused,
when it is tried."""

from __future__ import annotations

import os
import sys
from typing import Any

from .. import version
from ..base import environment
from ..base.refusals import reason_of, stand_in

__all__ = [
    "BuildExtension", "CUDAExtension", "CppExtension", "SyclExtension", "check_compiler_ok_for_platform",
    "get_default_build_root", "include_paths", "is_ninja_available", "library_paths", "load", "load_inline",
    "verify_ninja_availability",
]

IS_WINDOWS, IS_MACOS, IS_LINUX = sys.platform == "win32", sys.platform == "darwin", sys.platform.startswith("linux")
LIB_EXT, EXEC_EXT = ".pyd" if IS_WINDOWS else ".so", ".exe" if IS_WINDOWS else ""
CUDA_HOME = CUDNN_HOME = ROCM_HOME = HIP_HOME = SYCL_HOME = None
IS_HIP_EXTENSION = False
_REASON = reason_of("torch.utils.cpp_extension.BuildExtension")

BuildExtension = stand_in("torch.utils.cpp_extension", "BuildExtension")


def _refuse(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"torch.utils.cpp_extension.{name} is not available in Rushlight: {_REASON}")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Refused: there are no headers of PyTorch to build against."
    return refuse


CppExtension, CUDAExtension, SyclExtension = _refuse("CppExtension"), _refuse("CUDAExtension"), _refuse("SyclExtension")
load, load_inline = _refuse("load"), _refuse("load_inline")
include_paths, library_paths = _refuse("include_paths"), _refuse("library_paths")
get_compiler_abi_compatibility_and_version = _refuse("get_compiler_abi_compatibility_and_version")
remove_extension_h_precompiler_headers = _refuse("remove_extension_h_precompiler_headers")


def get_cxx_compiler() -> str:
    """The command of the C++ compiler."""
    return os.environ.get("CXX", "c++")


def check_compiler_is_gcc(compiler: str) -> bool:
    """Whether a compiler is GCC, by what it says of itself."""
    import subprocess

    try:
        said = subprocess.run(
            [compiler, "-v"], capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"}
        )
    except OSError:
        return False
    return "gcc version" in said.stderr + said.stdout


def check_compiler_ok_for_platform(compiler: str) -> bool:
    """False: no compiler builds extensions here."""
    return False


def is_ninja_available() -> bool:
    """Whether the program ninja is found."""
    from shutil import which  # noqa: PLC0415

    return which("ninja") is not None


def verify_ninja_availability() -> None:
    """Raise unless ninja is found."""
    if not is_ninja_available():
        raise RuntimeError("cpp_extension: the program ninja is missing. `pip install ninja` installs it")


def get_default_build_root() -> str:
    """Where builds go unless TORCH_EXTENSIONS_DIR is set: below the user's cache, where nobody else writes."""
    return os.path.realpath(os.path.join(os.path.expanduser(environment.get("XDG_CACHE_HOME")), "torch_extensions"))


def _get_build_directory(name: str, verbose: bool) -> str:
    """The folder of one extension's build, for libraries that build theirs without `load`: made where it is new, for
    this user only."""
    root = environment.get("TORCH_EXTENSIONS_DIR")
    if not root:
        kind = f"cu{version.cuda.replace('.', '')}" if version.cuda else "cpu"
        python = f"py{sys.version_info.major}{sys.version_info.minor}{getattr(sys, 'abiflags', '')}"
        root = os.path.join(get_default_build_root(), f"{python}_{kind}")
    folder = os.path.join(root, name)
    if not os.path.exists(folder):
        if verbose:
            print(f"cpp_extension: builds of {name} go to {folder}", file=sys.stderr)
        _make_private(folder)
    return folder


def _make_private(folder: str) -> None:
    """`os.makedirs` whose every new folder is this user's alone, not the last one only."""
    parent = os.path.dirname(folder)
    if parent and not os.path.isdir(parent):
        _make_private(parent)
    os.makedirs(folder, mode=0o700, exist_ok=True)
