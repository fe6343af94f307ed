"""Products with weights of 8 and 4 bits: what language models are decoded with.

Enters: activations of float32, bfloat16 or float16, and integer weights with scales. Leaves: results of the dtype of
the activations. Refuses: other dtypes, sizes that do not fit, groups that do not divide, by argument and value. 4-bit
weights are packed as PyTorch packs them on the same processor, so that files can be exchanged.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ...op import Composite, Library, Spec, ops
from ...planners.products.weight_plans import eight_bit_step, four_bit_dots, four_bit_step, has_dots, packing

FLOATS = (_C.float32, _C.bfloat16, _C.float16)
GROUPS = (32, 64, 128, 256)
FEW_ROWS = 3                 # that wait for weights; more of them share what floats were made of these


def check_rows(name: str, rows: Any) -> None:
    """Activations are a matrix of floats."""
    if rows.dtype not in FLOATS or rows.ndim != 2:
        raise RuntimeError(
            f"{name}: expected activations as a matrix of float32, bfloat16 or float16, got {rows.dtype} of {rows.ndim}"
            " dims"
        )


def check_scales(name: str, what: str, scales: Any, rows: Any, shape: tuple[int, ...]) -> None:
    """Scales have the activations' dtype and one place for each column (and group)."""
    if scales.dtype is not rows.dtype or tuple(scales.shape) != shape:
        raise RuntimeError(
            f"{name}: expected {what} of {rows.dtype} and shape {list(shape)}, got {scales.dtype} and"
            f" {list(scales.shape)}"
        )


class WeightInt8PackMm(Composite):
    """`input` times the transpose of `mat2` (int8, one row for each output), times `scales` of the outputs."""

    schema = "_weight_int8pack_mm(Tensor input, Tensor mat2, Tensor scales) -> Tensor"
    method = out = differentiable = False

    def compute(self, input, mat2, scales):
        check_rows(self.name, input)
        if mat2.dtype is not _C.int8 or mat2.ndim != 2 or mat2.shape[1] != input.shape[1]:
            raise RuntimeError(
                f"{self.name}: expected mat2 as an int8 matrix of {input.shape[1]} columns, got {mat2.dtype} of shape"
                f" {list(mat2.shape)}"
            )
        check_scales(self.name, "scales", scales, input, (mat2.shape[0],))
        given = (input.to(_C.float32).contiguous(), mat2.contiguous(), scales.to(_C.float32).contiguous())
        return ops["_eight_bit_product"](*given).to(input.dtype)


class EightBitProduct(Library):
    """Rows of float32 times rows of int8, times a scale for each of the latter."""

    schema = "_eight_bit_product(Tensor input, Tensor weights, Tensor scales) -> Tensor"
    function = method = out = differentiable = False

    def meta(self, input, weights, scales):
        return Spec((input.shape[0], weights.shape[0]), _C.float32)

    def is_planned(self, args):
        return args[0].device.type == "cpu" and bool(args[0].numel()) and bool(args[1].numel())

    def steps(self, args, room):
        return [eight_bit_step(args[0].shape[0], *args[1].shape)]

    def run(self, input, weights, scales):
        return (input @ weights.to(_C.float32).t()) * scales


class ConvertWeightToInt4PackForCpu(Composite):
    """4-bit integers (int32 [n, k]) as `_weight_int4pack_mm_for_cpu` reads them: [n, k / 2] bytes, in strips of
    columns."""

    schema = "_convert_weight_to_int4pack_for_cpu(Tensor input, int innerKTiles) -> Tensor"
    method = out = differentiable = False

    def compute(self, input, innerKTiles):      # noqa: N803 - PyTorch's name; it changes nothing on a CPU
        if input.dtype is not _C.int32 or input.ndim != 2:
            raise RuntimeError(f"{self.name}: expected an int32 matrix, got {input.dtype} of {input.ndim} dims")
        n, k = input.shape
        if n % 16 or k % 2:
            raise RuntimeError(f"{self.name}: expected rows by 16 and an even number of columns, got {n} and {k}")
        block, is_paired = packing()
        full = n - n % block
        strips = [joined(input[:full].reshape(-1, block, k), is_paired)] if full else []
        if n % block:
            strips.append(joined(input[full:].unsqueeze(0), True))
        return ops["cat"](strips).view(n, k // 2) if len(strips) > 1 else strips[0].view(n, k // 2)


def joined(strips: Any, is_paired: bool) -> Any:
    """[strips, columns, k] as bytes [strips * k * columns / 2]: two columns in each, the first one low."""
    half = strips.shape[1] // 2
    low, high = (strips[:, ::2], strips[:, 1::2]) if is_paired else (strips[:, :half], strips[:, half:])
    return ((low & 15) | ((high & 15) << 4)).transpose(1, 2).to(_C.uint8).reshape(-1)


def parted(packed: Any, columns: int, k: int, is_paired: bool) -> Any:
    """The columns [n, k] of strips of `columns`, from their bytes."""
    bytes_ = packed.reshape(-1, k, columns // 2).transpose(1, 2)
    low, high = bytes_ & 15, bytes_ >> 4
    both = ops["stack"]([low, high], 2).flatten(1, 2) if is_paired else ops["cat"]([low, high], 1)
    return both.reshape(-1, k)


class WeightInt4PackMmForCpu(Composite):
    """`input` times packed 4-bit weights: (integer - 8) * scale + zero, of each group of k and column."""

    schema = "_weight_int4pack_mm_for_cpu(Tensor input, Tensor mat2, int qGroupSize, Tensor qScaleAndZeros) -> Tensor"
    method = out = differentiable = False

    def compute(self, input, mat2, qGroupSize, qScaleAndZeros):      # noqa: N803 - PyTorch's names
        check_rows(self.name, input)
        k = input.shape[1]
        if mat2.dtype is not _C.uint8 or mat2.ndim != 2 or 2 * mat2.shape[1] != k:
            raise RuntimeError(
                f"{self.name}: expected mat2 as a uint8 matrix of {k // 2} columns, got {mat2.dtype} of shape"
                f" {list(mat2.shape)}"
            )
        if qGroupSize not in GROUPS or k % qGroupSize:
            raise RuntimeError(
                f"{self.name}: expected qGroupSize to be 32, 64, 128 or 256 and to divide {k}, got {qGroupSize}"
            )
        n = mat2.shape[0]
        check_scales(self.name, "qScaleAndZeros", qScaleAndZeros, input, (k // qGroupSize, n, 2))
        rows = input.to(_C.float32).contiguous()
        scales = qScaleAndZeros.contiguous()
        if scales.dtype is _C.float16:
            scales = scales.to(_C.float32)
        is_short = input.dtype is not _C.float32
        return four_bit_product(rows, mat2.contiguous(), qGroupSize, scales, is_short).to(input.dtype)


def four_bit_product(rows: Any, packed: Any, group: int, scales: Any, is_short: bool) -> Any:
    """The product, by strips; columns that fill no strip are multiplied as floats. `is_short`: rows came from 16-bit
    floats."""
    (n, half), block = packed.shape, packing()[0]
    full, k = n - n % block, 2 * half
    sums = rows.view(rows.shape[0], k // group, group).sum(-1)
    results = []
    if full:
        given = (rows, packed, scales, sums) if full == n else (
            rows, packed[:full], scales[:, :full].contiguous(), sums
        )
        results.append(ops["_four_bit_product"](*given, group, is_short))
    if full < n:
        integers = parted(packed[full:], n - full, k, True)
        results.append(rows @ as_floats(integers, group, scales[:, full:]).t())
    return results[0] if len(results) == 1 else ops["cat"](results, 1)


def as_floats(integers: Any, group: int, scales: Any) -> Any:
    """4-bit weights [n, k] as float32, from scales and zeros [k / group, n, 2]."""
    n, k = integers.shape
    scale, zero = scales.to(_C.float32).permute(2, 1, 0).unsqueeze(-1)
    return ((integers.view(n, k // group, group) - 8.0) * scale + zero).view(n, k)


class FourBitProduct(Library):
    """Rows of float32 times strips of 4-bit weights, with the sums of the rows by group."""

    schema = (
        "_four_bit_product(Tensor input, Tensor packed, Tensor scales, Tensor sums, int group, bool is_short)"
        " -> Tensor"
    )
    function = method = out = differentiable = False

    def meta(self, input, packed, scales, sums, group, is_short):
        return Spec((input.shape[0], packed.shape[0]), _C.float32)

    def is_planned(self, args):
        return args[0].device.type == "cpu" and bool(args[0].numel())

    def steps(self, args, room):
        rows, packed, scales, _, group, is_short = args
        element = "bfloat" if scales.dtype is _C.bfloat16 else "float"
        if is_short and rows.shape[0] <= FEW_ROWS and has_dots():
            return four_bit_dots(room, rows.shape[0], packed.shape[0], rows.shape[1], group, element)
        return [four_bit_step(rows.shape[0], packed.shape[0], rows.shape[1], group, element)]

    def run(self, input, packed, scales, sums, group, is_short):
        block, is_paired = packing()
        return input @ as_floats(parted(packed, block, input.shape[1], is_paired), group, scales).t()


class DynQuantPack4BitWeight(Composite):
    """4-bit weights (two in a byte of uint8, the first one low) with scales of groups of `block_size` and a bias, as
    one vector of floats, which is how PyTorch keeps them on processors without kernels of their own."""

    schema = (
        "_dyn_quant_pack_4bit_weight(Tensor weights, Tensor scales_zeros, Tensor? bias, int block_size,"
        " int in_features, int out_features) -> Tensor"
    )
    method = out = differentiable = False

    def compute(self, weights, scales_zeros, bias, block_size, in_features, out_features):
        check_groups(self.name, block_size, in_features)
        if weights.dtype is not _C.uint8 or 2 * weights.numel() != in_features * out_features:
            raise RuntimeError(
                f"{self.name}: expected {in_features * out_features // 2} bytes of weights, got {weights.numel()} of"
                f" {weights.dtype}"
            )
        if scales_zeros.numel() != out_features * (in_features // block_size):
            raise RuntimeError(
                f"{self.name}: expected {out_features * (in_features // block_size)} scales, got"
                f" {scales_zeros.numel()}"
            )
        if bias is not None and bias.numel() != out_features:
            raise RuntimeError(f"{self.name}: expected a bias of {out_features} elements, got {bias.numel()}")
        parts = (weights, scales_zeros) if bias is None else (weights, scales_zeros, bias)
        return ops["cat"]([part.reshape(-1).to(_C.float32) for part in parts])


def check_groups(name: str, block_size: int, in_features: int) -> None:
    """Groups divide a row, in blocks of 32 or the row itself."""
    if block_size <= 0 or in_features % block_size or (block_size != in_features and block_size % 32):
        raise RuntimeError(
            f"{name}: expected block_size to be in_features ({in_features}), or a multiple of 32 that divides it, got"
            f" {block_size}"
        )


class DynQuantMatmul4Bit(Composite):
    """Rows of floats, rounded to 8 bits each by its own range, times weights that `_dyn_quant_pack_4bit_weight`
    packed."""

    schema = (
        "_dyn_quant_matmul_4bit(Tensor inp, Tensor packed_weights, int block_size, int in_features,"
        " int out_features) -> Tensor"
    )
    method = out = differentiable = False

    def compute(self, inp, packed_weights, block_size, in_features, out_features):
        n, k = out_features, in_features
        check_groups(self.name, block_size, k)
        held, groups = n * k // 2, n * (k // block_size)
        if inp.ndim < 1 or inp.shape[-1] != k or packed_weights.numel() not in (held + groups, held + groups + n):
            raise RuntimeError(
                f"{self.name}: expected rows of {k} and {held + groups} (or {held + groups + n}) packed weights, got"
                f" rows of {list(inp.shape)} and {packed_weights.numel()}"
            )
        flat = packed_weights.reshape(-1)
        scales = flat[held : held + groups].view(n, k // block_size, 1)
        bytes_ = flat[:held].to(_C.uint8).view(n, k // 2)
        integers = ops["stack"]([bytes_ & 15, bytes_ >> 4], -1).view(n, k // block_size, block_size)
        weights = ((integers - 8.0) * scales).view(n, k)
        result = in_eight_bits(inp.to(_C.float32)) @ weights.t()
        if flat.numel() > held + groups:
            result = result + flat[held + groups :]
        return result.to(inp.dtype)


def in_eight_bits(rows: Any) -> Any:
    """Rows rounded to the 256 numbers, zero among them, that lie evenly over the range of each."""
    low, high = rows.amin(-1, keepdim=True).clamp(max=0), rows.amax(-1, keepdim=True).clamp(min=0)
    scale = ops["where"](low == high, 1.0, 255.0 / (high - low))
    from_low, from_high = -128.0 - low * scale, 127.0 - high * scale
    is_low = (-128.0 + low * scale) + (127.0 + high * scale) > 0
    zero = ops["where"](is_low, from_low, from_high).clamp(-128, 127).round()
    return (((rows * scale).round() + zero).clamp(-128, 127) - zero) / scale
