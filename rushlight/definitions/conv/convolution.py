"""Convolutions of one to three dimensions, transposed ones, and their gradients.

Two ops do the work: `convolution` (transposed or not) and `_convolution_weight`, the gradient of its weight. A
transposed convolution is the gradient of a convolution's input and the other way round, so the derivatives of both ops,
to any order, are made of the two. The public forms (conv/forms.py: conv2d, conv_transpose1d, ...) only spell out
arguments.

float32 and float64 run as plans (planners/convolutions/convolve.py); half types through float32, complex ones as four
real convolutions, integers as products with gathered windows.
"""

from __future__ import annotations

import functools
from math import prod
from typing import Any, NamedTuple

from ... import _C, rules
from ...op import Library, Meta, Spec, find_op
from ...op.extern import on_other_device, own_function
from ...op.indexed import copy_steps
from ...op.layout import channels_last_strides, ordered_strides, prefers_channels_last
from ...op.library import Room
from ...op.memory import check_memory
from ...op.pointwise import check_devices
from ...op.step import Step
from ...planners.convolutions.convolve import PLANNED, refuse_finish, weight_steps
from ...planners.convolutions.plan import conv_steps, own_steps
from ...planners.convolutions.walk import Walk, Window, array_of, forward_axes
from ...planners.products.gemm import Matrix, tiled_steps
from ...rules.levels import behind

_HALF = (_C.float16, _C.bfloat16)
TURNED = 1 << 14         # elements from which a copy with other strides is worth its time
REMAINDERS = 1 << 12   # of the strides of a transposed convolution, each of which is a walk


# --- sizes and refusals -----------------------------------------------------------------------------------------------


def out_sizes(sizes: tuple[int, ...], window: Window, transposed: bool, extra: tuple[int, ...]) -> tuple[int, ...]:
    """Spatial sizes of the result; `extra` is the output padding of a transposed convolution."""
    spatial = zip(sizes, window.kernel, window.stride, window.padding, window.dilation, extra, strict=True)
    if transposed:
        return tuple((n - 1) * s - 2 * p + d * (k - 1) + e + 1 for n, k, s, p, d, e in spatial)
    return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d, _ in spatial)


def spread(name: str, what: str, values: Any, dims: int) -> tuple[int, ...]:
    """One number per spatial dimension."""
    if len(values) == dims:
        return tuple(values)
    if len(values) != 1:
        raise RuntimeError(f"{name}: expected one number or {dims} as {what}, got {what}={list(values)}")
    return tuple(values) * dims


def check_numbers(name: str, window: Window, extra: tuple[int, ...]) -> None:
    """Strides, paddings and the like that no convolution has."""
    if window.groups <= 0:
        raise RuntimeError(f"{name}: non-positive groups is not supported, got groups={window.groups}")
    if any(p < 0 for p in window.padding):
        raise RuntimeError(f"{name}: negative padding is not supported, got padding={list(window.padding)}")
    if any(e < 0 for e in extra):
        raise RuntimeError(f"{name}: negative output_padding is not supported, got output_padding={list(extra)}")
    if any(s <= 0 for s in window.stride):
        raise RuntimeError(f"{name}: non-positive stride is not supported, got stride={list(window.stride)}")
    if any(d <= 0 for d in window.dilation):
        raise RuntimeError(f"{name}: expected dilation greater than zero, got {list(window.dilation)}")


def check_types(name: str, input: Any, weight: Any, bias: Any) -> None:
    """Operands of one dtype on one device."""
    check_devices(name, (input, weight, bias))
    for what, other in (("weight", weight), ("bias", bias)):
        if other is not None and other.dtype is not input.dtype:
            raise RuntimeError(
                f"{name}: Input type ({input.dtype.name}) and {what} type ({other.dtype.name}) should be the same"
            )


def check_shapes(
    name: str, input: Any, weight: Any, bias: Any, window: Window, transposed: bool, extra: tuple[int, ...]
) -> None:
    """Channels, groups and bias that fit together, and a kernel that fits into the input."""
    shape, groups = tuple(weight.shape), window.groups
    if shape[0] < groups:
        raise RuntimeError(
            f"{name}: groups={groups} needs a weight of at least that size at dimension 0, got size {list(shape)}"
        )
    if shape[0] % groups:
        raise RuntimeError(
            f"{name}: groups={groups} must divide the size of weight at dimension 0, got size {list(shape)}"
        )
    channels, outs = (shape[0], shape[1] * groups) if transposed else (shape[1] * groups, shape[0])
    if input.shape[1] != channels:
        kind = "transpose=1" if transposed else f"groups={groups}"
        raise RuntimeError(
            f"{name}: Given {kind}, weight of size {list(shape)}, expected input{list(input.shape)} to have {channels}"
            f" channels, but got {input.shape[1]} channels instead"
        )
    if bias is not None and (bias.ndim != 1 or bias.shape[0] != outs):
        raise RuntimeError(
            f"{name}: Given weight of size {list(shape)}, expected bias to be 1-dimensional with {outs} elements, but"
            f" got bias of size {list(bias.shape)} instead"
        )
    if transposed:
        for e, s, d in zip(extra, window.stride, window.dilation, strict=True):
            if e >= s and e >= d:
                raise RuntimeError(
                    f"{name}: expected output_padding below stride or dilation, got output_padding={list(extra)},"
                    f" stride={list(window.stride)}, dilation={list(window.dilation)}"
                )
        if any(n <= 0 for n in input.shape[2:]):
            raise RuntimeError(f"{name}: expected a non-empty input, got input of size {list(input.shape)}")
    else:
        padded = [n + 2 * p for n, p in zip(input.shape[2:], window.padding, strict=True)]
        reach = [d * (k - 1) + 1 for k, d in zip(window.kernel, window.dilation, strict=True)]
        if any(n < k for n, k in zip(padded, reach, strict=True)):
            raise RuntimeError(f"{name}: Kernel size {reach} is larger than the padded input size {padded}")
    if any(k <= 0 for k in window.kernel):
        raise RuntimeError(f"{name}: expected kernel sizes above 0, got a weight of shape {list(shape)}")
    if any(n <= 0 for n in out_sizes(tuple(input.shape[2:]), window, transposed, extra)):
        raise RuntimeError(f"{name}: Given input size {list(input.shape)}, the calculated output size is too small")


# --- the ops ----------------------------------------------------------------------------------------------------------


class Convolution(Library):
    """Sums of an input under a moving kernel; transposed, the map that takes an output's gradient to the input's."""

    schema = (
        "convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, bool"
        " transposed, int[] output_padding, int groups) -> Tensor"
    )
    method = False
    out = False

    def vmap(self, level: Any, overload: Any, args: tuple) -> Any:
        """Examples join the pile; with a kernel for each, they become groups."""
        input, weight, bias, *rest = args
        if behind(weight, level) is None and (bias is None or behind(bias, level) is None):
            v = rules.batching.front(input, level)
            out = overload.call(v.reshape((v.shape[0] * v.shape[1], *v.shape[2:])), weight, bias, *rest)
            return rules.batching.wrapped(out.reshape((*v.shape[:2], *out.shape[1:])), level)
        *numbers, groups = rest
        size = level.batch_size
        out = overload.call(
            as_groups(rules.batching.expanded(input, level)),
            rules.batching.expanded(weight, level).flatten(0, 1),
            None,
            *numbers,
            groups * size,
        )
        out = out.reshape((out.shape[0], size, out.shape[1] // size, *out.shape[2:])).movedim(1, 0)
        if bias is not None:
            b = rules.batching.expanded(bias, level)
            out = out + b.reshape((size, 1, b.shape[1], *(1,) * (out.ndim - 3)))
        return rules.batching.wrapped(out, level)

    def checked(
        self,
        input: Any,
        weight: Any,
        bias: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        transposed: bool,
        output_padding: Any,
        groups: int,
    ) -> tuple[Window, tuple[int, ...]]:
        """The window and the output padding, one number per dimension; raises for what is refused."""
        name = "conv_transpose" if transposed else "conv"
        dims = weight.ndim - 2
        if dims < 1:
            raise RuntimeError(
                f"{name}: weight should have at least three dimensions, got weight of size {list(weight.shape)}"
            )
        if input.ndim != weight.ndim:
            raise RuntimeError(
                f"{name}: Expected {weight.ndim}-dimensional input for {weight.ndim}-dimensional weight"
                f" {list(weight.shape)}, but got {input.ndim}-dimensional input of size {list(input.shape)} instead"
            )
        if dims > 3:
            raise RuntimeError(
                f"{name}: only 1, 2 or 3 spatial dimensions are supported, got weight of size {list(weight.shape)}"
            )
        values = [
            spread(name, what, v, dims)
            for what, v in (
                ("stride", stride),
                ("padding", padding),
                ("dilation", dilation),
                ("output_padding", output_padding),
            )
        ]
        window, extra = Window(tuple(weight.shape[2:]), *values[:3], groups), values[3] if transposed else (0,) * dims
        check_numbers(name, window, extra)
        check_types(name, input, weight, bias)
        check_shapes(name, input, weight, bias, window, transposed, extra)
        return window, extra

    def meta(self, input, weight, bias, *rest):
        *_, transposed, _, groups = rest
        window, extra = self.checked(input, weight, bias, *rest)
        sizes = out_sizes(tuple(input.shape[2:]), window, transposed, extra)
        outs = weight.shape[1] * groups if transposed else weight.shape[0]
        shape = (input.shape[0], outs, *sizes)
        return Spec(shape, input.dtype, result_strides(input, weight, shape))

    def flops(self, input, weight, bias, *rest):
        """Every weight meets every position of the result, or of the input where the convolution is transposed."""
        out = self.meta(input, weight, bias, *rest).shape
        places = prod((input.shape if rest[3] else out)[2:])
        return 2 * input.shape[0] * places * prod(weight.shape) + (0 if bias is None else prod(out))

    def steps(self, args, room):
        input, weight, bias, *_, transposed, _, _ = args
        window, _ = self.checked(*args)
        shape, strides = room.slots[0][2:4]
        check_memory(shape, input.dtype, input.device)
        if own_function("convolution", input.device) is not None:
            rest = args[3:] if bias is not None else (None, *args[3:])
            return own_steps("convolution", rest, room)
        kernels = input.device.type == "cpu" and input.dtype.code in PLANNED
        if not kernels or (bias is not None and not bias._is_contiguous()) or (transposed and has_gaps(window)):
            return None
        product = pixel_rows_steps(input, weight, bias, (shape, strides), window, transposed, room)
        if product is not None:
            return product
        inputs, copies = room.inputs, []
        source, place = dense(input, 0, room, copies)
        rows = ordered_strides(shape, range(len(shape) - 1, -1, -1))
        turns = strides is not None and prod(shape) >= TURNED
        target = room.temp(input.dtype, shape) if turns else inputs
        out, needed = conv_steps(
            source,
            place,
            weight,
            None if bias is None else 2,
            shape,
            rows if turns else strides or rows,
            window,
            transposed,
            target,
            room.next,
            room.wishes,
        )
        room.temp(input.dtype, (needed,))
        steps = [*copies, *out]
        if turns:   # channels go last, where they lie densely
            refuse_finish(room.wishes.finish, "a result that is copied to another layout")
            order = (0, *range(2, len(shape)), 1)
            flipped = Dense(tuple(shape[d] for d in order), tuple(rows[d] for d in order), input.dtype)
            steps += copy_steps(input.device, flipped, target, (inputs, 0), tuple(strides[d] for d in order))
        return steps

    def run(self, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
        rest = (stride, padding, dilation, transposed, output_padding, groups)
        window, extra = self.checked(input, weight, bias, *rest)
        again = functools.partial(
            find_op("convolution"),
            stride=stride,
            padding=padding,
            dilation=dilation,
            transposed=transposed,
            output_padding=output_padding,
            groups=groups,
        )
        if input.device.type != "cpu":
            return on_other_device("convolution", input.device, (input, weight, bias, *rest), find_op("convolution"))
        if input.dtype in _HALF:
            wide = again(input.to(_C.float32), weight.to(_C.float32), None if bias is None else bias.to(_C.float32))
            return wide.to(input.dtype)
        if input.is_complex():
            return with_bias(bilinear_parts(lambda x, w: again(x, w, None), input, weight), bias)
        if transposed and has_gaps(window):
            return with_bias(gapped_convolution(input, weight, window, extra), bias)
        if input.is_floating_point():
            return again(input, weight, bias.contiguous())
        return with_bias(integer_convolution(input, weight, window, transposed, extra), bias)

    def vjp(self, g, input, weight, bias: Meta, stride, padding, dilation, transposed, output_padding, groups):
        for_input, for_weight, for_bias = asked(3)
        wanted = (for_input, for_weight, for_bias and bias is not None)
        out = gradients(g, input, weight, (stride, padding, dilation, groups), transposed, wanted)
        return dict(zip(("input", "weight", "bias"), out, strict=True))


def as_groups(v: Any) -> Any:
    """[batch, pile, channels, ...] as [pile, batch * channels, ...]."""
    return v.movedim(0, 1).flatten(1, 2)


def asked(count: int) -> tuple[bool, ...]:
    """For each of an op's tensor parameters, whether the derivative rule being run is asked for its gradient."""
    mask = _C.vjp_needs()
    return tuple(bool(mask >> k & 1) for k in range(count))


def gradients(g: Any, input: Any, weight: Any, rest: tuple, transposed: bool, wanted: tuple[bool, bool, bool]) -> tuple:
    """Gradients of a convolution's input, weight and bias; None for those not wanted."""
    stride, padding, dilation, groups = rest
    dims = weight.ndim - 2
    to_input = to_weight = to_bias = None
    if wanted[0]:
        extra = (0,) * dims
        if not transposed:   # a stride may leave elements at the end that no window reaches
            wide = [v if len(v) == dims else tuple(v) * dims for v in (stride, padding, dilation)]
            spatial = zip(input.shape[2:], g.shape[2:], weight.shape[2:], *wide, strict=True)
            extra = tuple([n - (o - 1) * s + 2 * p - d * (k - 1) - 1 for n, o, k, s, p, d in spatial])
        to_input = find_op("convolution")(
            g, weight.conj(), None, stride, padding, dilation, not transposed, extra, groups
        )
        to_input = cut(to_input, input)
    if wanted[1]:
        upper, lower = (input.conj(), g) if transposed else (g, input.conj())
        to_weight = find_op("_convolution_weight")(
            upper, lower, tuple(weight.shape[2:]), stride, padding, dilation, groups
        )
    if wanted[2]:
        to_bias = g.sum((0, *range(2, g.ndim)))
    return to_input, to_weight, to_bias


def cut(gradient: Any, like: Any) -> Any:
    """A gradient in the size of what it belongs to: output padding beyond the stride, under a dilation,
    adds windows of its own."""
    return gradient if gradient.shape[2:] == like.shape[2:] else gradient[(..., *(slice(n) for n in like.shape[2:]))]


class Dense(NamedTuple):
    """What planning reads of a tensor: its geometry and dtype."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any

    def stride(self) -> tuple[int, ...]:
        return self.strides


def dense(t: Any, slot: int, room: Room, copies: list[Step]) -> tuple[Any, int]:
    """A tensor and its slot as kernels read it best: copied first, if it is large and its columns lie apart."""
    if t.stride()[-1] == 1 or t.shape[-1] == 1 or t.numel() < TURNED:
        return t, slot
    shape = tuple(t.shape)
    out = Dense(shape, ordered_strides(shape, range(len(shape) - 1, -1, -1)), t.dtype)
    place = room.temp(t.dtype, shape)
    copies += copy_steps(room.device, t, slot, (place, 0), None)
    return out, place


def pixel_rows_steps(
    input: Any, weight: Any, bias: Any, result: tuple[tuple[int, ...], Any], window: Window, transposed: bool,
    room: Room,
) -> list[Step] | None:
    """Windows of single pixels whose channels are neighbours: pixels are rows of a matrix, as they lie, and so are the
    results. None for other windows and layouts, and where ops are to come behind."""
    shape, strides = result
    source = pixel_step(tuple(input.shape), input.stride())
    target = pixel_step(shape, strides) if strides is not None else None
    if source is None or target is None or room.wishes.finish is not None or room.wishes.form is not None:
        return None
    if not is_pixelwise(window) or prod(shape) < TURNED:
        return None
    (out, channel), pixels = weight.stride()[:2], shape[0] * prod(shape[2:])
    if transposed:
        out, channel = channel, out
    found = tiled_steps(
        input.dtype.code, room.device, Matrix(0, source, 1), Matrix(1, channel, out), Matrix(room.inputs, target, 1),
        pixels, shape[1], input.shape[1], room.next, 1, None if bias is None else Matrix(2, 0, 1),
    )
    if found is None:
        return None
    room.temp(input.dtype, (found[1],))
    return found[0]


def is_pixelwise(window: Window) -> bool:
    """Whether every result sees the one pixel at its own place."""
    ones = (1,) * len(window.kernel)
    return window.kernel == ones == window.stride and not any(window.padding) and window.groups == 1


def pixel_step(shape: tuple[int, ...], strides: tuple[int, ...]) -> int | None:
    """How far apart pixels are, of all images, where channels are neighbours and pixels evenly apart."""
    if 0 in shape or (shape[1] != 1 and strides[1] != 1):
        return None
    step = reach = None
    for d in (*range(len(shape) - 1, 1, -1), 0):
        if shape[d] == 1:
            continue
        if step is None:
            step = reach = strides[d]
        elif strides[d] != reach:
            return None
        reach *= shape[d]
    return step if step is None or step >= shape[1] else None


def result_strides(input: Any, weight: Any, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Channels last where input or weight is; None for row-major."""
    if len(shape) in (4, 5) and (prefers_channels_last(input) or prefers_channels_last(weight)):
        return channels_last_strides(shape)
    return None


class ConvolutionWeight(Library):
    """Gradient of a convolution's weight, from the gradient of its result and its input."""

    schema = (
        "_convolution_weight(Tensor grad, Tensor input, int[] kernel_size, int[] stride, int[] padding, int[] dilation,"
        " int groups) -> Tensor"
    )
    function = method = out = False

    def vmap(self, level: Any, overload: Any, args: tuple) -> Any:
        """A gradient for each example: examples become groups."""
        grad, input, *numbers, groups = args
        size = level.batch_size
        out = overload.call(
            *(as_groups(rules.batching.expanded(t, level)) for t in (grad, input)), *numbers, groups * size
        )
        return rules.batching.wrapped(out.reshape((size, out.shape[0] // size, *out.shape[1:])), level)

    def window(self, kernel_size: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Window:
        dims = len(kernel_size)
        return Window(
            tuple(kernel_size),
            *(
                spread("conv", what, v, dims)
                for what, v in (("stride", stride), ("padding", padding), ("dilation", dilation))
            ),
            groups,
        )

    def meta(self, grad, input, *rest):
        check_types("conv", input, grad, None)
        window = self.window(*rest)
        check_numbers("conv", window, ())
        shape = (grad.shape[1], input.shape[1] // window.groups, *window.kernel)
        own = self.is_own(grad)
        return Spec(shape, grad.dtype, result_strides(input, grad, shape) if own else None)

    def flops(self, grad, input, *rest):
        return 2 * grad.shape[0] * prod(grad.shape[2:]) * prod(self.meta(grad, input, *rest).shape)

    def is_own(self, grad: Any) -> bool:
        """Whether a plugged-in device has a function for it."""
        return grad.numel() > 0 and own_function(self.name, grad.device) is not None

    def steps(self, args, room):
        grad, input, *rest = args
        if self.is_own(grad):
            return own_steps(self.name, tuple(rest), room)
        window, code, copies = self.window(*rest), grad.dtype.code, []
        if grad.device.type != "cpu" or code not in PLANNED or not grad.numel():
            return None
        groups = window.groups
        channels, outs = input.shape[1] // groups, grad.shape[1] // groups
        (upper, above), (lower, below) = dense(grad, 0, room, copies), dense(input, 1, room, copies)
        axes = tuple(forward_axes(tuple(input.shape[2:]), tuple(grad.shape[2:]), window))
        walk = Walk(
            axes,
            array_of(below, lower.stride(), channels),
            array_of(above, upper.stride(), outs),
            grad.shape[0],
            groups,
            channels,
            outs,
        )
        steps, needed = weight_steps(code, walk, 2, room.next)
        room.temp(grad.dtype, (needed,))
        return [*copies, *steps]

    def run(self, grad, input, kernel_size, stride, padding, dilation, groups):
        rest = (kernel_size, stride, padding, dilation, groups)
        own = find_op("_convolution_weight")
        if not grad.numel():
            return grad.new_zeros((grad.shape[1], input.shape[1] // groups, *kernel_size))
        if grad.device.type != "cpu":
            return on_other_device("_convolution_weight", grad.device, (grad, input, *rest), own)
        if grad.dtype in _HALF:
            return own(grad.to(_C.float32), input.to(_C.float32), *rest).to(grad.dtype)
        if grad.is_complex():
            return bilinear_parts(lambda g, x: own(g, x, *rest), grad, input)
        raise NotImplementedError(
            f"convolution_backward: weight gradients are not implemented for {grad.dtype.name} tensors. Use a"
            " floating-point dtype."
        )

    def vjp(self, g, grad, input, kernel_size, stride, padding, dilation, groups):
        own = find_op("convolution")
        none = (0,) * len(kernel_size)
        for_grad, for_input = asked(2)
        to_grad = (
            cut(own(input.conj(), g, None, stride, padding, dilation, False, none, groups), grad) if for_grad else None
        )
        to_input = (
            gradients(grad.conj(), input, g.conj(), (stride, padding, dilation, groups), False, (True, False, False))[0]
            if for_input
            else None
        )
        return {"grad": to_grad, "input": to_input}


def with_bias(result: Any, bias: Any) -> Any:
    """result + bias per channel."""
    return result if bias is None else result + bias.reshape(-1, *(1,) * (result.ndim - 2))


def bilinear_parts(apply: Any, a: Any, b: Any) -> Any:
    """A bilinear function of complex tensors from its values on their real and imaginary parts."""
    real = apply(a.real, b.real) - apply(a.imag, b.imag)
    return find_op("complex")(real, apply(a.real, b.imag) + apply(a.imag, b.real))


def integer_convolution(input: Any, weight: Any, window: Window, transposed: bool, extra: tuple[int, ...]) -> Any:
    """Windows gathered image by image and multiplied: for dtypes that need exactness, not speed."""
    groups, dims = window.groups, len(window.kernel)
    spatial = range(-dims, 0)
    if transposed:   # a convolution of the input with zeros between its elements, with the kernel mirrored
        wide = input.new_zeros(
            (*input.shape[:2], *((n - 1) * s + 1 for n, s in zip(input.shape[2:], window.stride, strict=True)))
        )
        wide[(..., *(slice(None, None, s) for s in window.stride))] = input
        folded = (
            weight.reshape(groups, -1, *weight.shape[1:])
            .transpose(1, 2)
            .reshape(-1, weight.shape[0] // groups, *window.kernel)
            .flip(tuple(spatial))
        )
        reach = [d * (k - 1) - p for k, p, d in zip(window.kernel, window.padding, window.dilation, strict=True)]
        padded = framed(wide, reach, [r + e for r, e in zip(reach, extra, strict=True)])
        return integer_convolution(
            padded, folded, Window(window.kernel, (1,) * dims, (0,) * dims, window.dilation, groups), False, extra
        )
    input = framed(input, window.padding, window.padding)
    sizes = out_sizes(
        tuple(input.shape[2:]),
        Window(window.kernel, window.stride, (0,) * dims, window.dilation, groups),
        False,
        (0,) * dims,
    )
    channels, outs = input.shape[1] // groups, weight.shape[0] // groups
    st = input.stride()
    steps = (
        *(s * d for s, d in zip(st[2:], window.dilation, strict=True)),
        *(s * n for s, n in zip(st[2:], window.stride, strict=True)),
    )
    matrix = weight.reshape(groups, outs, -1)
    images = []
    for image in input.unbind(0):
        view = image.as_strided(
            (groups, channels, *window.kernel, *sizes), (st[1] * channels, st[1], *steps), image.storage_offset()
        )
        images.append((matrix @ view.reshape(groups, -1, prod(sizes))).reshape(groups * outs, *sizes))
    return find_op("stack")(images) if images else input.new_empty((0, groups * outs, *sizes))


def extents(window: Window) -> tuple[int, ...]:
    """How far the taps of a window reach, per dimension."""
    return tuple(d * (k - 1) + 1 for k, d in zip(window.kernel, window.dilation, strict=True))


def has_gaps(window: Window) -> bool:
    """Whether a transposed convolution has so many remainders of its strides, most of which no tap reaches,
    that walks are no way to compute it."""
    if prod(window.stride) <= REMAINDERS:
        return False
    return any(s > e for s, e in zip(window.stride, extents(window), strict=True)) or prod(
        window.stride
    ) > REMAINDERS * prod(window.kernel)


def gapped_convolution(input: Any, weight: Any, window: Window, extra: tuple[int, ...]) -> Any:
    """A transposed convolution whose strides leave gaps: one without gaps, then the gaps between its windows."""
    dims = len(window.kernel)
    close = tuple(min(s, e) for s, e in zip(window.stride, extents(window), strict=True))
    tight = Window(window.kernel, close, (0,) * dims, window.dilation, window.groups)
    if has_gaps(tight):   # taps as far apart as the windows
        out = integer_convolution(input, weight, tight, True, (0,) * dims)
    else:
        out = find_op("convolution")(
            input, weight, None, close, (0,) * dims, window.dilation, True, (0,) * dims, window.groups
        )
    for k in range(dims):
        if close[k] < window.stride[k]:
            out = parted(out, k + 2, input.shape[k + 2], window.stride[k])
    reach = [n - w for n, w in zip(out_sizes(tuple(input.shape[2:]), window, True, extra), out.shape[2:], strict=True)]
    return framed(out, [-p for p in window.padding], [r + p for r, p in zip(reach, window.padding, strict=True)])


def parted(windows: Any, dim: int, count: int, stride: int) -> Any:
    """`count` windows that touch along a dimension, moved to multiples of a stride."""
    size = windows.shape[dim] // count
    wide = windows.new_zeros((*windows.shape[:dim], (count - 1) * stride + size, *windows.shape[dim + 1 :]))
    steps = wide.stride()
    apart = wide.as_strided(
        (*windows.shape[:dim], count, size, *windows.shape[dim + 1 :]),
        (*steps[:dim], stride * steps[dim], *steps[dim:]),
    )
    apart.copy_(windows.reshape(apart.shape))
    return wide


def framed(input: Any, before: Any, after: Any) -> Any:
    """The input with zeros around its spatial dimensions; negative numbers cut off."""
    shape = [n + b + a for n, b, a in zip(input.shape[2:], before, after, strict=True)]
    out = input.new_zeros((*input.shape[:2], *shape))
    keep = [slice(max(0, -b), n - max(0, -a)) for n, b, a in zip(input.shape[2:], before, after, strict=True)]
    put = [slice(max(0, b), m - max(0, a)) for m, b, a in zip(shape, before, after, strict=True)]
    out[(..., *put)] = input[(..., *keep)]
    return out
