"""How a conformance case is checked: the program runs as it is and captured, and must do the same.

A case is a function and its arguments. Compared are the result, what the program wrote to (arguments, globals, objects
that it can reach), gradients, and exceptions; the captured program runs twice, the second time from the cache. A case
says how many graph breaks it may have (none, mostly).
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import enum
import io
import types
from collections import deque
from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight import nn


@dataclasses.dataclass(frozen=True)
class Case:
    """One construct."""

    name: str
    function: Callable
    args: Callable[[], tuple]
    observe: Callable[[], Any] | None
    breaks: bool
    kwargs: dict[str, Any]
    is_refused: bool = False      # a program that no graph can hold: PyTorch refuses it


CASES: list[Case] = []


def tensors() -> tuple:
    """The arguments of most cases."""
    generator = torch.Generator().manual_seed(7)
    return (torch.randn(3, 4, generator=generator).requires_grad_(),)


def case(name: str, args: Callable[[], tuple] = tensors, observe: Callable[[], Any] | None = None, breaks: bool = False,
         is_refused: bool = False, **kwargs: Any) -> Callable:
    """Register a function as a case."""

    def register(function: Callable) -> Callable:
        CASES.append(Case(name, function, args, observe, breaks or is_refused, kwargs, is_refused))
        return function

    return register


def outcome(function: Callable, args: tuple, kwargs: dict, observe: Callable | None) -> dict[str, Any]:
    """Everything a call does."""
    found: dict[str, Any] = {}
    torch.manual_seed(3)
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            result = function(*args, **kwargs)
        loss = sum((t.sum() for t in leaves(result) if t.requires_grad), torch.zeros(()))
        if loss.requires_grad:
            loss.backward()
        found["result"] = frozen(result)
    except Exception as error:      # noqa: BLE001 - the program's own
        found["exception"] = type(error), [str(a) for a in error.args]
    found["arguments"] = frozen(args)
    found["gradients"] = [frozen(t.grad) for t in leaves(args) if t.is_leaf]
    found["observed"] = frozen(observe()) if observe is not None else None
    found["said"] = said.getvalue()
    found["grad mode"] = torch.is_grad_enabled()
    return found


def leaves(value: Any, seen: set[int] | None = None) -> list[torch.Tensor]:
    """All tensors in a value."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return []
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, nn.Module):
        return [*value.parameters(), *value.buffers()]
    if isinstance(value, dict):
        return [t for v in value.values() for t in leaves(v, seen)]
    if isinstance(value, (list, tuple, deque)):
        return [t for v in value for t in leaves(v, seen)]
    if hasattr(value, "__dict__") and not isinstance(value, (type, types.FunctionType, types.ModuleType, enum.Enum)):
        return leaves(vars(value), seen)
    return []


def frozen(value: Any, seen: dict[int, int] | None = None) -> Any:
    """A value as something that can be compared, with the identity of shared parts."""
    seen = {} if seen is None else seen
    if hasattr(value, "__tensor_flatten__"):
        inner = [frozen(getattr(value, name), seen) for name in value.__tensor_flatten__()[0]]
        return type(value).__name__, value.dtype, tuple(value.shape), value.requires_grad, inner
    if isinstance(value, torch.Tensor):
        own = {k: frozen(v, seen) for k, v in vars(value).items()} if type(value) is not torch.Tensor else {}
        value = value.as_subclass(torch.Tensor) if (name := type(value).__name__) != "Tensor" else value
        return name, own, value.dtype, tuple(value.shape), value.requires_grad, value.detach().clone()
    if isinstance(value, (int, float, str, bytes, complex, bool, type(None), type, enum.Enum, torch.dtype,
                          torch.device, range)):
        return type(value).__name__, value
    if id(value) in seen:
        return "again", seen[id(value)]
    seen[id(value)] = len(seen)
    seen.setdefault(-id(value), value)      # type: ignore[arg-type] - ids must stay theirs
    if isinstance(value, dict):
        inner = [(frozen(k, seen), frozen(v, seen)) for k, v in dict.items(value)]
    elif isinstance(value, (set, frozenset)):
        inner = sorted(map(repr, value))
    elif isinstance(value, (list, tuple, deque)):
        inner = [frozen(v, seen) for v in value]
    elif isinstance(value, (types.FunctionType, types.BuiltinFunctionType, types.ModuleType)):
        return type(value).__name__, value.__name__
    elif isinstance(value, types.MethodType):
        inner = [value.__func__.__name__, frozen(value.__self__, seen)]
    elif isinstance(value, nn.Module):
        inner = [frozen(value.training), frozen(dict(value.named_parameters()), seen),
                 frozen(dict(value.named_buffers()), seen),
                 frozen({k: v for k, v in vars(value).items() if not k.startswith("_")}, seen)]
    elif isinstance(value, BaseException):
        inner = [str(a) for a in value.args]
    else:
        inner = frozen(getattr(value, "__dict__", repr(type(value))), seen)
    if isinstance(value, (dict, list, tuple)) and getattr(value, "__dict__", None):
        inner = [inner, frozen(vars(value), seen)]
    return type(value).__name__, inner


def assert_same(now: Any, expected: Any, path: str) -> None:
    """Compare two frozen values."""
    if isinstance(expected, torch.Tensor):
        assert isinstance(now, torch.Tensor), f"{path}: {now!r}"
        torch.testing.assert_close(now, expected, msg=lambda m: f"{path}: {m}")
    elif isinstance(expected, dict):
        assert set(now) == set(expected), f"{path}: {now} and {expected}"
        for key in expected:
            assert_same(now[key], expected[key], f"{path}.{key}")
    elif isinstance(expected, (list, tuple)):
        assert type(now) is type(expected) and len(now) == len(expected), f"{path}: {now!r} and {expected!r}"
        for i, (a, b) in enumerate(zip(now, expected, strict=True)):
            assert_same(a, b, f"{path}[{i}]")
    else:
        assert now == expected or (now != now and expected != expected), f"{path}: {now!r}, expected {expected!r}"


def fresh(one: Case) -> tuple[tuple, dict]:
    """Arguments of their own for a run."""
    torch.manual_seed(11)
    return one.args(), copy.deepcopy(one.kwargs)
