"""`record_function`: a label for a stretch of a program, in the recording that runs.

Enters: a name, and a text that goes with it. Leaves: an event of the calling thread's
timeline (csrc/profile.h); nothing while no recording runs. Refuses: names that are no text.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .. import _extras

_begin, _end = _extras.record_begin, _extras.record_end


class record_function:  # noqa: N801 - PyTorch's name
    """Labels what runs within a `with`, or a function as its decorator."""

    def __init__(self, name: str, args: str | None = None) -> None:
        if not isinstance(name, str):
            raise TypeError(f"record_function: the name must be a str, got {type(name).__name__}")
        self.name, self.args = name, args
        self.run_callbacks_on_exit = True
        self._handle = 0

    def __enter__(self) -> record_function:
        self._handle = _begin(self.name, self.args)
        return self

    def __exit__(self, *error: object) -> None:
        if self._handle and self.run_callbacks_on_exit:
            _end(self._handle)

    def _call_end_callbacks_on_future(self, future: Any) -> Any:
        """The label ends when `future` is done, not with the block; leaves a future with the same value."""
        if not self.run_callbacks_on_exit:
            raise RuntimeError("_call_end_callbacks_on_future can only be called once per record_function")
        self.run_callbacks_on_exit = False
        handle = self._handle

        def ended(done: Any) -> Any:
            _end(handle)
            return done.value()

        return future.then(ended)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def labelled(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.name, self.args):
                return function(*args, **kwargs)

        return labelled
