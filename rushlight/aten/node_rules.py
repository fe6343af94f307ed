"""Ops whose nodes in PyTorch depend on sizes and memory: which chain of nodes a call of them is.

Enters: calls as their nodes know them (`graph_nodes.Call`). Leaves: chains as in chains.txt, or None where the op is
one node under its own name.
"""

from __future__ import annotations

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
    return all(a[1] == b[0] * b[1] for a, b in zip(kept, kept[1:], strict=False))


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


_SMALL = {(1, 1): "DotBackward0(input, other)", (2, 1): "MvBackward0(input, other)",
          (1, 2): "SqueezeBackward4(MmBackward0(UnsqueezeBackward0(input), other))",
          (2, 2): "MmBackward0(input, other)"}


def matmul(call: Any) -> str:
    """A product of vectors, matrices or batches."""
    a, b = call.values["input"], call.values["other"]
    if not a.ndim or not b.ndim:      # sizes of one operand are gone with what was saved
        return "MmBackward0(input, other)" if call.out is not None and call.out.ndim == 2 else _unknown_batch(call)
    if (a.ndim, b.ndim) in _SMALL:
        return _SMALL[a.ndim, b.ndim]
    if b.ndim <= 2 and a.ndim >= 3 and _folds(a, b, False):
        folded = _merged("input", a.shape, a.strides, a.ndim - 1)
        return f"UnsafeViewBackward0({'MmBackward0' if b.ndim == 2 else 'MvBackward0'}({folded}, other))"
    if a.ndim <= 2 and b.ndim >= 3 and _folds(b, a, True):
        turned = (*b.shape[:-2], b.shape[-1], b.shape[-2]), (*b.strides[:-2], b.strides[-1], b.strides[-2])
        folded = _merged("TransposeBackward0(other)", *turned, b.ndim - 1)
        if a.ndim == 1:
            return f"UnsafeViewBackward0(MvBackward0({folded}, input))"
        return f"TransposeBackward0(UnsafeViewBackward0(MmBackward0({folded}, TBackward0(input))))"
    return _batched(a, b)


def _unknown_batch(call: Any) -> str:
    return "UnsafeViewBackward0(BmmBackward0(ViewBackward0(ExpandBackward0(input)), ViewBackward0(ExpandBackward0(other))))"


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
    dims = call.out.ndim + (bool(weight) and weight.ndim == 1)
    if bool(weight) and weight.ndim == 1:
        return "AddBackward0(MvBackward0(input, weight), bias)" if bias else "MvBackward0(input, weight)"
    product = "MmBackward0(input, TBackward0(weight))"
    if dims == 2:
        return "AddmmBackward0(bias, input, TBackward0(weight))" if bias else product
    if dims == 1:
        if bias:
            return "ViewBackward0(AddmmBackward0(bias, ViewBackward0(input), TBackward0(weight)))"
        return "SqueezeBackward4(MmBackward0(UnsqueezeBackward0(input), TBackward0(weight)))"
    known = bool(x) and len(x.strides) == dims
    folded = _merged("input", x.shape, x.strides, dims - 1) if known else "ViewBackward0(input)"
    if bias and (not known or _is_contiguous(x.shape, x.strides)):
        return f"ViewBackward0(AddmmBackward0(bias, {folded}, TBackward0(weight)))"
    product = f"UnsafeViewBackward0(MmBackward0({folded}, TBackward0(weight)))"
    return f"AddBackward0({product}, bias)" if bias else product


RULES: dict[str, Callable[[Any], str | None]] = {"matmul": matmul, "linear": linear}
