"""torch._lazy.closure: functions that are called when a step ends."""

from ..lazy.closures import AsyncClosureHandler, ClosureHandler, add_step_closure, run_step_closures

__all__ = ["AsyncClosureHandler", "ClosureHandler", "add_step_closure", "run_step_closures"]
