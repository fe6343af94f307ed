"""Lookups in tables of vectors: embedding, embedding_bag, one_hot.

Enters: integer indices and a table [entries, width]. Leaves: rows of the table, or their sum, mean or maximum per bag;
gradients are added up row by row in the order of the indices, so results repeat. Refuses: indices outside the table,
tables that are not 2-D, and the combinations of arguments PyTorch refuses.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ...autograd import is_grad_enabled, no_grad
from ...op import Composite, Meta, find_op
from ...rules.levels import readable

SUM, MEAN, MAX = 0, 1, 2
MODES = {"sum": SUM, "mean": MEAN, "max": MAX}


def check_table(name: str, weight: Any, indices: Any) -> None:
    """A 2-D table and integer indices."""
    if weight.ndim != 2:
        raise RuntimeError(f"{name}: 'weight' must be 2-D, got shape {list(weight.shape)}")
    check_index_type(name, indices)


def check_index_type(name: str, indices: Any, label: str = "indices") -> None:
    if indices.dtype not in (_C.int64, _C.int32):
        raise RuntimeError(f"{name}: expected '{label}' of dtype int64 (Long) or int32 (Int), got {indices.dtype.name}")


# --- embedding --------------------------------------------------------------------------------------------------------


class Embedding(Composite):
    """Rows of `weight`, one for every index."""

    schema = (
        "embedding(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False)"
        " -> Tensor"
    )
    replays = True
    method = False

    def compute(self, weight, indices, padding_idx, scale_grad_by_freq, sparse):
        check_table("embedding", weight, indices)
        try:
            rows = weight.index_select(0, indices.reshape(-1))
        except IndexError:
            wrong = indices[(indices < 0) | (indices >= weight.shape[0])][0].item()
            raise IndexError(
                f"embedding: index out of range in self: index {wrong}, and weight has {weight.shape[0]} rows"
            ) from None
        return rows.reshape(*indices.shape, weight.shape[1])

    def vjp(self, g, weight: Meta, indices, padding_idx, scale_grad_by_freq, sparse):
        backward = "_embedding_sparse_backward" if sparse else "embedding_dense_backward"
        return {"weight": find_op(backward)(g, indices, weight.shape[0], padding_idx, scale_grad_by_freq)}


def row_gradients(grad: Any, indices: Any, padding_idx: int, scale_grad_by_freq: bool, entries: int) -> tuple[Any, Any]:
    """Flat indices and the gradient each adds to its row."""
    flat = indices.reshape(-1)
    rows = grad.reshape(flat.shape[0], -1) if grad.numel() else grad.reshape(flat.shape[0], grad.shape[-1])
    if scale_grad_by_freq and flat.shape[0]:
        counts = find_op("bincount")(flat, minlength=entries).index_select(0, flat)
        rows = rows / counts.to(rows.dtype).unsqueeze(1)
    return flat, rows


class EmbeddingDenseBackward(Composite):
    """Gradient of embedding for its table; the padding row gets none."""

    schema = (
        "embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx, bool"
        " scale_grad_by_freq) -> Tensor"
    )
    function = method = False

    def compute(self, grad_output, indices, num_weights, padding_idx, scale_grad_by_freq):
        check_index_type("embedding_dense_backward", indices)
        flat, rows = row_gradients(grad_output, indices, padding_idx, scale_grad_by_freq, num_weights)
        if padding_idx >= 0:
            rows = rows.masked_fill((flat == padding_idx).unsqueeze(1), 0)
        total = grad_output.detach().new_zeros((num_weights, grad_output.shape[-1]))
        if rows.requires_grad and is_grad_enabled():
            return total.index_add(0, flat, rows)
        return total.index_add_(0, flat, rows)


class EmbeddingSparseBackward(Composite):
    """Gradient of embedding for its table as a sparse tensor of the rows looked up."""

    schema = (
        "_embedding_sparse_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx, bool"
        " scale_grad_by_freq) -> Tensor"
    )
    function = method = False

    def compute(self, grad_output, indices, num_weights, padding_idx, scale_grad_by_freq):
        if scale_grad_by_freq:
            raise RuntimeError(
                "embedding_backward: sparse gradients are not scaled by frequency: scale_grad_by_freq must be False"
            )
        flat, rows = row_gradients(grad_output, indices, padding_idx, False, num_weights)
        if padding_idx >= 0:
            kept = (flat != padding_idx).nonzero().reshape(-1)
            flat, rows = flat.index_select(0, kept), rows.index_select(0, kept)
        return find_op("sparse_coo_tensor")(
            flat.reshape(1, -1).to(_C.int64), rows, (num_weights, grad_output.shape[-1])
        )


class EmbeddingRenorm(Composite):
    """Rows of the table that are looked up, shortened in place to at most `max_norm`."""

    schema = "embedding_renorm(Tensor input, Tensor indices, float max_norm, float norm_type) -> Tensor"
    method = out = False
    inplace = only_inplace = True

    def compute(self, input, indices, max_norm, norm_type):
        check_table("embedding_renorm", input, indices)
        if input.device.type == "meta":      # and no fake, whose graph has to do it
            return input
        with no_grad():
            table, used = input.detach(), indices.reshape(-1)      # a row that is met again is given the same again
            rows = table.index_select(0, used)
            norms = rows.norm(norm_type, 1, keepdim=True)
            scale = find_op("where")(norms > max_norm, max_norm / (norms + 1e-7), norms.new_ones(()))
            table.index_copy_(0, used, rows * scale)
        return input


class FunctionalEmbedding(Composite):
    """embedding as nn.functional spells it: indices first, an optional bound on the length of rows."""

    schema = (
        "_functional_embedding(Tensor input, Tensor weight, int? padding_idx=None, float? max_norm=None, float"
        " norm_type=2.0, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor"
    )
    replays = True
    namespace = "nn.functional"
    aliases = ("nn.functional.embedding",)
    method = out = False

    def compute(self, input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse):
        check_table("embedding", weight, input)
        padding_idx = wrap_padding("embedding", padding_idx, weight.shape[0], AssertionError)
        if max_norm is not None:
            find_op("embedding_renorm_")(weight, input, max_norm, norm_type)
        return find_op("embedding")(weight, input, padding_idx, scale_grad_by_freq, sparse)


def wrap_padding(name: str, padding_idx: int | None, entries: int, error: type[Exception]) -> int:
    """The padding index as a row number; -1 where there is none."""
    if padding_idx is None:
        return -1
    if not -entries <= padding_idx < entries:
        raise error(
            f"{name}: padding_idx must be within num_embeddings: {-entries} to {entries - 1}, got {padding_idx}"
        )
    return padding_idx % entries


# --- bags -------------------------------------------------------------------------------------------------------------


class EmbeddingBag(Composite):
    """Rows of `weight` looked up and joined per bag: their sum (mode 0), mean (1) or maximum (2).

    Returns the bags, the bag of every index, the number of indices of every bag and, for the maximum, where it was.
    """

    schema = (
        (
            "embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0,"
            " bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False) -> (Tensor, Tensor,"
            " Tensor, Tensor)"
        ),
        (
            "embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, int"
            " mode, bool sparse, Tensor? per_sample_weights, bool include_last_offset, int? padding_idx) -> (Tensor,"
            " Tensor, Tensor, Tensor)"
        ),
    )
    method = out = False

    def compute(
        self,
        weight,
        indices,
        offsets,
        scale_grad_by_freq,
        mode,
        sparse,
        per_sample_weights,
        include_last_offset,
        padding_idx=None,
    ):
        check_table("embedding_bag", weight, indices)
        check_index_type("embedding_bag", offsets, "offsets")
        padding = wrap_padding("embedding_bag", padding_idx, weight.shape[0], RuntimeError)
        count = indices.numel()
        bags, bag_of = divide("embedding_bag", indices, offsets, include_last_offset)
        check_rows("embedding_bag", indices, weight.shape[0])
        if mode != MAX and not sparse and not scale_grad_by_freq and count and readable(indices):
            sizes, result = bag_sums(weight, indices, offsets[:bags], per_sample_weights, padding)
            if mode == MEAN:
                result = result / sizes.clamp(min=1).to(result.dtype).unsqueeze(1)
            return result, bag_of, sizes, sizes
        rows = find_op("embedding")(weight, indices, padding, scale_grad_by_freq, sparse)
        kept = None if padding < 0 else (indices != padding)
        ones = find_op("ones")((count,), dtype=_C.int64, device=indices.device) if kept is None else kept.to(_C.int64)
        sizes = find_op("zeros")((bags,), dtype=_C.int64, device=indices.device).index_add_(0, bag_of, ones)
        if mode == MAX:
            result, where = bag_maximum(rows, indices, bag_of, sizes, kept)
            return result, bag_of, sizes, where
        if per_sample_weights is not None:
            rows = rows * per_sample_weights.unsqueeze(1)
        if kept is not None:
            rows = rows.masked_fill(kept.logical_not().unsqueeze(1), 0)
        result = weight.detach().new_zeros((bags, weight.shape[1])).index_add(0, bag_of, rows)
        if mode == MEAN:
            result = result / sizes.clamp(min=1).to(result.dtype).unsqueeze(1)
        return result, bag_of, sizes, sizes


def bag_sums(weight: Any, indices: Any, starts: Any, scale: Any, padding: int) -> tuple[Any, Any]:
    """How many indices each bag has, and the sums of its rows: the product with a matrix whose rows are the bags, so
    that no row of the table is copied."""
    count = indices.numel()
    bounds = find_op("cat")([starts.to(_C.int64), starts.new_full((1,), count, dtype=_C.int64)])
    factors = weight.detach().new_ones((count,)) if scale is None else scale
    sizes = bounds[1:] - bounds[:-1]
    if padding >= 0:
        kept = indices != padding
        factors = factors * kept.to(factors.dtype)
        seen = find_op("cat")([bounds.new_zeros((1,)), kept.cumsum(0)])
        sizes = seen.index_select(0, bounds[1:]) - seen.index_select(0, bounds[:-1])
    return sizes, find_op("_csr_product")(bounds, indices.to(_C.int64), factors, weight)


def check_rows(name: str, indices: Any, entries: int) -> None:
    """RuntimeError, as PyTorch raises for bags, for an index outside the table."""
    if not readable(indices) or not indices.numel():
        return
    wrong = (indices < 0) | (indices >= entries)
    if bool(wrong.any()):
        at = int(wrong.to(_C.int64).argmax().item())
        raise RuntimeError(f"{name}: expected indices in [0, {entries}), got {indices[at].item()} at position {at}")


def divide(name: str, indices: Any, offsets: Any, include_last_offset: bool) -> tuple[int, Any]:
    """How many bags there are, and the bag of every index."""
    if offsets.ndim != 1:
        raise ValueError(f"{name}: offsets has to be a 1D Tensor, got shape {list(offsets.shape)}")
    count, bags = indices.numel(), offsets.numel() - include_last_offset
    if bags < 0:
        raise RuntimeError(f"{name}: include_last_offset=True needs at least 1 offset")
    if offsets.numel() and readable(offsets):
        if (first := offsets[0].item()) != 0:
            raise RuntimeError(f"{name}: the first bag starts at position 0: expected offsets[0] = 0, got {first}")
        if (last := offsets[-1].item()) > count:
            raise RuntimeError(f"{name}: expected offsets up to the input's length {count}, got offsets[-1] = {last}")
    starts = offsets[:bags].to(_C.int64)
    if bags and readable(offsets):   # so many bags have begun up to here
        begins = starts.new_zeros((count + 1,)).index_add_(0, starts[1:], starts.new_ones((bags - 1,)))
        return bags, begins[:count].cumsum(0)
    places = find_op("arange")(count, dtype=_C.int64, device=indices.device)
    return bags, (find_op("searchsorted")(starts, places, right=True) - 1).clamp(min=0)


def bag_maximum(rows: Any, indices: Any, bag_of: Any, sizes: Any, kept: Any) -> tuple[Any, Any]:
    """The largest number of each column of a bag (0 for an empty one) and the table row it came from."""
    bags, width, count = sizes.shape[0], rows.shape[1], rows.shape[0]
    if not count or not bags:
        return rows.new_zeros((bags, width)), indices.new_zeros((bags, width))
    place = bag_of.unsqueeze(1).expand(count, width)
    seen = rows.detach() if kept is None else rows.detach().masked_fill(kept.logical_not().unsqueeze(1), float("-inf"))
    top = seen.new_full((bags, width), float("-inf")).scatter_reduce(0, place, seen, "amax")
    number = find_op("arange")(count, dtype=_C.int64, device=rows.device).unsqueeze(1).expand(count, width)
    first = number.masked_fill(seen != top.gather(0, place), count)
    if kept is not None:
        first = first.masked_fill(kept.logical_not().unsqueeze(1), count)
    first = first.new_full((bags, width), count).scatter_reduce(0, place, first, "amin")
    empty = first >= count
    first = first.masked_fill(empty, 0)
    result = rows.gather(0, first).masked_fill(empty, 0)
    where = indices.unsqueeze(1).expand(count, width).gather(0, first).masked_fill(empty, 0)
    return result, where


class FunctionalEmbeddingBag(Composite):
    """embedding_bag as nn.functional spells it; a 2-D input is a batch of bags of one length."""

    schema = (
        "_functional_embedding_bag(Tensor input, Tensor weight, Tensor? offsets=None, float? max_norm=None, float"
        " norm_type=2.0, bool scale_grad_by_freq=False, str mode='mean', bool sparse=False, Tensor?"
        " per_sample_weights=None, bool include_last_offset=False, int? padding_idx=None) -> Tensor"
    )
    namespace = "nn.functional"
    aliases = ("nn.functional.embedding_bag",)
    method = out = False

    def compute(
        self,
        input,
        weight,
        offsets,
        max_norm,
        norm_type,
        scale_grad_by_freq,
        mode,
        sparse,
        per_sample_weights,
        include_last_offset,
        padding_idx,
    ):
        if weight.dtype is _C.int64 and input.is_floating_point():
            input, weight = weight, input     # PyTorch takes the two in its old order as well
        if per_sample_weights is not None and input.shape != per_sample_weights.shape:
            raise ValueError(
                f"embedding_bag: expected per_sample_weights of the shape of input, {list(input.shape)}, got"
                f" {list(per_sample_weights.shape)}"
            )
        input, offsets, per_sample_weights = as_bags(input, offsets, per_sample_weights)
        if mode not in MODES:
            raise ValueError(f"embedding_bag: expected mode 'sum', 'mean' or 'max', got {mode!r}")
        if mode == "max" and (scale_grad_by_freq or sparse):
            what = "scaling the gradient by the frequency" if scale_grad_by_freq else "sparse weights"
            raise ValueError(f"embedding_bag: max mode does not support {what}")
        if per_sample_weights is not None and mode != "sum":
            raise NotImplementedError(f"embedding_bag: per_sample_weights need mode='sum', got mode='{mode}'")
        if max_norm is not None:
            find_op("embedding_renorm_")(weight, input, max_norm, norm_type)
        result = find_op("embedding_bag")(
            weight,
            input,
            offsets,
            scale_grad_by_freq,
            MODES[mode],
            sparse,
            per_sample_weights,
            include_last_offset,
            padding_idx,
        )
        return result[0]


def as_bags(input: Any, offsets: Any, per_sample_weights: Any) -> tuple[Any, Any, Any]:
    """Flat indices with the start of every bag."""
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError(
                "embedding_bag: the rows of an input with 2 dimensions are its bags, so expected offsets=None"
            )
        starts = find_op("arange")(input.shape[0], dtype=input.dtype, device=input.device) * input.shape[1]
        return input.reshape(-1), starts, None if per_sample_weights is None else per_sample_weights.reshape(-1)
    if input.ndim != 1:
        raise ValueError(f"embedding_bag: expected an input with 1 or 2 dimensions, got {input.ndim}")
    if offsets is None:
        raise ValueError("embedding_bag: an input with 1 dimension needs offsets, got None")
    if offsets.ndim != 1:
        raise ValueError(f"embedding_bag: expected offsets with 1 dimension, got shape {list(offsets.shape)}")
    return input, offsets, per_sample_weights


# --- classes ----------------------------------------------------------------------------------------------------------


def is_checked_later(indices: Any) -> bool:
    """Whether a kernel that meets an index out of range tells so itself, and waiting for elements here would cost more
    than the kernel."""
    return indices.device.type == "cuda"


class OneHot(Composite):
    """A last dim of `num_classes` that is 1 at the class and 0 elsewhere; -1 takes the largest class found."""

    schema = "one_hot(Tensor input, int num_classes=-1) -> Tensor"
    namespace = "nn.functional"
    method = out = False
    differentiable = False

    def compute(self, input, num_classes):
        if input.dtype is not _C.int64:
            raise RuntimeError(f"one_hot: expected an index tensor of dtype int64, got {input.dtype.name}")
        if not readable(input):
            if num_classes < 0:
                raise NotImplementedError(
                    "one_hot: the number of classes cannot be read from a meta tensor or inside vmap; give num_classes"
                )
        elif not input.numel():
            if num_classes <= 0:
                raise RuntimeError("one_hot: an empty tensor does not tell the number of classes. Pass num_classes.")
        elif num_classes < 0 or not is_checked_later(input):
            if int(input.min().item()) < 0:
                raise RuntimeError(f"one_hot: expected class values of at least 0, got {input.min().item()}")
            top = int(input.max().item())
            if num_classes == -1:
                num_classes = top + 1
            elif top >= num_classes:
                raise RuntimeError(f"one_hot: expected class values below num_classes={num_classes}, got {top}")
        classes = input.new_zeros((*input.shape, num_classes))
        if readable(input):   # its own memory, and no examples that it has not
            return classes.scatter_(-1, input.unsqueeze(-1), 1)
        return classes.scatter(-1, input.unsqueeze(-1), 1)
