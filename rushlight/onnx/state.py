"""Whether a model is being exported now, for models that ask."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

_exporting: contextvars.ContextVar[bool] = contextvars.ContextVar("exporting", default=False)


def is_in_onnx_export() -> bool:
    """Whether the model is being exported now."""
    return _exporting.get()


@contextlib.contextmanager
def exporting() -> Iterator[None]:
    """Inside, a model is being exported."""
    token = _exporting.set(True)
    try:
        yield
    finally:
        _exporting.reset(token)
