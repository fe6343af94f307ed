"""Top-level names of systems that are not built yet: they can be imported and annotated with, and refuse when used.

Enters: a name. Leaves: a stand-in from the table (`refusals`). Exceptions are real, since programs catch them.
"""

from __future__ import annotations

from typing import Any

from .._jit_internal import Error
from ..base import late
from ..base.refusals import names_of

_refused = names_of("torch")
globals().update(_refused)


class FatalError(RuntimeError):
    """What an extension raises when it cannot go on."""


JITException = Error
SCRIPT_NAMES = tuple((
    "AliasDb AnyType Argument AwaitType Block BoolType ClassType ComplexType DeviceObjType DictType EnumType FloatType"
    " FunctionSchema FutureType Graph InferredType IntType InterfaceType ListType NoneType Node NumberType OptionalType"
    " PyObjectType RRefType StreamObjType StringType SymIntType TensorType TupleType Type UnionType Use Value parse_ir"
    " parse_schema unify_type_list"
).split())
NAMES = (*_refused, "FatalError", "JITException", *SCRIPT_NAMES)


def __getattr__(name: str) -> Any:
    """Graphs and types of scripts: `torch.Graph` is `torch._C.Graph`."""
    if name in SCRIPT_NAMES:
        return late.provided("script core").NAMES[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
