"""Decompositions of reductions, and of ops that are written by index.

Enters: arguments in the order of ATen's signatures. Leaves: `RULES`, from names of ops (or `op.overload`) to functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ... import _C
from ...base.promotion import result_type
from ...op import find_op


def _scalar(value: Any, like: Any) -> Any:
    return find_op("scalar_tensor")(value, dtype=like.dtype, device=like.device)


def sum_all(input: Any, *, dtype: Any = None) -> Any:
    return find_op("sum")(input, [], **({} if dtype is None else {"dtype": dtype}))


def nansum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if not input.dtype.is_floating_point:
        return find_op("sum")(input, dim or [], keepdim, dtype=dtype)
    kept = find_op("where")(input.isnan(), _scalar(0, input), input)
    return find_op("sum")(kept, dim if dim is not None else [], keepdim, dtype=dtype)


def all_of(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Not any that is not."""
    bools = input.logical_not()
    found = bools.any() if dim is None else bools.any(dim, keepdim)
    result = found.logical_not()
    return result.to(_C.uint8) if input.dtype is _C.uint8 else result


def count_nonzero(input: Any, dim: Any = None) -> Any:
    return find_op("sum")(input != 0, [] if dim is None else dim)


def aminmax(input: Any, *, dim: Any = None, keepdim: bool = False) -> Any:
    dims = [] if dim is None else [dim]
    return find_op("amin")(input, dims, keepdim), find_op("amax")(input, dims, keepdim)


def logsumexp(input: Any, dim: Any, keepdim: bool = False) -> Any:
    if not input.dtype.is_floating_point:
        input = input.to(_C.get_default_dtype())
    dims = list(dim) if isinstance(dim, (list, tuple)) else [dim]
    most = find_op("amax")(input, dims, True)
    most = find_op("where")(most.abs() == math.inf, _scalar(0, most), most)
    total = find_op("sum")((input - most).exp(), dims, keepdim).log()
    return total + (most if keepdim else find_op("squeeze")(most, dims or list(range(input.ndim))))


def _variance(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """dim, correction and keepdim of the three signatures."""
    given = list(args)
    dim = given.pop(0) if given and not isinstance(given[0], bool) else kwargs.pop("dim", None)
    unbiased = given.pop(0) if given else kwargs.pop("unbiased", True)
    keepdim = given.pop(0) if given else kwargs.pop("keepdim", False)
    correction = kwargs.pop("correction", None)
    correction = (1 if unbiased else 0) if correction is None else correction
    return {"dim": dim if dim is None or isinstance(dim, (list, tuple)) else [dim], "correction": correction,
            "keepdim": keepdim}


def var(input: Any, *args: Any, **kwargs: Any) -> Any:
    return find_op("var")(input, **_variance(*args, **kwargs))


def std(input: Any, *args: Any, **kwargs: Any) -> Any:
    return var(input, *args, **kwargs).sqrt()


def var_mean(input: Any, *args: Any, **kwargs: Any) -> Any:
    how = _variance(*args, **kwargs)
    return find_op("var")(input, **how), find_op("mean")(input, how["dim"] or list(range(input.ndim)), how["keepdim"])


def std_mean(input: Any, *args: Any, **kwargs: Any) -> Any:
    variance, mean = var_mean(input, *args, **kwargs)
    return variance.sqrt(), mean


def norm(input: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    order = 2.0 if p is None else p
    dims = dim if dim is None or isinstance(dim, (list, tuple)) else [dim]
    return find_op("linalg_vector_norm")(input, order, dims or None, keepdim, dtype=dtype)


# --- by index ---------------------------------------------------------------------------------------------------------


def _at(dim: int, index: Any) -> list[Any]:
    return [*[None] * dim, index]


def _by_index(accumulate: bool) -> Callable:
    def rule(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
        if not input.ndim or not index.ndim:
            return NotImplemented
        source = source if alpha == 1 else source * alpha
        return find_op("index_put")(input, _at(dim % input.ndim, index), source, accumulate)

    return rule


def index_fill(input: Any, dim: int, index: Any, value: Any) -> Any:
    if not input.ndim or not index.ndim:
        return NotImplemented
    value = value.to(input.dtype) if isinstance(value, _C.Tensor) else _scalar(value, input)
    return find_op("index_put")(input, _at(dim % input.ndim, index), value)


def take(input: Any, index: Any) -> Any:
    return find_op("index")(input.reshape([-1]), [index])


def take_along_dim(input: Any, indices: Any, dim: Any = None) -> Any:
    return find_op("gather")(input.reshape([-1]), 0, indices.reshape([-1])) if dim is None else NotImplemented


def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    value = value.to(input.dtype) if isinstance(value, _C.Tensor) else _scalar(value, input)
    return find_op("where")(mask, value, input)


def one_hot(input: Any, num_classes: Any = -1) -> Any:
    if isinstance(num_classes, int) and num_classes < 0:
        return NotImplemented
    classes = find_op("arange")(num_classes, device=input.device)
    return find_op("eq")(input.unsqueeze(-1), classes).to(_C.int64)


def where_numbers(condition: Any, a: Any, b: Any) -> Any:
    """`where` of numbers: of tensors without dims, of the other's type if there is one."""
    tensors = [x for x in (a, b) if isinstance(x, _C.Tensor)]
    kind = result_type(a, b) if tensors else (
        _C.get_default_dtype() if any(isinstance(x, float) for x in (a, b)) else
        _C.bool if all(isinstance(x, bool) for x in (a, b)) else _C.int64)
    pair = [x if isinstance(x, _C.Tensor) else find_op("scalar_tensor")(x, dtype=kind, device=condition.device)
            for x in (a, b)]
    return find_op("where")(condition, *pair)


def maximum_of(name: str) -> Callable:
    return lambda a, b: find_op(name)(a, b)


def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Any:
    flat = test_elements.reshape([-1]) if isinstance(test_elements, _C.Tensor) else test_elements
    found = elements.unsqueeze(-1) == flat if isinstance(flat, _C.Tensor) else elements == flat
    found = found.any(-1) if isinstance(flat, _C.Tensor) else found
    return found.logical_not() if invert else found


RULES: dict[str, Callable] = {
    "sum": sum_all, "nansum": nansum, "all": all_of, "all.dim": all_of, "all.dims": all_of,
    "count_nonzero": count_nonzero, "count_nonzero.dim_IntList": count_nonzero, "aminmax": aminmax,
    "logsumexp": logsumexp, "special_logsumexp": logsumexp,
    "var": var, "std": std, "std.dim": std, "std.correction": std,
    "var_mean": var_mean, "var_mean.dim": var_mean, "var_mean.correction": var_mean,
    "std_mean": std_mean, "std_mean.dim": std_mean, "std_mean.correction": std_mean,
    "norm.Scalar": norm, "norm.ScalarOpt_dim": norm, "norm.ScalarOpt_dtype": norm, "norm.ScalarOpt_dim_dtype": norm,
    "index_add": _by_index(True), "index_copy": _by_index(False),
    "index_fill.int_Scalar": index_fill, "index_fill.int_Tensor": index_fill, "take": take,
    "take_along_dim": take_along_dim, "masked_fill.Scalar": masked_fill, "masked_fill.Tensor": masked_fill,
    "one_hot": one_hot, "where.Scalar": where_numbers, "where.ScalarSelf": where_numbers,
    "where.ScalarOther": where_numbers, "max.other": maximum_of("maximum"), "min.other": maximum_of("minimum"),
    "isin.Tensor_Tensor": isin, "isin.Tensor_Scalar": isin,
}
