"""Registrations made from C++: operators of TORCH_LIBRARY, and the classes of class_<T>.

Enters: schemas, kernels and members, as the runtime hands them over. Leaves: ops in `ops`, classes in `classes`.
Refuses: what `library` refuses, a second library of one namespace, and classes that are registered twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from .. import _C, library as python_library
from ..aten.overloads import custom_schema
from ..dispatch import table
from ..library import Library
from ..op import ops
from ..quantized.packed import ScriptObject, classes

_places: dict[str, str] = {}  # namespace -> where its TORCH_LIBRARY stands
_by_type: dict[str, type[CppObject]] = {}  # C++'s name of a type -> the class
_failures: list[str] = []
_loading: list[Callable[[], None]] = []  # what takes back the registrations since `raise_failures` was last asked
_ANY = re.compile(
    r"(__torch__\.torch\.classes\.\w+\.\w+|Dict\([^)]*\)|\bAny\b)(\[\])?\??|\(\w+(, \w+)*\)\[\]\??"
)  # what our schemas pass as it is
_PLAIN_KINDS = ("Tensor", "int", "float", "bool", "str")


def library(space: str, kind: str, key: str, where: str) -> Library:
    """The registrations of one block of C++."""
    if kind == "DEF":
        if space in _places:
            raise RuntimeError(
                f"TORCH_LIBRARY: the namespace {space} was registered at {_places[space]} already; at {where} use "
                "TORCH_LIBRARY_FRAGMENT"
            )
        _places[space] = where
        _loading.append(lambda: _places.pop(space, None))
    made = Library("aten" if space == "_" else space, kind, key)
    made.place, made.is_wildcard = where, space == "_"
    _loading.append(made._destroy)
    return made


def define(made: Library, schema: str) -> None:
    """An operator by its schema. Instances of C++ classes pass as they are."""
    text = _ANY.sub("any", schema)
    text = text if "->" in text else f"{text} -> ()"
    made.define(text.removeprefix(f"{made.ns}::"))


def implement(made: Library, name: str, function: Callable | None, key: str, own: str) -> None:
    """A kernel of an operator; None: the key is passed over. `own` is the signature of a C++ function, which has to fit
    the operator's."""
    key = "CompositeImplicitAutograd" if key in ("", "CatchAll") else key
    if function is None:
        made.impl(name, python_library.fallthrough_kernel, key)
        return
    full = table.qualified(made.ns, name.partition(".")[0])
    if full not in ops:                      # refused, or a kernel of ATen's for a device of others
        made.impl(name, function, key)
        return
    spec = ops[full].overload_list[0].definition.spec
    if own and made.ns != "aten":
        _check_signature(full, spec, custom_schema(made.ns, _ANY.sub("any", own)))
    params, check = spec.params, _check_of_results(full, spec.returns)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        if kwargs or len(args) < len(params):
            args += tuple(kwargs[p.name] if p.name in kwargs else p.default for p in params[len(args) :])
        return check(function(*args))

    kernel.__name__ = name
    kernel.takes_every_argument = True      # dispatch/dispatcher.py: plain calls give them as they were bound
    kernel.direct, kernel.check = function, check      # ... and the core calls what is in it
    kernel.gives_tensor = [_plain(kind) for kind in spec.returns] == ["Tensor"]
    made.impl(name, kernel, key)
    definition = ops[full].overload_list[0].definition
    if key == "Meta" and getattr(definition, "fake", kernel) is None:  # what it does without data, fake tensors do too
        definition.fake = kernel


def _check_signature(full: str, spec: Any, own: Any) -> None:
    """RuntimeError where a C++ function takes another number of arguments than its schema says, or gives others."""
    given, said = [_plain(r.type) for r in own.returns], [_plain(r) for r in spec.returns]
    if len(own.arguments) != len(spec.params) or given != said:
        raise RuntimeError(
            f"impl: the kernel of {full} takes {len(own.arguments)} arguments and gives ({', '.join(given)});"
            f" its schema says {spec.text}"
        )


def _plain(kind: Any) -> str:
    """A result's type without what C++ cannot tell apart: aliases, sizes of lists, symbolic numbers."""
    text = re.sub(r"\([^()]*\)|\[\d+\]", lambda found: "[]" if found[0].startswith("[") else "", str(kind))
    return text.replace("SymInt", "int").split(" ")[0]


def _check_of_results(full: str, returns: Sequence[Any]) -> Callable[[Any], Any]:
    """What looks at a kernel's results before anybody else does."""
    kinds = [_plain(kind) for kind in returns]

    def wrong(result: Any) -> TypeError:
        given = [type(r).__name__ for r in (result if isinstance(result, tuple) else (result,))]
        return TypeError(f"{full}: its schema gives ({', '.join(kinds)}), the kernel gave ({', '.join(given)})")

    def one_tensor(result: Any) -> Any:
        if not isinstance(result, _C.Tensor):
            raise wrong(result)
        return result

    def several(result: Any) -> Any:
        count = len(result) if isinstance(result, tuple) else 0 if result is None else 1
        parts = result if isinstance(result, tuple) else (result,) * count
        if count != len(kinds) or any(
            isinstance(part, _C.Tensor) != (kind == "Tensor")
            for part, kind in zip(parts, kinds, strict=True)
            if kind in _PLAIN_KINDS
        ):
            raise wrong(result)
        return result

    return one_tensor if kinds == ["Tensor"] else several


def fall_back(made: Library, function: Callable | None) -> None:
    """What a whole key does where an operator says nothing."""
    if function is None:
        made.fallback(python_library.fallthrough_kernel, made.dispatch_key)
        return

    def kernel(op: Any, *args: Any, **kwargs: Any) -> Any:
        return function(f"{op.namespace}::{op._opname}", op._overloadname, *args, *kwargs.values())

    made.fallback(kernel, made.dispatch_key)


def note_failure(message: str, where: str) -> None:
    """A block of C++ failed while its library was loaded: the import raises it."""
    _failures.append(f"{message} ({where})")


def raise_failures() -> None:
    """RuntimeError with what failed since it was last asked; all that was registered since then is taken back."""
    said, made = "; ".join(_failures), _loading[:]
    _failures.clear()
    _loading.clear()
    if said:
        for take_back in reversed(made):
            take_back()
        raise RuntimeError(f"registering operators: {said}")


# --- classes ----------------------------------------------------------------------------------------------------------


class CppObject(ScriptObject):
    """An instance of a C++ class that class_<T> registered."""

    _members: dict[str, Any] = {}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        make = type(self).__dict__.get("_construct")
        if make is None:
            raise RuntimeError(f"{self.qualified} has no constructor: its class_<T> defines no torch::init")
        object.__setattr__(self, "_rushlight_custom", make(*args, **kwargs)._rushlight_custom)

    def state(self) -> Any:
        give = getattr(type(self), "__getstate__own", None)
        if give is None:
            raise RuntimeError(f"{self.qualified} cannot be pickled: its class_<T> defines no def_pickle")
        return give(self)

    @classmethod
    def from_state(cls, state: Any) -> CppObject:
        take = getattr(cls, "__setstate__own", None)
        if take is None:
            raise RuntimeError(f"{cls.qualified} cannot be unpickled: its class_<T> defines no def_pickle")
        return take(state)


def make_class(space: str, name: str, type_name: str, doc: str) -> str:
    """A class of `torch.classes`."""
    qualified = f"__torch__.torch.classes.{space}.{name}"
    if qualified in classes:
        raise RuntimeError(f"class_: {space}.{name} is registered already")
    _loading.append(lambda: (classes.pop(qualified, None), _by_type.pop(type_name, None)))
    _by_type[type_name] = type(name, (CppObject,), {"qualified": qualified, "__doc__": doc or None})
    return qualified


def class_word(type_name: str) -> str:
    """The schema's word for instances of a C++ type."""
    found = _by_type.get(type_name)
    if found is None:
        raise TypeError(
            f"class_: the C++ type {type_name} is not registered; register it before operators that take it"
        )
    return found.qualified


def add_member(
    qualified: str, kind: str, name: str, function: Callable, doc: str, given: list[tuple[str, Any]], count: int
) -> None:
    """A method, constructor, static method or half of a property."""
    cls = classes[qualified]
    names = [n for n, _ in given]
    values = dict(given)

    def filled(args: tuple, kwargs: dict[str, Any], skip: int) -> tuple:
        if len(args) - skip == count and not kwargs:
            return args
        if not names or len(args) - skip > count:
            raise TypeError(f"{cls.__name__}.{name}: expected {count} arguments, got {len(args) - skip + len(kwargs)}")
        rest = []
        for one in names[len(args) - skip :]:
            value = kwargs.pop(one) if one in kwargs else values[one]
            if value is Ellipsis:
                raise TypeError(f"{cls.__name__}.{name}: the argument {one!r} is missing")
            rest.append(value)
        if kwargs:
            raise TypeError(f"{cls.__name__}.{name}: unexpected arguments {sorted(kwargs)}")
        return (*args, *rest)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(*filled((self, *args), kwargs, 1))

    def free(*args: Any, **kwargs: Any) -> Any:
        return function(*filled(args, kwargs, 0))

    method.__name__ = free.__name__ = name
    method.__doc__ = free.__doc__ = doc or None
    own = {"__getstate__": "__getstate__own", "__setstate__": "__setstate__own", "__init__": "_construct"}.get(
        name, name
    )
    if kind in ("get", "set"):
        before = cls.__dict__.get(name)
        before = before if isinstance(before, property) else property()
        setattr(cls, name, before.getter(method) if kind == "get" else before.setter(method))
    else:
        setattr(cls, own, method if kind == "method" else staticmethod(free))


def instance(type_name: str, kept: Any) -> CppObject:
    """The Python object for an instance that C++ gives out."""
    found = _by_type.get(type_name)
    if found is None:
        raise TypeError(f"class_: the C++ type {type_name} is not registered")
    made = found.__new__(found)
    object.__setattr__(made, "_rushlight_custom", kept)
    return made


# --- calls ------------------------------------------------------------------------------------------------------------


def operator(name: str, label: str) -> Any:
    """The callable that `namespace::name` and an overload mean."""
    from .. import ops as spaces  # noqa: PLC0415 - a module of that name

    space, _, short = name.partition("::")
    try:
        packet = getattr(getattr(spaces, space), short)
        return getattr(packet, label or "default") if space == "aten" or label else packet
    except AttributeError:
        raise RuntimeError(f"Could not find schema for {name}.{label}") from None


def schema_text(op: Any) -> str:
    """An operator's schema, as text."""
    found = getattr(op, "_schema", None)
    return str(found if found is not None else op.default._schema)


def calling_form(op: Any) -> tuple[Any, tuple[str, ...], int]:
    """What takes all arguments of an operator at once, the names of those that have to be named, and their number."""
    schema = getattr(op, "_schema", None)
    if schema is None:
        schema = op.default._schema
    names = tuple(p.name for p in schema.arguments if p.kwarg_only)
    return getattr(op, "op", op) if schema.space != "aten" else op, names, len(schema.arguments)


def call_operator(op: Any, args: tuple) -> Any:
    """Call with every argument by place; those that have to be named are."""
    schema = getattr(op, "_schema", None)
    if schema is None:
        schema = op.default._schema
    params = schema.arguments
    places = sum(not p.kwarg_only for p in params)
    named = {p.name: v for p, v in zip(params[places:], args[places:], strict=False)}
    return op(*args[:places], **named)
