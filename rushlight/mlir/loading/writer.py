"""Operations as nodes of an `fx` graph.

Enters: blocks of checked operations, and nodes for their arguments. Leaves: calls of ATen in a graph, and the tensors
and inner graphs that it needs by name. Bodies that work one by one are also written for many elements at once
(`lifted`). Refuses functions that call themselves, and programs that would become more than MOST nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ... import _C, ops
from ...fx import Graph, GraphModule, Node
from ...op.pack import BY_CODE
from ...tensors.interop import frombuffer, tensor
from ..constants import ElementError, check_bytes, width
from ..syntax import Bits, Block, Dense, Module, Operation, Value
from ..types import CODES, TensorType
from . import sizes
from .table import OPS

MOST = 1_000_000      # nodes
UNSIGNED = {8: "ui8", 16: "ui16", 32: "ui32", 64: "ui64"}
Size = Any            # a number, or a node where the size varies


def dtype(element: str) -> Any:
    """The dtype of an element type."""
    return BY_CODE[CODES[element]]


class Writer:
    """One graph in the making, and the node or tuple of nodes of each value."""

    def __init__(self, module: Module, device: str, outer: Writer | None = None) -> None:
        self.module, self.device = module, device
        self.graph = Graph()
        self.attributes: dict[str, Any] = {}
        self.nodes: dict[Value, Any] = {}
        self.known: dict[Node, list[Size]] = {}      # elements of small integer tensors that follow from sizes
        self.literals: dict[Node, Any] = {}          # numbers that stand in the text
        self.calls: list[str] = [] if outer is None else outer.calls
        self.count: list[int] = [0] if outer is None else outer.count
        self.batched: set[Node] | None = None         # while a body is lifted: nodes of the many elements
        self.op: Operation | None = None             # that is being written
        self.trace: str | None = None                # where it stands in the user's program

    # --- nodes --------------------------------------------------------------------------------------------------------

    def __call__(self, name: str, *args: Any, **kwargs: Any) -> Node:
        """A call of ATen: `w("add.Tensor", x, y)`."""
        packet, _, overload = name.partition(".")
        return self.node(getattr(getattr(ops.aten, packet), overload or "default"), *args, **kwargs)

    def node(self, target: Any, *args: Any, **kwargs: Any) -> Node:
        self.count[0] += 1
        if self.count[0] > MOST:
            assert self.op is not None
            raise self.op.refusal(f"the module becomes more than {MOST} nodes")
        node = self.graph.call_function(target, args, kwargs)
        if self.trace is not None:
            node.meta["stack_trace"] = self.trace
        return node

    def named(self, prefix: str, content: Any) -> Node:
        """A tensor or inner graph under a name of its own."""
        name = next(n for n in (f"{prefix}_{i}" for i in range(len(self.attributes), MOST)) if n not in self.attributes)
        self.attributes[name] = content
        return self.graph.create_node("get_attr", name)

    # --- sizes --------------------------------------------------------------------------------------------------------

    def size(self, x: Node, kind: TensorType, dim: int) -> Size:
        n = kind.shape[dim]
        return self("sym_size.int", x, dim) if n is None else n

    def shape(self, x: Node, kind: TensorType) -> list[Size]:
        """The sizes of a tensor, read from it where its type does not know them."""
        return [self.size(x, kind, d) for d in range(len(kind.shape))]

    def elements(self, x: Node, kind: TensorType) -> list[Size]:
        """The elements of a tensor of sizes, as numbers."""
        if x in self.known:
            return self.known[x]
        count = math.prod(n or 0 for n in kind.shape)
        flat = self("view.default", x, [count])
        return [self("_local_scalar_dense.default", self("select.int", flat, 0, i)) for i in range(count)]

    # --- constants ----------------------------------------------------------------------------------------------------

    def scalar(self, value: Any, element: str) -> Node:
        """A tensor of one number without dimensions."""
        node = self("full.default", [], value, dtype=dtype(element), device=self.device)
        self.literals[node] = value
        return node

    def splat(self, value: Any, element: str, shape: Sequence[Size]) -> Node:
        """A tensor whose elements are all the same: one number in memory."""
        one = self.scalar(value, element)
        return one if not shape else self("expand.default", one, list(shape))

    def arange(self, count: Size, element: str = "i64") -> Node:
        return self("arange.start_step", 0, count, 1, dtype=dtype(element), device=self.device)

    def constant(self, dense: Dense) -> Node:
        """A constant of the text."""
        element = dense.type.element
        content = self.content(dense)
        if isinstance(content, list) and len(content) == 1 and (dense.splat or math.prod(
                n or 0 for n in dense.type.shape) == 1):
            found = self.splat(content[0], element, [n or 0 for n in dense.type.shape])
        else:
            found = self.named("constant", self.made(content, dense.type))
        if isinstance(content, list) and element in ("i32", "i64") and len(dense.type.shape) <= 1:
            count = math.prod(n or 0 for n in dense.type.shape)
            if count <= sizes.MOST:
                self.known[found] = content * count if dense.splat else list(content)
        return found

    def content(self, dense: Dense) -> list[Any] | bytes:
        """Numbers, or bytes of more than one element."""
        found: Any = dense.elements
        count = math.prod(n or 0 for n in dense.type.shape)
        if isinstance(found, str):
            if found not in self.module.resources:
                assert self.op is not None
                raise self.op.error(f"the resource '{found}' is not in the module")
            found = self.module.resources[found]
            try:
                splat = check_bytes(found, dense.type, count)
            except ElementError as error:
                assert self.op is not None
                raise self.op.error(str(error)) from None
            return numbers(found, dense.type.element) if splat else found
        if isinstance(found, bytes):
            return numbers(found, dense.type.element) if dense.splat or count == 1 else found
        return [plain(v, dense.type.element) for v in found]

    def made(self, content: list[Any] | bytes, kind: TensorType) -> Any:
        wanted, shape = dtype(kind.element), [n or 0 for n in kind.shape]
        if isinstance(content, bytes):
            if kind.element == "i1":
                content = bytes(map(bool, content))
            raw = frombuffer(bytearray(content), dtype=_C.uint8) if content else tensor([], dtype=_C.uint8)
            made = raw.view(wanted).reshape(shape)
        else:
            made = tensor(content, dtype=wanted).reshape(shape)
        return made if self.device == "cpu" else made.to(self.device)

    # --- operations ---------------------------------------------------------------------------------------------------

    def value(self, v: Value) -> Any:
        return self.nodes[v]

    def apply(self, block: Block, arguments: Sequence[Any]) -> list[Any]:
        """Write a block behind what is there; what it returns."""
        self.nodes.update(zip(block.arguments, arguments, strict=True))
        for op in block.operations:
            if op.name.endswith(".return"):
                return [self.nodes[v] for v in op.operands]
            self.write(op)
        raise AssertionError("the verifier has seen to it that blocks return")

    def write(self, op: Operation) -> None:
        """Write one operation."""
        rule = OPS[op.name]
        if self.batched is not None:
            self.check_lifted(op, rule.lifts)
        outer, self.op, self.trace = (self.op, self.trace), op, where(op) or self.trace
        result = rule.lower(self, op, *[self.nodes[v] for v in op.operands])
        results = result if isinstance(result, list) else [result]
        self.nodes.update(zip(op.results, results, strict=True))
        if self.batched is None:
            sizes.follow(self, op, results)
        elif any(n in self.batched for v in op.operands for n in leaves(self.nodes[v])):
            self.batched.update(n for r in results for n in leaves(r))
        self.op, self.trace = outer

    def check_lifted(self, op: Operation, lifts: bool) -> None:
        """Bodies for many elements at once are made of what works one by one, on tensors without dimensions."""
        plain_types = all(not getattr(t, "shape", ()) for t in (*op.types, *[v.type for v in op.results]))
        if not lifts or not plain_types:
            raise op.refusal("not supported in a body that is applied to many elements at once")

    def lift(self, block: Block, arguments: Sequence[Node], shape: Sequence[Size]) -> list[Node]:
        """What a body of scalars gives for tensors of one shape, element by element."""
        outer = self.batched
        self.batched = set(arguments)
        found = self.apply(block, arguments)
        results = [r if r in self.batched else self("expand.default", r, list(shape)) for r in found]
        self.batched = outer
        return results

    def inner(self, block: Block, arguments: Sequence[Value], captured: Sequence[Value], prefix: str,
              results: Sequence[int] | None = ()) -> Node:
        """A block as a graph of its own, behind `get_attr`: takes arguments, in some order, and what it captures.
        `results`: which of its results it returns; all for (), the only one alone for None."""
        def write(inside: Writer, *given: Node) -> list[Any]:
            inside.nodes.update(zip(arguments, given, strict=True))
            found = inside.apply(block, [inside.nodes[v] for v in block.arguments])
            return [found[i] for i in results] if results else found

        return self.inner_of(write, captured, arguments, prefix, alone=results is None)

    def inner_of(self, write: Callable[..., list[Any]], captured: Sequence[Value], arguments: Sequence[Any],
                 prefix: str, alone: bool = False) -> Node:
        """A graph of its own that a function writes, given nodes for the arguments; these come first."""
        inside = Writer(self.module, self.device, self)
        inside.op, inside.trace = self.op, self.trace
        given = [inside.graph.placeholder(f"arg_{i}") for i in range(len(arguments))]
        outside: dict[Node, Node] = {}
        for v in captured:
            inside.nodes[v] = self.replaced(self.nodes[v], inside, outside)
        found = list(leaves(tuple(write(inside, *given))))
        seen: set[Any] = {*given, *outside.values()}
        for i, node in enumerate(found):      # results are tensors of their own: none is an argument or another result
            if node in seen:
                found[i] = inside("clone.default", node)
            seen.add(found[i])
        inside.graph.output(found[0] if alone else tuple(found))
        inside.graph.eliminate_dead_code()
        return self.named(prefix, GraphModule(inside.attributes, inside.graph))

    def replaced(self, value: Any, inside: Writer, outside: dict[Node, Node]) -> Any:
        """A value from outside as placeholders inside; sizes and numbers that are known stay so."""
        if isinstance(value, tuple):
            return tuple([self.replaced(v, inside, outside) for v in value])
        node = inside.graph.placeholder(f"outer_{len(outside)}")
        outside[node] = node
        if value in self.literals:
            inside.literals[node] = self.literals[value]
        if all(isinstance(n, int) for n in self.known.get(value, [None])):
            inside.known[node] = self.known[value]
        return node


def free_values(blocks: Sequence[Block]) -> list[Value]:
    """What blocks use and do not define, in the order of first use."""
    own: set[Value] = set()
    found: dict[Value, None] = {}

    def visit(block: Block) -> None:
        own.update(block.arguments)
        for op in block.operations:
            found.update(dict.fromkeys(v for v in op.operands if v not in own))
            for inner in op.blocks:
                visit(inner)
            own.update(op.results)

    for block in blocks:
        visit(block)
    return list(found)


def where(op: Operation) -> str | None:
    """The place of an operation in the program that it was made from, as tracebacks write it."""
    found, aliases = op.location, getattr(op.lexer, "attribute_aliases", {})
    for _ in range(8):
        if not isinstance(found, str):
            break
        found = aliases.get(found)
    if not isinstance(found, tuple):
        return None
    return f'  File "{found[0]}", line {found[1]}, in {op.name}'


# --- elements ---------------------------------------------------------------------------------------------------------


def plain(value: Any, element: str) -> Any:
    """An element as a Python number of the element's type."""
    if isinstance(value, tuple):
        part = element[8:-1]
        return complex(plain(value[0], part), plain(value[1], part))
    if isinstance(value, Bits):
        return numbers(int(value).to_bytes(width(element) // 8, "little"), element)[0]
    if type(value) is int and element.startswith("i"):      # 255 : i8 is -1
        bits = width(element)
        return value - (1 << bits) if value >= 1 << bits - 1 else value
    return value


def numbers(data: bytes, element: str) -> list[Any]:
    """Few elements from their bytes."""
    if element == "i1":
        return [bool(b) for b in data]
    found = tensor(list(data), dtype=_C.uint8).view(dtype(element))
    return (found.to(_C.float64) if found.is_floating_point() else found).tolist()


def leaves(value: Any) -> Iterator[Node]:
    """The nodes of a value, which may be a tuple."""
    if isinstance(value, tuple):
        for v in value:
            yield from leaves(v)
    else:
        yield value
