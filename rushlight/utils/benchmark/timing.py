"""Timer: run a statement many times, with a warm-up and a fixed number of threads.

Enters: a statement and its setup as source text. Leaves: a `Measurement`. Refuses: C++ statements, and counting
instructions with Callgrind.
"""

from __future__ import annotations

import enum
import textwrap
import timeit
from collections.abc import Callable
from typing import Any, NoReturn

from ...base import late
from ...base.refusals import reason_of, stand_in
from .measurement import Measurement, TaskSpec, quantile, set_torch_threads

timer = timeit.default_timer   # work has finished when a call returns: nothing to wait for
_NO_CALLGRIND = reason_of("torch.utils.benchmark.CallgrindStats")
CallgrindStats = stand_in("torch.utils.benchmark", "CallgrindStats")
FunctionCounts = stand_in("torch.utils.benchmark", "FunctionCounts")
FunctionCount = stand_in("torch.utils.benchmark", "FunctionCount")
CopyIfCallgrind = stand_in("torch.utils.benchmark", "CopyIfCallgrind")


class Language(enum.Enum):
    """What a statement is written in."""

    PYTHON = 0
    CPP = 1


def _dedented(source: str) -> str:
    source = textwrap.dedent(source)
    return (source[1:] if source.startswith("\n") else source).rstrip()


class Timer:
    """Times `stmt` after `setup`, on `num_threads` threads. Labels say where results go in a table of `Compare`."""

    _timer_cls = timeit.Timer

    def __init__(
        self, stmt: str = "pass", setup: str = "pass", global_setup: str = "", timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None, label: str | None = None, sub_label: str | None = None,
        description: str | None = None, env: str | None = None, num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if language in (Language.CPP, "cpp", "c++"):
            raise NotImplementedError(
                "Timer: C++ statements need a compiler and PyTorch's headers, which are not here. Use Python"
                " statements."
            )
        if language not in (Language.PYTHON, "py", "python"):
            raise ValueError(f"Invalid language `{language}`.")
        if global_setup:
            raise ValueError(f"global_setup is C++ only, got `{global_setup}`. Move it to `setup`.")
        self._globals = dict(globals or {})
        package = late.provided("package")
        self._globals.setdefault("torch", package)
        self._globals.setdefault(package.__name__, package)
        stmt, setup = _dedented(stmt), _dedented(setup)
        self._timer = self._timer_cls(stmt=stmt, setup=setup, timer=timer, globals=self._globals)
        self._task_spec = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)

    def _timeit(self, number: int) -> float:
        return max(self._timer.timeit(number), 1e-9)   # a clock may stand still

    def _measured(self, number: int, times: list[float]) -> Measurement:
        return Measurement(number, times, self._task_spec)

    def timeit(self, number: int = 1000000) -> Measurement:
        """One time of `number` runs, after a warm-up."""
        with set_torch_threads(self._task_spec.num_threads):
            self._timeit(max(number // 100, 2))
            return self._measured(number, [self._timeit(number)])

    def repeat(self, repeat: int = -1, number: int = -1) -> NoReturn:
        """Refused: blocked_autorange repeats."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Callable | None = None) -> NoReturn:
        """Refused: blocked_autorange chooses the number of runs."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _estimate_block_size(self, min_run_time: float) -> int:
        """Runs per measurement for which reading the clock hardly counts."""
        with set_torch_threads(self._task_spec.num_threads):
            self._timeit(1)   # the first run may compile kernels
            overhead = quantile(sorted(self._timeit(0) for _ in range(5)), 0.5)
            number = 1
            while True:
                taken = self._timeit(number)
                is_long = overhead / taken <= 1e-4 and taken >= min_run_time / 1000
                if is_long or taken > min_run_time or number * 10 > 2**31:
                    return number
                number *= 10

    def _loop(
        self,
        number: int,
        stop: Callable[[list[float]], bool],
        least: float,
        most: float | None,
        callback: Callable[[int, float], Any] | None,
    ) -> list[float]:
        total, times, done = 0.0, [], False
        with set_torch_threads(self._task_spec.num_threads):
            while total < least or not done:
                times.append(self._timeit(number))
                total += times[-1]
                if callback is not None:
                    callback(number, times[-1])
                done = stop(times)
                if most is not None and total > most:
                    break
        return times

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Blocks of runs, long enough for the clock, until `min_run_time` seconds have passed."""
        number = self._estimate_block_size(min_run_time)
        return self._measured(number, self._loop(number, lambda times: True, min_run_time, None, callback))

    def adaptive_autorange(self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
                           callback: Callable[[int, float], Any] | None = None) -> Measurement:
        """Blocks of runs until the quartiles are within `threshold` of the median,
        or `max_run_time` seconds have passed."""
        number = self._estimate_block_size(0.05)

        def is_steady(times: list[float]) -> bool:
            return len(times) > 3 and self._measured(number, times).meets_confidence(threshold)

        return self._measured(number, self._loop(number, is_steady, min_run_time, max_run_time, callback))

    def collect_callgrind(
        self,
        number: int = 100,
        *,
        repeats: int | None = None,
        collect_baseline: bool = True,
        retain_out_file: bool = False,
    ) -> NoReturn:
        """Refused: instructions are not counted."""
        raise NotImplementedError(f"Timer.collect_callgrind is not available: {_NO_CALLGRIND}.")
