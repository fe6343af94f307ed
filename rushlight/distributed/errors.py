"""What goes wrong between processes, as classes that programs catch."""

from __future__ import annotations


class DistError(RuntimeError):
    """A failure of the distributed run time."""


class DistBackendError(DistError):
    """A failure while processes exchange tensors: a peer that died, left, hangs, or is at another call."""


class DistNetworkError(DistError):
    """A failure of the network: an address that cannot be reached, a port in use, a connection that broke."""


class DistStoreError(DistError):
    """A failure of the key-value store: a key that nobody set in time, a server that went away."""


class QueueEmptyError(DistStoreError):
    """A queue of the store that was asked not to wait, and held nothing."""
