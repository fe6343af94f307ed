"""Calls as PyTorch records them: which opcode, which target, and which arguments by name.

Enters: a function or op that met a proxy, with its arguments. Leaves: what to put in the node. PyTorch's functions
written in Python (`nn.functional.relu`, `torch.functional.split`) hand on every argument with a default by name;
built-in ones (`torch.relu`) hand on what they were given. Ops here carry both signatures,
so the long form is derived from them.
"""

from __future__ import annotations

from typing import Any

from .. import _C
from ..aten.namespaces import QUANTIZED, namespace
from ..nn import functional
from .spelling import is_method_of_tensor, op_name

_METHODS_IN_FUNCTIONAL = frozenset(("sigmoid", "tanh"))     # nn.functional's versions call the method of their input
_UPSAMPLING = {
    "upsample": {},
    "upsample_nearest": {"mode": "nearest"},
    "upsample_bilinear": {"mode": "bilinear", "align_corners": True},
}
# parameters that PyTorch's function does not hand on
_NOT_IN_PYTHON = {"layer_norm": ("cudnn_enable",), "group_norm": ("cudnn_enabled",), "l1_loss": ("weight",)}
# where PyTorch's function has `out`: before which parameter
_OUT_IN_PYTHON = {"normalize": None, "tensordot": None, "norm": "dtype"}


def as_recorded(func: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[str, Any, tuple, dict[str, Any]]:
    """Opcode, target, args and kwargs of the node for a call of `func`."""
    if is_method_of_tensor(func):
        return "call_method", func.__name__, args, kwargs
    if not isinstance(func, _C.Op):
        return "call_function", func, args, kwargs
    name = op_name(func)
    module, _, last = name.rpartition(".")
    space = module.removeprefix("torch.ops.")
    if space in QUANTIZED:      # programs call, and compare with, the op of all overloads
        return "call_function", getattr(namespace(space), last), args, kwargs
    if module not in ("torch.nn.functional", "torch.functional"):
        return "call_function", func, args, kwargs
    if module == "torch.nn.functional" and last in _METHODS_IN_FUNCTIONAL:
        return "call_method", last, args, kwargs
    if last in _UPSAMPLING:
        func, kwargs = functional.interpolate, {**kwargs, **_UPSAMPLING[last]}
        last = "interpolate"
    return ("call_function", func, *long_form(func, last, args, kwargs))


def long_form(func: Any, name: str, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """Required parameters by position, all others by name."""
    left_out = _NOT_IN_PYTHON.get(name, ())
    for overload in sorted(func.overload_list, key=lambda o: -sum(not p.required for p in o.definition.spec.params)):
        params = overload.definition.spec.params
        if overload.definition.spread:
            return args, {**{p.name: p.default for p in params if p.keyword_only and not p.required}, **kwargs}
        positional = [p for p in params if not p.keyword_only]
        names = {p.name for p in params}
        if len(args) > len(positional) or any(k not in names for k in kwargs):
            continue
        given = {**dict(zip((p.name for p in positional), args, strict=False)), **kwargs}
        if any(p.required and p.name not in given for p in params):
            continue
        required = tuple(given[p.name] for p in positional if p.required)
        others = {
            p.name: given.get(p.name, p.default)
            for p in params
            if not p.required and (p.name not in left_out or p.name in given)
        }
        others.update({p.name: given[p.name] for p in params if p.required and p.keyword_only})
        return required, _with_out(name, others)
    return args, kwargs


def _with_out(name: str, kwargs: dict[str, Any]) -> dict[str, Any]:
    """`out` where PyTorch's function lists it."""
    if name not in _OUT_IN_PYTHON:
        return kwargs
    result: dict[str, Any] = {}
    for key, value in kwargs.items():
        if key == _OUT_IN_PYTHON[name]:
            result["out"] = None
        result[key] = value
    result.setdefault("out", None)
    return result
