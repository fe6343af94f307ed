"""The steps of a whole convolution: which of the planners here serves, and in what order they are asked.

Enters: operands (anything with `shape`, `stride()` and `dtype`), a `Window`, and what was wished for. Leaves: steps
from slot to slot, and the elements they need in a scratch slot; or, on a device that has a function for convolutions,
the one step that calls it. Refuses: nothing; the caller knows which types and windows are planned (`PLANNED`).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product as combinations
from math import prod
from typing import Any

from ...codegen.schedule.forms.wishes import Wishes
from ...devices import handlers
from ...op.extern import own_function
from ...op.library import Room
from ...op.registry import find_op
from ...op.step import Step
from .convolve import finisher, joint_step, overlap_steps, refuse_finish, suits_overlap, walk_steps
from .pixels import dense_array, leaves_gaps, plain_axes, spread_step
from .walk import Array, Walk, Weights, Window, array_of, forward_axes, mirrored_axes
from .windows import lined_steps, scattered_steps


def conv_steps(
    input: Any,
    place: int,
    weight: Any,
    bias: int | None,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    window: Window,
    transposed: bool,
    out: int,
    scratch: int,
    wishes: Wishes,
) -> tuple[list[Step], int]:
    """Steps of a convolution from slot `place` to slot `out`, and the elements they need in slot `scratch`."""
    code, groups, sizes, spatial = input.dtype.code, window.groups, tuple(input.shape[2:]), tuple(shape[2:])
    channels, outs = input.shape[1] // groups, shape[1] // groups
    source, result = array_of(place, input.stride(), channels), array_of(out, strides, outs)
    ws = weight.stride()
    if transposed:
        weights = Weights(1, ws[0] * channels, ws[1], ws[0], tuple(ws[2:]))
        rest = (sizes, result, tuple(shape[1:]), shape[0], channels, weights, window, bias, scratch)
        few = suits_overlap(outs, channels, weights, window, input.dtype.itemsize, prod(sizes))
        products = lined_steps(code, source, *rest, finisher(wishes), few)
        if products is None and few:
            return overlap_steps(code, source, *rest, wishes)
        products = products or scattered_steps(code, source, *rest, finisher(wishes))
        if products is not None:
            return products
        if bias is None and leaves_gaps(code, window, sizes, shape[0]):
            return gapped_steps(code, source, sizes, result, tuple(shape), channels, window, weights, scratch, wishes)
        choices = mirrored_axes(sizes, spatial, window)
    else:
        weights = Weights(1, ws[0] * outs, ws[0], ws[1], tuple(ws[2:]))
        choices = [[axis] for axis in forward_axes(sizes, spatial, window)]
    steps, needed = [], 0
    # one walk, or for strided transposed convolutions one per remainder
    walks = [Walk(axes, source, result, shape[0], groups, channels, outs) for axes in combinations(*choices)]
    step = joint_step(code, walks, weights, bias, wishes)
    if step is not None:
        return [step], 0
    for walk in walks:
        more, used = walk_steps(code, walk, weights, bias, scratch, needed, wishes)
        steps += more
        needed += used
    return steps, needed


def gapped_steps(
    code: str, source: Array, sizes: tuple[int, ...], result: Array, shape: tuple[int, ...], channels: int,
    window: Window, weights: Weights, scratch: int, wishes: Wishes,
) -> tuple[list[Step], int]:
    """The same of a transposed convolution whose windows are single pixels: a product, spread over the result."""
    refuse_finish(wishes.finish, "a result with gaps")
    outs = shape[1]
    used = shape[0] * outs * prod(sizes)
    dense_result = dense_array(scratch, outs, sizes)
    walk = Walk(plain_axes(sizes), source, dense_result, shape[0], 1, channels, outs)
    steps, more = walk_steps(code, walk, weights, None, scratch, used, wishes)
    spread_ = spread_step(code, (scratch, 0), sizes, result, shape[1:], window.stride, shape[0])
    return [*steps, spread_], used + more


def own_steps(name: str, rest: tuple, room: Room) -> list[Step]:
    """The step that calls a plugged-in device's own function with all tensors, and `rest` behind them."""
    return [Step(on_device(name, rest), list(range(room.next)), [], 1)]


def on_device(name: str, rest: tuple) -> Callable:
    """What calls a plugged-in device's own function, or the host where it does not take these arguments."""

    def run(*tensors: Any) -> None:
        *given, out = tensors
        own = own_function(name, out.device)
        assert own is not None, f"{name}: a step for devices that have a function for it"
        if own(out, *given, *rest) is NotImplemented:
            handlers[out.device.type].fall_back(name)
            out.copy_(find_op(name)(*[t.to("cpu") for t in given], *rest))

    return run


__all__ = ["conv_steps", "own_steps"]
