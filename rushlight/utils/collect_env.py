"""What a bug report needs to know: versions, the system, the processor, and related packages.
`python -m rushlight.utils.collect_env`."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from typing import NamedTuple

from .. import _C
from ..version import __version__

PACKAGES = (
    "numpy",
    "llvmlite",
    "scipy-openblas64",
    "scipy",
    "torch",
    "torchvision",
    "torchaudio",
    "transformers",
    "lightning",
    "onnx",
    "mypy",
)


class SystemEnv(NamedTuple):
    """The facts, by PyTorch's names for them."""

    torch_version: str
    is_debug_build: str
    cuda_compiled_version: str
    gcc_version: str
    os: str
    libc_version: str
    python_version: str
    python_platform: str
    is_cuda_available: str
    num_threads: int
    pip_packages: str
    cpu_info: str


def get_cpu_info() -> str:
    """The processor's name and how many units it has."""
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    except OSError:
        pass
    return f"{name}, {os.cpu_count()} logical processors"


def get_pip_packages() -> str:
    """Related packages that are installed."""
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name}=={importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return "\n".join(found)


def get_env_info() -> SystemEnv:
    """All of it."""
    return SystemEnv(
        torch_version=str(__version__), is_debug_build="False", cuda_compiled_version="None",
        gcc_version=platform.python_compiler(), os=platform.platform(), libc_version="-".join(platform.libc_ver()),
        python_version=f"{sys.version} ({sys.maxsize.bit_length() + 1}-bit runtime)".replace("\n", " "),
        python_platform=platform.platform(), is_cuda_available="False", num_threads=_C.get_num_threads(),
        pip_packages=get_pip_packages(), cpu_info=get_cpu_info(),
    )


def pretty_str(envinfo: SystemEnv) -> str:
    """The facts as lines."""
    e = envinfo
    packages = "\n".join(f"[pip3] {line}" for line in e.pip_packages.splitlines()) or "[pip3] No relevant packages"
    return (
        f"Rushlight, serving as PyTorch version: {e.torch_version}\nIs debug build: {e.is_debug_build}\nCUDA used to"
        f" build PyTorch: {e.cuda_compiled_version}\n\nOS: {e.os}\nCompiler: {e.gcc_version}\nLibc version:"
        f" {e.libc_version}\n\nPython version: {e.python_version}\nPython platform: {e.python_platform}\nIs CUDA"
        f" available: {e.is_cuda_available}\nThreads: {e.num_threads}\n\nCPU:\n{e.cpu_info}\n\nVersions of relevant"
        f" libraries:\n{packages}"
    )


def get_pretty_env_info() -> str:
    """Everything as text."""
    return pretty_str(get_env_info())


def main() -> None:
    """Print everything."""
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
