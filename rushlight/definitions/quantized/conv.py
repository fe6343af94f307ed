"""Convolutions of bytes: unsigned activations under signed weights, requantized as they are summed.

Enters: activations whose channels lie last, weights as `prepared` packs them, and the numbers of one call as `columns`
and `head` (see codegen/library/convolution/byte_finish.py). Leaves: bytes, channels last. The ops here know nothing of
quantized tensors: rushlight/quantized/conv.py calls them with integers.
"""

from __future__ import annotations

from ... import _C
from ...op import Library, Spec
from ...planners.convolutions.byte_windows import SUMS, blocks_of, depthwise_steps, finish_of, packing_of, window_steps
from ...planners.convolutions.walk import Window
from ..conv.convolution import out_sizes


def last_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a tensor whose channels lie last, of dims of one element too."""
    steps = [shape[1]]
    for n in reversed(shape[2:]):
        steps.insert(0, steps[0] * n)
    return steps[0], 1, *steps[1:]


class ByteConvolution(Library):
    """Activations [images, channels, ...] under packed weights. `other`: bytes that are added to the results."""

    schema = (
        "_byte_convolution(Tensor input, Tensor weight, Tensor columns, Tensor head, Tensor? other, int outs, int[]"
        " kernel_size, int[] stride, int[] padding, int[] dilation, int groups, int finish) -> Tensor"
    )
    function = method = out = differentiable = False

    def window(self, args: tuple) -> Window:
        return Window(*(tuple(v) for v in args[6:10]), args[10])

    def meta(self, input, *rest):
        args = (input, *rest)
        window = self.window(args)
        sizes = out_sizes(tuple(input.shape[2:]), window, False, (0,) * len(window.kernel))
        shape = (input.shape[0], args[5], *sizes)
        return Spec(shape, _C.int32 if args[11] == SUMS else input.dtype, last_strides(shape))

    def steps(self, args, room):
        input, other, outs = args[0], args[4], args[5]
        window, finish, result = self.window(args), finish_of(args[11]), room.inputs
        scratch = room.next
        taps = 1
        for n in window.kernel:
            taps *= n
        shapes = tuple(input.shape), tuple(room.slots[0][2])
        sizes = window.groups, input.shape[1] // window.groups, outs // window.groups, taps
        added = 0 if other is None else 4
        blocks = blocks_of(*sizes)
        if blocks is not None:
            return depthwise_steps(blocks, window, shapes, finish, (0, 1, 2, 3, result, added))
        packing = packing_of(*sizes)
        slots = (0, 1, 2, 3, scratch, result, added)
        steps, needed = window_steps(packing, window, shapes, finish, slots)
        room.temp(_C.uint8, (needed,))
        return steps
