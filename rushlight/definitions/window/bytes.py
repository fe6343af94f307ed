"""Windowed sums of bytes along one dim, in integers: how 8-bit images are interpolated.

Enters: a uint8 tensor, a dim and its axis. Leaves: sums with weights of 16 bits, rounded and clipped to a byte, as
image libraries compute them. Refuses: gradients; bytes have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.loops.expr import Value, cast, const, max_, min_, shl, shr
from rushlight.loops.lowered import ZERO, At, Fold, Folding, Lowered, Memory, Number, Table, Window
from rushlight.op import Loops, find_op
from rushlight.op.layout import channels_last_strides
from rushlight.op.memory import check_memory

from .axes import Table as Windows, integers, table_of, unpack
from .layout import dense, is_channels_last, is_dense

MOST_BITS = 22


class Rounded(Fold):
    """A sum of products of integers that starts at half of a whole one."""

    def merge(self, s: Any, a: Any, b: Any) -> Any:
        return (a[0] + b[0],)


class WindowBytes(Loops):
    """Weighted sums along `dim`, counted from the end, of a uint8 tensor."""

    schema = "_window_bytes(Tensor input, int dim, int[] axes) -> Tensor"
    function = method = out = False
    batch = "leading"
    differentiable = False

    def run(self, input: Any, dim: int, axes: Sequence[int]) -> Any:
        """Inputs in another memory order are copied first."""
        return find_op("_window_bytes")(dense(input, input.ndim - 2), dim, axes)

    def is_planned(self, args: tuple) -> bool:
        return is_dense(args[0], args[0].ndim - 2)

    def lower(self, args: tuple) -> Lowered:
        input, dim, (axis,) = args[0], args[1] + args[0].ndim, unpack(args[2])
        shape = (*input.shape[:dim], axis.target, *input.shape[dim + 1 :])
        check_memory(shape, input.dtype, input.device)   # before tables of these lengths
        table = table_of(axis)
        weights, bits = whole_weights(table)
        tap, taps, target = len(shape), max(1, table.taps), axis.target
        tables = [
            Table(label, "i64", (target,), (1,), values=integers(v))
            for label, v in (("starts", table.starts), ("counts", table.counts))
        ]
        tables.append(Table("weights", "i64", (target, taps), (taps, 1), values=integers(weights)))
        reads = (Memory("input", "u8", tuple(input.shape), input.stride()), *tables, Number("bits", "i64", bits))

        def body(at: At, sources: Sequence[Any]) -> tuple[Value]:
            x = sources[0][(*at[:dim], sources[1][at[dim]] + at[tap], *at[dim + 1 : tap])]
            return (cast(x, "i32") * cast(sources[3][at[dim], at[tap]], "i32"),)

        def bounds(at: At, sources: Sequence[Any]) -> tuple[Value, Value]:
            return ZERO, sources[2][at[dim]]

        def start(at: At, sources: Sequence[Any]) -> tuple[Value]:
            return (shr(shl(const(1, "i32"), cast(sources[4].value, "i32")), const(1, "i32")),)

        def result(at: At, sources: Sequence[Any], accs: Sequence[Value]) -> tuple[Value]:
            return (max_(min_(shr(accs[0], cast(sources[4].value, "i32")), const(255, "i32")), const(0, "i32")),)

        folding = Folding(
            Rounded(), "i32", frozenset((tap,)), windows=((tap, Window(bounds)),), start=start, result=result
        )
        channels = is_channels_last(input, input.ndim - 2)
        return Lowered(
            self.spec.name, (self.spec.name, dim), (*shape, taps), shape, ("u8",), reads, body, aligned=False,
            folding=folding, through=frozenset(range(len(shape))) - {dim},
            layout=channels_last_strides(shape) if channels else None,
        )


def whole_weights(table: Windows) -> tuple[list[int], int]:
    """Weights as integers of at most 16 bits, and how many of them are behind the point."""
    largest = max((w for own in table.weights for w in own), default=1.0)
    bits = 0
    while bits < MOST_BITS and int(0.5 + largest * (1 << (bits + 1))) < 1 << 15:
        bits += 1
    scaled = []
    for own in table.weights:
        padded = own + [0.0] * (table.taps - len(own))
        scaled += [int(w * (1 << bits) + (0.5 if w >= 0 else -0.5)) for w in padded]
    return scaled, bits
