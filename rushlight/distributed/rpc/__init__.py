"""`torch.distributed.rpc` in a build without it: `is_available()` is False;
the names libraries import refuse when used."""

from __future__ import annotations

from ...base.refusals import names_of
from . import api  # noqa: F401


def is_available() -> bool:
    """Whether processes can call each other."""
    return False


globals().update(names_of("torch.distributed.rpc"))
