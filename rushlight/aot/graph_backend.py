"""Captured graphs, compiled: what `compile()` does with a graph that Dynamo made.

Enters: a GraphModule over torch functions, and example inputs (real tensors, numbers where they are symbols). Leaves: a
function of the list of inputs that returns the list of results, with gradients. Graphs whose sizes are symbols are
compiled for each set of sizes. What cannot be traced (or would write to shared memory) runs op by op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import _C
from .._C import Tensor
from ..autograd import grad_mode
from ..fx._lazy_graph_module import _LazyGraphModule
from ..fx.graph_module import GraphModule
from .capture import capture
from .compile_graph import AotConfig, compile_captured
from .refused import NotCaptured
from .specialized import autocast_state, without_autocast


def compile_with(config: AotConfig | None) -> Callable[[GraphModule, list[Any]], Callable]:
    """The backend for Dynamo: through AOTAutograd with `config`, or (None) op by op."""

    def backend(gm: GraphModule, example_inputs: list[Any]) -> Callable:
        _LazyGraphModule.force_recompile(gm)
        if config is None:
            return gm.forward
        made = CompiledGraph(gm, config)
        made.region_for(example_inputs)

        def call(inputs: list[Any]) -> Sequence[Any]:
            return made(inputs)

        call._boxed_call = True  # type: ignore[attr-defined]
        call.compiled = made  # type: ignore[attr-defined]
        return call

    return backend


class CompiledGraph:
    """One graph of Dynamo's, compiled when it is first run with certain sizes."""

    def __init__(self, gm: GraphModule, config: AotConfig) -> None:
        self.gm, self.config = gm, config
        self.is_symbolic = any(
            _is_symbolic(node.meta.get("example_value")) for node in gm.graph.find_nodes(op="placeholder")
        )
        self.regions: dict[Any, tuple | None] = {}
        self.only: tuple | None = None
        self.casts = autocast_state() is not None

    def __call__(self, inputs: list[Any]) -> Sequence[Any]:
        found = self.only if self.only is not None else self.region_for(inputs)
        if found is None or (found[2] and _shares_memory(inputs, found[2])):
            return self.gm.forward(*inputs)
        region, lifted, _ = found
        if self.casts:
            with without_autocast():     # the graph has its casts
                return region([*inputs, *lifted] if lifted else inputs)
        return region([*inputs, *lifted] if lifted else inputs)

    def region_for(self, inputs: list[Any]) -> tuple | None:
        """What runs inputs of these sizes."""
        key = tuple([tuple(x.shape) if isinstance(x, Tensor) else x for x in inputs]) if self.is_symbolic else None
        if key not in self.regions:
            self.regions[key] = self.compiled(inputs)
            if not self.is_symbolic:
                self.only = self.regions[key]
        return self.regions[key]

    def compiled(self, inputs: list[Any]) -> tuple | None:
        def flat(values: list[Any]) -> list[Any]:
            return list(self.gm.forward(*values))

        records = _C.is_grad_enabled()
        try:
            with grad_mode.inference_mode(False), grad_mode.set_grad_enabled(records):
                captured = capture(flat, inputs, wants_grad=records, decompositions=self.config.decompositions)
        except NotCaptured:
            return None
        mutated = captured.meta.mutated
        if not captured.meta.is_joint:
            captured.graph.meta["static_inputs"] = sorted({*self.gm.meta.get("static_inputs", ())} - {*mutated})
        if mutated and _shares_memory(inputs, mutated):
            return None
        return compile_captured(captured, self.config), list(captured.lifted), mutated


def _is_symbolic(value: Any) -> bool:
    if isinstance(value, Tensor):
        return any(not isinstance(n, int) for n in value.shape)
    return not isinstance(value, int)


def _shares_memory(inputs: Sequence[Any], mutated: Sequence[int]) -> bool:
    """Whether an input that is written to has memory of another one."""
    counts: dict[int, int] = {}
    for t in inputs:
        if isinstance(t, Tensor):
            place = t.untyped_storage()._cdata
            counts[place] = counts.get(place, 0) + 1
    return any(counts[inputs[i].untyped_storage()._cdata] > 1 for i in mutated)
