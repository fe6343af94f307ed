"""Kinds of metrics."""

from __future__ import annotations

import enum


class MetricTypes(enum.Enum):
    """A counter adds up what it is told; a gauge and a histogram take the last."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
