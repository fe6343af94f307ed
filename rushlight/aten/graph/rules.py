"""Ops whose nodes in PyTorch depend on sizes and memory: which chain of nodes a call of them is.

Enters: calls as their nodes know them (`nodes.Call`). Leaves: chains as in chains.txt, or None where the op is
one node under its own name.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from math import prod
from typing import Any


def _is_contiguous(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    expected = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def _merges(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether dims can become one without a copy."""
    kept = [(n, s) for n, s in zip(sizes, strides, strict=True) if n != 1]
    return all(a[1] == b[0] * b[1] for a, b in itertools.pairwise(kept))


def _merged(inner: str, sizes: Sequence[int], strides: Sequence[int], lead: int) -> str:
    """`reshape` that makes the first `lead` dims one."""
    if prod(sizes) == 0 or _is_contiguous(sizes, strides):
        return f"ViewBackward0({inner})"
    if _merges(sizes[:lead], strides[:lead]):
        return f"ReshapeAliasBackward0({inner})"
    return f"UnsafeViewBackward0(CloneBackward0({inner}))"


def _folds(big: Any, small: Any, small_first: bool) -> bool:
    """Whether PyTorch multiplies a batch by a matrix as one large matrix."""
    if small.needs:
        return True
    if small_first and small.ndim == 2:
        return False
    if prod(big.shape) == 0:
        return True
    return all(big.strides[i] == big.strides[i + 1] * big.shape[i + 1] for i in range(big.ndim - 2))


def _expanded(name: str, x: Any, batch: tuple[int, ...], matrix: int) -> str:
    """An operand with all dims of the batch, as a batch of one dim."""
    own = x.shape[: x.ndim - matrix]
    strides = (0,) * (len(batch) - len(own)) + tuple(
        0 if n == 1 and m != 1 else s for n, m, s in zip(own, batch[len(batch) - len(own):], x.strides, strict=False)
    )
    sizes = (*batch, *x.shape[x.ndim - matrix:])
    return _merged(f"ExpandBackward0({name})", sizes, (*strides, *x.strides[x.ndim - matrix:]), len(batch))


def _broadcast(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    lead = len(longer) - len(shorter)
    return (*longer[:lead], *(max(m, n) if 0 not in (m, n) else 0
                              for m, n in zip(longer[lead:], shorter, strict=True)))


_FAR = 2**63 - 1      # the end of a slice that has none
_SMALL = {(1, 1): "DotBackward0(input, other)", (2, 1): "MvBackward0(input, other)",
          (1, 2): "SqueezeBackward4(MmBackward0(UnsqueezeBackward0(input), other))",
          (2, 2): "MmBackward0(input, other)"}


def matmul(call: Any) -> str:
    """A product of vectors, matrices or batches."""
    a, b = call.values["input"], call.values["other"]
    known = all(x.meta is not None and len(x.strides) == x.ndim for x in (a, b))
    if not known:      # sizes of one operand are gone with what was saved
        return "MmBackward0(input, other)" if call.out is not None and call.out.ndim == 2 else _unknown_batch()
    if (a.ndim, b.ndim) in _SMALL:
        return _SMALL[a.ndim, b.ndim]
    if b.ndim == 3 and a.ndim >= 3 and b.shape[0] == 1 and b.needs:
        folded = _merged("input", a.shape, a.strides, a.ndim - 1)
        return f"UnsafeViewBackward0(MmBackward0({folded}, SqueezeBackward1(other)))"
    if b.ndim <= 2 and a.ndim >= 3 and _folds(a, b, False):
        folded = _merged("input", a.shape, a.strides, a.ndim - 1)
        return f"UnsafeViewBackward0({'MmBackward0' if b.ndim == 2 else 'MvBackward0'}({folded}, other))"
    if a.ndim <= 2 and b.ndim >= 3 and _folds(b, a, True):
        turned = (*b.shape[:-2], b.shape[-1], b.shape[-2]), (*b.strides[:-2], b.strides[-1], b.strides[-2])
        folded = _merged("TransposeBackward0(other)", *turned, b.ndim - 1)
        if a.ndim == 1:
            return f"UnsafeViewBackward0(MvBackward0({folded}, input))"
        product = f"TransposeBackward0(UnsafeViewBackward0(MmBackward0({folded}, TBackward0(input))))"
        return product if 1 in (a.shape[0], b.shape[-1]) else f"CloneBackward0({product})"
    return _batched(a, b)


def _unknown_batch() -> str:
    operands = "ViewBackward0(ExpandBackward0(input)), ViewBackward0(ExpandBackward0(other))"
    return f"UnsafeViewBackward0(BmmBackward0({operands}))"


def _batched(a: Any, b: Any) -> str:
    rows, cols = min(a.ndim, 2), min(b.ndim, 2)
    batch = _broadcast(a.shape[: a.ndim - rows], b.shape[: b.ndim - cols])
    left = _expanded("input", a, batch, rows)
    right = _expanded("other", b, batch, cols)
    if b.ndim == 1:
        return f"UnsafeViewBackward0(SqueezeBackward1(BmmBackward0({left}, UnsqueezeBackward0({right}))))"
    if a.ndim == 1:
        return f"UnsafeViewBackward0(SqueezeBackward1(BmmBackward0(UnsqueezeBackward0({left}), {right})))"
    return f"UnsafeViewBackward0(BmmBackward0({left}, {right}))"


def linear(call: Any) -> str:
    """Rows by a matrix, and a bias."""
    x, weight, bias = (call.values.get(name) for name in ("input", "weight", "bias"))
    dims = call.out.ndim + (weight is not None and weight.ndim == 1)
    if weight is not None and weight.ndim == 1:
        return "AddBackward0(MvBackward0(input, weight), bias)" if bias else "MvBackward0(input, weight)"
    product = "MmBackward0(input, TBackward0(weight))"
    if dims == 2:
        return "AddmmBackward0(bias, input, TBackward0(weight))" if bias else product
    if dims == 1:
        if bias:
            return "ViewBackward0(AddmmBackward0(bias, ViewBackward0(input), TBackward0(weight)))"
        return "SqueezeBackward4(MmBackward0(UnsqueezeBackward0(input), TBackward0(weight)))"
    known = x is not None and len(x.strides) == dims
    folded = _merged("input", x.shape, x.strides, dims - 1) if known else "ViewBackward0(input)"
    if bias and (not known or _is_contiguous(x.shape, x.strides)):
        return f"ViewBackward0(AddmmBackward0(bias, {folded}, TBackward0(weight)))"
    product = f"UnsafeViewBackward0(MmBackward0({folded}, TBackward0(weight)))"
    return f"AddBackward0({product}, bias)" if bias else product


def basic_index(call: Any) -> str:
    """`x[1:3, None, 0]`: a step for each part of the index that changes something."""
    index, x = call.values.get("index"), call.values.get("input")
    if index is None or x is None or x.meta is None:      # gone, with what was saved
        return {"select": "SelectBackward0(input)", "slice": "SliceBackward0(input)",
                "unsqueeze": "UnsqueezeBackward0(input)"}.get(call.name, "AliasBackward0(input)")
    chain = "input"
    for name, _ in index_steps(index, x.shape):
        chain = f"{name}({chain})"
    return chain


def index_steps(index: Any, shape: tuple[int, ...]) -> list[tuple[str, dict[str, Any]]]:
    """The nodes of an index of ints, slices, None and Ellipsis, and what each keeps."""
    items = index if isinstance(index, tuple) else (index,)
    missing = len(shape) - sum(not (i is None or i is Ellipsis) for i in items)
    found: list[tuple[str, dict[str, Any]]] = []
    sizes, dim = list(shape), 0
    for item in items:
        kept: dict[str, Any] = {"self_sym_sizes": tuple(sizes), "dim": dim}
        if item is Ellipsis:
            dim += missing
        elif item is None:
            found.append(("UnsqueezeBackward0", kept))
            sizes.insert(dim, 1)
            dim += 1
        elif isinstance(item, slice):
            start, stop, step = item.indices(sizes[dim])
            if (start, step) != (0, 1) or stop < sizes[dim]:
                end = _FAR if item.stop is None else item.stop
                found.append(("SliceBackward0", {**kept, "start": item.start or 0, "end": end, "step": step}))
                sizes[dim] = len(range(start, stop, step))
            dim += 1
        else:
            found.append(("SelectBackward0", {**kept, "index": int(item)}))
            del sizes[dim]
    whole = {"self_sym_sizes": tuple(shape), "dim": 0, "start": 0, "end": _FAR, "step": 1}
    is_slice = any(isinstance(i, slice) for i in items)
    return found or [("SliceBackward0", whole) if is_slice else ("AliasBackward0", {})]


def view(call: Any) -> str | None:
    """`reshape` has names of its own for what it does to a tensor that lies otherwise."""
    steps, x = call.node._steps, call.values.get("input")
    if steps > 1:
        return "UnsafeViewBackward0(input)"
    turned = x is not None and x.meta is not None and not _is_contiguous(x.shape, x.strides)
    return "ReshapeAliasBackward0(input)" if steps and turned else None


RULES: dict[str, Callable[[Any], str | None]] = {
    "matmul": matmul, "linear": linear, "_basic_index": basic_index, "view": view,
}
