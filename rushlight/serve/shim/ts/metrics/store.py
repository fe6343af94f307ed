"""What a handler counts in its worker, by name and dimensions.

Enters: values under names. Leaves: them again, to the handler. Refuses: names that were not added, counters that fall,
and another number of dimensions' values than a metric has. Nothing of it leaves the worker: the server counts requests
itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .dimension import Dimension
from .metric_type_enum import MetricTypes


class Metric:
    """One name: a value for each combination of its dimensions' values."""

    def __init__(self, metric_name: str, unit: str = "", dimension_names: Sequence[str] = (),
                 metric_type: MetricTypes = MetricTypes.COUNTER) -> None:
        self.metric_name, self.unit, self.metric_type = metric_name, unit, metric_type
        self.dimension_names = list(dimension_names)
        self.values: dict[tuple[str, ...], Any] = {}

    def add_or_update(self, value: Any, dimension_values: Sequence[Any] = (), request_id: str = "") -> None:
        """A counter grows by the value; others have it from now on."""
        if len(dimension_values) != len(self.dimension_names):
            raise ValueError(f"metric {self.metric_name}: expected a value for each of the dimensions "
                             f"{self.dimension_names}, got {list(dimension_values)}")
        at = tuple(map(str, dimension_values))
        if self.metric_type is MetricTypes.COUNTER:
            if value < 0:
                raise ValueError(f"metric {self.metric_name}: a counter cannot fall, got {value}")
            value += self.values.get(at, 0)
        self.values[at] = value

    update = add_or_update


class Metrics:
    """The metrics of a worker. `values` holds the last of each that was added without being declared before."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.cache: dict[MetricTypes, dict[str, Metric]] = {kind: {} for kind in MetricTypes}

    def add_metric_to_cache(self, metric_name: str, unit: str = "", dimension_names: Sequence[str] = (),
                            metric_type: MetricTypes = MetricTypes.COUNTER) -> Metric:
        """Declare a metric; one that is there already is given back."""
        made = Metric(metric_name, unit, dimension_names, MetricTypes(metric_type))
        return self.cache[made.metric_type].setdefault(metric_name, made)

    def get_metric(self, metric_name: str, metric_type: MetricTypes = MetricTypes.COUNTER) -> Metric:
        try:
            return self.cache[MetricTypes(metric_type)][metric_name]
        except KeyError:
            raise KeyError(f"there is no {MetricTypes(metric_type).value} {metric_name!r}: add it first, with "
                           "add_metric_to_cache") from None

    def add_metric(self, name: str, value: float, unit: str | None = None, idx: Any = None,
                   dimensions: Sequence[Dimension] | None = None,
                   metric_type: MetricTypes = MetricTypes.COUNTER) -> None:
        given = list(dimensions or ())
        declared = self.add_metric_to_cache(name, unit or "", [d.name for d in given], metric_type)
        declared.add_or_update(value, [d.value for d in given])
        self.values[name] = value

    def add_counter(self, name: str, value: float, idx: Any = None, dimensions: Any = None) -> None:
        self.values[name] = self.values.get(name, 0) + value

    def add_time(self, name: str, value: float, idx: Any = None, unit: str = "ms", dimensions: Any = None,
                 metric_type: MetricTypes = MetricTypes.GAUGE) -> None:
        self.values[name] = value

    def add_size(self, name: str, value: float, idx: Any = None, unit: str = "MB", dimensions: Any = None,
                 metric_type: MetricTypes = MetricTypes.GAUGE) -> None:
        self.values[name] = value

    def add_percent(self, name: str, value: float, idx: Any = None, dimensions: Any = None,
                    metric_type: MetricTypes = MetricTypes.GAUGE) -> None:
        self.values[name] = value

    def add_error(self, name: str, value: str, dimensions: Any = None) -> None:
        self.values[name] = self.values.get(name, 0) + 1
