"""torch._lazy: PyTorch's names of the lazy device (rushlight/lazy)."""

from ..lazy.step import get_tensor_id, mark_step, save, sync_multi, to_cpu, wait_device_ops
from .closure import add_step_closure, run_step_closures

__all__ = ["add_step_closure", "get_tensor_id", "mark_step", "run_step_closures", "save", "sync_multi", "to_cpu",
           "wait_device_ops"]
