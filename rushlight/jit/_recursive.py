"""Scripted modules: from a Python module to the compiled object, and the Python module around an object.

Enters: an `nn.Module`, or an `Object`. Leaves: a `RecursiveScriptModule` whose tables are views of the object's slots,
with the methods that stay Python bound to it.
"""

from __future__ import annotations

import weakref
from typing import Any

from ..nn import Module
from ..script.classes import Object
from ..script.modules.building import left_to_python, object_of, type_of
from ._handles import ModuleHandle, ModuleView, SlotView
from ._script import RecursiveScriptModule

_faces: weakref.WeakKeyDictionary[Object, weakref.ref] = weakref.WeakKeyDictionary()


def script_module(module: Module) -> RecursiveScriptModule:
    """A module compiled, all its submodules with it."""
    return face_of(object_of(module), module)


def script_instance(module: Module, methods: dict[str, Any]) -> RecursiveScriptModule:
    """An instance of a ScriptModule subclass compiled: the methods that are marked, and those given as text."""
    made = face_of(object_of(module, methods=methods or None), module)
    for text in module.__dict__.get("_defined_texts", ()):
        made.define(text)
    return made


def face_of(held: Object, original: Module | None = None) -> RecursiveScriptModule:
    """The Python module around an object; `original` is the module it was made from."""
    known = _faces.get(held)
    found = known() if known is not None else None
    if found is None:
        found = wrapped(ModuleHandle(held), original)
        _faces[held] = weakref.ref(found)
    return found


def wrapped(handle: ModuleHandle, original: Module | None = None) -> RecursiveScriptModule:
    """A new Python module around a handle."""
    held = handle.object
    made = RecursiveScriptModule(handle)
    own = made.__dict__
    children = getattr(original, "_modules", None) if original is not None else None

    def around(inner: Object) -> Any:
        name = next((slot.name for slot, value in held.items() if value is inner), "")
        return face_of(inner, children.get(name) if children is not None else None)

    own["_parameters"], own["_buffers"] = SlotView(held, "parameter"), SlotView(held, "buffer")
    own["_modules"] = ModuleView(held, around)
    for name in held.type.methods:
        if not name.startswith("__") and "__" not in name:
            own[name] = handle._get_method(name)
    _keep_python(made, original)
    for hook in held.type.pre_hooks:
        made.register_forward_pre_hook(_Hook(hook, held))
    for hook in held.type.hooks:
        made.register_forward_hook(_Hook(hook, held))
    return made


class _Hook:
    """A compiled hook, called by Python around a module's forward."""

    def __init__(self, function: Any, held: Object) -> None:
        self.function, self.held = function, held

    def __call__(self, module: Any, *args: Any) -> Any:
        return self.function(self.held, *args)


def _keep_python(made: RecursiveScriptModule, original: Module | None) -> None:
    """Methods and attributes that are not compiled, on the scripted module."""
    concrete = made._c.object.type.concrete
    if concrete is None:
        return
    for name, function in left_to_python(concrete.python_class).items():
        made.__dict__[name] = function.__get__(made)
    for name in concrete.ignored if original is not None else ():
        if hasattr(original, name):
            made.__dict__[name] = getattr(original, name)


def copied(module: RecursiveScriptModule, handle: ModuleHandle) -> RecursiveScriptModule:
    """A scripted module around a copy of the object of another, with its Python attributes."""
    made = wrapped(handle)
    for name, value in module.__dict__.items():
        if name not in made.__dict__:
            made.__dict__[name] = value
    _faces[handle.object] = weakref.ref(made)
    return made


__all__ = ["copied", "face_of", "script_instance", "script_module", "type_of", "wrapped"]
