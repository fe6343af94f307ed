"""Convolutions of integers, transposed ones too.

Enters: quantized [batch, channels, sizes]. Leaves: the same with output channels, by the scale and zero point found by
calibration. Refuses: float inputs, inputs of other ranks, paddings other than zeros and reflections.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from ..... import _C, ops
from ....._C import Tensor
from .....nn import Module, functional as F
from .....nn.modules import conv as floats
from .....nn.modules.settings import repeated
from .....op import find_op
from ...intrinsic.modules import fused
from ...intrinsic.qat.modules import conv_fused
from ...sources import expect_class, expect_qconfig, fold_batch_norm
from .utils import OutputQParams, WeightedQuantizedModule, expect_quantized, observed_weight

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

_SUPPORTED_PADDING = {"zeros", "reflect"}
_SHAPES = {1: "(N, C, L)", 2: "(N, C, H, W)", 3: "(N, C, D, H, W)"}
_SETTINGS = (     # what a pickled layer holds, in order, before its weights
    "in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "transposed", "output_padding",
    "groups", "padding_mode",
)


def _reverse_repeat_padding(padding: Any) -> list[int]:
    """Paddings as F.pad takes them: twice each, last dim first."""
    return [size for size in reversed(padding) for _ in range(2)]


class _ConvNd(OutputQParams, WeightedQuantizedModule):
    """What all six share."""

    dims: ClassVar[int]
    _FLOAT_MODULE: ClassVar[type[Module]]
    _NNIQAT_CONV_BN_MODULE: ClassVar[type[Module] | None] = None
    _NNI_CONV_RELU_MODULE: ClassVar[type[Module] | None] = None
    _NNI_CONV_ADD_MODULE: ClassVar[type[Module] | None] = None
    _NNI_CONV_ADD_RELU_MODULE: ClassVar[type[Module] | None] = None

    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    output_padding: tuple[int, ...]
    groups: int
    padding_mode: str
    transposed: bool

    def _init(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
        transposed: bool, output_padding: Any, groups: int, bias: bool, padding_mode: str = "zeros",
        device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        if out_channels <= 0:
            raise ValueError(f"out_channels must be greater than 0, got {out_channels}")
        for name, count in (("in_channels", in_channels), ("out_channels", out_channels)):
            if count % groups:
                raise ValueError(f"{name} must be divisible by groups, got {count} and {groups}")
        if padding_mode not in _SUPPORTED_PADDING:
            raise ValueError(f"'padding_mode' {padding_mode} is not supported by quantized convolution")
        sizes = [
            value if isinstance(value, str) else repeated(value, self.dims)
            for value in (kernel_size, stride, padding, dilation, output_padding)
        ]
        self.kernel_size, self.stride, self.padding, self.dilation, self.output_padding = sizes
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.transposed, self.padding_mode = transposed, padding_mode
        outer, inner = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        weight = find_op("_empty_affine_quantized")(
            [outer, inner // groups, *self.kernel_size], scale=1, zero_point=0, dtype=_C.qint8, device=device
        )
        self.set_weight_bias(weight, find_op("zeros")(out_channels, dtype=_C.float32, device=device) if bias else None)
        self.scale = 1.0
        self.zero_point = 0

    def set_weight_bias(self, w: Tensor, b: Tensor | None) -> None:
        """Pack a quantized weight and a float bias. Reflections are padded before the kernel runs."""
        padding = self.padding if self.padding_mode == "zeros" else (0,) * self.dims
        prepack = getattr(ops.quantized, f"conv{self.dims}d_prepack")
        self._packed_params = prepack(w, b, self.stride, padding, self.dilation, self.groups)

    def _weight_bias(self) -> tuple[Tensor, Tensor | None]:
        return getattr(ops.quantized, f"conv{self.dims}d_unpack")(self._packed_params)

    def weight(self) -> Tensor:
        """The weight, unpacked."""
        return self._weight_bias()[0]

    def bias(self) -> Tensor | None:
        """The bias, or None."""
        return self._weight_bias()[1]

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride},"
            f" scale={self.scale}, zero_point={self.zero_point}"
        )
        for name, usual in (("padding", 0), ("dilation", 1), ("output_padding", 0)):
            value = getattr(self, name)
            if value != (usual,) * len(value):
                text += f", {name}={value}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        return text if self.bias() is not None else text + ", bias=False"

    def _ready(self, input: Tensor) -> Tensor:
        """The input, checked and with reflections around it where the layer asks for them."""
        if input.dim() != self.dims + 2:
            raise ValueError(f"Input shape must be `{_SHAPES[self.dims]}`! Got {tuple(input.shape)}")
        if self.padding_mode == "zeros":
            return input
        return F.pad(input, _reverse_repeat_padding(self.padding[: self.dims]), mode=self.padding_mode)

    def _run(self, name: str, input: Tensor, *more: Tensor) -> Tensor:
        expect_quantized(self, input)
        function = getattr(ops.quantized, name)
        return function(self._ready(input), *more, self._packed_params, self.scale, self.zero_point)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        destination[prefix + "weight"], destination[prefix + "bias"] = self._weight_bias()
        super()._save_to_state_dict(destination, prefix, keep_vars)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *reports: list[str]
    ) -> None:
        self.set_weight_bias(state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias"))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *reports)

    def __getstate__(self) -> tuple:
        settings = (getattr(self, name) for name in _SETTINGS)
        return (*settings, *self._weight_bias(), self.scale, self.zero_point, self.training)

    def __setstate__(self, state: tuple) -> None:
        if "_parameters" not in self.__dict__:
            Module.__init__(self)
        for name, value in zip(_SETTINGS, state):
            setattr(self, name, value)
        weight, bias, self.scale, self.zero_point, self.training = state[len(_SETTINGS):]
        self.set_weight_bias(weight, bias)

    def __deepcopy__(self, memo: dict) -> Self:
        result = type(self).__new__(type(self))
        result.__setstate__(self.__getstate__())
        return result

    def __copy__(self) -> Self:
        return self.__deepcopy__({})

    @classmethod
    def _like(cls, layer: Any, **options: Any) -> Self:
        """A layer with the settings of a float one, its weights still to come."""
        return cls(
            layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride, layer.padding, layer.dilation,
            layer.groups, layer.bias is not None, layer.padding_mode, **options,
        )

    @classmethod
    def get_qconv(cls, mod: Any, activation_post_process: Any, weight_post_process: Any = None) -> Self:
        """The layer with integers for the weights of a float one; without an observer of its output, scale 1."""
        of_weight = mod.qconfig.weight() if weight_post_process is None else weight_post_process
        weight = observed_weight(mod.weight, of_weight)
        result = cls._like(mod)
        result.set_weight_bias(weight, mod.bias)
        if activation_post_process is None or activation_post_process.dtype == _C.float32:
            return result
        return result._set_output(*activation_post_process.calculate_qparams())

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Self:
        """From an observed float layer, or one trained with rounding (a batch norm in it is folded in)."""
        method = f"nnq.{cls.__name__}.from_float"
        observer = getattr(mod, "activation_post_process", None)
        if hasattr(mod, "weight_fake_quant"):
            if type(mod) is cls._NNIQAT_CONV_BN_MODULE:
                mod.weight, mod.bias = fold_batch_norm(mod)
            if observer is None:
                raise AssertionError(f"{method}: Input QAT module must have observer attached")
            return cls.get_qconv(mod, observer, mod.weight_fake_quant)
        expect_class(method, mod, cls._FLOAT_MODULE)
        expect_qconfig(method, mod, may_be_none=True)
        chains = (cls._NNI_CONV_RELU_MODULE, cls._NNI_CONV_ADD_MODULE, cls._NNI_CONV_ADD_RELU_MODULE)
        layer = mod[0] if type(mod) in chains else mod
        return cls.get_qconv(layer, observer, layer.qconfig.weight())

    @classmethod
    def from_reference(cls, ref_qconv: Any, output_scale: Any, output_zero_point: Any) -> Self:
        """From a reference layer and the qparams of its output."""
        result = cls._like(ref_qconv, device=ref_qconv.weight.device, dtype=ref_qconv.weight.dtype)
        result.set_weight_bias(ref_qconv.get_quantized_weight(), ref_qconv.bias)
        return result._set_output(output_scale, output_zero_point)


class _Plain(_ConvNd):
    """What the three that are not transposed share."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None,
        dtype: Any = None,
    ) -> None:
        if self.dims == 3 and padding_mode == "reflect":
            raise AssertionError(f"{type(self).__name__}: Conv3d does not support reflection padding")
        self._init(
            in_channels, out_channels, kernel_size, stride, padding, dilation, False, 0, groups, bias, padding_mode,
            device, dtype,
        )

    def forward(self, input: Tensor) -> Tensor:
        return self._run(f"conv{self.dims}d", input)


class Conv1d(_Plain):
    """Convolution of sequences [N, C, L]."""

    dims = 1
    _FLOAT_MODULE: ClassVar[type[Module]] = floats.Conv1d
    _NNIQAT_CONV_BN_MODULE: ClassVar[type[Module] | None] = conv_fused.ConvBn1d
    _NNI_CONV_RELU_MODULE: ClassVar[type[Module] | None] = fused.ConvReLU1d

    def _get_name(self) -> str:
        return "QuantizedConv1d"


class Conv2d(_Plain):
    """Convolution of images [N, C, H, W]."""

    dims = 2
    _FLOAT_MODULE: ClassVar[type[Module]] = floats.Conv2d
    _NNIQAT_CONV_BN_MODULE: ClassVar[type[Module] | None] = conv_fused.ConvBn2d
    _NNI_CONV_RELU_MODULE: ClassVar[type[Module] | None] = fused.ConvReLU2d
    _NNI_CONV_ADD_MODULE: ClassVar[type[Module] | None] = fused.ConvAdd2d
    _NNI_CONV_ADD_RELU_MODULE: ClassVar[type[Module] | None] = fused.ConvAddReLU2d

    def _get_name(self) -> str:
        return "QuantizedConv2d"


class Conv3d(_Plain):
    """Convolution of volumes [N, C, D, H, W]."""

    dims = 3
    _FLOAT_MODULE: ClassVar[type[Module]] = floats.Conv3d
    _NNIQAT_CONV_BN_MODULE: ClassVar[type[Module] | None] = conv_fused.ConvBn3d
    _NNI_CONV_RELU_MODULE: ClassVar[type[Module] | None] = fused.ConvReLU3d

    def _get_name(self) -> str:
        return "QuantizedConv3d"


class _ConvTransposeNd(_ConvNd):
    """What the transposed ones share."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros",
        device: Any = None, dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(
                f'Only "zeros" padding mode is supported for {type(self).__name__}, got {padding_mode!r}'
            )
        self._init(
            in_channels, out_channels, kernel_size, stride, padding, dilation, True, output_padding, groups, bias,
            padding_mode, device, dtype,
        )

    def set_weight_bias(self, w: Tensor, b: Tensor | None) -> None:
        """Pack a quantized weight and a float bias."""
        prepack = getattr(ops.quantized, f"conv_transpose{self.dims}d_prepack")
        self._packed_params = prepack(
            w, b, self.stride, self.padding, self.output_padding, self.dilation, self.groups
        )

    def _weight_bias(self) -> tuple[Tensor, Tensor | None]:
        return getattr(ops.quantized, f"conv_transpose{self.dims}d_unpack")(self._packed_params)

    def forward(self, input: Tensor) -> Tensor:
        return self._run(f"conv_transpose{self.dims}d", input)

    @classmethod
    def _like(cls, layer: Any, **options: Any) -> Self:
        return cls(
            layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride, layer.padding,
            layer.output_padding, layer.groups, layer.bias is not None, layer.dilation, layer.padding_mode, **options,
        )


class ConvTranspose1d(_ConvTransposeNd):
    """The transpose of a convolution of sequences."""

    dims = 1
    _FLOAT_MODULE: ClassVar[type[Module]] = floats.ConvTranspose1d

    def _get_name(self) -> str:
        return "QuantizedConvTranspose1d"


class ConvTranspose2d(_ConvTransposeNd):
    """The transpose of a convolution of images."""

    dims = 2
    _FLOAT_MODULE: ClassVar[type[Module]] = floats.ConvTranspose2d

    def _get_name(self) -> str:
        return "QuantizedConvTranspose2d"


class ConvTranspose3d(_ConvTransposeNd):
    """The transpose of a convolution of volumes."""

    dims = 3
    _FLOAT_MODULE: ClassVar[type[Module]] = floats.ConvTranspose3d

    def _get_name(self) -> str:
        return "QuantizedConvTranspose3d"
