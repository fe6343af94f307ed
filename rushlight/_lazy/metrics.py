"""torch._lazy.metrics: counters and times."""

from ..lazy.metrics import counter_names, counter_value, metrics_report, reset

__all__ = ["counter_names", "counter_value", "metrics_report", "reset"]
