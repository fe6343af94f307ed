"""What linear algebra raises: known to those who catch it without loading what computes."""

from __future__ import annotations


class LinAlgError(RuntimeError):
    """A matrix for which the computation has no answer: singular, not positive-definite, or not converging."""


LinAlgError.__name__ = LinAlgError.__qualname__ = "_LinAlgError"      # as PyTorch's core calls it
