"""Build the native module in place, so that the source tree can be imported without installing it.

Enters: csrc/*.cpp and CMakeLists.txt. Leaves: rushlight/_C.<abi>.so, _extras, and the objects of the last build under
build/dev*/ so that the next run compiles only what changed. It refuses to install anything: cmake must be
present (`pip install cmake ninja`, or the system's); ninja and ccache are used when found.

    python tools/dev_build.py                    release build for this interpreter
    python tools/dev_build.py --debug            -O1, asserts, debug information
    python tools/dev_build.py --asan             AddressSanitizer; prints how to run Python with it
    python tools/dev_build.py --python python3.12
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import filecmp
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "rushlight"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Build the native modules of rushlight in place.")
    parser.add_argument("--asan", action="store_true", help="build with AddressSanitizer")
    parser.add_argument("--debug", action="store_true", help="asserts and debug information, little optimisation")
    parser.add_argument("--lto", action="store_true", help="optimise across translation units")
    parser.add_argument("--python", default=sys.executable, help="interpreter to build for (default: this one)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="parallel compiler processes")
    parser.add_argument("--clean", action="store_true", help="start from an empty build folder")
    parser.add_argument("--verbose", action="store_true", help="show the compiler command lines")
    return parser.parse_args()


def find_tool(name: str) -> str | None:
    """A tool beside this interpreter (a virtual environment's) first, then on PATH."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else shutil.which(name)


def describe_python(python: str) -> tuple[str, str, Path]:
    """The absolute path of `python`, its version as "3.12", and its folder of installed packages."""
    code = ("import sys, sysconfig\n"
            "print(sys.executable, '%d.%d' % sys.version_info[:2], sysconfig.get_path('platlib'), sep='\\n')")
    answer = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.split("\n")
    return answer[0], answer[1], Path(answer[2])


def build_folder(options: argparse.Namespace, version: str) -> Path:
    """One folder per configuration, so that switching between them does not recompile everything."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    parts = ["dev"]
    parts += [version] if version != here else []
    parts += [name for name in ("debug", "asan", "lto") if getattr(options, name)]
    return ROOT / "build" / "-".join(parts)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path`: two builds of one tree take turns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("dev_build: another build is running, waiting for it", flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def configure(options: argparse.Namespace, cmake: str, python: str, folder: Path) -> None:
    command = [cmake, "-S", str(ROOT), "-B", str(folder), f"-DPython_EXECUTABLE={python}"]
    command.append(f"-DCMAKE_BUILD_TYPE={'Debug' if options.debug else 'Release'}")
    command.append(f"-DRUSHLIGHT_SANITIZE={'address' if options.asan else ''}")
    command.append(f"-DRUSHLIGHT_LTO={'ON' if options.lto else 'OFF'}")
    ninja, ccache = find_tool("ninja"), find_tool("ccache")
    if ninja:
        command += ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"]
    if ccache:
        command.append(f"-DCMAKE_CXX_COMPILER_LAUNCHER={ccache}")
    done = subprocess.run(command, capture_output=not options.verbose, text=True)
    if done.returncode:
        sys.exit(f"dev_build: cmake could not configure the build\n{done.stdout or ''}{done.stderr or ''}")


def compile_modules(options: argparse.Namespace, cmake: str, folder: Path) -> list[Path]:
    """Run the build and return the modules it made."""
    # ccache: relative paths in the hash let other checkouts of the same sources share the objects.
    environment = dict(os.environ, CCACHE_BASEDIR=str(ROOT), CCACHE_NOHASHDIR="1")
    command = [cmake, "--build", str(folder), "--parallel", str(options.jobs)]
    command += ["--verbose"] if options.verbose else []
    if subprocess.run(command, env=environment).returncode:
        sys.exit("dev_build: compilation failed (see above)")
    found = []
    for name in ("_C", "_extras", "_stable"):
        built = sorted(folder.glob(f"{name}.*.so"), key=lambda path: path.stat().st_mtime)
        if not built:
            sys.exit(f"dev_build: the build finished, but left no {name}.*.so in {folder}")
        found.append(built[-1])
    return found


def install(module: Path, folder: Path) -> Path:
    """Copy `module` into `folder` by rename: a process that has the old one mapped keeps it."""
    target = folder / module.name
    if target.exists() and filecmp.cmp(module, target, shallow=False):
        return target
    handle, temporary = tempfile.mkstemp(prefix=".build-", suffix=".so", dir=folder)
    os.close(handle)
    shutil.copy2(module, temporary)
    os.replace(temporary, target)
    return target


def main() -> None:
    options = parse_arguments()
    cmake = find_tool("cmake")
    if cmake is None:
        sys.exit("dev_build: cmake was not found. Install it: pip install cmake ninja")
    python, version, packages = describe_python(options.python)
    folder = build_folder(options, version)
    with locked(ROOT / "build" / ".lock"):
        if options.clean and folder.exists():
            shutil.rmtree(folder)
        configure(options, cmake, python, folder)
        modules = compile_modules(options, cmake, folder)
        targets = [install(module, PACKAGE) for module in modules]
        (PACKAGE / "lib").mkdir(exist_ok=True)
        for library in sorted((folder / "lib").glob("lib*.so")):     # the names of PyTorch's libraries
            install(library, PACKAGE / "lib")
        editable = packages / PACKAGE.name
        # `pip install -e .` keeps its modules there and prefers them to those in the tree: replace them as well.
        if (editable / modules[0].name).exists() and not (editable / "__init__.py").exists():
            for module in modules:
                install(module, editable)
    for target in targets:
        print(f"dev_build: {target.relative_to(ROOT)} ({target.stat().st_size // 1024} KiB)")
    if options.asan:
        # libstdc++ as well: the sanitizer must find the real __cxa_throw before a library that throws is loaded.
        names = ("libasan.so", "libstdc++.so")
        found = [
            subprocess.run(["c++", f"-print-file-name={name}"], capture_output=True, text=True).stdout for name in names
        ]
        preload = " ".join(text.strip() for text in found)
        print(f'Run with: LD_PRELOAD="{preload}" ASAN_OPTIONS=detect_leaks=0:log_path=asan.log {python} -m pytest ...')


if __name__ == "__main__":
    main()
