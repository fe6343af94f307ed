"""Average pooling: sliding and adaptive windows, and power averages.

Enters: images [(batch,) channels, spatial dims]. Leaves: the mean of each window. Refuses: bool and complex images,
integers other than int64, windows that are mostly padding, outputs without elements.
"""

from __future__ import annotations

from typing import Any

from rushlight.definitions.window.axes import ADAPTIVE, AVERAGE, Axis, flat_axis, once_per_shape, pack, unpack
from rushlight.definitions.window.layout import in_order, is_channels_last, is_turned
from rushlight.op import Composite, find_op

from .largest import adaptive_sizes, check_adaptive
from .sizes import Pooling, check_image, check_rank, fixed, refuse


@once_per_shape
def sliding_axes(
    shape: tuple[int, ...],
    name: str,
    count: int,
    dtype: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    counts_padding: bool,
    whole: bool,
) -> tuple[int, ...]:
    """The packed axes of a sliding pool, undivided if `whole`; raises for what it refuses."""
    pool = Pooling(name, count, kernel, stride, padding, 1, ceil_mode)
    check_rank(name, shape, count) if count == 1 else check_image(name, shape, count)
    refuse(name, dtype, "bic")
    sizes = zip(shape[len(shape) - count :], pool.outputs(shape), pool.kernel, pool.stride, pool.padding, strict=True)
    return pack([Axis(AVERAGE, n, out, k, s, p, int(counts_padding), int(whole)) for n, out, k, s, p in sizes])


def window_sum(input: Any, axes: tuple[int, ...]) -> Any:
    """Sums over windows along packed axes; those of volumes lie in dense rows whatever the order of the input."""
    count = len(unpack(axes))
    if count == 1 and is_turned(input):
        return find_op("_window_sum")(input.unsqueeze(2), flat_axis(AVERAGE, axes)).squeeze(2)
    return find_op("_window_sum")(input.contiguous() if count == 3 else input, axes)


class AvgPool(Composite):
    """The mean of sliding windows; a window hanging over the padding is divided by the part inside the padded input."""

    method = False
    count: int

    def compute(self, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override=None):
        if divisor_override == 0:
            raise RuntimeError(f"{self.name}: divisor must be not zero")
        numbers = (
            fixed(kernel_size),
            fixed(stride),
            fixed(padding),
            ceil_mode,
            count_include_pad,
            divisor_override is not None,
        )
        total = window_sum(
            input, sliding_axes(tuple(input.shape), self.name, self.count, input.dtype, *numbers)
        )
        if divisor_override is None:
            return total
        return (
            total / divisor_override
            if input.dtype.is_floating_point
            else total.div(divisor_override, rounding_mode="trunc")
        )


class AvgPool1d(AvgPool):
    """The mean of windows over one dim."""

    schema = (
        "avg_pool1d(Tensor input, int[1] kernel_size, int[1]? stride=None, int[1] padding=0, bool ceil_mode=False, bool"
        " count_include_pad=True) -> Tensor"
    )
    aliases = ("nn.functional.avg_pool1d",)
    count = 1


class AvgPool2d(AvgPool):
    """The mean of windows over two dims."""

    schema = (
        "avg_pool2d(Tensor input, int[2] kernel_size, int[2]? stride=None, int[2] padding=0, bool ceil_mode=False, bool"
        " count_include_pad=True, int? divisor_override=None) -> Tensor"
    )
    replays = True
    namespace = "nn.functional"
    count = 2


class AvgPool3d(AvgPool):
    """The mean of windows over three dims."""

    schema = (
        "avg_pool3d(Tensor input, int[3] kernel_size, int[3]? stride=None, int[3] padding=0, bool ceil_mode=False, bool"
        " count_include_pad=True, int? divisor_override=None) -> Tensor"
    )
    namespace = "nn.functional"
    count = 3


class AdaptiveAvgPool(Composite):
    """The mean of as many windows as the output has elements."""

    method = False
    count: int

    def compute(self, input, output_size):
        sizes = adaptive_sizes(self.name, input, output_size, self.count)
        check_rank(self.name, input.shape, self.count)
        if min(sizes) < 0:
            raise RuntimeError(f"{self.name}: expected sizes of at least 0 in output_size, got {sizes}")
        check_adaptive(self.name, input, self.count)
        if all(n == 1 for n in sizes):
            result = input.mean(list(range(-self.count, 0)), keepdim=True)
            return in_order(result, True) if is_channels_last(input, self.count) else result
        space = input.shape[input.ndim - len(sizes) :]
        if all(out and n % out == 0 for n, out in zip(space, sizes, strict=True)):   # windows of one size, side by side
            return window_sum(
                input, pack([Axis(AVERAGE, n, out, n // out, n // out) for n, out in zip(space, sizes, strict=True)])
            )
        return window_sum(
            input, pack([Axis(ADAPTIVE, n, out, 1) for n, out in zip(space, sizes, strict=True)])
        )


class AdaptiveAvgPool1d(AdaptiveAvgPool):
    """Adaptive means over one dim."""

    schema = "adaptive_avg_pool1d(Tensor input, any output_size) -> Tensor"
    aliases = ("nn.functional.adaptive_avg_pool1d",)
    count = 1


class AdaptiveAvgPool2d(AdaptiveAvgPool):
    """Adaptive means over two dims."""

    schema = "adaptive_avg_pool2d(Tensor input, any output_size) -> Tensor"
    replays = True
    namespace = "nn.functional"
    count = 2


class AdaptiveAvgPool3d(AdaptiveAvgPool):
    """Adaptive means over three dims."""

    schema = "adaptive_avg_pool3d(Tensor input, any output_size) -> Tensor"
    namespace = "nn.functional"
    count = 3


# --- power averages ---------------------------------------------------------------------------------------------------


class LPPool(Composite):
    """The p-norm of sliding windows."""

    namespace = "nn.functional"
    method = out = False
    count: int

    def compute(self, input, norm_type, kernel_size, stride, ceil_mode):
        pool = Pooling(self.name, self.count, kernel_size, stride, 0, 1, ceil_mode)
        total = 1
        for k in pool.kernel:
            total *= k
        mean = find_op(f"avg_pool{self.count}d")(input.pow(norm_type), pool.kernel, pool.stride, 0, ceil_mode)
        return (mean.sign() * mean.abs().relu()).mul(total).pow(1.0 / norm_type)


class LPPool1d(LPPool):
    """The p-norm of windows over one dim."""

    schema = (
        "lp_pool1d(Tensor input, float norm_type, int[1] kernel_size, int[1]? stride=None, bool ceil_mode=False) ->"
        " Tensor"
    )
    count = 1


class LPPool2d(LPPool):
    """The p-norm of windows over two dims."""

    schema = (
        "lp_pool2d(Tensor input, float norm_type, int[2] kernel_size, int[2]? stride=None, bool ceil_mode=False) ->"
        " Tensor"
    )
    replays = True
    count = 2


class LPPool3d(LPPool):
    """The p-norm of windows over three dims."""

    schema = (
        "lp_pool3d(Tensor input, float norm_type, int[3] kernel_size, int[3]? stride=None, bool ceil_mode=False) ->"
        " Tensor"
    )
    count = 3
