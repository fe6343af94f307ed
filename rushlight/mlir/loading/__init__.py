"""StableHLO text as something to call.

Enters: the text of a module, from any tool. Leaves: a `LoadedModule` over tensors, with its graph of ATen calls.
Refuses text that is no module, and what has no counterpart, with line and column.
"""

from .module import LoadedModule, load

__all__ = ["LoadedModule", "load"]
