"""Max unpooling: values put back where their maxima were, zeros elsewhere.

Enters: pooled images and the positions a max pool returned. Leaves: images of the pool's input size. Refuses: positions
outside the plane, and output sizes no pool with these arguments could have had.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight import _C
from rushlight.base.settings import alert_not_deterministic
from rushlight.definitions.window.layout import in_order
from rushlight.op import Composite
from rushlight.op.layout import prefers_channels_last

from .sizes import per_dim


class MaxUnpool(Composite):
    """Partial inverse of a max pool."""

    namespace = "nn.functional"
    method = out = False
    count: int

    def compute(self, input, indices, kernel_size, stride, padding, output_size):
        count = self.count
        kernel = per_dim(self.name, "kernel_size", kernel_size, count)
        stride = per_dim(self.name, "stride", stride, count) if stride not in (None, [], ()) else kernel
        padding = per_dim(self.name, "padding", padding, count)
        sizes = self.output_sizes(input, kernel, stride, padding, output_size)
        return unpool(self.name, input, indices, sizes)

    def output_sizes(
        self, input: Any, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], output_size: Any
    ) -> list[int]:
        count = self.count
        space = input.shape[max(0, input.ndim - count) :]
        usual = [(n - 1) * s + k - 2 * p for n, k, s, p in zip(space, kernel, stride, padding, strict=False)]
        if output_size is None:
            return usual
        asked = list(output_size)
        if len(asked) == count + 2:
            asked = asked[2:]
        if len(asked) != count:
            raise ValueError(f"output_size: expected {count} or {count + 2} numbers, got {len(asked)}")
        for d in range(count):
            low, high = usual[d] - stride[d], usual[d] + stride[d]
            if not low < asked[d] < high:
                raise ValueError(f'invalid output_size "{asked}" (dim {d} must be between {low} and {high})')
        return asked


def unpool(name: str, input: Any, indices: Any, sizes: Sequence[int]) -> Any:
    """Zeros of the last dims `sizes` with elements of `input` at `indices`."""
    count = len(sizes)
    alert_not_deterministic(f"max_unpooling{max(count, 2)}d_forward_out")
    if indices.dtype is not _C.int64:
        raise RuntimeError(f"{name}: expected indices of dtype int64, got {indices.dtype.name}")
    if input.ndim not in (count + 1, count + 2) or 0 in input.shape[1:]:
        raise RuntimeError(
            f"{name}: expected an input with {count + 1} or {count + 2} dims, of which the batch alone may be empty,"
            f" got {list(input.shape)}"
        )
    if tuple(indices.shape) != tuple(input.shape):
        raise RuntimeError(
            f"{name}: expected indices of the shape of input, {list(input.shape)}, got {list(indices.shape)}"
        )
    plane = 1
    for n in sizes:
        plane *= n
    lead = tuple(input.shape[: input.ndim - count])
    result = (
        input.new_zeros((*lead, plane))
        .scatter(-1, indices.flatten(-count), input.flatten(-count))
        .view((*lead, *sizes))
    )
    return in_order(result, True) if count == 2 and input.ndim == 4 and prefers_channels_last(input) else result


class MaxUnpool1d(MaxUnpool):
    """Max unpooling over one dim."""

    schema = (
        "max_unpool1d(Tensor input, Tensor indices, int[1] kernel_size, int[1]? stride=None, int[1] padding=0, int[]?"
        " output_size=None) -> Tensor"
    )
    views = "keep"
    count = 1


class MaxUnpool2d(MaxUnpool):
    """Max unpooling over two dims."""

    schema = (
        "max_unpool2d(Tensor input, Tensor indices, int[2] kernel_size, int[2]? stride=None, int[2] padding=0, int[]?"
        " output_size=None) -> Tensor"
    )
    count = 2


class MaxUnpool3d(MaxUnpool):
    """Max unpooling over three dims."""

    schema = (
        "max_unpool3d(Tensor input, Tensor indices, int[3] kernel_size, int[3]? stride=None, int[3] padding=0, int[]?"
        " output_size=None) -> Tensor"
    )
    count = 3
