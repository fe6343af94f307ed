"""Building C++: compilers, folders, and the runtime library that extensions are linked with.

Enters: sources and flags. Leaves: objects, modules and programs, made by ninja or one command after another. Refuses
folders that other users may write to, and says in one sentence which tool is missing.

The runtime is compiled by the user's own compiler the first time an extension is built: a wheel's C++ library need not
be theirs. It is an archive, so that what is built can be carried to a machine without a compiler.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from .. import version
from ..base import environment, late

PACKAGE = Path(__file__).resolve().parents[1]
HEADERS = PACKAGE / "include"
SOURCES = Path(__file__).with_name("runtime")
LIBRARY = "rushlight_cxx"
LINK_NAMES = (
    "c10",
    "torch",
    "torch_cpu",
    "torch_python",
    "c10_cuda",
    "torch_cuda",
)  # what programs ask the linker for
CUDA_SOURCES = (".cu", ".cuh")
USUAL_CUDA = Path("/usr/local/cuda")


class Step(NamedTuple):
    """One command: what it makes, of what."""

    output: str
    inputs: tuple[str, ...]
    command: tuple[str, ...]
    kind: str  # "compile" or "link"
    also: tuple[str, ...] = ()  # files that make it stale


# --- tools ------------------------------------------------------------------------------------------------------------


def cxx_compiler() -> str:
    """The command of the C++ compiler."""
    return environment.get("CXX") or "c++"


def require_compiler(command: str) -> None:
    """RuntimeError where the compiler is not installed."""
    if shutil.which(shlex.split(command)[0]) is None:
        raise RuntimeError(
            f"cpp_extension: the C++ compiler {command} was not found. Install one (the package g++ or clang), "
            "or name it in the variable CXX"
        )


def ninja_command() -> str | None:
    """The path of ninja: beside this interpreter, or on PATH."""
    beside = Path(sys.executable).with_name("ninja")
    return str(beside) if beside.exists() else shutil.which("ninja")


def require_ninja() -> None:
    """RuntimeError where ninja is not installed."""
    if ninja_command() is None:
        raise RuntimeError("cpp_extension: the program ninja is missing. `pip install ninja` installs it")


def cuda_home() -> str | None:
    """The folder of the CUDA toolkit: by variable, by nvcc's place, or where its installer puts it; None where there is
    none."""
    named = environment.get("CUDA_HOME") or environment.get("CUDA_PATH")
    if named:
        return named
    found = shutil.which("nvcc")
    beside = [Path(found).resolve().parent.parent] if found else []   # nvcc may be a script that calls another
    homes = (home for home in (*beside, USUAL_CUDA) if (home / "include" / "cuda_runtime.h").exists())
    return next(map(str, homes), None)


def nvcc(home: str | None) -> str:
    """The command of the CUDA compiler; RuntimeError where it is not installed."""
    command = os.path.join(home, "bin", "nvcc") if home else shutil.which("nvcc")
    if not command or not os.path.exists(command):
        raise RuntimeError(
            "cpp_extension: nvcc was not found, which CUDA sources need. Install the CUDA toolkit and name its "
            "folder in the variable CUDA_HOME"
        )
    return command


def jobs() -> int | None:
    """How many commands may run at once: the variable MAX_JOBS."""
    text = environment.get("MAX_JOBS")
    return int(text) if text and text.isdigit() and int(text) > 0 else None


# --- folders ----------------------------------------------------------------------------------------------------------


def default_root() -> Path:
    """Below the user's cache, where nobody else writes."""
    return Path(os.path.realpath(Path(os.path.expanduser(environment.get("XDG_CACHE_HOME"))) / "torch_extensions"))


def build_root() -> Path:
    """Where builds go: TORCH_EXTENSIONS_DIR, or a folder for this Python below the default one."""
    named = environment.get("TORCH_EXTENSIONS_DIR")
    if named:
        return Path(named)
    kind = f"cu{version.cuda.replace('.', '')}" if version.cuda else "cpu"
    return default_root() / f"py{sys.version_info.major}{sys.version_info.minor}{getattr(sys, 'abiflags', '')}_{kind}"


def make_private(folder: str | Path) -> None:
    """`os.makedirs` whose every new folder is this user's alone, not the last one only."""
    folder = Path(folder)
    if folder.parent != folder and not folder.parent.is_dir():
        make_private(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)


def check_private(folder: str | Path) -> None:
    """RuntimeError where another user could change what is built and loaded."""
    state = os.stat(folder)
    own_group = state.st_gid in (os.getgid(), 0)
    if state.st_uid not in (os.getuid(), 0) or state.st_mode & 0o002 or (state.st_mode & 0o020 and not own_group):
        raise RuntimeError(
            f"cpp_extension: others may write to {folder}, so nothing is built or loaded there. Take their "
            "permission (chmod go-w), or choose another folder with TORCH_EXTENSIONS_DIR or build_directory"
        )


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock file: two builds of one extension take turns, and the lock ends with its process."""
    with open(folder / "lock", "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


# --- commands ---------------------------------------------------------------------------------------------------------


def python_includes() -> list[str]:
    """The folders of Python's own headers."""
    paths = sysconfig.get_paths()
    return list(dict.fromkeys((paths["include"], paths["platinclude"])))


def pybind11_include() -> str | None:
    """The folder of pybind11's headers; None where it is not installed."""
    try:
        import pybind11  # noqa: PLC0415 - a build requirement of extensions, not of ours
    except ImportError:
        return None
    return pybind11.get_include()


def require_pybind11() -> str:
    """The same; RuntimeError where it is not installed."""
    found = pybind11_include()
    if found is None:
        raise RuntimeError(
            "cpp_extension: pybind11 is missing, which torch/extension.h includes. `pip install pybind11` installs it"
        )
    return found


def failed(what: str, output: str) -> RuntimeError:
    """The error of a build; the compiler's text keeps its files and lines."""
    return RuntimeError(f"Error building extension '{what}':\n{output.strip()}")


def run_steps(name: str, steps: Sequence[Step], folder: Path, verbose: bool) -> None:
    """Run what is out of date, with ninja where it is installed."""
    ninja = ninja_command()
    if ninja is None:
        _run_in_order(name, steps, folder, verbose)
        return
    write(folder / "build.ninja", ninja_text(steps))
    command = [ninja, "-v"] + ([f"-j{jobs()}"] if jobs() else [])
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    if verbose:
        print(done.stdout, end="", flush=True)
    if done.returncode:
        raise failed(name, done.stdout)


def _run_in_order(name: str, steps: Sequence[Step], folder: Path, verbose: bool) -> None:
    for step in steps:
        output = folder / step.output
        if output.exists() and not _is_stale(step, folder, output):
            continue
        if verbose:
            print(shlex.join(step.command), flush=True)
        done = subprocess.run(
            step.command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        if verbose and done.stdout:
            print(done.stdout, end="", flush=True)
        if done.returncode:
            raise failed(name, f"{shlex.join(step.command)}\n{done.stdout}")


def _is_stale(step: Step, folder: Path, output: Path) -> bool:
    """Without ninja headers are not followed: sources are compiled anew, what is linked if an input is newer."""
    newest = max(os.stat(folder / name).st_mtime_ns for name in (*step.inputs, *step.also))
    return step.kind == "compile" or newest > output.stat().st_mtime_ns


def ninja_text(steps: Sequence[Step]) -> str:
    """A ninja file; each step is its own rule, since flags differ."""
    lines = ["ninja_required_version = 1.3", ""]
    for number, step in enumerate(steps):
        command = shlex.join(step.command).replace("$", "$$")
        follow = step.kind == "compile" and "-MF" in step.command
        lines += [f"rule step{number}", f"  command = {command}"]
        lines += [f"  depfile = {_escaped(step.output)}.d", "  deps = gcc"] if follow else []
        also = f" | {' '.join(map(_escaped, step.also))}" if step.also else ""
        lines += [f"build {_escaped(step.output)}: step{number} {' '.join(map(_escaped, step.inputs))}{also}", ""]
    return "\n".join(lines)


def _escaped(path: str) -> str:
    return path.replace("$", "$$").replace(" ", "$ ").replace(":", "$:")


def write(path: Path, text: str) -> bool:
    """Write a file atomically, unless it says this already; whether it was written."""
    if path.exists() and path.read_text() == text:
        return False
    handle, temporary = tempfile.mkstemp(prefix=".write-", dir=path.parent)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    os.replace(temporary, path)
    return True


# --- the runtime library ----------------------------------------------------------------------------------------------


def runtime_folder() -> Path:
    """The folder of the generated headers (`include`) and of the runtime library (`lib`), made where they are not there
    yet for this version, Python and compiler."""
    compiler = cxx_compiler()
    require_compiler(compiler)
    folder = build_root() / f"runtime-{_digest(compiler)}"
    if (folder / "lib" / "done").exists():
        check_private(folder)
        return folder
    make_private(folder)
    check_private(folder)
    with locked(folder):
        if not (folder / "lib" / "done").exists():
            _make_runtime(folder, compiler)
    return folder


def include_paths(device: str, with_own: bool = True) -> list[str]:
    """The folders of headers; the generated ones are made where they are not there yet."""
    folders = []
    if with_own:
        folders = [str(HEADERS), str(runtime_folder() / "include")]
        folders += [found] if (found := pybind11_include()) else []
    if device == "cuda" and (home := cuda_home()):
        folders.append(os.path.join(home, "include"))
    return folders


def library_paths(device: str, with_own: bool = True) -> list[str]:
    """The folders of libraries to link with."""
    folders = [str(runtime_folder() / "lib")] if with_own else []
    if device == "cuda" and (home := cuda_home()):
        found = (path for path in (os.path.join(home, "lib64"), os.path.join(home, "lib")) if os.path.isdir(path))
        folders += list(found)[:1]
    return folders


def _digest(compiler: str) -> str:
    seen = hashlib.sha256()
    said = subprocess.run([*shlex.split(compiler), "--version"], capture_output=True, text=True).stdout
    first, *rest = shlex.split(compiler)
    command = " ".join((shutil.which(first) or first, *rest))  # c++ and /usr/bin/c++ share one library
    for text in (version.__version__, sys.version, sysconfig.get_platform(), command, said, sys.executable):
        seen.update(text.encode() + b"\0")
    files = sorted(
        (
            *HEADERS.rglob("*.h"),
            *SOURCES.iterdir(),
            *(PACKAGE / "cxx" / name for name in ("generate.py", "outs.py")),
            *(PACKAGE / "cxx_layers" / name for name in ("records.py", "text.py")),
            *(PACKAGE / "nn").rglob("*.py"),
            *(PACKAGE / "optim").rglob("*.py"),
            PACKAGE / "aten" / "schemas.txt",
            PACKAGE / "aten" / "overload_names.txt",
        )
    )
    for path in files:
        seen.update(path.as_posix().encode() + b"\0" + path.read_bytes())
    return seen.hexdigest()[:16]


def _make_runtime(folder: Path, compiler: str) -> None:
    from . import generate  # noqa: PLC0415 - reads every op

    layers = late.provided("layers in C++")
    library = folder / "lib"
    make_private(library)
    texts = {f"include/ATen/generated/{name}": text for name, text in generate.headers().items()}
    texts |= {f"include/{name}": text for name, text in layers.headers().items()}
    texts |= {f"source/{name}": text for name, text in layers.sources().items()}
    for name, text in texts.items():
        make_private((folder / name).parent)
        write(folder / name, text)
    includes = [f"-I{path}" for path in (HEADERS, SOURCES, folder / "include", *python_includes())]
    home, python = f'-DRUSHLIGHT_HOME="{PACKAGE.parent}"', f'-DRUSHLIGHT_PYTHON="{sys.executable}"'
    steps, objects = [], []
    for source in sorted((*SOURCES.glob("*.cpp"), *(folder / "source").glob("*.cpp"))):
        made = str(library / f"{source.stem}.o")
        flags = ("-std=c++17", "-O1", "-fPIC", "-DNDEBUG", "-fvisibility=hidden", home, python, *includes)
        steps.append(
            Step(made, (str(source),), (*shlex.split(compiler), *flags, "-c", str(source), "-o", made), "compile")
        )
        objects.append(made)
    archive = str(library / f"lib{LIBRARY}.a")
    steps.append(Step(archive, tuple(objects), ("ar", "rcs", archive, *objects), "link"))
    run_steps("the runtime of extensions", steps, library, False)
    for name in LINK_NAMES:  # texts that the linker reads as "take this instead"
        write(library / f"lib{name}.so", f"INPUT({archive})\n")
    for made in objects:
        os.unlink(made)
    write(library / "done", "")
