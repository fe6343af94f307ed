"""`torch.distributed.pipelining.microbatch`: a batch's arguments in parts, and the parts' results as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import _C
from ..._C import Tensor
from ...op import find_op
from ...utils._pytree import tree_flatten, tree_map, tree_unflatten

__all__ = ["TensorChunkSpec", "merge_chunks", "split_args_kwargs_into_chunks"]

_tensor_split, _cat = find_op("tensor_split"), find_op("cat")


class TensorChunkSpec:
    """Split, or joined, along a dimension."""

    def __init__(self, split_dim: int) -> None:
        self.split_dim = split_dim

    def __repr__(self) -> str:
        return f"TensorChunkSpec({self.split_dim})"

    @staticmethod
    def from_tuple(chunk_dims: tuple[int, ...]) -> Any:
        """One for each number."""
        return tree_map(TensorChunkSpec, chunk_dims)

    @staticmethod
    def from_dict(chunk_dims: dict[str, int]) -> Any:
        """One for each number."""
        return tree_map(TensorChunkSpec, chunk_dims)


class _Replicate:
    """The same for every part."""


class _CustomReducer:
    """Joined by a function: `reduce_fn(so far, a part's)`, from `init_value` on."""

    def __init__(self, init_value: Any, reduce_fn: Callable[[Any, Any], Any]) -> None:
        self.init_value, self.reduce_fn = init_value, reduce_fn


class _LossReducer(_CustomReducer):
    """Losses, joined."""


sum_reducer = _LossReducer(0.0, lambda a, b: a + b)


def split_tensor(tensor: Tensor, dim: int, count: int) -> Sequence[Tensor]:
    """Parts as equal as can be, the first ones longer. Those of a leaf keep their gradients."""
    parts = _tensor_split(tensor, count, dim)
    if tensor.requires_grad and tensor.is_leaf and _C.is_grad_enabled():
        for part in parts:
            part.retain_grad()
    return parts


def _is_replicated(spec: Any) -> bool:
    return spec is _Replicate or isinstance(spec, _Replicate)


def _flat_with_specs(values: Any, specs: Any, what: str) -> tuple[list[Any], list[Any], Any]:
    flat, tree = tree_flatten(values)
    if specs is None:
        return flat, [TensorChunkSpec(0) if isinstance(v, Tensor) else _Replicate() for v in flat], tree
    flat_specs, _ = tree_flatten(specs)
    if len(flat) != len(flat_specs):
        raise ValueError(f"{what}: {len(flat)} values and {len(flat_specs)} specs, which must be as many")
    for value, spec in zip(flat, flat_specs, strict=True):
        if not _is_replicated(spec) and not (isinstance(spec, TensorChunkSpec) and isinstance(value, Tensor)):
            raise ValueError(f"{what}: a {type(value).__name__} cannot be split as {spec!r} says; only tensors can, by "
                             "TensorChunkSpec")
    return flat, flat_specs, tree


def split_args_kwargs_into_chunks(
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    chunks: int,
    args_chunk_spec: tuple[Any, ...] | None = None,
    kwargs_chunk_spec: dict[str, Any] | None = None,
) -> tuple[list[tuple], list[dict]]:
    """Arguments for each part of a batch. Tensors are split along the first dimension, or as the specs say; everything
    else goes to every part. There are fewer parts if a tensor is shorter than `chunks`."""
    groups = [
        _flat_with_specs(args, args_chunk_spec, "args_chunk_spec"),
        _flat_with_specs(kwargs or {}, kwargs_chunk_spec, "kwargs_chunk_spec"),
    ]
    for flat, specs, _ in groups:
        for value, spec in zip(flat, specs, strict=True):
            if isinstance(spec, TensorChunkSpec):
                chunks = min(chunks, value.size(spec.split_dim))
    results = []
    for flat, specs, tree in groups:
        columns = [
            [value] * chunks if _is_replicated(spec) else split_tensor(value, spec.split_dim, chunks)
            for value, spec in zip(flat, specs, strict=True)
        ]
        results.append([tree_unflatten([column[i] for column in columns], tree) for i in range(chunks)])
    return results[0], results[1]


def merge_chunks(chunks: list[Any], chunk_spec: Any) -> Any:
    """The parts' results as one: joined along the first dimension, or as the spec says (`TensorChunkSpec`,
    `_CustomReducer`; anything else must be the same in all parts)."""
    flat_chunks = [tree_flatten(chunk)[0] for chunk in chunks]
    first, tree = tree_flatten(chunks[0])
    if chunk_spec is None:
        specs: list[Any] = [TensorChunkSpec(0) if isinstance(v, Tensor) else None for v in first]
    else:
        specs, tree = tree_flatten(chunk_spec)
    for flat in flat_chunks:
        if len(flat) != len(specs):
            raise ValueError(f"merge_chunks: a part has {len(flat)} values, the spec {len(specs)}")
    return tree_unflatten([_merged([flat[i] for flat in flat_chunks], spec) for i, spec in enumerate(specs)], tree)


def _merged(values: list[Any], spec: Any) -> Any:
    if isinstance(spec, TensorChunkSpec):
        return _cat(values, spec.split_dim)
    if isinstance(spec, _CustomReducer):
        result = spec.init_value
        for value in values:
            result = spec.reduce_fn(result, value)
        return result
    if any(value != values[0] for value in values[1:]):
        raise AssertionError(f"merge_chunks: the parts should agree on a value that is not joined, got {values}")
    return values[0]
