"""`torch._inductor.fx_passes.freezing_patterns`: passes over graphs whose weights are constants.

Enters: patterns and handlers, by the number of the pass; a graph module. Leaves: the graph, changed by the handlers,
pass after pass. `compile` does not run them: its own stages fold constants and join ops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..pattern_matcher import CallFunction, PatternMatcherPass

__all__ = ["freezing_passes", "pass_patterns", "register_freezing_graph_pattern"]
PASSES = 4
pass_patterns = [PatternMatcherPass() for _ in range(PASSES)]


def register_freezing_graph_pattern(pattern: CallFunction, extra_check: Callable = lambda match: True,
                                    pass_number: int = 0) -> Callable:
    """Decorator: the function is called where the pattern is found, in that pass."""
    if not 0 <= pass_number < PASSES:
        raise IndexError(f"register_freezing_graph_pattern: expected pass_number below {PASSES}, got {pass_number}")
    return pass_patterns[pass_number].register(pattern, extra_check)


def freezing_passes(gm: Any, aot_example_inputs: Any) -> None:
    """Run the passes over a graph module."""
    for one in pass_patterns:
        one.apply(gm.graph)
    gm.graph.lint()
    gm.recompile()
