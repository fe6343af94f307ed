"""Classes that PyTorch's pickles of whole modules name, and whose part is played by something else here.

Enters: their pickled state. Leaves: objects that do what is left to do, mostly nothing.
"""

from __future__ import annotations

from typing import Any


class _DimRange:
    """A note of PyTorch's compiler on a jagged tensor."""

    def __setstate__(self, state: Any) -> None:
        """Nothing here looks at it."""


class _Silent:
    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Files of the versions this hook upgraded are not met any more."""


class SpectralNormStateDictHook(_Silent):
    """Noted the version of a spectral norm in a state dict."""


class SpectralNormLoadStateDictPreHook(_Silent):
    """Upgraded state dicts of older versions."""


def _get_thnn_function_backend(*args: Any) -> None:
    """A part of very old modules that has no meaning any more."""
