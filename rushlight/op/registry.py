"""The registry: every op by name, without importing what defines it.

Enters: definition classes, which register themselves when their module (a family in `rushlight/definitions/`) is
imported. Leaves: the core's `Op` objects and where they are published: functions, methods, operators.
Nothing else lists op names.

A process uses few of the families, so they are imported when one of their ops is first called or asked about. What must
be known before, which names there are and which families define them, is six tables. Importing every family fills
them; they are then kept on disk beside the kernels (`disk_cache`), together with the sizes and times of the sources
they were made from. A later process that finds the same sources takes the tables from there; one that finds anything
else imports every family and keeps the tables anew. So an op is still added in one file, and nothing generated is
committed. A wheel brings the tables with it (`SHIPPED`, made while it is built by tools/make_tables.py), so that the
first import is a quick one too; they name the content of the sources they were made from, and no other gets them.

An `Op` object is made for each name at once and stays the same object: its overloads, its documentation and its
definitions are what arrives late. Walking `definitions`, or `load_all()`, imports the rest.
"""

from __future__ import annotations

import marshal
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from .. import _C
from ..base import disk_cache, late, sources

if TYPE_CHECKING:
    from .definition import OpDefinition

FUNCTION, OPERATOR, REFLECTED = 0, 1, 2   # modes of the core's Op (csrc/call.cpp)
KINDS = ("op", "planners", "rules")   # rooms of what definitions inherit from
MARSHAL = 4   # a format that every Python we run on can read
SHIPPED = os.path.join(os.path.dirname(__file__), "ops.tables")
KIND_POINTWISE, KIND_PLANNED, KIND_PYTHON = 0, 1, 2   # how the core runs an overload
_IN_PLACE = frozenset(
    ("add", "sub", "mul", "div", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift", "matmul")
)


# Operators that `__torch_function__` sees as a method, and names of those it sees as themselves. Others are called what
# they are.
_AS_METHODS = {
    "__add__": "add", "__radd__": "add", "__iadd__": "add_", "__sub__": "sub", "__isub__": "sub_", "__mul__": "mul",
    "__rmul__": "mul", "__imul__": "mul_", "__truediv__": "div", "__itruediv__": "div_", "__mod__": "remainder",
    "__ifloordiv__": "floor_divide_", "__imod__": "remainder_", "__matmul__": "matmul", "__imatmul__": "matmul",
    "__rand__": "bitwise_and", "__ror__": "bitwise_or", "__rxor__": "bitwise_xor", "__ne__": "ne", "__lt__": "lt",
    "__le__": "le", "__gt__": "gt", "__ge__": "ge", "__neg__": "neg", "__abs__": "abs", "__pos__": "positive",
}
_OTHER_NAMES = {"__rtruediv__": "__rdiv__", "__pow__": "pow", "__ipow__": "pow_"}


class Tables:
    """What is known of ops whose families need not be imported yet."""

    def __init__(self) -> None:
        self.families: dict[str, list[str]] = {}               # name in definitions -> modules that define it, in order
        self.bases: dict[str, str] = {}                        # name of an op -> name in definitions ("add_" -> "add")
        self.functions: dict[str, dict[str, str]] = {}         # namespace -> public name -> name of the op
        self.methods: dict[str, tuple[str, int]] = {}          # method -> name of the op, position of self
        self.operators: dict[str, str] = {}                    # "__radd__" -> name in definitions
        self.plain_methods: dict[str, str] = {}                # methods that are no ops -> module that has them


tables = Tables()
ops: dict[str, _C.Op] = {}
forms: dict[str, list[_C.Op]] = {}   # every op object of a name: the function, and its operator forms
_classes: dict[str, list[type[OpDefinition]]] = {}
_families: set[str] = set()
_pending: dict[str, None] = {}       # families not imported so far, in order
_methods: dict[str, Callable] = {}
_aliases: dict[str, _C.Op] = {}      # "namespace.label" -> the op under that name


class Definitions(Mapping[str, "list[type[OpDefinition]]"]):
    """Op name -> its definition classes. Looking one up imports its families; walking imports all of them."""

    def __getitem__(self, name: str) -> list[type[OpDefinition]]:
        for family in tables.families[name]:
            load(family)
        return _classes[name]

    def __contains__(self, name: object) -> bool:
        return name in tables.families

    def __iter__(self) -> Iterator[str]:
        load_all()
        return iter(tables.families)

    def __len__(self) -> int:
        return len(tables.families)


definitions = Definitions()


# --- definitions arrive -----------------------------------------------------------------------------------------------


def schemas_of(cls: type[OpDefinition]) -> tuple[str, ...]:
    """The schemas of a definition, always as a tuple."""
    return (cls.schema,) if isinstance(cls.schema, str) else tuple(cls.schema)


def op_name(schema: str) -> str:
    """The public name at the head of a schema, without its overload."""
    return schema[: schema.index("(")].partition(".")[0]


def register(cls: type[OpDefinition]) -> None:
    """Called when a definition class is made: its name becomes an op, and with `inplace` also `<name>_`."""
    name = op_name(schemas_of(cls)[0])
    families = tables.families.setdefault(name, [])
    if cls.__module__ not in families:
        families.append(cls.__module__)
    classes = _classes.setdefault(name, [])
    classes.append(cls)
    if len(families) > 1:   # the order must not depend on which family was imported first
        classes.sort(key=lambda known: families.index(known.__module__))
    for op in (name, name + "_") if cls.inplace else (name,):
        if op in ops:
            ops[op]._reset()
        else:
            tables.bases[op] = name
            make_op(op, name)


def make_op(op: str, name: str, mode: int = FUNCTION, label: str = "") -> _C.Op:
    """The public op object, called `label` or as the op is; its overloads are made at the first call."""

    def resolve() -> list:
        if mode == OPERATOR:   # the same overloads, so that plans and registered kernels are shared
            return ops[op].overload_list
        return [overload for cls in definitions[name] for overload in cls.overloads(op != name, mode == REFLECTED)]

    # nn.functional's own spelling of an op is called as the op is
    result = _C.Op(label or op.removeprefix("_functional_"), resolve, mode)
    forms.setdefault(op, []).append(result)
    if mode == FUNCTION:
        ops[op] = result
    return result


def spelled(op: _C.Op, name: str) -> _C.Op:
    """Another public spelling of an op: an object of its own that shares overloads and compares equal."""
    return _C.Op(name, lambda: op.overload_list, FUNCTION, op)


def find_op(name: str) -> _C.Op:
    """The op called `name`; AttributeError if there is none."""
    try:
        return ops[name]
    except KeyError:
        raise AttributeError(f"rushlight has no op called {name!r}") from None


def describe(op: _C.Op) -> str | None:
    """The documentation of an op: schemas and promise of its first definition, arguments, an example."""
    from .help import help_of

    return help_of(op)


class LateSignature:
    """The attribute `__signature__` of every op, which `inspect` asks for."""

    def __get__(self, op: _C.Op | None, owner: type) -> object:
        if op is None:
            raise AttributeError("__signature__")   # the class of ops has none
        from .signature import signature_of

        return signature_of(op)


def is_body(overload: _C.Overload) -> bool:
    """Whether transforms pass through the op, seeing the ops it is written with instead."""
    definition = overload.definition
    is_open = type(definition).vmap is None and definition.batch in (None, "random", "body")
    return definition.body and is_open and not overload.records


def is_differentiated_body(overload: _C.Overload) -> bool:
    """`is_body` for derivatives: a rule that only says how batches run keeps none of the body's ops from them."""
    definition = overload.definition
    return is_body(overload) or (definition.body and definition.batch == "pointwise" and not overload.records)


def explain_mismatch(op: _C.Op | _C.Overload, args: tuple, kwargs: dict[str, object]) -> None:
    """Raise the TypeError that says what was given and what the op takes."""
    from .mismatch import explain

    overloads = op.overload_list if isinstance(op, _C.Op) else [op]
    name = op.__name__ if isinstance(op, _C.Op) else op.name
    raise explain(name, [overload.definition.spec for overload in overloads], args, kwargs)


# --- publishing -------------------------------------------------------------------------------------------------------


def fill_published() -> None:
    """Derive from the definitions what is published where."""
    for name, classes in _classes.items():
        for cls in classes:
            suffixes = ("_",) if cls.only_inplace else ("", "_") if cls.inplace else ("",)
            for label in (name, *cls.aliases):
                space, _, last = label.rpartition(".")
                namespace = space or cls.namespace or ""
                last = last.removeprefix(namespace + "_") if namespace else last   # linalg_svd is linalg.svd
                for suffix in suffixes:
                    if cls.function:
                        tables.functions.setdefault(namespace, {}).setdefault(last + suffix, name + suffix)
                    if cls.method and "." not in label:
                        tables.methods.setdefault(label + suffix, (name + suffix, cls.self_position()))
            tables.operators.update(dict.fromkeys(cls.dunder, name))


def published(namespace: str) -> dict[str, _C.Op]:
    """Public functions of a namespace ("" is the top level), by name."""
    return {label: _called(label, name, namespace) for label, name in tables.functions.get(namespace, {}).items()}


def _called(label: str, name: str, namespace: str = "") -> _C.Op:
    """The op of this name as a namespace calls it: an alias (`arctan`) is a function of its own,
    and graphs say which was used."""
    if name in (label, f"{namespace}_{label}") or label.startswith("_"):
        return ops[name]
    key = f"{namespace}.{label}"
    if key not in _aliases:
        _aliases[key] = spelled(ops[name], label)
    return _aliases[key]


def publish(tensor_type: type) -> None:
    """Install methods and operators on the tensor type."""
    taken = frozenset(vars(tensor_type))
    for label, (name, position) in tables.methods.items():
        if label not in taken:
            setattr(tensor_type, label, _method(label, name) if position == 0 else method_at(position, ops[name]))
    for special, name in tables.operators.items():
        form = operator(special, name)
        setattr(tensor_type, special, form)
        if special in _AS_METHODS and _AS_METHODS[special] in tables.methods:
            form.__dict__["method"] = vars(tensor_type)[_AS_METHODS[special]]
    for label, module in tables.plain_methods.items():
        if label not in taken:
            # Where all families were imported to fill the tables, nothing is late any more.
            setattr(tensor_type, label, _methods[label] if label in _methods else LateMethod(label, module))


def _method(label: str, name: str) -> _C.Op:
    """The op as a method: equal to the function, and an object of its own, so that handlers can tell which was called.
    """
    return ops[name] if label.startswith("_") else spelled(ops[name], label)


def method_at(position: int, op: _C.Op) -> Callable:
    """The op as a method whose `self` is not the first parameter."""

    def method(self: object, *args: object, **kwargs: object) -> object:
        return op(*args[:position], self, *args[position:], **kwargs)

    method.__name__ = method.__qualname__ = op.__name__
    method.__doc__ = f"`{op.__name__}` with this tensor as parameter {position + 1}."
    return method


def operator(special: str, name: str) -> _C.Op:
    """`x + y`, `2 - x` and `x += y`: the op in a form that answers NotImplemented to operands it cannot take."""
    base = special.strip("_")
    is_inplace = base[0] == "i" and base[1:] in _IN_PLACE
    is_reflected = base[0] == "r" and base[1:] in _IN_PLACE
    target = name + "_" if is_inplace and name + "_" in ops else name
    label = "" if special in _AS_METHODS else _OTHER_NAMES.get(special, special)
    return make_op(target, name, REFLECTED if is_reflected else OPERATOR, label)


class LateMethod:
    """A method that is no op, until it is first looked up: then its module is imported, which puts it in place."""

    def __init__(self, name: str, module: str) -> None:
        self.name, self.module = name, module

    def __get__(self, instance: object, owner: type) -> Callable:
        load(self.module)
        return _methods[self.name].__get__(instance, owner)


def install_methods(module: str, methods: Mapping[str, Callable]) -> None:
    """Methods of every tensor that are no ops, from a family."""
    _methods.update(methods)
    tables.plain_methods.update(dict.fromkeys(methods, module))
    for name, method in methods.items():
        if isinstance(vars(_C.Tensor).get(name), LateMethod):
            setattr(_C.Tensor, name, method)


# --- families ---------------------------------------------------------------------------------------------------------


def open_families(package: str, folder: str) -> None:
    """Make the ops defined below `folder` known: from the tables on disk, or by importing every module of `package`."""
    families = list_sources(folder)
    _families.update(f"{package}.{name}" for name, _, _ in families)
    _pending.update(dict.fromkeys(f"{package}.{name}" for name, _, _ in families))
    # Kinds are part of it: definitions inherit from them where they are published.
    identity = repr((sys.version, families, sources.identity(*KINDS))).encode()
    file = f"ops-{sys.implementation.cache_tag}-{zlib.crc32(folder.encode()):08x}"
    if not take_tables(disk_cache.read(file), identity):
        shipped = read_shipped()
        if shipped is None or not take_tables(shipped, content_identity()):
            load_all()
            fill_published()
        disk_cache.write(file, packed_tables(identity))   # if that fails, later processes too come by here


def list_sources(folder: str, prefix: str = "") -> list[tuple[str, int, int]]:
    """(module, size, time) of every module below `folder` but its own `__init__`;
    packages come before their modules."""
    found = []
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            name, _, suffix = entry.name.rpartition(".")
            if suffix in ("py", "pyc"):   # an installation may have no sources
                info = entry.stat()
                found.append((f"{prefix}{name}" if name != "__init__" else prefix[:-1], info.st_size, info.st_mtime_ns))
            elif entry.name != "__pycache__" and entry.is_dir():
                found += list_sources(entry.path, f"{prefix}{entry.name}.")
    return found if prefix else [source for source in found if source[0]]


def is_family(module: str) -> bool:
    """Whether this is the name of a module that defines ops, or of a package of such modules."""
    return module in _families


def load(family: str) -> None:
    """Import a family, unless that was done before. Another thread's import of it is waited for."""
    if family in _pending:
        late.import_module(family)
        _pending.pop(family, None)


def load_all() -> None:
    """Import every family."""
    for family in tuple(_pending):
        load(family)


# --- the tables as bytes: identity of the sources, checksum, content --------------------------------------------------


def take_tables(data: bytes | None, identity: bytes) -> bool:
    """Fill the tables from `data`; False if there is none, or not of these sources, or it is damaged."""
    if data is None or not data.startswith(identity):
        return False
    body = data[len(identity) + 4 :]
    if zlib.crc32(body) != int.from_bytes(data[len(identity) : len(identity) + 4], "little"):
        return False
    vars(tables).update(marshal.loads(body))
    for op, name in tables.bases.items():
        make_op(op, name)
    return True


def packed_tables(identity: bytes) -> bytes:
    """What `take_tables` takes."""
    body = marshal.dumps(vars(tables), MARSHAL)
    return identity + zlib.crc32(body).to_bytes(4, "little") + body


def read_shipped() -> bytes | None:
    """The tables that came with the installation, if any did."""
    try:
        with open(SHIPPED, "rb") as file:
            return file.read()
    except OSError:
        return None


def content_identity() -> bytes:
    """What the sources say, wherever and whenever they were written: installing changes a file's time,
    and editing may not."""
    return f"rushlight-ops-{sources.contents('definitions', *KINDS)}-".encode()


def trace(definition: object, args: tuple) -> object:
    """A plan that holds for many shapes, or None."""
    from .extents import generic_plan  # noqa: PLC0415 - a process that meets one shape of everything needs no tracing

    return generic_plan(definition, args)


_C.set_hooks(bind_error=explain_mismatch)
_C.set_describer(describe)
_C.set_tracer(trace)
_C.Op.__signature__ = LateSignature()
