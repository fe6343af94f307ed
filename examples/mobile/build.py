"""A library that reads digits on a phone's processor, and a C program of one screen that calls it.

Enters: a folder, and a C compiler for AArch64. Leaves in the folder: `libdigits.a` (code, weights and a hundred
digits to try), `digits.h`, `main.c`, and the program `digits`, which prints how many of the hundred it reads. The
network is trained here; the library needs neither Python nor Rushlight, allocates nothing and calls nothing.

    python examples/mobile/build.py FOLDER                two minutes on two cores
    python examples/mobile/build.py FOLDER --cc CLANG --ar AR       another toolchain: docs/demos.md
"""

from __future__ import annotations

import argparse
import platform
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import drawn_digits  # noqa: E402

import rushlight as torch  # noqa: E402
from rushlight.freestanding import aot_compile  # noqa: E402

IS_NATIVE = platform.machine().lower() in ("aarch64", "arm64")
CC, AR = ("cc", "ar") if IS_NATIVE else ("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-ar")
COUNT = 100


def samples() -> tuple[torch.Tensor, torch.Tensor]:
    """A hundred digits that were not learned from: scans by other hands where scikit-learn is, else new drawings."""
    scans = drawn_digits.scanned()
    images, labels = scans[2:] if scans is not None else drawn_digits.drawings(COUNT // 10)
    return images[:COUNT], labels[:COUNT]


def put_model(network: torch.nn.Module, folder: Path) -> None:
    size = drawn_digits.FRAME
    example = torch.zeros(1, 1, size, size)
    print(aot_compile(network, (example,), target="aarch64", name="digits", folder=folder, link=False), flush=True)


def put_data(folder: Path) -> None:
    images, labels = samples()
    (folder / "digits.images").write_bytes((images * 255).round().to(torch.uint8).numpy().tobytes())
    (folder / "digits.labels").write_bytes(labels.to(torch.uint8).numpy().tobytes())
    for name in ("main.c", "data.S"):
        shutil.copy(HERE / name, folder / name)


def compile_all(folder: Path, cc: str, ar: str) -> None:
    """The library and the program, by the C compiler."""
    for command in (
        [cc, "-c", "data.S", "-o", "data.o"],
        [ar, "rcs", "libdigits.a", "digits.o", "data.o"],
        [cc, "-O2", "-static", "main.c", "-L.", "-ldigits", "-o", "digits"],
    ):
        print(" ".join(command), flush=True)
        subprocess.run(command, cwd=folder, check=True)


def try_out(folder: Path) -> None:
    """Run the program, where something here can."""
    emulator = [] if IS_NATIVE else [shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")]
    if emulator == [None]:
        print(f"{folder / 'digits'} is for AArch64: run it there, or install qemu-user to run it here.")
        return
    subprocess.run([*emulator, "./digits"], cwd=folder, check=True)    # prints N of 100


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cc", default=CC, help=f"C compiler for AArch64 (default {CC})")
    parser.add_argument("--ar", default=AR, help=f"archiver (default {AR})")
    parser.add_argument("--quick", action="store_true", help="train for seconds")
    options = parser.parse_args(words)
    for tool in (options.cc, options.ar):
        if shutil.which(tool) is None:
            print(f"build.py: {tool} is not on PATH. On Debian: apt-get install gcc-aarch64-linux-gnu; or name a "
                  "compiler for AArch64 and its archiver with --cc and --ar.", file=sys.stderr)
            return 2
    try:
        options.folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        print(f"build.py: {options.folder} cannot be a folder: {problem.strerror}. Name another.", file=sys.stderr)
        return 2
    put_model(drawn_digits.reader(options.quick), options.folder)
    put_data(options.folder)
    try:
        compile_all(options.folder, options.cc, options.ar)
        try_out(options.folder)
    except subprocess.CalledProcessError as problem:
        print(f"build.py: {problem.cmd[0]} failed with status {problem.returncode}; what it said is above.",
              file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
