"""Linear layers whose weights are sparse in blocks: `ops.sparse.qlinear` and its relatives.

Enters: quantized weights and the size of their blocks. Leaves: the layers of linear.py, and packed weights of which
files keep the blocks that are not zero. Refuses: blocks that do not divide the weights, states of other versions.
Products are dense: skipping blocks pays on few processors only, and changes no result.
"""

from __future__ import annotations

from typing import Any

from .. import _C
from ..base.quantizers import PerChannel, PerTensor
from ..definitions.quantized.container import ints, put
from ..op import find_op
from .linear import LinearPackedParamsBase, dynamic_linear, linear_prepack, static_linear
from .namespace import define
from .packed import ScriptObject

SPARSE = "__torch__.torch.classes.sparse.LinearPackedParamsBase"
VERSION, SHIFT = 2, 128        # of states; bytes in files are unsigned


class SparseLinearPackedParams(ScriptObject):
    """Packed weights, and the rows and columns of a block."""

    qualified = SPARSE

    def __init__(self, dense: LinearPackedParamsBase, block: tuple[int, int]) -> None:
        self.dense, self.block = dense, block

    def state(self) -> tuple:
        weight, bias = self.dense.unpack()
        (n, k), (rows, columns) = weight.shape, self.block
        quantizer = weight._quantizer
        by_channel = isinstance(quantizer, PerChannel)
        scales = quantizer.scales.to(_C.float32) if by_channel else self.dense.scales[:1].clone()
        zeros = self.dense.columns[3, : n if by_channel else 1].to(_C.int8)
        blocks = ints(weight).reshape(n // rows, rows, k // columns, columns).transpose(1, 2)
        own = zeros.reshape(-1, rows)[:, None, :, None] if by_channel else zeros
        kept = (blocks != own).flatten(2).any(2)
        values = (blocks[kept].to(_C.int32) + SHIFT).to(_C.uint8).flatten()
        ends = find_op("cat")([kept.new_zeros(1, dtype=_C.int64), kept.sum(1).cumsum(0)]).to(_C.int32)
        places = kept.nonzero()[:, 1].to(_C.int32)
        return VERSION, bias, rows, columns, scales, zeros, not by_channel, ends, places, values, n, k

    @classmethod
    def from_state(cls, state: Any) -> SparseLinearPackedParams:
        if len(state) != 12 or state[0] != VERSION:
            raise RuntimeError(f"{SPARSE}: expected a state of version {VERSION}, got {state[0]!r}")
        _, bias, rows, columns, scales, zeros, whole, ends, places, values, n, k = state
        across = places.to(_C.int64)
        counts = ends.to(_C.int64).diff()
        down = find_op("repeat_interleave")(find_op("arange")(n // rows), counts)
        own = zeros.reshape(-1, 1, rows, 1) if not whole else zeros.reshape(1, 1, 1, 1)
        blocks = own.expand(n // rows, k // columns, rows, columns).to(_C.int32).clone()
        blocks[down, across] = values.to(_C.int32).reshape(-1, rows, columns) - SHIFT
        integers = blocks.transpose(1, 2).reshape(n, k).to(_C.int8)
        quantizer: Any = PerTensor(scales[0].item(), int(zeros[0].item()))
        if not whole:
            quantizer = PerChannel(scales.to(_C.float64), zeros.to(_C.int64), 0)
        return cls(LinearPackedParamsBase(put(integers, _C.qint8, quantizer), bias), (rows, columns))


def _dense(name: str, packed: Any) -> LinearPackedParamsBase:
    if not isinstance(packed, SparseLinearPackedParams):
        raise RuntimeError(
            f"sparse::{name}: expected W_prepack to be what qlinear_prepack gives, got {type(packed).__name__}"
        )
    return packed.dense


@define(
    "sparse::qlinear_prepack(Tensor W, Tensor? B, int out_features_block_size, int in_features_block_size) ->"
    f" {SPARSE} W_prepack"
)
def qlinear_prepack(W: Any, B: Any, out_features_block_size: int, in_features_block_size: int) -> Any:
    block = out_features_block_size, in_features_block_size
    if 1 not in block:
        raise RuntimeError(f"sparse::qlinear_prepack: expected blocks of one row or of one column, got {block}")
    if W.ndim == 2 and any(size < 1 or whole % size for whole, size in zip(W.shape, block, strict=True)):
        raise RuntimeError(f"sparse::qlinear_prepack: blocks of {block} do not divide a weight of {list(W.shape)}")
    return SparseLinearPackedParams(linear_prepack(W, B), block)


@define(f"sparse::qlinear_unpack({SPARSE} W_prepack) -> (Tensor W_origin, Tensor? B_origin, int[] block_pattern)")
def qlinear_unpack(W_prepack: Any) -> tuple:
    return *_dense("qlinear_unpack", W_prepack).unpack(), list(W_prepack.block)


@define(f"sparse::qlinear(Tensor X, {SPARSE} W_prepack, float Y_scale_i, int Y_zero_point_i) -> Tensor Y")
def qlinear(X: Any, W_prepack: Any, Y_scale_i: float, Y_zero_point_i: int) -> Any:
    return static_linear("qlinear", X, _dense("qlinear", W_prepack), Y_scale_i, Y_zero_point_i, False)


@define(f"sparse::qlinear_relu(Tensor X, {SPARSE} W_prepack, float Y_scale_i, int Y_zero_point_i) -> Tensor Y")
def qlinear_relu(X: Any, W_prepack: Any, Y_scale_i: float, Y_zero_point_i: int) -> Any:
    return static_linear("qlinear_relu", X, _dense("qlinear_relu", W_prepack), Y_scale_i, Y_zero_point_i, True)


@define(f"sparse::qlinear_dynamic(Tensor X, {SPARSE} W_prepack) -> Tensor Y")
def qlinear_dynamic(X: Any, W_prepack: Any) -> Any:
    return dynamic_linear("qlinear_dynamic", X, _dense("qlinear_dynamic", W_prepack), False, False)


@define(f"sparse::qlinear_relu_dynamic(Tensor X, {SPARSE} W_prepack) -> Tensor Y")
def qlinear_relu_dynamic(X: Any, W_prepack: Any) -> Any:
    return dynamic_linear("qlinear_relu_dynamic", X, _dense("qlinear_relu_dynamic", W_prepack), True, False)
