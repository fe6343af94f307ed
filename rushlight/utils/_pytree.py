"""Trees of containers: tuples, named tuples, lists, dicts, deques and registered classes, with anything else as leaves.

Enters: nested containers. Leaves: flat lists with a `TreeSpec` that puts them back, the same tree with every leaf
mapped, key paths of leaves, and specs as JSON text (PyTorch's format, both ways). Refuses: specs and trees that do not
fit each other, and specs of classes that were registered without a name to write.
"""

from __future__ import annotations

import importlib
import json
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import lru_cache
from typing import Any

from ._pytree_nodes import (  # noqa: F401 - PyTorch has them in this module
    BUILTIN_TYPES,
    CONSTANT_NODES,
    NO_SERIALIZED_TYPE_NAME_FOUND,
    SERIALIZED_TYPE_TO_PYTHON_TYPE,
    STANDARD_DICT_TYPES,
    SUPPORTED_NODES,
    SUPPORTED_SERIALIZED_TYPES,
    ConstantNode,
    Context,
    DumpableContext,
    FlattenFn,
    FlattenFunc,
    FlattenWithKeysFn,
    FlattenWithKeysFunc,
    FromDumpableContextFn,
    GetAttrKey,
    KeyPath,
    MappingKey,
    NodeDef,
    PyTree,
    SequenceKey,
    ToDumpableContextFn,
    UnflattenFn,
    UnflattenFunc,
    _defaultdict_deserialize,
    _defaultdict_flatten,
    _defaultdict_flatten_with_keys,
    _defaultdict_serialize,
    _defaultdict_unflatten,
    _deque_flatten,
    _deque_unflatten,
    _deregister_pytree_node,
    _dict_flatten,
    _dict_flatten_with_keys,
    _dict_unflatten,
    _get_node_type,
    _list_flatten,
    _list_unflatten,
    _namedtuple_deserialize,
    _namedtuple_flatten,
    _namedtuple_flatten_with_keys,
    _namedtuple_serialize,
    _namedtuple_unflatten,
    _odict_flatten,
    _odict_unflatten,
    _ordereddict_flatten,
    _ordereddict_unflatten,
    _private_register_pytree_node,
    _register_namedtuple,
    _register_pytree_node,
    _SerializeNodeDef,
    _tuple_flatten,
    _tuple_unflatten,
    is_constant_class,
    is_namedtuple,
    is_namedtuple_class,
    is_namedtuple_instance,
    is_structseq,
    is_structseq_class,
    is_structseq_instance,
    key_get,
    keystr,
    register_constant,
    register_dataclass,
    register_pytree_node,
)

__all__ = [
    "Context", "DumpableContext", "FlattenFn", "FromDumpableContextFn", "LeafSpec", "PyTree", "PyTreeSpec",
    "ToDumpableContextFn", "TreeSpec", "UnflattenFn", "is_namedtuple", "is_namedtuple_class", "is_namedtuple_instance",
    "is_structseq", "is_structseq_class", "is_structseq_instance", "key_get", "keystr", "register_pytree_node",
    "tree_all", "tree_all_only", "tree_any", "tree_any_only", "tree_flatten", "tree_flatten_with_path",
    "tree_is_leaf", "tree_iter", "tree_leaves", "tree_leaves_with_path", "tree_map", "tree_map_", "tree_map_only",
    "tree_map_only_", "tree_map_with_path", "tree_structure", "tree_unflatten", "treespec_dumps", "treespec_loads",
    "treespec_pprint",
]

IsLeaf = Callable[[Any], bool] | None

DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL = 1
_cxx_pytree_exists = _cxx_pytree_dynamo_traceable = False   # there is one implementation, this one


# --- specs ------------------------------------------------------------------------------------------------------------


class TreeSpec:
    """The shape of a tree: a container's type and context, and the specs of what it holds. A leaf has no type."""

    __slots__ = ("_children", "_context", "num_children", "num_leaves", "num_nodes", "type")

    def __init__(self, type: Any, context: Context, children_specs: list[TreeSpec]) -> None:
        self.type, self._context, self._children = type, context, children_specs
        self.num_children = len(children_specs)
        self.num_nodes = 1 + sum(c.num_nodes for c in children_specs)
        self.num_leaves = 1 if type is None else sum(c.num_leaves for c in children_specs)

    @property
    def context(self) -> Context:
        return self._context

    @property
    def children_specs(self) -> list[TreeSpec]:
        return self._children

    def is_leaf(self) -> bool:
        """Whether the spec is of a single leaf."""
        return self.type is None

    def children(self) -> list[TreeSpec]:
        """The specs of the children."""
        return list(self._children)

    def child(self, index: int) -> TreeSpec:
        """The spec of one child."""
        return self._children[index]

    def unflatten(self, leaves: Iterable[Any]) -> PyTree:
        """The tree of this spec, with these leaves."""
        leaves = leaves if isinstance(leaves, (list, tuple)) else list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"unflatten: the pytree holds {self.num_leaves} items, got {len(leaves)} leaves ({self})."
            )
        return _build(self, iter(leaves))

    def flatten_up_to(self, tree: PyTree) -> list[PyTree]:
        """The subtrees of `tree` where this spec has leaves."""
        found: list[Any] = []
        _flatten_up_to(self, tree, found)
        return found

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (
            str(self.type) == str(other.type) and self._context == other._context and self._children == other._children
        )

    def __hash__(self) -> int:
        context = self._context
        if self.type is defaultdict:
            context = (context[0], tuple(context[1]))
        elif self.type in (dict, OrderedDict):
            context = tuple(context)
        elif self.type is not None and self.type not in BUILTIN_TYPES and not isinstance(context, ConstantNode):
            context = None   # contexts of registered classes need not be hashable
        return hash((self.type, context, tuple(self._children)))

    def __repr__(self, indent: int = 0) -> str:
        if self.type is None:
            return "*"
        indent += 2
        inner = (",\n" + " " * indent).join(child.__repr__(indent) for child in self._children)
        return f"TreeSpec({self.type.__name__}, {self._context}, [{inner}])"


PyTreeSpec = TreeSpec


class LeafSpec(TreeSpec):
    """The spec of a single leaf."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None, None, [])

    def __reduce__(self) -> tuple:
        return LeafSpec, ()


_LEAF_SPEC = LeafSpec()


def treespec_leaf() -> LeafSpec:
    """The spec of a single leaf."""
    return _LEAF_SPEC


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """The spec of a tuple of trees."""
    children = list(iterable)
    if not all(isinstance(child, TreeSpec) for child in children):
        raise ValueError(f"Expected a tuple of TreeSpec values, got: {children!r}.")
    return TreeSpec(tuple, None, children)


def treespec_dict(
    mapping: Mapping[Any, TreeSpec] | Iterable[tuple[Any, TreeSpec]] = (), /, **kwargs: TreeSpec
) -> TreeSpec:
    """The spec of a dict of trees."""
    children = dict(mapping, **kwargs)
    if not all(isinstance(child, TreeSpec) for child in children.values()):
        raise ValueError(f"Expected a dictionary of TreeSpec values, got: {children!r}.")
    return TreeSpec(dict, list(children), list(children.values()))


def _build(spec: TreeSpec, leaves: Iterator[Any]) -> PyTree:
    if spec.type is None:
        return next(leaves)
    return SUPPORTED_NODES[spec.type].unflatten_fn([_build(child, leaves) for child in spec._children], spec._context)


def _flatten_up_to(spec: TreeSpec, node: PyTree, found: list[Any]) -> None:
    if spec.type is None:
        found.append(node)
        return
    for subtree, child in zip(_matching_children(spec, node, _get_node_type(node)), spec._children, strict=True):
        _flatten_up_to(child, subtree, found)


def _matching_children(spec: TreeSpec, node: PyTree, kind: Any) -> list[Any]:
    """Children of a node that has the spec's shape; dicts of any kind match each other by their keys."""
    both_dicts = spec.type in STANDARD_DICT_TYPES and kind in STANDARD_DICT_TYPES
    if kind != spec.type and not both_dicts:
        raise ValueError(f"Node type mismatch; expected {spec.type!r}, but got {kind!r}.")
    children, context = SUPPORTED_NODES[kind].flatten_fn(node)
    if len(children) != spec.num_children:
        raise ValueError(f"Node arity mismatch; expected {spec.num_children}, but got {len(children)}.")
    if both_dicts:
        expected = spec._context[1] if spec.type is defaultdict else spec._context
        missing, extra = set(expected) - set(node), set(node) - set(expected)
        if missing or extra:
            said = (f"; missing key(s): {missing}" if missing else "") + (f"; extra key(s): {extra}" if extra else "")
            raise ValueError(f"Node keys mismatch{said}.")
        return [node[key] for key in expected]
    if kind is not deque and context != spec._context:
        raise ValueError(
            f"Node context mismatch for node type {spec.type!r}; expected {spec._context!r}, but got {context!r}."
        )
    return children


def _is_constant_holder(spec: TreeSpec) -> bool:
    return isinstance(spec._context, ConstantNode)


def _retrieve_constant(spec: TreeSpec) -> Any:
    assert _is_constant_holder(spec), "the spec is not of a registered constant"
    return spec._context.value


# --- flattening and mapping -------------------------------------------------------------------------------------------


def tree_is_leaf(tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a tree is a single leaf."""
    return (is_leaf is not None and is_leaf(tree)) or _get_node_type(tree) not in SUPPORTED_NODES


def tree_flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves from left to right, and the spec that puts them back."""
    leaves: list[Any] = []
    return leaves, _spec_of(tree, leaves, is_leaf)


# Not a function inside of the one above: one that calls itself there would keep the leaves until the next collection.
def _spec_of(node: Any, leaves: list[Any], is_leaf: IsLeaf) -> TreeSpec:
    """The spec of a tree, whose leaves are appended."""
    if is_leaf is not None and is_leaf(node):
        leaves.append(node)
        return _LEAF_SPEC
    kind = _get_node_type(node)
    entry = SUPPORTED_NODES.get(kind)
    if entry is None:
        leaves.append(node)
        return _LEAF_SPEC
    children, context = entry.flatten_fn(node)
    return TreeSpec(kind, context, [_spec_of(child, leaves, is_leaf) for child in children])


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """The tree of a spec, with these leaves."""
    if not isinstance(treespec, TreeSpec):
        if not isinstance(leaves, TreeSpec):
            raise TypeError(f"treespec: expected a PyTreeSpec, got {type(treespec)}.")
        leaves, treespec = treespec, leaves
    return treespec.unflatten(leaves)


def tree_iter(tree: PyTree, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """The leaves from left to right, one at a time."""
    entry = None if is_leaf is not None and is_leaf(tree) else SUPPORTED_NODES.get(_get_node_type(tree))
    if entry is None:
        yield tree
        return
    for child in entry.flatten_fn(tree)[0]:
        yield from tree_iter(child, is_leaf)


def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves from left to right."""
    return tree_flatten(tree, is_leaf)[0]


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list[Any]:
    """The leaves of all arguments."""
    return [leaf for tree in (*args, *kwargs.values()) for leaf in tree_iter(tree)]


def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> TreeSpec:
    """The spec alone."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """The tree with func(leaf, ...) for every leaf; each of `rests` has `tree`'s shape or that shape as a prefix."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten(list(map(func, leaves, *[spec.flatten_up_to(rest) for rest in rests])))


def tree_map_(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Call func for every leaf and return the tree as it is."""
    leaves, spec = tree_flatten(tree, is_leaf)
    for values in zip(leaves, *[spec.flatten_up_to(rest) for rest in rests], strict=True):
        func(*values)
    return tree


def _acceptor(kinds: Any) -> Callable[[Any], bool]:
    """A predicate from a type, a tuple or union of types, or a predicate."""
    if isinstance(kinds, (type, tuple)) or type(kinds).__name__ == "UnionType":
        return lambda x: isinstance(x, kinds)
    if callable(kinds):
        return kinds
    raise TypeError("map_only: expected a type, a tuple of types or a predicate.")


def map_only(type_or_types_or_pred: Any, /) -> Callable[[Callable], Callable]:
    """Decorator: the function acts on what matches and returns the rest as it is."""
    accepts = _acceptor(type_or_types_or_pred)
    return lambda func: lambda x: func(x) if accepts(x) else x


def tree_map_only(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """tree_map for leaves of a type, a tuple of types, or those a predicate accepts."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """tree_map_ for leaves of a type, a tuple of types, or those a predicate accepts."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether every leaf satisfies `pred`."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether some leaf satisfies `pred`."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(type_or_types: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether every leaf of these types satisfies `pred`."""
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(type_or_types: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether some leaf of these types satisfies `pred`."""
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def _broadcast_to_and_flatten(tree: PyTree, treespec: TreeSpec, is_leaf: IsLeaf = None) -> list[Any] | None:
    """The leaves of a tree whose shape is a prefix of the spec's, each repeated for what the spec holds below it;
    None if it is no prefix."""
    full = treespec.unflatten([0] * treespec.num_leaves)
    values: list[Any] = []
    try:
        tree_map_(
            lambda x, sub: values.extend([x] * tree_structure(sub, is_leaf).num_leaves), tree, full, is_leaf=is_leaf
        )
    except ValueError:
        return None
    return values


# --- with key paths ---------------------------------------------------------------------------------------------------


def _generate_key_paths(key_path: KeyPath, tree: PyTree, is_leaf: IsLeaf = None) -> Iterator[tuple[KeyPath, Any]]:
    kind = _get_node_type(tree)
    entry = None if is_leaf is not None and is_leaf(tree) else SUPPORTED_NODES.get(kind)
    if entry is None:
        yield key_path, tree
        return
    if entry.flatten_with_keys_fn is None:
        raise ValueError(f"{kind} has no flatten_with_keys_fn. Pass one to register_pytree_node.")
    for key, child in entry.flatten_with_keys_fn(tree)[0]:
        yield from _generate_key_paths((*key_path, key), child, is_leaf)


def tree_leaves_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """(key path, leaf) pairs from left to right."""
    return list(_generate_key_paths((), tree, is_leaf))


def tree_flatten_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """(key path, leaf) pairs from left to right, and the spec."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """tree_map with func(key path, leaf, ...)."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten([func(path, leaf, *values) for (path, leaf), *values in zip(pairs, *others, strict=True)])


# --- specs as text ----------------------------------------------------------------------------------------------------


class EnumEncoder(json.JSONEncoder):
    """JSON with enum members by class and name."""

    def default(self, obj: Any) -> Any:
        if isinstance(obj, Enum):
            return {"__enum__": True, "fqn": f"{type(obj).__module__}:{type(obj).__qualname__}", "name": obj.name}
        return super().default(obj)


def enum_object_hook(obj: dict[str, Any]) -> Any:
    """The enum member that `EnumEncoder` wrote."""
    if "__enum__" not in obj:
        return obj
    module, _, path = obj["fqn"].partition(":")
    found: Any = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    return found[obj["name"]]


def _treespec_to_json(spec: TreeSpec) -> dict[str, Any]:
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    entry = SUPPORTED_SERIALIZED_TYPES.get(spec.type)
    if entry is None:
        raise NotImplementedError(f"Serializing {spec.type} in pytree is not registered.")
    if entry.serialized_type_name == NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError(
            f"No registered serialization name for {spec.type} found. Pass `serialized_type_name` to"
            " register_pytree_node."
        )
    if entry.to_dumpable_context is not None:
        context = entry.to_dumpable_context(spec._context)
    else:
        try:
            context = json.dumps(spec._context, cls=EnumEncoder)
        except TypeError as error:
            raise TypeError(
                "Unable to serialize context. Make it json dump-able, or pass to_dumpable_context to"
                " register_pytree_node."
            ) from error
    return {
        "type": entry.serialized_type_name,
        "context": context,
        "children_spec": [_treespec_to_json(c) for c in spec._children],
    }


def _json_to_treespec(written: DumpableContext) -> TreeSpec:
    if written["type"] is None and written["context"] is None and not written["children_spec"]:
        return _LEAF_SPEC
    if written["type"] not in SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError(f"Deserializing {written['type']} in pytree is not registered.")
    kind = SERIALIZED_TYPE_TO_PYTHON_TYPE[written["type"]]
    read = SUPPORTED_SERIALIZED_TYPES[kind].from_dumpable_context
    context = json.loads(written["context"], object_hook=enum_object_hook) if read is None else read(written["context"])
    return TreeSpec(kind, context, [_json_to_treespec(child) for child in written["children_spec"]])


def _check_protocol(protocol: int) -> None:
    if protocol != DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL:
        raise ValueError(
            f"Unknown protocol {protocol}. Available protocols: [{DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL}]"
        )


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """A spec as JSON text."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"treespec: expected a PyTreeSpec, got {type(treespec)}.")
    protocol = DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL if protocol is None else protocol
    _check_protocol(protocol)
    return json.dumps((protocol, _treespec_to_json(treespec)), cls=EnumEncoder)


@lru_cache
def treespec_loads(serialized: str) -> TreeSpec:
    """The spec of JSON text that `treespec_dumps` wrote."""
    protocol, written = json.loads(serialized)
    _check_protocol(protocol)
    return _json_to_treespec(written)


class _Asterisk(str):
    """Prints as a bare *."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "*"


def treespec_pprint(treespec: TreeSpec) -> str:
    """The tree with * for its leaves, as text."""
    return repr(treespec.unflatten([_Asterisk("*")] * treespec.num_leaves))
