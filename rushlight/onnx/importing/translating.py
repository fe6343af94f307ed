"""A graph of ONNX as a graph of calls.

Enters: a `Model`'s graph, functions and tensors. Leaves: a graph (`recorded.py`) whose calls are the rules' functions,
and what it holds: parameters (floats that a gradient can reach), buffers, layers, and a module for each graph in a
graph. What depends on constants alone is computed here, once. Refuses: operators that nothing here implements, all of
them in one error.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from operator import getitem
from typing import Any

from ... import _C
from ...autograd.grad_mode import no_grad
from ...nn.modules.module import Module
from ...tensors.interop import tensor
from ..kinds import BY_NAME, ELEMENTS, INT64, NUMBER_OF
from ..model import Function, Graph, Model, Node, Reference, Value
from . import hosts
from .checking import ordered
from .misfits import MISFITS, check_call
from .recorded import Call, Recorded, RecordedModule
from .stored import SparseStored, Stored
from .table import EXTRAS, Rule, found

_ODD = re.compile("[^0-9A-Za-z_]")
LARGEST_FOLD = 2**22         # elements of a constant that is computed of smaller ones
BOOL = BY_NAME["BOOL"].number
_OF_MODULES = frozenset({*vars(Module()), *dir(Module)})       # names that tensors of a module cannot have


@dataclasses.dataclass(eq=False)
class Item:
    """A value while graphs are translated: a node of a graph, or a constant that is known."""

    form: str                            # tensor, numbers (of the host), or other: sequences, optionals, strings
    place: Builder | None = None         # the graph that its node is in; None: a constant
    node: Any = None
    value: Any = None                    # of constants
    rank: int = 0                        # of numbers: 0 or 1
    number: int = 0                      # the type of its elements in the file; 0: not known
    name: str = ""
    holds: bool = False                  # a buffer that the file names

    @property
    def is_known(self) -> bool:
        return self.place is None


class Builder:
    """A graph in the making, and what it takes from those around it."""

    def __init__(self, held: Held, outer: Builder | None = None) -> None:
        self.held, self.outer, self.graph = held, outer, Recorded()
        self.captured: dict[Item, Item] = {}
        self.attributes: dict[str, Any] = {}
        self.modules: dict[str, Any] = {}
        self.arguments: set[str] = set()

    def call(self, function: Callable, *args: Any, name: str = "", **kwargs: Any) -> Call:
        return self.graph.add("call_function", function, args, kwargs, _plain(name) or None if name else None)

    def of(self, item: Item) -> Any:
        """The node of a value in this graph; one of a graph around it comes in as an argument."""
        if item.place is self:
            return item.node
        if item.is_known and self.outer is None:
            return self.attribute(self.held.keep(item))
        if item not in self.captured:
            assert self.outer is not None, f"{item.name} belongs to another graph"
            self.captured[item] = Item(item.form, self, self.placeholder(item.name or "outer"))
        return self.captured[item].node

    def attribute(self, target: str) -> Any:
        if target not in self.attributes:
            self.attributes[target] = self.graph.add("get_attr", target, (), {})
        return self.attributes[target]

    def module(self, name: str, module: Any) -> str:
        """The attribute that holds a layer, or a graph in this graph."""
        name = self.held.fresh(_plain(name))
        self.modules[name] = module
        return name

    def placeholder(self, name: str, default: Any = ()) -> Call:
        args = default if isinstance(default, tuple) else (default,)
        target, count = _plain(name) or "x", 0
        while target in self.arguments:               # two names of a file may be one of Python
            count += 1
            target = f"{_plain(name)}_{count}"
        self.arguments.add(target)
        return self.graph.placeholder(target, args)

    def anchor(self) -> Any:
        """The tensor without elements that says which device and float type the model has."""
        return self.of(self.held.anchor)

    def tensor(self, item: Item | None) -> Any:
        """A value as what tensors are taken for."""
        if item is None:
            return None
        if item.form != "numbers":
            return self.of(item)
        value = item.value if item.is_known else self.of(item)
        dtype = ELEMENTS[item.number or INT64].dtype
        return self.call(hosts.to_tensor, value, self.anchor(), dtype)

    def numbers(self, item: Item | None) -> Any:
        """A value as numbers."""
        if item is None:
            return None
        if item.is_known:
            return hosts.numbers_of(item.value)
        return self.of(item) if item.form == "numbers" else self.call(hosts.numbers_of, self.of(item))


class Held:
    """What the module holds: tensors by name, layers, graphs in graphs."""

    def __init__(self, dtype: Any) -> None:
        self.tensors: dict[str, tuple[Any, str]] = {}        # a tensor, and what it is: parameter, buffer, constant
        self.kept: dict[Item, str] = {}
        self.taken: set[str] = set()
        self.owners: set[str] = set()                        # names above those: of modules
        self.anchor = Item("tensor", value=tensor([], dtype=dtype), name="_anchor")

    def keep(self, item: Item) -> str:
        """The attribute that holds a constant."""
        if item not in self.kept:
            name = self.fresh(item.name or "constant")
            self.kept[item] = name
            self.tensors[name] = item.value, "buffer" if item.holds else "constant"
        return self.kept[item]

    def parameter(self, name: str, value: Any) -> str:
        name = self.fresh(name)
        self.tensors[name] = value, "parameter"
        return name

    def fresh(self, name: str) -> str:
        """A dotted name whose parts can be modules, and that nothing has."""
        parts = name.split(".")
        if not all(parts):
            parts = [name.replace(".", "_") or "unnamed"]
        parts = [p + "_" if p in _OF_MODULES else p for p in parts]
        found, count = ".".join(parts), 0
        while self._clashes(found):
            count += 1
            found = f"{'.'.join(parts)}_{count}" if count < 3 else f"{'_'.join(parts)}_{count}"
        self.taken.add(found)
        if "." in found:
            self.owners |= _above(found)
        return found

    def _clashes(self, name: str) -> bool:
        return name in self.taken or name in self.owners or (
            "." in name and not _above(name).isdisjoint(self.taken))


def _above(name: str) -> set[str]:
    """The modules that a dotted name goes through."""
    parts = name.split(".")
    return {".".join(parts[:i]) for i in range(1, len(parts))}


class Scope:
    """Names of one graph or function, and the values that they stand for."""

    def __init__(self, translation: Translation, builder: Builder, opsets: Mapping[str, int], label: str = "",
                 outer: Scope | None = None, settings: Mapping[str, Any] | None = None) -> None:
        self.translation, self.builder, self.opsets, self.outer = translation, builder, opsets, outer
        self.label, self.settings = label, settings
        self.items: dict[str, Item] = {}

    def find(self, name: str) -> Item | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.items:
                return scope.items[name]
            scope = scope.outer
        return None

    def inputs(self, node: Node) -> list[Item | None]:
        found: list[Item | None] = []
        for name in node.inputs:
            item = self.find(name) if name else None
            assert not name or item is not None, f"checked: {name} is defined"
            found.append(item)
        while found and found[-1] is None:
            found.pop()
        return found

    def attributes(self, node: Node) -> dict[str, Any]:
        """The settings of a node; those of a function's node may be the function's own."""
        given: dict[str, Any] = {}
        for name, value in node.attributes.items():
            if isinstance(value, Reference):
                value = (self.settings or {}).get(value.name)
                if value is None:
                    continue
            given[name] = value
        return given

    def run(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            self.translation.node(self, node)


class Translation:
    """One model on its way to a module."""

    def __init__(self, model: Model, custom: Mapping[tuple[str, str], Callable], reached: set[str], dtype: Any) -> None:
        self.model, self.custom, self.reached = model, custom, reached
        self.held = Held(dtype)
        self.root = Builder(self.held)
        self.counted = 0

    # --- graphs -------------------------------------------------------------------------------------------------------

    def tensors_of(self, graph: Graph, scope: Scope) -> None:
        """Parameters and constants of a graph."""
        for name, stored in graph.tensors.items():
            value = stored.load()
            number = stored.element.number
            is_text = stored.element.dtype is None
            if scope.outer is None and name in self.reached:
                target = self.held.parameter(name, value)
                scope.items[name] = Item("tensor", self.root, self.root.attribute(target), number=number, name=name)
            else:
                scope.items[name] = Item("other" if is_text else "tensor", value=value, number=number, name=name,
                                         holds=scope.outer is None)

    def subgraph(self, scope: Scope, graph: Graph, name: str, forms: Sequence[Item | None] = ()) -> Part:
        """A graph in a graph as a module of its own. `forms`: what is known of the values it is given."""
        builder = Builder(self.held, scope.builder)
        inner = Scope(self, builder, scope.opsets, name, scope, scope.settings)
        for value, given in zip(graph.inputs, [*forms, *[None] * len(graph.inputs)], strict=False):
            inner.items[value.name] = self.argument(builder, value, given)
        self.tensors_of(graph, inner)
        inner.run(ordered(graph.nodes, graph, set(inner.items), scope, name))
        outputs = [inner.find(v.name) for v in graph.outputs]
        builder.graph.output(tuple([builder.tensor(o) for o in outputs]))
        captured = [scope.builder.of(item) for item in builder.captured]
        target = scope.builder.module(name, RecordedModule(builder.graph, builder.modules))
        numbers = [o.number if o is not None else 0 for o in outputs]
        kinds = [o.form if o is not None else "other" for o in outputs]
        return Part(self, builder, target, captured, numbers, kinds)

    def argument(self, builder: Builder, value: Value, given: Item | None = None) -> Item:
        """A value that comes in from outside."""
        kind = value.kind
        form = "other" if kind is not None and (kind.form != "tensor" or kind.number == 8) else "tensor"
        number = kind.number if kind is not None and kind.form == "tensor" else 0
        if given is not None and form == "tensor" and given.form == "other":
            form = "other"
        return Item(form, builder, builder.placeholder(value.name), name=value.name,
                    number=number or (given.number if given is not None else 0))

    # --- nodes --------------------------------------------------------------------------------------------------------

    def node(self, scope: Scope, node: Node) -> None:
        """Translate one call: its results become known under their names."""
        version = self.model.opset if not node.domain else 1
        version = scope.opsets.get(node.domain, version)
        settings = scope.attributes(node)
        inputs = scope.inputs(node)
        own = self.custom.get((node.domain, node.op)) if self.custom else None
        function = self.model.functions.get((node.domain, node.op, node.overload)) if self.model.functions else None
        label = node.name or f"{node.op}_{self.counted}"
        self.counted += 1
        if own is not None:
            results = self.custom_call(scope, node, own, inputs, settings)
        elif function is not None:
            results = self.inlined(scope, function, inputs, settings, label)
        elif node.op == "Constant" and isinstance(settings.get("value"), Stored) and len(settings) == 1 - len(inputs):
            results = [self.stored(settings["value"])]
        elif (node.domain, node.op) in self.special:
            results = self.special[node.domain, node.op](self, scope, node, inputs, settings, label)
        else:
            rule = found(node.domain, node.op, version)
            assert rule is not None, "operators that are unknown were refused before"
            results = self.ruled(scope, node, rule, inputs, settings)
        for name, item in zip(node.outputs, results, strict=False):
            if name:
                item.name = item.name or name
                scope.items[name] = item

    special: dict[tuple[str, str], Callable[..., list[Item]]] = {}

    def inlined(self, scope: Scope, function: Function, inputs: Sequence[Item | None], settings: Mapping[str, Any],
                label: str) -> list[Item]:
        """A function of the model: its nodes, in the place of the call."""
        inner = Scope(self, scope.builder, {**scope.opsets, **function.opsets}, label,
                      settings={**function.defaults, **settings})
        missing = Item("other", value=None)
        for k, name in enumerate(function.inputs):
            item = inputs[k] if k < len(inputs) else None
            inner.items[name] = missing if item is None else item
        nodes = [_without(node, {n for n, i in inner.items.items() if i is missing}) for node in function.nodes]
        inner.run(ordered(nodes, None, set(inner.items), None, f"function {function.name}"))
        return [inner.items[name] for name in function.outputs]

    def custom_call(self, scope: Scope, node: Node, function: Callable, inputs: Sequence[Item | None],
                    settings: Mapping[str, Any]) -> list[Item]:
        builder = scope.builder
        args = [builder.tensor(i) for i in inputs]
        given = {k: self.setting(builder, v) for k, v in settings.items()}
        called = builder.call(function, *args, name=node.outputs[0] if node.outputs else "", **given)
        if len(node.outputs) == 1:
            return [Item("tensor", builder, called)]
        return [Item("tensor", builder, builder.call(getitem, called, k)) for k in range(len(node.outputs))]

    def setting(self, builder: Builder, value: Any) -> Any:
        """An attribute as an argument."""
        if isinstance(value, (Stored, SparseStored)):
            return builder.of(self.stored(value))
        return value

    def stored(self, value: Stored | SparseStored) -> Item:
        return Item("other" if value.dtype is None else "tensor", value=value.load(), number=value.element.number)

    def ruled(self, scope: Scope, node: Node, rule: Rule, inputs: list[Item | None], settings: dict[str, Any]
              ) -> list[Item]:
        """A call of a rule: computed now, or with numbers of the host, or a node of the graph."""
        known = rule.settings
        surplus = [] if not settings else [name for name in settings if name not in known
                                           and name != "consumed_inputs"]
        if surplus and not rule.takes_any:
            own = ", ".join([n for n in known if n not in EXTRAS]) or "none"
            label = node.name or next(iter(node.outputs), "")
            raise ValueError(f"onnx: node {label!r} ({node.op}) has the attribute {surplus[0]!r}, and its operator"
                             f" takes {own}")
        settings.pop("consumed_inputs", None)
        check_call(node, rule, inputs, settings)
        count, name = max(len(node.outputs), 1), next((n for n in node.outputs if n), "")
        on_host = self.on_host(scope, node, inputs, settings)
        if on_host is not None:
            return on_host
        numbers = [i.number if i is not None else 0 for i in inputs]
        given = dict(settings)
        if "count" in known:
            given["count"] = count
        if "elements" in known:
            given["elements"] = tuple(numbers)
        results = rule.gives(numbers, settings) if rule.gives else _carried(numbers)
        results = [results] * count if isinstance(results, int) else [*results, *[0] * count]
        if not rule.draws and rule.layer is None and all(i is None or i.place is None for i in inputs):
            folded = self.folded(rule, inputs, given, count, results)
            if folded is not None:
                return folded
        builder = scope.builder
        if "anchor" in known:
            given["anchor"] = builder.anchor()
        given = {k: self.setting(builder, v) for k, v in given.items()} if given else given
        on_host = rule.sized and any(i.form == "numbers" for i in inputs if i is not None) and all(
            i is not None and _is_numbers(i, True) for i in inputs)
        args = [builder.numbers(i) if on_host or k in rule.host else builder.tensor(i) for k, i in enumerate(inputs)]
        if rule.layer is not None:
            target = builder.module(name or node.op, rule.layer())
            called = builder.graph.add("call_module", target, tuple(args), given, _plain(name) or None)
        else:
            called = builder.call(rule.function, *args, name=name, **given)
        if "count" not in known:
            return [Item(_form(node.op), builder, called, number=results[0])]
        return [Item(_form(node.op), builder, builder.call(getitem, called, k, name=n), number=results[k])
                for k, n in enumerate(node.outputs)]

    def on_host(self, scope: Scope, node: Node, inputs: Sequence[Item | None], settings: dict[str, Any]
                ) -> list[Item] | None:
        """Sizes, and what is computed of sizes alone."""
        builder = scope.builder
        if node.domain:
            return None
        if node.op in ("Shape", "Size") and inputs[0] is not None and inputs[0].form == "tensor":
            function = hosts.shape if node.op == "Shape" else hosts.size
            if inputs[0].is_known:
                return [_constant(function(inputs[0].value, **settings))]
            called = builder.call(function, builder.of(inputs[0]), name=node.outputs[0], **settings)
            return [Item("numbers", builder, called, rank=1 if node.op == "Shape" else 0, number=INT64)]
        if node.op in ("Shape", "Size") and inputs[0] is not None and inputs[0].form == "numbers":
            function = hosts.shape_of_numbers if node.op == "Shape" else hosts.count
            called = builder.call(function, builder.of(inputs[0]), name=node.outputs[0], **settings)
            return [Item("numbers", builder, called, rank=1 if node.op == "Shape" else 0, number=INT64)]
        if node.op not in hosts.HOST or not any(i is not None and i.form == "numbers" for i in inputs):
            return None
        has_reals = any(i is not None and i.form == "numbers" and i.number in hosts.REALS for i in inputs)
        if not all(i is None or _is_numbers(i, has_reals) for i in inputs):
            return None
        ranks = [_rank(i) for i in inputs if i is not None]
        function, dims, is_truth = hosts.HOST[node.op]
        if node.op in hosts.BY_SETTINGS and len(inputs) == 1 and (settings or node.op != "Squeeze"):
            function = hosts.BY_SETTINGS[node.op]
        if len(inputs) > 2 and node.op in ("Min", "Max"):
            return None
        function = hosts.OF_REALS.get(node.op, function) if has_reals else function
        if function is None or (node.op in ("Floor", "Ceil") and not has_reals):
            return None
        rank = dims(ranks, settings,
                    [hosts.numbers_of(i.value) if i is not None and i.is_known else None for i in inputs])
        if rank is None:
            return None
        given = {k: v for k, v in settings.items() if k not in ("select_last_index", "noop_with_empty_axes")}
        if node.op in ("Cast", "Identity"):
            given, function = {}, hosts.CASTS[settings["to"]] if node.op == "Cast" else function
        called = builder.call(function, *[builder.numbers(i) for i in inputs], name=node.outputs[0], **given)
        number = BOOL if is_truth else settings["to"] if node.op == "Cast" else next(
            i.number for i in reversed(inputs) if i is not None)
        if node.op in ("Gather", "Slice", "Reshape", "ReduceProd", "Squeeze", "Unsqueeze") and inputs[0] is not None:
            number = inputs[0].number
        return [Item("numbers", builder, called, rank=rank, number=number)]

    def folded(self, rule: Rule, inputs: Sequence[Item | None], settings: dict[str, Any], count: int,
               numbers: Sequence[int]) -> list[Item] | None:
        """The results of constants, unless they would be large or the call fails (it then does so when it runs)."""
        values = [None if i is None else hosts.numbers_of(i.value) if k in rule.host else i.value
                  for k, i in enumerate(inputs)]
        if rule.grows and not _stays_small(values):
            return None
        given = {k: v.load() if isinstance(v, (Stored, SparseStored)) else v for k, v in settings.items()}
        if "anchor" in rule.settings:
            given["anchor"] = self.held.anchor.value
        try:
            with no_grad():
                found = rule.function(*values, **given)
        except (RuntimeError, ValueError, TypeError, NotImplementedError, *MISFITS):
            return None
        many = found if "count" in rule.settings else (found,)
        return [_constant(value, number) for value, number in zip(many[:count], numbers, strict=False)]


@dataclasses.dataclass
class Part:
    """A graph in a graph: the module that it became, what it captures, and what is known of its results."""

    translation: Translation
    builder: Builder
    target: str
    captured: list[Any]
    numbers: list[int]
    forms: list[str]


def _constant(value: Any, number: int = 0) -> Item:
    """A value that is known, numbers as a tensor."""
    if isinstance(value, (bool, int, float, tuple)):
        return Item("tensor", value=tensor(list(value) if isinstance(value, tuple) else value, dtype=_C.int64),
                    number=INT64)
    if isinstance(value, _C.Tensor):
        return Item("tensor", value=value, number=number or NUMBER_OF.get(value.dtype, 0))
    return Item("other", value=value, number=number)


def _is_numbers(item: Item, can_be_real: bool = False) -> bool:
    if item.form == "numbers":
        return True
    value = item.value
    return item.is_known and isinstance(value, _C.Tensor) and value.ndim < 2 and value.numel() <= hosts.LARGEST and (
        value.dtype in (_C.int64, _C.int32, _C.bool) or (can_be_real and value.dtype in (_C.float32, _C.float64)))


def _rank(item: Item) -> int:
    return item.rank if item.form == "numbers" else item.value.ndim


def _form(op: str) -> str:
    return "other" if op in _OTHER else "tensor"


_OTHER = frozenset({"SequenceConstruct", "SequenceEmpty", "SequenceInsert", "SequenceErase", "SplitToSequence",
                    "Optional",
                    "OptionalGetElement", "StringConcat", "StringNormalizer", "StringSplit"})


def _carried(numbers: Sequence[int]) -> int:
    """Types under 8 bits pass through what only moves elements."""
    return numbers[0] if numbers and numbers[0] in ELEMENTS and ELEMENTS[numbers[0]].is_packed else 0


def _stays_small(values: Sequence[Any]) -> bool:
    """Whether results of these cannot have many elements: sizes multiplied by everything that is a size."""
    bound = 1
    for value in values:
        if isinstance(value, _C.Tensor):
            bound *= max(value.numel(), 1)
            if value.numel() <= hosts.LARGEST and not value.dtype.is_complex:
                bound *= max([1, *[abs(v) if math.isfinite(v) else 1 << 62 for v in value.reshape(-1).tolist()]])
        elif isinstance(value, (int, float, tuple)):
            bound *= math.prod([max(1, abs(v) if math.isfinite(v) else 1 << 62) for v in hosts.as_tuple(value)])
    return bound <= LARGEST_FOLD


def _without(node: Node, missing: set[str]) -> Node:
    """A function's node, without inputs that its call leaves out."""
    if missing.isdisjoint(node.inputs):
        return node
    return dataclasses.replace(node, inputs=tuple(["" if n in missing else n for n in node.inputs]))


def _plain(name: str) -> str:
    """A name that Python can have."""
    if name.isidentifier() and name.isascii():
        return name
    found = _ODD.sub("_", name)
    return f"_{found}" if found[:1].isdigit() else found
