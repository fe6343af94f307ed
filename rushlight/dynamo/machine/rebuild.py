"""Code that makes the values of a captured frame again: what it returns, holds, or wrote somewhere.

Enters: values of the interpreter. Leaves: instructions in an `Emitter`: what comes from outside is loaded from its
source (before anything is changed), tensors are results of the graph, objects that the frame made are made anew, each
once. Refuses (breaks the graph): objects whose state cannot be seen, such as generators that have started.
"""

from __future__ import annotations

import collections
import enum
import functools
import sys
import types
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from ... import _C
from ..._C import Tensor
from ...base.quantizers import qscheme
from ...base.shape import Size, layout, memory_format
from ...fx.experimental.symbolic_sizes import SYMBOLIC, symbol_of
from ...symbols import SymInt
from ...symbols.expression import symbol
from ..bytecode.emitter import Emitter
from ..record.acts import fill_cell, fill_object, refill, spent
from ..record.breaks import GraphBreak, shown
from ..record.hidden import evaluated, is_hidden
from ..record.machine import Machine
from ..rules import arrays
from ..rules.regions import Transformed
from ..values.outside import ITERATORS, ITSELF, VIEWS, dict_of, is_of_class, is_python_class
from ..values.sources import Constant, Source, viewed
from .interpreter import Interpreted

_AS_THEY_ARE = (
    *ITSELF, enum.Enum, _C.dtype, _C.device, layout, memory_format, qscheme, range, type(NotImplemented),
)
_DYNAMO = __name__.rpartition(".")[0].rpartition(".")[0]


class Rebuilder:
    """Writes the code of one frame."""

    def __init__(self, emitter: Emitter, machine: Machine) -> None:
        self.emitter, self.machine = emitter, machine
        self.outside, self.recorder = machine.outside, machine.recorder
        self.rebuilt: dict[int, str] = {}                   # local that holds what was made for an object, by its id
        self.loaded: dict[Source, str] = {}              # local that holds what was loaded from a source
        self.outputs: dict[Any, int] = {}                # place among the results of the graph, by node
        self.pending: list[Callable[[], None]] = []      # parts to be filled in when the whole is there
        self.building: set[int] = set()
        self.results = emitter.fresh_local("results")

    # --- the parts ----------------------------------------------------------------------------------------------------

    def load(self, value: Any) -> None:
        """Push a value."""
        self.push(value)
        while self.pending:
            self.pending.pop(0)()

    def source(self, source: Source) -> None:
        """Push what is at a source now, before the frame changed anything."""
        if isinstance(source, Constant):
            self.emitter.load_const(source.value)
            return
        if source not in self.loaded:
            self.loaded[source] = self.emitter.fresh_local("loaded")
        self.emitter.load_local(self.loaded[source])

    def sources(self, sources: Iterable[Source]) -> int:
        """Push what is at each; how many there are."""
        count = 0
        for source in sources:
            self.source(source)
            count += 1
        return count

    def push(self, value: Any) -> None:
        kind = type(value)
        known = self.outside.by_twin.get(id(value))
        if known is not None and known.twin is value:
            if known.kind == "itself":
                self.emitter.load_const(known.real)
            else:
                self.source(known.source)
            return
        if kind in (int, float, bool, str, bytes, complex, type(None), type(...)):
            self.emitter.load_const(value)
        elif isinstance(value, Tensor):
            if id(value) in self.machine.gradients.spent:
                self.spent(value)
            elif id(value) in self.machine.classes.of or id(value) in self.machine.classes.written:
                self.of_class(value)
            else:
                self.result(self.node_of(value))
        elif is_hidden(value):
            self.number(value)
        elif self.machine.floats.is_one(value):
            self.float_of(value)
        elif isinstance(value, SYMBOLIC):
            result = self.recorder.argument(value)
            if isinstance(result, (int, float, bool)):
                self.emitter.load_const(result)
            else:
                self.result(result)
        elif id(value) in self.rebuilt:
            self.emitter.load_local(self.rebuilt[id(value)])
        elif arrays.is_array(value):
            self.emitter.load_const(arrays.back)
            self.push(value.tensor)
            self.emitter.load_const(value.is_scalar)
            self.emitter.call(2)
            self.keep(value)
        elif isinstance(value, _AS_THEY_ARE) and not _is_bound(value) and (kind not in VIEWS or is_of_class(value)):
            if id(value) in self.machine.own_classes:
                raise GraphBreak("escape", f"the class {value.__name__}, made here, leaves the frame")
            self.emitter.load_const(value)
        else:
            self.make(value, kind)

    def number(self, value: Any) -> None:
        """A number that elements tell, from the tensors that have them."""
        formula = value.expression
        names = tuple(sorted(formula.names))
        is_symbol = symbol_of(formula) is not None
        if not is_symbol:
            self.emitter.load_const(evaluated(formula, names))
        for name in names:
            self.symbol(name, value.env)
        if not is_symbol:
            self.emitter.call(len(names))

    def symbol(self, name: str, env: Any) -> None:
        """The number behind a symbol."""
        recorder = self.recorder
        if name in recorder.elements:
            t, version, read = recorder.elements[name]
            known = self.outside.by_twin.get(id(t))
            self.emitter.load_const(_element)
            if t._version != version or self.machine.optimizer_steps.taken:      # written to since: a copy
                with recorder.graph.inserting_before(read):
                    self.result(recorder.graph.call_function(Tensor.clone, (recorder.nodes[id(t)],), {}))
            elif known is not None and known.twin is t:
                self.source(known.source)
            else:
                self.result(recorder.nodes[id(t)])
            self.emitter.call(1)
        elif name in self.machine.floats.sources:
            self.source(self.machine.floats.sources[name])
        elif name in env.stand_ins:
            node, dim = recorder.sizes.seen[name]
            self.emitter.load_const(_size)
            self.result(node.node)
            self.emitter.load_const(dim)
            self.emitter.call(2)
        else:
            self.push(SymInt(symbol(name), env))

    def float_of(self, value: Any) -> None:
        """A number made of floats from outside: computed from them again, as Python does."""
        formula, floats = value.expression, self.machine.floats.sources
        if not formula.names <= floats.keys():      # of sizes too
            self.emitter.load_const(float(value))
        elif formula.function in floats:
            self.source(floats[formula.function])
        else:
            names = tuple(sorted(formula.names))
            self.emitter.load_const(evaluated(formula, names))
            self.emitter.call(self.sources(floats[name] for name in names))

    def of_class(self, value: Tensor) -> None:
        """A tensor of a class of the program's, or with attributes."""
        if id(value) in self.rebuilt:
            self.emitter.load_local(self.rebuilt[id(value)])
            return
        classes = self.machine.classes
        kind = classes.of.get(id(value), Tensor)
        if kind is not Tensor:
            self.emitter.load_const(_as_class)
        self.result(self.node_of(value))
        if kind is not Tensor:
            self.emitter.load_const(kind)
            self.emitter.call(2)
        self.keep(value)
        if id(value) in classes.written:
            self.later(_fill_tensor, value, classes.written[id(value)][1])

    def spent(self, value: Tensor) -> None:
        """A loss whose backward() ran in the graph: its elements, and a history that has nothing left to give."""
        if id(value) in self.rebuilt:
            self.emitter.load_local(self.rebuilt[id(value)])
            return
        self.emitter.load_const(spent)
        self.result(self.node_of(self.machine.gradients.spent[id(value)][1]))
        self.emitter.call(1)
        self.keep(value)

    def node_of(self, value: Tensor) -> Any:
        node = self.recorder.nodes.get(id(value))
        if node is None:
            raise GraphBreak("escape", "a tensor that no op made leaves the frame")
        if id(value) in self.machine.gradients.own_leaves:
            raise GraphBreak("escape", "a tensor made here that wants a gradient leaves the frame")
        return node

    def result(self, node: Any) -> None:
        place = self.outputs.setdefault(node, len(self.outputs))
        self.emitter.load_local(self.results)
        self.emitter.load_const(place)
        self.emitter.subscr()

    def keep(self, value: Any) -> None:
        """Note that the top of the stack is `value`, made again."""
        name = self.rebuilt[id(value)] = self.emitter.fresh_local("rebuilt")
        self.machine.kept.append(value)
        self.emitter.dup()
        self.emitter.store_local(name)

    def make(self, value: Any, kind: type) -> None:
        if callable(value) and _is_of_module(value):
            self.emitter.load_const(value)
            return
        if id(value) in self.building:
            raise GraphBreak("escape", f"a {kind.__name__} that holds itself leaves the frame")
        if any(id(one) in self.machine.own_classes for one in kind.__mro__):
            raise GraphBreak("escape", f"an object of {kind.__name__}, a class made here, leaves the frame")
        rule = _MAKERS.get(kind)
        if rule is None:
            if isinstance(value, tuple):
                rule = Rebuilder.tuple_like
            elif isinstance(value, BaseException):
                rule = Rebuilder.exception
            elif kind in ITERATORS:
                rule = Rebuilder.iterator
            elif is_python_class(kind) and not kind.__module__.startswith(_DYNAMO):
                rule = Rebuilder.object
            else:
                raise GraphBreak("escape", f"{shown(value)} leaves the frame and cannot be made again")
        self.building.add(id(value))
        rule(self, value)
        self.building.discard(id(value))

    # --- makers -------------------------------------------------------------------------------------------------------

    def members(self, values: Any) -> int:
        count = 0
        for value in values:
            self.push(value)
            count += 1
        return count

    def list_of(self, value: list) -> None:
        if any(id(v) in self.building or v is value for v in value):
            return self.list_with_itself(value)
        self.emitter.build_list(self.members(value))
        return self.keep(value)

    def list_with_itself(self, value: list) -> None:
        self.emitter.build_list(0)
        self.keep(value)
        self.building.discard(id(value))
        self.later(refill, value, list(value))

    def later(self, function: Callable, owner: Any, contents: Any) -> None:
        """function(what was made for owner, contents), once everything is there."""
        def run() -> None:
            self.emitter.load_const(function)
            self.push(owner)
            self.push(contents)
            self.machine.kept.append(contents)
            self.emitter.call(2)
            self.emitter.pop()

        self.pending.append(run)

    def tuple_of(self, value: tuple) -> None:
        self.emitter.build_tuple(self.members(value))
        self.keep(value)

    def tuple_like(self, value: tuple) -> None:
        """Named tuples and their like."""
        kind = type(value)
        if is_python_class(kind) or isinstance(kind.__new__, types.FunctionType):
            self.emitter.load_const(tuple.__new__)
            self.emitter.load_const(kind)
            self.emitter.build_tuple(self.members(tuple(value)))
            self.emitter.call(2)
        else:
            self.emitter.load_const(kind)
            self.emitter.build_tuple(self.members(tuple(value)))
            self.emitter.call(1)
        self.keep(value)

    def dict_of(self, value: dict) -> None:
        kind = type(value)
        if kind is collections.defaultdict:
            self.emitter.load_const(kind)
            self.push(value.default_factory)
            self.pairs(value)
            self.emitter.call(2)
        elif kind is dict:
            self.pairs(value)
        else:
            self.emitter.load_const(kind)
            self.pairs(value)
            self.emitter.call(1)
        self.keep(value)

    def pairs(self, value: dict) -> None:
        for k, v in dict.items(value):
            self.push(k)
            self.push(v)
        self.emitter.build_dict(len(value))

    def view(self, value: Any) -> None:
        """A view of a dict, or of what another mapping shows."""
        self.emitter.load_const(VIEWS[type(value)])
        self.push(viewed(value))
        self.emitter.call(1)
        self.keep(value)

    def set_of(self, value: Any) -> None:
        self.emitter.load_const(type(value))
        self.emitter.build_list(self.members(value))
        self.emitter.call(1)
        self.keep(value)

    def deque(self, value: collections.deque) -> None:
        self.emitter.load_const(collections.deque)
        self.emitter.build_list(self.members(value))
        self.emitter.load_const(value.maxlen)
        self.emitter.call(2)
        self.keep(value)

    def slice_of(self, value: slice) -> None:
        self.members((value.start, value.stop, value.step))
        self.emitter.build_slice(3)

    def function(self, value: types.FunctionType) -> None:
        if id(value) not in self.machine.own:
            self.emitter.load_const(value)
            return
        self.emitter.load_const(_make_function)
        self.emitter.load_const(value.__code__)
        self.emitter.load_const(value.__globals__)
        self.push(value.__defaults__)
        self.push(value.__kwdefaults__)
        self.push(value.__closure__)
        self.push(dict(value.__dict__))
        self.emitter.call(6)
        self.keep(value)

    def cell(self, value: types.CellType) -> None:
        self.emitter.load_const(types.CellType)
        self.emitter.call(0)
        self.keep(value)
        try:
            contents = value.cell_contents
        except ValueError:
            return
        self.later(fill_cell, value, contents)

    def method(self, value: types.MethodType) -> None:
        if isinstance(value.__self__, Tensor):      # the method of a fake; the tensor has its own
            self.builtin(value)
            return
        self.emitter.load_const(types.MethodType)
        self.push(value.__func__)
        self.push(value.__self__)
        self.emitter.call(2)
        self.keep(value)

    def builtin(self, value: Any) -> None:
        self.emitter.load_const(getattr)
        self.push(value.__self__)
        self.emitter.load_const(value.__name__)
        self.emitter.call(2)

    def partial(self, value: functools.partial) -> None:
        self.emitter.load_const(_make_partial)
        self.push(value.func)
        self.push(value.args)
        self.push(value.keywords)
        self.emitter.call(3)
        self.keep(value)

    def transformed(self, value: Transformed) -> None:
        self.emitter.load_const(value.transform)
        self.push((value.function, *value.args))
        self.push(dict(value.kwargs))
        self.emitter.call_spread(has_kwargs=True)
        self.keep(value)

    def interpreted(self, value: Interpreted) -> None:
        self.push(value.function)

    def super_of(self, value: Any) -> None:
        self.emitter.load_const(super)
        self.push(value.__thisclass__)
        self.push(value.__self__)
        self.emitter.call(2)

    def exception(self, value: BaseException) -> None:
        self.emitter.load_const(_make_exception)
        self.emitter.load_const(type(value))
        self.push(value.args)
        self.push(dict(value.__dict__))
        self.push(value.__cause__)
        self.emitter.call(4)
        self.keep(value)

    def iterator(self, value: Any) -> None:
        """Iterators say themselves how they are made again."""
        self.machine.kept.append(parts := value.__reduce__())
        function, args, *state = parts
        self.emitter.load_const(function)
        self.emitter.build_tuple(self.members(args))
        self.emitter.call_spread()
        self.keep(value)
        if state and state[0] is not None:
            self.emitter.dup()
            self.emitter.load_attr("__setstate__")
            self.push(state[0])
            self.emitter.call(1)
            self.emitter.pop()

    def namespace(self, value: types.SimpleNamespace) -> None:
        self.emitter.load_const(types.SimpleNamespace)
        self.emitter.call(0)
        self.keep(value)
        self.building.discard(id(value))
        self.later(fill_object, value, dict(dict_of(value)))

    def reference(self, value: weakref.ReferenceType) -> None:
        self.emitter.load_const(weakref.ref)
        self.push(value())
        self.emitter.call(1)
        self.keep(value)

    def object(self, value: Any) -> None:
        """An object of a Python class: made bare, then filled."""
        kind = type(value)
        base = next((b for b in (collections.OrderedDict, dict, list) if isinstance(value, b)), object)
        if hasattr(kind, "__del__"):
            raise GraphBreak("escape", f"{shown(kind)} has __del__, and would be finalized twice")
        self.emitter.load_const(base.__new__)
        self.emitter.load_const(kind)
        self.emitter.call(1)
        self.keep(value)
        self.building.discard(id(value))
        if base is list:
            self.later(list.extend, value, list(list.__iter__(value)))
        elif base is not object:
            self.later(base.update, value, dict(dict.items(value)))
        own = dict(dict_of(value))
        if own:
            self.later(fill_object, value, own)
        slots = {}
        for one in kind.__mro__:
            for name, found in one.__dict__.items():
                if isinstance(found, types.MemberDescriptorType):
                    try:
                        slots[name] = found.__get__(value)
                    except AttributeError:
                        continue
        if slots:
            self.later(_fill_slots, value, slots)


_MAKERS: dict[type, Callable[[Rebuilder, Any], None]] = {
    list: Rebuilder.list_of, tuple: Rebuilder.tuple_of, dict: Rebuilder.dict_of, set: Rebuilder.set_of,
    frozenset: Rebuilder.set_of, collections.deque: Rebuilder.deque, collections.OrderedDict: Rebuilder.dict_of,
    collections.defaultdict: Rebuilder.dict_of, slice: Rebuilder.slice_of, types.FunctionType: Rebuilder.function,
    types.CellType: Rebuilder.cell, types.MethodType: Rebuilder.method, functools.partial: Rebuilder.partial,
    types.BuiltinFunctionType: Rebuilder.builtin, Interpreted: Rebuilder.interpreted, super: Rebuilder.super_of,
    Transformed: Rebuilder.transformed, Size: Rebuilder.tuple_like, types.MethodWrapperType: Rebuilder.builtin,
    types.SimpleNamespace: Rebuilder.namespace, weakref.ReferenceType: Rebuilder.reference,
    **dict.fromkeys(VIEWS, Rebuilder.view),
}


def _is_bound(value: Any) -> bool:
    return isinstance(value, types.BuiltinFunctionType) and not isinstance(
        value.__self__, (types.ModuleType, type, type(None)))


def _is_of_module(value: Any) -> bool:
    """Whether it is a function of a module, though a method too, of an object that the module keeps to itself
    (random.random, numpy.random.rand)."""
    name = getattr(value, "__name__", None)
    place = getattr(value, "__module__", None) or type(getattr(value, "__self__", None)).__module__
    return isinstance(name, str) and getattr(sys.modules.get(place), name, None) is value


# --- what the written code calls --------------------------------------------------------------------------------------


def _make_function(code: types.CodeType, scope: dict, defaults: Any, keywords: Any, closure: Any, own: dict
                   ) -> types.FunctionType:
    result = types.FunctionType(code, scope, code.co_name, defaults, closure)
    result.__kwdefaults__ = keywords
    result.__dict__.update(own)
    return result


def _make_partial(function: Any, args: tuple, keywords: dict) -> functools.partial:
    return functools.partial(function, *args, **keywords)


def _make_exception(kind: type[BaseException], args: tuple, own: dict, cause: Any) -> BaseException:
    result = kind.__new__(kind, *args)
    result.args = args
    result.__dict__.update(own)
    if cause is not None:
        result.__cause__ = cause
    return result


def _as_class(t: Tensor, kind: type) -> Tensor:
    return t.as_subclass(kind)


def _fill_tensor(owner: Tensor, own: dict[str, Any]) -> None:
    for name, value in own.items():
        setattr(owner, name, value)


def _element(t: Tensor) -> Any:
    return t.item()


def _size(t: Tensor, dim: int) -> int:
    return t.shape[dim]


def _fill_slots(owner: Any, slots: dict[str, Any]) -> None:
    for name, value in slots.items():
        object.__setattr__(owner, name, value)
