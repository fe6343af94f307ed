"""What is counted, as Prometheus reads it.

Enters: answers and refusals, batches, deaths of workers. Leaves: text under TorchServe's names and our own. Refuses:
nothing; whoever serves language models adds counters of their own to `registry`.
"""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
LABELS = ("model_name", "model_version")


class Metrics:
    """The counters of one server."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        here = {"registry": self.registry}
        self._requests = Counter("ts_inference_requests", "Requests answered with a result", LABELS, **here)
        # TorchServe's names of these have no `_total`, which this library gives every counter: gauges that grow.
        self._latency = Gauge("ts_inference_latency_microseconds", "Sum of the times of requests", LABELS, **here)
        self._queue = Gauge("ts_queue_latency_microseconds", "Sum of the times that requests waited", LABELS, **here)
        self._refused = Counter("ts_inference_refusals", "Requests answered with an error", (*LABELS, "status"), **here)
        self._seconds = Histogram("ts_request_seconds", "Time of a request", LABELS, buckets=SECONDS, **here)
        self._rows = Histogram("ts_batch_size", "Rows that ran together", LABELS, buckets=ROWS, **here)
        self.deaths = Counter("ts_worker_deaths", "Workers that ended unasked", LABELS, **here)
        self._ready = Gauge("ts_ready_workers", "Workers that are ready", LABELS, **here)
        self._waiting = Gauge("ts_queued_requests", "Requests that wait", LABELS, **here)
        self._found: dict[tuple[str, str], tuple[Any, ...]] = {}

    def _of(self, model: Any) -> tuple[Any, ...]:
        """The counters of a model: looking them up by labels takes longer than counting."""
        key = (model.name, model.version)
        found = self._found.get(key)
        if found is None:
            every = (self._requests, self._latency, self._queue, self._seconds, self._rows)
            found = self._found[key] = tuple(one.labels(*key) for one in every)
        return found

    def watch(self, model: Any) -> None:
        """Show a model from now on."""
        key = (model.name, model.version)
        self._of(model)
        self._ready.labels(*key).set_function(lambda: sum(w.is_ready for w in model.workers))
        self._waiting.labels(*key).set_function(lambda: len(model.waiting))

    def forget(self, model: Any) -> None:
        """Show a model no longer."""
        key = (model.name, model.version)
        self._found.pop(key, None)
        for one in (self._requests, self._latency, self._queue, self._seconds, self._rows, self.deaths, self._ready,
                    self._waiting):
            one.remove(*key)

    def batch_sizes(self, model: Any) -> Histogram:
        return self._of(model)[4]

    def answered(self, model: Any, spent: int, queued: int) -> None:
        requests, latency, queue, seconds, _ = self._of(model)
        requests.inc()
        latency.inc(spent / 1000)
        queue.inc(queued / 1000)
        seconds.observe(spent / 1e9)

    def refused(self, model: Any, status: int) -> None:
        self._refused.labels(model.name, model.version, str(status)).inc()

    def text(self) -> bytes:
        return generate_latest(self.registry)
