"""A hook that reduces nothing: how long would a step take without the network?"""

from __future__ import annotations

from typing import Any

from ....futures import Future
from ...reducer import GradBucket

__all__ = ["noop_hook"]


def noop_hook(_: Any, bucket: GradBucket) -> Future:
    """Each process keeps its own gradients."""
    future: Future = Future()
    future.set_result(bucket.buffer())
    return future
