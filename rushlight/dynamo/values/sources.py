"""Where values come from: paths that start at a frame's locals, cells or globals.

Enters: paths, as capture finds them. Leaves: code that loads the value (`emit`), the value itself (`evaluate`), and
text that reads as Python (`str`). Sources are frozen and compare by what they name. They must be plain to follow:
nothing that a source does may run code of the user's, but for `Attribute` of an object whose class says so.
"""

from __future__ import annotations

import builtins
import gc
import itertools
from collections.abc import Mapping
from types import CellType
from typing import TYPE_CHECKING, Any

from ..._C import Tensor, float64
from ...dispatch.modes import state as mode_state
from ...loops.record import Record
from ...tensors.interop import tensor

if TYPE_CHECKING:
    from ..bytecode.emitter import Emitter


class Scope(Record):
    """What sources are followed in: the locals of a frame, its globals, and the cells of its free variables."""

    locals: Mapping[str, Any]
    globals: Mapping[str, Any]
    cells: Mapping[str, CellType]


class Source(Record):
    """Somewhere a value is found."""

    is_quiet = False      # whether following it runs nobody's code, so that once is as good as twice

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__match_args__ = cls.fields

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(other) is type(self) and all(getattr(self, f) == getattr(other, f) for f in self.fields)

    def __hash__(self) -> int:
        """Paths are long, and asked for again and again: computed once."""
        found = self.__dict__.get("_hash")
        if found is None:
            found = self.__dict__["_hash"] = self.hashed()
        return found

    def hashed(self) -> int:
        return hash((type(self), *[getattr(self, f) for f in self.fields]))

    def emit(self, emitter: Emitter) -> None:
        """Write code that pushes the value."""
        raise NotImplementedError

    def evaluate(self, scope: Scope) -> Any:
        """The value; whatever error following the path gives."""
        raise NotImplementedError

    @property
    def parent(self) -> Source | None:
        """The source that this one starts from."""
        return getattr(self, "base", None)

    @property
    def root(self) -> Source:
        """The first source of the path."""
        return self if self.parent is None else self.parent.root


class Local(Source):
    """A parameter of the frame, by name."""

    name: str

    def emit(self, emitter: Emitter) -> None:
        emitter.load_local(self.name)

    def evaluate(self, scope: Scope) -> Any:
        return scope.locals[self.name]

    def __str__(self) -> str:
        return self.name


class Global(Source):
    """A global of the frame, or a built-in name."""

    name: str

    def emit(self, emitter: Emitter) -> None:
        emitter.load_global(self.name)

    def evaluate(self, scope: Scope) -> Any:
        if self.name in scope.globals:
            return scope.globals[self.name]
        return vars(builtins)[self.name]

    def __str__(self) -> str:
        return self.name


class Cell(Source):
    """What is in the cell of a free variable of the frame's code."""

    name: str

    def emit(self, emitter: Emitter) -> None:
        emitter.load_deref(self.name)

    def evaluate(self, scope: Scope) -> Any:
        return scope.cells[self.name].cell_contents

    def __str__(self) -> str:
        return self.name


class CellObject(Source):
    """The cell of a free variable itself."""

    name: str

    def emit(self, emitter: Emitter) -> None:
        emitter.load_cell(self.name)

    def evaluate(self, scope: Scope) -> Any:
        return scope.cells[self.name]

    def __str__(self) -> str:
        return f"cell({self.name})"


class Constant(Source):
    """One object, known now and kept: the globals of another module, a function found on a class, ...

    `shown` is how a reader would name it.
    """

    value: Any
    shown: str = ""

    def emit(self, emitter: Emitter) -> None:
        emitter.load_const(self.value)

    def evaluate(self, scope: Scope) -> Any:
        return self.value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)

    def __str__(self) -> str:
        return self.shown or f"<{type(self.value).__name__}>"


class Attribute(Source):
    """base.name, as Python finds it."""

    base: Source
    name: str

    def emit(self, emitter: Emitter) -> None:
        emitter.source(self.base)
        emitter.load_attr(self.name)

    def evaluate(self, scope: Scope) -> Any:
        return getattr(self.base.evaluate(scope), self.name)

    def __str__(self) -> str:
        return f"{self.base}.{self.name}"


class AsPlain(Source):
    """A tensor without the rules of its class: the same elements and history."""

    base: Source

    def emit(self, emitter: Emitter) -> None:
        emitter.load_const(as_plain)
        emitter.source(self.base)
        emitter.call(1)

    def evaluate(self, scope: Scope) -> Any:
        return as_plain(self.base.evaluate(scope))

    def __str__(self) -> str:
        return str(self.base)


def as_plain(t: Any) -> Tensor:
    """The same elements and history under the class of all tensors."""
    return t.as_subclass(Tensor)


class AsDouble(Source):
    """A float as a tensor of one element."""

    base: Source

    def emit(self, emitter: Emitter) -> None:
        emitter.load_const(as_double)
        emitter.source(self.base)
        emitter.call(1)

    def evaluate(self, scope: Scope) -> Any:
        return as_double(self.base.evaluate(scope))

    def __str__(self) -> str:
        return str(self.base)


def as_double(value: float) -> Tensor:
    """A tensor of one float64 element."""
    return tensor(value, dtype=float64)


class DictOf(Source):
    """The attributes that an object itself holds, as a dict; no property or __getattr__ is asked."""

    base: Source
    is_quiet = True

    def emit(self, emitter: Emitter) -> None:
        emitter.source(self.base)
        emitter.load_attr("__dict__")

    def evaluate(self, scope: Scope) -> Any:
        return object.__getattribute__(self.base.evaluate(scope), "__dict__")

    def __str__(self) -> str:
        return f"{self.base}.__dict__"


def viewed(view: Any) -> Any:
    """The mapping that a view of one looks at: all it holds."""
    return gc.get_referents(view)[0]


class Viewed(Source):
    """The mapping that a view of its keys, values or items looks at."""

    base: Source

    def emit(self, emitter: Emitter) -> None:
        emitter.load_const(viewed)
        emitter.source(self.base)
        emitter.call(1)

    def evaluate(self, scope: Scope) -> Any:
        return viewed(self.base.evaluate(scope))

    def __str__(self) -> str:
        return f"{self.base}.mapping"


class Item(Source):
    """base[key], for a key that is a literal (or hashed by identity, as classes and enum members are)."""

    base: Source
    key: Any
    is_quiet = True

    def emit(self, emitter: Emitter) -> None:
        emitter.source(self.base)
        emitter.load_const(self.key)
        emitter.subscr()

    def evaluate(self, scope: Scope) -> Any:
        return self.base.evaluate(scope)[self.key]

    def __eq__(self, other: object) -> bool:       # 1, 1.0 and True are other keys here
        return isinstance(other, Item) and other.base == self.base and type(other.key) is type(self.key) \
            and other.key == self.key

    __hash__ = Source.__hash__

    def __str__(self) -> str:
        held = self.base
        if isinstance(held, DictOf) and isinstance(self.key, str):      # reads as the attribute that it is
            return f"{held.base}.{self.key}"
        shown = f"{self.base}"
        for store in ("._parameters", "._buffers", "._modules"):
            if shown.endswith(store) and isinstance(self.key, str):
                inner = shown[: -len(store)]
                return f"{inner}.{self.key}" if self.key.isidentifier() else f"{inner}[{self.key}]"
        return f"{self.base}[{self.key!r}]"


def is_buffer(source: Source) -> bool:
    """Whether a source names a buffer of a module."""
    return isinstance(source, Item) and isinstance(source.base, Item) and source.base.key == "_buffers"


class HeldItem(Source):
    """What a dict holds under a key, whatever its class makes of `base[key]`."""

    base: Source
    key: Any

    def emit(self, emitter: Emitter) -> None:
        emitter.load_const(dict.__getitem__)
        emitter.source(self.base)
        emitter.load_const(self.key)
        emitter.call(2)

    def evaluate(self, scope: Scope) -> Any:
        return dict.__getitem__(self.base.evaluate(scope), self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HeldItem) and other.base == self.base and type(other.key) is type(self.key) \
            and other.key == self.key

    __hash__ = Source.__hash__

    def __str__(self) -> str:
        return f"{self.base}[{self.key!r}]"


class Kept(Source):
    """What a dict has for one object, such as an optimizer's state for a parameter."""

    base: Source
    key: Any

    def emit(self, emitter: Emitter) -> None:
        emitter.source(self.base)
        emitter.load_const(self.key)
        emitter.subscr()

    def evaluate(self, scope: Scope) -> Any:
        found = self.base.evaluate(scope).get(self.key)      # a dict with a default would make one
        if found is None:
            raise KeyError(f"{self.base} has nothing for the object")
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kept) and other.base == self.base and other.key is self.key

    def __hash__(self) -> int:
        return hash((self.base, id(self.key)))

    def __str__(self) -> str:
        return f"{self.base}[a {type(self.key).__name__}]"


class TypeOf(Source):
    """The class of an object."""

    base: Source

    def emit(self, emitter: Emitter) -> None:
        emitter.load_const(type)
        emitter.source(self.base)
        emitter.call(1)

    def evaluate(self, scope: Scope) -> Any:
        return type(self.base.evaluate(scope))

    def __str__(self) -> str:
        return f"type({self.base})"


def key_at(mapping: Mapping, i: int) -> Any:
    """The i-th key of a dict (or item of a set), in its order."""
    return next(itertools.islice(mapping, i, None))


class DictKey(Source):
    """The i-th key of a dict."""

    base: Source
    i: int

    def emit(self, emitter: Emitter) -> None:
        emitter.load_const(key_at)
        emitter.source(self.base)
        emitter.load_const(self.i)
        emitter.call(2)

    def evaluate(self, scope: Scope) -> Any:
        return key_at(self.base.evaluate(scope), self.i)

    def __str__(self) -> str:
        return f"list({self.base})[{self.i}]"


class Length(Source):
    """len(base)."""

    base: Source

    def emit(self, emitter: Emitter) -> None:
        emitter.load_const(len)
        emitter.source(self.base)
        emitter.call(1)

    def evaluate(self, scope: Scope) -> Any:
        return len(self.base.evaluate(scope))

    def __str__(self) -> str:
        return f"len({self.base})"


class ShapeOf(Source):
    """The i-th size of a tensor."""

    base: Source
    i: int

    def emit(self, emitter: Emitter) -> None:
        emitter.source(self.base)
        emitter.load_attr("shape")
        emitter.load_const(self.i)
        emitter.subscr()

    def evaluate(self, scope: Scope) -> Any:
        return self.base.evaluate(scope).shape[self.i]

    def __str__(self) -> str:
        return f"{self.base}.shape[{self.i}]"


class StrideOf(Source):
    """The i-th stride of a tensor."""

    base: Source
    i: int

    def emit(self, emitter: Emitter) -> None:
        emitter.source(self.base)
        emitter.call_method("stride", self.i)

    def evaluate(self, scope: Scope) -> Any:
        return self.base.evaluate(scope).stride(self.i)

    def __str__(self) -> str:
        return f"{self.base}.stride({self.i})"


class OffsetOf(Source):
    """Where in its storage a tensor starts."""

    base: Source

    def emit(self, emitter: Emitter) -> None:
        emitter.source(self.base)
        emitter.call_method("storage_offset")

    def evaluate(self, scope: Scope) -> Any:
        return self.base.evaluate(scope).storage_offset()

    def __str__(self) -> str:
        return f"{self.base}.storage_offset()"


class ClassAttribute(Source):
    """What a class or its bases hold under a name, unbound: no descriptor is asked."""

    base: Source
    name: str

    def emit(self, emitter: Emitter) -> None:
        emitter.load_const(class_attribute)
        emitter.source(self.base)
        emitter.load_const(self.name)
        emitter.call(2)

    def evaluate(self, scope: Scope) -> Any:
        return class_attribute(self.base.evaluate(scope), self.name)

    def __str__(self) -> str:
        return f"{self.base}.{self.name}"


def class_attribute(cls: type, name: str) -> Any:
    """What a class or its bases hold under a name, unbound."""
    for one in cls.__mro__:
        if name in one.__dict__:
            return one.__dict__[name]
    raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")


class FunctionModes(Source):
    """The modes of the thread that see calls. Code that has them off while it runs keeps them in a local."""

    base: Source = Constant(mode_state, "modes")
    name = "function_modes"
    local = "<function modes>"

    def emit(self, emitter: Emitter) -> None:
        emitter.load_local(self.local)

    def evaluate(self, scope: Scope) -> Any:
        return mode_state.function_modes

    def __str__(self) -> str:
        return "function modes"


class GlobalState(Source):
    """The modes of the thread and the process: guards on them have no other place."""

    def emit(self, emitter: Emitter) -> None:
        raise TypeError("dynamo: the state of the process is checked, never loaded")

    def evaluate(self, scope: Scope) -> Any:
        return None

    def __str__(self) -> str:
        return "modes"
