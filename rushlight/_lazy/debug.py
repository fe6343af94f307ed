"""torch._lazy.debug: what is written down, to be read."""

from ..lazy.debug import dump_ir, render_ir_graph

__all__ = ["dump_ir", "render_ir_graph"]
