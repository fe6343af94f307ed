"""rushlight.library: define ops, implement them per key, give them shape rules and derivatives, check them.

Enters: schemas and Python functions. Leaves: ops callable as `rushlight.ops.<namespace>.<name>` that take part in
autograd, meta tensors, modes and subclasses like built-in ones. Refuses: redefinition, unknown keys, signatures it
cannot express.
"""

from ..dispatch.table import fallthrough_kernel
from .checks import OpCheckError, opcheck
from .custom_ops import CustomOpDef, custom_op
from .effects import EffectType
from .registration import Library, define, get_kernel, impl
from .rules import (
    FakeContext,
    get_ctx,
    impl_abstract,
    register_autocast,
    register_autograd,
    register_fake,
    register_kernel,
    register_torch_dispatch,
    register_vmap,
)
from .schemas import infer_schema
from .triton_kernels import triton_op, wrap_triton

__all__ = [
    "CustomOpDef", "EffectType", "FakeContext", "Library", "OpCheckError", "custom_op", "define",
    "fallthrough_kernel", "get_ctx", "get_kernel", "impl", "impl_abstract", "infer_schema", "opcheck",
    "register_autocast", "register_autograd", "register_fake", "register_kernel", "register_torch_dispatch",
    "register_vmap", "triton_op", "wrap_triton",
]
