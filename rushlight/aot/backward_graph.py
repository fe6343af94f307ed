"""Compiled autograd: `backward()` of a tape that was recorded op by op, as one compiled graph.

Enters: roots and their gradients. The tape is walked: ops, where their gradients go, what they kept. Leaves: gradients
added to the leaves' `.grad`, by a graph that was compiled for the first tape of this shape: kept tensors are inputs of
it, kept numbers and sizes are part of what it is made for. Refuses (the engine runs it; said to those who ask for
breaks): hooks between root and leaves, custom Functions and compiled regions (compiled already), tensors with rules.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from .. import _C
from .._C import Tensor
from ..autograd import grad_mode
from ..base import logs, show
from ..fake import FakeTensor
from ..nn import Buffer, Parameter
from . import telling
from .capture import capture
from .compile_graph import AotConfig, compile_captured
from .refused import NotCaptured

_PLAIN = (int, float, bool, complex, str, bytes, type(None), _C.dtype, _C.device)
_numbers = itertools.count()
LIMIT = 32      # shapes of tapes that are compiled for; others are left to the engine


class _NotHere(Exception):  # noqa: N818 - no error: the engine runs it
    """A tape that is no graph."""


class Tape:
    """One tape: its nodes from the roots on, what they kept, and a key that equal tapes share."""

    def __init__(self, roots: tuple, gradients: tuple) -> None:
        self.nodes: list[Any] = []
        self.places: dict[Any, int] = {}
        self.kept: list[Tensor] = []
        self.leaves: list[Any] = []            # nodes that add to a .grad
        self.memory: dict[tuple, int] = {}     # of kept tensors, by where their elements are
        self.edges: dict[int, tuple] = {}      # of ops: where each of their gradients goes
        self.starts = tuple(self.edge(t) for t in roots)
        self.key = self.starts, tuple(self.tensor(g) for g in gradients), tuple(self.rows())
        if not self.leaves:
            raise _NotHere("it reaches no leaf")

    def edge(self, root: Any) -> Any:
        if not isinstance(root, Tensor) or root.grad_fn is None:
            raise _NotHere("it starts at a leaf, or at an edge")
        return self.place(root.grad_fn), root.output_nr

    def place(self, node: Any) -> int:
        if node not in self.places:
            self.places[node] = len(self.nodes)
            self.nodes.append(node)
        return self.places[node]

    def rows(self) -> Any:
        """A line per node; nodes are found on the way."""
        at = 0
        while at < len(self.nodes):
            node = self.nodes[at]
            at += 1
            rule = node._rule()
            if rule is None:
                raise _NotHere(f"{node.name()} has hooks, or is no op")
            if rule[0] is None:
                leaf = node.variable
                if leaf is None or leaf._backward_hooks:
                    raise _NotHere("a leaf has hooks")
                self.leaves.append(node)
                yield "leaf", self.tensor(leaf)
                continue
            edges = tuple(None if n is None else (self.place(n), nr) for n, nr in node._edges)
            self.edges[at - 1] = edges
            shapes = tuple(None if m is None else (tuple(m.shape), m.dtype) for m in node._input_metadata)
            yield rule[0], edges, shapes, tuple(self.value(v) for v in node._kept_values())

    def value(self, value: Any) -> Any:
        """Something that a node kept, as a part of the key."""
        if isinstance(value, Tensor):
            return self.kept_tensor(value)
        if isinstance(value, (tuple, list)):
            return type(value).__name__, tuple(self.value(v) for v in value)
        if type(value) in _PLAIN:
            return type(value), value
        if isinstance(value, _C.TensorMeta):      # sizes and type of a tensor, without it
            return "meta", tuple(value.shape), tuple(value.stride()), value.dtype, value.device, value.requires_grad
        raise _NotHere(f"an op kept a {type(value).__name__}")

    def kept_tensor(self, t: Tensor) -> Any:
        told = self.tensor(t)
        where = *place_of(t), told
        if where not in self.memory:
            self.memory[where] = len(self.kept)
            self.kept.append(t)
        return told, self.memory[where]

    def run(self, gradients: list[Tensor]) -> list[Any]:
        """The gradients of the leaves: what the engine does, node by node, on whatever tensors it is given."""
        waits = [0] * len(self.nodes)
        for edges in self.edges.values():
            for edge in edges:
                if edge is not None:
                    waits[edge[0]] += 1
        arrived: dict[tuple, Any] = {}
        for edge, g in zip(self.starts, gradients, strict=True):
            arrived[edge] = g if edge not in arrived else arrived[edge] + g
        ready = [i for i in range(len(self.nodes)) if not waits[i]]
        while ready:
            i = ready.pop()
            if i not in self.edges:
                continue
            node = self.nodes[i]
            given = [arrived.get((i, nr)) for nr in range(len(node._input_metadata))]
            results = node._apply(*given) if any(g is not None for g in given) else None
            if not isinstance(results, tuple):
                results = (results,) * len(self.edges[i])
            for edge, g in zip(self.edges[i], results, strict=True):
                if edge is None:
                    continue
                if g is not None:
                    g = self.fitting(g, edge)
                    arrived[edge] = g if edge not in arrived else arrived[edge] + g
                waits[edge[0]] -= 1
                if not waits[edge[0]]:
                    ready.append(edge[0])
        return [arrived.get((self.places[node], 0)) for node in self.leaves]

    def fitting(self, g: Tensor, edge: tuple[int, int]) -> Tensor:
        """A gradient with the sizes and the type of what it is the gradient of."""
        meta = self.nodes[edge[0]]._input_metadata[edge[1]]
        if tuple(g.shape) != tuple(meta.shape):
            g = g.sum_to_size(tuple(meta.shape))
        return g if g.dtype is meta.dtype else g.to(meta.dtype)

    def tensor(self, t: Any) -> Any:
        if type(t) not in (Tensor, Parameter, Buffer) or t._keys or t.is_sparse:
            raise _NotHere("a tensor has rules of its own")
        return t.dtype, tuple(t.shape), t.stride(), t.device


def place_of(t: Tensor) -> tuple:
    """Where a tensor's elements are."""
    return t.untyped_storage()._cdata, t.storage_offset()


class CompiledBackward:
    """What runs `backward()` in a block: `compiler` makes a function of a graph and example inputs."""

    def __init__(self, compiler: Callable) -> None:
        self.config = AotConfig(compiler, compiler)
        self.regions: dict[Any, Any] = {}      # by the key of a tape: what runs it, or why nothing does
        self.captures = 0

    def __call__(self, roots: tuple, gradients: tuple, keeps: bool) -> bool:
        """Run it; False leaves it to the engine."""
        if any(isinstance(g, FakeTensor) for g in gradients):
            return False      # somebody traces
        try:
            tape = Tape(roots, gradients)
            found = self.regions.get(tape.key)
            if found is None:
                found = self.compiled(tape, gradients)
        except _NotHere as reason:
            return self.left(str(reason))
        if isinstance(found, str):
            return self.left(found)
        run, order = found
        with grad_mode.no_grad():
            results = run([*gradients, *(tape.kept[i] for i in order)])
            for node, g in zip(tape.leaves, results, strict=True):
                if g is not None:
                    node(g)
        for node in () if keeps else tape.nodes:
            node._release()
        return True

    def compiled(self, tape: Tape, gradients: tuple) -> Any:
        if len(self.regions) >= LIMIT:
            raise _NotHere(f"{LIMIT} shapes of tapes are compiled, which is the limit")
        self.captures += 1
        try:
            with grad_mode.no_grad(), logs.compiling(logs.CompileId(None, None, next(_numbers))):
                captured = capture(tape.run, list(gradients), wants_grad=False)
                telling.whole_backward(captured.graph, [node.name() for node in tape.nodes])
                order = [tape.memory[*place_of(t), tape.tensor(t)] for t in captured.lifted]
                region = compile_captured(captured, self.config)
        except (NotCaptured, KeyError) as error:
            why = "a rule uses a tensor that no op kept" if isinstance(error, KeyError) else str(error)
            self.regions[tape.key] = why
            return why
        self.regions[tape.key] = region, order
        return self.regions[tape.key]

    def left(self, why: str) -> bool:
        if show.is_shown("breaks"):
            show.show("breaks", "compiled autograd", f"the engine runs this backward(): {why}")
        if (log := logs.artifact("compiled_autograd")) is not None:
            log.debug("the engine runs this backward(): %s", why)
        return False
