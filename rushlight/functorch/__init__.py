"""`functorch`, the package PyTorch ships beside `torch`: the function transforms, and `compile`."""

from ..func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)
from . import compile  # noqa: A004 - PyTorch's name

__all__ = [
    "compile",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "stack_module_state",
    "vjp",
    "vmap",
]
