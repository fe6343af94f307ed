"""Captured graphs, compiled: what `compile()` does with a graph that Dynamo made.

Enters: a GraphModule over torch functions, and example inputs (real tensors, numbers where they are symbols). Leaves: a
function of the list of inputs that returns the list of results, with gradients. Graphs whose sizes are symbols are
captured with symbols too, again only where what was assumed of them does not hold. What cannot be traced (or would
write to shared memory) runs op by op.
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

MOST_SIZES = 1024


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
        self.regions: dict[Any, tuple | None] = {}     # by sizes; with symbols, many of them share one
        self.dims = [_symbolic_dims(node.meta.get("example_value")) for node in gm.graph.find_nodes(op="placeholder")]
        self.general: list[tuple[Any, tuple]] = []     # with symbols: what was assumed of them, and what then runs
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
            if len(self.regions) >= MOST_SIZES:
                self.regions.clear()
            self.regions[key] = self.found_or_compiled(inputs)
            if not self.is_symbolic:
                self.only = self.regions[key]
        return self.regions[key]

    def found_or_compiled(self, inputs: list[Any]) -> tuple | None:
        """What runs inputs whose sizes were not met before."""
        if not self.is_symbolic:
            return self.compiled(inputs)
        varying = [x for x, dims in zip(inputs, self.dims, strict=True) if dims]
        found = next((made for env, made in self.general if env.accepts(*varying)), None)
        return self.compiled(inputs, dynamic=True) or self.compiled(inputs) if found is None else found

    def compiled(self, inputs: list[Any], dynamic: bool = False) -> tuple | None:
        def flat(values: list[Any]) -> list[Any]:
            return list(self.gm.forward(*values))

        records = _C.is_grad_enabled()
        try:
            with grad_mode.inference_mode(False), grad_mode.set_grad_enabled(records):
                captured = capture(
                    flat,
                    inputs,
                    wants_grad=records,
                    decompositions=self.config.decompositions,
                    dynamic=dynamic,
                    dynamic_dims=self.dims if dynamic else None,
                )
        except NotCaptured:
            return None
        mutated = captured.meta.mutated
        if not captured.meta.is_joint:
            captured.graph.meta["static_inputs"] = sorted({*self.gm.meta.get("static_inputs", ())} - {*mutated})
        if mutated and _shares_memory(inputs, mutated):
            return None
        made = compile_captured(captured, self.config), list(captured.lifted), mutated
        if dynamic:
            self.general.append((captured.shape_env, made))
        return made


def _symbolic_dims(value: Any) -> tuple[int, ...]:
    """Which sizes of a tensor are symbols; for a number that is one, something."""
    if isinstance(value, Tensor):
        return tuple([d for d, n in enumerate(value.shape) if not isinstance(n, int)])
    return () if isinstance(value, int) else (0,)


def _is_symbolic(value: Any) -> bool:
    return bool(_symbolic_dims(value))


def _shares_memory(inputs: Sequence[Any], mutated: Sequence[int]) -> bool:
    """Whether an input that is written to has memory of another one."""
    counts: dict[int, int] = {}
    for t in inputs:
        if isinstance(t, Tensor):
            place = t.untyped_storage()._cdata
            counts[place] = counts.get(place, 0) + 1
    return any(counts[inputs[i].untyped_storage()._cdata] > 1 for i in mutated)
