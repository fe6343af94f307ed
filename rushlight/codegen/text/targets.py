"""Machines that code can be generated for, as plain records; knows the host without importing LLVM.

Enters: a target name. Leaves: a `Target`: triple, CPU, features, vector width. Refuses: unknown names.
"""

from __future__ import annotations

import functools
import os
import sys

from ...base.digest import digest
from ...loops.record import Record


class Target(Record):
    """vector_bits 0 means scalar code; is_gpu makes the outermost loop a grid-stride loop.

    fma_overwrites_addend: see `Lowering.reload`. has_maximum: NaN-propagating minimum and maximum are instructions.
    has_reciprocal_steps: so are an estimate of 1 / x and the factor that refines it (see `Lowering.near_quotients`).
    point_ahead: how many bytes before they are read elementwise kernels ask for memory, where the processor's own
    guesses come too late (tensors that lie in the second and third cache take a third less time on a Neoverse N1;
    twice the distance makes three streams from memory slower).
    joins_registers: neighbouring registers are one operand, so that vectors of a loop are one wide vector. has_half:
    conversions from and to half precision are instructions. truncates: so is the conversion of a vector of floats to
    integers towards zero, in a way that can be relied on (qemu 7 gives up at RISC-V's).
    """

    name: str
    triple: str
    cpu: str = ""
    features: str = ""
    vector_bits: int = 128
    registers: int = 32
    pointer_size: int = 8
    fma_overwrites_addend: bool = False
    has_maximum: bool = False
    has_reciprocal_steps: bool = False
    point_ahead: int = 0
    joins_registers: bool = False
    has_half: bool = True
    truncates: bool = True
    is_gpu: bool = False
    linkage: str = ""


POINT_AHEAD = 256    # of AArch64

_TARGETS = (
    Target("x86-64-avx2", "x86_64-unknown-linux-gnu", "x86-64-v3", vector_bits=256, registers=16),
    Target("x86-64-avx512", "x86_64-unknown-linux-gnu", "x86-64-v4", "-prefer-256-bit", vector_bits=512),
    Target("aarch64", "aarch64-unknown-linux-gnu", "generic", "+neon", fma_overwrites_addend=True, has_maximum=True,
           has_reciprocal_steps=True, point_ahead=POINT_AHEAD),
    # Registers of 128 bits or more, two of them as one: the same vectors, and so the same sums, however wide they are.
    Target("riscv64", "riscv64-unknown-linux-gnu", "generic-rv64", "+m,+a,+f,+d,+c,+v", vector_bits=256, registers=16,
           joins_registers=True, has_half=False),
    Target("wasm32", "wasm32-unknown-unknown", "generic", "+simd128,+nontrapping-fptoint", registers=16, pointer_size=4,
           has_maximum=True, has_half=False),
    Target("nvptx64", "nvptx64-nvidia-cuda", "sm_80", "+ptx80", 0, is_gpu=True, linkage="ptx_kernel "),
)
TARGETS = {target.name: target for target in _TARGETS}


def find_target(name: str) -> Target:
    """The target called `name`; `host` needs LLVM to name its CPU, so ask `cpu.host_target` for that."""
    if name not in TARGETS:
        raise ValueError(f"codegen: unknown target {name!r}. Known: host, {', '.join(TARGETS)}.")
    return TARGETS[name]


@functools.cache
def machine() -> str:
    """The host's architecture, as `platform.machine` names it."""
    return os.uname().machine if hasattr(os, "uname") else os.environ.get("PROCESSOR_ARCHITECTURE", "")


# Valgrind hides these from programs that ask the processor, not from those that read Linux's description.
_NOT_IN_VALGRIND = (b"avx512", b"amx", b"avx_", b"vaes", b"vpclmul", b"gfni")


def _is_in_valgrind() -> bool:
    """Whether valgrind runs this process: it loads a library of its own into those it runs."""
    return "vgpreload" in os.environ.get("LD_PRELOAD", "")


@functools.cache
def host_identity() -> bytes:
    """What the host's machine code depends on, read without LLVM: architecture and the first core's description.

    Only the head of /proc/cpuinfo is read: on machines with many cores the whole file takes milliseconds.
    """
    lines: list[str] = []
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            head = file.read(8192).decode(errors="replace").split("\n\n")[0]
        kept = ("flags", "Features", "model name", "cpu family", "model", "stepping", "isa", "CPU")
        lines = [line for line in head.splitlines() if line.startswith(kept)]
    except OSError:
        lines = [os.environ.get("PROCESSOR_IDENTIFIER", "")]
    # Frequency wanders on x86 ("cpu MHz" is not kept); everything kept is stable across boots.
    text = "\n".join([machine(), sys.byteorder, os.name, *lines, *(["valgrind"] if _is_in_valgrind() else [])])
    return digest(text.encode())


@functools.cache
def cpu_words() -> frozenset[bytes]:
    """What Linux says of the first core, word by word: among others, the names of its extensions. Empty elsewhere."""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            words = file.read(8192).split(b"\n\n")[0].split()
    except OSError:
        return frozenset()
    return frozenset(w for w in words if not w.startswith(_NOT_IN_VALGRIND)) if _is_in_valgrind() else frozenset(words)


@functools.cache
def vector_bits() -> int:
    """Width of this processor's vectors, found without LLVM."""
    if machine() not in ("x86_64", "AMD64"):
        return 128
    words = cpu_words()
    if not words:
        return 256
    return 512 if b"avx512f" in words and b"avx512vl" in words else 256 if b"avx2" in words else 128


@functools.cache
def second_cache() -> int:
    """Bytes of this processor's second-level cache, as Linux says; 1 MiB where nobody does."""
    try:
        with open("/sys/devices/system/cpu/cpu0/cache/index2/size", "rb", buffering=0) as file:
            text = file.read(32).decode(errors="replace").strip()
        return int(text[:-1]) << {"K": 10, "M": 20}[text[-1:]]
    except (OSError, ValueError, KeyError):
        return 1 << 20
