"""`torch._functorch.fx_minifier`: see `rushlight.fx.minifier`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..fx.graph_module import GraphModule
from ..fx.minifier import minified

__all__ = ["minifier"]


def minifier(fail_f: GraphModule, inps: list[Any], module_fails: Callable[[GraphModule, list[Any]], bool],
             dump_state: Callable[[GraphModule, list[Any]], Any] | None = None
             ) -> tuple[GraphModule, list[Any]]:
    """A smaller graph for which `module_fails` still holds, and its inputs; `dump_state` is told of it."""
    found = minified(fail_f, inps, module_fails)
    if dump_state is not None:
        dump_state(*found)
    return found
