"""Reductions and normalizations of nested tensors: within components, or over the ragged dim."""

from __future__ import annotations

from typing import Any

from ...op import find_op, ops, result_type, wrap_dim
from .container import NestedTensor, is_nested, length_tensor, like, named_rules, regular_dim, rows, rule, values_of

_BY_SCATTER = {"sum": "sum", "prod": "prod", "amax": "amax", "amin": "amin", "max": "amax", "min": "amin"}


def dims_of(name: str, t: NestedTensor, dim: Any) -> list[int]:
    """The dims to reduce, checked for what nested tensors can answer."""
    dims = sorted({wrap_dim(name, d, t.ndim) for d in ((dim,) if isinstance(dim, int) else dim)})
    if 0 in dims and t._ragged not in dims:
        raise RuntimeError(
            f"{name}: a nested tensor reduced along its batch dimension must be reduced along the ragged one too"
        )
    if t._ragged in dims and 0 not in dims and len(dims) > 1:
        raise RuntimeError(
            f"{name}: a nested tensor reduced along its ragged dimension and others must be reduced along the batch too"
        )
    return dims


def over_components(name: str, t: NestedTensor, keepdim: bool) -> Any:
    """One dense result per component: the ragged dim reduced."""
    values, component, _ = rows(t)
    shape = (len(t), *values.shape[1:])
    if name in ("any", "all"):
        counts = values.new_zeros(shape, dtype=component.dtype).index_add(
            0, component, (values != 0).to(component.dtype)
        )
        full = length_tensor(t).reshape(-1, *[1] * (len(shape) - 1))
        result = counts > 0 if name == "any" else counts == full
    elif name in ("sum", "mean"):
        result = values.new_zeros(shape).index_add(0, component, values)
        if name == "mean":
            result = result / length_tensor(t).reshape(-1, *[1] * (len(shape) - 1))
    else:
        at = component.reshape(-1, *[1] * (values.ndim - 1)).expand(values.shape)
        result = values.new_ones(shape).scatter_reduce(0, at, values, _BY_SCATTER[name], include_self=False)
    return result.unsqueeze(t._ragged) if keepdim else result


def reduce(name: str, bound: dict[str, Any]) -> Any:
    """sum, mean and their kin over whatever dims were named."""
    t = bound["input"]
    if not is_nested(t) or "other" in bound:
        return NotImplemented
    dim, keepdim, dtype = bound.get("dim"), bound.get("keepdim", False), bound.get("dtype")
    options = {} if dtype is None else {"dtype": dtype}
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        return ops[name](rows(t)[0], **options)
    dims = dims_of(name, t, dim)
    if 0 in dims:
        return batch_too(name, t, dims, keepdim, options)
    if dims == [t._ragged]:
        return over_components(name, t if dtype is None else t.to(dtype), keepdim)
    inner = [d - 1 for d in dims]
    result = ops[name](values_of(t), inner[0] if isinstance(dim, int) or name == "prod" else inner, keepdim, **options)
    ragged = t._ragged - (0 if keepdim else sum(d < t._ragged for d in dims))
    return type(result)([like(t, m, ragged) for m in result]) if isinstance(result, tuple) else like(t, result, ragged)


def batch_too(name: str, t: NestedTensor, dims: list[int], keepdim: bool, options: dict) -> Any:
    """The batch and the ragged dim go together."""
    values = rows(t)[0].movedim(0, t._ragged - 1)
    inner = [d - 1 for d in dims if d]
    if name == "prod":
        for d in reversed(inner):
            values = values.prod(d, keepdim)
        result = values
    else:
        result = ops[name](values, inner, keepdim, **options)
    return result.unsqueeze(0) if keepdim else result


def extreme(name: str, bound: dict[str, Any]) -> Any:
    """max and min: of everything, or along a dim with positions."""
    t, dim, keepdim = bound["input"], bound.get("dim"), bound.get("keepdim", False)
    if not is_nested(t) or "other" in bound:
        return NotImplemented
    if dim is None:
        return ops[name](rows(t)[0])
    if wrap_dim(name, dim, t.ndim) == t._ragged:
        low = float("-inf") if name == "max" else float("inf")
        if not t.dtype.is_floating_point:
            raise NotImplementedError(
                f"{name}: along the ragged dim of a nested tensor, floating point numbers are needed"
            )
        return ops[name](t.to_padded_tensor(low), t._ragged, keepdim)
    at = regular_dim(name, t, dim)
    values, where = ops[name](values_of(t), at, keepdim)
    ragged = t._ragged - (0 if keepdim or at > t._ragged - 1 else 1)
    return result_type(name, ("values", "indices"))((like(t, values, ragged), like(t, where, ragged)))


for _name in ("sum", "mean", "prod", "amax", "amin", "any", "all"):
    named_rules[_name] = reduce
named_rules["max"] = named_rules["min"] = extreme


def softmax_over(name: str, bound: dict[str, Any]) -> Any:
    """Softmax along a dim of the components, or along the ragged one."""
    t, dim, dtype = bound["input"], bound["dim"], bound.get("dtype")
    if dim is None:
        raise RuntimeError(f"{name}: nested tensors need a dim")
    t = t if dtype is None else t.to(dtype)
    at = wrap_dim(name, dim, t.ndim)
    if at == 0:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on dim=0")
    if at != t._ragged:
        return like(t, ops[name](values_of(t), at - 1))
    if t._sizes is not None:
        raise NotImplementedError(
            f"{name}: along the ragged dim, nested tensors with room between components are not supported"
        )
    values, component, _ = rows(t)
    shape = (len(t), *values.shape[1:])
    index = component.reshape(-1, *[1] * (values.ndim - 1)).expand(values.shape)
    top = values.detach().new_full(shape, float("-inf")).scatter_reduce(0, index, values.detach(), "amax")
    shifted = values - top.index_select(0, component)
    power = shifted.exp()
    whole = values.new_zeros(shape).index_add(0, component, power).index_select(0, component)
    result = shifted - whole.log() if name.endswith("log_softmax") else power / whole
    return like(t, result.movedim(0, t._ragged - 1))


for _name in ("softmax", "log_softmax", "_functional_softmax", "_functional_log_softmax"):
    named_rules[_name] = softmax_over


def _behind_ragged(name: str, t: NestedTensor, normalized_shape: Any) -> None:
    if len(normalized_shape) >= t.ndim - t._ragged:
        if len(normalized_shape) > t.ndim - 1 - t._ragged:
            raise RuntimeError(f"{name}(): normalizing over the ragged dim is not supported for nested tensors")


@rule("layer_norm")
def layer_norm(
    t: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, cudnn_enable: bool = True
) -> NestedTensor:
    _behind_ragged("layer_norm", t, normalized_shape)
    return like(t, find_op("layer_norm")(values_of(t), normalized_shape, weight, bias, eps))


@rule("rms_norm")
def rms_norm(t: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> NestedTensor:
    _behind_ragged("rms_norm", t, normalized_shape)
    return like(t, find_op("rms_norm")(values_of(t), normalized_shape, weight, eps))
