"""LLVM IR text to machine code, through llvmlite in this process.

Enters: IR text and a `Target`. Leaves: object bytes, assembly text, or PTX. Refuses: text LLVM cannot parse
(the error carries the text's line). Importing this module imports llvmlite; only a cache miss does that.
"""

from __future__ import annotations

import functools
import os
import threading

import llvmlite.binding as llvm

from ..text.targets import POINT_AHEAD, Target, find_target

_LOCK = threading.RLock()
# A child forked while another thread generates code would find the lock held for ever, and LLVM halfway: forks wait.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


@functools.cache
def host_target() -> Target:
    """This machine, with every vector extension LLVM finds on it."""
    triple = llvm.get_default_triple()
    flags = llvm.get_host_cpu_features()
    features = flags.flatten() if flags else ""
    bits, registers, is_arm = 128, 32, triple.startswith("aarch64")
    if triple.startswith("x86_64"):
        bits, registers = 128, 16
        if flags.get("avx512f") and flags.get("avx512vl") and flags.get("avx512bw"):
            bits, registers = 512, 32
        elif flags.get("avx2"):
            bits = 256
        features += ",-prefer-256-bit"
    return Target("host", triple, llvm.get_host_cpu_name(), features, bits, registers,
                  fma_overwrites_addend=is_arm, has_maximum=is_arm, has_reciprocal_steps=is_arm,
                  point_ahead=POINT_AHEAD if is_arm else 0)


def resolve_target(target: str | Target) -> Target:
    """A target by name, or as it is."""
    if isinstance(target, Target):
        return target
    return host_target() if target == "host" else find_target(target)


@functools.cache
def _initialise(is_host: bool) -> None:
    if is_host:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()


@functools.cache
def machine(target: Target, level: int = 2) -> llvm.TargetMachine:
    """The code generator for a target, made once for each level of its effort."""
    _initialise(target.name == "host")
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu,
        features=target.features,
        opt=level,
        reloc="pic",
        codemodel="small" if not target.is_gpu else "default",
    )


# Off while we generate code: the order of our text is already a schedule, while LLVM's scheduler took a third of the
# time (add: 14.0 ms with it, 9.7 ms without) and made erf 20% slower. The option is LLVM's global, so it is put back
# for other users of LLVM in this process. Its other scheduler, behind the choice of registers, stays: without it code
# takes 7% less time to make, and products 7% more to run.
_SKIPPED = ("enable-misched=false",)
_RESTORED = ("enable-misched=true",)


def _set_options(options: tuple[str, ...]) -> None:
    for option in options:
        llvm.set_option("rushlight", "-" + option)


# Off for loops that are written by hand: they carry the addresses they need, and working out others takes up to half of
# the time (a depthwise convolution: 160 ms with it, 85 ms without, and 3% slower for it). Off for nests with tiles of
# products too: a quarter of the time (162 ms with it, 123 ms without), for steps of GPT, ResNet-18, LSTM, ViT-tiny,
# BERT and U-Net that take the same. Off for nests along rows that call named functions: an LSTM's gates take 40 and 35
# ms instead of 62 and 67, and run as before. Other nests run slower: Fourier transforms by up to 25%, pointwise ones of
# elements that lie apart by up to 3.4 times. Measured on AArch64 only.
_WITHOUT_ADDRESSES, _WITH_ADDRESSES = "disable-lsr=true", "disable-lsr=false"

# Loops around functions of tiles are compiled with no effort but to keep numbers in registers, which takes six tenths
# of the time (products of an LSTM's gradients: 27 and 15 ms, then 16 and 9) and changes theirs by less than 1%; without
# registers it would be a sixth, and shallow products 4% slower. Kernels that compute by themselves would be 5 to 15%
# slower, products that add a bias up to 8%. The option means nothing at other levels, and has no value that says so: it
# stays. Measured on AArch64 only.
_IN_REGISTERS = "optimize-regalloc=true"


def compile_ir(
    text: str, target: Target, kind: str = "object", by_hand: bool = False, only_calls: bool = False,
    as_written: bool = False,
) -> bytes | str:
    """Machine code of a module: `object` bytes or `asm` text; `by_hand`: its inner loops have the addresses they need,
    being no nest's, or those of tiles or of named functions; `only_calls`: what takes time is in functions it calls;
    `as_written`: `by_hand` on every processor, for loops that would not have registers for other addresses."""
    with _LOCK:
        is_arm = target.triple.startswith("aarch64")
        is_frame = only_calls and is_arm
        builder = machine(target, 0 if is_frame else 2)
        module = llvm.parse_assembly(text)
        module.data_layout = str(builder.target_data)
        is_plain = as_written or (by_hand and is_arm)
        _set_options((*_SKIPPED, _WITHOUT_ADDRESSES) if is_plain else _SKIPPED)
        if is_frame:
            _set_options((_IN_REGISTERS,))
        try:
            return builder.emit_assembly(module) if kind == "asm" else builder.emit_object(module)
        finally:
            _set_options((*_RESTORED, _WITH_ADDRESSES) if is_plain else _RESTORED)
