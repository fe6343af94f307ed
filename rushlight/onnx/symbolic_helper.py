"""`torch.onnx.symbolic_helper`: the decorator that libraries put on their ONNX rules while they are imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.refusals import names_of


def parse_args(*descriptors: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Says how a rule's arguments are read from the graph; the rule itself stays as it is until there is an export."""

    def mark(rule: Callable[..., Any]) -> Callable[..., Any]:
        rule._arg_descriptors = descriptors
        return rule

    return mark


globals().update(names_of("torch.onnx.symbolic_helper"))
