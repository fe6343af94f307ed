"""`ops.quantized`: concatenation, matrix products and maxima of quantized tensors.

Enters: tensors quantized per tensor, and the scale and zero point of the result. Leaves: quantized tensors. Refuses:
tensors quantized per channel, operands of several dtypes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _C
from ..base.quantizers import PerTensor
from ..definitions.quantized.container import ints, is_quantized, put, qparams
from ..definitions.quantized.pointwise import reading, writing
from ..definitions.window.layout import is_channels_last
from ..op import ops
from .elements import moved_into
from .namespace import define

LANES = 8      # channels that PyTorch's kernel for images with channels last takes at a time


def checked(qx: Sequence[Any], name: str) -> None:
    """Raise unless there are tensors, all quantized per tensor and of one dtype."""
    if not qx:
        raise RuntimeError(f"quantized::{name}: expected a list of tensors that is not empty")
    for t in qx:
        if not is_quantized(t):
            raise NotImplementedError(f"quantized::{name}: expected quantized tensors, got one of {t.dtype}")
        qparams(t, f"quantized::{name}")
        if t.dtype is not qx[0].dtype:
            raise RuntimeError(f"quantized::{name}: all dtypes must be the same, got {qx[0].dtype} and {t.dtype}")


def requantized(q: Any, scale: float, zero_point: int, relu: bool, lanes: int) -> Any:
    """The integers of `q` in another scale and zero point; of `lanes` channels at a time, in vectors."""
    x, op = ints(q), ops["_quantized_requantize"]
    read, write = reading(*qparams(q)), writing(scale, zero_point, x.dtype.code, relu, wide=True)
    whole = x.shape[1] - x.shape[1] % lanes if lanes else 0
    if whole == 0:
        return op(x, *read[0], *write[0], False)
    result = op(x, *read[1], *write[1], True)
    if whole < x.shape[1]:
        op(x[:, whole:], *read[0], *write[0], False, out=result[:, whole:])
    return result


def joined(name: str, qx: Sequence[Any], dim: int, scale: float, zero_point: int, relu: bool) -> Any:
    """The tensors one after another along `dim`, in the scale and zero point that are given."""
    checked(qx, name)
    images = dim == 1 and all(is_channels_last(t, 2) for t in qx)
    parts = []
    for t in qx:
        if images and not relu and qparams(t) == (scale, zero_point):
            parts.append(ints(t))
        else:
            parts.append(requantized(t, scale, zero_point, relu, LANES if images else 0))
    return put(ops["cat"](parts, dim), qx[0].dtype, PerTensor(scale, zero_point))


def _forms(name: str, relu: bool) -> None:
    def cat(qx: Sequence[Any], dim: int, scale: float | None, zero_point: int | None) -> Any:
        checked(qx, name)
        own = qparams(qx[0])
        return joined(
            name, qx, dim, own[0] if scale is None else scale, own[1] if zero_point is None else zero_point, relu
        )

    def cat_out(qx: Sequence[Any], dim: int, out: Any) -> Any:
        return moved_into(out, joined(name, qx, dim, *qparams(out, f"quantized::{name}_out"), relu))

    define(f"quantized::{name}(Tensor[] qx, int dim, float? scale, int? zero_point) -> Tensor")(cat)
    define(f"quantized::{name}_out(Tensor[] qx, int dim, Tensor(a!) out) -> Tensor(a!)")(cat_out)


_forms("cat", False)
_forms("cat_relu", True)


@define("quantized::matmul(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc")
def matmul(qa: Any, qb: Any, scale: float, zero_point: int) -> Any:
    checked((qa, qb), "matmul")
    if qa.dtype is _C.qint32:
        raise RuntimeError("quantized::matmul: operands should be of qint8 or quint8, got qint32")
    product = ops["matmul"](ops["dequantize"](qa), ops["dequantize"](qb))
    return ops["quantize_per_tensor"](product, scale, zero_point, qa.dtype)


def _max_pool(count: int) -> None:
    def run(
        qx: Any, kernel_size: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
        ceil_mode: bool,
    ) -> Any:
        return ops[f"quantized_max_pool{count}d"](qx, kernel_size, stride, padding, dilation, ceil_mode)

    define(
        f"quantized::max_pool{count}d(Tensor qx, int[] kernel_size, int[] stride, int[] padding, int[] dilation, bool"
        " ceil_mode) -> Tensor"
    )(run)


_max_pool(1)
_max_pool(2)
