"""Build the wheels of a release for every Python and processor, and audit them.

Enters: this tree; Zig's compiler, which brings the headers and stubs of every glibc and a static C++ library; the
headers of each Python. Leaves: dist/rushlight-*-cp3XY-cp3XY-manylinux_2_28_{x86_64,aarch64}.whl, each audited; a wheel
that fails its audit is removed and the command fails.

    pip install build ziglang auditwheel
    python tools/build_wheels.py                                    each Python 3.11-3.14 found here, both processors
    python tools/build_wheels.py --python 3.12 --machine aarch64    one of them
    python tools/build_wheels.py --headers FOLDER                   also a Python whose headers alone are here
                                                                    (FOLDER/Python.h; of a
                                                                    Debian package unpacked: usr/include/python3.X)
    python tools/build_wheels.py --audit dist/*.whl                 audit wheels made elsewhere

Everything in a wheel but the native module is the same for all of them, so one wheel is built by the package's own
build (`pip wheel .`), and each of the others is that wheel with its own module: that needs headers, but no interpreter.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
GLIBC = (2, 28)   # that of the oldest systems NumPy and llvmlite still have wheels for
MACHINES = ("x86_64", "aarch64")
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORM = f"manylinux_{GLIBC[0]}_{GLIBC[1]}"
MOST_BYTES = 4 << 20
MODULES = ("_C", "_extras")
NATIVE = rf"rushlight/({'|'.join(MODULES)})\.[^/]*\.so"
WANTED = (
    "rushlight/py.typed",
    "rushlight/__init__.pyi",
    "rushlight/op/ops.tables",
    "rushlight/devices/device_table.h",
    "rushlight/compat/shim/torch/__init__.py",
)
LIBRARIES = {
    "libc.so.6",
    "libm.so.6",
    "libpthread.so.0",
    "libdl.so.2",
    "librt.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
}


class Target(NamedTuple):
    version: str              # "3.12"
    machine: str
    headers: tuple[str, ...]  # folders

    @property
    def tag(self) -> str:
        return f"cp{self.version.replace('.', '')}"

    @property
    def suffix(self) -> str:
        return f".cpython-{self.version.replace('.', '')}-{self.machine}-linux-gnu.so"


# --- what there is to build for ---------------------------------------------------------------------------------------


def found_pythons() -> Iterator[tuple[str, tuple[str, ...]]]:
    """(version, folders of headers) of the interpreters here: this one, those on PATH, those that pyenv keeps."""
    kept = sorted((Path.home() / ".pyenv" / "versions").glob("3.*/bin/python"))
    named = [shutil.which(f"python{version}") for version in VERSIONS]
    for python in (sys.executable, *filter(None, named), *map(str, kept)):
        code = (
            "import sys, sysconfig; print('%d.%d' % sys.version_info[:2], sysconfig.get_path('include'),"
            " sysconfig.get_path('platinclude'), sep='\\n')"
        )
        done = subprocess.run([python, "-c", code], capture_output=True, text=True)
        if not done.returncode:
            version, *folders = done.stdout.split("\n")[:3]
            if Path(folders[0], "Python.h").exists():
                yield version, tuple(dict.fromkeys(folders))


def version_of(headers: Path) -> str:
    """The version whose headers these are."""
    text = (headers / "patchlevel.h").read_text()
    return ".".join(re.search(rf"#define PY_{part}_VERSION\s+(\d+)", text).group(1) for part in ("MAJOR", "MINOR"))


def targets_of(options: argparse.Namespace) -> list[Target]:
    known: dict[str, tuple[str, ...]] = {}
    for version, folders in found_pythons():
        known.setdefault(version, folders)
    for folder in map(Path, options.headers):
        known[version_of(folder)] = (str(folder),)
    wanted = options.python or VERSIONS
    absent = [version for version in wanted if version not in known]
    if absent:
        print(f"build_wheels: no headers of Python {', '.join(absent)} here (--headers FOLDER gives them)")
    return [
        Target(version, machine, known[version])
        for version in wanted
        if version in known
        for machine in options.machine or MACHINES
    ]


# --- building ---------------------------------------------------------------------------------------------------------


def run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command], env={**os.environ, **environment}, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"build_wheels: {' '.join(map(str, command))} failed\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def compiler(folder: Path, machine: str) -> Path:
    """A compiler command for this processor and an old glibc. CMake wants one file, and Zig is called with words."""
    zig = f'"{sys.executable}" -m ziglang'
    for name, word in (("c++", "c++"), ("ar", "ar"), ("ranlib", "ranlib")):
        extra = f" -target {machine}-linux-gnu.{GLIBC[0]}.{GLIBC[1]}" if word == "c++" else ""
        (folder / name).write_text(f'#!/bin/sh\nexec {zig} {word}{extra} "$@"\n')
        (folder / name).chmod(0o755)
    return folder / "c++"


def headers_for(target: Target, folder: Path) -> tuple[str, ...]:
    """The headers, with the part that depends on the processor where they look for it.

    Debian keeps that part beside them, in <triple>/python3.X, among the headers of the C library,
    which must not be seen: it is copied.
    """
    own = Path(f"{target.machine}-linux-gnu", f"python{target.version}")
    beside = Path(target.headers[0]).parent / own
    if not beside.is_dir():
        return target.headers
    shutil.copytree(beside, folder / "headers" / own, dirs_exist_ok=True)
    return (target.headers[0], str(folder / "headers"))


def compile_modules(target: Target, jobs: int, keep: Path | None) -> list[Path]:
    """The native modules of a target."""
    folder = (keep or Path(tempfile.mkdtemp(prefix="rushlight-"))) / f"{target.tag}-{target.machine}"
    folder.mkdir(parents=True, exist_ok=True)
    command = compiler(folder, target.machine)
    headers = headers_for(target, folder)
    # No path of this machine in the module; nothing in it but code; undefined behaviour is not to trap in a release.
    flags = f"-ffile-prefix-map={ROOT}=. -fno-sanitize=undefined -g0"
    run(
        "cmake",
        "-G",
        "Ninja",
        "-S",
        ROOT,
        "-B",
        folder / "build",
        "-DCMAKE_BUILD_TYPE=Release",
        f"-DCMAKE_CXX_COMPILER={command}",
        f"-DCMAKE_AR={folder / 'ar'}",
        f"-DCMAKE_RANLIB={folder / 'ranlib'}",
        f"-DCMAKE_CXX_FLAGS={flags}",
        "-DCMAKE_MODULE_LINKER_FLAGS=-s",
        "-DCMAKE_SYSTEM_NAME=Linux",
        f"-DCMAKE_SYSTEM_PROCESSOR={target.machine}",
        f"-DRUSHLIGHT_PYTHON_HEADERS={';'.join(headers)}",
        f"-DRUSHLIGHT_PYTHON_SUFFIX={target.suffix}",
        "-DRUSHLIGHT_STABLE=OFF",      # Zig's C++ library cannot catch what extensions throw, who have libstdc++
    )
    run("cmake", "--build", folder / "build", "--parallel", str(jobs))
    return [folder / "build" / f"{name}{target.suffix}" for name in MODULES]


def base_wheel(folder: Path) -> Path:
    """The wheel that the package's own build makes for this interpreter."""
    launcher = f" -DCMAKE_CXX_COMPILER_LAUNCHER={found}" if (found := shutil.which("ccache")) else ""
    run(
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--outdir",
        folder,
        ROOT,
        CMAKE_ARGS=f"{os.environ.get('CMAKE_ARGS', '')} -DRUSHLIGHT_STABLE=OFF{launcher}",
    )
    (result,) = folder.glob("rushlight-*.whl")
    return result


def with_modules(base: Path, target: Target, modules: list[Path], out: Path) -> Path:
    """The base wheel with other native modules, and the tags and the record that go with them."""
    name, version = base.name.split("-")[:2]
    result = out / f"{name}-{version}-{target.tag}-{target.tag}-{PLATFORM}_{target.machine}.whl"
    info = f"{name}-{version}.dist-info"
    rows: list[str] = []
    with zipfile.ZipFile(base) as source, zipfile.ZipFile(result, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        def add(path: str, data: bytes, mode: int = 0o644) -> None:
            entry = zipfile.ZipInfo(path, date_time=(2020, 1, 1, 0, 0, 0))   # the same sources give the same wheel
            entry.external_attr, entry.compress_type = mode << 16, zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append(f"{path},sha256={digest},{len(data)}")

        for path in sorted(source.namelist()):
            if path == f"{info}/WHEEL":
                text = re.sub(r"(?m)^Tag: .*\n", "", source.read(path).decode()).rstrip("\n")
                add(path, f"{text}\nTag: {target.tag}-{target.tag}-{PLATFORM}_{target.machine}\n".encode())
            elif path != f"{info}/RECORD" and not re.fullmatch(NATIVE, path):
                add(path, source.read(path))
        for module in modules:
            add(f"rushlight/{module.name}", module.read_bytes(), 0o755)
        rows.append(f"{info}/RECORD,,\n")
        wheel.writestr(f"{info}/RECORD", "\n".join(rows))
    return result


# --- auditing ---------------------------------------------------------------------------------------------------------


def audit(wheel: Path) -> list[str]:
    """What is wrong with a wheel, in sentences."""
    wrong: list[str] = []
    match = re.fullmatch(r"rushlight-[\w.]+-(cp3\d+)-\1-manylinux_(\d+)_(\d+)_(x86_64|aarch64)\.whl", wheel.name)
    if match is None:
        return [f"its name does not say a Python and a manylinux platform: {wheel.name}"]
    version, floor, machine = match.group(1)[2:], (int(match.group(2)), int(match.group(3))), match.group(4)
    if wheel.stat().st_size > MOST_BYTES:
        wrong.append(f"it has {wheel.stat().st_size >> 10} KiB, and {MOST_BYTES >> 10} are allowed")
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        names = set(archive.namelist())
        wrong += [f"it lacks {name}" for name in WANTED if name not in names]
        for ending in (".egg-info/PKG-INFO", "entry_points.txt", "licenses/LICENSE"):
            wrong += [] if any(name.endswith(ending) for name in names) else [f"it has no file that ends in {ending}"]
        sources = {
            path.relative_to(ROOT).as_posix()
            for ending in ("*.py", "*.pyi", "*.txt")
            for path in (ROOT / "rushlight").rglob(ending)
        }
        wrong += [f"it lacks the source {name}" for name in sorted(sources - names)[:5]]
        wrong += [
            f"it has a file that the tree has not: {name}"
            for name in sorted(names - sources)
            if name.endswith((".py", ".pyi")) or (name.endswith(".txt") and ".dist-info/" not in name)
        ][:5]
        modules = [f"rushlight/{name}.cpython-{version}-{machine}-linux-gnu.so" for name in MODULES]
        if lacking := [f"it lacks {module}" for module in modules if module not in names]:
            return [*wrong, *lacking]
        wrong += audit_paths(archive)
        for module in modules:
            wrong += audit_module(Path(archive.extract(module, folder)), machine, floor)
    shown = subprocess.run([sys.executable, "-m", "auditwheel", "show", str(wheel)], capture_output=True, text=True)
    if not shown.returncode and f"manylinux_{floor[0]}_{floor[1]}_{machine}" not in shown.stdout:
        wrong.append(f"auditwheel gives it another platform: {' '.join(shown.stdout.split())[:200]}")
    return wrong


def audit_paths(archive: zipfile.ZipFile) -> list[str]:
    """Paths of the machine that built it."""
    here = [str(ROOT), str(Path.home()), sys.prefix]
    here = [path.encode() for path in here if len(path) > 4] + [b"/root/", b"/home/"]
    return [f"{name} mentions {path.decode()}" for name in archive.namelist() if not name.endswith((".py", ".pyi"))
            for data in (archive.read(name),) for path in here if path in data]


def audit_module(path: Path, machine: str, floor: tuple[int, int]) -> list[str]:
    """What the module asks of the system: its processor, its libraries, the glibc of its symbols,
    where it looks for libraries."""
    from elftools.elf.elffile import ELFFile  # auditwheel brings it
    from elftools.elf.gnuversions import GNUVerNeedSection

    wrong = []
    with open(path, "rb") as file:
        elf = ELFFile(file)
        expected = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}[machine]
        if elf["e_machine"] != expected:
            wrong.append(f"the module is for {elf['e_machine']}, not for {expected}")
        for section in elf.iter_sections():
            if isinstance(section, GNUVerNeedSection):
                needed = [version.name for _, versions in section.iter_versions() for version in versions]
                newer = [
                    name
                    for name in needed
                    if name.startswith("GLIBC_") and tuple(map(int, name[6:].split(".")[:2])) > floor
                ]
                foreign = [name for name in needed if not name.startswith("GLIBC_")]
                wrong += [f"the module needs {name}, newer than glibc {floor[0]}.{floor[1]}" for name in newer]
                wrong += [f"the module needs {name} of a C++ library" for name in foreign]
            if section.name.startswith(".debug"):
                wrong.append(f"the module has debug information ({section.name})")
        dynamic = elf.get_section_by_name(".dynamic")
        for entry in dynamic.iter_tags():
            if entry.entry.d_tag in ("DT_RPATH", "DT_RUNPATH"):
                wrong.append("the module has an RPATH")
            if entry.entry.d_tag == "DT_NEEDED" and entry.needed not in LIBRARIES:
                wrong.append(f"the module needs the library {entry.needed}")
    return wrong


def is_sound(wheel: Path) -> bool:
    wrong = audit(wheel)
    print(f"build_wheels: {wheel.name}, {wheel.stat().st_size >> 10} KiB: {'sound' if not wrong else 'unsound'}")
    for sentence in wrong:
        print(f"    {sentence}")
    return not wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="Build and audit the wheels of a release.")
    parser.add_argument("--python", action="append", choices=VERSIONS, help="only this version (may be repeated)")
    parser.add_argument("--machine", action="append", choices=MACHINES, help="only this processor (may be repeated)")
    parser.add_argument(
        "--headers", action="append", default=[], help="a folder with Python.h, of a Python that is not installed"
    )
    parser.add_argument("--base", type=Path, help="a wheel of these sources to take everything but the module from")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument(
        "--keep", type=Path, help="build in this folder and leave it, so that the next run compiles only what changed"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--audit", nargs="+", type=Path, metavar="WHEEL", help="audit these wheels; build nothing")
    options = parser.parse_args()
    if options.audit:
        return int(sum(not is_sound(wheel) for wheel in options.audit) > 0)
    options.out.mkdir(parents=True, exist_ok=True)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        base = options.base or base_wheel(Path(folder))
        for target in targets_of(options):
            wheel = with_modules(base, target, compile_modules(target, options.jobs, options.keep), options.out)
            if not is_sound(wheel):
                wheel.unlink()
                failed += 1
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
