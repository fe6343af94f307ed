"""Many small matrix products in one call: rows, columns or inner sizes of a matrix in groups,
each with a matrix of its own.

Enters: two tensors, each a matrix or a stack of matrices, and `offs`, where each group ends (needed unless both are
stacks). Leaves: by the shapes, [rows, n] (groups of rows), [m, columns] (groups of columns), one product for each group
of the inner size, or plain batched products. Refuses: a bias, which PyTorch does not take either,
and offsets that leave the matrix.
"""

from __future__ import annotations

from typing import Any

from ...op import Composite, ops


def groups(offs: Any, length: int) -> list[tuple[int, int]]:
    """Start and size of every group."""
    ends = offs.tolist()
    if any(end < start for start, end in zip([0, *ends], ends)) or (ends and ends[-1] > length):
        raise RuntimeError(f"_grouped_mm: offs must not fall and must end within {length}, got {ends}")
    return [(start, end - start) for start, end in zip([0, *ends[:-1]], ends)]


def are_alike(found: list[tuple[int, int]], length: int) -> bool:
    """Whether groups are of one size and nothing is left over: a batch of products."""
    return bool(found) and found[0][1] > 0 and found[0][1] * len(found) == length and len({n for _, n in found}) == 1


class GroupedMm(Composite):
    """Products of the groups of `input` and `mat2`; rows or columns past the last group are zero."""

    schema = (
        "_grouped_mm(Tensor input, Tensor mat2, Tensor? offs=None, Tensor? bias=None, dtype? out_dtype=None) -> Tensor"
    )
    method = False
    aliases = ("nn.functional.grouped_mm",)

    def compute(self, input, mat2, offs, bias, out_dtype):
        if bias is not None:
            raise RuntimeError("_grouped_mm: bias is not supported")
        if input.ndim not in (2, 3) or mat2.ndim not in (2, 3):
            raise RuntimeError(
                f"_grouped_mm: expected matrices or stacks of them, got {input.ndim}-D and {mat2.ndim}-D tensors"
            )
        if (offs is None) != (input.ndim == mat2.ndim == 3):
            raise RuntimeError("_grouped_mm: offs is needed unless both tensors are 3-D, and then it must be left out")
        result = self.products(input, mat2, offs)
        return result if out_dtype is None else result.to(out_dtype)

    def products(self, a: Any, b: Any, offs: Any) -> Any:
        if offs is None:
            return ops["bmm"](a, b)
        if a.ndim == b.ndim == 2:
            found = groups(offs, a.shape[1])
            if are_alike(found, a.shape[1]):
                count = len(found)
                return ops["bmm"](a.unflatten(1, (count, -1)).transpose(0, 1), b.unflatten(0, (count, -1)))
            return ops["stack"]([a.narrow(1, start, size) @ b.narrow(0, start, size) for start, size in found])
        if a.ndim == 2:
            found = groups(offs, a.shape[0])
            if are_alike(found, a.shape[0]):
                return ops["bmm"](a.unflatten(0, (len(found), -1)), b).flatten(0, 1)
            parts = [a.narrow(0, start, size) @ b[i] for i, (start, size) in enumerate(found)]
            rest = a.shape[0] - sum(part.shape[0] for part in parts)
            return ops["cat"]([*parts, a.new_zeros((rest, b.shape[2]))], 0)
        parts = [a[i] @ b.narrow(1, start, size) for i, (start, size) in enumerate(groups(offs, b.shape[1]))]
        rest = b.shape[1] - sum(part.shape[1] for part in parts)
        return ops["cat"]([*parts, b.new_zeros((a.shape[1], rest))], 1)
