"""`torch._tensor_str`: the printing of tensors under the names subclasses in libraries call it by."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .tensors import printing
from .tensors.printing import get_printoptions, set_printoptions

__all__ = ["PRINT_OPTS", "get_printoptions", "set_printoptions"]


class _CurrentOptions:
    """The options in force, read by attribute."""

    def __getattr__(self, name: str) -> Any:
        return getattr(printing._current[0], name)


PRINT_OPTS = _CurrentOptions()


def _tensor_str(self: Any, indent: int) -> str:
    """The elements alone."""
    return printing.contents(self, indent, printing._current[0])


def _add_suffixes(tensor_str: str, suffixes: Iterable[str], indent: int, force_newline: bool) -> str:
    """The elements, what else is to be said, and the closing bracket."""
    parts = list(suffixes)
    if force_newline and parts:
        return f"{tensor_str},\n{' ' * indent}{', '.join(parts)})"
    return printing.join_facts(tensor_str, parts, indent, printing._current[0])


def _str_intern(inp: Any, *, tensor_contents: str | None = None) -> str:
    return printing.tensor_text(inp, tensor_contents)


def _str(self: Any, *, tensor_contents: str | None = None) -> str:
    return printing.tensor_text(self, tensor_contents)
