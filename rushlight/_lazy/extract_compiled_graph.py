"""torch._lazy.extract_compiled_graph: an FX graph, recorded once and run from then on."""

from ..lazy.computation import extract_compiled_graph

__all__ = ["extract_compiled_graph"]
