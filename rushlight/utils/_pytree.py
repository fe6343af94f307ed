"""Trees of containers: tuples, named tuples, lists, dicts and registered classes, with anything else as leaves.

Enters: nested containers. Leaves: flat lists with a `TreeSpec` that puts them back, or the same tree with every leaf
mapped. Refuses: specs and trees that do not fit each other.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

Flatten = Callable[[Any], tuple[list[Any], Any]]
Unflatten = Callable[[Iterable[Any], Any], Any]


@dataclass(frozen=True)
class TreeSpec:
    """The shape of a tree: a container's type and context, and the specs of what it holds. A leaf has no type."""

    type: Any
    context: Any = None
    children_specs: list[TreeSpec] = field(default_factory=list)

    @property
    def num_leaves(self) -> int:
        return 1 if self.type is None else sum(child.num_leaves for child in self.children_specs)

    def is_leaf(self) -> bool:
        return self.type is None


def _is_namedtuple(x: Any) -> bool:
    return isinstance(x, tuple) and hasattr(x, "_fields")


def _dict_keys(d: dict) -> tuple[list[Any], Any]:
    return list(d.values()), list(d)


_NODES: dict[type, tuple[Flatten, Unflatten]] = {
    list: (lambda x: (list(x), None), lambda values, _: list(values)),
    tuple: (lambda x: (list(x), None), lambda values, _: tuple(values)),
    dict: (_dict_keys, lambda values, keys: dict(zip(keys, values, strict=True))),
    OrderedDict: (_dict_keys, lambda values, keys: OrderedDict(zip(keys, values, strict=True))),
    defaultdict: (
        lambda d: (list(d.values()), (d.default_factory, list(d))),
        lambda values, c: defaultdict(c[0], zip(c[1], values, strict=True)),
    ),
    deque: (lambda x: (list(x), x.maxlen), lambda values, maxlen: deque(values, maxlen)),
}


def register_pytree_node(cls: type, flatten_fn: Flatten, unflatten_fn: Unflatten, **_: Any) -> None:
    """Make a class a container: flatten_fn(x) -> (children, context), unflatten_fn(children, context) -> x."""
    if cls in _NODES:
        raise ValueError(f"register_pytree_node: {cls} is already registered as pytree node")
    _NODES[cls] = (flatten_fn, unflatten_fn)


def _children(tree: Any) -> tuple[Any, list[Any], Any] | None:
    """Type, children and context of a container; None for a leaf."""
    if type(tree) in _NODES:
        values, context = _NODES[type(tree)][0](tree)
        return type(tree), values, context
    if _is_namedtuple(tree):
        return _is_namedtuple, list(tree), type(tree)
    return None


def _rebuild(kind: Any, values: list[Any], context: Any) -> Any:
    if kind is not _is_namedtuple:
        return _NODES[kind][1](values, context)
    return context(*values) if hasattr(context, "_make") else context(values)   # results of ops take one sequence


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves from left to right, and the spec that puts them back."""
    found = None if is_leaf is not None and is_leaf(tree) else _children(tree)
    if found is None:
        return [tree], TreeSpec(None)
    kind, values, context = found
    leaves: list[Any] = []
    specs = []
    for value in values:
        inner, spec = tree_flatten(value, is_leaf)
        leaves += inner
        specs.append(spec)
    return leaves, TreeSpec(kind, context, specs)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree of a spec, with these leaves."""
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(f"tree_unflatten(leaves, treespec): `leaves` has length {len(leaves)} but the spec refers to a pytree that holds {treespec.num_leaves} items")
    rest = iter(leaves)

    def build(spec: TreeSpec) -> Any:
        return next(rest) if spec.type is None else _rebuild(spec.type, [build(child) for child in spec.children_specs], spec.context)

    return build(treespec)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves from left to right."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """The spec alone."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable, tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """The tree with func(leaf, ...) for every leaf; `rests` are trees of the same shape."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = []
    for rest in rests:
        values, shape = tree_flatten(rest, is_leaf)
        if shape != spec:
            raise ValueError("tree_map: the trees differ in structure")
        others.append(values)
    return tree_unflatten([func(*values) for values in zip(leaves, *others, strict=True)], spec)


def tree_map_(func: Callable, tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """Call func for every leaf and return the tree as it is."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(kind: Any, func: Callable, tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """tree_map for leaves of a type, a tuple of types, or those a predicate accepts."""
    accepts = kind if callable(kind) and not isinstance(kind, type) else lambda x: isinstance(x, kind)
    return tree_map(lambda x: func(x) if accepts(x) else x, tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Whether every leaf satisfies `pred`."""
    return all(map(pred, tree_leaves(tree)))


def tree_any(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Whether some leaf satisfies `pred`."""
    return any(map(pred, tree_leaves(tree)))
