"""Engines: who compiles and runs the graphs of a lazy device. A chip package may bring one.

Enters: a `Program` and examples of its inputs. Leaves: something that `run` turns inputs into results with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from .graph import Program


class Engine:
    """What a lazy device is behind. Values (what a storage holds after a step) are the engine's own objects."""

    name: ClassVar[str]

    def compile(self, program: Program, given: Sequence[Any]) -> Any:
        """The program, ready to run on values like these."""
        raise NotImplementedError

    def run(self, compiled: Any, given: Sequence[Any]) -> list[Any]:
        """Values of the program's outputs."""
        raise NotImplementedError

    def wait(self) -> None:
        """Return when everything that `run` started has finished: at once, for engines that return with results."""

    def text(self, compiled: Any) -> str:
        """The compiled program, to be read."""
        raise NotImplementedError

    def from_host(self, tensor: Any) -> Any:
        """A flat tensor of the host as a value. The tensor is nobody else's."""
        raise NotImplementedError

    def to_host(self, value: Any) -> Any:
        """A value as a flat tensor of the host, which is only read."""
        raise NotImplementedError
