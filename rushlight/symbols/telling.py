"""Symbols that are made, and what is assumed of them, for those who listen (base/logs.py).

Enters: a new symbol, or a question that was answered by hints. Leaves: lines of `torch.fx.experimental.symbolic_shapes`
(TORCH_LOGS=dynamic), of the artifacts `sym_node` and `trace_shape_events`, and records of the trace. Changes nothing.
"""

from __future__ import annotations

from typing import Any

from ..base import logs

_HOME = "torch.fx.experimental.symbolic_shapes"


def _limits(limits: tuple[Any, Any]) -> str:
    low, high = limits
    return f"[{'-int_oo' if low is None else low}, {'int_oo' if high is None else high}]"


def made(name: str, hint: Any, source: str, limits: tuple[Any, Any], where: str) -> None:
    """A symbol for a size that was seen."""
    if (log := logs.messages(_HOME)) is not None:
        log.info("create_symbol %s = %s for %s %s at %s", name, hint, source, _limits(limits), where)
    if (log := logs.artifact("trace_shape_events")) is not None:
        log.debug("record create_symbol(%s, %r) = %s", hint, source, name)
    logs.trace("create_symbol", lambda: {"symbol": name, "val": str(hint), "vr": _limits(limits), "source": source})


def made_hidden(name: str, where: str) -> None:
    """A symbol for a number that only elements can tell."""
    kind = {"zuf": "float", "ub": "bool"}.get(name.rstrip("0123456789"), "int")
    if (log := logs.messages(_HOME)) is not None:
        log.info("create_unbacked_sym%s %s at %s", kind, name, where)
    if (log := logs.artifact("trace_shape_events")) is not None:
        log.debug("record create_unbacked_sym%s() = %s", kind, name)
    logs.trace("create_unbacked_symbol", lambda: {"symbol": name, "node_id": 0})


def assumed(condition: str, answer: bool, is_deferred: bool, where: str) -> None:
    """A question that other sizes would answer otherwise, or a check that is made when the result runs."""
    if (log := logs.messages(_HOME)) is not None:
        log.info("eval %s [%s] at %s", condition, "checked when it runs" if is_deferred else "guard added", where)
    if (log := logs.artifact("trace_shape_events")) is not None:
        log.debug("record %s(%s) = %s", "defer_runtime_assert" if is_deferred else "evaluate_expr", condition, answer)
    if (log := logs.artifact("sym_node")) is not None and not is_deferred:
        log.debug("%s is %s for the sizes at hand", condition, answer)
    logs.trace("guard_added_fast", lambda: {"expr": condition})
