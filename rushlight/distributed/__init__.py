"""`torch.distributed` in a build without it: `is_available()` is False, which programs ask before they use the rest.

The names libraries import exist, so that they load; using one raises and says so.
"""

from __future__ import annotations

from ..base import late
from ..base.refusals import names_of
from . import rpc  # noqa: F401
from .device_mesh import DeviceMesh, init_device_mesh  # noqa: F401


class DistError(RuntimeError):
    """A failure of the distributed run time."""


class DistBackendError(DistError):
    """A failure of a communication library."""


class DistNetworkError(DistError):
    """A failure of the network."""


class DistStoreError(DistError):
    """A failure of the key-value store."""


def is_available() -> bool:
    """Whether programs may use several processes."""
    return False


def _no() -> bool:
    """Not in this build."""
    return False


is_initialized = is_mpi_available = is_nccl_available = is_gloo_available = is_ucc_available = is_xccl_available = _no
is_torchelastic_launched = _no


def is_backend_available(backend: str) -> bool:
    """Whether a communication library can be used."""
    return False


globals().update(names_of("torch.distributed"))
__getattr__, __dir__ = late.names(globals(), {}, ("optim",))
