"""Many small matrix products in one call: rows, columns or inner sizes of a matrix in groups,
each with a matrix of its own.

Enters: two tensors, each a matrix or a stack of matrices, and `offs`, where each group ends (needed unless both are
stacks). Leaves: by the shapes, [rows, n] (groups of rows), [m, columns] (groups of columns), one product for each group
of the inner size, or plain batched products. Refuses: a bias, which PyTorch does not take either,
and offsets that leave the matrix, where the host reads them. A device that reads them itself has a function

    _grouped_product(out, input, mat2, offs)

which fills its first argument or returns False: the host is not waited for then, and offsets that fall or leave the
matrix are taken as the nearest that do not.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ...op import Composite, Extern, Spec, find_op, ops
from ...op.extern import own_function

HALF = (_C.bfloat16, _C.float16)
ALIGNED = 8      # elements of a half type in the 16 bytes that devices read at once


def groups(offs: Any, length: int) -> list[tuple[int, int]]:
    """Start and size of every group."""
    ends = offs.tolist()
    if any(end < start for start, end in zip([0, *ends], ends)) or (ends and ends[-1] > length):
        raise RuntimeError(f"_grouped_mm: offs must not fall and must end within {length}, got {ends}")
    return [(start, end - start) for start, end in zip([0, *ends[:-1]], ends)]


def are_alike(found: list[tuple[int, int]], length: int) -> bool:
    """Whether groups are of one size and nothing is left over: a batch of products."""
    return bool(found) and found[0][1] > 0 and found[0][1] * len(found) == length and len({n for _, n in found}) == 1


def by_groups(a: Any, b: Any, offs: Any) -> Any:
    """The products one after another, or as a batch where groups are alike; the host reads `offs`."""
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


class GroupedProduct(Extern):
    """Products of groups on devices that read themselves where groups end. Gradients are such products again."""

    schema = "_grouped_product(Tensor input, Tensor mat2, Tensor offs) -> Tensor"
    function = method = out = False
    batch = "loop"

    def meta(self, input, mat2, offs):
        shape = (input.shape[-2], mat2.shape[-1])
        return Spec((offs.shape[0], *shape) if input.ndim == mat2.ndim == 2 else shape, input.dtype)

    def cpu(self, out, input, mat2, offs):
        out.copy_(by_groups(input, mat2, offs))

    elsewhere = cpu

    def vjp(self, g, input, mat2, offs):
        product = find_op("_grouped_mm")
        return {"input": product(g, mat2.transpose(-2, -1), offs), "mat2": product(input.transpose(-2, -1), g, offs)}


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
        if not self.is_handed_over(a, b, offs):
            return by_groups(a, b, offs)
        return find_op("_grouped_product")(*[t if lies_in_lines(t) else t.contiguous() for t in (a, b)], offs)

    def is_handed_over(self, a: Any, b: Any, offs: Any) -> bool:
        """Whether the device may read where groups end; sizes that do not fit each other are the host's to refuse."""
        if a.dtype not in HALF or b.dtype is not a.dtype or offs.dtype is not _C.int32 or offs.device != a.device:
            return False
        if own_function("_grouped_product", a.device) is None or a.shape[-1] != b.shape[-2]:
            return False
        counts = [t.shape[0] for t in (a, b) if t.ndim == 3]
        whole = all(lies_in_lines(t) or t.shape[-1] % ALIGNED == 0 for t in (a, b))
        return offs.ndim == 1 and all(n == offs.shape[0] for n in counts) and whole


def lies_in_lines(t: Any) -> bool:
    """Whether rows or columns lie in order, in whole pieces of 16 bytes."""
    for across, down in ((-1, -2), (-2, -1)):
        if t.stride(across) == 1 and t.stride(down) % ALIGNED == 0 and t.stride(down) >= t.shape[across]:
            return t.ndim == 2 or t.stride(0) % ALIGNED == 0
    return False
