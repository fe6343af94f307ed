"""`associative_scan`: all prefixes of tensors along a dim, combined by an associative function.

Enters: a function of two elements, tensors, a dim. Leaves: tensors of the same sizes. The function is called about
log2(length) times on many elements at once: directly where it is pointwise, mapped (`vmap`) over the dim otherwise. In
graphs the call is those ops, which fuse with what is around them; nothing is left of the function. Refuses: lengths
that differ, results that are not like the elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._C import Tensor
from ..func import vmap
from ..op import ops
from ..utils import _pytree as pytree


def associative_scan(
    combine_fn: Callable[[Any, Any], Any], xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise"
) -> Any:
    """All prefixes of `xs` along `dim` combined by an associative function: y[i] = combine(y[i - 1], x[i])."""
    if not callable(combine_fn):
        raise ValueError(f"associative_scan: combine_fn must be callable, got {type(combine_fn).__name__}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"associative_scan: combine_mode must be 'pointwise' or 'generic', got {combine_mode!r}")
    leaves, structure = pytree.tree_flatten(xs)
    if not leaves or any(not isinstance(leaf, Tensor) for leaf in leaves):
        raise RuntimeError("associative_scan: expected at least one tensor, and only tensors, in xs")
    lengths = [leaf.shape[dim] for leaf in leaves]
    if any(n != lengths[0] for n in lengths):
        raise RuntimeError(f"associative_scan: the tensors differ in size along dim {dim}: {lengths}")

    def combine(*members: Tensor) -> list[Tensor]:
        half = len(members) // 2
        first, second = (
            pytree.tree_unflatten(list(part), structure) for part in (members[:half], members[half:])
        )
        result, spec = pytree.tree_flatten(combine_fn(first, second))
        if spec != structure:
            raise RuntimeError(f"associative_scan: combine_fn must return the structure of xs, got {spec}")
        return result

    rows = [leaf.movedim(dim, 0) for leaf in leaves]
    rows = [row.flip(0) for row in rows] if reverse else rows
    if combine_mode == "generic":
        combine = vmap(combine)
    scanned = _scan(combine, rows)
    scanned = [row.flip(0) for row in scanned] if reverse else scanned
    return pytree.tree_unflatten([row.movedim(0, dim) for row in scanned], structure)


def _scan(combine: Callable[..., list], rows: list[Any]) -> list[Any]:
    """Doubling strides: after step k every element holds the last 2^k elements up to it."""
    length, stride = rows[0].shape[0], 1
    while stride < length:
        early = [row.narrow(0, 0, length - stride) for row in rows]
        late = [row.narrow(0, stride, length - stride) for row in rows]
        joined = combine(*early, *late)
        rows = [ops["cat"]([row.narrow(0, 0, stride), new], 0) for row, new in zip(rows, joined, strict=True)]
        stride *= 2
    return rows
