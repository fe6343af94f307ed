"""Attributes, as Python finds them, of twins and of objects that the captured program made.

Enters: an object and a name. Leaves: what Python would give: properties and descriptors written in Python run in the
interpreter, values held by classes and modules are admitted from there. Refuses (breaks the graph): attributes of
objects that cannot be looked into, writes to classes, modules and tensors.
"""

from __future__ import annotations

import enum
import functools
import sys
import types
from typing import Any

from ..._C import Tensor
from ...aten.namespaces import OpNamespace, OpOverloadPacket
from ...fake import FakeTensor
from ...nn import Buffer, Module, Parameter
from ...symbols import SymBool, SymFloat, SymInt
from ..record.breaks import GraphBreak, Raised, StepsInside, shown
from ..record.machine import Machine
from .guards import Kind
from .locks import KINDS as LOCKS
from .outside import Outside, Twin, dict_of, has_dict, is_python_class
from .sources import Attribute, ClassAttribute, Constant

MISSING = object()
_STABLE = frozenset(sys.stdlib_module_names) | {"rushlight", "torch", "numpy"}
_SAME_EVERYWHERE = ("math", "cmath", "string")      # modules whose constants no process has otherwise
SYMBOLS = (SymInt, SymFloat, SymBool)
_HEAP = 512      # the flag of classes that are made by programs
_VALUES = (tuple, str, int, float, bytes, frozenset)      # built-in values that programs make classes of


def is_stable(module: str | None) -> bool:
    """Whether a module's functions and classes are taken not to change."""
    return module is not None and module.partition(".")[0] in _STABLE


def on_class(kind: type, name: str) -> Any:
    """What the class or its bases hold under a name, unbound; MISSING where there is nothing."""
    for one in kind.__mro__:
        found = one.__dict__.get(name, MISSING)
        if found is not MISSING:
            return found
    return MISSING


def holder(kind: type, name: str) -> type:
    """The class of the mro that holds a name."""
    return next(one for one in kind.__mro__ if name in one.__dict__)


def python_method(value: Any, name: str) -> bool:
    """Whether a special method of an object is written in Python by somebody else than this framework."""
    found = on_class(type(value), name)
    return isinstance(found, types.FunctionType) and not isinstance(value, (Tensor, *SYMBOLS))


class Attributes(Machine):
    """The part of the machine that looks into objects."""

    outside: Outside

    def twin_of(self, owner: Any) -> Twin | None:
        return self.outside.by_twin.get(id(owner))

    # --- reading ------------------------------------------------------------------------------------------------------

    def load_attr(self, owner: Any, name: str) -> Any:
        """owner.name"""
        kind = type(owner)
        if isinstance(owner, Tensor):
            return self.tensor_attr(owner, name)
        if kind is types.ModuleType:
            return self.module_attr(owner, name)
        if isinstance(owner, type):
            return self.class_attr(owner, name)
        if kind is super:
            return self.super_attr(owner, name)
        if kind is types.FunctionType or kind is types.MethodType:
            return self.function_attr(owner, name)
        if kind is OpNamespace or kind is OpOverloadPacket:      # what they have of a name does not change
            return getattr(self.as_outside(owner), name)
        if name == "__traceback__" and isinstance(owner, BaseException):
            raise GraphBreak("not modelled", "a traceback shows frames that did not run")
        if not is_python_class(kind) and not isinstance(owner, (BaseException, enum.Enum)):
            known = self.twin_of(owner)
            if known is not None and known.is_closed and not isinstance(owner, (types.ModuleType, *LOCKS)):
                raise GraphBreak("opaque object", f"{known.source} is a {kind.__qualname__}, asked for .{name}")
            if not kind.__flags__ & _HEAP or not issubclass(kind, _VALUES):
                return self.native(getattr, (owner, name))
        return self.object_attr(owner, kind, name)

    def object_attr(self, owner: Any, kind: type, name: str) -> Any:
        getter = on_class(kind, "__getattribute__")
        if isinstance(getter, types.FunctionType):
            return self.call(getter, (owner, name), {})
        try:
            return self.plain_attr(owner, kind, name)
        except Raised as raised:
            fallback = on_class(kind, "__getattr__")
            if not isinstance(raised.exception, AttributeError) or fallback is MISSING:
                raise
        if fallback is Module.__getattr__:
            return self.registered(owner, kind, name)
        return self.call(fallback, (owner, name), {})

    def plain_attr(self, owner: Any, kind: type, name: str) -> Any:
        """As object.__getattribute__ finds it."""
        known = self.twin_of(owner)
        if known is not None and name == "state" and id(dict_of(known.real).get(name)) in self.optimizer_steps.kept:
            raise StepsInside
        found = on_class(kind, name)
        if found is not MISSING and is_data_descriptor(found):
            return self.from_descriptor(owner, kind, name, found, known)
        if known is not None and known.kind == "object" and has_dict(owner):
            if self.outside.has_own(known, name):
                return self.outside.attribute(known, name)
        else:
            own = dict_of(owner)
            if name in own:
                return own[name]
        if found is MISSING:
            raise Raised(AttributeError(f"'{kind.__name__}' object has no attribute '{name}'", name=name, obj=owner))
        return self.from_descriptor(owner, kind, name, found, known)

    def from_descriptor(self, owner: Any, kind: type, name: str, found: Any, known: Twin | None) -> Any:
        """What something that a class holds gives for an object of it."""
        what = type(found)
        if what in (types.FunctionType, property, classmethod, staticmethod):
            self.guard_class(kind, name, found)
        if what is types.FunctionType:
            return types.MethodType(found, owner)
        if what is property:
            if found.fget is None:
                raise Raised(AttributeError(f"property '{name}' of '{kind.__name__}' object has no getter"))
            return self.call(found.fget, (owner,), {})
        if what is classmethod:
            return self.bound(found.__func__, kind)
        if what is staticmethod:
            return found.__func__
        if what is functools.cached_property:
            return self.cached(owner, name, found)
        if what is types.MemberDescriptorType:
            return self.slot(owner, name, found, known)
        if what is types.GetSetDescriptorType and name == "__dict__":
            return self.own_dict(owner)
        if what in (types.GetSetDescriptorType, types.WrapperDescriptorType, types.MethodDescriptorType,
                    types.ClassMethodDescriptorType, types.BuiltinFunctionType):
            return self.native(found.__get__, (owner, kind))
        if isinstance(owner, enum.Enum) and what is enum.property:
            return self.native(getattr, (owner, name))
        get = on_class(what, "__get__")
        if isinstance(get, types.FunctionType):
            admitted = self.class_value(kind, name, found)
            return self.call(get, (admitted, owner, kind), {})
        if get is not MISSING:
            return self.native(getattr, (owner, name))
        return self.class_value(kind, name, found)

    def guard_class(self, kind: type, name: str, found: Any) -> None:
        """That a class still has this method."""
        if not is_stable(kind.__module__) and id(kind) not in self.own_classes:
            self.outside.guard(Kind.ID_IS, ClassAttribute(Constant(kind, kind.__qualname__), name), found)

    def own_dict(self, owner: Any) -> dict[str, Any]:
        """The attributes that an object itself holds, all of them."""
        known = self.twin_of(owner)
        if known is not None:
            self.outside.fill(known)
        return dict_of(owner)

    def bound(self, function: Any, owner: Any) -> Any:
        """A function as a method, where it can be one."""
        return types.MethodType(function, owner)

    def cached(self, owner: Any, name: str, found: functools.cached_property) -> Any:
        value = self.call(found.func, (owner,), {})
        dict_of(owner)[name] = value
        return value

    def slot(self, owner: Any, name: str, found: Any, known: Twin | None) -> Any:
        try:
            return found.__get__(owner)
        except AttributeError as error:
            if known is None or known.kind != "object" or name in known.deleted:
                raise Raised(error) from None
        try:
            value = found.__get__(known.real)
        except AttributeError as error:
            raise Raised(error) from None
        twin = known.read[name] = self.outside.admit(value, Attribute(known.source, name))
        found.__set__(owner, twin)
        return twin

    def registered(self, owner: Any, kind: type, name: str) -> Any:
        """Parameters, buffers and submodules of a module."""
        known = self.twin_of(owner)
        try:
            if known is not None:
                return self.outside.registered(known, name)
            for table in ("_parameters", "_buffers", "_modules"):
                if name in dict_of(owner).get(table, ()):
                    return dict_of(owner)[table][name]
        except KeyError:
            pass
        raise Raised(AttributeError(f"'{kind.__name__}' object has no attribute '{name}'", name=name, obj=owner))

    def class_value(self, kind: type, name: str, found: Any) -> Any:
        """Something that a class holds."""
        owner = holder(kind, name)
        if isinstance(found, types.FunctionType) or is_stable(owner.__module__) or id(owner) in self.own_classes:
            return found
        return self.outside.admit(found, Attribute(Constant(owner, owner.__qualname__), name))

    def class_attr(self, owner: type, name: str) -> Any:
        known = on_class(type(owner), name)
        if known is not MISSING and is_data_descriptor(known):
            if isinstance(known, property):
                return self.call(known.fget, (owner,), {})
            return self.native(getattr, (owner, name))
        if isinstance(owner, enum.EnumMeta):
            return self.native(getattr, (owner, name))
        found = on_class(owner, name)
        if found is MISSING:
            return self.native(getattr, (owner, name))
        what = type(found)
        if what is types.FunctionType:
            return found
        if what is staticmethod:
            return found.__func__
        if what is classmethod:
            return types.MethodType(found.__func__, owner)
        get = on_class(what, "__get__")
        if isinstance(get, types.FunctionType):
            return self.call(get, (found, None, owner), {})
        if get is not MISSING:
            return self.native(getattr, (owner, name))
        return self.class_value(owner, name, found)

    def super_attr(self, owner: super, name: str) -> Any:
        start, this, kind = owner.__thisclass__, owner.__self__, owner.__self_class__  # type: ignore[attr-defined]
        mro = kind.__mro__
        for one in mro[mro.index(start) + 1:]:
            if name in one.__dict__:
                found = one.__dict__[name]
                if this is kind:
                    return self.from_super_class(one, this, found, name)
                if type(found) is property:
                    return self.call(found.fget, (this,), {})
                if type(found) is types.FunctionType:
                    return types.MethodType(found, this)
                if type(found) is classmethod:
                    return types.MethodType(found.__func__, kind)
                if type(found) is staticmethod:
                    return found.__func__
                if name in ("__getattribute__", "__setattr__", "__delattr__"):
                    return functools.partial(found, this)       # rules of ours, on the object itself
                if hasattr(type(found), "__get__"):
                    return self.native(found.__get__, (this, kind))
                return self.class_value(one, name, found)
        return self.native(getattr, (owner, name))

    def from_super_class(self, one: type, this: type, found: Any, name: str) -> Any:
        if type(found) is classmethod:
            return types.MethodType(found.__func__, this)
        if type(found) is staticmethod:
            return found.__func__
        if hasattr(type(found), "__get__") and type(found) is not types.FunctionType:
            return self.native(found.__get__, (None, this))
        return found if type(found) is types.FunctionType else self.class_value(one, name, found)

    def module_attr(self, owner: types.ModuleType, name: str) -> Any:
        value = self.native(getattr, (owner, name))
        written = self.scope_writes(owner.__dict__)
        if name in written:
            return written[name]
        if isinstance(value, types.ModuleType):
            return value
        if is_stable(owner.__name__) and not isinstance(value, (list, dict, set, Tensor)):
            if owner.__name__ not in _SAME_EVERYWHERE and not callable(value):
                self.outside.taken.append(Constant(value, f"{owner.__name__}.{name}"))
            return value
        return self.outside.admit(value, Attribute(Constant(owner, owner.__name__), name))

    def function_attr(self, owner: Any, name: str) -> Any:
        known = self.twin_of(owner)
        if name in ("__name__", "__qualname__", "__module__", "__code__", "__doc__", "__func__", "__self__",
                    "__wrapped__", "__class__", "__call__", "__get__", "__globals__") or known is None:
            if name == "__globals__":
                raise GraphBreak("opaque object", "the globals of a function are looked at as a dict")
            return self.native(getattr, (owner, name))
        value = self.native(getattr, (known.real, name))
        if type(owner) is types.MethodType:
            return value if isinstance(value, types.FunctionType) else self.outside.admit(
                value, Attribute(Constant(owner.__func__), name))
        return self.outside.admit(value, Attribute(known.source, name))

    # --- tensors ------------------------------------------------------------------------------------------------------

    def tensor_attr(self, owner: Tensor, name: str) -> Any:
        if name == "__class__":
            return self.class_of(owner)
        if self.has_classes:
            found = self.load_of_class(owner, name)
            if found is not MISSING:
                return found
        if name == "data":
            return self.recorder.call(_data, (owner,), {})
        if name in ("grad", "grad_fn", "_grad", "_base", "_backward_hooks", "__dict__", "_grad_fn"):
            return self.grad_attr(owner, name)
        known = self.twin_of(owner)
        if known is not None and not hasattr(type(known.real), name) and name in getattr(known.real, "__dict__", {}):
            return self.outside.admit(known.real.__dict__[name], Attribute(known.source, name))
        value = self.native(getattr, (owner, name))
        if isinstance(value, Tensor) and id(value) not in self.recorder.nodes:
            raise GraphBreak("unknown tensor", f"the attribute {name} of a tensor")
        return value

    def grad_attr(self, owner: Tensor, name: str) -> Any:
        if name == "grad":
            return self.gradients.read(self, owner)
        if name == "grad_fn" and not owner.requires_grad:
            return None
        raise GraphBreak("not modelled", f"the attribute {name} of a tensor")

    def class_of(self, value: Any) -> type:
        """type(value), for the program."""
        if isinstance(value, FakeTensor):
            given = self.classes.of.get(id(value))
            if given is not None:
                return given
            known = self.twin_of(value)
            return Tensor if known is None else type(known.real)
        if type(value).__name__ == "Array" and hasattr(value, "is_scalar"):
            return value.dtype.type if value.is_scalar else type(value).__mro__[1]
        if isinstance(value, SYMBOLS):
            return {SymInt: int, SymFloat: float, SymBool: bool}[type(value)]
        return type(value)

    # --- writing ------------------------------------------------------------------------------------------------------

    def store_attr(self, owner: Any, name: str, value: Any) -> None:
        """owner.name = value"""
        kind = type(owner)
        if isinstance(owner, Tensor):
            return self.store_tensor_attr(owner, name, value)
        known = self.twin_of(owner)
        is_shared = known is not None and known.kind in ("opaque", "itself", "function")
        if id(owner) in self.own_classes:
            self.native(type.__setattr__, (owner, name, value))
            return None
        if isinstance(owner, (type, types.ModuleType)) or is_shared:
            raise GraphBreak("mutation", f"the attribute {name} of {shown(owner)} is written to")
        setter = on_class(kind, "__setattr__")
        if setter is Module.__setattr__:
            return self.store_module_attr(owner, name, value)
        if isinstance(setter, types.FunctionType):
            return self.call(setter, (owner, name, value), {})
        if setter is not object.__setattr__ and isinstance(owner, dict):      # such as dict.__setitem__
            return self.native(setter, (owner, name, value))
        self.plain_store(owner, name, value)
        return None

    def plain_store(self, owner: Any, name: str, value: Any) -> None:
        """As object.__setattr__ writes."""
        kind = type(owner)
        found = on_class(kind, name)
        known = self.twin_of(owner)
        if found is not MISSING and is_data_descriptor(found):
            if type(found) is property:
                if found.fset is None:
                    raise Raised(AttributeError(f"property '{name}' of '{kind.__name__}' object has no setter"))
                self.call(found.fset, (owner, value), {})
                return
            put = on_class(type(found), "__set__")
            if isinstance(put, types.FunctionType):
                self.call(put, (found, owner, value), {})
                return
            if type(found) is not types.MemberDescriptorType:
                if name in ("__class__", "__dict__"):
                    raise GraphBreak("mutation", f"{name} of an object is written to")
        if known is not None:
            known.deleted.discard(name)
        self.native(object.__setattr__ if not isinstance(owner, BaseException) else setattr, (owner, name, value))

    def store_module_attr(self, owner: Any, name: str, value: Any) -> None:
        """Plain values of modules; what has to be registered goes the module's own way."""
        known = self.twin_of(owner)
        tables = [t for t in ("_parameters", "_buffers", "_modules")
                  if name in (dict_of(known.real if known is not None else owner).get(t) or ())
                  or name in (dict_of(owner).get(t) or ())]
        kind = self.class_of(value)
        if not tables and not issubclass(kind, (Parameter, Buffer, Module)):
            self.plain_store(owner, name, value)
            return
        if tables == ["_buffers"] and (value is None or isinstance(value, Tensor)) and not issubclass(kind, Buffer):
            self.load_attr(owner, "_buffers")[name] = value
            return
        self.call(Module.__setattr__, (owner, name, value), {})

    def store_tensor_attr(self, owner: Tensor, name: str, value: Any) -> None:
        if name == "data" and isinstance(value, Tensor):
            raise GraphBreak("mutation", "the data of a tensor is exchanged")
        if name == "grad":
            self.gradients.write(self, owner, value)
            return
        self.has_classes = True
        self.store_of_class(owner, name, value)

    def delete_attr(self, owner: Any, name: str) -> None:
        """del owner.name"""
        kind = type(owner)
        remover = on_class(kind, "__delattr__")
        if not is_python_class(kind):
            raise GraphBreak("mutation", f"the attribute {name} of {shown(owner)} is deleted")
        if isinstance(remover, types.FunctionType) and remover is not Module.__delattr__:
            self.call(remover, (owner, name), {})
            return
        self.plain_delete(owner, name)

    def plain_delete(self, owner: Any, name: str) -> None:
        """As object.__delattr__ does."""
        known = self.twin_of(owner)
        self.plain_attr(owner, type(owner), name)      # the error, where there is none
        if known is not None:
            known.deleted.add(name)
            known.read.setdefault(name, MISSING)
        self.native(object.__delattr__, (owner, name))


def is_data_descriptor(found: Any) -> bool:
    """Whether something that a class holds goes before what the object holds."""
    kind = type(found)
    return hasattr(kind, "__set__") or hasattr(kind, "__delete__")


def _data(t: Tensor) -> Tensor:
    """t.data: the same memory, without history."""
    return t.detach()


