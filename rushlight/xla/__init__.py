"""The `xla` device: a lazy device whose graphs XLA compiles and runs, through jaxlib.

Enters: tensors moved to or made on "xla", and models. Leaves: what XLA computed, and programs as StableHLO. Names are
those of `torch_xla`, as which `python -m rushlight run` serves this package. Needs jaxlib (`rushlight[xla]`), and says
so where it is missing; the CPU is the one unit.

    model, x = model.to("xla"), x.to("xla")
    loss = model(x).sum()
    loss.backward()                     # written down
    xla.sync()                          # one program, compiled once for each structure, run
"""

from ..base import late
from ..version import follows as __version__

__getattr__, __dir__ = late.names(globals(), {
    "is_available": "unit", "initialize_cache": "stored", "device": "stepping", "devices": "stepping",
    "real_devices": "stepping", "device_count": "stepping", "sync": "stepping", "step": "stepping",
    "compile": "stepping", "manual_seed": "stepping", "launch": "stepping",
}, files=("amp", "backend", "client", "core", "debug", "distributed", "engine", "runtime", "stablehlo", "stored"))

__all__ = ["__version__", "compile", "device", "device_count", "devices", "initialize_cache", "is_available", "launch",
           "manual_seed", "real_devices", "step", "sync"]
