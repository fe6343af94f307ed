"""Min-cut: which values to save between forward and backward, and which to compute again,
so that the fewest bytes are kept.

Enters: a joint graph, and a memory budget. Leaves: a `Partition`. Pointwise ops and views are computed again for
nothing or nearly so (on a processor, but for exponentials and their like); products, convolutions, reductions, sorts
and whatever is not known to be cheap are not; random numbers never are, since they would be others.

Every value the backward could ask for is an edge as wide as its bytes; the cut between what is given (inputs, and
values that may not be computed twice) and the backward that saves the fewest bytes is a minimum cut. `memory_budget`
below 1 lets expensive ops be computed again too, those with the most bytes per unit of work first, until what is saved
is that share of the way from the least there is (0) to the plain cut (1).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

from .. import _C
from .._C import Tensor
from ..fx.graph_module import GraphModule
from ..fx.node import Node, _draws, _mutates
from ..op.definition import KIND_POINTWISE
from .max_flow import INFINITE, Network
from .partition import (
    Partition,
    after_tangents,
    cut,
    default_partition,
    is_tangent,
    nbytes_of,
    needed_for,
)

_CHEAP = frozenset(("clone", "contiguous", "to", "copy", "full", "zeros", "ones", "arange", "full_like", "zeros_like",
                    "ones_like", "scalar_tensor", "eye", "sym_size", "cat", "stack"))
# Pointwise ops whose gradient is made of their result: a processor takes several times as long to compute that again
# as to write and read it, and who saves it seldom needs the operand, which is as large.
_SLOW = frozenset(("exp", "sigmoid", "tanh"))
_PRODUCTS = (
    "matmul",
    "mm",
    "bmm",
    "linear",
    "convolution",
    "addmm",
    "baddbmm",
    "attention",
    "lstm",
    "gru",
    "rnn",
    "einsum",
)


def min_cut_rematerialization_partition(
    joint: GraphModule, num_results: int, overwritten: Sequence[int] = (), *, memory_budget: float = 1.0
) -> Partition:
    """The partition that saves the fewest bytes."""
    if not 0 <= memory_budget <= 1:
        raise ValueError(f"min_cut: expected a memory_budget from 0 to 1, got {memory_budget}.")
    problem = _Problem(joint, num_results, overwritten)
    plain = problem.solve(problem.expensive)
    if plain is None:
        return default_partition(joint, num_results, overwritten)
    saved = plain if memory_budget == 1 else problem.within(memory_budget, plain)
    return cut(joint, num_results, saved, overwritten)


class _Problem:
    """What may be saved, at which price, and what may be computed again."""

    def __init__(self, joint: GraphModule, num_results: int, overwritten: Sequence[int]) -> None:
        self.graph = joint.graph
        returned = self.graph.output_node().args[0]
        grads = [g for g in returned[num_results:] if isinstance(g, Node)]
        self.backward = after_tangents(self.graph)
        self.later = needed_for(grads, lambda node: node not in self.backward)
        needed = needed_for(grads)
        self.candidates = [n for n in self.graph.nodes if n in needed and n not in self.backward]
        # asked for by the backward itself, or returned as a gradient
        self.wanted = {n for n in self.candidates if n in self.later}
        inputs = [n for n in self.graph.nodes if n.op == "placeholder" and not is_tangent(n)]
        self.overwritten = {inputs[i] for i in overwritten}
        self.expensive = {n for n in self.candidates if n.op == "call_function" and not is_cheap(n)}

    def price(self, node: Node) -> int:
        """What saving a value costs. Inputs are kept by the caller, unless they are overwritten."""
        value = node.meta.get("val")
        if isinstance(value, (tuple, list)) or (value is None and node.op == "call_function"):
            return INFINITE     # several results: each is saved by itself
        if _is_collective(node, "begins"):
            return INFINITE     # what is saved is there
        if node.op == "placeholder" and node not in self.overwritten:
            return 1
        return max(nbytes_of(node), 1) + 1

    def solve(self, expensive: set[Node]) -> list[Node] | None:
        """The values to save where `expensive` ones are not computed again; None if there is no way."""
        network = Network()
        inside = set(self.candidates)
        for node in self.candidates:
            network.add((node, "in"), (node, "out"), self.price(node))
            if node.op == "placeholder" or node in expensive or _never_again(node):
                network.add("given", (node, "in"), INFINITE)
            if node in self.wanted:
                network.add((node, "out"), "backward", INFINITE)
            for user in node.users:
                if user in inside:
                    network.add((node, "out"), (user, "in"), INFINITE)
        if "given" not in network.numbers or "backward" not in network.numbers:
            return []
        amount, near = network.min_cut("given", "backward")
        if amount >= INFINITE:
            return None
        return [n for n in self.candidates if (n, "in") in near and (n, "out") not in near]

    def bytes_of(self, saved: Sequence[Node]) -> int:
        return sum(nbytes_of(n) for n in saved if n.op != "placeholder" or n in self.overwritten)

    def within(self, budget: float, plain: list[Node]) -> list[Node]:
        """The cheapest recomputation whose saved bytes are within the budget."""
        least = self.solve(set())
        if least is None:
            return plain
        low, high = self.bytes_of(least), self.bytes_of(plain)
        allowed = low + budget * (high - low)
        order = sorted(self.expensive, key=lambda n: work_of(n) / max(_result_bytes(n), 1))
        few, many, best = 0, len(order), least
        while few < many:     # how many of the expensive ops may be run twice
            middle = (few + many) // 2
            found = self.solve(self.expensive - set(order[:middle]))
            if found is not None and self.bytes_of(found) <= allowed:
                many, best = middle, found
            else:
                few = middle + 1
        return best


def is_cheap(node: Node) -> bool:
    """Whether an op may be run again without much thought: one pass over its operands, or none."""
    target = node.target
    if target is operator.getitem:
        return True
    if not isinstance(target, _C.Overload):
        # sizes
        return isinstance(node.meta.get("val"), (int, float, bool)) or not isinstance(
            node.meta.get("val"), (Tensor, tuple, list)
        )
    if _never_again(node):
        return False
    definition = target.definition
    if target.name in _SLOW and isinstance(value := node.meta.get("val"), Tensor) and value.device.type == "cpu":
        return False
    return (
        definition.kind == KIND_POINTWISE
        or target.is_view
        or hasattr(definition, "geometry")
        or target.name in _CHEAP
        or target.name.endswith("_vjp")
    )


def _never_again(node: Node) -> bool:
    """Draws, and what is written to: running these twice gives other numbers. What is sent is sent once."""
    if node.op != "call_function":
        return False
    is_sent = _is_collective(node, "begins") or _is_collective(node, "ends")
    return is_sent or _draws(node.target) or _mutates(node.target)


def _is_collective(node: Node, what: str) -> bool:
    return isinstance(node.target, _C.Overload) and getattr(node.target.definition, what)


def _result_bytes(node: Node) -> int:
    value = node.meta.get("val")
    if isinstance(value, Tensor):
        return nbytes_of(node)
    return sum(nbytes_of(user) for user in node.users if user.target is operator.getitem) or 8


def work_of(node: Node) -> float:
    """An estimate of the arithmetic of an op, in operations: elements touched,
    and for products their inner sizes too."""
    operands = [a.meta["val"] for a in node.all_input_nodes if isinstance(a.meta.get("val"), Tensor)]
    counts = [math.prod(int(getattr(n, "hint", n) or 1) for n in t.shape) for t in operands]
    out = _result_bytes(node) / 4
    if isinstance(node.target, _C.Overload) and any(word in node.target.name for word in _PRODUCTS) and len(counts) > 1:
        # Of a product of m*k and k*n elements, m*n come out:
        # its 2*m*n*k operations are twice the root of the three counts' product.
        return 2 * math.sqrt(max(counts[0], 1) * max(counts[1], 1) * max(out, 1))
    return float(sum(counts) + out)
