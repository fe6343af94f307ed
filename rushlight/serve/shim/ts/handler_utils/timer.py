"""How long the steps of a handler take."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any


def timed(func: Callable) -> Callable:
    """A method whose time is added to the metrics of the handler's context, where it has one."""

    @functools.wraps(func)
    def measured(self: Any, *args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return func(self, *args, **kwargs)
        finally:
            context = getattr(self, "context", None)
            if context is not None:
                context.metrics.add_time(f"ts_handler_{func.__name__}", (time.perf_counter() - start) * 1000)

    return measured
