"""`ops.quantized`: tables of embeddings with rows of 8, 4 and 2 bits, and bags of their rows.

Enters: float tables, or tables quantized per channel with float zero points; indices and offsets. Leaves: packed tables
(bytes: the codes of a row, then its scale and bias in float32, below 8 bits in float16) and floats. Refuses: tables of
other schemes and dtypes, numbers of columns that do not fill bytes, indices outside the table, offsets that do not fit.
Bags are sums, whatever `mode` says: PyTorch's ops have no other.
"""

from __future__ import annotations

from typing import Any

from .. import _C
from ..base.quantizers import PerChannelFloat
from ..definitions.quantized.container import ints, is_quantized
from ..definitions.quantized.subbyte import unpacked
from ..op import ops
from .namespace import define
from .packed import ScriptObject

TABLE = "__torch__.torch.classes.quantized.EmbeddingPackedParamsBase"
VERSION = 1
EPSILON = 1e-8


# Rows as bytes
# ---------------------------------------------------------------------------------------------------------------------


def as_bytes(numbers: Any) -> Any:
    """Numbers of rows as columns of bytes."""
    return numbers.contiguous().view(_C.uint8).view(*numbers.shape[:-1], -1)


def packed_rows(codes: Any, bits: int) -> Any:
    """Codes, several in a byte: the first in the lowest bits."""
    each = 8 // bits
    if each == 1:
        return codes
    missing = -codes.shape[-1] % each
    if missing:
        codes = ops["constant_pad_nd"](codes, [0, missing], 0)
    parts = codes.view(*codes.shape[:-1], -1, each)
    result = parts[..., 0]
    for k in range(1, each):
        result = result | (parts[..., k] << (bits * k))
    return result


def opened_rows(rows: Any, bits: int) -> Any:
    """The codes of rows, one in each element."""
    each = 8 // bits
    if each == 1:
        return rows
    parts = [(rows >> (bits * k)) & ((1 << bits) - 1) for k in range(each)]
    return ops["stack"](parts, -1).flatten(-2)


def parts_of(table: Any, bits: int) -> tuple[Any, Any, Any]:
    """The codes (still packed), scales and biases of a packed table."""
    width = 4 if bits == 8 else 2
    kind = _C.float32 if bits == 8 else _C.float16
    own = table.shape[-1] - 2 * width
    numbers = [table[..., own + k * width : own + (k + 1) * width].contiguous().view(kind) for k in (0, 1)]
    return table[..., :own], numbers[0].to(_C.float32), numbers[1].to(_C.float32)


def limits_of(name: str, weight: Any, given: Any) -> tuple[Any, Any]:
    """The least and the largest number of every row, as given or as found."""
    if given is None:
        return weight.amin(-1, keepdim=True), weight.amax(-1, keepdim=True)
    if given.ndim != 2 or tuple(given.shape) != (weight.shape[0], 2):
        raise RuntimeError(
            f"quantized::{name}: 'rowwise_min_max' must be a 2D tensor with shape [{weight.shape[0]}, 2], got"
            f" {list(given.shape)}"
        )
    return given[:, :1].to(_C.float32), given[:, 1:].to(_C.float32)


def check_floats(name: str, weight: Any) -> Any:
    """The table in float32; raises for other dtypes than float32 and float16."""
    if weight.dtype not in (_C.float32, _C.float16):
        raise RuntimeError(f"quantized::{name}: only support float32 or float16, got {weight.dtype}")
    return weight.to(_C.float32)


def packed_bytes(name: str, weight: Any, given: Any) -> Any:
    """A table of 8 bits."""
    weight = check_floats(name, weight)
    low, high = limits_of(name, weight, given)
    extent = high - low
    codes = ops["_row_codes"](weight, low, 255.0 / (extent + EPSILON), 255)
    return ops["cat"]([codes, as_bytes(extent / 255.0), as_bytes(low)], -1)


def packed_bits(
    name: str, bits: int, weight: Any, given: Any, optimized: bool, nbins: int, ratio: float
) -> Any:
    """A table of 4 or 2 bits: scales and biases are halves."""
    weight = check_floats(name, weight)
    each, most = 8 // bits, (1 << bits) - 1
    if weight.ndim != 2:
        raise RuntimeError(f"quantized::{name}: expected a table with 2 dimensions, got {weight.ndim}")
    if weight.shape[1] % each:
        raise RuntimeError(
            f"quantized::{name}: only works for the number of columns a multiple of {each}, got {weight.shape[1]}"
        )
    if optimized:
        found = [
            ops["choose_qparams_optimized"](row, row.numel(), nbins, ratio, bits) for row in weight.unbind(0)
        ]
        high, low = (ops["stack"]([pair[k].view(1) for pair in found]) for k in (0, 1))
    else:
        low, high = limits_of(name, weight, given)
    low = low.to(_C.float16)
    extent = high - low.to(_C.float32)
    scale = (extent / most).masked_fill(extent == 0, 1.0).to(_C.float16)
    wide = scale.to(_C.float32)
    scale = scale.masked_fill((wide == 0) | (1.0 / wide).isinf(), 1.0)
    codes = ops["_row_codes"](weight, low.to(_C.float32), 1.0 / scale.to(_C.float32), most)
    return ops["cat"]([packed_rows(codes, bits), as_bytes(scale), as_bytes(low)], -1)


def opened(table: Any, bits: int) -> Any:
    """The numbers of a packed table."""
    codes, scales, biases = parts_of(table, bits)
    codes = opened_rows(codes, bits)
    return ops["_quantized_fma"](codes.to(_C.float32), scales, biases)


# Bags
# ---------------------------------------------------------------------------------------------------------------------


def check_indices(name: str, indices: Any, offsets: Any) -> None:
    """Raise for indices and offsets of other dtypes and shapes."""
    for label, t in (("indices", indices), ("offsets", offsets)):
        if t is not None and t.dtype not in (_C.int32, _C.int64):
            raise RuntimeError(f"quantized::{name}: expect 32 or 64 bit {label}, but found {t.dtype} instead")
    if indices.ndim not in (1, 2):
        raise RuntimeError(f"quantized::{name}: expected indices of 1 or 2 dimensions, got {indices.ndim}")
    if indices.ndim == 1 and offsets is None:
        raise RuntimeError(f"quantized::{name}: expects offsets to be set for 1D indices")
    if indices.ndim == 2 and offsets is not None:
        raise RuntimeError(
            f"quantized::{name}: input is 2D, then offsets has to be None, as rows of the input are its bags"
        )


def ends_of(name: str, bits: int, indices: Any, offsets: Any, include_last: bool) -> Any:
    """Where bags begin in the flattened indices, and where the last one ends."""
    count = indices.numel()
    if indices.ndim == 2:
        return ops["arange"](0, indices.shape[0] + 1, dtype=_C.int64) * indices.shape[1]
    offsets = offsets.to(_C.int64)
    if not include_last:
        offsets = ops["cat"]([offsets, offsets.new_full((1,), count)])
    steps = offsets[1:] - offsets[:-1]
    if offsets.numel() == 0 or bool(((offsets < 0) | (offsets > count)).any()) or bool((steps < 0).any()):
        raise RuntimeError(
            f"quantized::{name}: expected offsets that go up from 0 to at most {count}, the number of indices, got"
            f" {offsets.tolist()}"
        )
    if bits < 8 and int(offsets[-1].item()) != count:
        raise RuntimeError(
            f"quantized::{name}: the last offset should be the number of indices, {count}, got {offsets[-1].item()}"
        )
    return offsets


def rows_of(name: str, indices: Any, rows: int, pruned: bool, mapping: Any) -> tuple[Any, Any]:
    """The table row of every index, and which of them are there: pruned tables say so in `mapping`."""
    flat = indices.reshape(-1).to(_C.int64)
    size = rows
    if pruned and mapping is not None and mapping.numel() > 1:
        size = mapping.numel()
    wrong = (flat < 0) | (flat >= size)
    if bool(wrong.any()):
        at = int(wrong.to(_C.int64).argmax().item())
        raise RuntimeError(
            f"quantized::{name}: Index {at} is out of bounds: {flat[at].item()}, range 0 to {size}"
        )
    if size == rows and not (pruned and mapping is not None and mapping.numel() > 1):
        return flat, None
    mapped = mapping.to(_C.int64).index_select(0, flat)
    return mapped.clamp(min=0), mapped >= 0


def bags(
    name: str, bits: int, table: Any, indices: Any, offsets: Any, pruned: bool, weights: Any, mapping: Any,
    include_last: bool,
) -> Any:
    """Sums of the rows of each bag, times weights where there are any."""
    check_indices(name, indices, offsets)
    ends = ends_of(name, bits, indices, offsets, include_last)
    codes, scales, biases = parts_of(table, bits)
    flat, present = rows_of(name, indices, table.shape[0], pruned, mapping)
    weights = None if weights is None else weights.reshape(-1).to(_C.float32)
    if weights is not None and weights.numel() != flat.numel():
        raise RuntimeError(
            f"quantized::{name}: expected one weight for each of {flat.numel()} indices, got {weights.numel()}"
        )
    starts, sizes = ends[:-1], ends[1:] - ends[:-1]
    total = ops["zeros"]((starts.numel(), codes.shape[1] * (8 // bits)), dtype=_C.float32)
    if not starts.numel() or not flat.numel():
        return total
    for step in range(int(sizes.max().item())):     # the terms of all bags, one after another
        places = (starts + step).clamp(max=flat.numel() - 1)
        active = sizes > step
        if present is not None:
            active = active & present.index_select(0, places)
        rows = flat.index_select(0, places)
        total = ops["_bag_step"](
            total, opened_rows(codes.index_select(0, rows), bits), scales.index_select(0, rows),
            biases.index_select(0, rows),
            None if weights is None else weights.index_select(0, places).unsqueeze(1), active.unsqueeze(1),
        )
    return total


# Packed tables
# ---------------------------------------------------------------------------------------------------------------------


class EmbeddingPackedParamsBase(ScriptObject):
    """A table of quint8 or quint4x2 rows, packed."""

    qualified = TABLE

    def __init__(self, weight: Any) -> None:
        self.weight, self.bits = weight, 8 if weight.dtype is _C.quint8 else 4
        quantizer = weight._quantizer
        scales = quantizer.scales.unsqueeze(1)
        biases = quantizer.zero_points.unsqueeze(1) * scales * -1.0
        codes = table_codes(weight)
        if self.bits == 4:
            scales, biases = scales.to(_C.float16), biases.to(_C.float16)
        self.table = ops["cat"]([packed_rows(codes, self.bits), as_bytes(scales), as_bytes(biases)], -1)

    def bit_rate(self) -> int:
        return self.bits

    def version(self) -> int:
        return VERSION

    def unpack(self) -> Any:
        return self.weight

    def state(self) -> Any:
        return VERSION, [self.weight], [], [self.bits]

    @classmethod
    def from_state(cls, state: Any) -> EmbeddingPackedParamsBase:
        if not isinstance(state, (tuple, list)) or len(state) != 4 or state[0] != VERSION:
            raise RuntimeError(f"expected the state of a packed table of version {VERSION}, got {state!r:.100}")
        return prepack(state[1][0])


def table_codes(weight: Any) -> Any:
    """The integers of a quantized table, one in each element."""
    return ints(weight) if weight.dtype is _C.quint8 else unpacked(weight)


@define(f"quantized::embedding_bag_prepack(Tensor weight) -> {TABLE} W_prepack")
def prepack(weight: Any) -> EmbeddingPackedParamsBase:
    name = "quantized::embedding_bag_prepack"
    if not is_quantized(weight):
        raise NotImplementedError(f"{name}: expected a quantized table, got one of {weight.dtype}")
    if weight.ndim != 2:
        raise RuntimeError(f"{name}: weight tensor rank should be 2, got {weight.ndim}")
    if weight.dtype not in (_C.quint8, _C.quint4x2):
        raise RuntimeError(f"{name}: currently only supports quint8 and quint4x2 weights, got {weight.dtype}")
    if not isinstance(weight._quantizer, PerChannelFloat):
        raise RuntimeError(
            f"{name}: expect weights to be quantized using per_channel_affine_float_qparams, got"
            f" {weight._quantizer.scheme}"
        )
    return EmbeddingPackedParamsBase(weight)


@define(f"quantized::embedding_bag_unpack({TABLE} W_prepack) -> Tensor W_origin")
def unpack(packed: Any) -> Any:
    return packed.unpack()


BAG = (
    "Tensor indices, Tensor? offsets=None, bool scale_grad_by_freq=False, int mode=0, bool pruned_weights=False,"
    " Tensor? per_sample_weights=None, Tensor? compressed_indices_mapping=None, bool include_last_offset=False"
)


def _lookups(label: str, bits: int) -> None:
    """The ops of one width: bags and rows of packed objects, and bags of packed tensors."""

    def of_object(
        weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool, mode: int, pruned_weights: bool,
        per_sample_weights: Any, compressed_indices_mapping: Any, include_last_offset: bool,
    ) -> Any:
        check_object(f"embedding_bag_{label}", weight, bits)
        return bags(
            f"embedding_bag_{label}", bits, weight.table, indices, offsets, pruned_weights, per_sample_weights,
            compressed_indices_mapping, include_last_offset,
        )

    def of_tensor(
        weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool, mode: int, pruned_weights: bool,
        per_sample_weights: Any, compressed_indices_mapping: Any, include_last_offset: bool,
    ) -> Any:
        name = f"embedding_bag_{label}_rowwise_offsets"
        if weight.dtype is not _C.uint8 or weight.ndim != 2:
            raise RuntimeError(
                f"quantized::{name}: expected a packed table of uint8 with 2 dimensions, got {weight.dtype} and"
                f" {weight.ndim}"
            )
        return bags(
            name, bits, weight, indices, offsets, pruned_weights, per_sample_weights, compressed_indices_mapping,
            include_last_offset,
        )

    def rows(weight: Any, indices: Any, pruned_weights: bool) -> Any:
        check_object(f"embedding_{label}", weight, bits)
        flat = indices.reshape(-1)
        ends = ops["arange"](0, flat.numel(), dtype=_C.int64)
        found = bags(f"embedding_{label}", bits, weight.table, flat, ends, pruned_weights, None, None, False)
        return found.view(*indices.shape, -1)

    define(f"quantized::embedding_bag_{label}_rowwise_offsets(Tensor weight, {BAG}) -> Tensor")(of_tensor)
    if bits > 2:
        define(f"quantized::embedding_bag_{label}({TABLE} weight, {BAG}) -> Tensor")(of_object)
        define(f"quantized::embedding_{label}({TABLE} weight, Tensor indices, bool pruned_weights=False) -> Tensor")(
            rows
        )


def check_object(name: str, packed: Any, bits: int) -> None:
    """Raise unless a packed table of this width is given."""
    if not isinstance(packed, EmbeddingPackedParamsBase) or packed.bits != bits:
        given = f"{packed.bits} bits" if isinstance(packed, EmbeddingPackedParamsBase) else type(packed).__name__
        raise RuntimeError(f"quantized::{name}: expected a packed table of {bits} bits, got {given}")


for _label, _bits in (("byte", 8), ("4bit", 4), ("2bit", 2)):
    _lookups(_label, _bits)


@define("quantized::embedding_bag_byte_prepack(Tensor weight) -> Tensor")
def byte_prepack(weight: Any) -> Any:
    return packed_bytes("embedding_bag_byte_prepack", weight, None)


@define("quantized::embedding_bag_byte_prepack_with_rowwise_min_max(Tensor weight, Tensor rowwise_min_max) -> Tensor")
def byte_prepack_within(weight: Any, rowwise_min_max: Any) -> Any:
    return packed_bytes("embedding_bag_byte_prepack_with_rowwise_min_max", weight, rowwise_min_max)


@define("quantized::embedding_bag_byte_unpack(Tensor weight) -> Tensor")
def byte_unpack(weight: Any) -> Any:
    return opened(weight, 8)


def _narrow(label: str, bits: int) -> None:
    """Packing and opening tables of less than 8 bits."""
    tail = "bool optimized_qparams=False, int nbins=200, float ratio=0.16) -> Tensor"
    name = f"embedding_bag_{label}_prepack"

    def pack(weight: Any, optimized_qparams: bool, nbins: int, ratio: float) -> Any:
        return packed_bits(name, bits, weight, None, optimized_qparams, nbins, ratio)

    def pack_within(weight: Any, rowwise_min_max: Any, optimized_qparams: bool, nbins: int, ratio: float) -> Any:
        return packed_bits(
            f"{name}_with_rowwise_min_max", bits, weight, rowwise_min_max, optimized_qparams, nbins, ratio
        )

    def open_table(weight: Any) -> Any:
        return opened(weight, bits)

    define(f"quantized::{name}(Tensor weight, {tail}")(pack)
    define(f"quantized::{name}_with_rowwise_min_max(Tensor weight, Tensor rowwise_min_max, {tail}")(pack_within)
    define(f"quantized::embedding_bag_{label}_unpack(Tensor weight) -> Tensor")(open_table)


_narrow("4bit", 4)
_narrow("2bit", 2)
