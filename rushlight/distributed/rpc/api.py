"""`torch.distributed.rpc.api`: decorators that libraries apply while they are imported."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

from ...base.refusals import names_of


def _require_initialized(function: Callable[..., Any]) -> Callable[..., NoReturn]:
    """A function that needs calls between processes: it refuses when called, since they cannot be set up."""

    @functools.wraps(function)
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError("RPC has not been initialized: torch.distributed.rpc is not available in Rushlight")

    return refuse


globals().update(names_of("torch.distributed.rpc.api"))
