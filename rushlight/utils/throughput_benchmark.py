"""Throughput: how many calls of a module per second, from several threads at once."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from typing import Any

from .. import _C
from ..autograd import set_grad_enabled

__all__ = ["ExecutionStats", "ThroughputBenchmark", "format_time"]


def format_time(time_us: float | None = None, time_ms: float | None = None, time_s: float | None = None) -> str:
    """A time, given in one of three units, in the one that suits it."""
    if sum(t is not None for t in (time_us, time_ms, time_s)) != 1:
        raise AssertionError("format_time: give exactly one of time_us, time_ms and time_s")
    us = time_us if time_us is not None else time_ms * 1e3 if time_ms is not None else time_s * 1e6
    return f"{us / 1e6:.3f}s" if us >= 1e6 else f"{us / 1e3:.3f}ms" if us >= 1e3 else f"{us:.3f}us"


class ExecutionStats:
    """What a benchmark measured."""

    def __init__(self, latency_avg_ms: float, num_iters: int, total_time_seconds: float, calling_threads: int) -> None:
        self.latency_avg_ms, self.num_iters, self._total, self._threads = (
            latency_avg_ms,
            num_iters,
            total_time_seconds,
            calling_threads,
        )

    @property
    def iters_per_second(self) -> float:
        """Calls per second, over all threads."""
        return self.num_iters / self.total_time_seconds

    @property
    def total_time_seconds(self) -> float:
        """Wall time of the measured calls."""
        return self._total

    def __str__(self) -> str:
        return (
            f"Average latency: {format_time(time_ms=self.latency_avg_ms)}\nIterations: {self.num_iters}\nIterations per"
            f" second, all threads together: {self.iters_per_second:.2f}\nTotal time:"
            f" {format_time(time_s=self.total_time_seconds)}"
        )


class ThroughputBenchmark:
    """Add inputs, then `benchmark()`: each call takes the next input."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._inputs: list[tuple[tuple, dict[str, Any]]] = []

    def run_once(self, *args: Any, **kwargs: Any) -> Any:
        """One call, not measured."""
        return self._module(*args, **kwargs)

    def add_input(self, *args: Any, **kwargs: Any) -> None:
        """An input for `benchmark`."""
        self._inputs.append((args, kwargs))

    def benchmark(
        self,
        num_calling_threads: int = 1,
        num_warmup_iters: int = 10,
        num_iters: int = 100,
        profiler_output_path: str = "",
    ) -> ExecutionStats:
        """Warm up in every thread, then share `num_iters` calls among them."""
        if profiler_output_path:
            raise NotImplementedError(
                "ThroughputBenchmark: profiler_output_path is not supported; run the calls under profiler.profile"
            )
        if not self._inputs:
            raise RuntimeError("ThroughputBenchmark: add_input must be called before benchmark")
        left, start = itertools.count(), threading.Barrier(num_calling_threads + 1)
        times: list[float] = []
        errors: list[BaseException] = []
        grad = _C.is_grad_enabled()

        def work(offset: int) -> None:
            try:
                with set_grad_enabled(grad):   # a new thread starts with recording on
                    for i in range(num_warmup_iters):
                        self._call(offset + i)
                    start.wait()
                    spent = 0.0
                    while (i := next(left)) < num_iters:
                        began = time.perf_counter()
                        self._call(i)
                        spent += time.perf_counter() - began
                    times.append(spent)
            except BaseException as error:
                errors.append(error)
                start.abort()

        threads = [threading.Thread(target=work, args=(n,)) for n in range(num_calling_threads)]
        for t in threads:
            t.start()
        with contextlib.suppress(threading.BrokenBarrierError):
            start.wait()
        began = time.perf_counter()
        for t in threads:
            t.join()
        if errors:
            raise errors[0]
        return ExecutionStats(sum(times) / num_iters * 1e3, num_iters, time.perf_counter() - began, num_calling_threads)

    def _call(self, i: int) -> Any:
        args, kwargs = self._inputs[i % len(self._inputs)]
        return self._module(*args, **kwargs)
