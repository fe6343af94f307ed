"""Parameters that may be given as probabilities or as logits.

Enters: exactly one of `probs` and `logits`. Leaves: an attribute for the one given and a property, computed when first
looked at, for the other. Refuses: both, or neither.
"""

from __future__ import annotations

from typing import Any

from .._C import Tensor
from ..base.shape import Size
from .utils import lazy_property, logits_to_probs, probs_to_logits


def check_one(probs: Any, logits: Any) -> None:
    """Refuse anything but one of the two."""
    if (probs is None) == (logits is None):
        raise ValueError("expected one of probs and logits, got both or neither.")


class Odds:
    """Mixed into distributions that hold the parameter they were given as `_param`."""

    _param: Tensor
    _is_binary = True

    @lazy_property
    def logits(self) -> Tensor:
        return probs_to_logits(self.probs, is_binary=self._is_binary)

    @lazy_property
    def probs(self) -> Tensor:
        return logits_to_probs(self.logits, is_binary=self._is_binary)

    def _hold(self, probs: Tensor | None, logits: Tensor | None) -> None:
        """Keep the parameter that was given."""
        if probs is not None:
            self._param = self.probs = probs
        else:
            self._param = self.logits = logits

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._param.new(*args, **kwargs)

    @property
    def param_shape(self) -> Size:
        return self._param.size()
