"""What is counted of language models, as Prometheus reads it.

Enters: what engines tell after each step, and the times of requests. Leaves: counters in the server's registry,
labelled by model. Refuses: nothing.
"""

from __future__ import annotations

import weakref
from typing import Any

from prometheus_client import Counter, Gauge, Histogram

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
LABELS = ("model_name",)
GAUGES = {
    "requests_running": "Sequences that are read or decoded", "requests_waiting": "Sequences that wait for room",
    "kv_cache_usage": "Part of the cache's blocks that sequences hold",
}
COUNTERS = {
    "generation_tokens": "Words written", "prompt_tokens": "Words of prompts that were computed",
    "prompt_tokens_cached": "Words of prompts that the cache held", "decode_steps": "Steps of the model",
    "preemptions": "Sequences put aside for want of blocks", "engine_deaths": "Engines that ended unasked",
}
TIMES = {
    "time_to_first_token_seconds": "From a request to its first word",
    "time_per_output_token_seconds": "From a word to the next", "generation_seconds": "From a request to its last word",
}
FROM_STATS = {
    "generated": "generation_tokens", "read": "prompt_tokens", "shared": "prompt_tokens_cached",
    "decode_steps": "decode_steps", "preempted": "preemptions",
}


class Counted:
    """The collectors of a registry, for all its models."""

    known: weakref.WeakKeyDictionary[Any, Counted] = weakref.WeakKeyDictionary()

    def __init__(self, registry: Any) -> None:
        made: dict[str, Any] = {n: Gauge(n, text, LABELS, registry=registry) for n, text in GAUGES.items()}
        made |= {n: Counter(n, text, LABELS, registry=registry) for n, text in COUNTERS.items()}
        made |= {n: Histogram(n, text, LABELS, buckets=SECONDS, registry=registry) for n, text in TIMES.items()}
        self.all = made

    @classmethod
    def of(cls, registry: Any) -> Counted:
        if registry not in cls.known:
            cls.known[registry] = cls(registry)
        return cls.known[registry]

    def model(self, name: str) -> dict[str, Any]:
        return {n: one.labels(name) for n, one in self.all.items()}

    def forget(self, name: str) -> None:
        for one in self.all.values():
            one.remove(name)
