"""What goes wrong with MLIR."""

from __future__ import annotations


class UnsupportedOp(NotImplementedError):
    """An op that a dialect has no rule for: the message names it, and the line of the user's program that calls it."""


class ParseError(ValueError):
    """Text that is no module that can be read, and where: `line` and `column` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"{line}:{column}: {message}")
        self.line, self.column = line, column


class UnsupportedText(ParseError, UnsupportedOp):
    """Text that is a module, and uses what has no counterpart here: custom calls, collectives, quantized types."""
