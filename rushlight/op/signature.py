"""`inspect.signature` of an op: one signature that every call of it fits, from the schemas of its overloads.

Enters: an op. Leaves: an `inspect.Signature` of the overload with the most parameters, in which only what every
overload requires is required. `inspect` is imported when somebody asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _C

if TYPE_CHECKING:
    from inspect import Signature

ANNOTATIONS = {"Tensor": "Tensor", "Tensor[]": "Sequence[Tensor]", "Tensor|Scalar": "Tensor | Number",
               "Scalar": "Number", "int": "int", "SymInt": "int", "int[]": "int | Sequence[int]",
               "SymInt[]": "int | Sequence[int]", "float": "float", "bool": "bool", "str": "str", "dtype": "dtype",
               "device": "device"}


def signature_of(op: _C.Op | _C.Overload) -> Signature:
    """What `inspect.signature(op)` answers."""
    from inspect import Parameter, Signature
    from keyword import iskeyword

    overloads = op.overload_list if isinstance(op, _C.Op) else [op]
    specs = [overload.definition.spec for overload in overloads]
    longest = max(specs, key=lambda spec: len(spec.params))
    required = set.intersection(*({param.name for param in spec.params if param.required} for spec in specs))
    results: list[Parameter] = []
    for param in longest.params:
        kind = Parameter.KEYWORD_ONLY if param.keyword_only else Parameter.POSITIONAL_OR_KEYWORD
        before = [other for other in results if other.kind is kind]
        is_optional = param.name not in required or (
            kind is Parameter.POSITIONAL_OR_KEYWORD and any(other.default is not Parameter.empty for other in before)
        )
        default = (None if param.required else param.default) if is_optional else Parameter.empty
        annotation = ANNOTATIONS.get(param.type.removesuffix("?"), "Any") + (
            " | None" if param.type.endswith("?") else ""
        )
        if default is None and param.required and not annotation.endswith("None"):
            annotation += " | None"
        # `from` can only be given by position, or as **{"from": 0}
        name = param.name + "_" if iskeyword(param.name) else param.name
        results.append(Parameter(name, kind, default=default, annotation=annotation))
    takes_out = any(
        type(overload.definition).out for overload in overloads if hasattr(type(overload.definition), "out")
    )
    if takes_out and "out" not in {param.name for param in results}:
        results.append(Parameter("out", Parameter.KEYWORD_ONLY, default=None, annotation="Tensor | None"))
    returns = {spec.returns for spec in specs}
    result = "Tensor" if returns == {("Tensor",)} else "Any"
    return Signature(results, return_annotation=result)
