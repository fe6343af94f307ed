"""Top-level functions and tensor methods that few programs call; imported when first asked for.

Enters: what PyTorch's functions of these names take. Leaves: the same results, from the ops everything else uses.
Refuses with PyTorch's exception classes what its CPU build refuses too.
"""

from __future__ import annotations

import threading
from typing import Any

from .. import _C
from .._C import Tensor
from ..aten.tags import Tag as Tag
from ..autograd.anomaly_mode import set_detect_anomaly
from ..dispatch.overrides import overridable
from ..op import find_op
from ..tensors.storages import STORAGE_NAMES, legacy_class

# --- products with sparse matrices ------------------------------------------------------------------------------------


@overridable
def spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """`mm` of a sparse and a dense matrix, dense."""
    return find_op("mm")(input, mat2)


def dsmm(input: Tensor, mat2: Tensor) -> Tensor:
    """`mm` of a sparse and a dense matrix, dense."""
    return find_op("mm")(input, mat2)


def saddmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1, out: Tensor | None = None
) -> Tensor:
    """As `sspaddmm`."""
    return sspaddmm(input, mat1, mat2, beta=beta, alpha=alpha, out=out)


@overridable
def smm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of a sparse and a dense matrix, as a sparse matrix.

    Arguments:
        input: a sparse matrix
        mat2: a dense matrix

    Example:
        >>> rl.smm(rl.eye(2).to_sparse(), rl.ones(2, 2)).to_dense()
        tensor([[1., 1.],
                [1., 1.]])
    """
    _check_sparse("smm", input)
    return find_op("mm")(input, mat2).to_sparse()


@overridable
def hspmm(mat1: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of a sparse and a dense matrix, sparse over rows: only rows that `mat1` has are kept."""
    _check_sparse("hspmm", mat1)
    kept = mat1.coalesce().indices()[0].unique()
    product = find_op("mm")(mat1, mat2)
    result = find_op("sparse_coo_tensor")(kept.unsqueeze(0), product.index_select(0, kept), product.shape).coalesce()
    return result if out is None else out.copy_(result)


def hsmm(input: Tensor, mat2: Tensor) -> Tensor:
    """As `hspmm`."""
    return hspmm(input, mat2)


@overridable
def sspaddmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1, out: Tensor | None = None
) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2), all but `mat2` sparse."""
    _check_sparse("sspaddmm", input)
    _check_sparse("sspaddmm", mat1)
    result = input * beta + (find_op("mm")(mat1, mat2) * alpha).to_sparse()
    return result if out is None else out.copy_(result)


def _check_sparse(name: str, given: Tensor) -> None:
    if not given.is_sparse:
        raise RuntimeError(
            f"{name}: expected a sparse COO matrix, got one of layout {given.layout}. Convert it with to_sparse()."
        )


def resize_as_sparse_(input: Tensor, the_template: Tensor) -> Tensor:
    """Give a sparse tensor the sizes of another, in place."""
    return input.sparse_resize_(the_template.shape, the_template.sparse_dim(), the_template.dense_dim())


def _copies(name: str) -> Any:
    view = name.removesuffix("_copy")

    def copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
        result = getattr(input, view)().clone()
        return result if out is None else out.resize_(result.shape).copy_(result)

    copy.__name__ = copy.__qualname__ = name
    copy.__doc__ = f"A copy of what `{view}` shows of a sparse tensor."
    return overridable(copy)


_COPIES = (
    "ccol_indices_copy",
    "col_indices_copy",
    "crow_indices_copy",
    "indices_copy",
    "row_indices_copy",
    "values_copy",
)
globals().update({name: _copies(name) for name in _COPIES})


addmv_ = Tensor.addmv_


# --- others -----------------------------------------------------------------------------------------------------------


def from_file(filename: str, shared: bool | None = None, size: int | None = 0, *, dtype: Any = None, layout: Any = None,
              device: Any = None, pin_memory: bool = False, requires_grad: bool = False) -> Tensor:
    """A vector over the bytes of a file; `shared`: writes go to the file, which is made or grown to `size` elements."""
    if pin_memory:
        raise NotImplementedError("from_file: memory of a file cannot be pinned")
    dtype = dtype or _C.get_default_dtype()
    storage = _C.UntypedStorage.from_file(filename, bool(shared), (size or 0) * dtype.itemsize)
    result = _C.empty((0,), None, dtype, "cpu")
    result._set_storage(storage, 0, (size or 0,), (1,))
    return (result if device is None else result.to(device)).requires_grad_(requires_grad)


def batch_norm_update_stats(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, momentum: float
) -> tuple[Tensor, Tensor]:
    """Mean and (biased) variance per channel; the running ones move towards them, the variance unbiased."""
    dims = [d for d in range(input.ndim) if d != 1]
    mean, var = input.mean(dims), input.var(dims, correction=0)
    count = input.numel() // input.shape[1]
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_(mean.detach() * momentum)
    if running_var is not None:
        running_var.mul_(1 - momentum).add_(var.detach() * (momentum * count / (count - 1)))
    return mean, var


def cudnn_is_acceptable(tensor: Tensor) -> bool:
    """Whether cuDNN could compute with a tensor: not without a CUDA device."""
    return False


def is_vulkan_available() -> bool:
    """Whether there is a Vulkan device."""
    return False


def init_num_threads() -> None:
    """Threads are counted at the start; nothing is left to do."""


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Turn anomaly mode on or off."""
    set_detect_anomaly(mode, check_nan)


def sym_constrain_range(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    """Require `min <= size <= max`."""
    low, high = -(2**63) if min is None else min, 2**63 - 1 if max is None else max
    if low > high:
        raise RuntimeError(f"sym_constrain_range: expected max to be greater than min, got {low} and {high}")
    if not low <= size <= high:
        raise RuntimeError(
            f"sym_constrain_range: expected a value between {low} and {high}, got {size}. Invalid value range for"
            f" {size} between [{low}, {high}]."
        )


def sym_constrain_range_for_size(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    """Require `min <= size <= max` of something used as a size."""
    if max is not None and max <= 2:
        raise RuntimeError(f"sym_constrain_range_for_size: expected max to be greater than 2, got {max}")
    sym_constrain_range(size, min=0 if min is None else min, max=max)


def sym_fresh_size(expr: Any) -> Any:
    """Refused: it makes a new symbol while a graph is recorded."""
    raise NotImplementedError("sym_fresh_size: only symbolic tracing makes new sizes")


_worker = threading.local()


def thread_safe_generator() -> Any:
    """The random generator of the data loader's worker thread that asks; None elsewhere."""
    return getattr(_worker, "generator", None)


# --- methods ----------------------------------------------------------------------------------------------------------


def conj_physical_(input: Tensor) -> Tensor:
    """The conjugate, in place; a real tensor stays as it is."""
    return input._conj_physical_() if input.is_complex() else input


def storage_type(self: Tensor) -> type:
    """The class of the tensor's typed storage."""
    return legacy_class(STORAGE_NAMES[self.dtype])


def const_data_ptr(self: Tensor) -> int:
    """The address of the first element, to be read only."""
    return self.data_ptr()


def resize(self: Tensor, *sizes: Any) -> Tensor:
    """The elements under new sizes; as many as before."""
    size = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    return self.reshape(size)


def resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """The elements under the sizes of `tensor`."""
    return self.reshape(tensor.shape)


def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """What `load_state_dict` puts in place of a parameter when it swaps tensors: `other`,
    or this one with its values."""
    return other.detach() if assign else self.copy_(other).detach()


def index(self: Tensor, positions: Any, dims: Any) -> Tensor:
    """Refused: indexing with dims as objects."""
    raise NotImplementedError("Tensor.index: dims as objects are not written yet. Index with x[...] or index_select.")


def _moves(kind: str, error: type[Exception]) -> Any:
    def move(self: Tensor, device: Any = None, non_blocking: bool = False, *, memory_format: Any = None) -> Tensor:
        raise error(
            f"Tensor.{kind}: there is no {kind.upper()} device here (Torch not compiled with {kind.upper()} enabled)"
        )

    move.__name__, move.__qualname__, move.__doc__ = (
        kind,
        f"Tensor.{kind}",
        f"Refused: there is no {kind.upper()} device.",
    )
    return move


xpu, mtia, ipu = _moves("xpu", AssertionError), _moves("mtia", AssertionError), _moves("ipu", RuntimeError)


def to_mkldnn(self: Tensor, dtype: Any = None) -> Tensor:
    """Refused: oneDNN's own layout does not exist here."""
    raise NotImplementedError(
        "Tensor.to_mkldnn: tensors in oneDNN's own layout do not exist here; plain tensors compute as fast"
    )


METHODS: dict[str, Any] = {
    "storage_type": storage_type, "const_data_ptr": const_data_ptr, "resize": resize, "resize_as": resize_as,
    "module_load": module_load, "index": index, "xpu": xpu, "mtia": mtia, "ipu": ipu, "to_mkldnn": to_mkldnn,
    "smm": smm, "sspaddmm": sspaddmm, "resize_as_sparse_": resize_as_sparse_,
    "conj_physical_": conj_physical_,
}
NAMES = (
    "spmm dsmm saddmm smm hspmm hsmm sspaddmm resize_as_sparse_ from_file batch_norm_update_stats cudnn_is_acceptable"
    " is_vulkan_available init_num_threads set_anomaly_enabled sym_constrain_range sym_constrain_range_for_size"
    " sym_fresh_size thread_safe_generator Tag addmv_ conj_physical_"
).split() + list(_COPIES)
