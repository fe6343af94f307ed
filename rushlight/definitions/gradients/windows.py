"""Gradients of what moves windows over images or shows them at another size: average pools, padding, resampling.

Enters: ATen's arguments. Leaves: the gradient of the image. Most are the windowed sum of the forward op, transposed.
"""

from __future__ import annotations

from rushlight.definitions.pool.average import sliding_axes
from rushlight.definitions.pool.largest import adaptive_sizes
from rushlight.definitions.pool.sizes import fixed
from rushlight.definitions.resample.interpolate import MODES, resample_axes
from rushlight.definitions.window.axes import ADAPTIVE, Axis, pack, unpack
from rushlight.op import Composite, find_op


def _transposed(grad, axes):
    return find_op("_window_sum")(grad, pack([axis.flipped() for axis in unpack(axes)]))


class _AvgPoolBackward(Composite):
    """Gradient of an average pool."""

    function = method = False
    count: int

    def compute(self, grad_output, input, kernel_size, stride, padding, ceil_mode, count_include_pad,
                divisor_override):
        if divisor_override == 0:
            raise RuntimeError(f"{self.name}: divisor must be not zero")
        numbers = fixed(kernel_size), fixed(stride) or None, fixed(padding), ceil_mode, count_include_pad
        axes = sliding_axes(tuple(input.shape), self.name, self.count, input.dtype, *numbers,
                            divisor_override is not None)
        result = _transposed(grad_output, axes)
        return result if divisor_override is None else result / divisor_override


class AvgPool2dBackward(_AvgPoolBackward):
    """Gradient of avg_pool2d."""

    schema = (
        "avg_pool2d_backward(Tensor grad_output, Tensor input, int[2] kernel_size, int[2] stride, int[2] padding, bool"
        " ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor"
    )
    count = 2


class AvgPool3dBackward(_AvgPoolBackward):
    """Gradient of avg_pool3d."""

    schema = (
        "avg_pool3d_backward(Tensor grad_output, Tensor input, int[3] kernel_size, int[3] stride, int[3] padding, bool"
        " ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor"
    )
    count = 3


class _AdaptiveAvgPoolBackward(Composite):
    """Gradient of an adaptive average pool: every window's share, spread over it."""

    function = method = False
    count: int

    def compute(self, grad_output, input):
        count = self.count
        sizes = adaptive_sizes(self.name, input, list(grad_output.shape[-count:]), count)
        space = input.shape[input.ndim - count:]
        return _transposed(grad_output, pack([Axis(ADAPTIVE, n, out, 1) for n, out in zip(space, sizes, strict=True)]))


class AdaptiveAvgPool2dBackward(_AdaptiveAvgPoolBackward):
    """Gradient of _adaptive_avg_pool2d."""

    schema = "_adaptive_avg_pool2d_backward(Tensor grad_output, Tensor input) -> Tensor"
    count = 2


class AdaptiveAvgPool3dBackward(_AdaptiveAvgPoolBackward):
    """Gradient of _adaptive_avg_pool3d."""

    schema = "_adaptive_avg_pool3d_backward(Tensor grad_output, Tensor input) -> Tensor"
    count = 3


# --- padding ----------------------------------------------------------------------------------------------------------


class _PadBackward(Composite):
    """Gradient of padding that shows elements again."""

    function = method = False
    mode: str

    def compute(self, grad_output, input, padding):
        space = input.shape[input.ndim - len(padding) // 2:]
        return find_op("_pad_by_index_backward")(grad_output, list(padding), self.mode, list(space))


class ReflectionPad1dBackward(_PadBackward):
    """Gradient of reflection_pad1d."""

    schema = "reflection_pad1d_backward(Tensor grad_output, Tensor input, SymInt[2] padding) -> Tensor"
    mode = "reflect"


class ReflectionPad2dBackward(_PadBackward):
    """Gradient of reflection_pad2d."""

    schema = "reflection_pad2d_backward(Tensor grad_output, Tensor input, SymInt[4] padding) -> Tensor"
    mode = "reflect"


class ReflectionPad3dBackward(_PadBackward):
    """Gradient of reflection_pad3d."""

    schema = "reflection_pad3d_backward(Tensor grad_output, Tensor input, SymInt[6] padding) -> Tensor"
    mode = "reflect"


class ReplicationPad1dBackward(_PadBackward):
    """Gradient of replication_pad1d."""

    schema = "replication_pad1d_backward(Tensor grad_output, Tensor input, SymInt[2] padding) -> Tensor"
    mode = "replicate"


class ReplicationPad2dBackward(_PadBackward):
    """Gradient of replication_pad2d."""

    schema = "replication_pad2d_backward(Tensor grad_output, Tensor input, SymInt[4] padding) -> Tensor"
    mode = "replicate"


class ReplicationPad3dBackward(_PadBackward):
    """Gradient of replication_pad3d."""

    schema = "replication_pad3d_backward(Tensor grad_output, Tensor input, SymInt[6] padding) -> Tensor"
    mode = "replicate"


# --- other sizes ------------------------------------------------------------------------------------------------------


class _ResampleBackward(Composite):
    """Gradient of an image shown at another size."""

    function = method = False
    mode: str

    def back(self, grad, output_size, input_size, corners, factors):
        if tuple(grad.shape[2:]) != tuple(output_size):
            raise RuntimeError(
                f"{self.name}: expected a gradient of sizes {list(output_size)}, got {list(grad.shape[2:])}"
            )
        (axes,) = resample_axes(tuple(input_size), self.name, grad.dtype, tuple(output_size), MODES[self.mode], corners,
                                tuple(factors), False)
        return _transposed(grad, axes)


class UpsampleNearest1dBackward(_ResampleBackward):
    """Gradient of upsample_nearest1d."""

    schema = (
        "upsample_nearest1d_backward(Tensor grad_output, SymInt[1] output_size, SymInt[3] input_size, float?"
        " scales=None) -> Tensor"
    )
    mode = "nearest"

    def compute(self, grad_output, output_size, input_size, scales):
        return self.back(grad_output, output_size, input_size, False, (scales,))


class UpsampleNearest2dBackward(_ResampleBackward):
    """Gradient of upsample_nearest2d."""

    schema = (
        "upsample_nearest2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, float?"
        " scales_h=None, float? scales_w=None) -> Tensor"
    )
    mode = "nearest"

    def compute(self, grad_output, output_size, input_size, scales_h, scales_w):
        return self.back(grad_output, output_size, input_size, False, (scales_h, scales_w))


class UpsampleNearest3dBackward(_ResampleBackward):
    """Gradient of upsample_nearest3d."""

    schema = (
        "upsample_nearest3d_backward(Tensor grad_output, SymInt[3] output_size, SymInt[5] input_size, float?"
        " scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor"
    )
    mode = "nearest"

    def compute(self, grad_output, output_size, input_size, scales_d, scales_h, scales_w):
        return self.back(grad_output, output_size, input_size, False, (scales_d, scales_h, scales_w))


class UpsampleLinear1dBackward(_ResampleBackward):
    """Gradient of upsample_linear1d."""

    schema = (
        "upsample_linear1d_backward(Tensor grad_output, SymInt[1] output_size, SymInt[3] input_size, bool"
        " align_corners, float? scales=None) -> Tensor"
    )
    mode = "linear"

    def compute(self, grad_output, output_size, input_size, align_corners, scales):
        return self.back(grad_output, output_size, input_size, align_corners, (scales,))


class UpsampleBilinear2dBackward(_ResampleBackward):
    """Gradient of upsample_bilinear2d."""

    schema = (
        "upsample_bilinear2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, bool"
        " align_corners, float? scales_h=None, float? scales_w=None) -> Tensor"
    )
    mode = "bilinear"

    def compute(self, grad_output, output_size, input_size, align_corners, scales_h, scales_w):
        return self.back(grad_output, output_size, input_size, align_corners, (scales_h, scales_w))


class UpsampleBicubic2dBackward(UpsampleBilinear2dBackward):
    """Gradient of upsample_bicubic2d."""

    schema = (
        "upsample_bicubic2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, bool"
        " align_corners, float? scales_h=None, float? scales_w=None) -> Tensor"
    )
    mode = "bicubic"


class UpsampleTrilinear3dBackward(_ResampleBackward):
    """Gradient of upsample_trilinear3d."""

    schema = (
        "upsample_trilinear3d_backward(Tensor grad_output, SymInt[3] output_size, SymInt[5] input_size, bool"
        " align_corners, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor"
    )
    mode = "trilinear"

    def compute(self, grad_output, output_size, input_size, align_corners, scales_d, scales_h, scales_w):
        return self.back(grad_output, output_size, input_size, align_corners, (scales_d, scales_h, scales_w))
