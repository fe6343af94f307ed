"""Which nodes PyTorch has in the place of ours: their names and next functions.

Enters: nodes of the tape, when Python first sees them (`dress`), and names of `_saved_` attributes. Leaves: the name of
the node PyTorch would have there and where its edges lead. A call of ours is one node (or, for an op with a body,
several); PyTorch has others for some: `chains.txt` and `rules.py` say which, `nodes.txt` has PyTorch's own names,
edges and saved values. The engine knows nothing of it: steps that it takes at once are shown by nodes that never run.
"""

from __future__ import annotations

import builtins
import functools
import re
from typing import Any, NamedTuple

from ... import _C
from ...base.tables import rows
from ..calls import _NUMBERS_AS_TENSORS
from ..overloads import AtenSchema, aten_name, schemas_of

_SPELLINGS = ("{}", "_{}", "special_{}", "linalg_{}")
_NONE = (None, 0)
_NO_TENSOR = (None, 1)      # of the tape: there is no edge because the argument is a number, or None
_BODIES = frozenset(("chunk", "split_with_sizes", "norm"))
# PyTorch has nodes for them, on other devices
_WORD = re.compile(r"\s*([\w*.-]+|[()])|,")
_SUM = re.compile(r"\{(.*?)\}")      # in a name: a number that depends on arguments


class PyTorchNode(NamedTuple):
    """A row of nodes.txt."""

    op: str
    label: str
    name: str
    edges: tuple[str, ...]
    saved: tuple[str, ...]


@functools.cache
def _nodes() -> dict[str, list[PyTorchNode]]:
    found: dict[str, list[PyTorchNode]] = {}
    for row in rows(__file__, "nodes"):
        head, _, saved = row.partition("|")
        overload, name, *edges = head.split()
        op, _, label = overload.partition(".")
        found.setdefault(op, []).append(PyTorchNode(op, label, name, tuple(edges), tuple(saved.split())))
    return found


@functools.cache
def saved_names() -> dict[str, tuple[str, ...]]:
    """What a node of a name says it saved."""
    return {node.name: node.saved for nodes in _nodes().values() for node in nodes}


@functools.cache
def edge_names() -> dict[str, tuple[str, ...]]:
    """PyTorch's names of the arguments that a node has edges for."""
    return {node.name: node.edges for nodes in _nodes().values() for node in nodes}


@functools.cache
def _chains() -> dict[str, list[tuple[Any, str]]]:
    """Rows of chains.txt by op: (condition or None, chain)."""
    found: dict[str, list[tuple[Any, str]]] = {}
    for row in rows(__file__, "chains"):
        head, _, chain = row.partition(": ")
        ops, _, condition = head.partition(" if ")
        test = compile(condition.strip(), f"<chain of {ops}>", "eval") if condition else None
        for op in ops.split():
            found.setdefault(op, []).append((test, chain.strip().replace("{Name}", _camel(op))))
    return found


class Number:
    """An argument that is no tensor, and whose value was not kept."""


def is_number(value: Any) -> bool:
    """Whether an argument is known to be no tensor."""
    return isinstance(value, (int, float, complex, Number))


class Operand:
    """A tensor argument: where its gradient goes, and sizes and type where they are known."""

    def __init__(self, meta: Any, edges: list[tuple[Any, int]], places: list[int]) -> None:
        self.meta, self.edges, self.places = meta, edges, places

    def __bool__(self) -> bool:
        return True

    @property
    def needs(self) -> bool:
        """Whether a gradient goes there."""
        return any(node is not None for node, _ in self.edges)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.meta.shape) if self.meta is not None else ()

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(self.meta.stride()) if hasattr(self.meta, "stride") else ()

    @property
    def dtype(self) -> Any:
        return None if self.meta is None else self.meta.dtype

    @property
    def is_whole(self) -> bool:
        """Of integers."""
        return self.dtype is not None and not (self.dtype.is_floating_point or self.dtype.is_complex)


def _received(node: Any, nr: int) -> Any:
    """Sizes and type of what goes along an edge."""
    described = node._input_metadata
    return described[nr] if nr < len(described) else None


class Call:
    """A recorded call as its node knows it: arguments by our names. Those it did not keep are not among them."""

    def __init__(self, node: Any, as_made: bool = True) -> None:
        made = node._made if as_made else None
        self.node, self.is_made = node, made is not None
        self.overload = made[0] if made is not None else node._overload
        self.name = self.overload.name
        self.out = next((m for m in node._input_metadata if m is not None), None)
        self.values: dict[str, Any] = {}
        if made is not None:
            for param, item in zip(self.overload.definition.spec.params, made[1:], strict=True):
                self.values[param.name] = _described(item)
        else:
            self._from_node()

    def _from_node(self) -> None:
        node = self.node
        kept = {name: node._kept_meta(i) for i, name in enumerate(node._kept_names()) if name != "result"}
        self.values.update({k: v for k, v in kept.items() if v is not None})
        pairs: dict[str, list[int]] = {}
        edges = node._edges
        for place, name in enumerate(node._edge_names()):
            pairs.setdefault(name, []).append(place)
        for name, places in pairs.items():
            value = kept.get(name)
            if value is None or isinstance(value, (_C.TensorMeta, tuple)):
                mine = [edges[i] for i in places]
                if mine == [_NO_TENSOR]:
                    self.values[name] = None if self._may_be_absent(name) else Number()
                    continue
                meta = value if isinstance(value, _C.TensorMeta) else _received(*mine[0]) if mine[0][0] else None
                self.values[name] = Operand(meta, mine, places)

    def _may_be_absent(self, name: str) -> bool:
        return any(p.name == name and p.type.endswith("?") for p in self.overload.definition.spec.params)

    def pairs(self, name: str) -> list[tuple[Any, int]]:
        """Where gradients of an argument go."""
        value = self.values.get(name)
        if isinstance(value, Operand):
            return value.edges
        if isinstance(value, list) and value and isinstance(value[0], Operand):
            return [pair for item in value for pair in item.edges]
        return [_NONE]

    def places(self, name: str) -> list[int]:
        """The same, as places among the node's own edges."""
        value = self.values.get(name)
        return value.places if isinstance(value, Operand) else [-1]


def _described(item: Any) -> Any:
    if isinstance(item, tuple) and len(item) == 3 and hasattr(item[0], "shape"):
        return Operand(item[0], [(item[1], item[2])], [])
    if isinstance(item, list):
        return [_described(i) for i in item]
    return item


# --- which of PyTorch's nodes ----------------------------------------------------------------------------------------


BODY, OWN, STEPS = 0, 1, 2      # csrc/call.h, Shows


def shows_own(overload: Any) -> int:
    """Whether PyTorch's graph has nodes of its own for an op whose body is recorded here."""
    name = overload.name
    if name == "reshape":
        return STEPS
    if name in _chains() or name in _rules():
        return OWN
    return name in _nodes() and name not in _BODIES and not any(o.records for o in _op_overloads(name))


def _op_overloads(name: str) -> Any:
    from ...op import ops  # noqa: PLC0415 - the registry is large, and a graph that nobody looks at does not need it

    return ops[name].overload_list if name in ops else ()


@functools.cache
def _rules() -> dict[str, Any]:
    from .rules import RULES  # noqa: PLC0415 - as above

    return RULES


def dress(node: Any) -> tuple[str, tuple | None]:
    """(name, next functions or None for its own edges) of a node that Python is about to see."""
    call = Call(node)
    chain = _chain(call)
    if chain is None and call.is_made and (call.name in _BODIES or _row(call) is None):
        if node._overload is None:
            return "CopySlices", None     # the last thing the body did was a write through a view
        call = Call(node, as_made=False)
        chain = _chain(call)
    return _plain(call) if chain is None else _built(call, _tree(chain))


def _chain(call: Call) -> str | None:
    rule = _rules().get(call.overload.definition.spec.name)
    if rule is not None:
        return rule(call)
    found = _chains().get(call.name) or _chains().get(call.name.removesuffix("_"), [])
    if not found:
        return None
    names = call.values | {"out": call.out, "overload": call.overload._overloadname, "number": is_number}
    for test, chain in found:
        if test is not None:       # what was not kept, or another overload has, is None
            names = dict.fromkeys(n for n in test.co_names if not hasattr(builtins, n)) | names
        if test is None or eval(test, names):  # noqa: S307 - rows of our own table
            return _filled(chain, names)
    return None


def _filled(chain: str, names: dict[str, Any]) -> str:
    """A chain with the numbers in its names: `Pad{len(pad) // 2}D` is `Pad2D`."""
    return _SUM.sub(lambda match: str(eval(match[1], names)), chain)  # noqa: S307 - rows of our own table


def _plain(call: Call) -> tuple[str, tuple | None]:
    """The node of an op that is one node in PyTorch too."""
    row = _row(call)
    if row is None:
        return f"{_camel(call.name)}Backward0", None
    names = _our_names(row, [p.name for p in call.overload.definition.spec.params])
    if call.is_made:
        return row.name, tuple(pair for name in names for pair in call.pairs(name))
    places = tuple(place for name in names for place in call.places(name))
    return row.name, None if places == tuple(range(len(call.node._edges))) else places


def _our_names(row: PyTorchNode, ours: list[str]) -> list[str]:
    """Our parameters that PyTorch's node has edges for: of the same name, else at the same place."""
    schema = _schema(row)
    known = {aten_name(name, schema): name for name in ours}
    places = [a.name for a in schema.arguments] or list(row.edges)
    return [known.get(edge) or ours[places.index(edge)] for edge in row.edges
            if edge in known or (edge in places and places.index(edge) < len(ours))]


def _camel(op: str) -> str:
    """As PyTorch makes names of nodes: `deg2rad` is `Deg2Rad`."""
    return "".join(part.title() for part in op.rstrip("_").split("_"))


class _NoSchema(NamedTuple):
    arguments: tuple = ()


def _schema(row: PyTorchNode) -> Any:
    return next((s for s in schemas_of(row.op) if s.overload_name == row.label), _NoSchema())


def _row(call: Call) -> PyTorchNode | None:
    """PyTorch's node for a call, among those it has for overloads of the op."""
    for spelling in _SPELLINGS:
        for name in dict.fromkeys((call.name, call.name.removesuffix("_"))):
            found = _nodes().get(spelling.format(name))
            if found:
                if name.removesuffix("_") in _NUMBERS_AS_TENSORS:
                    found = [r for r in found if not r.label.startswith("Scalar")]
                fitting = [r for r in found if _fits(call, _schema(r))]
                return min(fitting or found, key=lambda r: _distance(call, _schema(r)))
    return None


def _distance(call: Call, schema: AtenSchema) -> int:
    own = {aten_name(p.name, schema) for p in call.overload.definition.spec.params}
    return len(own ^ {a.name for a in schema.arguments})


def _fits(call: Call, schema: AtenSchema) -> bool:
    known = {a.name: a for a in schema.arguments}
    for param in call.overload.definition.spec.params:
        name = aten_name(param.name, schema)
        value = call.values.get(param.name)
        if name not in known:
            plain = not isinstance(value, (Operand, Number, list))
            if param.required or (value is not None and plain and value != param.default):
                return False
        elif isinstance(value, Operand):
            if not known[name].type.startswith("Tensor"):
                return False
        elif is_number(value) and known[name].type.startswith("Tensor"):
            if schema.name.removesuffix("_") not in _NUMBERS_AS_TENSORS:
                return False
    return True


# --- chains ----------------------------------------------------------------------------------------------------------


class Step(NamedTuple):
    """One node of a chain: its name, and what comes next: steps, or names of arguments."""

    name: str
    next: tuple[Any, ...]


@functools.cache
def _tree(text: str) -> Step:
    """`A(x, B(y))` as steps."""
    words = iter([word for word in _WORD.findall(text) if word])

    def step(name: str) -> tuple[Any, str]:
        after = next(words, "")
        if after != "(":
            return name, after
        parts: list[Any] = []
        word = next(words)
        while word != ")":
            part, word = step(word)
            parts.append(part)
        return Step(name, tuple(parts)), next(words, "")

    return step(next(words))[0]


def chain_of(call: Call) -> Step | None:
    """The steps that a call is in PyTorch, where it is several."""
    chain = _chain(call)
    return None if chain is None else _tree(chain)


def _built(call: Call, root: Step) -> tuple[str, tuple | None]:
    """What a node wears as the first step of a chain; the others become nodes to look at."""
    if not call.is_made and all(isinstance(part, str) for part in root.next):
        places = tuple(place for part in root.next for place in call.places(part))
        return root.name, None if places == tuple(range(len(call.node._edges))) else places
    seen: dict[Any, Any] = {}
    return root.name, tuple(pair for part in root.next for pair in _next(call, part, seen))


def _next(call: Call, part: Any, seen: dict[Any, Any]) -> list[tuple[Any, int]]:
    """Edges that lead to a step or an argument; the same step twice is one node."""
    if isinstance(part, str):
        return call.pairs(part)
    if part not in seen:
        edges = tuple(pair for following in part.next for pair in _next(call, following, seen))
        reaches = any(node is not None for node, _ in edges)
        seen[part] = _C._face(call.node, part.name, edges, part) if reaches else None
    return [(seen[part], 0) if seen[part] is not None else _NONE]
