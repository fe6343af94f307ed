"""Quantized convolutions: `ops.quantized.conv1d` to `conv3d`, transposed and dynamic ones, and packed weights.

Enters: quantized activations, and weights that a `_prepack` packed with the window they move in. Leaves: quantized
results, channels last. Refuses: floats in place of quantized tensors, windows and channels that do not fit, weights
packed for another number of dims.

Sums are exact. What follows is PyTorch's arithmetic in single precision, and depends as there on the engine in force
when weights are packed: FBGEMM's and QNNPACK's order of operations, or oneDNN's (see `Packed.finish`).
"""

from __future__ import annotations

import struct
from typing import Any

from .. import _C
from ..base import quantized_engines
from ..base.quantizers import PerChannel, PerTensor
from ..base.shape import channels_last, channels_last_3d
from ..codegen.text.targets import cpu_words
from ..definitions.conv.convolution import out_sizes
from ..definitions.quantized.byte_weights import Weights, packed_weights
from ..definitions.quantized.container import ints, put
from ..definitions.quantized.create import in_single
from ..op import find_op
from ..planners.convolutions.walk import Window
from .namespace import define
from .packed import ScriptObject

CLASS = "__torch__.torch.classes.quantized.Conv{dims}dPackedParamsBase"
VERSION = "2"            # of states in files
KEPT = 16                # prepared columns of a layer: programs change scales rarely
MOST_GROUPS = 100        # that the engine of x86 hands to oneDNN
EARLY, LATE, LATE_SUM = range(3)      # orders of operations: see codegen/library/convolution/byte_finish.py
FORMATS = {2: channels_last, 3: channels_last_3d}
_byte_convolution, _exact_convolution = find_op("_byte_convolution"), find_op("convolution")


class ConvPackedParams(ScriptObject):
    """Weights with the window they move in; what kernels read is packed when they first run."""

    dims = 0

    def __init__(
        self, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, dilation: Any, groups: int,
        transposed: bool,
    ) -> None:
        self.own_bias, self.transposed = bias, transposed
        self.output = tuple(output_padding)
        self.window = Window(tuple(weight.shape[2:]), tuple(stride), tuple(padding), tuple(dilation), groups)
        quantizer = weight._quantizer
        zero = quantizer.zero_point if isinstance(quantizer, PerTensor) else quantizer.zero_points
        self.has_zeros = bool(zero if isinstance(zero, int) else zero.any().item())
        self.engine = quantized_engines.current()
        self.finish = LATE if self._is_late() else EARLY
        self.weight = weight if self.finish == LATE or self.engine == "qnnpack" else in_single_precision(weight)
        self.prepared: dict[tuple, tuple] = {}
        self.ready: Weights | None = None

    def _is_late(self) -> bool:
        """Whether PyTorch would hand such weights to oneDNN, by the engine in force."""
        if self.engine != "x86":
            return self.engine == "onednn"
        plain = not self.has_zeros and not any(self.output) and self.window.groups <= MOST_GROUPS
        return plain and b"avx512_vnni" in cpu_words()

    # what programs ask ------------------------------------------------------------------------------------------------

    def unpack(self) -> tuple[Any, Any]:
        return self.weight, self.own_bias

    def stride(self) -> list[int]:
        return list(self.window.stride)

    def padding(self) -> list[int]:
        return list(self.window.padding)

    def output_padding(self) -> list[int]:
        return list(self.output)

    def dilation(self) -> list[int]:
        return list(self.window.dilation)

    def groups(self) -> int:
        return self.window.groups

    def transpose(self) -> bool:
        return self.transposed

    def state(self) -> tuple:
        window = self.window
        numbers = [
            self.dims, *window.stride, *window.padding, *window.dilation, *self.output, window.groups,
            int(self.transposed),
        ]
        config = ints(self.weight).new_tensor(numbers, dtype=_C.int16)
        return VERSION, [config, self.weight], [self.own_bias]

    @classmethod
    def from_state(cls, state: Any) -> ConvPackedParams:
        if not isinstance(state, (tuple, list)) or len(state) != 3 or state[0] != VERSION:
            raise RuntimeError(f"{cls.qualified}: expected a state of version {VERSION}, got {state!r:.100}")
        (config, weight), (bias,) = state[1], state[2]
        dims, *numbers, groups, transposed = config.tolist()
        if dims != cls.dims or len(numbers) != 4 * dims or weight.ndim != dims + 2:
            raise RuntimeError(f"{cls.qualified}: expected a window of {cls.dims} dims, got {config.tolist()}")
        stride, padding, dilation, output = (numbers[k * dims : (k + 1) * dims] for k in range(4))
        return cls(weight, bias, stride, padding, output, dilation, groups, bool(transposed))

    # what kernels ask -------------------------------------------------------------------------------------------------

    @property
    def outs(self) -> int:
        shape = self.weight.shape
        return shape[1] * self.window.groups if self.transposed else shape[0]

    @property
    def channels(self) -> int:
        shape = self.weight.shape
        return shape[0] if self.transposed else shape[1] * self.window.groups

    def scales(self) -> Any:
        """The scale of every output, in single precision."""
        quantizer = self.weight._quantizer
        if isinstance(quantizer, PerTensor):
            return ints(self.weight).new_full((self.outs,), quantizer.scale, dtype=_C.float32)
        return quantizer.scales.to(_C.float32)

    def with_scales(self, scale: float, zero: int, out: tuple[float, int], relu: bool, other: Any) -> tuple:
        """Columns and head for activations of a scale and a zero point, results of such, and what is added."""
        key = (scale, zero, out, relu, other)
        found = self.prepared.get(key)
        if found is None:
            while len(self.prepared) >= KEPT:
                del self.prepared[next(iter(self.prepared))]
            found = self.prepared[key] = self._prepare(in_single(scale), zero, out, relu, other)
        return found

    def _prepare(self, scale: float, zero: int, out: tuple[float, int], relu: bool, other: Any) -> tuple:
        if self.ready is None:
            self.ready = packed_weights(self.as_convolution(ints(self.weight)), self.window.groups)
        factors, added, head = self.numbers(scale, zero, out, relu, other)
        return self.ready.columns(factors, added, zero), factors.new_tensor(head, dtype=_C.int32)

    def numbers(self, scale: float, zero: int, out: tuple[float, int], relu: bool, other: Any) -> tuple[Any, Any, list]:
        """Factors and what is added, of each output, and the words of the head."""
        out_scale, out_zero = in_single(out[0]), out[1]
        both = self.scales() * scale
        bias = both.new_zeros(both.shape) if self.own_bias is None else self.own_bias.detach().to(_C.float32)
        low = float(max(0, out_zero) if relu else 0)
        if self.finish == LATE:
            of_other = (0.0, 0.0) if other is None else (in_single(other[0]), float(other[1]))
            whole = both.new_full((), out_scale).reciprocal().item()
            head = struct.pack("<iffffffi", zero, whole, float(out_zero), low, 255.0, *of_other, int(low))
            return both, bias, list(struct.unpack("<8i", head))
        added = bias / both
        added = added.round() if self.engine == "qnnpack" else added
        head = struct.pack("<ififfffi", zero, 0.0, out_zero, low - out_zero, 255.0 - out_zero, 0.0, 0.0, int(low))
        return both / both.new_full((), out_scale), added, list(struct.unpack("<8i", head))

    def as_convolution(self, weight: Any) -> Any:
        """The weights of a convolution; of a transposed one, those of the convolution that computes it."""
        if not self.transposed:
            return weight
        groups, dims = self.window.groups, tuple(range(2, weight.ndim))
        split = weight.reshape(groups, -1, *weight.shape[1:]).transpose(1, 2)
        return split.reshape(-1, weight.shape[0] // groups, *weight.shape[2:]).flip(dims)


class Conv2dPackedParamsBase(ConvPackedParams):
    qualified = CLASS.format(dims=2)
    dims = 2


class Conv3dPackedParamsBase(ConvPackedParams):
    qualified = CLASS.format(dims=3)
    dims = 3


CLASSES = {2: Conv2dPackedParamsBase, 3: Conv3dPackedParamsBase}


def in_single_precision(weight: Any) -> Any:
    """Quantized weights with their scales in single precision, as FBGEMM keeps them."""
    quantizer = weight._quantizer
    if isinstance(quantizer, PerTensor):
        return put(ints(weight), weight.dtype, PerTensor(in_single(quantizer.scale), quantizer.zero_point))
    scales = quantizer.scales.to(_C.float32).to(_C.float64)
    return put(ints(weight), weight.dtype, PerChannel(scales, quantizer.zero_points, quantizer.axis))


# --- packing ----------------------------------------------------------------------------------------------------------


def prepack(
    name: str, dims: int, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, dilation: Any,
    groups: int, transposed: bool,
) -> ConvPackedParams:
    """Weights and a window, checked and kept together."""
    name = f"quantized::{name}"
    if weight._quantizer is None:
        raise NotImplementedError(f"{name}: expected quantized weights, got a tensor of {weight.dtype}")
    if weight.dtype is not _C.qint8:
        raise RuntimeError(f"{name}: expected weights of scalar type QInt8 but found {weight.dtype}")
    if weight.ndim != dims + 2:
        raise RuntimeError(f"{name}: weights are expected to have {dims + 2} dimensions, got {weight.ndim}")
    for what, values in (
        ("stride", stride), ("padding", padding), ("output_padding", output_padding), ("dilation", dilation)
    ):
        if len(values) != dims:
            raise RuntimeError(f"{name}: {what} should contain {dims} elements for {dims}D convolution, got {values}")
    if any(s <= 0 for s in stride) or any(d <= 0 for d in dilation):
        raise RuntimeError(f"{name}: stride and dilation should be positive, got {stride} and {dilation}")
    if any(p < 0 for p in (*padding, *output_padding)):
        raise RuntimeError(f"{name}: padding should not be negative, got {padding} and {output_padding}")
    shape = tuple(weight.shape)
    if groups <= 0 or shape[0] % groups:
        raise RuntimeError(f"{name}: groups = {groups} does not divide the size of weights at dimension 0, {shape[0]}")
    check_scheme(name, weight, transposed)
    outs = shape[1] * groups if transposed else shape[0]
    if bias is not None and bias.ndim != 1:
        raise RuntimeError(f"{name}: bias should be a vector (1D Tensor), got {bias.ndim} dimensions")
    if bias is not None and bias.shape[0] != outs:
        raise RuntimeError(f"{name}: bias should have K elements: {outs}, got {bias.shape[0]}")
    if transposed and any(output_padding) and quantized_engines.current() == "onednn":
        raise RuntimeError(f"{name}: ONEDNN only supports zero output_padding, got {output_padding}")
    packed = CLASSES[dims](weight, bias, stride, padding, output_padding, dilation, groups, transposed)
    if packed.has_zeros and packed.engine == "onednn":
        raise RuntimeError(f"{name}: ONEDNN only supports symmetric quantization of weight: its zero point must be 0")
    return packed


def check_scheme(name: str, weight: Any, transposed: bool) -> None:
    """Scales of the whole, or of every output."""
    quantizer = weight._quantizer
    if isinstance(quantizer, PerTensor):
        return
    if transposed and quantized_engines.current() in ("x86", "fbgemm"):
        raise RuntimeError(f"{name}: Per Channel Quantization is currently disabled for transposed conv")
    if not isinstance(quantizer, PerChannel) or quantizer.axis != (1 if transposed else 0):
        raise RuntimeError(
            f"{name}: unsupported qscheme of weights: expected one scale, or one for every output, got"
            f" {quantizer.scheme} along dimension {getattr(quantizer, 'axis', None)}"
        )


def packed_of(name: str, packed: Any, dims: int) -> ConvPackedParams:
    """Packed weights of a convolution of so many dims; raises for anything else."""
    if not isinstance(packed, CLASSES[dims]):
        raise RuntimeError(f"quantized::{name}: expected a {CLASSES[dims].qualified}, got {packed!s:.80}")
    return packed


# --- running ----------------------------------------------------------------------------------------------------------


def convolve(
    name: str, dims: int, x: Any, packed: Any, scale: float, zero_point: int, relu: bool = False, added: Any = None
) -> Any:
    """Quantized activations under packed weights."""
    weights, quantizer = packed_of(name, packed, dims), x._quantizer
    if quantizer is None:
        raise NotImplementedError(f"quantized::{name}: expected a quantized tensor, got one of {x.dtype}")
    integers, window = ints(x), weights.window
    check_input(name, x, weights)
    if weights.transposed:
        integers, window = as_convolution(integers, weights, quantizer.zero_point), plain_window(weights)
    sizes = out_sizes(integers.shape[2:], window, False, weights.output)
    check_sizes(name, sizes, weights)
    if weights.has_zeros:
        result = exact(integers, weights, window, quantizer, (scale, zero_point), relu)
        return put(result, x.dtype, PerTensor(scale, zero_point))
    other, accumulated = None, None
    if added is not None:
        accumulated, other = summand(name, added, (x.shape[0], weights.outs, *sizes))
    integers = integers.contiguous(memory_format=FORMATS[dims])
    columns, head = weights.with_scales(
        quantizer.scale, quantizer.zero_point, (scale, zero_point), relu, other
    )
    assert weights.ready is not None, "scales are prepared with weights"
    result = _byte_convolution(
        integers, weights.ready.packed, columns, head, accumulated, weights.outs, window.kernel, window.stride,
        window.padding, window.dilation, window.groups, weights.finish if other is None else LATE_SUM,
    )
    return put(result, x.dtype, PerTensor(scale, zero_point))


def check_input(name: str, x: Any, weights: ConvPackedParams) -> None:
    """Refuse activations that do not fit the weights."""
    if x.dtype is not _C.quint8:
        raise RuntimeError(f"quantized::{name}: expected activation data type QUInt8 but got {x.dtype}")
    if not isinstance(x._quantizer, PerTensor):
        raise RuntimeError(f"quantized::{name}: expected activations quantized per tensor, got {x._quantizer.scheme}")
    if x.ndim != weights.dims + 2:
        raise RuntimeError(
            f"quantized::{name}: Expected activation tensor to have {weights.dims + 2} dimensions, got {x.ndim}"
        )
    if x.shape[1] != weights.channels:
        raise RuntimeError(
            f"quantized::{name}: Given groups={weights.window.groups}, weight of size {list(weights.weight.shape)},"
            f" expected input {list(x.shape)} to have {weights.channels} channels, but got {x.shape[1]}"
        )


def check_sizes(name: str, sizes: tuple[int, ...], weights: ConvPackedParams) -> None:
    """Refuse results without elements; oneDNN has empty ones, of windows that step by one."""
    steps_by_one = all(n or s == 1 for n, s in zip(sizes, weights.window.stride, strict=True))
    has_empty = weights.finish == LATE and min(sizes) == 0 and steps_by_one
    if min(sizes) < 1 and not has_empty:
        raise RuntimeError(
            f"quantized::{name}: each dimension of output tensor should be greater than 0, got {list(sizes)}"
        )


def summand(name: str, added: Any, shape: tuple[int, ...]) -> tuple[Any, tuple[float, int]]:
    """Integers that are added to a result, channels last, with what they mean."""
    if added._quantizer is None or added.dtype is not _C.quint8:
        raise RuntimeError(
            f"quantized::{name}: the output tensor should have same dtype as the accum tensor, got {added.dtype}"
        )
    if tuple(added.shape) != shape:
        raise RuntimeError(f"quantized::{name}: expected an accum tensor of {list(shape)}, got {list(added.shape)}")
    return (
        ints(added).contiguous(memory_format=channels_last), (added._quantizer.scale, added._quantizer.zero_point)
    )


def plain_window(weights: ConvPackedParams) -> Window:
    """The window of the convolution that computes a transposed one, over an input that `as_convolution` spread."""
    w, none = weights.window, (0,) * weights.dims
    return Window(w.kernel, (1,) * weights.dims, none, w.dilation, w.groups)


def as_convolution(integers: Any, weights: ConvPackedParams, zero: int) -> Any:
    """Activations of a transposed convolution, spread by its stride and padded with their zero point."""
    w = weights.window
    spans = zip(integers.shape[2:], w.kernel, w.stride, w.padding, w.dilation, weights.output, strict=True)
    sizes, keep, put_at = [], [], []
    for n, k, s, p, d, extra in spans:
        reach = d * (k - 1) - p
        length = (n - 1) * s + 1 + 2 * reach + extra
        sizes.append(length)
        # where the padding is larger than the kernel reaches, elements are cut off
        first = max(0, -(-max(0, -reach) // s))
        last = min(n, (length - 1 - reach) // s + 1)
        keep.append(slice(first, max(first, last)))
        put_at.append(slice(reach + first * s, max(reach + (last - 1) * s + 1, 0), s))
    shape = (*integers.shape[:2], *(max(n, 0) for n in sizes))
    wide = integers.new_full(shape, zero).contiguous(memory_format=FORMATS[weights.dims])
    part = integers[(slice(None), slice(None), *keep)]
    if part.numel():
        wide[(slice(None), slice(None), *put_at)] = part
    return wide


def exact(
    integers: Any, weights: ConvPackedParams, window: Window, quantizer: PerTensor, out: tuple[float, int], relu: bool
) -> Any:
    """The same where weights have zero points: sums in double precision, which holds them, then FBGEMM's steps."""
    given = weights.weight._quantizer
    if isinstance(given, PerChannel):
        shape = [1] * weights.weight.ndim
        shape[given.axis] = -1
        zeros = given.zero_points.reshape(shape)
    else:
        zeros = given.zero_point
    weight = weights.as_convolution(ints(weights.weight).to(_C.float64) - zeros)
    moved = integers.to(_C.float64) - quantizer.zero_point
    none = (0,) * weights.dims
    sums = _exact_convolution(
        moved, weight, None, window.stride, window.padding, window.dilation, False, none, window.groups
    )
    factors, added, _ = weights.numbers(in_single(quantizer.scale), quantizer.zero_point, out, relu, None)
    ends = (1, -1, *(1,) * weights.dims)
    x = (sums.to(_C.float32) + added.reshape(ends)) * factors.reshape(ends)
    low = max(0, out[1]) if relu else 0
    return (x.round() + out[1]).clamp(low, 255).to(_C.uint8).contiguous(memory_format=FORMATS[weights.dims])


def dynamic(name: str, dims: int, x: Any, packed: Any, reduce_range: bool) -> Any:
    """Floats, quantized by their range; the result is quantized the same way before it is made floats again, which is
    what PyTorch does."""
    weights = packed_of(name, packed, dims)
    if x._quantizer is not None:
        raise NotImplementedError(f"quantized::{name}: expected a tensor of floats, got a quantized one of {x.dtype}")
    if x.dtype is not _C.float32:
        raise RuntimeError(f"quantized::{name}: expected scalar type Float but found {x.dtype}")
    scale, zero = find_op("_choose_qparams_per_tensor")(x.detach(), reduce_range and weights.engine != "qnnpack")
    q = find_op("quantize_per_tensor")(x.detach(), scale, zero, _C.quint8)
    return convolve(name, dims, q, packed, scale, zero).dequantize()


def in_two(x: Any) -> Any:
    """Signals as images of one row."""
    if x.ndim != 3:
        raise RuntimeError(f"quantized::conv1d: Expected activation tensor to have 3 dimensions, got {x.ndim}")
    return x.unsqueeze(2)


# --- the ops ----------------------------------------------------------------------------------------------------------


def _define_all() -> None:
    """The ops of every number of dims, by PyTorch's names."""
    for dims in (1, 2, 3):
        _define_prepacks(dims)
        _define_unpacks(dims)
        _define_runs(dims)
    _define_questions()


def _define_prepacks(dims: int) -> None:
    own, kind = max(dims, 2), CLASS.format(dims=max(dims, 2))

    def front(values: Any, fill: int) -> Any:
        return [fill, *values] if dims == 1 else values

    def image(weight: Any) -> Any:
        return weight.unsqueeze(2) if dims == 1 and weight.ndim == 3 else weight

    def straight(weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
        return prepack(
            f"conv{dims}d_prepack", own, image(weight), bias, front(stride, 1), front(padding, 0), [0] * own,
            front(dilation, 1), groups, False,
        )

    def transposed(
        weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, dilation: Any, groups: int
    ) -> Any:
        return prepack(
            f"conv_transpose{dims}d_prepack", own, image(weight), bias, front(stride, 1), front(padding, 0),
            front(output_padding, 0), front(dilation, 1), groups, True,
        )

    given = "Tensor weight, Tensor? bias, int[] stride, int[] padding"
    names = [f"quantized::conv{dims}d_prepack", *(["quantized::conv_prepack"] if dims == 2 else [])]
    names += [f"_quantized::conv{dims}d_prepack"] if dims > 1 else []
    for name in names:
        define(f"{name}({given}, int[] dilation, int groups) -> {kind}")(straight)
    for space in ("quantized", "_quantized"):
        text = f"{space}::conv_transpose{dims}d_prepack({given}, int[] output_padding, int[] dilation, int groups)"
        define(f"{text} -> {kind}")(transposed)


def _define_unpacks(dims: int) -> None:
    kind, own = CLASS.format(dims=max(dims, 2)), max(dims, 2)
    names = [f"conv{dims}d_unpack", f"conv_transpose{dims}d_unpack", *(["conv_unpack"] if dims == 2 else [])]
    for name in names:

        def unpack(packed_weights: Any, name: str = name) -> tuple[Any, Any]:
            weight, bias = packed_of(name, packed_weights, own).unpack()
            return (weight.squeeze(2) if dims == 1 else weight), bias

        define(f"quantized::{name}({kind} packed_weights) -> (Tensor unpacked_weights, Tensor? B_origin)")(unpack)


def _define_runs(dims: int) -> None:
    own, kind = max(dims, 2), CLASS.format(dims=max(dims, 2))
    numbers = "float output_scale, int output_zero_point) -> Tensor"

    def static(name: str, relu: bool) -> Any:
        def run(qx: Any, packed_weight: Any, output_scale: float, output_zero_point: int) -> Any:
            if dims > 1:
                return convolve(name, own, qx, packed_weight, output_scale, output_zero_point, relu)
            return convolve(name, own, in_two(qx), packed_weight, output_scale, output_zero_point, relu).squeeze(2)

        return run

    def older(name: str, relu: bool) -> Any:
        def run(
            qx: Any, weight: Any, stride: Any, padding: Any, dilation: Any, groups: int, output_scale: float,
            output_zero_point: int,
        ) -> Any:
            return convolve(name, own, qx, weight, output_scale, output_zero_point, relu)

        return run

    def by_range(name: str) -> Any:
        def run(qx: Any, packed_weight: Any, reduce_range: bool = False) -> Any:
            if dims > 1:
                return dynamic(name, own, qx, packed_weight, reduce_range)
            return dynamic(name, own, in_two(qx), packed_weight, reduce_range).squeeze(2)

        return run

    for relu in (False, True):
        name = f"conv{dims}d" + ("_relu" if relu else "")
        new = ".new" if dims > 1 else ""
        define(f"quantized::{name}{new}(Tensor qx, {kind} packed_weight, {numbers}")(static(name, relu))
        if dims > 1:
            given = f"Tensor qx, {kind} weight, int[] stride, int[] padding, int[] dilation, int groups"
            define(f"quantized::{name}({given}, {numbers}")(older(name, relu))
            define(f"_quantized::{name}(Tensor qx, {kind} packed_weight, {numbers}")(static(name, relu))
    name = f"conv_transpose{dims}d"
    for space in ("quantized", "_quantized")[: 1 if dims == 3 else 2]:
        define(f"{space}::{name}(Tensor qx, {kind} packed_weight, {numbers}")(static(name, False))
    for name in (f"conv{dims}d_dynamic", f"conv_transpose{dims}d_dynamic"):
        define(f"quantized::{name}(Tensor qx, {kind} packed_weight, bool reduce_range=False) -> Tensor")(by_range(name))


def _define_questions() -> None:
    """What packed weights answer."""
    for dims in (2, 3):
        for prefix in ("conv", "conv_transpose"):
            for what in ("stride", "padding", "output_padding", "dilation", "groups", "transpose"):
                name = f"{prefix}{dims}d_{what}"

                def ask(packed_weights: Any, name: str = name, dims: int = dims, what: str = what) -> Any:
                    answer = getattr(packed_of(name, packed_weights, dims), what)()
                    return int(answer) if what == "transpose" else answer

                result = "int" if what in ("groups", "transpose") else "int[]"
                define(f"quantized::{name}({CLASS.format(dims=dims)} packed_weights) -> {result}")(ask)


_define_all()


@define("quantized::conv2d_unpack_sizes(Any packed_weights) -> Any")
def conv2d_unpack_sizes(packed_weights: Any) -> tuple:
    """Sizes and window of packed weights."""
    p = packed_of("conv2d_unpack_sizes", packed_weights, 2)
    bias = None if p.own_bias is None else list(p.own_bias.shape)
    return list(p.weight.shape), bias, p.stride(), p.padding(), p.dilation(), p.groups()


def _define_sums() -> None:
    """Convolutions with a sum behind them, which only one engine has."""
    for name, relu in (("conv2d_add", False), ("conv2d_add_relu", True)):

        def run(
            qx: Any, qaccum: Any, packed_weight: Any, output_scale: float, output_zero_point: int, name: str = name,
            relu: bool = relu,
        ) -> Any:
            engine = quantized_engines.current()
            if engine != "onednn":
                raise RuntimeError(f"quantized::{name}: Didn't find engine for operation: {engine} has no such op")
            return convolve(name, 2, qx, packed_weight, output_scale, output_zero_point, relu, qaccum)

        define(
            f"quantized::{name}(Tensor qx, Tensor qaccum, {CLASS.format(dims=2)} packed_weight, float output_scale, int"
            " output_zero_point) -> Tensor"
        )(run)


_define_sums()
