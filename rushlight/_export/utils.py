"""`torch._export.utils`: questions that passes over exported graphs ask."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .._C import Overload
from ..aten.overloads import AtenOverload
from ..op import Composite

__all__ = ["_disable_aten_to_metadata_assertions", "_is_cia_op"]


def _is_cia_op(op: Any) -> bool:
    """Whether an overload is written as a function of other ops, for every device."""
    return isinstance(op, (Overload, AtenOverload)) and isinstance(op.definition, Composite)


@contextmanager
def _disable_aten_to_metadata_assertions() -> Iterator[None]:
    """A region in which `export` puts no checks of dtypes in front of conversions: it never does."""
    yield
