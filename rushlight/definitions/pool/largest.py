"""Max pooling: sliding, adaptive and fractional windows, with the positions of the maxima.

Enters: images [(batch,) channels, spatial dims]. Leaves: the largest element of each window, and where it is in the
flattened spatial dims. Refuses: bool and complex images, windows that are mostly padding, outputs without elements.
"""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight.base.shape import INTS, NUMBERS, is_below
from rushlight.definitions.window.axes import ADAPTIVE, POOL, Axis, flat_axis, once_per_shape, pack
from rushlight.definitions.window.layout import is_turned
from rushlight.op import Composite, find_op
from rushlight.op.definition import OpDefinition

from .sizes import Pooling, check_image, check_rank, fixed, per_dim, refuse

SHORT_PLANE = 1 << 31   # positions in larger planes need 64 bits


def max_windows(input: Any, axes: tuple[int, ...], count: int, return_indices: bool) -> Any:
    """Maxima over `count` packed axes; positions of 32 bits where nobody sees them."""
    if count == 1 and is_turned(input):
        found = max_windows(input.unsqueeze(2), flat_axis(POOL, axes), 2, return_indices)
        return tuple(t.squeeze(2) for t in found) if return_indices else found.squeeze(2)
    plane = 1
    for n in input.shape[input.ndim - count :]:
        plane *= n
    found = find_op("_window_max")(input, axes, 32 if not return_indices and is_below(plane, SHORT_PLANE) else 64)
    return found if return_indices else found[0]


@once_per_shape
def sliding_axes(shape: tuple[int, ...], name: str, count: int, dtype: Any, *numbers: Any) -> tuple[int, ...]:
    """The packed axes of a sliding pool; raises for what it refuses."""
    pool = Pooling(name, count, *numbers)
    check_image(name, shape, count)
    refuse(name, dtype, "bc" if count > 1 else "bilc")
    own = zip(pool.kernel, pool.stride, pool.padding, pool.dilation, strict=True)
    return pack(
        [
            Axis(POOL, n, out, *window)
            for n, out, window in zip(shape[len(shape) - count :], pool.outputs(shape), own, strict=True)
        ]
    )


class MaxPool(Composite):
    """The largest element of sliding windows."""

    method = False
    count: int

    def compute(self, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices=True):
        numbers = (fixed(kernel_size), fixed(stride), fixed(padding), fixed(dilation), ceil_mode)
        axes = sliding_axes(tuple(input.shape), self.name, self.count, input.dtype, *numbers)
        return max_windows(input, axes, self.count, return_indices)


class MaxPool1d(MaxPool):
    """The largest element of windows over one dim."""

    schema = (
        "max_pool1d(Tensor input, int[1] kernel_size, int[1]? stride=None, int[1] padding=0, int[1] dilation=1, bool"
        " ceil_mode=False, bool return_indices=False) -> Tensor"
    )
    replays = True
    aliases = ("nn.functional.max_pool1d",)
    count = 1


class MaxPool2d(MaxPool):
    """The largest element of windows over two dims."""

    schema = (
        "max_pool2d(Tensor input, int[2] kernel_size, int[2]? stride=None, int[2] padding=0, int[2] dilation=1, bool"
        " ceil_mode=False, bool return_indices=False) -> Tensor"
    )
    replays = True
    aliases = ("nn.functional.max_pool2d",)
    count = 2


class MaxPool3d(MaxPool):
    """The largest element of windows over three dims."""

    schema = (
        "max_pool3d(Tensor input, int[3] kernel_size, int[3]? stride=None, int[3] padding=0, int[3] dilation=1, bool"
        " ceil_mode=False, bool return_indices=False) -> Tensor"
    )
    replays = True
    aliases = ("nn.functional.max_pool3d",)
    count = 3


class MaxPool1dWithIndices(MaxPool):
    """max_pool1d and where the maxima are."""

    schema = (
        "max_pool1d_with_indices(Tensor input, int[1] kernel_size, int[1]? stride=None, int[1] padding=0, int[1]"
        " dilation=1, bool ceil_mode=False, bool return_indices=True) -> (Tensor, Tensor)"
    )
    aliases = ("nn.functional.max_pool1d_with_indices",)
    count = 1


class MaxPool2dWithIndices(MaxPool):
    """max_pool2d and where the maxima are."""

    schema = (
        "max_pool2d_with_indices(Tensor input, int[2] kernel_size, int[2]? stride=None, int[2] padding=0, int[2]"
        " dilation=1, bool ceil_mode=False, bool return_indices=True) -> (Tensor, Tensor)"
    )
    namespace = "nn.functional"
    count = 2


class MaxPool3dWithIndices(MaxPool):
    """max_pool3d and where the maxima are."""

    schema = (
        "max_pool3d_with_indices(Tensor input, int[3] kernel_size, int[3]? stride=None, int[3] padding=0, int[3]"
        " dilation=1, bool ceil_mode=False, bool return_indices=True) -> (Tensor, Tensor)"
    )
    namespace = "nn.functional"
    count = 3


class MaxPoolBackward(OpDefinition):
    """The gradient of a max pool, from the positions of its maxima. The pool's input counts by its shape alone."""

    batch = "body"
    function = method = out = False
    count: int

    def vjp(self, g, indices):
        flat = indices.flatten(-self.count)
        return {"grad_output": g.flatten(-self.count).gather(-1, flat).view(indices.shape)}

    def run(self, grad_output, self_, kernel_size, stride, padding, dilation, ceil_mode, indices):
        pool = Pooling(self.name, self.count, kernel_size, stride, padding, dilation, ceil_mode)
        check_image(self.name, self_.shape, self.count)
        shape = (*self_.shape[: self_.ndim - self.count], *pool.outputs(self_.shape))
        for label, t in (("grad_output", grad_output), ("indices", indices)):
            if tuple(t.shape) != shape:
                raise RuntimeError(f"{self.name}: expected {label} of shape {list(shape)}, got {list(t.shape)}")
        return find_op("_window_max_backward")(grad_output, indices, self_.shape[self_.ndim - self.count :], True)


class MaxPool2dBackward(MaxPoolBackward):
    """The gradient of max_pool2d_with_indices."""

    schema = (
        "max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2]? stride, int[2]"
        " padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor"
    )
    count = 2


class MaxPool3dBackward(MaxPoolBackward):
    """The gradient of max_pool3d_with_indices."""

    schema = (
        "max_pool3d_with_indices_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3]? stride, int[3]"
        " padding, int[3] dilation, bool ceil_mode, Tensor indices) -> Tensor"
    )
    count = 3


class AdaptiveMaxPool(Composite):
    """The largest element of as many windows as the output has elements."""

    method = False
    count: int

    def compute(self, input, output_size, return_indices):
        sizes = adaptive_sizes(self.name, input, output_size, self.count)
        check_rank(self.name, input.shape, self.count)
        if min(sizes) < 0:
            raise RuntimeError(
                f"{self.name}: expected sizes of at least 0, got negative dimension {min(sizes)}: {sizes}"
            )
        check_adaptive(self.name, input, self.count)
        if 0 in sizes:
            empty = input.new_empty((*input.shape[: input.ndim - self.count], *sizes))
            return (empty, empty.to(_C.int64)) if return_indices else empty
        space = input.shape[input.ndim - self.count :]
        return max_windows(
            input if self.count < 3 else input.contiguous(),   # volumes: dense rows
            pack([Axis(ADAPTIVE, n, out) for n, out in zip(space, sizes, strict=True)]),
            self.count,
            return_indices,
        )


def check_adaptive(name: str, input: Any, count: int) -> None:
    """Floats whose channels and spatial dims have elements."""
    if 0 in input.shape[1 if input.ndim == count + 2 else 0 :]:
        raise RuntimeError(f"{name}: only the batch dimension of input may be empty, got sizes {list(input.shape)}")
    refuse(name, input.dtype, "bilc")


def adaptive_sizes(name: str, input: Any, output_size: Any, count: int) -> list[int]:
    """Output sizes: one for all dims, or one each, where None keeps the input's."""
    if output_size is None or isinstance(output_size, INTS):
        output_size = (output_size,) * count
    elif count > 1 and input.ndim <= len(output_size):
        raise ValueError(f"{name}: Input dimension should be at least {len(output_size) + 1}, got {input.ndim}")
    if len(output_size) == 1:
        output_size = tuple(output_size) * count
    if len(output_size) != count:
        raise RuntimeError(
            f"{name}: output_size must be {count} ints, got {list(output_size)}: 'output_size' should contain one int"
            " per dim"
        )
    space = input.shape[input.ndim - count :] if input.ndim >= count else (1,) * count
    return [n if out is None else out for n, out in zip(space, output_size, strict=True)]


class AdaptiveMaxPool1d(AdaptiveMaxPool):
    """Adaptive maxima over one dim."""

    schema = "adaptive_max_pool1d(Tensor input, any output_size, bool return_indices=False) -> Tensor"
    aliases = ("nn.functional.adaptive_max_pool1d",)
    count = 1


class AdaptiveMaxPool2d(AdaptiveMaxPool):
    """Adaptive maxima over two dims."""

    schema = "adaptive_max_pool2d(Tensor input, any output_size, bool return_indices=False) -> Tensor"
    namespace = "nn.functional"
    count = 2


class AdaptiveMaxPool3d(AdaptiveMaxPool):
    """Adaptive maxima over three dims."""

    schema = "adaptive_max_pool3d(Tensor input, any output_size, bool return_indices=False) -> Tensor"
    namespace = "nn.functional"
    count = 3


class AdaptiveMaxWithIndices(Composite):
    """An adaptive max pool and where the maxima are."""

    schema = (
        "adaptive_max_pool1d_with_indices(Tensor input, any output_size, bool return_indices=True) -> (Tensor, Tensor)"
    )
    namespace = "nn.functional"
    method = False

    def compute(self, input, output_size, return_indices):
        return find_op(self.name.removesuffix("_with_indices"))(input, output_size, True)


class AdaptiveMaxWithIndices2d(AdaptiveMaxWithIndices):
    """adaptive_max_pool2d and where the maxima are."""

    schema = (
        "adaptive_max_pool2d_with_indices(Tensor input, any output_size, bool return_indices=True) -> (Tensor, Tensor)"
    )


class AdaptiveMaxWithIndices3d(AdaptiveMaxWithIndices):
    """adaptive_max_pool3d and where the maxima are."""

    schema = (
        "adaptive_max_pool3d_with_indices(Tensor input, any output_size, bool return_indices=True) -> (Tensor, Tensor)"
    )


# --- fractional windows -----------------------------------------------------------------------------------------------


class FractionalMaxPool(Composite):
    """The largest element of windows whose steps are drawn at random."""

    namespace = "nn.functional"
    method = out = False
    count: int

    def compute(self, input, kernel_size, output_size, output_ratio, return_indices=True, _random_samples=None):
        count, name = self.count, self.name
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name}: expected output_size or output_ratio, got neither")
        kernel = per_dim(name, "kernel_size", kernel_size, count)
        check_image(name, input.shape, count)
        refuse(name, input.dtype, "bilc")
        space = input.shape[input.ndim - count :]
        if output_size is None:
            ratios = (output_ratio,) * count if isinstance(output_ratio, NUMBERS) else tuple(output_ratio)
            if len(ratios) != count:
                raise ValueError(f"{name}: expected output_ratio to be one number or {count}, got {output_ratio}")
            output_size = [int(n * ratio) for n, ratio in zip(space, ratios, strict=True)]
        sizes = per_dim(name, "output_size", output_size, count)
        for n, k, out in zip(space, kernel, sizes, strict=True):
            if k < 1:
                raise RuntimeError(f"{name}: expected a kernel_size of at least 1, got {k}")
            if out < 1 or out + k - 1 > n:
                raise RuntimeError(
                    f"{name}: pool size {k} and output size {out} are too large relative to input size {n}"
                )
        samples = _random_samples
        lead = (1, input.shape[0]) if input.ndim == count + 1 else tuple(input.shape[:2])
        if samples is None:
            samples = find_op("rand")((*lead, count), dtype=input.dtype, device=input.device)
        self.check_samples(samples, input, lead)
        values, indices = find_op("_fractional_max")(input, samples[: lead[0]].contiguous(), kernel, sizes)
        return (values, indices) if return_indices else values

    def check_samples(self, samples: Any, input: Any, lead: tuple[int, int]) -> None:
        if samples.dtype is not input.dtype:
            raise RuntimeError(
                f"{self.name}: expected _random_samples of the dtype of input, {input.dtype.name}, got"
                f" {samples.dtype.name}"
            )
        if (
            samples.ndim != 3
            or samples.shape[0] < lead[0]
            or samples.shape[1] != lead[1]
            or samples.shape[2] != self.count
        ):
            raise RuntimeError(
                f"{self.name}: Expect _random_samples of shape {[*lead, self.count]}, got {list(samples.shape)}"
            )


class FractionalMaxPool2d(FractionalMaxPool):
    """Fractional maxima over two dims."""

    schema = (
        "fractional_max_pool2d(Tensor input, int[2] kernel_size, int[2]? output_size=None, any output_ratio=None, bool"
        " return_indices=False, Tensor? _random_samples=None) -> Tensor"
    )
    count = 2


class FractionalMaxPool3d(FractionalMaxPool):
    """Fractional maxima over three dims."""

    schema = (
        "fractional_max_pool3d(Tensor input, int[3] kernel_size, int[3]? output_size=None, any output_ratio=None, bool"
        " return_indices=False, Tensor? _random_samples=None) -> Tensor"
    )
    count = 3


class FractionalMaxPool2dWithIndices(FractionalMaxPool):
    """fractional_max_pool2d and where the maxima are."""

    schema = (
        "fractional_max_pool2d_with_indices(Tensor input, int[2] kernel_size, int[2]? output_size=None, any"
        " output_ratio=None, bool return_indices=True, Tensor? _random_samples=None) -> (Tensor, Tensor)"
    )
    count = 2


class FractionalMaxPool3dWithIndices(FractionalMaxPool):
    """fractional_max_pool3d and where the maxima are."""

    schema = (
        "fractional_max_pool3d_with_indices(Tensor input, int[3] kernel_size, int[3]? output_size=None, any"
        " output_ratio=None, bool return_indices=True, Tensor? _random_samples=None) -> (Tensor, Tensor)"
    )
    count = 3
