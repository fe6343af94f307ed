"""`annotate`: give a traced value a type, which then stands in the generated code."""

from __future__ import annotations

from typing import Any

from .proxy import Proxy

__all__ = ["annotate"]


def annotate(val: Any, type: Any) -> Any:  # noqa: A002 - PyTorch's name
    """The value; if it is a proxy, its node gets the type."""
    if isinstance(val, Proxy):
        if val.node.type:
            raise RuntimeError(f"the value has type {val.node.type} already, so {type} cannot be put on it. Annotate a "
                               "function's parameter in its signature, and a value only once")
        val.node.type = type
    return val
