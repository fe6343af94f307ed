"""`torch._inductor.freezing_utils`: marks on tensors and graphs whose weights have become constants."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_state = threading.local()


def _freezing_active() -> bool:
    return getattr(_state, "depth", 0) > 0


@contextmanager
def enter_freezing() -> Iterator[None]:
    """A region in which weights become constants."""
    _state.depth = getattr(_state, "depth", 0) + 1
    try:
        yield
    finally:
        _state.depth -= 1


def record_has_frozen_params(gm: Any) -> None:
    """Say of a graph module that weights of it are constants."""
    gm._has_frozen_params = True


def has_frozen_params(gm: Any) -> bool:
    """Whether that was said."""
    return getattr(gm, "_has_frozen_params", False)


def maybe_set_is_frozen_param(t: Any) -> None:
    """Say of a tensor that it was a weight, inside of such a region."""
    if _freezing_active():
        t._is_frozen_param = True


def is_frozen_param(t: Any) -> bool:
    """Whether that was said."""
    return getattr(t, "_is_frozen_param", False)
