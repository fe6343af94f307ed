"""torch._lazy.computation: graphs by their hashes."""

from ..lazy.computation import get_graph_hash, get_tensors_ts_device_data_node, run_cached_graph

__all__ = ["get_graph_hash", "get_tensors_ts_device_data_node", "run_cached_graph"]
