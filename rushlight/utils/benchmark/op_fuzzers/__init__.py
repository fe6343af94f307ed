"""Fuzzers made ready: inputs for ops of one and of two tensors, dense and sparse, and for Fourier transforms."""

from ....base import late as _late

__getattr__, __dir__ = _late.names(
    globals(), {}, ("binary", "sparse_binary", "sparse_unary", "spectral", "unary")
)
