"""Running a graph: one Python function, made once.

Enters: a graph. Leaves: a callable that takes the graph's inputs. Values are locals, loops and branches Python's own,
tensors' ops the op objects themselves, called with what the node gives and no more. The text of the function is made
from the graph's structure alone: names of the program do not enter it, constants are handed over as objects.
An error that a node raises is told with the lines of the program it comes from.
"""

from __future__ import annotations

import functools
import itertools
import traceback
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from .._jit_internal import Error
from ..base import late
from . import types as t
from .classes import ClassType, Object
from .constants import NUMBERED_DTYPES, constant_of
from .contexts import Entered
from .fusion import Fused, Run, runs_of
from .ir import Block, Graph, Node, Value
from .locals import Locals
from .primitives import FUNCTIONS, TEXTS, text_of
from .schemas import Argument, Schema, overload_of
from .tasks import fork

INDENT = "    "
_NOT = object()
_FILE = "<script>"


class _Writer:
    """Writes one function."""

    def __init__(self, graph: Graph, fuses: bool) -> None:
        self.graph, self.fuses = graph, fuses
        self.parts: list[Program] = []           # programs inside this one, kept for the places of their errors
        self.lines: list[str] = []
        self.nodes: list[Node | None] = []
        self.bound: dict[str, Any] = {}
        self.known: dict[int, str] = {}
        self.locals = Locals(graph, lambda node: text_of(node) is not None)

    def line(self, depth: int, text: str, node: Node | None = None) -> None:
        self.lines.append(INDENT * depth + text)
        self.nodes.append(node)

    def bind(self, held: Any) -> str:
        """A name for an object that the function needs."""
        if id(held) not in self.known:
            name = f"c{len(self.bound)}"
            self.known[id(held)], self.bound[name] = name, held
        return self.known[id(held)]

    def text(self, value: Value) -> str:
        """A value where it is read: its local, or the constant itself."""
        held = constant_of(value, _NOT)
        if held is _NOT:
            if value.node_ in self.locals.inlined:
                return text_of(value.node_).format(*map(self.text, value.node_.inputs_))  # type: ignore[union-attr]
            return self.locals.name(value)
        held = getattr(held, "wrapped_number", held)       # a number of a trace: in promotion it counts for one
        if held is None or type(held) is bool or (type(held) is int and held >= 0):
            return repr(held)
        return self.bind(held)

    def write(self) -> str:
        params = ", ".join(map(self.locals.name, self.graph.inputs()))
        self.line(0, f"def run({params}):")
        enters = any(node.kind_ == "prim::Enter" for node in self.graph.all_nodes())
        depth = 2 if enters else 1
        if enters:
            self.line(1, f"entered = {self.bind(Entered)}()")
            self.line(1, "try:")
        self.block(self.graph.block, depth)
        results = [self.text(value) for value in self.graph.outputs()]
        self.line(depth, f"return {results[0] if len(results) == 1 else '(' + ', '.join(results) + ')'}")
        if enters:
            self.line(1, "except BaseException:")
            self.line(2, "entered.leave_all()")
            self.line(2, "raise")
        return "\n".join(self.lines)

    def _prim_Enter(self, node: Node, depth: int) -> None:
        self.line(depth, f"{self.locals.name(node.outputs_[0])} = entered.enter({self.text(node.inputs_[0])})", node)

    def _prim_Exit(self, node: Node, depth: int) -> None:
        self.line(depth, "entered.leave()", node)

    def block(self, block: Block, depth: int, targets: Sequence[Value] = (), values: Sequence[Value] = ()) -> None:
        """The statements of a block; at its end, what it hands over."""
        start = len(self.lines)
        runs = self.runs(block)
        for node in block.nodes():
            if node not in runs:
                self.node(node, depth)
            elif node is runs[node].nodes[-1]:
                self.fused(runs[node], depth)
        self.assign(targets, values, depth)
        if len(self.lines) == start:
            self.line(depth, "pass")

    def runs(self, block: Block) -> dict[Node, Run]:
        """The nodes of a block that are called together."""
        if not self.fuses:
            return {}
        return {node: run for run in runs_of(block, op_of) for node in run.nodes}

    def fused(self, run: Run, depth: int) -> None:
        program = Program(run.graph(), fuses=False)
        self.parts.append(program)
        cell = self.bind(Fused(program.run).cell)
        targets = ", ".join(map(self.locals.name, run.outputs))
        self.line(depth, f"{targets} = {cell}[0]({self.row(run.inputs)})")

    def node(self, node: Node, depth: int) -> None:
        if node.kind_ == "prim::Constant" or node in self.locals.inlined:
            return
        emit = getattr(self, "_" + node.kind_.replace("::", "_"), None)
        if emit is not None:
            emit(node, depth)
            return
        outputs = ", ".join(map(self.locals.name, node.outputs_))
        text = self.call(node)
        self.line(depth, f"{outputs} = {text}" if outputs else text, node)

    # --- control flow
    def _prim_If(self, node: Node, depth: int) -> None:
        for word, block in ((f"if {self.text(node.inputs_[0])}:", node.blocks_[0]), ("else:", node.blocks_[1])):
            if word == "else:" and not node.outputs_ and not list(block.nodes()):
                continue
            self.line(depth, word, node)
            self.block(block, depth + 1, node.outputs_, block.return_node.inputs_)

    def assign(self, targets: Sequence[Value], values: Sequence[Value], depth: int) -> None:
        pairs = [(self.locals.name(target), self.text(value)) for target, value in zip(targets, values, strict=True)]
        pairs = [(target, value) for target, value in pairs if target != value]
        if pairs:
            self.line(depth, f"{', '.join(a for a, _ in pairs)} = {', '.join(b for _, b in pairs)}")

    def _prim_Loop(self, node: Node, depth: int) -> None:
        body = node.blocks_[0]
        index, carried = body.params.outputs_[0], body.params.outputs_[1:]
        self.assign(carried, node.inputs_[2:], depth)
        goes_on = body.return_node.inputs_[0]
        counted = constant_of(node.inputs_[0], None) != 2**63 - 1
        if counted and constant_of(goes_on, None) is True and constant_of(node.inputs_[1], None) is True:
            self.line(depth, f"for {self.locals.name(index)} in range({self.text(node.inputs_[0])}):", node)
            self.block(body, depth + 1, carried, body.return_node.inputs_[1:])
        else:
            self._while(node, depth, counted)
        self.assign(node.outputs_, carried, depth)

    def _while(self, node: Node, depth: int, counted: bool) -> None:
        body = node.blocks_[0]
        index, carried = body.params.outputs_[0], body.params.outputs_[1:]
        goes_on, *results = body.return_node.inputs_
        is_own = goes_on.node_.block is body and constant_of(goes_on, _NOT) is _NOT and (
            goes_on.node_ not in self.locals.inlined and goes_on not in results and goes_on not in body.params.outputs_)
        flag = self.locals.name(goes_on) if is_own else f"w{index.unique_}"
        needs_index = counted or bool(index.uses_)
        turn = self.locals.name(index)
        self.line(depth, f"{flag} = {self.text(node.inputs_[1])}", node)
        if needs_index:
            self.line(depth, f"{turn} = 0")
        bound = f" and {turn} < {self.text(node.inputs_[0])}" if counted else ""
        self.line(depth, f"while {flag}{bound}:", node)
        self.block(body, depth + 1)
        pairs = [] if is_own else [(flag, self.text(goes_on))]
        pairs += [(self.locals.name(target), self.text(value)) for target, value in zip(carried, results, strict=True)]
        if needs_index:
            pairs.append((turn, f"{turn} + 1"))
        pairs = [(target, value) for target, value in pairs if target != value]
        if pairs:
            self.line(depth + 1, f"{', '.join(a for a, _ in pairs)} = {', '.join(b for _, b in pairs)}")

    # --- the language's own
    def _prim_Uninitialized(self, node: Node, depth: int) -> None:
        self.line(depth, f"{self.result(node)} = None")

    def _prim_RaiseException(self, node: Node, depth: int) -> None:
        self.line(depth, f"{self.bind(raise_exception)}({self.row(node.inputs_)})", node)

    def result(self, node: Node) -> str:
        """The local of a node's one result."""
        return self.locals.name(node.outputs_[0])

    def row(self, values: list[Value]) -> str:
        return ", ".join(map(self.text, values))

    def _prim_ListConstruct(self, node: Node, depth: int) -> None:
        self.line(depth, f"{self.result(node)} = [{self.row(node.inputs_)}]", node)

    def _prim_TupleConstruct(self, node: Node, depth: int) -> None:
        made = node.outputs_[0].type_
        inner = self.row(node.inputs_) + ("," if len(node.inputs_) == 1 else "")
        owner = made.python_class if isinstance(made, t.TupleType) else None
        text = f"{self.bind(owner)}({inner})" if owner is not None else f"({inner})"
        self.line(depth, f"{self.result(node)} = {text}", node)

    def _prim_DictConstruct(self, node: Node, depth: int) -> None:
        pairs = zip(node.inputs_[::2], node.inputs_[1::2], strict=True)
        inner = ", ".join(f"{self.text(key)}: {self.text(value)}" for key, value in pairs)
        self.line(depth, f"{self.result(node)} = {{{inner}}}", node)

    def _unpack(self, node: Node, depth: int) -> None:
        targets = ", ".join(map(self.locals.name, node.outputs_))
        if not targets:
            return
        if node.kind_ == "prim::ListUnpack":
            row = f"{self.bind(exactly)}({self.text(node.inputs_[0])}, {len(node.outputs_)})"
            self.line(depth, f"{targets}, = {row}", node)
        else:
            self.line(depth, f"{targets}, = {self.text(node.inputs_[0])}", node)

    _prim_TupleUnpack = _prim_ListUnpack = _unpack

    def _prim_isinstance(self, node: Node, depth: int) -> None:
        ask = self.bind(functools.partial(holds, types=tuple(node.attributes["types"])))
        self.line(depth, f"{self.result(node)} = {ask}({self.text(node.inputs_[0])})", node)

    def _prim_CallFunction(self, node: Node, depth: int) -> None:
        function = node.inputs_[0].node_.pyobj
        runner = self.bind(function.runner())
        self.line(depth, f"{self.result(node)} = {runner}({self.row(node.inputs_[1:])})", node)

    def _prim_fork(self, node: Node, depth: int) -> None:
        program = Program(node.attributes["Subgraph"])
        self.parts.append(program)
        given = "".join(f", {self.text(value)}" for value in node.inputs_)
        self.line(depth, f"{self.result(node)} = {self.bind(fork)}({self.bind(program.run)}{given})", node)

    def _prim_PythonOp(self, node: Node, depth: int) -> None:
        from .values import leaving

        result = node.outputs_[0]
        ways = [leaving(value.type_) for value in node.inputs_]
        given = ", ".join(self.text(value) if way is None else f"{self.bind(way)}({self.text(value)})"
                          for value, way in zip(node.inputs_, ways, strict=True))
        call = f"{self.bind(node.pyobj)}({given})"
        self.line(depth, f"{self.result(node)} = {self.bind(functools.partial(answered, type=result.type_))}({call})",
                  node)

    # --- objects: an attribute is a place in the list of slots, known from the class
    def _prim_GetAttr(self, node: Node, depth: int) -> None:
        held = node.inputs_[0]
        at = held.type_.index[node.attributes["name"]]  # type: ignore[attr-defined]
        self.line(depth, f"{self.result(node)} = {self.text(held)}.slots[{at}]", node)

    def _prim_SetAttr(self, node: Node, depth: int) -> None:
        held, value = node.inputs_
        at = held.type_.index[node.attributes["name"]]  # type: ignore[attr-defined]
        self.line(depth, f"{self.text(held)}.slots[{at}] = {self.text(value)}", node)

    def _prim_CreateObject(self, node: Node, depth: int) -> None:
        made = node.outputs_[0]
        self.line(depth, f"{self.result(node)} = {self.bind(Object)}({self.bind(made.type_)})", node)

    def _prim_CallMethod(self, node: Node, depth: int) -> None:
        held, name = node.inputs_[0], node.attributes["name"]
        result = self.result(node)
        if isinstance(held.type_, ClassType):
            runner = self.bind(held.type_.methods[name].runner())
            self.line(depth, f"{result} = {runner}({self.row(node.inputs_)})", node)
        else:       # an interface: the object knows
            self.line(depth, f"{result} = {self.text(held)}.method({self.bind(name)})({self.row(node.inputs_[1:])})",
                      node)

    def _prim_dtype(self, node: Node, depth: int) -> None:
        self.line(depth, f"{self.result(node)} = {self.bind(dtype_number)}({self.text(node.inputs_[0])})", node)

    # --- builtins
    def call(self, node: Node) -> str:
        """A builtin's call."""
        given = [self.text(value) for value in node.inputs_]
        if _is_plain(node):
            text = text_of(node)
            if text is not None:
                return text.format(*given)
            return f"{self.bind(FUNCTIONS[node.kind_])}({', '.join(given)})"
        schema = overload_of(node.kind_, [value.type_ for value in node.inputs_])
        if schema is None:
            raise RuntimeError(f"no signature of {node.kind_} takes"
                               f" ({', '.join(str(value.type_) for value in node.inputs_)})")
        return self.op(node, schema)

    def op(self, node: Node, schema: Schema) -> str:
        """An op of tensors: values by place, as ATen orders them (our names may be others), up to the last
        that is no default; then keywords."""
        given = [(argument, value, constant_of(value, _NOT))
                 for argument, value in zip(schema.arguments, node.inputs_, strict=True)]
        needed = [not _is_left_out(schema, *one) for one in given]
        places = [at for at, (argument, *_) in enumerate(given) if needed[at] and not argument.kwarg_only]
        last = places[-1] if places else -1
        parts: list[str] = []
        for at, (argument, value, held) in enumerate(given):
            by_word = argument.kwarg_only or (argument.name == "alpha" and at == len(given) - 1)
            if needed[at] or (at < last and not by_word):
                text = self.argument(argument, value, held)
                parts.append(f"{argument.name}={text}" if by_word else text)
        call = f"{self.bind(op_of(schema))}({', '.join(parts)})"
        is_list = len(schema.returns) == 1 and isinstance(schema.returns[0].type, t.ListType)
        return f"list({call})" if is_list else call

    def argument(self, argument: Argument, value: Value, held: Any) -> str:
        """A value as the op takes it: numbers of dtypes, layouts and formats as what they stand for."""
        if argument.real_type not in _CODED:
            return self.text(value)
        decode = _CODED[argument.real_type]
        return self.bind(decode(held)) if held is not _NOT else f"{self.bind(decode)}({self.text(value)})"


def _has_tensor(type: t.Type) -> bool:
    return isinstance(type, t.TensorType) or any(map(_has_tensor, type.contained()))


_OF_ANYTHING = frozenset(("aten::__is__", "aten::__isnot__", "aten::Bool", "aten::Int", "aten::Float", "aten::len",
                           "aten::IntImplicit", "aten::FloatImplicit", "aten::ScalarImplicit", "aten::ComplexImplicit",
                           "aten::_unwrap_optional", "aten::item", "aten::dim", "aten::numel", "aten::str",
                           "aten::format", "aten::is_floating_point", "aten::is_complex", "aten::is_contiguous",
                           "aten::wait", "aten::Complex", "aten::size", "aten::tensor", "aten::as_tensor",
                           "aten::is_leaf", "aten::grad", "aten::backward", "aten::save", "aten::result_type",
                           "aten::_native_multi_head_attention", "aten::_transformer_encoder_layer_fwd"))


def _is_plain(node: Node) -> bool:
    """Whether a builtin is the language's own, and none of tensors."""
    if node.kind_ not in TEXTS and node.kind_ not in FUNCTIONS:
        return False
    if node.kind_.startswith("prim::") or node.kind_ in _OF_ANYTHING:
        return True
    first = node.inputs_[0].type_ if node.inputs_ else None
    if isinstance(first, (t.ListType, t.DictType, t.StringType)):
        return node.kind_ not in ("aten::cat", "aten::stack", "aten::einsum")
    return not any(_has_tensor(value.type_) for value in node.inputs_)


def _is_left_out(schema: Schema, argument: Argument, value: Value, held: Any) -> bool:
    """Whether a value is what the op takes anyway."""
    is_layout = schema.name == "aten::to" and argument.name == "layout" and held == 0
    return argument.has_default and (is_layout or _is_default(held, value, argument))


def _is_default(held: Any, value: Value, argument: Argument) -> bool:
    if held is _NOT:
        node = value.node_
        is_row = node.kind_ == "prim::ListConstruct" and isinstance(argument.default, list)
        return is_row and [constant_of(item, _NOT) for item in node.inputs_] == argument.default
    return held is argument.default or (type(held) is type(argument.default) and held == argument.default)


def _dtype(number: Any) -> Any:
    return None if number is None else NUMBERED_DTYPES[number]


def _format(number: Any) -> Any:
    from ..base.shape import memory_format

    names = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
    return None if number is None else memory_format(names[number])


def _layout(number: Any) -> Any:
    return None if number is None else _layouts()[number]


@functools.cache
def _layouts() -> tuple[Any, ...]:
    torch = late.provided("package")
    names = ("strided", "sparse_coo", "sparse_csr", "_mkldnn", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged")
    return tuple(getattr(torch, name, None) for name in names)


_CODED: dict[str, Callable[[Any], Any]] = {"ScalarType": _dtype, "MemoryFormat": _format, "Layout": _layout}


def dtype_number(tensor: Any) -> int:
    from .constants import DTYPE_NUMBERS

    return DTYPE_NUMBERS[tensor.dtype]


def answered(value: Any, type: t.Type) -> Any:
    """What a Python function gave to a script, as the type it was declared to have."""
    from .values import Refused, converted

    try:
        return converted(value, type)
    except Refused as refused:
        raise RuntimeError(f"a Python function declared to return {type} returned a {value.__class__.__name__}:"
                           f" {value!r:.80}. {refused}") from None


def exactly(row: list, count: int) -> list:
    """A list to unpack, of the length that the program expects."""
    if len(row) != count:
        raise RuntimeError(f"a list of {len(row)} elements is taken apart into {count} names")
    return row


def holds(value: Any, types: tuple[t.Type, ...]) -> bool:
    """Whether a value is of one of some types."""
    from .values import is_of

    return any(is_of(value, type) for type in types)


def raise_exception(message: str, name: str | None = None) -> None:
    """What `raise` does in a script."""
    error = Error(message if name is None else f"{name}: {message}")
    error.is_named = name is not None  # type: ignore[attr-defined]
    raise error


def op_of(schema: Schema) -> Callable[..., Any]:
    """The op object behind a signature."""
    return _op_named(schema.name, schema.overload)


@functools.cache
def _op_named(full: str, overload: str) -> Callable[..., Any]:
    from .. import _C, ops
    from ..aten.adapters import ADAPTERS

    space, _, name = full.partition("::")
    if space == "aten" and name in ADAPTERS:         # our op of this name has another signature
        return ADAPTERS[name]
    found = getattr(getattr(ops, space), name, None)
    if space == "aten" and name in ADAPTERS:        # ours of that name takes or gives something else
        return getattr(found, overload or "default")
    found = getattr(found, "op", found)         # the op object itself: a packet would only pass the call on
    if found is None:
        found = getattr(late.provided("package"), name, None)
    return found if found is not None else getattr(_C.Tensor, name)


_programs: weakref.WeakValueDictionary[str, Program] = weakref.WeakValueDictionary()      # by the name of their "file"
_count = itertools.count()


class Program:
    """A graph made runnable."""

    def __init__(self, graph: Graph, fuses: bool = True) -> None:
        writer = _Writer(graph, fuses)
        self.text = writer.write()
        self.nodes, self.parts = writer.nodes, writer.parts
        self.file = f"{_FILE} {next(_count)}"
        _programs[self.file] = self
        namespace: dict[str, Any] = dict(writer.bound)
        exec(compile(self.text, self.file, "exec"), namespace)  # noqa: S102 - text that was just made from structure
        self.run = namespace["run"]


def places_of(error: BaseException) -> list[Node]:
    """The nodes that an error came through, the innermost last."""
    found = []
    for frame in traceback.extract_tb(error.__traceback__):
        program = _programs.get(frame.filename)
        node = program.nodes[frame.lineno - 1] if program is not None and frame.lineno is not None else None
        if node is not None:
            found.append(node)
    return found


def told(error: BaseException) -> Error:
    """An error of a running script with its lines, from the call that was made to the place where it failed."""
    lines = "".join(node.range.highlight(running=True) for node in places_of(error) if node.range is not None)
    head = ("An operation of a compiled program failed.\n"
            "Traceback of TorchScript (most recent call last):\n")
    kind = f"{type(error).__name__}: "
    if isinstance(error, Error):         # the script's own: by the class that it raised
        kind = "" if getattr(error, "is_named", False) else "RuntimeError: "
    return Error(f"{head}{lines}{kind}{error}")
