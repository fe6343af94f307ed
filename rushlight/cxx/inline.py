"""`load` and `load_inline`: C++ compiled and imported by the program that needs it.

Enters: sources or texts, flags, names of functions. Leaves: an imported module, a loaded library, or a program's path.
Refuses: Windows, ROCm and SYCL by name, folders that others may write to, and what the compiler refuses.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shlex
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from . import build, uses
from .build import Step

_versions: dict[str, tuple[str, int]] = {}  # of this process: what a name was last built of, and how often it changed

Flags = Sequence[str] | None


def folder_of(name: str, build_directory: str | None, verbose: bool) -> Path:
    """The folder of one extension's build."""
    folder = Path(build_directory) if build_directory else build.build_root() / name
    if not folder.exists():
        if verbose:
            print(f"cpp_extension: builds of {name} go to {folder}", file=sys.stderr)
        build.make_private(folder)
    build.check_private(folder)
    return folder.resolve()


def _listed(value: str | os.PathLike | Sequence[Any] | None) -> list[str]:
    return (
        []
        if value is None
        else [os.fspath(value)]
        if isinstance(value, (str, os.PathLike))
        else [os.fspath(v) for v in value]
    )


def refuse_platform(with_sycl: bool | None) -> None:
    """NotImplementedError for what has no build here."""
    if sys.platform == "win32":
        raise NotImplementedError("cpp_extension: extensions are not built on Windows")
    if with_sycl:
        raise NotImplementedError("cpp_extension: SYCL sources are not built here. Use C++ or CUDA.")


def load(
    name: str,
    sources: Any,
    flags: Flags,
    cuda_flags: Flags,
    link_flags: Flags,
    includes: Any,
    folder: Path,
    verbose: bool,
    with_cuda: bool | None,
    is_python_module: bool,
    is_standalone: bool,
    needs_pybind: bool = True,
    with_pch: bool = False,
) -> Any:
    """Build what changed, and import it."""
    paths = [str(Path(path).resolve()) for path in _listed(sources)]
    for path in paths:
        if not os.path.exists(path):
            raise FileNotFoundError(f"cpp_extension.load: no such source: {path}")
    compiler = build.cxx_compiler()
    build.require_compiler(compiler)
    if with_cuda is None:
        with_cuda = any(path.endswith(build.CUDA_SOURCES) for path in paths)
    runtime = build.runtime_folder()
    made_of = _made_of(
        paths, [flags, cuda_flags, link_flags, includes, with_cuda, compiler, str(runtime), is_standalone]
    )
    before = _versions.get(name)
    count = 0 if before is None else before[1] + (before[0] != made_of)
    _versions[name] = (made_of, count)
    target = f"{name}_v{count}" if count else name
    ending = "" if is_standalone else ".so"
    if with_pch:
        build.make_private(folder / "pch" / "torch")
    with build.locked(folder):
        steps = _steps(
            target,
            target + ending,
            paths,
            flags,
            cuda_flags,
            link_flags,
            includes,
            with_cuda,
            is_standalone,
            runtime,
            compiler,
            is_python_module and needs_pybind,
            with_pch,
        )
        uses.run_with_fallback(lambda made: build.run_steps(name, made, folder, verbose), steps)
    library = folder / (target + ending)
    if is_standalone:
        return str(library)
    return imported(target, library, is_python_module)


def _made_of(paths: list[str], flags: list[Any]) -> str:
    seen = hashlib.sha256(repr(flags).encode())
    for path in paths:
        seen.update(path.encode() + b"\0" + Path(path).read_bytes())
    return seen.hexdigest()


def _steps(
    name: str,
    output: str,
    sources: list[str],
    flags: Flags,
    cuda_flags: Flags,
    link_flags: Flags,
    includes: Any,
    with_cuda: bool,
    is_standalone: bool,
    runtime: Path,
    compiler: str,
    needs_pybind: bool,
    with_pch: bool,
) -> list[Step]:
    folders = [*_listed(includes), str(build.HEADERS), str(runtime / "include")]
    pybind = build.require_pybind11() if needs_pybind else build.pybind11_include()
    folders += [pybind] if pybind else []
    home = build.cuda_home() if with_cuda else None
    folders += [os.path.join(home, "include")] if home else []
    shared = [
        f"-DTORCH_EXTENSION_NAME={name}",
        "-DTORCH_API_INCLUDE_EXTENSION_H",
        *(f"-I{path}" for path in folders),
        *(part for path in build.python_includes() for part in ("-isystem", path)),
    ]
    own = list(flags or ())
    lean = (lambda *_: []) if with_pch else uses.without_layers      # a precompiled header has everything
    steps, objects, also = [], [], ()
    if with_pch:
        steps.append(_precompiled([*shlex.split(compiler), *shared, "-fPIC", *_with_standard(own)]))
        also, shared = (steps[0].output,), ["-Ipch", *shared]
    for number, source in enumerate(sources):
        kind = "cuda.o" if source.endswith(build.CUDA_SOURCES) else "o"
        made = f"{Path(source).stem}{number if _is_repeated(source, sources) else ''}.{kind}"
        follow = ("-MMD", "-MF", f"{made}.d")
        if kind == "cuda.o":
            given = list(cuda_flags or ())
            command = [
                build.nvcc(home),
                *shared,
                *cuda_arch_flags(given),
                *lean([source], given, _listed(includes)),
                "--compiler-options",
                "-fPIC",
                *_with_standard(given),
                *follow,
            ]
        else:
            parts = [*lean([source], own, _listed(includes)), *_with_standard(own)]
            command = [*shlex.split(compiler), *shared, "-fPIC", *parts, *follow]
        steps.append(Step(made, (source,), (*command, "-c", source, "-o", made), "compile", also))
        objects.append(made)
    archive = str(runtime / "lib" / f"lib{build.LIBRARY}.a")
    link = [
        *shlex.split(compiler),
        *objects,
        *([] if is_standalone else ["-shared"]),
        *(link_flags or ()),
        *openmp_link_flags(own),
        f"-L{runtime / 'lib'}",
        archive,
        "-pthread",
    ]
    if with_cuda:
        link += cuda_link_flags(home)
    if is_standalone:
        link += embedding_flags()
    steps.append(Step(output, tuple(objects), (*link, "-o", output), "link", (archive,)))
    return steps


def _precompiled(command: list[str]) -> Step:
    """torch/extension.h as the compiler keeps it, which it finds before the text."""
    header, made = str(build.HEADERS / "torch" / "extension.h"), "pch/torch/extension.h.gch"
    parts = (*command, "-MMD", "-MF", f"{made}.d", "-x", "c++-header", header, "-o", made)
    return Step(made, (header,), parts, "compile")


def _is_repeated(source: str, sources: list[str]) -> bool:
    return sum(Path(other).stem == Path(source).stem for other in sources) > 1


def _with_standard(flags: list[str]) -> list[str]:
    """C++17, unless the flags say otherwise."""
    return flags if any(flag.startswith(("-std=", "--std=")) for flag in flags) else [*flags, "-std=c++17"]


def embedding_flags() -> list[str]:
    """What links a program that starts an interpreter."""
    folder, library = (
        sysconfig.get_config_var("LIBDIR"),
        sysconfig.get_config_var("LDVERSION") or sysconfig.get_config_var("VERSION"),
    )
    extra = shlex.split(sysconfig.get_config_var("LIBS") or "")
    return [f"-L{folder}", f"-Wl,-rpath,{folder}", f"-lpython{library}", *extra]


def openmp_link_flags(flags: Sequence[str]) -> list[str]:
    """What links OpenMP's runtime, which PyTorch's libraries bring: sources compiled for it need not ask."""
    return ["-fopenmp"] if "-fopenmp" in flags else []


def cuda_link_flags(home: str | None) -> list[str]:
    """What links CUDA's runtime."""
    if home is None:
        build.nvcc(None)
        return ["-lcudart"]
    folder = next(
        (path for path in (os.path.join(home, "lib64"), os.path.join(home, "lib")) if os.path.isdir(path)), home
    )
    return [f"-L{folder}", f"-Wl,-rpath,{folder}", "-lcudart"]


def cuda_arch_flags(flags: Sequence[str]) -> list[str]:
    """-gencode options: TORCH_CUDA_ARCH_LIST's, or of the GPUs that are here; none where the flags have their own."""
    if any("arch" in flag or "gencode" in flag for flag in flags):
        return []
    from ..base import environment  # noqa: PLC0415

    text = environment.get("TORCH_CUDA_ARCH_LIST")
    found = []
    for one in (text or "").replace(" ", ";").split(";"):
        number, plus, _ = one.partition("+PTX")
        digits = number.replace(".", "")
        if not one:
            continue
        if not digits.rstrip("af").isdigit():
            raise ValueError(f"TORCH_CUDA_ARCH_LIST: expected numbers such as 9.0 or 8.0+PTX, got {one!r}")
        found.append(f"-gencode=arch=compute_{digits},code=sm_{digits}")
        found += [f"-gencode=arch=compute_{digits},code=compute_{digits}"] if plus else []
    return found or (["-arch=native"] if text is not None and not text else [])


def imported(name: str, path: Path, is_python_module: bool) -> ModuleType | str:
    """The module in a file; or, of a library that only registers ops, its path once it is loaded."""
    if not is_python_module:
        from .. import ops  # noqa: PLC0415
        from .runtime import open_library  # noqa: PLC0415

        open_library(str(path))
        ops.loaded_libraries.add(str(path))
        return str(path)
    from .registering import raise_failures  # noqa: PLC0415 - C++ asks for it too, when it has operators

    found = importlib.util.spec_from_file_location(name, path)
    assert found is not None and found.loader is not None, "a path that ends in .so has a loader"
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    raise_failures()
    return module


# --- texts ------------------------------------------------------------------------------------------------------------


def texts(
    name: str, cpp: Any, cuda: Any, functions: Any, no_headers: bool, keeps_classes: bool, with_cuda: bool | None
) -> tuple[dict[str, str], bool]:
    """The files of an inline extension: its sources under one header, and the binding of the functions."""
    cpp, cuda = _listed_texts(cpp), _listed_texts(cuda)
    if not no_headers:
        cpp.insert(0, "#include <torch/extension.h>")
    if not keeps_classes:
        cpp.insert(0, "#define RUSHLIGHT_PLAIN_EXCEPTIONS")
    if functions is not None:
        chosen = functions if isinstance(functions, Mapping) else {f: f for f in _listed_texts(functions)}
        lines = ["PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {"]
        lines += [f'  m.def("{f}", &{f}, {_quoted(doc)});' for f, doc in chosen.items()]
        if no_headers:
            cpp.append("#include <torch/extension.h>")
        cpp += ["\n".join([*lines, "}"])]
    made = {"main.cpp": "\n".join(cpp) + "\n"}
    if cuda:
        if not no_headers:
            cuda[:0] = ["#include <torch/types.h>", "#include <cuda.h>", "#include <cuda_runtime.h>"]
        made["cuda.cu"] = "\n".join(cuda) + "\n"
    return made, bool(cuda) if with_cuda is None else with_cuda


def _listed_texts(value: Any) -> list[str]:
    return [] if value is None else [value] if isinstance(value, str) else list(value)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
