"""Tools that watch a step of training: which modules run, what memory is held for what, how long ops would take, and
what recomputing activations would save.

Enters: modules, optimizers and tensors, used inside these contexts. Leaves: figures by module. Refuses: FSDP's own
tracker, and roofline estimates without a GPU.
"""

from ...base import late as _late

_SOURCES = _late.by_name({
    "fsdp2_mem_tracker": "FSDPMemTracker",
    "mem_tracker": "MemTracker",
    "memory_tracker": "MemoryTracker",
    "mod_tracker": "ModTracker",
    "runtime_estimator": "RuntimeEstimator",
    "sac_estimator": "MSPS SACEstimator SACGreedyOrderMeta SACStats SACTradeOffStats",
})
__getattr__, __dir__ = _late.names(globals(), _SOURCES)
