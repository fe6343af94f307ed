"""Signatures of ops, and calls in a normal form: which value is which parameter.

Enters: an op, function or module with arguments. Leaves: the same arguments by position and name, defaults filled in,
in the order of the signature; or signatures and schemas themselves. Refuses: calls that fit several signatures,
unless types say which.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

from .. import _C, nn
from .._C import Tensor
from ..base import homes
from .spelling import op_name

__all__ = [
    "ArgsKwargsPair",
    "check_for_mutable_operation",
    "create_type_hint",
    "get_signature_for_torch_op",
    "normalize_function",
    "normalize_module",
    "type_matches",
]

Number = int | float | bool | complex
_TYPES: dict[str, Any] = {
    "Tensor": Tensor, "Tensor[]": list[Tensor], "Scalar": Number, "int": int, "int[]": list[int], "float": float,
    "float[]": list[float], "bool": bool, "str": str, "dtype": _C.dtype, "device": _C.device,
    "Tensor|Scalar": Tensor | Number, "Any": Any,
}


class ArgsKwargsPair(NamedTuple):
    """Arguments by position and by name."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def _annotation(kind: str) -> Any:
    """A schema's type as Python's."""
    base = _TYPES.get(kind.removesuffix("?"), Any)
    return typing.Optional[base] if kind.endswith("?") and base is not Any else base  # noqa: UP045 - of a value


def _signature(overload: Any) -> inspect.Signature:
    """The signature of one overload."""
    params = []
    for p in overload.definition.spec.params:
        kind = inspect.Parameter.KEYWORD_ONLY if p.keyword_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
        default = inspect.Parameter.empty if p.required else p.default
        params.append(inspect.Parameter(p.name, kind, default=default, annotation=_annotation(p.type)))
    try:
        return inspect.Signature(params)
    except ValueError:   # a required parameter after one with a default: Python cannot say it by position
        at = next(i for i, p in enumerate(params) if p.default is not inspect.Parameter.empty)
        return inspect.Signature([*params[:at], *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in params[at:])])


def _overloads(op: Any) -> list[Any] | None:
    if isinstance(op, _C.Op):
        return op.overload_list
    if isinstance(op, _C.Overload):
        return [op]
    return op.op.overload_list if hasattr(op, "_qualified_op_name") else None


def get_signature_for_torch_op(op: Callable, return_schemas: bool = False) -> Any:
    """The signatures of an op; None for what is no op. With `return_schemas`, also their schemas."""
    overloads = _overloads(op)
    if overloads is None:
        return (None, None) if return_schemas else None
    signatures = [_signature(o) for o in overloads]
    return (signatures, [o.definition.spec for o in overloads]) if return_schemas else signatures


def check_for_mutable_operation(target: Callable, args: tuple, kwargs: dict[str, Any]) -> None:
    """Raise if a call would write to its arguments."""
    overloads = _overloads(target)
    if overloads is None:
        return
    fitting = [o for o in overloads if _binds(_signature(o), args, kwargs)]
    if (fitting and all(o.inplace or any(p.mutated for p in o.definition.spec.params) for o in fitting)) or kwargs.get(
        "out"
    ) is not None:
        raise RuntimeError(f"{fitting[0].definition.spec if fitting else target} writes to its arguments, "
                           "which a functional graph cannot hold (out= included)")


def _binds(signature: inspect.Signature, args: tuple, kwargs: dict[str, Any]) -> bool:
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def create_type_hint(x: Any) -> Any:
    """The type of a list or tuple of types: `(int, int)` is `tuple[int, ...]`."""
    if not isinstance(x, (list, tuple)):
        return x
    container = list if isinstance(x, list) else tuple
    if not x:
        return container[Any] if container is list else tuple[Any, ...]
    common = next((base for base in x if all(_is_subclass(t, base) for t in x)), Any)
    return list[common] if container is list else tuple[common, ...]


def _is_subclass(kind: Any, base: Any) -> bool:
    return kind == base or (inspect.isclass(kind) and inspect.isclass(base) and issubclass(kind, base))


def type_matches(signature_type: Any, argument_type: Any) -> bool:
    """Whether a value of the second type can be passed where the first is expected."""
    if signature_type is argument_type or signature_type in (Any, inspect.Parameter.empty):
        return True
    origin = typing.get_origin(signature_type)
    if origin in (typing.Union, types.UnionType):
        inner = (
            typing.get_args(argument_type)
            if typing.get_origin(argument_type) in (typing.Union, types.UnionType)
            else (argument_type,)
        )
        return all(any(type_matches(c, a) for c in typing.get_args(signature_type)) for a in inner)
    if origin is list:
        element = typing.get_args(signature_type)[0]
        if argument_type is int and element is int:   # one number for every dim
            return True
        if typing.get_origin(argument_type) in (list, tuple):
            return all(a is Ellipsis or type_matches(element, a) for a in typing.get_args(argument_type))
        return False
    if signature_type is float and argument_type is int:
        return True
    if signature_type is argument_type:
        return True
    return (
        inspect.isclass(argument_type) and inspect.isclass(signature_type) and issubclass(argument_type, signature_type)
    )


def normalize_function(target: Callable, args: tuple, kwargs: dict[str, Any] | None = None,
                       arg_types: tuple | None = None, kwarg_types: dict[str, Any] | None = None,
                       normalize_to_only_use_kwargs: bool = False) -> ArgsKwargsPair | None:
    """The arguments of a call of an op (or function of ours) in normal form; None if nothing is known of it."""
    kwargs = kwargs or {}
    signatures = get_signature_for_torch_op(target)
    if signatures is None:
        if not isinstance(target, types.FunctionType) or not homes.is_ours(target.__module__):
            return None
        signatures = [inspect.signature(inspect.unwrap(target))]
    fitting = _without_variants(target, [s for s in signatures if _binds(s, args, kwargs)])
    if len({str(s) for s in fitting}) > 1 and (arg_types is not None or kwarg_types is not None):
        fitting = [s for s in fitting if _types_fit(s, arg_types or (), kwarg_types or {})][:1]
    elif len({tuple(s.parameters) for s in fitting}) > 1:
        shown = "\n".join(map(str, fitting))
        raise RuntimeError(
            f"several schemas of {getattr(target, '__name__', target)} fit these arguments: give their types to "
            f"normalize_arguments(). The schemas:\n{shown}"
        )
    return _normal_form(fitting[0], args, kwargs, normalize_to_only_use_kwargs) if fitting else None


def _without_variants(target: Callable, signatures: list[inspect.Signature]) -> list[inspect.Signature]:
    """Of signatures that differ by further defaults only,
    the longest for nn.functional's functions and the shortest for others."""
    is_functional = isinstance(target, _C.Op) and op_name(target).startswith("torch.nn.functional.")
    ordered = sorted(signatures, key=lambda s: len(s.parameters), reverse=is_functional)
    kept: list[inspect.Signature] = []
    for signature in ordered:
        names = list(signature.parameters)
        if not any(
            names[: len(k.parameters)] == list(k.parameters)[: len(names)] and len(k.parameters) != len(names)
            for k in kept
        ):
            kept.append(signature)
    return kept


def _types_fit(signature: inspect.Signature, arg_types: tuple, kwarg_types: dict[str, Any]) -> bool:
    try:
        bound = signature.bind(*arg_types, **kwarg_types)
    except TypeError:
        return False
    return all(type_matches(signature.parameters[name].annotation, kind) for name, kind in bound.arguments.items())


def normalize_module(
    root: nn.Module,
    target: str,
    args: tuple,
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The same for a call of one of `nn`'s modules."""
    try:
        submodule = root.get_submodule(target)
    except AttributeError as failure:
        raise RuntimeError(
            f"Tried to normalize node with target {target} but root did not have that target!"
        ) from failure
    if getattr(nn, type(submodule).__name__, None) is not type(submodule):
        return None
    return _normal_form(
        inspect.signature(inspect.unwrap(submodule.forward)), args, kwargs or {}, normalize_to_only_use_kwargs
    )


def _normal_form(
    signature: inspect.Signature, args: tuple, kwargs: dict[str, Any], only_kwargs: bool
) -> ArgsKwargsPair | None:
    allowed = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    if any(p.kind not in allowed for p in signature.parameters.values()):
        return None
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    names = list(signature.parameters)
    at = 0 if only_kwargs else len(args)
    return ArgsKwargsPair(tuple(bound.arguments[n] for n in names[:at]), {n: bound.arguments[n] for n in names[at:]})
