"""How many steps a program has made, by whoever counts them: profilers and optimizers.

The number of steps is the greatest of all counts, so that a step told by several is counted once.
"""

from __future__ import annotations

import warnings
from collections import defaultdict


class KinetoStepTracker:
    """Counts of steps by who counts them."""

    _current_step = 0
    _step_dict: dict[str, int] = defaultdict(int)

    @classmethod
    def init_step_count(cls, requester: str) -> None:
        """`requester` begins to count, from the step that has been reached."""
        cls._step_dict[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        """`requester` counts no more; whether it did."""
        return cls._step_dict.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """`requester` has made a step; the number of steps of the program."""
        if requester not in cls._step_dict:
            cls.init_step_count(requester)
        cls._step_dict[requester] += 1
        reached = max(cls._step_dict.values())
        if reached > cls._current_step + 1:
            warnings.warn(f"profiler: steps were skipped, from {cls._current_step} to {reached}; counted by requester: "
                          f"{dict(cls._step_dict)}", stacklevel=2)
        cls._current_step = max(cls._current_step, reached)
        return cls._current_step

    @classmethod
    def current_step(cls) -> int:
        """The number of steps of the program."""
        return cls._current_step
