"""`torch.mtia` on a machine without such a device."""

from .absent import absent_device

globals().update(absent_device("torch.mtia", "MTIA", (
    "DeferredMtiaCallError MTIAGraph StreamContext attach_out_of_memory_observer default_stream graph graph_pool_handle init initial_seed "
    "memory_stats record_memory_history set_stream snapshot"
)))
