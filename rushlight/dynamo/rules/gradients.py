"""Gradients that a frame computes itself: `backward()`, and the `.grad` of tensors.

Enters: `loss.backward(...)` on tensors of the graph, reads and writes of `.grad`. The leaves that the loss depends on
are found on the tape of the fakes; their gradients are a node of the graph (`autograd.grad`), and what is added to a
`.grad` is added there. Leaves: tensors that stand for gradients, and which `.grad`s must be set behind the graph.
Refuses (breaks the graph): histories that begin outside of the frame, hooks on leaves, gradients of gradients, leaves
made here that leave the frame.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ..._C import Tensor
from ...autograd import backward as autograd_backward, grad as autograd_grad
from ...base.shape import contiguous_format, preserve_format
from ...fake import FakeTensor
from ...op import ops
from ..record.breaks import GraphBreak
from ..record.machine import Machine
from ..record.recorder import Recorder
from ..values.guards import Kind
from ..values.sources import Attribute
from .natives import detached, special, tensor_method


class Gradients:
    """The `.grad` of the tensors of one capture."""

    def __init__(self) -> None:
        self.now: dict[int, tuple[Tensor, Any]] = {}      # by the id of the tensor
        self.changed: dict[int, Tensor] = {}              # tensors from outside whose .grad is another object now
        self.own_leaves: dict[int, Tensor] = {}           # leaves that the frame made
        # losses whose backward() ran, and what has their elements without their history
        self.spent: dict[int, tuple[Tensor, Tensor]] = {}

    def read(self, m: Machine, owner: Tensor) -> Any:
        """owner.grad"""
        if id(owner) not in self.now:
            known = m.twin_of(owner)
            if known is not None:
                value = m.outside.admit(known.real.grad, Attribute(known.source, "grad"))
            elif not owner.is_leaf or id(owner) in self.own_leaves or not owner.requires_grad:
                value = None
            else:
                raise GraphBreak("not modelled", "the gradient of a tensor made here is read")
            self.now[id(owner)] = owner, value
        return self.now[id(owner)][1]

    def write(self, m: Machine, owner: Tensor, value: Any) -> None:
        """owner.grad = value"""
        if value is not None and not isinstance(value, Tensor):
            raise GraphBreak("exception", "something that is no tensor becomes a gradient")
        if value is not None and (value.shape != owner.shape or value.dtype != owner.dtype):
            raise GraphBreak("exception", "a tensor of other sizes or type becomes a gradient")
        before = self.read(m, owner)
        self.now[id(owner)] = owner, value
        if m.twin_of(owner) is None:
            if id(owner) not in self.own_leaves:
                raise GraphBreak("mutation", "the gradient of a tensor made here is written to")
        elif value is not before:
            self.changed[id(owner)] = owner


def _leaves(m: Machine, losses: list[Tensor]) -> list[Tensor]:
    """The leaves that tensors depend on, in the order in which they are found."""
    found: dict[int, Tensor] = {}
    todo, seen = [t.grad_fn for t in losses if t.grad_fn is not None], set()
    for t in losses:
        if t.is_leaf and t.requires_grad:
            found[id(t)] = t
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if isinstance(leaf, Tensor):
            found[id(leaf)] = leaf
        todo += [following for following, _ in node._edges]
    for leaf in found.values():
        _check_leaf(m, leaf)
    return list(found.values())


def _check_leaf(m: Machine, leaf: Tensor) -> None:
    known = m.twin_of(leaf)
    if known is None:
        if id(leaf) not in m.gradients.own_leaves:
            raise GraphBreak("not modelled", "backward() reaches a history that began outside of the frame")
        return
    for name in ("_backward_hooks", "_post_accumulate_grad_hooks"):
        hooks = getattr(known.real, name)
        if hooks:
            raise GraphBreak("not modelled", f"backward() reaches {known.source}, which has hooks")
        place = Attribute(known.source, name)
        m.outside.guard(Kind.ID_IS, place, None) if hooks is None else m.outside.guard(Kind.LENGTH, place, 0)


@tensor_method("backward")
def _backward_of(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    names = ("self", "gradient", "retain_graph", "create_graph", "inputs")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    _backward(m, [given["self"]], [given.get("gradient")], given.get("retain_graph"), given.get("create_graph", False),
              given.get("inputs"))


@special(autograd_backward)
def _backward_all(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    names = ("tensors", "grad_tensors", "retain_graph", "create_graph", "grad_variables", "inputs")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    losses = given["tensors"]
    losses = [losses] if isinstance(losses, Tensor) else list(losses)
    weights = given.get("grad_tensors")
    weights = [weights] if isinstance(weights, Tensor) else [None] * len(losses) if weights is None else list(weights)
    if given.get("grad_variables") is not None or len(weights) != len(losses):
        raise GraphBreak("not modelled", "autograd.backward with other arguments")
    _backward(m, losses, weights, given.get("retain_graph"), given.get("create_graph", False), given.get("inputs"))


def _backward(m: Machine, losses: list[Tensor], weights: list[Any], retain_graph: Any, create_graph: Any, inputs: Any
              ) -> None:
    if create_graph:
        raise GraphBreak("not modelled", "backward(create_graph=True)")
    if type(m.recorder) is not Recorder:
        raise GraphBreak("not modelled", "backward() inside of a function that is a graph of its own")
    if not all(isinstance(t, Tensor) and t.requires_grad for t in losses) or not _C.is_grad_enabled():
        raise GraphBreak("exception", "backward() of a tensor without a gradient")
    leaves = _leaves(m, losses)
    if inputs is not None:
        wanted = [inputs] if isinstance(inputs, Tensor) else list(inputs)
        if any(id(t) not in {id(leaf) for leaf in leaves} for t in wanted):
            raise GraphBreak("not modelled", "backward(inputs=...) with others than leaves of the loss")
        leaves = wanted
    if not leaves:
        raise GraphBreak("not modelled", "backward() reaches no leaf")
    options = {"grad_outputs": tuple(weights), "retain_graph": retain_graph, "allow_unused": True}
    grads = m.record(autograd_grad, (tuple(losses), tuple(leaves)), options, gradients)
    if not retain_graph:
        for t in losses:
            m.gradients.spent[id(t)] = t, m.record(detached, (t,), {})
    for leaf, g in zip(leaves, grads, strict=True):
        if g is None:
            continue
        before = m.gradients.read(m, leaf)
        if before is None:
            layout = contiguous_format if leaf.is_contiguous() else preserve_format
            # memory of its own: what autograd gives may be shared
            m.gradients.write(m, leaf, m.record(Tensor.clone, (g,), {"memory_format": layout}))
        else:
            m.record(_add_to, (before, g), {})


def gradients(losses: tuple, leaves: tuple, grad_outputs: tuple, retain_graph: Any, allow_unused: bool) -> Any:
    """The gradients that `backward()` adds. Where the graph is traced once more the tape stays: results of the graph
    that depend on it have gradients of their own there."""
    is_traced = any(isinstance(t, FakeTensor) for t in losses)
    if is_traced:      # recorded, as everything else is
        grad_outputs = tuple(ops["ones_like"](t) if g is None and t.numel() == 1 else g
                             for t, g in zip(losses, grad_outputs, strict=True))
    return autograd_grad(losses, leaves, grad_outputs, is_traced or retain_graph, allow_unused=allow_unused)


def _add_to(before: Tensor, g: Tensor) -> None:
    """Add a gradient to the one that is there, in place."""
    before.detach().add_(g)


@tensor_method("requires_grad_")
def _requires_grad(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    owner = args[0]
    wanted = args[1] if len(args) > 1 else kwargs.get("requires_grad", True)
    if owner.requires_grad == wanted:
        return owner
    if m.twin_of(owner) is not None or not wanted or not owner.is_leaf or owner._base is not None \
            or type(m.recorder) is not Recorder:
        raise GraphBreak("not modelled", "requires_grad_ of a tensor is called")
    m.gradients.own_leaves[id(owner)] = owner
    return m.record(Tensor.requires_grad_, (owner,), {})


@special(_C.clear_grads)
def _clear_grads(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    for t in m.listed(args[0]):
        if m.gradients.read(m, t) is not None:
            m.gradients.write(m, t, None)
