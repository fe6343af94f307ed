"""Pictures of what is in memory: `_cycles` draws objects that keep each other, and tensors, alive."""

from ...base import late as _late

__getattr__, __dir__ = _late.names(globals(), {}, ("_cycles",))
