"""`torch._dynamo.bytecode_debugger`, which is not here: its names refuse, and say what there is instead."""

from __future__ import annotations

from typing import Any


class NoDebugger(NotImplementedError, AttributeError):
    """A name of the debugger was asked for. An AttributeError too: who looks through all modules must get past."""


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise NoDebugger(
        f"_dynamo.bytecode_debugger.{name}: there is no debugger of the code around graphs."
        " torch._dynamo.explain(f)(...) shows graphs, breaks and guards, and RUSHLIGHT_SHOW=breaks where graphs end."
    )
