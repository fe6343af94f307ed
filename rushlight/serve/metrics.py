"""What is counted, as Prometheus reads it.

Enters: answers and refusals, batches, deaths of workers. Leaves: text under TorchServe's names and our own. Refuses:
nothing; whoever serves language models adds counters of their own to `registry`.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.utils import floatToGoString

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
LABELS = ("model_name", "model_version")


class Spread:
    """How many values fell below each of some limits."""

    __slots__ = ("counts", "limits", "sum")

    def __init__(self, limits: tuple[float, ...]) -> None:
        self.limits, self.counts, self.sum = limits, [0] * (len(limits) + 1), 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.limits, value)] += 1
        self.sum += value

    def buckets(self) -> list[tuple[str, float]]:
        """Limits, and how many values are not above them."""
        found, total = [], 0
        for limit, count in zip((*self.limits, float("inf")), self.counts, strict=True):
            total += count
            found.append((floatToGoString(limit), float(total)))
        return found


class Counted:
    """What is counted at every request of a model: plain numbers, which cost a tenth of the library's counters."""

    __slots__ = ("began", "latency", "queue", "requests", "rows", "seconds")

    def __init__(self) -> None:
        self.began = time.time()
        self.requests = self.latency = self.queue = 0
        self.seconds, self.rows = Spread(SECONDS), Spread(ROWS)

    def answered(self, spent: int, queued: int) -> None:
        """A request that took so many nanoseconds, and waited so many of them."""
        self.requests += 1
        self.latency += spent
        self.queue += queued
        self.seconds.add(spent / 1e9)


class Metrics:
    """The counters of one server."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        here = {"registry": self.registry}
        self._refused = Counter("ts_inference_refusals", "Requests answered with an error", (*LABELS, "status"), **here)
        self.deaths = Counter("ts_worker_deaths", "Workers that ended unasked", LABELS, **here)
        self._ready = Gauge("ts_ready_workers", "Workers that are ready", LABELS, **here)
        self._waiting = Gauge("ts_queued_requests", "Requests that wait", LABELS, **here)
        self._counted: dict[tuple[str, str], Counted] = {}
        self.registry.register(self)      # type: ignore[arg-type]  # it asks for `collect` alone

    def watch(self, model: Any) -> None:
        """Show a model from now on."""
        key = (model.name, model.version)
        self._counted[key] = model.counted
        self._ready.labels(*key).set_function(lambda: sum(w.is_ready for w in model.workers))
        self._waiting.labels(*key).set_function(lambda: len(model.waiting))

    def forget(self, model: Any) -> None:
        """Show a model no longer; another of its name may be shown already."""
        key = (model.name, model.version)
        if self._counted.get(key) is not model.counted:
            return
        del self._counted[key]
        for one in (self.deaths, self._ready, self._waiting):
            one.remove(*key)

    def refused(self, model: Any, status: int) -> None:
        self._refused.labels(model.name, model.version, str(status)).inc()

    def collect(self) -> Iterator[Any]:
        """The counts of every model, as the library asks for them."""
        of_requests = CounterMetricFamily("ts_inference_requests", "Requests answered with a result", labels=LABELS)
        # TorchServe's names of these have no `_total`, which this library gives every counter: gauges that grow.
        latency = GaugeMetricFamily("ts_inference_latency_microseconds", "Sum of the times of requests", labels=LABELS)
        queue = GaugeMetricFamily("ts_queue_latency_microseconds", "Sum of the times that requests waited",
                                  labels=LABELS)
        seconds = HistogramMetricFamily("ts_request_seconds", "Time of a request", labels=LABELS)
        rows = HistogramMetricFamily("ts_batch_size", "Rows that ran together", labels=LABELS)
        for key, counted in self._counted.items():
            of_requests.add_metric(key, counted.requests, created=counted.began)
            latency.add_metric(key, counted.latency / 1000)
            queue.add_metric(key, counted.queue / 1000)
            for family, spread in ((seconds, counted.seconds), (rows, counted.rows)):
                family.add_metric(key, spread.buckets(), spread.sum)
        families: Iterable[Any] = (of_requests, latency, queue, seconds, rows)
        yield from families

    def text(self) -> bytes:
        return generate_latest(self.registry)
