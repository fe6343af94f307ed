"""Building a graph: nodes one after the other, constants and sizes as they are needed.

Enters: calls of `Builder.node` by rules. Leaves: a `Graph`. Equal nodes and equal constants exist once. Sizes that vary
are `Size`s: tensors of one int64, computed by nodes; whatever takes sizes takes numbers and Sizes alike.
"""

from __future__ import annotations

import dataclasses
from collections import ChainMap
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any

from .. import _C
from ..tensors.interop import tensor
from .model import CONSTANT, Graph, Node, Value, element_type, used_names

OLDEST, NATIVE, NEWEST, DEFAULT = 7, 18, 28, 20      # below NATIVE graphs are written for that one, and then lowered
# Versions of files that each opset came with; before 4 every tensor had to be an input too.
IR_VERSIONS = {7: 4, 8: 4, 9: 4, 10: 5, 11: 6, 12: 7, 13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10,
               22: 10, 23: 11, 24: 12, 25: 13, 26: 13, 27: 13, 28: 14}


@dataclasses.dataclass(frozen=True)
class Size:
    """A size that varies: a value of shape [1], and how it is written."""

    value: Value
    text: str

    def __str__(self) -> str:
        return self.text


class Builder:
    """One graph in the making."""

    def __init__(self, name: str, opset: int, shares: bool = True, outer: Builder | None = None) -> None:
        self.graph, self.opset, self.shares, self.outer = Graph(name), opset, shares, outer
        self.taken: set[str] = set() if outer is None else outer.taken
        self.known: MutableMapping[Any, Any] = {}
        self.origin: Mapping[str, str] = {}
        self.scope = ""                       # what names of nodes begin with: the op they are made for
        self.result: Any = None               # what tracing saw of the results of the op that is converted
        self.seen: Mapping[str, Any] = {}     # and of its arguments
        self.facts: dict[str, Value] = {} if outer is None else outer.facts      # what is known of values, by name
        self.domains: dict[str, int] = {}     # other sets of operators that nodes come from

    # --- names and values ---------------------------------------------------------------------------------------------

    def fresh(self, name: str) -> str:
        """A name that nothing has yet."""
        found, count = name, 0
        while found in self.taken:
            count += 1
            found = f"{name}_{count}"
        self.taken.add(found)
        return found

    def input(self, name: str, dtype: Any, shape: Sequence[int | str | None] | None) -> Value:
        value = Value(self.fresh(name), dtype, None if shape is None else tuple(shape))
        self.graph.inputs.append(value)
        self.facts[value.name] = value
        return value

    def within(self, name: str) -> Builder:
        """A graph inside of this one: it sees the values of this one, which stays as it is."""
        found = Builder(name, self.opset, self.shares, self)
        found.origin, found.domains, found.known = self.origin, self.domains, ChainMap({}, self.known)
        return found

    def tensor(self, name: str, t: Any, role: str = CONSTANT) -> Value:
        """A tensor that the model holds: the outermost graph does, for all that are inside of it."""
        if self.outer is not None:
            return self.outer.tensor(name, t, role)
        name = self.fresh(name)
        self.graph.tensors[name] = t
        if t.dtype.is_floating_point or role != CONSTANT:
            self.graph.roles[name] = role      # whoever reads the file takes other floats for weights
        self.facts[name] = Value(name, t.dtype, tuple(t.shape))
        return self.facts[name]

    def root(self) -> Builder:
        """The outermost graph's."""
        return self if self.outer is None else self.outer.root()

    def constant(self, value: Any, dtype: Any) -> Value:
        """A number, or (nested) lists of them, as a tensor; equal ones are one."""
        if self.outer is not None:
            return self.outer.constant(value, dtype)
        key = "constant", repr(value), dtype.code
        if key not in self.known:
            self.known[key] = self.tensor(f"c_{_spelled(value)}_{dtype.code}", tensor(value, dtype=dtype))
        return self.known[key]

    def ints(self, values: Iterable[int]) -> Value:
        """Integers as a tensor of one dim: axes, pads, ..."""
        return self.constant([int(v) for v in values], _C.int64)

    # --- nodes --------------------------------------------------------------------------------------------------------

    def node(self, op: str, *inputs: Value | None, dtype: Any = None, shape: Any = None, domain: str = "",
             **attributes: Any) -> Value:
        """The one result of a node, of the first input's type unless `dtype` says otherwise."""
        kind = dtype if dtype is not None else next(v.dtype for v in inputs if v is not None)
        return self.nodes(op, *inputs, dtypes=(kind,), shape=shape, domain=domain, **attributes)[0]

    def nodes(self, op: str, *inputs: Value | None, dtypes: Sequence[Any], shape: Any = None, domain: str = "",
              **attributes: Any) -> list[Value]:
        """The results of a node."""
        attributes = {name: value for name, value in attributes.items() if value is not None}
        names = [v.name if v is not None else "" for v in inputs]
        while names and not names[-1]:
            names.pop()
        key = domain, op, tuple(names), repr(attributes), len(dtypes)
        has_graph = any(isinstance(v, Graph) for v in attributes.values())
        if key in self.known and self.shares and not has_graph and not draws(op):
            return self.known[key]
        label = self.fresh(f"{self.scope}/{op}" if self.scope else op)
        base = self.scope or op.lower()
        results = [Value(self.fresh(base if i == 0 else f"{base}_{op.lower()}{i}"), d,
                         tuple(shape) if shape is not None and len(dtypes) == 1 else None)
                   for i, d in enumerate(dtypes)]
        self.graph.nodes.append(
            Node(op, tuple(names), tuple(v.name for v in results), attributes, label, domain, self.origin)
        )
        self.known[key] = results
        self.facts.update({v.name: v for v in results})
        return results

    def cast(self, x: Value, dtype: Any) -> Value:
        """x as another type."""
        if x.dtype is dtype:
            return x
        is_tiny = dtype.is_floating_point and dtype.itemsize == 1      # what is too large for those is no number here
        return self.node("Cast", x, dtype=dtype, shape=x.shape, to=element_type(dtype), saturate=0 if is_tiny else None)

    def where(self, condition: Value, a: Value, b: Value) -> Value:
        """a where the condition holds, else b; truths by logic and narrow integers as wider ones, since ONNX Runtime
        chooses among neither."""
        if a.dtype is _C.bool:
            chosen = self.node("And", condition, a, dtype=_C.bool)
            return self.node("Or", chosen, self.node("And", self.node("Not", condition), b, dtype=_C.bool))
        if a.dtype.code in ("i8", "i16", "u16"):
            wide = [self.cast(v, _C.int32) for v in (a, b)]
            return self.cast(self.node("Where", condition, *wide, dtype=_C.int32), a.dtype)
        return self.node("Where", condition, a, b, dtype=a.dtype)

    # --- sizes --------------------------------------------------------------------------------------------------------

    def size(self, x: Any, dim: int) -> int | Size:
        """The size of a dim: its number, or where that varies, what a node says."""
        dim = dim % x.ndim
        known = x.shape[dim]
        if isinstance(known, int):
            return known
        held = x if isinstance(x, Value) else x.value        # complex numbers have one dim more, behind
        value = self.node("Shape", held, dtype=_C.int64, shape=(1,), start=dim, end=dim + 1)
        return Size(value, str(known))

    def size_value(self, n: int | Size) -> Value:
        """A size as a tensor of shape [1]."""
        return n.value if isinstance(n, Size) else self.ints([n])

    def sizes(self, numbers: Sequence[int | Size]) -> Value:
        """Sizes as one tensor of int64."""
        if all(not isinstance(n, Size) for n in numbers):
            return self.ints(numbers)
        if len(numbers) == 1:
            return self.size_value(numbers[0])
        parts: list[Value] = []
        run: list[int] = []
        for n in (*numbers, None):
            if isinstance(n, int):
                run.append(n)
                continue
            if run:
                parts.append(self.ints(run))
                run = []
            if n is not None:
                parts.append(n.value)
        return self.node("Concat", *parts, axis=0)

    def scalar(self, n: int | float | bool | Size, dtype: Any) -> Value:
        """A number as a tensor without dims."""
        if not isinstance(n, Size):
            return self.constant(n, dtype)
        return self.cast(self.node("Squeeze", n.value, self.ints([0]), shape=()), dtype)

    def arithmetic(self, op: str, a: int | Size, b: int | Size, text: str) -> Size:
        """One step of computing with sizes."""
        return Size(self.node(op, self.size_value(a), self.size_value(b), shape=(1,)), text)

    def rename(self, old: str, new: str) -> None:
        """Another name for a value that a node makes."""
        self.taken.add(new)

        renamed_within(self.graph, {old: new})
        for node in self.graph.nodes:
            node.outputs = tuple([new if n == old else n for n in node.outputs])

    # --- the end ------------------------------------------------------------------------------------------------------

    def drop_unused(self) -> None:
        """Remove nodes and tensors that no result depends on."""
        graph = self.graph
        needed = drop_unused(graph)
        graph.tensors = {name: t for name, t in graph.tensors.items() if name in needed}


def renamed_within(graph: Graph, instead: Mapping[str, str]) -> None:
    """Other names for values that nodes read, and that a graph inside of another returns."""
    graph.outputs = [dataclasses.replace(v, name=instead.get(v.name, v.name)) for v in graph.outputs]
    for node in graph.nodes:
        node.inputs = tuple([instead.get(n, n) for n in node.inputs])
        for value in node.attributes.values():
            if isinstance(value, Graph):
                renamed_within(value, instead)


def drop_unused(graph: Graph) -> set[str]:
    """Remove nodes, those of graphs inside first; the names that are still needed."""
    needed = {v.name for v in graph.outputs}
    kept = []
    for node in reversed(graph.nodes):
        if needed.isdisjoint(node.outputs):
            continue
        for value in node.attributes.values():
            if isinstance(value, Graph):
                drop_unused(value)
        kept.append(node)
        needed |= used_names([node])
    graph.nodes = kept[::-1]
    return needed


def draws(op: str) -> bool:
    """Whether two nodes of an operator give different results."""
    return op.startswith("Random") or op in ("Dropout", "Multinomial", "Bernoulli")


def _spelled(value: Any) -> str:
    text = "_".join(str(v) for v in value) if isinstance(value, list) else str(value)
    return "".join(c if c.isalnum() else {"-": "m", ".": "p"}.get(c, "_") for c in text)[:24] or "empty"
