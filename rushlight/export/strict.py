"""`export(strict=True)`: the program is read as bytecode before it is traced.

Enters: a module and example arguments. Leaves: nothing. Tracing sees one run, and Python values that it went by are as
they were in that run; Dynamo (rushlight/dynamo/) interprets the program instead. Refuses, with the user's line and
the reason, whatever cannot be one graph: branches on elements, calls that it cannot look into, generators.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from ..dynamo.capture import Captured, Refused, Settings, capture
from ..dynamo.convert import unsupported
from ..dynamo.record.breaks import GraphBreak
from ..nn import Module


def check_strictly(mod: Module, args: tuple, kwargs: Mapping[str, Any]) -> Captured:
    """Capture the forward of a module for these arguments whole, or say why it cannot be."""
    forward = inspect.unwrap(type(mod).forward)
    if not inspect.isfunction(forward):
        raise NotImplementedError(
            f"export(strict=True): forward of {type(mod).__name__} is no Python function. Use strict=False."
        )
    bound = inspect.signature(forward).bind(mod, *args, **kwargs)
    bound.apply_defaults()
    settings = Settings(lambda graph, examples: graph.forward, fullgraph=True)
    try:
        return capture(forward.__code__, bound.arguments, forward.__globals__, forward.__closure__ or (), settings)
    except (GraphBreak, Refused) as found:
        raise unsupported(found.reason if isinstance(found, Refused) else found, asked="export(strict=True)") from found
