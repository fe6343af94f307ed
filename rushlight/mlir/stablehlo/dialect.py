"""The walk over a graph as StableHLO: which rule serves a call.

Enters: nodes of a functional graph. Leaves: values. A call is served by a rule of its name; else by what its definition
says: its loops (`lowering`), or the ops that its body is written with, which are traced and served in their turn.
Refuses: ops that have none of these, naming them and the user's line.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from ... import _C
from ..._C import Tensor
from ..._decomp.core import core_rule
from ..._higher_order_ops.core import HigherOrderOp
from ...autograd.grad_mode import no_grad
from ...dispatch.modes import disable_dispatch_modes
from ...fake import GuardOnDataDependentSymNode
from ...fx.node import Node, map_aggregate
from ...loops.lowered import Lowered, Memory, NotLowerable, Staged, Table
from ...op.factory import Factory
from ...op.fused import Fused
from ...op.pack import BY_CODE
from ...op.view import View
from ..errors import UnsupportedOp
from ..expanding import Expanding, leaves
from ..printing import Value
from ..sized import SIZES
from ..walking import SYMBOLIC, bound, line_of, meta_of
from .building import Hlo, is_fixed
from .control import case, loop, scanned
from .creation import BETWEEN_TENSORS, made as by_factory
from .elements import cast
from .lowering import Loops, scattered
from .places import lies_in_order, seen
from .rules import RULES
from .table import Call

BODIES = frozenset(("scatter_reduce", "index_reduce", "index_put", "index", "put", "take",
                    "max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward"))
"""Ops that are neither composite nor loops, and written with others all the same."""
STAND_INS = (1009, 1013, 1019, 1021)


class StableHlo(Expanding):
    """One graph as StableHLO."""

    dialect = "stablehlo"
    b: Hlo

    def __init__(self, b: Hlo, keeps_inline: bool = True) -> None:
        """`keeps_inline`: whether tensors of the program stand in the text, or behind it."""
        super().__init__(b)
        self.keeps_inline = keeps_inline

    def another(self) -> StableHlo:
        return type(self)(self.b, self.keeps_inline)

    def constant(self, name: str, t: Tensor) -> Value:
        return self.b.tensor(t) if self.keeps_inline else self.b.resource(name, t)

    def call(self, node: Node) -> Any:
        between = BETWEEN_TENSORS.get(str(node.target).rpartition(".")[0])
        if between is not None and any(isinstance(v, Value) for v in self.given(node.args)):
            return self.settled(self.expanded(between, self.given(node.args), self.given(node.kwargs)),
                                node.meta.get("val"))
        found = bound(node)
        if found is None:      # ATen has in one op what a few of ours do
            result = self.expanded(node.target, self.given(node.args), self.given(node.kwargs))
            return self.settled(result, node.meta.get("val"))
        overload, args = found
        if overload.definition.name in SIZES:
            return node.meta.get("val")
        return self.served(overload, args, node)

    def served(self, overload: Any, args: tuple, node: Node) -> Any:
        definition = overload.definition
        given, traced = self.given(args), meta_of(args)
        fakes = map_aggregate(traced, self.in_order)
        result = seen_result(node)
        names = [p.name for p in definition.spec.params]
        rule = RULES.get(definition.name)
        if rule is not None:
            call = Call(self.b, definition, dict(zip(names, fakes, strict=True)), result, self.expanded,
                        dict(zip(names, traced, strict=True)))
            made = rule(call, **dict(zip(names, given, strict=True)))
            if made is not NotImplemented:
                return self.settled(made, result)
        if not any(isinstance(v, Value) for v in leaves(given)):
            made = self.from_numbers(overload, definition, args, given)
        else:
            made = self.by_loops(definition, fakes, given)
        if made is None:
            made = self.by_body(overload, definition, given, node)
        return self.settled(made, result)

    def by_body(self, overload: Any, definition: Any, given: tuple, node: Node) -> Any:
        """What the op is written with, or core ATen has for it."""
        if (definition.is_composite or isinstance(definition, Fused) or definition.name in BODIES) and not (
                definition.only_inplace):
            return self.expanded(definition.run, given, {})
        written = core_rule(node.target)
        if written is None:
            raise UnsupportedOp(f"mlir: there is no rule for {node.target} in StableHLO.{line_of(self.node)}")
        return self.expanded(written, self.given(node.args), self.given(node.kwargs))

    def from_numbers(self, overload: Any, definition: Any, args: tuple, given: tuple) -> Any:
        """What an op makes of numbers alone."""
        if isinstance(definition, Factory):
            found = by_factory(self.b, definition, given)
            if found is not None:
                return found
        if any(isinstance(v, SYMBOLIC) for v in leaves(given)) or definition.is_composite:
            return None
        with no_grad(), disable_dispatch_modes():
            result = definition.run(*given)
        return self.b.tensor(result) if isinstance(result, Tensor) else None

    def by_loops(self, definition: Any, fakes: tuple, given: tuple) -> Any:
        """What the op's loops compute, where it has any."""
        if isinstance(definition, View):
            return self.view(definition, fakes, given)
        lowered = self.lowered(definition, tuple(fakes))
        if lowered is None:
            return None
        values = [v for v in leaves(given) if isinstance(v, Value)]
        if lowered.scatter is not None:
            sizes, code = lowered.scatter.target.sizes, lowered.scatter.target.code
            target = self.b.constant(0, BY_CODE[code], sizes) if lowered.scatter.cleared else values[0]
            return self.b.reshape(scattered(self.b, lowered, values, target), tuple(lowered.shape))
        made = Loops(self.b, lowered, values).results()
        return made[0] if len(made) == 1 else tuple(made)

    def lowered(self, definition: Any, fakes: tuple) -> Lowered | None:
        """The op's loops over tensors like the fakes."""
        try:
            found = definition.lower(fakes)
            if found.body is None and found.folding is None and found.scatter is None:
                # Tables of windows are made for tensors that have elements, whatever these are.
                return as_for_elements(definition, fakes)
            return found
        except NotLowerable:
            return None
        except (TypeError, GuardOnDataDependentSymNode) as error:
            if all(is_fixed(t.shape) for t in leaves(fakes) if isinstance(t, Tensor)):
                raise
            raise UnsupportedOp(f"mlir: {definition.name} has no loops for sizes that vary.{line_of(self.node)}"
                                ) from error

    def view(self, definition: View, fakes: tuple, given: tuple) -> Any:
        """What a view shows, or several."""
        found = definition.geometry(*fakes)
        x = given[0]
        memories = [Memory("x", (g.dtype or x.dtype).code, tuple(g.sizes), tuple(g.strides), None, g.offset)
                    for g in (found if isinstance(found, list) else [found])]
        shown = [seen(self.b, x, memory) for memory in memories]
        return tuple(shown) if isinstance(found, list) else shown[0]

    def control(self, op: HigherOrderOp, args: tuple, node: Node) -> Any:
        b = self.b

        def called(graph: Any) -> Callable[..., list[Value]]:
            return lambda given: [as_carried(v) for v in self.inner().run(graph, list(given))]

        def as_carried(v: Any) -> Value:
            if not isinstance(v, Value):
                raise UnsupportedOp(f"mlir: a function of {op.name} returns a {type(v).__name__}.{line_of(node)}")
            return v

        if op.name == "cond":
            pred, chosen, other, operands = args
            made = case(b, pred, lambda: called(chosen)(operands), lambda: called(other)(operands))
        elif op.name == "while_loop":
            condition, body, carried, further = args
            made = loop(b, carried, lambda c: called(condition)([*c, *further])[0],
                        lambda c: called(body)([*c, *further]))
        elif op.name == "scan":
            function, carried, xs, further = args
            made = scanned(b, called(function), carried, xs, further, node.meta["val"])
        else:
            return super().control(op, args, node)
        return tuple(made)

    def settled(self, made: Any, fake: Any) -> Any:
        """Results with the types that the program says they have."""
        if isinstance(made, Value) and isinstance(fake, Tensor):
            if [str(n) for n in made.shape] != [str(n) for n in fake.shape]:
                made = self.b.reshape(made, tuple(fake.shape))
            return cast(self.b, made, fake.dtype)
        if isinstance(made, (list, tuple)) and isinstance(fake, (list, tuple)):
            fakes = [*fake, *[None] * (len(made) - len(fake))]
            return tuple([self.settled(m, f) for m, f in zip(made, fakes, strict=True)])
        return made


def seen_result(node: Node) -> Any:
    """What tracing saw of a call: of several results, where nothing else is noted, those that somebody uses."""
    if node.meta.get("val") is not None:
        return node.meta["val"]
    parts = {user.args[1]: user.meta.get("val") for user in node.users if user.target is operator.getitem}
    return [parts.get(k) for k in range(max(parts) + 1)] if parts else None


def as_for_elements(definition: Any, fakes: tuple) -> Lowered:
    """The loops over tensors of memory that nobody wrote to. Sizes that vary are stood in for by numbers that nothing
    else has, and put back."""
    sizes = {n for t in leaves(fakes) if isinstance(t, Tensor) for n in t.shape if type(n) is int}
    free = (n for n in STAND_INS if n not in sizes)
    numbers: dict[str, int] = {}
    symbols: dict[int, Any] = {}

    def number(n: Any) -> int:
        if type(n) is int:
            return n
        if str(n) not in numbers:
            numbers[str(n)] = next(free)
            symbols[numbers[str(n)]] = n
        return numbers[str(n)]

    def stand_in(a: Any) -> Any:
        if not isinstance(a, Tensor):
            return a
        return _C.empty(tuple([number(n) for n in a.shape]), None, a.dtype, _C.device("cpu"))

    def back(shape: Sequence[int]) -> tuple:
        return tuple([next((s * (n // k) for k, s in symbols.items() if n and n % k == 0), n) for n in shape])

    def as_read(read: Any) -> Any:
        if not isinstance(read, Memory) or isinstance(read, Table):
            return read
        if isinstance(read, Staged):
            return read.but(sizes=back(read.sizes), producer=with_symbols(read.producer))
        if not lies_in_order(read.sizes, read.strides) or read.offset:
            raise UnsupportedOp(f"mlir: {definition.name} of sizes that vary")
        return read.but(sizes=back(read.sizes), strides=())      # which says so

    def with_symbols(found: Lowered) -> Lowered:
        reads = tuple(map(as_read, found.reads))
        return found.but(ranges=back(found.ranges), shape=back(found.shape), reads=reads)

    found = definition.lower(map_aggregate(fakes, stand_in))
    return with_symbols(found) if symbols else found
