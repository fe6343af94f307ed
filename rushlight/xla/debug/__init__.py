"""torch_xla.debug: what was counted and timed (`metrics`), and names for stretches of a program (`profiler`)."""

from ...base import late

__getattr__, __dir__ = late.names(globals(), {}, files=("metrics", "profiler"))
