"""Guards: what a captured graph relies on, and the check that it still holds.

Enters: `Guard(source, kind, value)`, each with the user's line that made it. Leaves: a `GuardTree`: `check` says
whether all hold for the locals, globals and cells of a call; `explain` names the first that does not. Where following
a source raises, the guard does not hold. Refuses: nothing; a guard that cannot be checked is a bug of whoever made it.
"""

from __future__ import annotations

import enum
import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CellType
from typing import Any

from ... import _C
from ..._C import Tensor
from ...base import settings
from ...base.bits import BITS
from ...devices.base import default_device
from ...dispatch import autocast
from ...dispatch.keys import AUTOCAST
from ...dispatch.modes import state as modes
from ...loops.record import Record
from ...rules import levels
from ..record import tracing
from .sources import (
    Attribute,
    Cell,
    CellObject,
    ClassAttribute,
    Constant,
    DictKey,
    DictOf,
    FunctionModes,
    Global,
    GlobalState,
    HeldItem,
    Item,
    Kept,
    Length,
    Local,
    OffsetOf,
    Scope,
    ShapeOf,
    Source,
    StrideOf,
    TypeOf,
    Viewed,
)


class Kind(enum.Enum):
    """What a guard says of the value at its source. The comment is the type of the guard's `value`."""

    TYPE_IS = "type"                # type: exactly this class
    ID_IS = "id"                    # object: this very object (held weakly where that can be)
    EQUALS = "equals"               # immutable value: same type, same value, down to the items
    TENSOR = "tensor"               # TensorLayout
    LENGTH = "length"               # int: len() of a list, tuple, dict, set or str
    DICT_KEYS = "keys"              # tuple: the keys of a dict, in their order
    HAS_KEY = "has key"             # the key: is in the dict
    LACKS_KEY = "lacks key"         # the key: is not in the dict
    HAS_ATTR = "has attribute"      # str: hasattr
    LACKS_ATTR = "lacks attribute"  # str: not hasattr
    ALIASED = "same"                # Source: both are one object
    NOT_ALIASED = "distinct"        # tuple of Sources: this object and those are all distinct
    SYMBOLIC = "symbolic"           # Symbolic: a relation between integers
    PREDICATE = "predicate"         # Predicate: a function that answers; for what has no kind of its own
    MODES = "modes"                 # Modes: grad mode, autocast, default dtype and device, ...


class TensorLayout(Record):
    """What is relied upon of a tensor; sizes and strides that are None may be anything."""

    type: type
    dtype: Any
    device: Any
    requires_grad: bool
    sizes: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    is_leaf: bool | None = None
    is_contiguous: bool | None = None      # where strides are left open
    is_inference: bool = False
    is_view: bool | None = None
    bits: int = 0                          # whether it shows conjugates or negatives (base/bits.py)

    @staticmethod
    def of(t: Tensor, dynamic: Sequence[int] = ()) -> TensorLayout:
        """What a tensor is now. Sizes of `dynamic` dimensions are left open, and then all strides but those that are
        numbers all the same; that it is dense in row-major order, where it is, is relied upon."""
        open_dims = frozenset(dynamic)
        sizes = tuple(None if d in open_dims else int(n) for d, n in enumerate(t.shape))
        # A stride hangs on the sizes of the dimensions inside it: with none of them open, it is a number.
        strides = tuple(
            int(s) if not open_dims or (int(s) <= 1 and d not in open_dims) or not any(
                int(t.stride(k)) < int(s) or (int(t.stride(k)) == int(s) and k > d) for k in open_dims
            ) else None
            for d, s in enumerate(t.stride())
        )
        return TensorLayout(type(t), t.dtype, t.device, t.requires_grad, sizes, strides, t.is_leaf,
                            t.is_contiguous() if open_dims else None, t.is_inference(), None, t._keys & BITS)

    def refusal(self, t: Any) -> str | None:
        """Why a value is no such tensor; None if it is one."""
        if type(t) is not self.type:
            return f"it is a {type(t).__name__}, expected {self.type.__name__}"
        for name in ("dtype", "device", "requires_grad"):
            if getattr(t, name) != getattr(self, name):
                return f"its {name} is {getattr(t, name)}, expected {getattr(self, name)}"
        if t._keys & BITS != self.bits:
            return "its conjugate or negative bit is another"
        if t.ndim != len(self.sizes):
            return f"it has {t.ndim} dimensions, expected {len(self.sizes)}"
        for what, given, wanted in (("size", t.shape, self.sizes), ("stride", t.stride(), self.strides)):
            for d, (is_, want) in enumerate(zip(given, wanted, strict=True)):
                if want is not None and is_ != want and (what == "size" or t.shape[d] > 1):
                    return f"its {what} {d} is {is_}, expected {want}"
        for name in ("is_leaf", "is_contiguous", "is_inference", "is_view"):
            want = getattr(self, name)
            if want is not None and (is_ := _fact(t, name)) is not want:
                return f"{name} is {is_}, expected {want}"
        return None


def _fact(t: Tensor, name: str) -> bool:
    if name == "is_view":
        return t._is_view()
    value = getattr(t, name)
    return value() if callable(value) else value


class Symbolic(Record):
    """A relation between integers (sizes, mostly): `holds(*values of sources)`; `text` shows it."""

    sources: tuple[Source, ...]
    holds: Callable[..., bool]
    text: str


class Assumed:
    """What was assumed of symbols: a relation of `Symbolic` guards. The first `num_sizes` of them are sizes."""

    def __init__(self, names: tuple[str, ...], env: Any, num_sizes: int) -> None:
        self.names, self.env, self.num_sizes = names, env, num_sizes

    def __call__(self, *values: Any) -> bool:
        return min(values[: self.num_sizes], default=2) >= 2 and self.env.holds_for(
            dict(zip(self.names, values, strict=True)))


class Predicate(Record):
    """A function of the value that answers, and what it asks in words. It must be quick, and change nothing."""

    holds: Callable[[Any], bool]
    text: str


class Modes(Record):
    """What decides, besides arguments, what ops do on this thread."""

    grad: bool
    inference: bool
    keys: tuple[int, int]
    autocast: tuple | None
    default_dtype: Any
    default_device: Any
    deterministic: bool
    function_modes: tuple[int, ...]
    dispatch_modes: tuple[int, ...]
    transforms: int
    words: tuple            # the same and more, as the core has it

    @staticmethod
    def now() -> Modes:
        keys = _C.get_thread_keys()
        return Modes(
            _C.is_grad_enabled(), _C.is_inference_mode_enabled(), keys, _casting_now(), _C.get_default_dtype(),
            default_device(), settings.are_deterministic_algorithms_enabled(),
            tuple(map(id, modes.function_modes)), tuple(map(id, modes.dispatch_modes)), len(levels.state.stack),
            tracing.mode_words(),
        )


def _casting_now() -> tuple | None:
    """What mixed precision does on this thread; None where it is off."""
    keys, excluded = _C.get_thread_keys()
    if not keys & ~excluded & AUTOCAST:
        return None
    return tuple(autocast.state.enabled.items()), tuple(autocast.state.dtypes.items())


class Guard:
    """One thing relied upon. `where` is the user's line that relied on it ("file.py:12 in f")."""

    __slots__ = ("source", "kind", "value", "where")

    def __init__(self, source: Source, kind: Kind, value: Any = None, where: str = "") -> None:
        self.source, self.kind, self.value, self.where = source, kind, value, where

    @property
    def key(self) -> tuple:
        """Guards with equal keys say the same."""
        simple = self.kind in (Kind.LENGTH, Kind.HAS_ATTR, Kind.LACKS_ATTR, Kind.TENSOR, Kind.ALIASED)
        return self.source, self.kind, self.value if simple else id(self.value)

    def __str__(self) -> str:
        return _DESCRIBED[self.kind](str(self.source), self.value) + (f"    # {self.where}" if self.where else "")


_DESCRIBED: dict[Kind, Callable[[str, Any], str]] = {
    Kind.TYPE_IS: lambda s, v: f"type({s}) is {v.__module__}.{v.__qualname__}",
    Kind.ID_IS: lambda s, v: f"{s} is {_short(v)}",
    Kind.EQUALS: lambda s, v: f"{s} == {_short(v)}",
    Kind.TENSOR: lambda s, v: f"{s}: {_layout_text(v)}",
    Kind.LENGTH: lambda s, v: f"len({s}) == {v}",
    Kind.DICT_KEYS: lambda s, v: f"list({s}) == {_short(list(v))}",
    Kind.HAS_KEY: lambda s, v: f"{v!r} in {s}",
    Kind.LACKS_KEY: lambda s, v: f"{v!r} not in {s}",
    Kind.HAS_ATTR: lambda s, v: f"hasattr({s}, {v!r})",
    Kind.LACKS_ATTR: lambda s, v: f"not hasattr({s}, {v!r})",
    Kind.ALIASED: lambda s, v: f"{s} is {v}",
    Kind.NOT_ALIASED: lambda s, v: f"{', '.join([s, *map(str, v)])} are distinct objects",
    Kind.SYMBOLIC: lambda s, v: v.text,
    Kind.PREDICATE: lambda s, v: f"{s}: {v.text}",
    Kind.MODES: lambda s, v: f"modes are {v}",
}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}...{text[-15:]}"


def _layout_text(layout: TensorLayout) -> str:
    sizes = ", ".join("?" if n is None else str(n) for n in layout.sizes)
    return (f"{layout.type.__name__} {str(layout.dtype).rpartition('.')[2]}[{sizes}] on {layout.device}"
            + (", requires grad" if layout.requires_grad else ""))


def same_value(a: Any, b: Any) -> bool:
    """Whether two immutable values are alike to a program: same types, same values, the sign of zero included."""
    if type(a) is not type(b):
        return False
    if type(a) is float:
        return (a == b and math.copysign(1, a) == math.copysign(1, b)) or (a != a and b != b)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same_value, a, b))
    if type(a) is complex:
        return same_value(a.real, b.real) and same_value(a.imag, b.imag)
    if type(a) is frozenset:      # 1 and True are one item to a set, and not to a program
        return a == b and sorted(map(_typed, a)) == sorted(map(_typed, b))
    return a is b or bool(a == b)


def _typed(item: Any) -> str:
    return f"{type(item).__qualname__} {item!r}"


class Held:
    """An object whose identity counts: held weakly where its class allows it."""

    __slots__ = ("is_weak", "reference", "text")

    def __init__(self, value: Any) -> None:
        self.text = _short(value)
        try:
            self.reference: Any = weakref.ref(value)
            self.is_weak = True
        except TypeError:
            self.reference, self.is_weak = value, False

    def is_(self, value: Any) -> bool:
        """Whether a value is the object; nothing is once it is gone."""
        return value is (self.reference() if self.is_weak else self.reference) and not (self.is_weak and value is None)

    def __repr__(self) -> str:
        return self.text


def failure(guard: Guard, scope: Scope) -> str | None:
    """Why a guard does not hold in a scope; None if it does."""
    try:
        value = guard.source.evaluate(scope)
        return None if _holds(guard, value, scope) else _shown_failure(guard, value)
    except Exception as error:      # noqa: BLE001 - a path that cannot be followed is a guard that fails
        return f"{guard.source} cannot be read: {type(error).__name__}: {error}"


def _shown_failure(guard: Guard, value: Any) -> str:
    if guard.kind is Kind.TENSOR:
        return f"{guard.source}: {guard.value.refusal(value)}"
    if guard.kind is Kind.MODES:
        now = Modes.now()
        changed = [n for n in Modes.fields if getattr(now, n) != getattr(guard.value, n)]
        return ", ".join(f"{n} is {getattr(now, n)}, was {getattr(guard.value, n)}" for n in changed)
    if guard.kind is Kind.LENGTH:
        return f"len({guard.source}) == {guard.value}, got {len(value)}"
    text = _DESCRIBED[guard.kind](str(guard.source), guard.value)
    return text if guard.kind in (Kind.SYMBOLIC, Kind.ALIASED, Kind.NOT_ALIASED) else f"{text}, got {_short(value)}"


def _holds(guard: Guard, value: Any, scope: Scope) -> bool:
    wanted = guard.value
    match guard.kind:
        case Kind.TYPE_IS:
            return type(value) is wanted
        case Kind.ID_IS:
            return wanted.is_(value) if isinstance(wanted, Held) else value is wanted
        case Kind.EQUALS:
            return same_value(value, wanted)
        case Kind.TENSOR:
            return wanted.refusal(value) is None
        case Kind.LENGTH:
            return len(value) == wanted
        case Kind.DICT_KEYS:
            return len(value) == len(wanted) and all(map(_same_key, value, wanted))
        case Kind.HAS_KEY:
            return wanted in value
        case Kind.LACKS_KEY:
            return wanted not in value
        case Kind.HAS_ATTR:
            return hasattr(value, wanted)
        case Kind.LACKS_ATTR:
            return not hasattr(value, wanted)
        case Kind.ALIASED:
            return value is wanted.evaluate(scope)
        case Kind.NOT_ALIASED:
            found = [value, *(source.evaluate(scope) for source in wanted)]
            return len({id(one) for one in found}) == len(found)
        case Kind.SYMBOLIC:
            return bool(wanted.holds(*(source.evaluate(scope) for source in wanted.sources)))
        case Kind.PREDICATE:
            return bool(wanted.holds(value))
        case Kind.MODES:
            return Modes.now() == wanted
    raise AssertionError(f"dynamo: no such guard: {guard.kind}")


def _same_key(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and a == b)


def _weakened(guard: Guard) -> Guard:
    """The same guard, not keeping alive what it knows by identity."""
    return Guard(guard.source, guard.kind, Held(guard.value), guard.where) if guard.kind is Kind.ID_IS else guard


class GuardTree:
    """The guards of one entry, for a code whose flat locals are `parameters` and whose free variables `freevars`.
    `native` is what checks them."""

    def __init__(self, guards: Sequence[Guard], parameters: Sequence[str], freevars: Sequence[str] = ()) -> None:
        self.guards = [_weakened(guard) for guard in {guard.key: guard for guard in guards}.values()]
        self.parameters, self.freevars = tuple(parameters), tuple(freevars)
        builder = _Builder(self)
        self.native, self.places = builder.tree(), builder.places      # and its nodes, by their sources

    def check(self, locals: Sequence[Any], globals: dict[str, Any], cells: Sequence[CellType] = ()) -> bool:
        """Whether all guards hold."""
        return self.native.check(locals, globals, tuple(cells or ()))

    def explain(
        self, locals: Sequence[Any], globals: Mapping[str, Any], cells: Sequence[CellType] = ()
    ) -> tuple[Guard, str] | None:
        """The first guard that does not hold, and why."""
        return next(self.failures(locals, globals, cells), None)

    def failures(
        self, locals: Sequence[Any], globals: Mapping[str, Any], cells: Sequence[CellType] = ()
    ) -> Iterator[tuple[Guard, str]]:
        """The guards that do not hold, each with why."""
        scope = Scope(dict(zip(self.parameters, locals, strict=True)), globals,
                      dict(zip(self.freevars, cells or (), strict=True)))
        for guard in self.guards:
            why = failure(guard, scope)
            if why is not None:
                yield guard, why


class _Builder:
    """Turns guards into the core's tree: every source once, after the one it starts from."""

    def __init__(self, tree: GuardTree) -> None:
        self.local = {name: i for i, name in enumerate(tree.parameters)}
        self.cell = {name: i for i, name in enumerate(tree.freevars)}
        self.places: dict[Source, int] = {}
        self.nodes: list[list[Any]] = []        # parent, how, key, slot, checks
        self.related: list[tuple[str, tuple[int, ...], Any]] = []
        self.slots = 0
        # Modes and tensors fail most often, and cost least.
        first = (Kind.MODES, Kind.TYPE_IS, Kind.TENSOR)
        for guard in sorted(tree.guards, key=lambda g: g.kind not in first):
            self.add(guard)

    def tree(self) -> Any:
        return _C.GuardTree([tuple(node) for node in self.nodes], self.related, self.slots)

    def add(self, guard: Guard) -> None:
        value = guard.value
        match guard.kind:
            case Kind.ALIASED:
                self.related.append(("same", (self.slot(guard.source), self.slot(value)), None))
            case Kind.NOT_ALIASED:
                self.related.append(("distinct", tuple(map(self.slot, (guard.source, *value))), None))
            case Kind.SYMBOLIC:
                self.related.append(("symbolic", tuple(map(self.slot, value.sources)), value.holds))
            case _:
                self.nodes[self.place(guard.source)][4].append(_native_check(guard.kind, value))

    def slot(self, source: Source) -> int:
        """Where the value of a source is kept for relations."""
        node = self.nodes[self.place(source)]
        if node[3] < 0:
            node[3] = self.slots
            self.slots += 1
        return node[3]

    def place(self, source: Source) -> int:
        found = self.places.get(source)
        if found is None:
            parent = -1 if source.parent is None else self.place(source.parent)
            how, key = self.reading(source)
            found = self.places[source] = len(self.nodes)
            self.nodes.append([parent, how, key, -1, []])
        return found

    def reading(self, source: Source) -> tuple[str, Any]:
        match source:
            case Local(name):
                return "local", self.local[name]
            case Cell(name):
                return "cell", self.cell[name]
            case CellObject(name):
                return "cell object", self.cell[name]
            case _:
                how, field = _READS[type(source)]
                return how, getattr(source, field) if field else None


_READS: dict[type, tuple[str, str]] = {
    Global: ("global", "name"), Constant: ("constant", "value"), Attribute: ("attribute", "name"),
    DictOf: ("dict of", ""), Item: ("item", "key"), TypeOf: ("type of", ""), DictKey: ("key", "i"),
    Kept: ("item", "key"), HeldItem: ("dict item", "key"),
    Length: ("length", ""), ShapeOf: ("shape", "i"), StrideOf: ("stride", "i"), OffsetOf: ("offset", ""),
    ClassAttribute: ("class attribute", "name"), Viewed: ("viewed", ""), GlobalState: ("state", ""),
    FunctionModes: ("attribute", "name"),
}
_CHECKS = {
    Kind.TYPE_IS: "type", Kind.EQUALS: "equals", Kind.LENGTH: "length", Kind.DICT_KEYS: "keys", Kind.HAS_KEY: "has key",
    Kind.LACKS_KEY: "lacks key", Kind.HAS_ATTR: "has attribute", Kind.LACKS_ATTR: "lacks attribute",
}


def _native_check(kind: Kind, value: Any) -> tuple[str, Any]:
    if kind is Kind.ID_IS:
        return ("is weakly" if value.is_weak else "is"), value.reference
    if kind is Kind.PREDICATE:
        return "predicate", value.holds
    if kind is Kind.MODES:
        casting = value.autocast
        return "modes", (value.words, None if casting is None else lambda: _casting_now() == casting)
    if kind is Kind.TENSOR:
        flags = [2 if flag is None else int(flag) for flag in (value.requires_grad, value.is_leaf, value.is_contiguous,
                                                               value.is_inference, value.is_view)]
        return "tensor", (value.type, value.dtype, value.device, value.sizes, value.strides, *flags, value.bits)
    return _CHECKS[kind], value


_C.set_same_value(same_value)


def mode_guard(where: str = "") -> Guard:
    """That the modes of the thread are what they are now."""
    return Guard(GlobalState(), Kind.MODES, Modes.now(), where)
