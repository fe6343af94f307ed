"""`torch.nn.parallel.scatter_gather`: the parts of nested inputs on several devices, and nested outputs as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._C import Tensor
from . import comm

__all__ = ["gather", "scatter", "scatter_kwargs"]


def is_namedtuple(obj: Any) -> bool:
    """Whether a value is a tuple with named fields."""
    return isinstance(obj, tuple) and hasattr(obj, "_asdict") and hasattr(obj, "_fields")


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """Tensors in parts along `dim`, one value for each device; what is no tensor is given to every one."""
    if isinstance(inputs, Tensor):
        return comm.scatter(inputs, target_gpus, None, dim)
    if is_namedtuple(inputs):
        return [type(inputs)(*parts) for parts in zip(*(scatter(v, target_gpus, dim) for v in inputs))]
    if isinstance(inputs, (tuple, list)) and inputs:
        return [type(inputs)(parts) for parts in zip(*(scatter(v, target_gpus, dim) for v in inputs))]
    if isinstance(inputs, dict) and inputs:
        values = zip(*(scatter(v, target_gpus, dim) for v in inputs.values()))
        return [type(inputs)(zip(inputs, parts)) for parts in values]
    return [inputs for _ in target_gpus]


def scatter_kwargs(
    inputs: tuple, kwargs: dict[str, Any] | None, target_gpus: Sequence[Any], dim: int = 0
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """Positional and named arguments for each device; as many of both."""
    given = list(scatter(inputs, target_gpus, dim)) if inputs else []
    named = list(scatter(kwargs, target_gpus, dim)) if kwargs else []
    given += [()] * (len(named) - len(given))
    named += [{} for _ in range(len(given) - len(named))]
    return tuple(given), tuple(named)


def gather(outputs: Sequence[Any], target_device: Any, dim: int = 0) -> Any:
    """Values of several devices as one: tensors behind each other along `dim`, numbers of no dimension as a vector."""
    first = outputs[0]
    if isinstance(first, Tensor):
        if all(t.dim() == 0 for t in outputs) and dim == 0:
            outputs = [t.view(1) for t in outputs]
        return comm.gather(outputs, dim, target_device)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(len(o) != len(first) for o in outputs):
            raise ValueError("gather: dicts of all devices must have the same keys")
        return type(first)((k, gather([o[k] for o in outputs], target_device, dim)) for k in first)
    if is_namedtuple(first):
        return type(first)(*(gather(values, target_device, dim) for values in zip(*outputs)))
    if isinstance(first, (tuple, list)):
        return type(first)(gather(values, target_device, dim) for values in zip(*outputs))
    raise TypeError(f"gather: expected tensors in tuples, lists or dicts, got {type(first).__name__}")
