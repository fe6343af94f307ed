"""A walk that can also look into ops: what has no rule is traced into the calls that it is made of.

Enters: a call with its arguments as values. Leaves: what its body became. Refuses: nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .. import _C
from .._C import Tensor
from ..aot.functional_graph import functionalized
from ..autograd.grad_mode import no_grad
from ..fake import DataDependentOutputException, FakeTensorMode
from ..fx.experimental.proxy_tensor import make_fx
from ..fx.node import Node, map_aggregate
from .building import Builder
from .printing import Value
from .walking import Walk, meta_of


class Expanding(Walk):
    """A walk whose dialect may serve a call by the calls of its body."""

    def __init__(self, b: Builder) -> None:
        super().__init__(b)
        self.mode: Any = None

    def another(self) -> Expanding:
        """A walk of the same function over another graph."""
        raise NotImplementedError

    def expanded(self, function: Callable, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> Any:
        """What a function of tensors becomes: its calls are traced, and each is served in its turn."""
        values: list[Value] = []

        def hole(v: Any) -> Any:
            if not isinstance(v, Value):
                return v
            values.append(v)
            return Hole(len(values) - 1)

        shape = map_aggregate((tuple(args), dict(kwargs or {})), hole)
        results: list[Any] = []

        def run(*tensors: Tensor) -> list[Tensor]:
            own, named = map_aggregate(shape, lambda a: tensors[a.number] if isinstance(a, Hole) else a)
            results.append(function(*own, **named))
            return [t for t in leaves((results[-1],)) if isinstance(t, Tensor)]

        mode = self.fake_mode()
        try:
            with no_grad():
                fakes = [mode.empty(tuple(v.shape), None, v.dtype, _C.device("cpu")) for v in values]
                graph = make_fx(run, tracing_mode="real" if fakes else "fake", _own_ops=True)(*fakes)
                graph = functionalized(graph, mode, mode.shape_env)
        except DataDependentOutputException as error:
            raise NotImplementedError(str(error)) from error
        if results[-1] is NotImplemented:
            return None
        return taken(results[-1], iter(self.inner().run(graph, values)))

    def inner(self) -> Expanding:
        """A walk over another graph, for the same node of the program."""
        walk = self.another()
        walk.mode, walk.node = self.mode, self.node
        return walk

    def seen(self, node: Node) -> Any:
        """What tracing saw of a node; the call is made once more on fakes where it kept nothing."""
        if node.meta.get("val") is None:
            with self.fake_mode(), no_grad():
                node.meta["val"] = node.target(*meta_of(node.args), **meta_of(node.kwargs))
        return node.meta["val"]

    def fake_mode(self) -> Any:
        """The mode that fakes of the program belong to."""
        if self.mode is None:
            self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        return self.mode

    def in_order(self, a: Any) -> Any:
        """A fake whose elements lie in order, for one that may be laid out otherwise: values have no layout."""
        if not isinstance(a, Tensor):
            return a
        if getattr(a, "fake_mode", None) is not None:
            self.mode = a.fake_mode
        return self.fake_mode().empty(tuple(a.shape), None, a.dtype, _C.device("cpu"))


class Hole:
    """Where a tensor goes among arguments."""

    def __init__(self, number: int) -> None:
        self.number = number


def taken(made: Any, values: Iterator[Any]) -> Any:
    """What a function returned, with values for its tensors."""
    if isinstance(made, (list, tuple)):      # whatever kind of tuple it is
        return tuple([taken(m, values) for m in made])
    return next(values) if isinstance(made, Tensor) else made


def leaves(args: Any) -> list[Any]:
    """Arguments, lists opened."""
    found: list[Any] = []
    for a in args:
        found += leaves(a) if isinstance(a, (list, tuple)) else [a]
    return found
