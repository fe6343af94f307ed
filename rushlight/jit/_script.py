"""Scripting as Python: what the decorators return, and the classes that scripted things would have.

Enters: functions, classes and modules. Leaves: the same ones. Refuses: source text to compile,
and what only compiled things have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..base.refusals import reason_of, stand_in
from ..nn import Module

_MISSING = reason_of("torch.jit.ScriptFunction")
ScriptFunction = stand_in("torch.jit", "ScriptFunction")
CompilationUnit = stand_in("torch.jit", "CompilationUnit")
RecursiveScriptClass = stand_in("torch.jit", "RecursiveScriptClass")


class ScriptWarning(Warning):
    """Warnings of the script compiler."""


class Attribute(NamedTuple):
    """A value with the type its attribute shall have in a compiled module."""

    value: Any
    type: Any


class ScriptModule(Module):
    """Base class for modules with script methods; they run as Python."""

    def save(self, f: Any, **kwargs: Any) -> None:
        """Refused: there is no compiled form to save."""
        raise NotImplementedError(
            f"{type(self).__name__}.save: {_MISSING}. Save the weights with torch.save(module.state_dict(), f)."
        )


class RecursiveScriptModule(ScriptModule):
    """What scripting a module would return. Nothing is an instance of it yet."""


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> Any:
    """What it is given: decorated functions, classes and modules run as Python."""
    if isinstance(obj, str):
        raise NotImplementedError(f"jit.script: {_MISSING}, so source text cannot be compiled")
    return obj


def script_method(fn: Callable) -> Callable:
    """A method of a ScriptModule, run as Python."""
    return fn


def script_if_tracing(fn: Callable) -> Callable:
    """A function to compile when first called while tracing; its calls are recorded as Python runs them."""
    return fn


def interface(obj: type) -> type:
    """A class that only names methods."""
    if not isinstance(obj, type):
        raise RuntimeError("interface must be applied to a class")
    obj.__torch_script_interface__ = True  # type: ignore[attr-defined]
    return obj
