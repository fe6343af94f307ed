"""`torch._dynamo.decorators`: marks on functions and tensors (`compiler.decorators`) where PyTorch has them."""

from __future__ import annotations

from ..compiler.decorators import (
    allow_c_slot,
    allow_in_graph,
    assume_constant_result,
    disable,
    disable_nested_graph_breaks,
    disallow_in_graph,
    dont_skip_tracing,
    error_on_graph_break,
    forbid_in_graph,
    get_recursion_limit,
    graph_break,
    is_dynamo_disable_recursive,
    mark_dynamic,
    mark_static,
    mark_static_address,
    maybe_mark_dynamic,
    nonstrict_trace,
    override_cudagraphs,
    override_optimization_hint,
    patch_dynamo_config,
    replay,
    run,
    set_recursion_limit,
    set_stance,
    skip_frame,
    step_unsupported,
    substitute_in_graph,
)

__all__ = [
    "allow_c_slot", "allow_in_graph", "assume_constant_result", "disable", "disable_nested_graph_breaks",
    "disallow_in_graph", "dont_skip_tracing", "error_on_graph_break", "forbid_in_graph", "get_recursion_limit",
    "graph_break", "is_dynamo_disable_recursive", "mark_dynamic", "mark_static", "mark_static_address",
    "maybe_mark_dynamic", "nonstrict_trace", "override_cudagraphs", "override_optimization_hint",
    "patch_dynamo_config", "replay", "run", "set_recursion_limit", "set_stance", "skip_frame", "step_unsupported",
    "substitute_in_graph",
]
