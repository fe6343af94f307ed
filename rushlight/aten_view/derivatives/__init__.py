"""Derivatives of ATen's ops as PyTorch computes them, by the ops it calls for them.

Enters: nothing. Leaves: `DERIVATIVES`, from names of ops (or `op.overload`) to functions by parameter, which
`aten_view.nodes` reads. An op that is not here has the derivative of its definition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._C import Tensor
from .layers import LAYERS
from .pointwise import POINTWISE
from .reductions import REDUCTIONS
from .shapes import SHAPES
from .special import SPECIAL

DERIVATIVES: dict[str, dict[str, Callable]] = {**POINTWISE, **SPECIAL, **SHAPES, **REDUCTIONS, **LAYERS}


def _numbers(*names: str) -> Callable[[dict[str, Any]], bool]:
    return lambda given: not any(isinstance(given.get(n), Tensor) for n in names)


# Which calls a derivative is for, where not for all: a function of the arguments by name.
LIMITS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "clamp": _numbers("min", "max"), "clamp_min": _numbers("min"), "clamp_max": _numbers("max"),
    "linalg_vector_norm": lambda given: given["ord"] in (1, 2) and given.get("dtype") is None,
    "xlogy": lambda given: isinstance(given["other"], Tensor),
    "special_xlog1py": lambda given: isinstance(given["other"], Tensor),
    "copysign": lambda given: isinstance(given["other"], Tensor) and not given["other"].requires_grad,
    "sgn": lambda given: not given["self"].is_complex(),
    "sum": lambda given: given.get("dtype") is None, "mean": lambda given: given.get("dtype") is None,
    "cumsum": lambda given: given.get("dtype") is None,
    "pow": lambda given: not (isinstance(given["self"], Tensor) and given["self"].is_complex()),
    "masked_fill": lambda given: not isinstance(given["value"], Tensor),
    "nansum": lambda given: given.get("dtype") is None,
    "div": lambda given: not given.get("rounding_mode"),
}
