"""Flattening by a known spec: what generated code with container arguments calls.

Enters: a tree and the spec it had when it was traced. Leaves: its leaves. A dict is read by the spec's keys, so one
with further entries is fine. Refuses: trees of another shape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..utils._pytree import TreeSpec, tree_flatten

FlattenFuncSpec = Callable[[Any, TreeSpec], list[Any]]
SUPPORTED_NODES: dict[Any, FlattenFuncSpec] = {}
SUPPORTED_NODES_EXACT_MATCH: dict[Any, Callable[[Any, TreeSpec], bool] | None] = {}


def register_pytree_flatten_spec(
    cls: Any,
    flatten_fn_spec: FlattenFuncSpec,
    flatten_fn_exact_match_spec: Callable[[Any, TreeSpec], bool] | None = None,
) -> None:
    """Say how a container is opened when its spec is known."""
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec


def tree_flatten_spec(pytree: Any, spec: TreeSpec) -> list[Any]:
    """The leaves of `pytree`, which must have the shape of `spec`."""
    if spec.is_leaf():
        return [pytree]
    opened = SUPPORTED_NODES.get(spec.type)
    if opened is not None:
        return [
            leaf
            for child, inner in zip(opened(pytree, spec), spec.children_specs, strict=True)
            for leaf in tree_flatten_spec(child, inner)
        ]
    leaves, real = tree_flatten(pytree)
    if real != spec:
        raise RuntimeError(f"tree_flatten_spec: expected a tree of shape {spec}, got {real}")
    return leaves


tree_flatten_spec._looks_into = (1,)      # capture calls it with the spec as it is


def _by_key(d: dict, spec: TreeSpec) -> list[Any]:
    return [d[k] for k in spec.context]


def _by_position(items: Any, spec: TreeSpec) -> list[Any]:
    return [items[i] for i in range(len(spec.children_specs))]


def _same_length(items: Any, spec: TreeSpec) -> bool:
    return len(items) == len(spec.children_specs)


register_pytree_flatten_spec(dict, _by_key, _same_length)
register_pytree_flatten_spec(list, _by_position, _same_length)
register_pytree_flatten_spec(tuple, _by_position, _same_length)
