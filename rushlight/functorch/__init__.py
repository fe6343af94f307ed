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
from ..fx.experimental.proxy_tensor import make_fx
from . import compile  # noqa: A004 - PyTorch's name
from .functional_modules import (
    FunctionalModule,
    FunctionalModuleWithBuffers,
    combine_state_for_ensemble,
    make_functional,
    make_functional_with_buffers,
)

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "combine_state_for_ensemble",
    "compile",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "make_functional",
    "make_functional_with_buffers",
    "make_fx",
    "stack_module_state",
    "vjp",
    "vmap",
]
