"""Containers of trees: how each class is taken apart and put together, and the keys that lead into it.

Enters: classes with their flatten and unflatten functions. Leaves: the registry that `_pytree` walks, with Python's own
containers in it from the start. Refuses: a class registered twice, and named tuples that have no name to write.
"""

from __future__ import annotations

import importlib
import threading
import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ..op.results import NamedResult

PyTree = Any
Context = Any
DumpableContext = Any
FlattenFn = FlattenFunc = Callable[[PyTree], tuple[list[Any], Context]]
UnflattenFn = UnflattenFunc = Callable[[Iterable[Any], Context], PyTree]
ToDumpableContextFn = Callable[[Context], DumpableContext]
FromDumpableContextFn = Callable[[DumpableContext], Context]
FlattenWithKeysFn = FlattenWithKeysFunc = Callable[[PyTree], tuple[list[tuple[Any, Any]], Any]]
KeyPath = tuple[Any, ...]

NO_SERIALIZED_TYPE_NAME_FOUND = "NO_SERIALIZED_TYPE_NAME_FOUND"


class NodeDef(NamedTuple):
    """How a class is taken apart and put together."""

    type: Any
    flatten_fn: FlattenFn
    unflatten_fn: UnflattenFn
    flatten_with_keys_fn: FlattenWithKeysFn | None


class _SerializeNodeDef(NamedTuple):
    typ: Any
    serialized_type_name: str
    to_dumpable_context: ToDumpableContextFn | None
    from_dumpable_context: FromDumpableContextFn | None


SUPPORTED_NODES: dict[Any, NodeDef] = {}
SUPPORTED_SERIALIZED_TYPES: dict[Any, _SerializeNodeDef] = {}
SERIALIZED_TYPE_TO_PYTHON_TYPE: dict[str, Any] = {}
CONSTANT_NODES: set[type] = set()
_NODE_REGISTRY_LOCK = threading.RLock()


# --- key paths --------------------------------------------------------------------------------------------------------


class _Key:
    """One step of a key path: equal and hashable by what it holds."""

    __slots__ = ("_value",)
    _field = ""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __init_subclass__(cls) -> None:
        setattr(cls, cls._field, property(lambda self: self._value))

    def __eq__(self, other: object) -> bool:
        return self._value == other._value if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), self._value))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._field}={self._value!r})"

    def __str__(self) -> str:
        return f"[{self._value!r}]"

    def get(self, parent: Any) -> Any:
        return parent[self._value]


class SequenceKey(_Key):
    """The index into a list, tuple or deque."""

    _field = "idx"


class MappingKey(_Key):
    """The key of a dict's value."""

    _field = "key"


class GetAttrKey(_Key):
    """The name of an attribute."""

    _field = "name"

    def __str__(self) -> str:
        return f".{self._value}"

    def get(self, parent: Any) -> Any:
        return getattr(parent, self._value)


def keystr(kp: KeyPath) -> str:
    """A key path as people would write it: `[0]['weight'].grad`."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """What a key path leads to from `obj`."""
    for key in kp:
        obj = key.get(obj)
    return obj


# --- kinds of tuples --------------------------------------------------------------------------------------------------


def is_namedtuple_class(cls: Any) -> bool:
    """Whether a class was made by `namedtuple` or derives from one that was."""
    if not (isinstance(cls, type) and issubclass(cls, tuple)):
        return False
    fields = getattr(cls, "_fields", None)
    return (
        isinstance(fields, tuple)
        and all(type(f) is str for f in fields)
        and callable(getattr(cls, "_make", None))
        and callable(getattr(cls, "_asdict", None))
    )


def is_namedtuple_instance(obj: object) -> bool:
    """Whether an object is a named tuple."""
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: Any) -> bool:
    """Whether an object is a named tuple, or a class of them."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls: Any) -> bool:
    """Whether a class is one of the interpreter's struct sequences, such as `time.struct_time`."""
    counts = ("n_fields", "n_sequence_fields", "n_unnamed_fields")
    can_be_subclassed = 1 << 10   # Py_TPFLAGS_BASETYPE
    return (
        isinstance(cls, type)
        and cls.__bases__ == (tuple,)
        and all(isinstance(getattr(cls, c, None), int) for c in counts)
        and not cls.__flags__ & can_be_subclassed
    )


def is_structseq_instance(obj: object) -> bool:
    """Whether an object is a struct sequence."""
    return is_structseq_class(type(obj))


def is_structseq(obj: Any) -> bool:
    """Whether an object is a struct sequence, or a class of them."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


# --- registering ------------------------------------------------------------------------------------------------------


def register_pytree_node(
    cls: Any, flatten_fn: FlattenFn, unflatten_fn: UnflattenFn, *, serialized_type_name: str | None = None,
    to_dumpable_context: ToDumpableContextFn | None = None, from_dumpable_context: FromDumpableContextFn | None = None,
    flatten_with_keys_fn: FlattenWithKeysFn | None = None,
) -> None:
    """Make a class a container: flatten_fn(x) -> (children, context), unflatten_fn(children, context) -> x."""
    if cls in SUPPORTED_NODES:
        raise ValueError(f"register_pytree_node: {cls} is already registered as pytree node.")
    _private_register_pytree_node(
        cls, flatten_fn, unflatten_fn, serialized_type_name=serialized_type_name,
        to_dumpable_context=to_dumpable_context, from_dumpable_context=from_dumpable_context,
        flatten_with_keys_fn=flatten_with_keys_fn,
    )


def _private_register_pytree_node(
    cls: Any, flatten_fn: FlattenFn, unflatten_fn: UnflattenFn, *, serialized_type_name: str | None = None,
    to_dumpable_context: ToDumpableContextFn | None = None, from_dumpable_context: FromDumpableContextFn | None = None,
    flatten_with_keys_fn: FlattenWithKeysFn | None = None,
) -> None:
    """As `register_pytree_node`, but a second registration replaces the first, with a warning."""
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(f"{cls}: expected both to_dumpable_context and from_dumpable_context, or neither.")
    with _NODE_REGISTRY_LOCK:
        if cls in SUPPORTED_NODES:
            warnings.warn(
                f"{cls} is already registered as pytree node. The new registration replaces the old one.", stacklevel=3
            )
        name = serialized_type_name or NO_SERIALIZED_TYPE_NAME_FOUND
        SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
        SUPPORTED_SERIALIZED_TYPES[cls] = _SerializeNodeDef(cls, name, to_dumpable_context, from_dumpable_context)
        SERIALIZED_TYPE_TO_PYTHON_TYPE[name] = cls


def _register_pytree_node(
    cls: Any,
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    to_str_fn: Any = None,
    maybe_from_str_fn: Any = None,
    **kwargs: Any,
) -> None:
    """The former name of `register_pytree_node`."""
    warnings.warn("`_register_pytree_node` is deprecated. Use `register_pytree_node`.", FutureWarning, stacklevel=2)
    if to_str_fn is not None or maybe_from_str_fn is not None:
        warnings.warn(
            "`to_str_fn` and `maybe_from_str_fn` are ignored. Use `to_dumpable_context` and `from_dumpable_context`.",
            FutureWarning,
            stacklevel=2,
        )
    _private_register_pytree_node(cls, flatten_fn, unflatten_fn, **kwargs)


def _deregister_pytree_node(cls: Any) -> None:
    with _NODE_REGISTRY_LOCK:
        del SUPPORTED_NODES[cls]
        SERIALIZED_TYPE_TO_PYTHON_TYPE.pop(SUPPORTED_SERIALIZED_TYPES.pop(cls).serialized_type_name, None)
        CONSTANT_NODES.discard(cls)


def _register_namedtuple(cls: type, *, serialized_type_name: str) -> None:
    """Give a named tuple class a name under which specs with it can be written."""
    _private_register_pytree_node(
        cls, _namedtuple_flatten, _namedtuple_unflatten, serialized_type_name=serialized_type_name,
        to_dumpable_context=_namedtuple_serialize, from_dumpable_context=_namedtuple_deserialize,
        flatten_with_keys_fn=_namedtuple_flatten_with_keys,
    )


def _dataclass_fields(cls: type, field_names: list[str] | None, dropped: list[str]) -> list[str]:
    import dataclasses  # noqa: PLC0415 - slow to load, and few programs register dataclasses

    if not dataclasses.is_dataclass(cls):
        if field_names is None:
            raise ValueError(f"field_names must list all fields used to initialize {cls}, as it is not a dataclass.")
        return field_names
    own = [f.name for f in dataclasses.fields(cls) if f.init]
    if field_names is None:
        return own
    expected = set(own) - set(dropped)
    if expected != set(field_names):
        missing, unexpected = expected - set(field_names), set(field_names) - expected
        said = [
            f"Missing fields in `field_names`: {missing}. " if missing else "",
            f"Unexpected fields in `field_names`: {unexpected}. " if unexpected else "",
        ]
        raise ValueError(
            "field_names: not the fields of the dataclass.\n"
            + "".join(said)
            + "Fields to leave out go into `drop_field_names`."
        )
    return field_names


def register_dataclass(
    cls: type,
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Make a dataclass (or a class built from keyword fields) a container of its fields;
    fields that are None are no children."""
    names = _dataclass_fields(cls, field_names, drop_field_names or [])

    def flatten(obj: Any) -> tuple[list[Any], Any]:
        full = [n for n in names if getattr(obj, n) is not None]
        return [getattr(obj, n) for n in full], [full, [n for n in names if n not in full]]

    def unflatten(values: Iterable[Any], context: Any) -> Any:
        full, empty = context
        return cls(**dict(zip(full, values, strict=True)), **dict.fromkeys(empty))

    def flatten_with_keys(obj: Any) -> tuple[list[tuple[Any, Any]], Any]:
        values, context = flatten(obj)
        return [(GetAttrKey(n), v) for n, v in zip(context[0], values, strict=True)], context

    _private_register_pytree_node(
        cls, flatten, unflatten, serialized_type_name=serialized_type_name, flatten_with_keys_fn=flatten_with_keys
    )


class ConstantNode:
    """The context of a value that is part of the structure."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return self.value == other.value if isinstance(other, ConstantNode) else NotImplemented

    def __hash__(self) -> int:
        return hash((ConstantNode, self.value))

    def __repr__(self) -> str:
        return f"ConstantNode(value={self.value!r})"


def register_constant(cls: type) -> None:
    """Make instances of a class parts of the structure, with no leaves."""
    if cls.__eq__ is object.__eq__:
        raise TypeError("register_constant: the class must define `__eq__` itself.")
    if cls.__hash__ is None:
        raise TypeError("register_constant: the class must define `__hash__` itself.")
    _private_register_pytree_node(
        cls,
        lambda x: ([], ConstantNode(x)),
        lambda _, context: context.value,
        flatten_with_keys_fn=lambda x: ([], ConstantNode(x)),
    )
    CONSTANT_NODES.add(cls)


def is_constant_class(cls: Any) -> bool:
    """Whether `register_constant` was called for a class."""
    return isinstance(cls, type) and cls in CONSTANT_NODES


# --- the containers known from the start ------------------------------------------------------------------------------


def _list_flatten(d: list) -> tuple[list[Any], Context]:
    return list(d), None


def _list_unflatten(values: Iterable[Any], context: Context) -> list:
    return list(values)


def _sequence_with_keys(d: Any) -> tuple[list[tuple[Any, Any]], Context]:
    return [(SequenceKey(i), v) for i, v in enumerate(d)], getattr(d, "maxlen", None)


def _tuple_unflatten(values: Iterable[Any], context: Context) -> tuple:
    return tuple(values)


def _dict_flatten(d: dict) -> tuple[list[Any], Context]:
    return list(d.values()), list(d)


def _dict_unflatten(values: Iterable[Any], context: Context) -> dict:
    return dict(zip(context, values, strict=True))


def _dict_flatten_with_keys(d: dict) -> tuple[list[tuple[Any, Any]], Context]:
    return [(MappingKey(k), v) for k, v in d.items()], list(d)


def _ordereddict_unflatten(values: Iterable[Any], context: Context) -> OrderedDict:
    return OrderedDict(zip(context, values, strict=True))


def _namedtuple_flatten(d: Any) -> tuple[list[Any], Context]:
    return list(d), type(d)


def _namedtuple_unflatten(values: Iterable[Any], context: Context) -> Any:
    return context(*values)


def _namedtuple_flatten_with_keys(d: Any) -> tuple[list[tuple[Any, Any]], Context]:
    return [(GetAttrKey(f), v) for f, v in zip(d._fields, d, strict=True)], type(d)


def _namedtuple_serialize(context: Context) -> DumpableContext:
    known = SUPPORTED_SERIALIZED_TYPES.get(context)
    if known is None or known.serialized_type_name == NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {context}: it has no serialized_type_name. Register it with"
            " `_register_namedtuple`."
        )
    return known.serialized_type_name


def _namedtuple_deserialize(dumpable_context: DumpableContext) -> Context:
    if dumpable_context not in SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError(
            f"Can't deserialize TreeSpec of namedtuple class {dumpable_context}: the name is not registered."
        )
    return SERIALIZED_TYPE_TO_PYTHON_TYPE[dumpable_context]


def _defaultdict_flatten(d: defaultdict) -> tuple[list[Any], Context]:
    return list(d.values()), [d.default_factory, list(d)]


def _defaultdict_unflatten(values: Iterable[Any], context: Context) -> defaultdict:
    return defaultdict(context[0], zip(context[1], values, strict=True))


def _defaultdict_flatten_with_keys(d: defaultdict) -> tuple[list[tuple[Any, Any]], Context]:
    return [(MappingKey(k), v) for k, v in d.items()], [d.default_factory, list(d)]


def _defaultdict_serialize(context: Context) -> DumpableContext:
    factory, keys = context
    return {
        "default_factory_module": factory.__module__,
        "default_factory_name": factory.__qualname__,
        "dict_context": keys,
    }


def _defaultdict_deserialize(dumpable_context: DumpableContext) -> Context:
    module = importlib.import_module(dumpable_context["default_factory_module"])
    return [getattr(module, dumpable_context["default_factory_name"]), dumpable_context["dict_context"]]


def _deque_flatten(d: deque) -> tuple[list[Any], Context]:
    return list(d), d.maxlen


def _deque_unflatten(values: Iterable[Any], context: Context) -> deque:
    return deque(values, maxlen=context)


_tuple_flatten, _ordereddict_flatten = _list_flatten, _dict_flatten
_odict_flatten, _odict_unflatten = _ordereddict_flatten, _ordereddict_unflatten
_BUILTIN = (
    (tuple, _tuple_flatten, _tuple_unflatten, "builtins.tuple", _sequence_with_keys),
    (list, _list_flatten, _list_unflatten, "builtins.list", _sequence_with_keys),
    (dict, _dict_flatten, _dict_unflatten, "builtins.dict", _dict_flatten_with_keys),
    (
        namedtuple,
        _namedtuple_flatten,
        _namedtuple_unflatten,
        "collections.namedtuple",
        _namedtuple_flatten_with_keys,
        _namedtuple_serialize,
        _namedtuple_deserialize,
    ),
    (OrderedDict, _ordereddict_flatten, _ordereddict_unflatten, "collections.OrderedDict", _dict_flatten_with_keys),
    (
        defaultdict,
        _defaultdict_flatten,
        _defaultdict_unflatten,
        "collections.defaultdict",
        _defaultdict_flatten_with_keys,
        _defaultdict_serialize,
        _defaultdict_deserialize,
    ),
    (deque, _deque_flatten, _deque_unflatten, "collections.deque", _sequence_with_keys),
)
for _cls, _flatten, _unflatten, _name, _keys, *_dump in _BUILTIN:
    _to, _from = _dump or (None, None)
    _private_register_pytree_node(
        _cls,
        _flatten,
        _unflatten,
        serialized_type_name=_name,
        flatten_with_keys_fn=_keys,
        to_dumpable_context=_to,
        from_dumpable_context=_from,
    )

STANDARD_DICT_TYPES = frozenset({dict, OrderedDict, defaultdict})
BUILTIN_TYPES = frozenset(row[0] for row in _BUILTIN)


def _get_node_type(tree: Any) -> Any:
    """What a container is registered under; for a leaf, its class.
    Results of ops are containers from their first use."""
    cls = type(tree)
    if cls in SUPPORTED_NODES:
        return namedtuple if is_namedtuple_class(cls) else cls
    if not isinstance(tree, tuple):
        return cls
    if is_namedtuple_class(cls):
        return namedtuple
    if isinstance(tree, NamedResult):
        _private_register_pytree_node(
            cls, _list_flatten, lambda values, _: cls(list(values)), flatten_with_keys_fn=_sequence_with_keys
        )
    return cls
