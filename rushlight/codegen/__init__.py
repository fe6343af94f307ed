"""Machine code from loop nests: the one code generator behind eager and compiled kernels.

Enters: a `Nest`. Leaves: `Kernel`s (an address with the kernel ABI of loops/nest.py) for this machine, or IR text,
assembly, objects and PTX for others. Refuses: nests that `loops.verify` finds illegal.

`compile` looks in memory, then on disk (cache.py), and only then imports llvmlite. RUSHLIGHT_SHOW=loops,llvm,asm
prints each stage to stderr.
"""

from __future__ import annotations

from typing import Any

from ..base.notice import waiting_for
from ..base.show import show, shown_words
from ..loops.expr import walk
from ..loops.nest import Nest, has_tiles, values_of
from .stored import cache
from .stored.cache import Kernel
from .text.targets import Target


def compile(nest: Nest) -> Kernel:
    """The kernel of a nest for this machine; the same nest gives the same Kernel."""
    words = shown_words()
    if "loops" in words:
        show("loops", nest.name, str(nest))
    return cache.kernel(nest, _host_object, fresh=bool(words & {"llvm", "asm"}))


def _host_object(nest: Nest) -> bytes:
    words = shown_words()
    if "llvm" in words:
        show("llvm", nest.name, emit_llvm(nest))
    if "asm" in words:
        show("asm", nest.name, emit_asm(nest))
    with waiting_for(f"compiling the kernel {nest.name}"):
        return emit_object(nest, shares=True)


def emit_llvm(nest: Nest, target: str | Target = "host", shares: bool = False) -> str:
    """LLVM IR text. Targets: host, x86-64-avx2, x86-64-avx512, aarch64, riscv64, wasm32, nvptx64, or a `Target` of your
    own. `shares`: without the functions of tiles that kernels of one process have in common."""
    from ..loops.verify import verify  # these, and LLVM behind them, load only when a kernel is new
    from .llvm.cpu import resolve_target
    from .llvm.lower import lower_nest
    from .nvptx.lower import lower_for_gpu

    verify(nest)
    target = resolve_target(target)
    return lower_for_gpu(nest, target) if target.is_gpu else lower_nest(nest, target, shares)


def llvm_of(source: Any, target: str = "host") -> str:
    """LLVM IR of what a kernel was made of: a nest, or what stands for one (`cache.source_of`)."""
    from .library.interface import Text, module_of  # for those who look at code
    from .llvm.cpu import resolve_target

    if isinstance(source, Nest):
        return emit_llvm(source, target)
    if isinstance(source, Text):
        return module_of(source.interface, source.tile, resolve_target(target), source.finish)
    written = getattr(source, "text", None)
    if written is None:
        return f"; {source!r}: of the library, shared by many kernels"
    return written(resolve_target(target).triple) if target == "host" else written()


def emit_asm(nest: Nest, target: str | Target = "host") -> str:
    """Assembly text of the kernel."""
    return _machine_code(nest, target, emit_llvm(nest, target), "asm")


def emit_object(nest: Nest, target: str | Target = "host", shares: bool = False) -> bytes:
    """A relocatable object file with the kernel as a global function named like the nest; `shares` as above."""
    return _machine_code(nest, target, emit_llvm(nest, target, shares), "object")


def _machine_code(nest: Nest, target: str | Target, text: str, kind: str) -> Any:
    from .llvm.cpu import compile_ir, resolve_target

    return compile_ir(text, resolve_target(target), kind, has_own_addresses(nest), only_calls_tiles(nest))


def has_own_addresses(nest: Nest) -> bool:
    """Whether LLVM need not look for better addresses: tiles have theirs, and next to named functions along rows none
    counts. Elements that lie apart, as those of pointwise nests may, are read three times as slowly without it."""
    from .text.extremes import NATIVE  # as above

    if has_tiles(nest.loop.body):
        return True
    called = {value.attr for value in walk(values_of(nest)) if value.op == "call"}
    return not nest.point and not called <= NATIVE


def only_calls_tiles(nest: Nest) -> bool:
    """Whether all that a nest does by itself is to say where tiles lie, and to copy elements."""
    if not has_tiles(nest.loop.body):
        return False
    own = (v for v in walk(values_of(nest)) if v.dtype not in ("i64", "b1"))
    return all(v.op in ("load", "arg", "var", "const") for v in own)


def emit_ptx(nest: Nest, in_vectors: bool = False, peels: bool = False) -> str:
    """PTX text of a kernel whose loops blocks and threads share; nvptx/lower.py says how, and what its arguments are.

    `in_vectors`: rows start where vectors of 16 bytes may, as nvptx/vectors.py says; with `peels`, anywhere.
    """
    return ptx_of(rows_llvm(nest, in_vectors, peels))


def emit_held_ptx(nest: Nest, held: Any) -> str:
    """PTX text of a kernel whose blocks keep rows in registers; nvptx/held.py says which, and what `held` is."""
    return ptx_of(held_llvm(nest, held))


def emit_column_ptx(nest: Nest) -> str:
    """PTX text of a kernel that folds tiles of columns; nvptx/columns.py says which."""
    return ptx_of(columns_llvm(nest))


def emit_point_ptx(nest: Nest, which: Any) -> tuple[str, int]:
    """PTX text of a variant of a pointwise kernel, and how many vectors a thread takes;
    nvptx/points.py says what a variant is."""
    text, times = points_llvm(nest, which)
    return ptx_of(text), times


# The same in two steps: LLVM's, which is half of the time, may be another thread's.


def ptx_of(text: str) -> str:
    """PTX of LLVM IR for GPUs."""
    from .llvm.cpu import compile_ir, resolve_target

    return compile_ir(text, resolve_target("nvptx64"), "asm")


def for_gpu(nest: Nest) -> Any:
    """The GPU as a target, for a nest that is fit for it."""
    from ..loops.verify import verify
    from .llvm.cpu import resolve_target

    verify(nest)
    return resolve_target("nvptx64")


def rows_llvm(nest: Nest, in_vectors: bool = False, peels: bool = False) -> str:
    """LLVM IR of `emit_ptx`."""
    from .nvptx.lower import lower_for_gpu

    target = for_gpu(nest)
    return lower_for_gpu(nest, target, True, peels) if in_vectors else lower_for_gpu(nest, target)


def held_llvm(nest: Nest, held: Any) -> str:
    """LLVM IR of `emit_held_ptx`."""
    from .nvptx.held import lower_held

    return lower_held(nest, for_gpu(nest), held)


def columns_llvm(nest: Nest, is_narrow: bool = False) -> str:
    """LLVM IR of `emit_column_ptx`; `is_narrow`: for blocks of fewer warps."""
    from .nvptx.columns import FEW_WARPS, WARPS, lower_columns

    return lower_columns(nest, for_gpu(nest), FEW_WARPS if is_narrow else WARPS)


def many_llvm(nest: Nest, in_vectors: bool) -> str:
    """LLVM IR of a kernel over a table of tensors; nvptx/many.py says which."""
    from .nvptx.many import lower_many

    return lower_many(nest, for_gpu(nest), in_vectors)


def points_llvm(nest: Nest, which: Any) -> tuple[str, int]:
    """LLVM IR of `emit_point_ptx`, and how many vectors a thread takes."""
    from .nvptx.points import lower_points

    return lower_points(nest, which, for_gpu(nest))


__all__ = [
    "Kernel", "columns_llvm", "compile", "emit_asm", "emit_column_ptx", "emit_held_ptx", "emit_llvm", "emit_object",
    "emit_point_ptx", "emit_ptx", "held_llvm", "many_llvm", "points_llvm", "ptx_of", "rows_llvm",
]
