"""Gradients, written to the log as backward computes them."""

from __future__ import annotations

import logging
from typing import Any

__all__ = ["debug_grad_log"]
_log = logging.getLogger("torch.utils.debug_log")


def debug_grad_log(*tensors: Any) -> None:
    """Log the norm of each tensor's gradient when backward reaches it; tensors that require none are passed over."""
    for position, tensor in enumerate(tensors):
        if tensor.requires_grad:
            tensor.register_hook(
                lambda grad, position=position: _log.info(
                    "gradient of tensor %d: norm %s", position, grad.norm().item()
                )
            )
