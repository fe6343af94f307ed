"""The old place of functional_call.

Enters: a module and tensors by name. Leaves: the module's result with those tensors. It only warns and hands on.
"""

from __future__ import annotations

import warnings
from typing import Any

from ...func import functional_call as _functional_call


def functional_call(
    module: Any, parameters_and_buffers: dict[str, Any], args: Any = None, kwargs: dict[str, Any] | None = None, *,
    tie_weights: bool = True, strict: bool = False,
) -> Any:
    """Old spelling of func.functional_call."""
    warnings.warn(
        "`nn.utils.stateless.functional_call` is deprecated; use `func.functional_call` instead.",
        FutureWarning,
        stacklevel=2,
    )
    return _functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)
