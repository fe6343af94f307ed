"""Objects from outside of the captured frame, and the twins that stand for them while it is captured.

Enters: an object and the source it was read from. Leaves: a twin that the interpreter may use and change as if it were
the object: tensors become inputs of the graph (fakes), containers become copies filled with twins, objects of Python
classes become bare objects whose attributes are filled in when they are read. Nothing outside is ever written to;
`effects.py` compares twins with what they stand for at the end. Each read leaves the guards that make it hold again.
What has no parts that could change (functions, classes, modules, dtypes) stands for itself.
"""

from __future__ import annotations

import collections
import enum
import functools
import itertools
import operator
import re
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ... import _C
from ..._C import Tensor
from ...base.quantizers import qscheme
from ...base.shape import Size, layout, memory_format
from ...fake import FakeTensor
from ...library import CustomOpDef
from ...nn import Module
from ...op import OpDefinition
from ..record import marks
from ..record.breaks import GraphBreak
from ..record.recorder import Recorder, without_modes
from ..record.tensor_classes import TENSORS, Way, parts, way_of
from . import iterators
from .guards import Guard, Kind, Predicate, TensorLayout, same_value
from .sources import AsPlain, Attribute, Constant, DictKey, DictOf, HeldItem, Item, Kept, Source, Viewed, viewed

_Op = type(_C.Tensor.add)
CONSTANTS = (int, float, bool, str, bytes, complex, type(None), type(...), type(NotImplemented), _C.dtype, _C.device)
ITSELF = (
    type, types.ModuleType, types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
    types.ClassMethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType, types.GenericAlias,
    types.UnionType, property, classmethod, staticmethod, types.CodeType, re.Pattern, operator.itemgetter,
    operator.attrgetter, operator.methodcaller, _Op, OpDefinition, functools._lru_cache_wrapper, types.MappingProxyType,
    CustomOpDef,
)
ITERATORS = frozenset((
    type(iter([])), type(iter(())), type(iter({})), type(iter(set())), type(iter(range(0))), type(iter("")), enumerate,
    zip, map, filter, type(reversed([])), itertools.chain, itertools.count, itertools.islice, itertools.repeat,
    itertools.product, itertools.cycle, type(iter({}.items())), type(iter({}.values())), type(iter(b"")),
    itertools.accumulate, itertools.zip_longest, itertools.starmap, itertools.takewhile, itertools.dropwhile,
    itertools.combinations, itertools.permutations, itertools.pairwise, itertools.compress,
))
VIEWS: dict[type, Callable[[Any], Any]] = {
    **{type(view(kind())): view for kind in (dict, collections.OrderedDict) for view in (kind.keys, kind.values,
                                                                                        kind.items)},
    types.MappingProxyType: types.MappingProxyType,
}
LARGE = 512       # containers with more members are read key by key


@dataclass(eq=False)
class Twin:
    """What is known of an object from outside, and what stands for it."""

    real: Any
    twin: Any
    source: Source
    kind: str
    before: Any = None                              # members of a container when it was first read
    read: dict[str, Any] = field(default_factory=dict)     # attributes of an object, as they were first read
    deleted: set[str] = field(default_factory=set)
    is_filled: bool = False         # every attribute was read: what the twin has is all there is

    @property
    def is_closed(self) -> bool:
        """Whether nothing is known of the object but that it is there."""
        return self.kind == "opaque"


class Outside:
    """All twins of one capture."""

    def __init__(self, recorder: Recorder, dynamic: Callable[[Source, Any], Any]) -> None:
        self.recorder, self.dynamic = recorder, dynamic
        self.guards: dict[tuple, Guard] = {}
        self.by_real: dict[int, Twin] = {}
        self.by_twin: dict[int, Twin] = {}
        self.inputs: list[tuple[Source, Any]] = []        # graph inputs in order: where from, and the real value
        self.kept: list[Any] = []
        self.taken: list[Constant] = []     # what was relied upon without a guard: it is the same in this process
        self.where: Callable[[], str] = lambda: ""
        self.numbers: dict[str, Source] = {}
        self.has_classes: Callable[[], None] = lambda: None      # told of tensors with rules of their own
        recorder.find_real = self.tensor_of

    # --- guards -------------------------------------------------------------------------------------------------------

    def guard(self, kind: Kind, source: Source, value: Any = None) -> None:
        """Keep a guard; what is `Constant` is always the same object."""
        if isinstance(source, Constant) and kind in (Kind.TYPE_IS, Kind.ID_IS, Kind.EQUALS):
            self.taken.append(source)
            return
        several = (Kind.LACKS_KEY, Kind.HAS_KEY, Kind.ALIASED, Kind.NOT_ALIASED, Kind.PREDICATE)
        key = kind, source, value if kind in several else None
        if key not in self.guards:
            self.guards[key] = Guard(source, kind, value, self.where())

    # --- admission ----------------------------------------------------------------------------------------------------

    def admit(self, value: Any, source: Source) -> Any:
        """The twin of an object that was read from `source`."""
        kind = type(value)
        if kind in CONSTANTS or isinstance(value, (layout, memory_format, qscheme)):
            return self.constant(value, source)
        known = self.by_real.get(id(value))
        if known is not None:
            self.guard_same(known, source)
            return known.twin
        if id(value) in self.by_twin:       # a twin that met its own kind again
            return value
        if isinstance(value, Tensor):
            return self.tensor(value, source)
        rule = _RULES.get(kind)
        if rule is not None:
            return rule(self, value, source)
        if isinstance(value, ITSELF) or kind.__module__.startswith("typing"):
            self.guard(Kind.ID_IS, source, value)
            return self.remember(value, value, source, "itself").twin
        if isinstance(value, marks.values):
            return self.plain(value, source)
        if isinstance(value, (enum.Enum, *marks.identities)):
            self.guard(Kind.ID_IS, source, value)
            return self.remember(value, value, source, "itself").twin
        if isinstance(value, tuple):
            return self.tuple_like(value, source)
        return self.object(value, source)

    def guard_same(self, known: Twin, source: Source) -> None:
        """The object that was found under another name before."""
        if source == known.source:
            return
        if known.kind == "itself":
            self.guard(Kind.ID_IS, source, known.real)
        elif known.kind != "cell":
            self.guard(Kind.ALIASED, source, known.source)

    def remember(self, real: Any, twin: Any, source: Source, kind: str, before: Any = None) -> Twin:
        """Note that `twin` stands for `real`."""
        result = Twin(real, twin, source, kind, before)
        self.by_real[id(real)] = result
        self.by_twin[id(twin)] = result
        self.kept += (real, twin)
        return result

    def constant(self, value: Any, source: Source) -> Any:
        """A value that the graph depends on."""
        result = self.symbol_or_itself(value, source)
        if result is value:
            self.guard(Kind.EQUALS, source, value)
        return result

    def symbol_or_itself(self, value: Any, source: Source) -> Any:
        """A symbol for a number that varies."""
        if type(value) in (int, float) and not isinstance(source, Constant):
            symbol = self.dynamic(source, value)
            if symbol is not None:
                return symbol
        return value

    def tensor(self, real: Tensor, source: Source) -> Any:
        if hasattr(type(real), "_taken_apart"):
            return self.taken_apart(real, source)
        if isinstance(real, FakeTensor):
            raise GraphBreak("unknown tensor", f"{source} is a tensor without elements")
        if type(real) not in TENSORS:
            self.has_classes()
            if (way := way_of(type(real))) is not Way.PLAIN:
                return self.tensor_of_class(real, source, way)
        dims = self.dynamic(source, real)
        fake = self.recorder.add_input(f"arg{len(self.inputs)}", real, dims, str(source))
        self.inputs.append((source, real))
        self.guard(Kind.TENSOR, source, TensorLayout.of(real, dims or ()))
        for d, questions in getattr(real, "_specialize_on", {}).items() if dims else ():
            for question in questions if d in dims else ():
                bool(question(fake.shape[d]))      # leaves a guard that says what it was
        return self.remember(real, fake, source, "tensor").twin

    def tensor_of_class(self, real: Any, source: Source, way: Way) -> Any:
        """A tensor with rules of its own: the graph gets it without them, or as it is if it is made of others."""
        kind = type(real)
        if way is Way.CLOSED:
            raise GraphBreak("tensor subclass", f"{source} is a {kind.__name__}, a tensor with rules of its own")
        if way is Way.WRAPPER:
            fake = self.recorder.add_wrapper(f"arg{len(self.inputs)}", real, str(source))
            self.inputs.append((source, real))
            self.guard_parts(real, source)
            return self.remember(real, fake, source, "tensor").twin
        place = AsPlain(source)
        with without_modes():
            bare = real.as_subclass(Tensor)
        dims = self.dynamic(place, bare)
        fake = self.recorder.add_input(f"arg{len(self.inputs)}", bare, dims, str(source))
        self.inputs.append((place, bare))
        layout = TensorLayout.of(bare, dims or ())
        self.guard(Kind.TENSOR, source, layout.but(type=kind, is_leaf=real.is_leaf))
        return self.remember(real, fake, source, "tensor").twin

    def guard_parts(self, real: Any, source: Source) -> None:
        """That a tensor made of others is made of the same kinds of tensors, in the same way."""
        with without_modes():      # its class may have its attributes seen
            self.guard(Kind.TENSOR, source, TensorLayout.of(real))
            if way_of(type(real)) is not Way.WRAPPER:
                return
            names, context = parts(real)
        same = getattr(type(real), "__metadata_guard__", None)

        def holds(t: Any) -> bool:
            now = parts(t)
            return now[0] == names and bool(same(context, now[1]) if same is not None else now[1] == context)

        self.guard(Kind.PREDICATE, source, Predicate(holds, f"{source} is made as it was"))
        for name in names:
            self.guard_parts(getattr(real, name), Attribute(source, name))

    def attribute_of(self, known: Twin, name: str) -> Source:
        """Where an attribute of a tensor is found."""
        return Attribute(known.source, name)

    def taken_apart(self, real: Any, source: Source) -> Any:
        """A tensor that stands for another one, inside of it, and says how: the graph is given the whole."""
        fake = self.recorder.add_taken_apart(f"arg{len(self.inputs)}", real)
        self.inputs.append((source, real))
        self.guard(Kind.TENSOR, source, TensorLayout.of(real, ()))
        for name in type(real)._told_apart_by:
            self.admit(getattr(real, name), Attribute(source, name))
        return self.remember(real, fake, source, "tensor").twin

    def tensor_of(self, real: Tensor) -> FakeTensor | None:
        """The fake of a tensor that native code found by itself."""
        known = self.by_real.get(id(real))
        return None if known is None else known.twin

    def list_like(self, real: Any, source: Source) -> Any:
        self.guard(Kind.TYPE_IS, source, type(real))
        self.guard(Kind.LENGTH, source, len(real))
        if len(real) > LARGE and not all(type(x) in CONSTANTS for x in real):
            raise GraphBreak("opaque object", f"{source} has {len(real)} members")
        twin: Any = [] if type(real) is list else collections.deque(maxlen=real.maxlen)
        known = self.remember(real, twin, source, "list")
        twin.extend(self.admit(x, Item(source, i)) for i, x in enumerate(real))
        known.before = list(twin)
        return twin

    def tuple_like(self, real: tuple, source: Source) -> Any:
        if type(real) is tuple and real and all(type(x) in CONSTANTS for x in real):
            members = tuple([self.symbol_or_itself(x, Item(source, i)) for i, x in enumerate(real)])
            if any(a is not b for a, b in zip(members, real, strict=True)):
                return self.tuple_of_numbers(real, members, source)
            self.guard(Kind.EQUALS, source, real)
            return self.remember(real, real, source, "itself").twin
        self.guard(Kind.TYPE_IS, source, type(real))
        self.guard(Kind.LENGTH, source, len(real))
        members = [self.admit(x, Item(source, i)) for i, x in enumerate(real)]
        if type(real) is tuple and all(a is b for a, b in zip(members, real, strict=True)):
            self.remember(real, real, source, "tuple")
            return real
        twin = tuple.__new__(type(real), members) if type(real).__flags__ & 512 else type(real)(members)
        return self.remember(real, twin, source, "tuple").twin

    def tuple_of_numbers(self, real: tuple, members: tuple, source: Source) -> Any:
        """A tuple of constants of which some are symbols now."""
        self.guard(Kind.TYPE_IS, source, tuple)
        self.guard(Kind.LENGTH, source, len(real))
        for i, (number, symbol) in enumerate(zip(real, members, strict=True)):
            if symbol is number:
                self.guard(Kind.EQUALS, Item(source, i), number)
        return self.remember(real, members, source, "tuple").twin

    def dict_like(self, real: Any, source: Source) -> Any:
        self.guard(Kind.TYPE_IS, source, type(real))
        if len(real) > LARGE:
            raise GraphBreak("opaque object", f"{source} is a dict of {len(real)} keys")
        keys = list(real)
        if not all(is_plain_key(k) or isinstance(k, Tensor) for k in keys):
            raise GraphBreak("opaque object", f"{source} is a dict whose keys are objects")
        has_tensors = any(isinstance(k, Tensor) for k in keys)
        if has_tensors:
            self.guard(Kind.PREDICATE, source, Predicate(_has_keys(keys), "has the same tensors as keys"))
        else:
            self.guard(Kind.DICT_KEYS, source, tuple(keys))
        if type(real) is collections.defaultdict:
            twin: Any = collections.defaultdict(self.admit(real.default_factory, Attribute(source, "default_factory")))
        else:
            twin = type(real)()
        known = self.remember(real, twin, source, "dict")
        for i, key in enumerate(keys):
            if isinstance(key, Tensor):
                twin[self.admit(key, DictKey(source, i))] = self.admit(real[key], Kept(source, key))
            else:
                twin[key] = self.admit(real[key], Item(source, key))
        known.before = dict(twin)
        return twin

    def view(self, real: Any, source: Source) -> Any:
        """A view of a dict: another object at every call, and the same one of the same dict."""
        if is_of_class(real):
            self.guard(Kind.ID_IS, source, real)
            return self.remember(real, real, source, "itself").twin
        self.guard(Kind.TYPE_IS, source, type(real))
        mapping = self.admit(viewed(real), Viewed(source))
        return self.remember(real, VIEWS[type(real)](mapping), source, "view").twin

    def set_like(self, real: Any, source: Source) -> Any:
        self.guard(Kind.TYPE_IS, source, type(real))
        if len(real) > LARGE or not all(is_plain_key(k) for k in real):
            raise GraphBreak("opaque object", f"{source} is a set of objects")
        self.guard(Kind.EQUALS, source, frozenset(real) if type(real) is frozenset else set(real))
        if type(real) is frozenset:
            return self.remember(real, real, source, "itself").twin
        return self.remember(real, set(real), source, "set", set(real)).twin

    def plain(self, real: Any, source: Source) -> Any:
        """Values of immutable built-in types that hold others."""
        self.guard(Kind.EQUALS, source, real)
        return self.remember(real, real, source, "itself").twin

    def compiled(self, real: Any, source: Source) -> Any:
        """A function that is compiled by itself is looked into as if it were not."""
        self.guard(Kind.ID_IS, source, real)
        return self.admit(real.function, Attribute(source, "function"))

    def function(self, real: types.FunctionType, source: Source) -> Any:
        if "<locals>" in real.__qualname__ and not isinstance(source, Constant):
            self.guard(Kind.TYPE_IS, source, types.FunctionType)
            self.guard(Kind.ID_IS, Attribute(source, "__code__"), real.__code__)
        else:
            self.guard(Kind.ID_IS, source, real)
        return self.remember(real, real, source, "function").twin

    def method(self, real: Any, source: Source) -> Any:
        self.guard(Kind.TYPE_IS, source, types.MethodType)
        function = self.admit(real.__func__, Attribute(source, "__func__"))
        owner = self.admit(real.__self__, Attribute(source, "__self__"))
        return self.remember(real, types.MethodType(function, owner), source, "method").twin

    def builtin(self, real: Any, source: Source) -> Any:
        owner = getattr(real, "__self__", None)
        if owner is None or isinstance(owner, (types.ModuleType, type)):
            self.guard(Kind.ID_IS, source, real)
            return self.remember(real, real, source, "itself").twin
        self.guard(Kind.TYPE_IS, source, type(real))
        self.guard(Kind.EQUALS, Attribute(source, "__name__"), real.__name__)
        twin = getattr(self.admit(owner, Attribute(source, "__self__")), real.__name__)
        return self.remember(real, twin, source, "method").twin

    def partial(self, real: functools.partial, source: Source) -> Any:
        self.guard(Kind.TYPE_IS, source, functools.partial)
        function = self.admit(real.func, Attribute(source, "func"))
        args = self.admit(real.args, Attribute(source, "args"))
        kwargs = self.admit(real.keywords, Attribute(source, "keywords"))
        return self.remember(real, functools.partial(function, *args, **kwargs), source, "partial").twin

    def namespace(self, real: types.SimpleNamespace, source: Source) -> Any:
        self.guard(Kind.TYPE_IS, source, types.SimpleNamespace)
        known = self.remember(real, types.SimpleNamespace(), source, "object")
        self.fill(known)
        return known.twin

    def cell(self, real: types.CellType, source: Source, contents_at: Source | None = None) -> types.CellType:
        """A cell of a closure: what it holds may be changed by the frame."""
        known = self.by_real.get(id(real))
        if known is not None:
            return known.twin
        twin = types.CellType()
        self.guard(Kind.TYPE_IS, source, types.CellType)
        known = self.remember(real, twin, source, "cell")
        try:
            contents = real.cell_contents
        except ValueError:
            return twin
        twin.cell_contents = known.before = self.admit(
            contents, contents_at or Attribute(source, "cell_contents"))
        return twin

    def object(self, real: Any, source: Source) -> Any:
        """A bare object of the same class; attributes come when they are read."""
        kind = type(real)
        if isinstance(real, Iterator) and not is_python_class(kind):      # it may be another one each time
            self.guard(Kind.TYPE_IS, source, kind)
            left = iterators.remaining(real) if iterators.may_be_drawn(source) else None
            if left is None or not all(map(is_plain_key, left)):
                return self.remember(real, real, source, "opaque").twin
            members = tuple(left)
            self.guard(Kind.PREDICATE, source, Predicate(
                lambda now: same_value(tuple(iterators.remaining(now) or ()), members), f"{source} has {left} left"))
            return self.remember(real, iterators.copied(real), source, "iterator", len(left)).twin
        if not is_python_class(kind) or hasattr(kind, "__del__"):
            self.guard(Kind.ID_IS, source, real)
            return self.remember(real, real, source, "opaque").twin
        self.guard(Kind.TYPE_IS, source, kind)
        base = container_base(kind)
        if base is None:
            try:
                twin = object.__new__(kind)
            except TypeError:      # a base made in C
                self.guard(Kind.ID_IS, source, real)
                return self.remember(real, real, source, "opaque").twin
            return self.remember(real, twin, source, "object").twin
        if base not in (dict, collections.OrderedDict, list) or len(real) > LARGE:
            self.guard(Kind.ID_IS, source, real)
            return self.remember(real, real, source, "opaque").twin
        item: type[Source] = Item
        if len(real) and any("__getitem__" in one.__dict__ for one in kind.__mro__[:kind.__mro__.index(base)]):
            if base is list:
                raise GraphBreak("opaque object", f"{source} is a {kind.__qualname__}, which has items of its own")
            item = HeldItem
        twin = base.__new__(kind)
        known = self.remember(real, twin, source, "object")
        self.guard(Kind.LENGTH, source, len(real))
        if base is list:
            list.extend(twin, [self.admit(x, Item(source, i)) for i, x in enumerate(list.__iter__(real))])
            known.before = list(list.__iter__(twin))
        else:
            keys = list(base.__iter__(real))
            if not all(is_plain_key(k) for k in keys):
                raise GraphBreak("opaque object", f"{source} is a dict whose keys are objects")
            self.guard(Kind.DICT_KEYS, source, tuple(keys))
            for k in keys:
                base.__setitem__(twin, k, self.admit(dict.__getitem__(real, k), item(source, k)))
            known.before = dict(dict.items(twin))
        return twin

    # --- attributes of objects ----------------------------------------------------------------------------------------

    def attribute(self, known: Twin, name: str) -> Any:
        """An attribute out of the object's own dict; raises KeyError where it has none."""
        own = dict_of(known.twin)
        if name in own:
            return own[name]
        if name in known.deleted or known.is_filled:
            raise KeyError(name)
        value = dict_of(known.real)[name]
        own[name] = known.read[name] = twin = self.admit(value, Item(DictOf(known.source), name))
        return twin

    def has_own(self, known: Twin, name: str) -> bool:
        """Whether an object's own dict has a name, now."""
        if name in dict_of(known.twin):
            return True
        if known.is_filled:
            return False
        found = name not in known.deleted and name in dict_of(known.real)
        # Module.__setattr__ keeps registered names out of the dict itself
        if name not in known.deleted and not found and not self.is_registered(known, name):
            self.guard(Kind.LACKS_KEY, DictOf(known.source), name)
        return found

    def fill(self, known: Twin) -> None:
        """Every attribute, for code that looks at the dict itself."""
        if has_dict(known.real) and not known.is_filled:
            self.guard(Kind.DICT_KEYS, DictOf(known.source), tuple(dict_of(known.real)))
            for name in dict_of(known.real):
                if name not in known.deleted:
                    self.attribute(known, name)
            known.is_filled = True

    def is_registered(self, known: Twin, name: str) -> bool:
        """Whether a module has a parameter, buffer or submodule of that name."""
        return isinstance(known.real, Module) and any(
            name in dict_of(known.real).get(table, ()) for table in ("_parameters", "_buffers", "_modules"))

    def registered(self, known: Twin, name: str) -> Any:
        """A parameter, buffer or submodule of a module; raises KeyError where there is none of that name."""
        for table in ("_parameters", "_buffers", "_modules"):
            opened = dict_of(known.twin).get(table)
            if opened is not None:
                if name in opened:
                    return opened[name]
                continue
            members = dict_of(known.real).get(table)
            if members is not None and name in members:
                return self.admit(members[name], Item(Item(DictOf(known.source), table), name))
        raise KeyError(name)


def dict_of(value: Any) -> dict[str, Any]:
    """What an object itself holds; no code of its class is asked."""
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}


def has_dict(value: Any) -> bool:
    """Whether an object has a dict of its own."""
    return bool(type(value).__dictoffset__)


def is_of_class(view: Any) -> bool:
    """Whether a view shows what a class holds."""
    return type(view) is types.MappingProxyType and "__module__" in view


def is_plain_key(key: Any) -> bool:
    """Whether a key is compared by a value that cannot change."""
    return type(key) in CONSTANTS or isinstance(key, (*ITSELF, enum.Enum, types.FunctionType)) or (
        type(key) in (tuple, frozenset) and all(is_plain_key(k) for k in key)
    ) or type(key).__module__ == "typing"


def _has_keys(keys: list[Any]) -> Callable[[Any], bool]:
    """Whether a dict has these very keys, in their order."""
    def holds(found: Any) -> bool:
        return len(found) == len(keys) and all(
            a is b or (not isinstance(b, Tensor) and type(a) is type(b) and a == b)
            for a, b in zip(found, keys, strict=True))

    return holds


@functools.lru_cache(4096)
def is_python_class(kind: type) -> bool:
    """Whether objects of a class are all Python: made by `object.__new__` or that of a container, no state in C."""
    if not kind.__flags__ & 512 or kind.__flags__ & 256:      # made in C
        return False
    slots = sum(isinstance(v, types.MemberDescriptorType) for one in kind.__mro__ for v in one.__dict__.values())
    if kind.__basicsize__ > 32 + 8 * slots + max(base.__basicsize__ for base in _BASES if issubclass(kind, base)):
        return False      # state in C
    return all(
        (base.__flags__ & 512 and base.__module__ not in _C_MODULES) or base in _BASES
        for base in kind.__mro__
    ) and not issubclass(kind, (Tensor, BaseException, type))


_BASES = (object, dict, list, collections.OrderedDict)
_C_MODULES = ("_thread", "_io", "select", "_random", "_socket", "numpy")


def container_base(kind: type) -> type | None:
    """The built-in container a class derives from."""
    return next((b for b in (collections.OrderedDict, dict, list) if issubclass(kind, b)), None)


_RULES: dict[type, Callable[[Outside, Any, Source], Any]] = {
    list: Outside.list_like,
    collections.deque: Outside.list_like,
    tuple: Outside.tuple_like,
    Size: Outside.tuple_like,
    dict: Outside.dict_like,
    collections.OrderedDict: Outside.dict_like,
    collections.defaultdict: Outside.dict_like,
    **dict.fromkeys(VIEWS, Outside.view),
    set: Outside.set_like,
    frozenset: Outside.set_like,
    slice: Outside.plain,
    range: Outside.plain,
    types.FunctionType: Outside.function,
    _C.CompiledCallable: Outside.compiled,
    types.MethodType: Outside.method,
    types.BuiltinFunctionType: Outside.builtin,
    functools.partial: Outside.partial,
    types.CellType: Outside.cell,
    types.SimpleNamespace: Outside.namespace,
}
