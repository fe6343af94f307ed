"""`torch._inductor.custom_graph_pass`: passes over graphs that programs give to the inductor, and what tells them
apart."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["CustomGraphPass", "get_hash_for_files"]


class CustomGraphPass(ABC):
    """A pass: changes a graph in place, and says by `uuid` which one it is."""

    @abstractmethod
    def __call__(self, graph: Any) -> None:
        """Change the graph."""

    @abstractmethod
    def uuid(self) -> Any:
        """What a stored graph is told apart by; None where it must not be stored."""


def get_hash_for_files(paths: Iterable[str], extra: str = "") -> bytes:
    """A digest of the contents of files, and of a text."""
    found = hashlib.sha256(extra.encode())
    for path in paths:
        found.update(Path(path).read_bytes())
    return found.digest()
