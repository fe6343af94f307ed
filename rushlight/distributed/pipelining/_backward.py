"""A stage's backward pass in two parts: gradients of its inputs, which another process waits for, and of its weights,
which can come later.

The first part notes the gradients that arrive where a way to a weight branches off the ways to the inputs; the second
goes on from there, and computes nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..._C import Tensor
from ...autograd import grad
from ...autograd.graph import GradientEdge, get_gradient_edge

__all__: list[str] = []


class _Branch:
    """Nodes where ways to some weights leave the ways to the inputs, and what arrived there."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.arrived: dict[Any, tuple] = {}


def _users(roots: list[Any]) -> dict[Any, list[Any]]:
    """For each node of a graph the nodes that lead to it."""
    users: dict[Any, list[Any]] = {root: [] for root in roots}
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        for following, _ in node._edges:
            if following is None:
                continue
            if following not in users:
                users[following] = []
                waiting.append(following)
            users[following].append(node)
    return users


def _above(starts: Iterable[Any], users: dict[Any, list[Any]]) -> set[Any]:
    """All nodes from which one of these can be reached."""
    found, waiting = set(), [node for node in starts if node in users]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += users[node]
    return found


def _branches(users: dict[Any, list[Any]], inputs: list[Any], weights: dict[Any, Any]) -> list[_Branch]:
    """The nodes on the ways to inputs that lead to weights directly, with those weights; weights that share such a
    node are together."""
    on_the_way = _above(inputs, users)
    branch_of: dict[Any, _Branch] = {}
    for edge, weight in weights.items():
        if edge not in users:
            continue
        seen, waiting, reached = {edge}, [edge], []
        while waiting:
            for user in users[waiting.pop()]:
                if user in on_the_way:
                    if user not in reached:
                        reached.append(user)
                elif user not in seen:
                    seen.add(user)
                    waiting.append(user)
        _join(branch_of, reached, weight)
    unique: dict[int, _Branch] = {id(branch): branch for branch in branch_of.values()}
    return list(unique.values())


def _join(branch_of: dict[Any, _Branch], nodes: list[Any], weight: Any) -> None:
    known = list({id(branch_of[n]): branch_of[n] for n in nodes if n in branch_of}.values())
    target = known[0] if known else _Branch()
    for other in known[1:]:
        target.nodes += [n for n in other.nodes if n not in target.nodes]
        target.weights += other.weights
    target.nodes += [n for n in nodes if n not in target.nodes]
    target.weights.append(weight)
    for node in target.nodes:
        branch_of[node] = target


def input_gradients(
    outputs: list[Tensor], output_grads: list[Any], inputs: list[Tensor], weights: list[Tensor]
) -> tuple[list[Any], list[_Branch]]:
    """The gradients of the inputs, and what `weight_gradients` needs."""
    edge_of = {get_gradient_edge(weight).node: weight for weight in weights}
    users = _users([get_gradient_edge(output).node for output in outputs])
    branches = _branches(users, [get_gradient_edge(i).node for i in inputs], edge_of)
    handles = []
    for branch in branches:
        for node in branch.nodes:
            handles.append(node.register_prehook(lambda arrived, b=branch, n=node: b.arrived.__setitem__(n, arrived)))
    try:
        found = grad(outputs, inputs, output_grads, retain_graph=True, allow_unused=True)
    finally:
        for handle in handles:
            handle.remove()
    return list(found), branches


def weight_gradients(branches: list[_Branch]) -> None:
    """Add what is still to come to the weights' gradients."""
    # Those of several nodes (a weight used twice) pass other branches on their way, and go first: nothing is freed yet.
    for branch in sorted(branches, key=lambda b: -len(b.nodes)):
        edges, grads, handles = [], [], []
        for node, arrived in branch.arrived.items():
            for index, value in enumerate(arrived):
                if value is not None:
                    edges.append(GradientEdge(node, index))
                    grads.append(value)
            if len(branch.nodes) > 1:
                # One of these nodes may lead to another: what arrives there was counted already.
                handles.append(node.register_prehook(lambda _, kept=arrived: kept))
        if not edges:
            continue
        try:
            found = grad(edges, branch.weights, grads, retain_graph=len(branch.nodes) > 1, allow_unused=True)
        finally:
            for handle in handles:
                handle.remove()
        for weight, value in zip(branch.weights, found, strict=True):
            if value is not None:
                weight.grad = value if weight.grad is None else weight.grad + value
