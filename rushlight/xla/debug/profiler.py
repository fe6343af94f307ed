"""torch_xla.debug.profiler: names for stretches of a program, in the profiler's timeline.

Enters: names. Leaves: ranges for `with`. Refuses: a server of traces, which nothing here speaks.
"""

from __future__ import annotations

from typing import Any

from ...autograd.profiler import record_function


class Trace(record_function):
    """A stretch with a name."""

    def __init__(self, name: str, **details: Any) -> None:
        super().__init__(name, ", ".join(f"{k}={v}" for k, v in details.items()) or None)


class StepTrace(Trace):
    """A step with a name; it ends the step that is written down."""

    def __exit__(self, *error: Any) -> None:
        from ..stepping import sync  # noqa: PLC0415 - names are there before anything is compiled

        sync()
        super().__exit__(*error)


def start_server(port: int, only_on_master: bool = True) -> None:
    """Refused: use rushlight.profiler."""
    raise NotImplementedError(f"start_server: no server of traces listens here (port {port}); use rushlight.profiler")
