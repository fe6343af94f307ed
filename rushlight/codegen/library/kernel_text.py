"""Kernels that are written as LLVM IR text for whichever processor: what the kernel cache asks of them, and how they
begin.

Enters: a class with a name, parameters and a text for a target. Leaves: its digest, its machine code for this host, and
the lines that read operands and numbers. Kernels of this kind can be compiled for every other processor too. Refuses
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.digest import digest
from ..stored import cache
from ..stored.cache import Kernel


class TextKernel:
    """A kernel whose text is the same for all processors but for the target it names."""

    name: str
    params: tuple[str, ...]

    def text(self, triple: str) -> str:
        """LLVM IR for a target; `host` names none."""
        raise NotImplementedError

    def digest(self) -> bytes:
        return digest(self.text("host").encode())

    def compiled(self) -> Kernel:
        """The kernel itself."""
        return cache.kernel(self, _object)


def _object(kernel: Any) -> bytes:
    from ..llvm.cpu import compile_ir, host_target

    return compile_ir(kernel.text(host_target().triple), host_target(), "object")


def target_text(triple: str) -> str:
    """The line that names a target."""
    return "" if triple == "host" else f'target triple = "{triple}"\n'


def operands_text(names: Sequence[str]) -> str:
    """Addresses of the operands, by these names."""
    return "\n".join(
        f"  %p_{n} = getelementptr ptr, ptr %ptrs, i64 {k}\n  %{n} = load ptr, ptr %p_{n}" for k, n in enumerate(names)
    )


def numbers_text(names: Sequence[str]) -> str:
    """The parameters, by their names."""
    return "\n".join(
        f"  %a_{n} = getelementptr i64, ptr %params, i64 {k}\n  %{n} = load i64, ptr %a_{n}"
        for k, n in enumerate(names)
    )
