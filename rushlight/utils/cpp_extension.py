"""C++ and CUDA extensions: `load`, `load_inline`, and what a setup.py asks for.

Enters: sources written for PyTorch's C++ names, which compile against `rushlight/include`. Leaves: imported modules,
setuptools' extensions, folders and flags. Refuses: Windows, ROCm and SYCL by name; missing tools, in one sentence.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from ..cxx import build, inline

__all__ = [
    "BuildExtension",  # noqa: F822 - made when asked for
    "CUDAExtension",
    "CppExtension",
    "SyclExtension",
    "check_compiler_ok_for_platform",
    "get_default_build_root",
    "include_paths",
    "is_ninja_available",
    "library_paths",
    "load",
    "load_inline",
    "verify_ninja_availability",
]

IS_WINDOWS, IS_MACOS, IS_LINUX = sys.platform == "win32", sys.platform == "darwin", sys.platform.startswith("linux")
LIB_EXT, EXEC_EXT = ".pyd" if IS_WINDOWS else ".so", ".exe" if IS_WINDOWS else ""
CUDNN_HOME = ROCM_HOME = HIP_HOME = SYCL_HOME = None
IS_HIP_EXTENSION = False
MINIMUM_GCC_VERSION = (9, 0, 0)
COMMON_NVCC_FLAGS: list[str] = []


def __getattr__(name: str) -> Any:
    if name == "CUDA_HOME":  # asked for late: it looks for nvcc
        return build.cuda_home()
    if name == "BuildExtension":
        from ..cxx.packaging import BuildExtension  # noqa: PLC0415 - needs setuptools

        BuildExtension.__module__ = __name__
        globals()[name] = BuildExtension
        return BuildExtension
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load(
    name: str,
    sources: str | list[str],
    extra_cflags: Any = None,
    extra_cuda_cflags: Any = None,
    extra_sycl_cflags: Any = None,
    extra_ldflags: Any = None,
    extra_include_paths: Any = None,
    build_directory: Any = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module: bool = True,
    is_standalone: bool = False,
    keep_intermediates: bool = True,
) -> Any:
    """Compile C++ and CUDA files and import them: the module, or a path where `is_python_module` is false.

    What did not change is not compiled again; what changed in this process is imported under another name.
    """
    inline.refuse_platform(with_sycl or extra_sycl_cflags is not None)
    folder = inline.folder_of(name, build_directory, verbose)
    result = inline.load(
        name,
        sources,
        extra_cflags,
        extra_cuda_cflags,
        extra_ldflags,
        extra_include_paths,
        folder,
        verbose,
        with_cuda,
        is_python_module,
        is_standalone,
    )
    _drop_intermediates(folder, keep_intermediates)
    return result


def load_inline(
    name: str,
    cpp_sources: Any,
    cuda_sources: Any = None,
    sycl_sources: Any = None,
    functions: Any = None,
    extra_cflags: Any = None,
    extra_cuda_cflags: Any = None,
    extra_sycl_cflags: Any = None,
    extra_ldflags: Any = None,
    extra_include_paths: Any = None,
    build_directory: Any = None,
    verbose: bool = False,
    with_cuda: Any = None,
    with_sycl: Any = None,
    is_python_module: bool = True,
    with_pytorch_error_handling: bool = True,
    keep_intermediates: bool = True,
    use_pch: bool = False,
    no_implicit_headers: bool = False,
) -> Any:
    """Compile C++ and CUDA given as text and import it. `functions` names what becomes callable (names, or names and
    docstrings); without it the text has its own PYBIND11_MODULE."""
    inline.refuse_platform(with_sycl or sycl_sources)
    folder = inline.folder_of(name, build_directory, verbose)
    files, needs_cuda = inline.texts(
        name, cpp_sources, cuda_sources, functions, no_implicit_headers, with_pytorch_error_handling, with_cuda
    )
    with build.locked(folder):
        for file, text in files.items():
            build.write(folder / file, text)
    result = inline.load(
        name,
        [folder / file for file in files],
        extra_cflags,
        extra_cuda_cflags,
        extra_ldflags,
        extra_include_paths,
        folder,
        verbose,
        needs_cuda,
        is_python_module,
        False,
        functions is not None or not no_implicit_headers,
        use_pch,
    )
    _drop_intermediates(folder, keep_intermediates)
    return result


def _drop_intermediates(folder: Path, keep: bool) -> None:
    if not keep:
        for path in [*folder.glob("*.o"), *folder.glob("*.o.d")]:
            path.unlink(missing_ok=True)


# --- setup.py ---------------------------------------------------------------------------------------------------------


def CppExtension(name: str, sources: Any, *args: Any, **kwargs: Any) -> Any:
    """A setuptools.Extension with the folders and flags of C++ extensions."""
    from ..cxx.packaging import extension  # noqa: PLC0415 - needs setuptools

    return extension(name, sources, args, kwargs, False)


def CUDAExtension(name: str, sources: Any, *args: Any, **kwargs: Any) -> Any:
    """A setuptools.Extension with the folders, libraries and flags of extensions with CUDA sources."""
    from ..cxx.packaging import extension  # noqa: PLC0415 - needs setuptools

    return extension(name, sources, args, kwargs, True)


def SyclExtension(name: str, sources: Any, *args: Any, **kwargs: Any) -> Any:
    """Refused: SYCL sources have no compiler here."""
    raise NotImplementedError(
        "torch.utils.cpp_extension.SyclExtension: SYCL sources are not built here. Use C++ or CUDA."
    )


def include_paths(device_type: str = "cpu", torch_include_dirs: bool = True) -> list[str]:
    """The folders of headers; the generated ones are made where they are not there yet."""
    return build.include_paths(device_type, torch_include_dirs)


def library_paths(
    device_type: str = "cpu", torch_include_dirs: bool = True, cross_target_platform: str | None = None
) -> list[str]:
    """The folders of libraries to link with."""
    if cross_target_platform is not None:
        raise NotImplementedError(
            f"library_paths: there are no libraries for another platform, got {cross_target_platform!r}"
        )
    return build.library_paths(device_type, torch_include_dirs)


# --- tools and folders ------------------------------------------------------------------------------------------------


def get_cxx_compiler() -> str:
    """The command of the C++ compiler."""
    return build.cxx_compiler()


def check_compiler_is_gcc(compiler: str) -> bool:
    """Whether a compiler is GCC, by what it says of itself."""
    return "gcc version" in _said(compiler, "-v")


def check_compiler_ok_for_platform(compiler: str) -> bool:
    """Whether a compiler is one that builds extensions: GCC or Clang."""
    said = _said(compiler, "-v")
    return "gcc version" in said or "clang version" in said


def get_compiler_abi_compatibility_and_version(compiler: str) -> tuple[bool, Any]:
    """Whether a compiler can build extensions, and its version."""
    from ..version import TorchVersion  # noqa: PLC0415

    text = _said(compiler, "-dumpfullversion", "-dumpversion").strip() or "0.0.0"
    return check_compiler_ok_for_platform(compiler), TorchVersion(text)


def _said(compiler: str, *words: str) -> str:
    try:
        done = subprocess.run(
            [compiler, *words], capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"}
        )
    except OSError:
        return ""
    return done.stderr + done.stdout


def remove_extension_h_precompiler_headers() -> None:
    """Nothing: precompiled headers lie in each extension's own folder."""


def is_ninja_available() -> bool:
    """Whether the program ninja is found."""
    return build.ninja_command() is not None


def verify_ninja_availability() -> None:
    """Raise unless ninja is found."""
    build.require_ninja()


def get_default_build_root() -> str:
    """Where builds go unless TORCH_EXTENSIONS_DIR is set: below the user's cache, where nobody else writes."""
    return str(build.default_root())


def _get_build_directory(name: str, verbose: bool) -> str:
    """The folder of one extension's build, for libraries that build theirs without `load`: made where it is new, for
    this user only."""
    folder = build.build_root() / name
    if not folder.exists():
        if verbose:
            print(f"cpp_extension: builds of {name} go to {folder}", file=sys.stderr)
        build.make_private(folder)
    return str(folder)


def _get_cuda_arch_flags(cflags: list[str] | None = None) -> list[str]:
    """-gencode options for nvcc: TORCH_CUDA_ARCH_LIST's."""
    return inline.cuda_arch_flags(cflags or [])


def _import_module_from_library(module_name: str, path: str, is_python_module: bool) -> Any:
    """The module in `path/module_name.so`."""
    return inline.imported(module_name, Path(path) / f"{module_name}{LIB_EXT}", is_python_module)
