"""`torch.xpu` on a machine without such a device."""

from .absent import absent_device

globals().update(absent_device("torch.xpu", "XPU", (
    "MemPool StreamContext XPUGraph XPUPluggableAllocator can_device_access_peer change_current_allocator clock_rate device_memory_used device_of "
    "get_arch_list get_gencode_flags get_per_process_memory_fraction get_stream_from_external graph graph_pool_handle init initial_seed "
    "is_tf32_supported make_graphed_callables max_memory_reserved memory_snapshot memory_stats memory_stats_as_nested_dict memory_usage power_draw "
    "reset_accumulated_memory_stats set_per_process_memory_fraction set_stream temperature use_mem_pool utilization"
)))
default_generators: tuple = ()
