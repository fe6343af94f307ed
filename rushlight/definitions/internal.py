"""Ops that programs reach by an underscore: what PyTorch's own Python code, exporters and decompositions call.

Enters: tensors. Leaves: composites of public ops under PyTorch's internal names, so that code written against those
runs. Nothing here computes anything of its own.
"""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight.op import Composite, find_op
from rushlight.op.numbers import filled

CASTS = {
    "Byte": _C.uint8, "Char": _C.int8, "Double": _C.float64, "Float": _C.float32, "Half": _C.float16, "Int": _C.int32,
    "Long": _C.int64, "Short": _C.int16,
}


class _Internal(Composite):
    """Functions only, without out=."""

    method = False
    out = False


def define_casts() -> None:
    """`_cast_Float(x)` and its like."""
    for label, dtype in CASTS.items():

        def compute(self: Any, input: Any, non_blocking: bool, dtype: Any = dtype) -> Any:
            return input.to(dtype)

        body = {
            "schema": f"_cast_{label}(Tensor input, bool non_blocking=False) -> Tensor",
            "compute": compute,
            "__doc__": f"`input` as {dtype.name}.",
            "__module__": __name__,
        }
        type(f"Cast{label}", (_Internal,), body)


define_casts()


class ShapeAsTensor(_Internal):
    """The sizes as an int64 tensor."""

    schema = "_shape_as_tensor(Tensor input) -> Tensor"

    def compute(self, input):
        return (
            find_op("scalar_tensor")(0, dtype=_C.int64).new_empty(0)
            if not input.ndim
            else _C.from_data(list(input.shape), _C.int64)
        )


class DimArange(_Internal):
    """0, 1, ... for every position along a dim."""

    schema = "_dim_arange(Tensor like, int dim) -> Tensor"

    def compute(self, like, dim):
        return find_op("arange")(like.shape[dim], dtype=_C.int64, device=like.device)


class IsAllTrue(Composite):
    """Whether every element of a tensor of truth values is true."""

    schema = "_is_all_true(Tensor input) -> Tensor"
    out = False

    def compute(self, input):
        if input.dtype is not _C.bool:
            raise RuntimeError(f"_is_all_true: expected a bool tensor, got {input.dtype.name}")
        return input.all()


class IsAnyTrue(Composite):
    """Whether some element of a tensor of truth values is true."""

    schema = "_is_any_true(Tensor input) -> Tensor"
    out = False

    def compute(self, input):
        if input.dtype is not _C.bool:
            raise RuntimeError(f"_is_any_true: expected a bool tensor, got {input.dtype.name}")
        return input.any()


class InternalStack(_Internal):
    """`stack`."""

    schema = "_stack(Tensor[] tensors, int dim=0) -> Tensor"

    def compute(self, tensors, dim):
        return find_op("stack")(tensors, dim)


class UnsafeIndex(_Internal):
    """`index`; indices are checked all the same."""

    schema = "_unsafe_index(Tensor input, Tensor?[] indices) -> Tensor"

    def compute(self, input, indices):
        return find_op("index")(input, indices)


class UnsafeIndexPut(_Internal):
    """`index_put`; indices are checked all the same."""

    schema = "_unsafe_index_put(Tensor input, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor"

    def compute(self, input, indices, values, accumulate):
        return find_op("index_put")(input, indices, values, accumulate)


class IndexPutImpl(_Internal):
    """`index_put_`."""

    schema = (
        "_index_put_impl_(Tensor(a!) input, Tensor?[] indices, Tensor values, bool accumulate=False, bool unsafe=False)"
        " -> Tensor"
    )

    def compute(self, input, indices, values, accumulate, unsafe):
        return find_op("index_put_")(input, indices, values, accumulate)


class AddRelu(_Internal):
    """relu of input + alpha * other."""

    schema = "_add_relu(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor"

    def compute(self, input, other, alpha):
        return input.add(other, alpha=alpha).relu()


class AMinMax(_Internal):
    """Smallest and largest element."""

    schema = (
        "_aminmax(Tensor input) -> (Tensor, Tensor)",
        "_aminmax.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor, Tensor)",
    )

    def compute(self, input, dim=None, keepdim=False):
        found = find_op("aminmax")(input, dim=dim, keepdim=keepdim)
        return found[0], found[1]


class InternalLogCumSumExp(_Internal):
    """`logcumsumexp`."""

    schema = "_logcumsumexp(Tensor input, int dim) -> Tensor"

    def compute(self, input, dim):
        return input.logcumsumexp(dim)


class UniqueTwo(_Internal):
    """Distinct elements, and (empty unless asked for) where each went and how often it occurs."""

    schema = (
        "_unique2(Tensor input, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor,"
        " Tensor, Tensor)"
    )

    def compute(self, input, sorted, return_inverse, return_counts):
        values, inverse, counts = find_op("unique")(input, sorted, True, True)
        empty = inverse.new_empty(0)
        return values, inverse if return_inverse else empty, counts if return_counts else empty


class UniqueOne(_Internal):
    """Distinct elements, and (empty unless asked for) where each went."""

    schema = "_unique(Tensor input, bool sorted=True, bool return_inverse=False) -> (Tensor, Tensor)"

    def compute(self, input, sorted, return_inverse):
        return find_op("_unique2")(input, sorted, return_inverse, False)[:2]


class SliceInverse(Composite):
    """A tensor laid out like `input`, seen through a slice that is `src`."""

    schema = (
        "slice_inverse(Tensor(a) input, Tensor src, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor(a)"
    )
    out = False

    def compute(self, input, src, dim, start, end, step):
        begin, _, _ = slice(start, end, step).indices(src.shape[dim])
        offset = input.storage_offset() - begin * src.stride(dim)
        return input.as_strided(src.shape, src.stride(), offset)


class FillDiagonal(Composite):
    """Every diagonal element (of a tall matrix, with `wrap`, every one again after a gap row) overwritten."""

    schema = "fill_diagonal_(Tensor(a!) input, Scalar fill_value, bool wrap=False) -> Tensor"
    function = False
    out = False

    def compute(self, input, fill_value, wrap):
        if input.ndim < 2:
            raise RuntimeError(f"dimensions must larger than 1, got {input.ndim}")
        if input.ndim > 2 and len(set(input.shape)) > 1:
            raise RuntimeError(f"all dimensions of input must be of equal length, got {list(input.shape)}")
        fill_value = filled(self.name, fill_value, input.dtype)
        side, step = min(input.shape), sum(input.stride())
        input.as_strided((side,), (step,), input.storage_offset()).fill_(fill_value)
        rows, cols = input.shape[0], input.shape[1]
        if wrap and input.ndim == 2 and rows > cols + 1:
            start = input.stride(0) * (cols + 1)
            count = ((rows - cols - 1) * cols + cols) // (cols + 1)
            if input._is_contiguous():
                input.as_strided((count,), (step,), input.storage_offset() + start).fill_(fill_value)
            else:
                for row in range(cols + 1, rows, cols + 1):
                    for k in range(min(cols, rows - row)):
                        input[row + k, k] = fill_value
        return input


class ToCopy(_Internal):
    """`input` in another dtype, device or memory format, always copied: what `to` is once it has decided to copy."""

    schema = (
        "_to_copy(Tensor input, *, dtype? dtype=None, layout? layout=None, device? device=None, bool? pin_memory=None,"
        " bool non_blocking=False, memory_format? memory_format=None) -> Tensor"
    )

    def compute(self, input, dtype, layout, device, pin_memory, non_blocking, memory_format):
        if pin_memory:
            return find_op("_pin_memory")(input)
        if layout is not None and layout is not input.layout:
            raise NotImplementedError(f"_to_copy: a change of layout from {input.layout} to {layout} is not supported")
        order = {} if memory_format is None else {"memory_format": memory_format}
        return input.to(device or input.device, dtype or input.dtype, non_blocking=non_blocking, copy=True, **order)


class PinMemory(_Internal):
    """A copy in memory that an accelerator reads directly; there is none."""

    schema = "_pin_memory(Tensor input, device? device=None) -> Tensor"

    def compute(self, input, device):
        return input.pin_memory(device)


class DetachedAlias(_Internal):
    """`detach` by its qualified name; programs call the method."""

    schema = "detach(Tensor input) -> Tensor"
    function = False

    def compute(self, input):
        return input.detach()


class SparseAddmm(_Internal):
    """beta * input + alpha * (mat1 @ mat2) with a sparse first factor."""

    schema = "_sparse_addmm(Tensor input, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"

    def compute(self, input, mat1, mat2, beta, alpha):
        return find_op("addmm")(input, mat1, mat2, beta=beta, alpha=alpha)


class SparseMmReduce(_Internal):
    """`sparse @ dense` of a CSR matrix, rows added up or averaged; the second result, where a maximum was,
    is empty for these."""

    schema = "_sparse_mm_reduce_impl(Tensor input, Tensor other, str reduce) -> (Tensor, Tensor)"

    def compute(self, input, other, reduce):
        if reduce not in ("sum", "mean"):
            raise NotImplementedError(
                f"_sparse_mm_reduce_impl: reduce={reduce!r} is not supported; use 'sum' or 'mean'"
            )
        result = input @ other
        if reduce == "mean":
            counts = input.crow_indices().diff().clamp(min=1)
            result = result / counts.unsqueeze(-1).to(result.dtype)
        return result, input.crow_indices().new_empty(0)


class UpdateRows(_Internal):
    """What a recording device was told of an optimizer's step: `tensors` are rows of `width` (a parameter, its
    gradient, its state), and `update` changes each in place with the step's numbers."""

    schema = "_update_rows(Tensor(a!)[] tensors, int width, any update, any numbers) -> ()"

    def compute(self, tensors, width, update, numbers):
        for at in range(0, len(tensors), width):
            update.repeat(tensors[at : at + width], numbers)
        return ()
