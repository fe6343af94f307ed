"""The public forms of convolution: conv1d to conv_transpose3d, which only spell out the arguments of `convolution`."""

from __future__ import annotations

import functools
from typing import Any

from ...op import Composite, find_op
from .convolution import gradients, spread


class _Plain(Composite):
    """conv1d, conv2d and conv3d: unbatched inputs and padding by name."""

    method = False
    out = False
    views = "keep"   # of the batch of one that an unbatched input becomes
    dims = 0

    def compute(self, input, weight, bias, stride, padding, dilation, groups):
        name, dims = self.spec.name, self.dims
        if weight.ndim != dims + 2 and not isinstance(padding, str):
            raise RuntimeError(
                f"{name}: Expected {weight.ndim}-dimensional input for {weight.ndim}-dimensional weight"
                f" {list(weight.shape)}: {name} takes weights of {dims + 2} dimensions"
            )
        if input.ndim not in (dims + 1, dims + 2):
            raise RuntimeError(
                f"{name}: Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input to {name}, but got input of"
                f" size: {list(input.shape)}"
            )
        if input.ndim == dims + 1:
            return self.compute(input.unsqueeze(0), weight, bias, stride, padding, dilation, groups).squeeze(0)
        if isinstance(padding, str):
            return self.padded(input, weight, bias, stride, padding, dilation, groups)
        return find_op("convolution")(input, weight, bias, stride, padding, dilation, False, (0,) * dims, groups)

    def padded(self, input: Any, weight: Any, bias: Any, stride: Any, padding: str, dilation: Any, groups: int) -> Any:
        """padding="valid" adds nothing, padding="same" keeps sizes."""
        name, dims = self.spec.name, self.dims
        own = functools.partial(find_op("convolution"), transposed=False, output_padding=(0,) * dims, groups=groups)
        if padding not in ("same", "valid"):
            raise RuntimeError(f"{name}: Invalid padding string {padding!r}, should be one of 'valid', 'same'")
        if weight.ndim != dims + 2:
            raise RuntimeError(
                f"{name}: Expected {weight.ndim}-dimensional input for {weight.ndim}-dimensional weight"
                f" {list(weight.shape)}, but got {input.ndim}-dimensional input of size {list(input.shape)} instead"
            )
        if padding == "valid":
            return own(input, weight, bias, stride, (0,) * dims, dilation)
        if any(s != 1 for s in stride):
            raise RuntimeError(
                f"{name}: padding='same' does not go with strided convolutions, got stride={list(stride)}"
            )
        reach = [d * (k - 1) for k, d in zip(weight.shape[2:], spread(name, "dilation", dilation, dims), strict=True)]
        # An odd total goes after the input: pad as much before it too, and drop the results this adds in front.
        result = own(input, weight, bias, stride, tuple((r + 1) // 2 for r in reach), dilation)
        if not any(r % 2 for r in reach):
            return result
        return result[(..., *(slice(r % 2, None) for r in reach))].contiguous()


class Conv1d(_Plain):
    """Convolution over one dimension: input [batch, channels, length]."""

    schema = (
        (
            "conv1d(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=[1], int[] padding=[0], int[]"
            " dilation=[1], int groups=1) -> Tensor"
        ),
        (
            "conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=[1], str padding='valid',"
            " int[] dilation=[1], int groups=1) -> Tensor"
        ),
    )
    aliases = ("nn.functional.conv1d",)
    dims = 1


class Conv2d(_Plain):
    """Convolution over two dimensions: input [batch, channels, height, width]."""

    schema = (
        (
            "conv2d(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=[1], int[] padding=[0], int[]"
            " dilation=[1], int groups=1) -> Tensor"
        ),
        (
            "conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=[1], str padding='valid',"
            " int[] dilation=[1], int groups=1) -> Tensor"
        ),
    )
    aliases = ("nn.functional.conv2d",)
    dims = 2


class Conv3d(_Plain):
    """Convolution over three dimensions: input [batch, channels, depth, height, width]."""

    schema = (
        (
            "conv3d(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=[1], int[] padding=[0], int[]"
            " dilation=[1], int groups=1) -> Tensor"
        ),
        (
            "conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=[1], str padding='valid',"
            " int[] dilation=[1], int groups=1) -> Tensor"
        ),
    )
    aliases = ("nn.functional.conv3d",)
    dims = 3


class _Transposed(Composite):
    """conv_transpose1d, conv_transpose2d and conv_transpose3d."""

    method = False
    out = False
    views = "keep"   # of the batch of one that an unbatched input becomes
    dims = 0

    def compute(self, input, weight, bias, stride, padding, output_padding, groups, dilation):
        name, dims = self.spec.name, self.dims
        if weight.ndim != dims + 2:
            raise RuntimeError(
                f"{name}: expected a weight of {dims + 2} dimensions, but got weight of size {list(weight.shape)}"
            )
        if input.ndim not in (dims + 1, dims + 2):
            raise RuntimeError(
                f"{name}: Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input to {name}, but got input of"
                f" size: {list(input.shape)}"
            )
        if input.ndim == dims + 1:
            return self.compute(
                input.unsqueeze(0), weight, bias, stride, padding, output_padding, groups, dilation
            ).squeeze(0)
        return find_op("convolution")(input, weight, bias, stride, padding, dilation, True, output_padding, groups)


class ConvTranspose1d(_Transposed):
    """Transposed convolution over one dimension."""

    schema = (
        "conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=[1], int[] padding=[0], int[]"
        " output_padding=[0], int groups=1, int[] dilation=[1]) -> Tensor"
    )
    aliases = ("nn.functional.conv_transpose1d",)
    dims = 1


class ConvTranspose2d(_Transposed):
    """Transposed convolution over two dimensions."""

    schema = (
        "conv_transpose2d(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=[1], int[] padding=[0], int[]"
        " output_padding=[0], int groups=1, int[] dilation=[1]) -> Tensor"
    )
    aliases = ("nn.functional.conv_transpose2d",)
    dims = 2


class ConvTranspose3d(_Transposed):
    """Transposed convolution over three dimensions."""

    schema = (
        "conv_transpose3d(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=[1], int[] padding=[0], int[]"
        " output_padding=[0], int groups=1, int[] dilation=[1]) -> Tensor"
    )
    aliases = ("nn.functional.conv_transpose3d",)
    dims = 3


class ConvTbc(Composite):
    """Convolution over the first dimension of a [time, batch, channels] input; the weight is [taps, channels in,
    channels out]."""

    schema = "conv_tbc(Tensor input, Tensor weight, Tensor bias, int pad=0) -> Tensor"
    aliases = ("nn.functional.conv_tbc",)
    method = False
    out = False

    def compute(self, input, weight, bias, pad):
        if input.ndim != 3 or weight.ndim != 3 or bias.ndim != 1:
            raise RuntimeError(
                f"conv_tbc: expected a 3-D input, a 3-D weight and a 1-D bias, got {input.ndim}-D, {weight.ndim}-D and"
                f" {bias.ndim}-D"
            )
        if input.shape[2] != weight.shape[1] or weight.shape[2] != bias.shape[0]:
            raise RuntimeError(
                f"conv_tbc: channels of input {list(input.shape)}, weight {list(weight.shape)} and bias"
                f" {list(bias.shape)} do not fit together"
            )
        return (
            find_op("conv1d")(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, 1, pad)
            .permute(2, 0, 1)
            .contiguous()
        )


class ConvolutionBackward(Composite):
    """Gradients of a convolution's input, weight and bias, those that `output_mask` asks for."""

    schema = (
        "convolution_backward(Tensor grad_output, Tensor input, Tensor weight, int[]? bias_sizes, int[] stride, int[]"
        " padding, int[] dilation, bool transposed, int[] output_padding, int groups, bool[] output_mask) -> (Tensor,"
        " Tensor, Tensor)"
    )
    function = method = out = False

    def compute(
        self,
        grad_output,
        input,
        weight,
        bias_sizes,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
        output_mask,
    ):
        return gradients(
            grad_output, input, weight, (stride, padding, dilation, groups), transposed, tuple(output_mask)
        )
