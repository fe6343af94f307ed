"""Linear layers of integers whose weights are zero in whole blocks.

Enters: quantized rows. Leaves: quantized rows. Refuses: weights with zero points (a zero weight must be integer 0),
float layers that no sparsifier left the shape of its blocks in.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from ..... import _C, ops
from ....._C import Tensor
from .....nn import Module
from .....nn.modules import linear as floats
from .....op import find_op
from ...quantized.modules.utils import OutputQParams, _hide_packed_params_repr, expect_quantized, observed_weight
from ...sources import expect_class, expect_qconfig

__all__ = ["LinearPackedParams", "Linear"]


def _expect_signed_bytes(name: str, dtype: _C.dtype) -> None:
    if dtype != _C.qint8:
        raise NotImplementedError(f"{name}: Only QINT8 is supported for Sparse Quantized Linear, got {dtype}")


def _expect_blocks(name: str, rows: int | None, columns: int | None) -> None:
    if rows is None or columns is None:
        raise AssertionError(
            f"{name}: expected the sizes of a block, got row_block_size={rows} and col_block_size={columns}"
        )


def _expect_known_version(name: str, version: int | None, newest: int) -> None:
    if version is not None and version > newest:
        raise AssertionError(f"{name}: the state is of version {version}, and versions up to {newest} are known")


def weight_without_zero_points(weight: Tensor, observer: Any) -> Tensor:
    """Signed bytes of a weight. Refuses observers whose zero points are not 0."""
    quantized = observed_weight(weight, observer)
    _, zero_points = observer.calculate_qparams()
    if bool((zero_points != 0).any() if isinstance(zero_points, Tensor) else zero_points != 0):
        raise AssertionError(
            f"All weight zero points must map to 0, got {zero_points}: observe weights by a symmetric scheme"
        )
    return quantized


class LinearPackedParams(Module):
    """Weight and bias of a linear layer, the weight in blocks; the state holds them as tensors."""

    _version = 1

    def __init__(
        self, row_block_size: int = 1, col_block_size: int = 4, dtype: _C.dtype = _C.qint8
    ) -> None:
        super().__init__()
        _expect_signed_bytes("LinearPackedParams", dtype)
        self.dtype = dtype
        weight = find_op("_empty_affine_quantized")([1, 1], scale=1.0, zero_point=0, dtype=_C.qint8)
        self.set_weight_bias(weight, None, row_block_size, col_block_size)

    def _get_name(self) -> str:
        return "SparseQuantizedLinearPackedParams"

    def set_weight_bias(
        self, weight: Tensor, bias: Tensor | None, row_block_size: int | None, col_block_size: int | None
    ) -> None:
        """Pack these."""
        _expect_blocks("set_weight_bias", row_block_size, col_block_size)
        self._packed_params = ops.sparse.qlinear_prepack(weight, bias, row_block_size, col_block_size)

    def _weight_bias(self) -> tuple[Tensor, Tensor | None, int, int]:
        weight, bias, block = ops.sparse.qlinear_unpack(self._packed_params)
        return weight, bias, block[0], block[1]

    def forward(self, x: Any) -> Any:
        return x

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_params"] = self._weight_bias()

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *reports: list[str]
    ) -> None:
        _expect_known_version("LinearPackedParams", local_metadata.get("version"), self._version)
        self.dtype = state_dict.pop(prefix + "dtype")
        self.set_weight_bias(*state_dict.pop(prefix + "_packed_params"))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *reports)

    def __getstate__(self) -> tuple:
        return self._packed_params, self.training, self.dtype

    def __setstate__(self, state: tuple) -> None:
        if "_parameters" not in self.__dict__:
            Module.__init__(self)
        self._packed_params, self.training, self.dtype = state

    def __repr__(self) -> str:
        return repr(self._weight_bias())


class BlockLinear(Module):
    """What static and dynamic layers share."""

    _version = 1
    _FLOAT_MODULE: ClassVar[type[Module]] = floats.Linear

    def __init__(
        self, in_features: int, out_features: int, row_block_size: int, col_block_size: int, bias: bool = True,
        dtype: _C.dtype = _C.qint8,
    ) -> None:
        super().__init__()
        _expect_signed_bytes(type(self).__name__, dtype)
        self.in_features = in_features
        self.out_features = out_features
        weight = find_op("_empty_affine_quantized")(
            [out_features, in_features], scale=1.0, zero_point=0, dtype=_C.qint8
        )
        self._packed_params = LinearPackedParams(row_block_size, col_block_size, dtype)
        start = find_op("zeros")(out_features, dtype=_C.float32) if bias else None
        self._packed_params.set_weight_bias(weight, start, row_block_size, col_block_size)

    def __repr__(self) -> str:
        return _hide_packed_params_repr(self, LinearPackedParams)

    def _weight_bias(self) -> tuple[Tensor, Tensor | None, int, int]:
        return self._packed_params._weight_bias()

    def weight(self) -> Tensor:
        """The weight, unpacked."""
        return self._weight_bias()[0]

    def bias(self) -> Tensor | None:
        """The bias, or None."""
        return self._weight_bias()[1]

    def set_weight_bias(
        self, w: Tensor, b: Tensor | None, row_block_size: int | None, col_block_size: int | None
    ) -> None:
        """Pack a quantized weight and a float bias."""
        _expect_blocks(type(self).__name__, row_block_size, col_block_size)
        self._packed_params.set_weight_bias(w, b, row_block_size, col_block_size)


class Linear(OutputQParams, BlockLinear):
    """x W^T + b on integers, W in blocks."""

    _op_type = "sparse_static"

    def __init__(
        self, in_features: int, out_features: int, row_block_size: int, col_block_size: int, bias: bool = True,
        dtype: _C.dtype = _C.qint8,
    ) -> None:
        super().__init__(in_features, out_features, row_block_size, col_block_size, bias, dtype)
        self.scale = 1.0
        self.zero_point = 0

    @classmethod
    def _get_name(cls) -> str:  # type: ignore[override]
        return "SparseQuantizedLinear"

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, scale={self.scale},"
            f" zero_point={self.zero_point}, qscheme={self.weight().qscheme()}"
        )

    def forward(self, x: Tensor) -> Tensor:
        expect_quantized(self, x)
        return ops.sparse.qlinear(x, self._packed_params._packed_params, self.scale, self.zero_point)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *reports: list[str]
    ) -> None:
        state_dict.pop(prefix + "op_type", None)
        _expect_known_version("Linear", local_metadata.get("version"), self._version)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *reports)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Self:
        """From an observed float layer in which a sparsifier left the shape of its blocks."""
        method = "SparseQuantizedLinear.from_float"
        expect_class(method, mod, cls._FLOAT_MODULE)
        if not hasattr(mod, "sparse_params"):
            raise AssertionError(
                f"{method}: Expecting the Linear to have `sparse_params`. Let the sparsifier keep them:"
                ' squash_mask(params_to_keep=("sparse_block_shape",))'
            )
        block = mod.sparse_params.get("sparse_block_shape", None)
        if not isinstance(block, tuple | list) or len(block) != 2:
            raise AssertionError(f"{method}: sparse_block_shape must be a tuple or list of two sizes, got {block!r}")
        expect_qconfig(method, mod, may_be_none=True)
        weight = weight_without_zero_points(mod.weight, mod.qconfig.weight())
        result = cls(mod.in_features, mod.out_features, *block, dtype=_C.qint8)
        result.set_weight_bias(weight, mod.bias, *block)
        return result._set_output(*mod.activation_post_process.calculate_qparams())
