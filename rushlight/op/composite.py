"""Composite ops: a Python function over other ops.

Enters: a definition with `compute`. Leaves: an op that runs its body; without a `vjp` of its own the body's ops are
what the tape sees, so every transform passes through.
"""

from __future__ import annotations

from typing import Any

from .definition import KIND_PYTHON, OpDefinition


class Composite(OpDefinition):
    """A definition whose body is written with other ops."""

    kind = KIND_PYTHON
    body = True
    is_composite = True

    def compute(self, *args: Any) -> Any:
        """The result, from the bound arguments."""
        raise NotImplementedError

    def plan(self, args: tuple) -> Any:
        if not self.replays or not self.is_planned(args):
            return None
        from .replay import written_plan  # noqa: PLC0415 - for ops that are called more than once

        return written_plan(self, args)

    def run(self, *args: Any) -> Any:
        return self.compute(*args)
