"""rushlight.func: functions of functions. Derivatives, batching and stateless calls that compose in any order.

Enters: functions of tensors. Leaves: functions: their derivatives, the same over a batch, the same without writes.
Refuses: what no transform can follow, such as reading an element of a batch.
"""

from .batch_norm import replace_all_batch_norm_modules_
from .derivatives import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp
from .functionalization import functionalize
from .random_state import with_random_state
from .rearranging import rearrange
from .stateless import debug_unwrap, functional_call, stack_module_state
from .vectorize import vmap

__all__ = [
    "debug_unwrap", "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
    "linearize", "rearrange", "replace_all_batch_norm_modules_", "stack_module_state", "vjp", "vmap",
    "with_random_state",
]
