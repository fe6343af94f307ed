"""`inline_asm_elementwise(*inputs, asm_str, constraints, dtype)`: instructions of a GPU, as text, on every element.

Enters: tensors on a GPU. Leaves: nothing yet: kernels here come from expressions, and no hand-written instruction is
put into them. Refuses: that, tensors on other devices, and instructions with side effects.
"""

from __future__ import annotations

from typing import Any

from . import core


class InlineAsmElementwise(core.HigherOrderOp):
    """inline_asm_elementwise(*inputs, asm_str, constraints, dtype, is_pure=True, pack=1)"""

    name = "inline_asm_elementwise"

    def __call__(self, *inputs: Any, asm_str: str = "", constraints: str = "", dtype: Any = None,
                 is_pure: bool = True, pack: int = 1) -> Any:
        if not is_pure:
            raise ValueError("inline_asm_elementwise: expected is_pure=True, got False")
        if not inputs:
            raise ValueError("inline_asm_elementwise: expected at least one tensor, got none")
        where = inputs[0].device
        if where.type != "cuda":
            raise RuntimeError(f"inline_asm_elementwise: only CUDA tensors have such instructions, got one on {where}")
        raise NotImplementedError(f"inline_asm_elementwise: instructions as text are not supported, got {asm_str!r}")


inline_asm_elementwise = core.register(InlineAsmElementwise())
