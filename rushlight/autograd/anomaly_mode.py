"""Anomaly mode: remembers where each node was recorded, and stops at the first gradient that is not a number.

Enters: the nodes the tape makes and runs while the mode is on. Leaves: a warning with the forward traceback of a node
whose backward failed, and a RuntimeError for NaN gradients. Slow: a debugging aid.
"""

from __future__ import annotations

import warnings
from typing import Any

from .. import _C
from .grad_mode import ModeContext

_running: list[Any] = []   # nodes being run, so that what their backward records can name its parent
_check_nan = True

is_anomaly_enabled = _C.is_anomaly_enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Whether gradients are checked for NaN while the mode is on."""
    return _check_nan


def remember_stack(node: Any) -> None:
    """Called by the tape for every node made in this mode."""
    import traceback  # only here: it brings a tokenizer along

    node.metadata["traceback_"] = traceback.format_stack()[:-1]
    if _running:
        node.metadata["parent_"] = _running[-1]


def begin_node(node: Any) -> None:
    """Called by the engine before a node runs."""
    _running.append(node)


def end_node(node: Any) -> None:
    """Called by the engine after a node ran or failed."""
    if _running and _running[-1] is node:
        _running.pop()


def explain_failure(node: Any) -> None:
    """Called by the engine when a node's backward raised."""
    _warn(node, f"Error detected in {node.name()}.")


def _warn(node: Any, headline: str) -> None:
    stack = node.metadata.get("traceback_")
    if stack is None:
        warnings.warn(
            f"{headline} No forward pass information is available: the mode was off during the forward pass.",
            stacklevel=3,
        )
        return
    warnings.warn(f"{headline} Traceback of forward call that caused the error:\n{''.join(stack)}", stacklevel=3)
    parent = node.metadata.get("parent_")
    while parent is not None:
        stack = parent.metadata.get("traceback_", ["(no forward pass information)\n"])
        warnings.warn(
            f"Previous calculation was induced by {parent.name()}. Traceback of forward call that induced"
            f" it:\n{''.join(stack)}",
            stacklevel=3,
        )
        parent = parent.metadata.get("parent_")


def check_gradients(node: Any, gradients: tuple) -> None:
    """Called by the engine after a node ran: what it returned."""
    if not _check_nan:
        return
    with _quiet():
        for i, g in enumerate(gradients):
            if g is not None and bool(g.isnan().any()):
                _warn(node, f"Error detected in {node.name()}.")
                raise RuntimeError(f"Function '{node.name()}' returned nan values in its {i}th output.")


class _quiet(ModeContext):  # noqa: N801
    """The checks' own ops: neither recorded nor watched."""

    def __enter__(self) -> None:
        self.previous = _C.is_anomaly_enabled(), _C.is_grad_enabled()
        _C._set_anomaly_enabled(False)
        _C._set_grad_enabled(False)

    def __exit__(self, *exc: Any) -> None:
        anomaly, grad = self.previous
        _C._set_anomaly_enabled(anomaly)
        _C._set_grad_enabled(grad)


class set_detect_anomaly(ModeContext):  # noqa: N801
    """Turn anomaly mode on or off: at once when called, until the end of the block with `with`."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.mode, self.check_nan = mode, check_nan
        self.previous = _C.is_anomaly_enabled(), _check_nan
        self._set(mode, check_nan)

    @staticmethod
    def _set(mode: bool, check_nan: bool) -> None:
        global _check_nan
        _C._set_anomaly_enabled(mode)
        _check_nan = check_nan

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: Any) -> None:
        self._set(*self.previous)

    def clone(self) -> set_detect_anomaly:
        return set_detect_anomaly(self.mode, self.check_nan)


class detect_anomaly(set_detect_anomaly):  # noqa: N801
    """Anomaly mode within a block."""

    def __init__(self, check_nan: bool = True) -> None:
        previous = _C.is_anomaly_enabled(), _check_nan
        super().__init__(True, check_nan)
        self._set(*previous)
        warnings.warn(
            "Anomaly Detection has been enabled. It slows the program down: use it for debugging only.", stacklevel=2
        )

    def __enter__(self) -> None:
        self.previous = _C.is_anomaly_enabled(), _check_nan
        self._set(True, self.check_nan)

    def clone(self) -> detect_anomaly:
        return detect_anomaly(self.check_nan)


def install() -> None:
    """Tell the tape and the engine whom to call."""
    _C._autograd_callbacks.update(
        remember_stack=remember_stack,
        begin_node=begin_node,
        end_node=end_node,
        explain_failure=explain_failure,
        check_gradients=check_gradients,
    )
