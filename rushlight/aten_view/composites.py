"""Composites in PyTorch's parts: what its autograd sees of ops that are one for users.

Enters: arguments by ATen's signature. Leaves: the result, by calls of the parts. NotImplemented where PyTorch has the
call as one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .. import _C
from .._C import Tensor
from ..base.shape import contiguous_format
from ..op import find_op
from .networks import NETWORKS
from .words import aten

# --- products ---------------------------------------------------------------------------------------------------------


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    if weight.ndim != 2 or not input.ndim:
        return NotImplemented
    if bias is None:
        return find_op("matmul")(input, weight.t())
    if input.ndim == 2:
        return find_op("addmm")(bias, input, weight.t())
    if input.is_contiguous() and input.ndim != 2:
        rows = aten.view(input, [math.prod(input.shape[:-1]), input.shape[-1]])
        return aten.view(find_op("addmm")(bias, rows, weight.t()), [*input.shape[:-1], weight.shape[0]])
    return find_op("matmul")(input, weight.t()) + bias


def matmul(a: Any, b: Any) -> Any:
    if a.ndim == 1 and b.ndim == 1:
        return find_op("dot")(a, b)
    if a.ndim == 2 and b.ndim == 1:
        return find_op("mv")(a, b)
    if a.ndim == 1 and b.ndim == 2:
        return find_op("mm")(a.unsqueeze(0), b).squeeze(0)
    if a.ndim == 2 and b.ndim == 2:
        return find_op("mm")(a, b)
    if a.ndim == 0 or b.ndim == 0:
        return NotImplemented
    if b.ndim <= 2 or a.ndim <= 2:
        folded = _folded(a, b)
        if folded is not NotImplemented:
            return folded
    return _batched(a, b)


def _folded(a: Any, b: Any) -> Any:
    """A product of a batch with one matrix: one product of matrices, where the batch can be seen as rows."""
    is_left = a.ndim >= b.ndim
    batch, other = (a, b) if is_left else (b.mT, a.t() if a.ndim == 2 else a)
    if not _folds(a if is_left else b, b if is_left else a, batch):
        return NotImplemented
    lead = list(batch.shape[:-1])
    rows = find_op("reshape")(batch, [math.prod(lead), batch.shape[-1]])
    if other.ndim == 2:
        result = aten._unsafe_view(find_op("mm")(rows, other), [*lead, other.shape[1]])
    else:
        result = aten._unsafe_view(find_op("mv")(rows, other), lead)
    return result if is_left or other.ndim == 1 else result.mT


def _folds(many: Any, one: Any, batch: Any) -> bool:
    if one.requires_grad:
        return True
    if many is not batch and one.ndim == 2:      # a matrix on the left
        return False
    if not many.numel():
        return True
    sizes, strides = batch.shape, batch.stride()
    return all(strides[i] == sizes[i + 1] * strides[i + 1] for i in range(len(sizes) - 2))


def _batched(a: Any, b: Any) -> Any:
    rows = a.shape[-2] if a.ndim > 1 else 1
    columns = b.shape[-1] if b.ndim > 1 else 1
    lead_a, lead_b = list(a.shape[:-2]), list(b.shape[:-2])
    lead = list(_broadcast(lead_a, lead_b))
    right = [*lead, *(b.shape[-2:] if b.ndim > 1 else [b.shape[0]])]
    wide_a = aten.expand(a, [*lead, rows, a.shape[-1]])
    wide_a = find_op("reshape")(wide_a, [math.prod(lead), rows, a.shape[-1]])
    if b.ndim == 1:
        wide_b = find_op("reshape")(aten.expand(b, right), [math.prod(lead), b.shape[0]]).unsqueeze(2)
    else:
        wide_b = find_op("reshape")(aten.expand(b, right), [math.prod(lead), *b.shape[-2:]])
    shape = [*lead, *([rows] if a.ndim > 1 else []), *([columns] if b.ndim > 1 else [])]
    product = find_op("bmm")(wide_a, wide_b)
    return aten._unsafe_view(product.squeeze(-1) if b.ndim == 1 else product, shape)


def _broadcast(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    count = max(len(a), len(b))
    left, right = ([1] * (count - len(x)) + list(x) for x in (a, b))
    return tuple(n if m == 1 else m for m, n in zip(left, right, strict=True))


# --- shapes -----------------------------------------------------------------------------------------------------------


def reshape(self: Any, shape: Any) -> Any:
    sizes = _inferred(self.numel(), list(shape))
    if _viewable(self, sizes):
        return aten.view(self, list(shape) if self.is_contiguous() else sizes)
    return aten._unsafe_view(aten.clone(self, memory_format=contiguous_format), sizes)


def _inferred(count: int, shape: list[int]) -> list[int]:
    if -1 not in shape:
        return shape
    known = math.prod(n for n in shape if n != -1)
    return [(count // known if known else 0) if n == -1 else n for n in shape]


def _viewable(t: Any, shape: list[int]) -> bool:
    """Whether the elements can be seen in this shape where they lie."""
    if t.is_contiguous() or not t.numel():
        return True
    sizes, strides = list(t.shape), list(t.stride())
    chunks: list[tuple[int, int]] = []          # runs of dims that lie as one: elements, innermost stride
    for n, s in zip(sizes, strides, strict=True):
        if n == 1:
            continue
        if chunks and chunks[-1][1] == n * s:
            chunks[-1] = (chunks[-1][0] * n, s)
        else:
            chunks.append((n, s))
    left = [n for n in shape if n != 1]
    for count, _ in chunks:
        product = 1
        while left and product < count:
            product *= left.pop(0)
        if product != count:
            return False
    return not left


def contiguous(self: Any, memory_format: Any = None) -> Any:
    wanted = memory_format or contiguous_format
    return self if self.is_contiguous(memory_format=wanted) else aten.clone(self, memory_format=wanted)


def to_dtype(self: Any, dtype: Any, non_blocking: bool = False, copy: bool = False, memory_format: Any = None) -> Any:
    if self.dtype is dtype and not copy:
        return self
    return aten._to_copy(self, dtype=dtype, **({} if memory_format is None else {"memory_format": memory_format}))


def narrow(self: Any, dim: int, start: Any, length: Any) -> Any:
    if isinstance(start, Tensor):
        return NotImplemented
    start = start + self.shape[dim] if start < 0 else start
    return aten.slice.Tensor(self, dim, start, start + length)


def flatten(self: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    if not self.ndim:
        return find_op("reshape")(self, [1])
    start, end = start_dim % self.ndim, end_dim % self.ndim
    if start == end:
        return self
    sizes = list(self.shape)
    return find_op("reshape")(self, [*sizes[:start], math.prod(sizes[start : end + 1]), *sizes[end + 1 :]])


def chunk(self: Any, chunks: int, dim: int = 0) -> Any:
    size = self.shape[dim]
    width = (size + chunks - 1) // chunks
    if width == 0 and size == 0:
        return NotImplemented
    return aten.split.Tensor(self, width, dim)


# --- layers -----------------------------------------------------------------------------------------------------------


def softmax(name: str) -> Callable:
    def rule(self: Any, dim: int, dtype: Any = None) -> Any:
        given = self if dtype is None or dtype is self.dtype else aten._to_copy(self, dtype=dtype)
        return getattr(aten, name)(given, dim, False)

    return rule


def layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5,
               cudnn_enable: bool = True) -> Any:
    return aten.native_layer_norm(input, list(normalized_shape), weight, bias, eps)[0]


def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5,
               cudnn_enabled: bool = True) -> Any:
    sizes = input.shape[0], input.shape[1], math.prod(input.shape[2:])
    given = input if input.is_contiguous() else contiguous(input)
    return aten.native_group_norm(given, weight, bias, *sizes, num_groups, eps)[0]


def batch_norm(input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
               momentum: float, eps: float, cudnn_enabled: bool = True) -> Any:
    if not input.numel():
        return NotImplemented
    aten.empty.memory_format([0], dtype=_C.uint8, layout=input.layout, device=input.device)
    return aten.native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


def _each(value: Any, dims: int) -> list[Any]:
    listed = list(value) if isinstance(value, (list, tuple)) else [value]
    return listed * dims if len(listed) == 1 else listed


def convolution(dims: int, transposed: bool) -> Callable:
    def rule(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, *rest: Any) -> Any:
        if transposed:
            output_padding, groups, dilation = (*rest, *(0, 1, 1)[len(rest):])
        else:
            output_padding, (dilation, groups) = 0, (*rest, *(1, 1)[len(rest):])
        if isinstance(padding, str):
            return NotImplemented
        batched = input.ndim == dims + 2
        given = input if batched else input.unsqueeze(0)
        result = aten.convolution(given, weight, bias, *[_each(v, dims) for v in (stride, padding, dilation)],
                                  transposed, _each(output_padding, dims), groups)
        return result if batched else result.squeeze(0)

    return rule


def dropout(input: Any, p: float, train: bool = True) -> Any:
    if p == 0 or not train or not input.numel():
        return input
    if p == 1:
        return input * aten.zeros([], dtype=input.dtype, layout=input.layout, device=input.device)
    noise = aten.empty_like(input)
    aten.div_.Scalar(aten.bernoulli_.float(noise, 1 - p), 1 - p)
    return input * noise


def attention(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
              *, scale: Any = None, enable_gqa: bool = False) -> Any:
    masked = attn_mask is not None and (attn_mask.dtype is _C.bool or attn_mask.requires_grad)
    widths = {t.shape[-1] for t in (query, key, value)}
    if dropout_p or enable_gqa or masked or query.ndim != 4 or len(widths) != 1 or not query.is_floating_point():
        return NotImplemented
    named = {k: v for k, v in {"attn_mask": attn_mask, "scale": scale}.items() if v is not None}
    given = (0.0, True) if is_causal else ()
    return aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, *given, **named)[0]


_REDUCTION = {"none": 0, "mean": 1, "sum": 2}


def _reduced(loss: Any, reduction: int) -> Any:
    return loss if reduction == 0 else loss.mean() if reduction == 1 else loss.sum()


def l1_loss(self: Any, target: Any, reduction: int = 1) -> Any:
    return _reduced((self - target).abs(), reduction)


def kl_div(self: Any, target: Any, reduction: int = 1, *, log_target: bool = False) -> Any:
    if log_target:
        return _reduced(target.exp() * (target - self), reduction)
    return _reduced(find_op("xlogy")(target, target) - target * self, reduction)


def cross_entropy(input: Any, target: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100,
                  label_smoothing: float = 0.0) -> Any:
    if label_smoothing or target.is_floating_point():
        return NotImplemented
    scores = find_op("log_softmax")(input, 1 if input.ndim != 1 else 0)
    return nll_loss_nd(scores, target, weight, reduction, ignore_index)


def nll_loss_nd(self: Any, target: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100) -> Any:
    if self.ndim <= 2:
        return aten.nll_loss_forward(self, target, weight, reduction, ignore_index)[0]
    if self.ndim == 4:
        return aten.nll_loss2d_forward(self, target, weight, reduction, ignore_index)[0]
    return NotImplemented


def where(condition: Any, self: Any, other: Any) -> Any:
    """Numbers beside tensors become tensors first."""
    if isinstance(self, Tensor) and isinstance(other, Tensor):
        return NotImplemented
    like = self if isinstance(self, Tensor) else other if isinstance(other, Tensor) else None
    sides = []
    for side in (self, other):
        if not isinstance(side, Tensor):
            dtype = like.dtype if like is not None else _C.get_default_dtype() if isinstance(side, float) else _C.int64
            side = aten.scalar_tensor(side, dtype=dtype, layout=condition.layout, device=condition.device)
        sides.append(side)
    return aten.where.self(condition, *sides)


COMPOSED: dict[str, Callable] = {
    "linear.default": linear, "matmul.default": matmul, "reshape.default": reshape, "contiguous.default": contiguous,
    "to.dtype": to_dtype, "narrow.default": narrow, "flatten.using_ints": flatten, "chunk.default": chunk,
    "softmax.int": softmax("_softmax"), "log_softmax.int": softmax("_log_softmax"),
    "layer_norm.default": layer_norm, "group_norm.default": group_norm, "batch_norm.default": batch_norm,
    **{f"conv{d}d.default": convolution(d, False) for d in (1, 2, 3)},
    "conv_transpose1d.default": convolution(1, True),
    **{f"conv_transpose{d}d.input": convolution(d, True) for d in (2, 3)},
    "dropout.default": dropout, "scaled_dot_product_attention.default": attention,
    "l1_loss.default": l1_loss, "kl_div.default": kl_div, "cross_entropy_loss.default": cross_entropy,
    "nll_loss.default": nll_loss_nd, "nll_loss_nd.default": nll_loss_nd, "nll_loss2d.default": nll_loss_nd,
    "square.default": lambda self: aten.pow.Tensor_Scalar(self, 2),
    "square_.default": lambda self: aten.pow_.Scalar(self, 2),
    "relu6.default": lambda self: aten.hardtanh(self, 0, 6),
    "where": where,
    **NETWORKS,
}
