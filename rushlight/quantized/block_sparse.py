"""torch.ops.sparse.qlinear*: linear layers of integers whose weights are zero in whole blocks.

Enters: a weight of signed bytes with zero points 0, and the sizes of its blocks. Leaves: the ops of dense linear
layers, over the same packed bytes: products of zeros cost what others do, and the results are the same. In files a
weight holds only the blocks that are not zero, as PyTorch's do. Refuses: sizes of blocks that PyTorch's kernels lack.
"""

from __future__ import annotations

from typing import Any

from .. import _C
from ..op import find_op
from ..tensors.interop import tensor
from .linear import LinearPackedParamsBase, dynamic_linear, linear_prepack, static_linear
from .namespace import define
from .packed import ScriptObject

PACKED = "__torch__.torch.classes.sparse.LinearPackedParamsBase"
BLOCKS = ((1, 4), (8, 1))
VERSION = 2     # of what files hold
_BIASED = 128   # files hold signed bytes moved by it, as unsigned ones


class BlockPackedParams(ScriptObject):
    """A packed dense weight that knows its blocks."""

    qualified = PACKED

    def __init__(self, dense: LinearPackedParamsBase, rows: int, columns: int) -> None:
        self.dense, self.rows, self.columns = dense, rows, columns

    def state(self) -> tuple:
        """(version, bias, block, scales, zero points, whether they are per tensor, first block of each row of blocks,
        its column, the bytes of the blocks, sizes)."""
        weight, bias = self.dense.unpack()
        out, wide = weight.shape
        integers = weight.int_repr().to(_C.int32)
        uneven = (-out % self.rows, -wide % self.columns)
        padded = find_op("constant_pad_nd")(integers, [0, uneven[1], 0, uneven[0]])
        blocks = padded.reshape(-1, self.rows, padded.shape[1] // self.columns, self.columns).transpose(1, 2)
        kept = (blocks != 0).flatten(2).any(2)
        starts = [0, *kept.sum(1).cumsum(0).tolist()]
        columns = kept.nonzero()[:, 1].to(_C.int32)
        values = (blocks[kept].flatten() + _BIASED).to(_C.uint8)
        per_tensor = "per_tensor" in str(weight.qscheme())
        scales = tensor([weight.q_scale()]) if per_tensor else weight.q_per_channel_scales().to(_C.float32)
        zeros = find_op("zeros")(scales.shape, dtype=_C.int8)
        return (
            VERSION, bias, self.rows, self.columns, scales, zeros, per_tensor, tensor(starts, dtype=_C.int32), columns,
            values, out, wide,
        )

    @classmethod
    def from_state(cls, state: Any) -> BlockPackedParams:
        """The object of which a file kept this. Refuses other versions and sizes of blocks."""
        if not isinstance(state, tuple) or len(state) != 12 or state[0] != VERSION:
            raise RuntimeError(f"{PACKED}: expected a state of version {VERSION}, got {state!r:.80}")
        _, bias, rows, columns, scales, _, per_tensor, starts, places, values, out, wide = state
        _expect_block(rows, columns)
        across, down = -(-wide // columns), -(-out // rows)
        integers = find_op("zeros")((down, across, rows, columns), dtype=_C.int32)
        firsts = starts.tolist()
        bands = [band for band in range(down) for _ in range(firsts[band + 1] - firsts[band])]
        if bands:
            at = (tensor(bands), places.to(_C.int64))
            integers[at] = values.to(_C.int32).reshape(-1, rows, columns) - _BIASED
        dense = integers.transpose(1, 2).reshape(down * rows, across * columns)[:out, :wide].to(_C.int8).contiguous()
        if per_tensor:
            weight = find_op("_make_per_tensor_quantized_tensor")(dense, float(scales[0]), 0)
        else:
            zeros = find_op("zeros")(scales.shape, dtype=_C.int64)
            weight = find_op("_make_per_channel_quantized_tensor")(dense, scales.to(_C.float64), zeros, 0)
        return cls(linear_prepack(weight, bias), rows, columns)


def _expect_block(rows: int, columns: int) -> None:
    if (rows, columns) not in BLOCKS:
        raise RuntimeError(f"sparse::qlinear_prepack: blocks must be of one of {BLOCKS}, got {(rows, columns)}")


def _packed(name: str, given: Any) -> LinearPackedParamsBase:
    if not isinstance(given, BlockPackedParams):
        raise RuntimeError(f"{name}: expected what sparse::qlinear_prepack gives, got {type(given).__name__}")
    return given.dense


@define(
    "sparse::qlinear_prepack(Tensor W, Tensor? B, int out_features_block_size, int in_features_block_size)"
    f" -> {PACKED} W_prepack"
)
def qlinear_prepack(
    W: Any, B: Any, out_features_block_size: int, in_features_block_size: int     # noqa: N803 - the schema's names
) -> BlockPackedParams:
    _expect_block(out_features_block_size, in_features_block_size)
    return BlockPackedParams(linear_prepack(W, B), out_features_block_size, in_features_block_size)


@define(f"sparse::qlinear_unpack({PACKED} W_prepack) -> (Tensor W_origin, Tensor? B_origin, int[] block_pattern)")
def qlinear_unpack(W_prepack: Any) -> tuple[Any, Any, list[int]]:     # noqa: N803
    weight, bias = _packed("sparse::qlinear_unpack", W_prepack).unpack()
    return weight, bias, [W_prepack.rows, W_prepack.columns]


_STATIC = f"Tensor X, {PACKED} W_prepack, float Y_scale_i, int Y_zero_point_i"


@define(f"sparse::qlinear({_STATIC}) -> Tensor Y")
def qlinear(X: Any, W_prepack: Any, Y_scale_i: float, Y_zero_point_i: int) -> Any:     # noqa: N803
    packed = _packed("sparse::qlinear", W_prepack)
    return static_linear("sparse::qlinear", X, packed, Y_scale_i, Y_zero_point_i, relu=False)


@define(f"sparse::qlinear_relu({_STATIC}) -> Tensor Y")
def qlinear_relu(X: Any, W_prepack: Any, Y_scale_i: float, Y_zero_point_i: int) -> Any:     # noqa: N803
    packed = _packed("sparse::qlinear_relu", W_prepack)
    return static_linear("sparse::qlinear_relu", X, packed, Y_scale_i, Y_zero_point_i, relu=True)


@define(f"sparse::qlinear_dynamic(Tensor X, {PACKED} W_prepack) -> Tensor Y")
def qlinear_dynamic(X: Any, W_prepack: Any) -> Any:     # noqa: N803
    packed = _packed("sparse::qlinear_dynamic", W_prepack)
    return dynamic_linear("sparse::qlinear_dynamic", X, packed, relu=False, reduce_range=False)


@define(f"sparse::qlinear_relu_dynamic(Tensor X, {PACKED} W_prepack) -> Tensor Y")
def qlinear_relu_dynamic(X: Any, W_prepack: Any) -> Any:     # noqa: N803
    packed = _packed("sparse::qlinear_relu_dynamic", W_prepack)
    return dynamic_linear("sparse::qlinear_relu_dynamic", X, packed, relu=True, reduce_range=False)
