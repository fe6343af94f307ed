"""Ops as graphs of the ops that they are made of.

Enters: an overload, and its arguments as stand-ins. Leaves: a graph without writes, whose placeholders are the tensors
among the arguments. Refuses: ops that are written with no others, and those whose elements decide what they do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._C import Tensor
from ..._decomp.core import WRITTEN
from ...fake import DataDependentOutputException
from ...fx.experimental.proxy_tensor import make_fx
from ...fx.node import map_aggregate
from ...op.composite import Composite
from ...op.fused import Fused


def body_of(overload: Any) -> Callable | None:
    """A function with the parameters of an op that computes it by others."""
    definition = overload.definition
    if isinstance(definition, Composite):
        return definition.compute
    if isinstance(definition, Fused):
        return definition.run
    names = [p.name for p in definition.spec.params]
    written = WRITTEN.get(definition.name)
    if written is None:
        return None

    def by_name(*args: Any) -> Any:
        return written(**dict(zip(names, args, strict=True)))

    return by_name


def traced(function: Callable, fakes: tuple) -> Any:
    """What a function calls with these arguments; it has `structure` where it returns several results."""
    tensors: list[Tensor] = []
    several: list[bool] = []

    def note(a: Any) -> Any:
        if isinstance(a, Tensor):
            tensors.append(a)
        return a

    map_aggregate(fakes, note)

    def call(*given: Any) -> Any:
        left = iter(given)
        result = function(*map_aggregate(fakes, lambda a: next(left) if isinstance(a, Tensor) else a))
        several.append(isinstance(result, (tuple, list)))
        return result

    try:
        graph = make_fx(call, tracing_mode="fake", _own_ops=True)(*tensors)
    except DataDependentOutputException as error:
        raise NotImplementedError(str(error)) from error
    if several[-1]:
        graph.structure = tuple
    return graph
