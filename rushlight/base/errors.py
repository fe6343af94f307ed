"""Exceptions carried from one process or thread to another.

Enters: an exception being handled. Leaves: a small picklable record that raises the same class elsewhere, its message
holding the whole original traceback. Keeps no frames alive.
"""

from __future__ import annotations

import sys
import traceback
from typing import Any, NoReturn

__all__ = ["ExceptionWrapper", "KeyErrorMessage"]


class KeyErrorMessage(str):
    """A message KeyError shows as it is: KeyError prints the repr of its argument."""

    __slots__ = ()

    def __repr__(self) -> str:
        return self


class ExceptionWrapper:
    """An exception's class and formatted traceback. `where` completes the sentence "Caught ValueError ..."."""

    def __init__(self, exc_info: tuple[Any, Any, Any] | None = None, where: str = "in background") -> None:
        kind, value, trace = sys.exc_info() if exc_info is None else exc_info
        self.exc_type: Any = kind     # whatever its constructor takes
        self.exc_msg = "".join(traceback.format_exception(kind, value, trace))
        self.where = where

    def reraise(self) -> NoReturn:
        """Raise the exception here; RuntimeError in place of a class that takes no single message."""
        text = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            text = KeyErrorMessage(text)
        elif getattr(self.exc_type, "message", None):
            raise self.exc_type(message=text)
        try:
            error = self.exc_type(text)
        except Exception:
            raise RuntimeError(text) from None
        raise error
