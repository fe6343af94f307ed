"""Timer: run a statement many times, with a warm-up and a fixed number of threads.

Enters: a statement and its setup as source text, in Python or C++. Leaves: a `Measurement`, or counts of instructions.
Refuses: what `cpp_statement` and `callgrind_run` refuse: missing compilers, PyTorch's C++ API, platforms without
valgrind.
"""

from __future__ import annotations

import enum
import textwrap
import timeit
from collections.abc import Callable
from typing import Any, NoReturn

from ...base import late
from .callgrind import CallgrindStats, CopyIfCallgrind
from .callgrind_run import collect
from .cpp_statement import CPPTimer
from .measurement import Measurement, TaskSpec, quantile, set_torch_threads


def timer() -> float:
    """The clock's seconds, once an accelerator's work is done; a processor's is when a call returns."""
    accelerator = late.provided("accelerator")
    if accelerator.is_available():
        accelerator.synchronize()
    return timeit.default_timer()


class Language(enum.Enum):
    """What a statement is written in."""

    PYTHON = 0
    CPP = 1


def _dedented(source: str) -> str:
    source = textwrap.dedent(source)
    return (source[1:] if source.startswith("\n") else source).rstrip()


class Timer:
    """Times `stmt` after `setup`, on `num_threads` threads. Labels say where results go in a table of `Compare`."""

    _timer_cls: Any = timeit.Timer

    def __init__(
        self, stmt: str = "pass", setup: str = "pass", global_setup: str = "", timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None, label: str | None = None, sub_label: str | None = None,
        description: str | None = None, env: str | None = None, num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        self._globals = dict(globals or {})
        extra: dict[str, Any] = {}
        if language in (Language.PYTHON, "py", "python"):
            if global_setup:
                raise ValueError(f"global_setup is C++ only, got `{global_setup}`. Move it to `setup`.")
            self._language, package = Language.PYTHON, late.provided("package")
            self._globals.setdefault("torch", package)
            self._globals.setdefault(package.__name__, package)
        elif language in (Language.CPP, "cpp", "c++"):
            if self._timer_cls is not timeit.Timer:
                raise AssertionError(f"Timer: C++ statements are timed by their own class, got {self._timer_cls}")
            self._language, self._timer_cls = Language.CPP, CPPTimer
            setup, extra = "" if setup == "pass" else setup, {"global_setup": global_setup}
        else:
            raise ValueError(f"Invalid language `{language}`.")
        stmt, setup = _dedented(stmt), _dedented(setup)
        self._timer = self._timer_cls(
            stmt=stmt, setup=setup, timer=timer, globals=CopyIfCallgrind.unwrap_all(self._globals), **extra
        )
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
            if type(self._timer) is timeit.Timer:
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
    ) -> CallgrindStats | tuple[CallgrindStats, ...]:
        """Instructions that `number` runs take, counted by callgrind in a process of its own: one count, or a tuple of
        `repeats` ones; with `collect_baseline` those of an empty statement of Python beside them, with
        `retain_out_file` the file that callgrind wrote. Globals are copied, and must be `CopyIfCallgrind`."""
        if repeats is not None and repeats < 1:
            raise ValueError(f"If specified, `repeats` must be >= 1, got {repeats}")
        self._timeit(1)   # a faulty statement is quicker found, and easier read, in this process
        is_python = self._language is Language.PYTHON
        found = collect(
            self._task_spec, self._globals, number=number, repeats=repeats or 1, is_python=is_python,
            collect_baseline=collect_baseline and is_python, retain_out_file=retain_out_file,
        )
        return found[0] if repeats is None else found
