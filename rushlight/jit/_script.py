"""jit.script: functions, classes and modules compiled, and the Python classes that scripted things have.

Enters: a function, a class, a module. Leaves: a `ScriptFunction`, the class, a `RecursiveScriptModule`: an `nn.Module`
whose parameters, buffers and submodules are those of the compiled object behind it (`_c`). With PYTORCH_JIT=0
everything is handed back as it came. The compiler itself (`rushlight.script`) is imported when it is first needed.
"""

from __future__ import annotations

import enum
import functools
import inspect
import io
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ..base import environment, late
from ..nn import Module
from .mobile import _save_for_lite_interpreter


class _Enabled:
    """Whether scripting is on: PYTORCH_JIT=0 turns it off."""

    enabled = environment.get("PYTORCH_JIT") != "0"

    def __bool__(self) -> bool:
        return self.enabled


_enabled = _Enabled()


class ScriptWarning(Warning):
    """Warnings of the script compiler."""


class Attribute(NamedTuple):
    """A value with the type its attribute shall have in a compiled module."""

    value: Any
    type: Any


# --- functions --------------------------------------------------------------------------------------------------------


class ScriptFunction:
    """A compiled function."""

    def __init__(self, function: Any, original: Any = None) -> None:
        self.__script_function__ = self.function = function
        self.__doc__ = getattr(original, "__doc__", None)
        self.__name__, self.__qualname__ = "ScriptFunction", "torch.jit.ScriptFunction"
        self._torchdynamo_inline = original
        if original is not None:
            self.__module__ = original.__module__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    @property
    def name(self) -> str:
        return self.function.name

    @property
    def qualified_name(self) -> str:
        return self.function.qualified_name

    @property
    def graph(self) -> Any:
        return self.function.graph

    @property
    def inlined_graph(self) -> Any:
        return _shown(self.function).inlined_graph

    @property
    def schema(self) -> Any:
        return self.function.schema

    @property
    def code(self) -> str:
        return _shown(self.function).code

    def graph_for(self, *args: Any, **kwargs: Any) -> Any:
        """The graph as it runs for these arguments, which are run."""
        self(*args, **kwargs)
        return self.inlined_graph

    def get_debug_state(self) -> Any:
        """What is known of its runs."""
        return _shown(self.function).get_debug_state()

    def _debug_flush_compilation_cache(self) -> None:
        """Make it runnable anew at the next call."""
        self.function._program = None

    def save(self, filename: Any, _extra_files: dict[str, Any] | None = None) -> None:
        """Write an archive that `jit.load` reads."""
        late.provided("script save")(self, filename, _extra_files=_extra_files or {})

    def save_to_buffer(self, _extra_files: dict[str, Any] | None = None) -> bytes:
        """An archive as bytes."""
        return _to_bytes(self, _extra_files)

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle 'torch._C.ScriptFunction' object: save it with torch.jit.save")

    def __get__(self, held: Any, owner: Any = None) -> ScriptFunction:
        return self

    def __repr__(self) -> str:
        return f"<torch.jit.torch.jit.ScriptFunction object at {id(self):#x}>"


def _shown(function: Any) -> Any:
    from ._handles import Compiled

    shown = Compiled()
    shown.function = function
    return shown


def _to_bytes(held: Any, extra_files: dict[str, Any] | None) -> bytes:
    made = io.BytesIO()
    late.provided("script save")(held, made, _extra_files=extra_files or {})
    return made.getvalue()


# --- modules ----------------------------------------------------------------------------------------------------------


class ScriptMethodStub(NamedTuple):
    """A method that `script_method` marked."""

    original_method: Callable


def script_method(fn: Callable) -> Any:
    """Mark a method of a ScriptModule subclass: it is compiled when the module has been made."""
    return ScriptMethodStub(fn) if _enabled else fn


class _Forward:
    """`forward` of a scripted module: the compiled one."""

    def __get__(self, held: Any, owner: Any = None) -> Any:
        return self if held is None else held.__getattr__("forward")


class ScriptMeta(type(Module)):  # type: ignore[misc]
    """Makes subclasses of ScriptModule compile themselves once their `__init__` is through."""

    def __init__(cls, name: str, bases: tuple[type, ...], attributes: dict[str, Any]) -> None:
        stubs: dict[str, Callable] = {}
        for base in reversed(bases):
            stubs.update(getattr(base, "_script_methods", {}))
        for key, held in list(attributes.items()):
            if isinstance(held, ScriptMethodStub):
                delattr(cls, key)
                stubs[held.original_method.__name__] = held.original_method
        cls._script_methods = stubs
        super().__init__(name, bases, attributes)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__call__(*args, **kwargs)
        if not getattr(cls, "_is_scripted_face", False) and cls is not ScriptModule and _enabled and (
                type(made) is cls):
            _script_own(made)
        return made


def _script_own(made: Any) -> None:
    """Compile an instance of a ScriptModule subclass; from then on it hands everything to what came of it."""
    actual = late.provided("script modules").script_instance(made, type(made)._script_methods)
    own = made.__dict__
    for name in (*actual._c.object.type.index, *actual._c.object.type.constants):
        own.pop(name, None)
    for table in ("_parameters", "_buffers", "_modules"):
        own.pop(table, None)
    own["_actual_script_module"] = actual


class ScriptModule(Module, metaclass=ScriptMeta):
    """Base class for modules with script methods."""

    __jit_unused_properties__ = ("code", "code_with_constants", "graph", "inlined_graph", "original_name")
    forward: Any = _Forward()

    def __getattr__(self, name: str) -> Any:
        actual = self.__dict__.get("_actual_script_module")
        if actual is not None:
            return getattr(actual, name)
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        actual = self.__dict__.get("_actual_script_module")
        if actual is not None:
            setattr(actual, name, value)
            return
        if isinstance(value, Attribute):
            self.__dict__.setdefault("__annotations__", {})[name] = value.type
            value = value.value
        super().__setattr__(name, value)

    def define(self, src: str) -> None:
        """Add a method from its text."""
        if "_actual_script_module" in self.__dict__:
            self._actual_script_module.define(src)
            return
        self.__dict__.setdefault("_defined_texts", []).append(src)

    def save(self, f: Any, **kwargs: Any) -> None:
        """Write an archive that `jit.load` reads."""
        late.provided("script save")(self.__dict__.get("_actual_script_module", self), f, **kwargs)

    def save_to_buffer(self, _extra_files: dict[str, Any] | None = None) -> bytes:
        """An archive as bytes."""
        return _to_bytes(self.__dict__.get("_actual_script_module", self), _extra_files)

    _save_for_lite_interpreter = _save_to_buffer_for_lite_interpreter = _save_for_lite_interpreter

    def _replicate_for_data_parallel(self) -> Any:
        return self._actual_script_module._replicate_for_data_parallel()


class RecursiveScriptModule(ScriptModule):
    """A scripted module."""

    _is_scripted_face = True
    _disable_script_meta = True

    def __init__(self, handle: Any) -> None:
        own = self.__dict__
        own["_initializing"] = True
        own["_c"] = handle
        super().__init__()
        own.pop("training", None)
        own["_initializing"] = False

    # --- what is behind it
    @property
    def __script_object__(self) -> Any:
        return self.__dict__["_c"].object

    @property
    def original_name(self) -> str:
        return self._c._type().name()

    @property
    def graph(self) -> Any:
        return self._c._get_method("forward").graph

    @property
    def inlined_graph(self) -> Any:
        return self._c._get_method("forward").inlined_graph

    @property
    def code(self) -> str:
        return self._c._get_method("forward").code

    @property
    def code_with_constants(self) -> Any:
        return self._c._get_method("forward").code_with_constants

    def graph_for(self, *args: Any, **kwargs: Any) -> Any:
        """The graph of forward as it runs for these arguments, which are run."""
        return self.forward.graph_for(*args, **kwargs)

    def get_debug_state(self) -> Any:
        """What is known of forward's runs."""
        return self._c._get_method("forward").get_debug_state()

    def define(self, src: str) -> None:
        """Add a method from its text, whose names mean what they mean to the caller."""
        frame = inspect.currentframe().f_back  # type: ignore[union-attr]
        spaces = (frame.f_locals, frame.f_globals) if frame is not None else ({}, {})
        self._c._define(None, src, _names_in(spaces))

    # --- as a module
    def extra_repr(self) -> str:
        return f"original_name={self.original_name}"

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if "_initializing" not in own:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}': its __init__ did not run")
        if own["_initializing"]:
            return super(ScriptModule, self).__getattr__(name)
        handle = own["_c"]
        held = handle.object
        if name in own["_modules"]:
            return own["_modules"][name]
        if held.has(name):
            return _to_python(held.get(name))
        if name in held.type.properties:
            return held.type.properties[name].getter(held)
        if name in held.type.constants:
            return held.type.constants[name]
        if handle._has_method(name):
            method = handle._get_method(name)
            own[name] = method
            return method
        return super(ScriptModule, self).__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if own.get("_initializing", True):
            super(ScriptModule, self).__setattr__(name, value)
            return
        held = own["_c"].object
        if name in own["_modules"]:
            own["_modules"][name] = value
        elif name in held.type.constants:
            raise RuntimeError(f"Can't set constant '{name}' which has value:{held.type.constants[name]}")
        elif held.has(name):
            own["_c"].setattr(name, getattr(value, "__script_object__", value))
        elif name in held.type.properties and held.type.properties[name].setter is not None:
            held.type.properties[name].setter(held, value)
        else:
            super(ScriptModule, self).__setattr__(name, value)

    def __copy__(self) -> Any:
        return late.provided("script modules").copied(self, self._c.__copy__())

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return late.provided("script modules").copied(self, self._c.__deepcopy__(memo))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._c.__getstate__()

    def forward_magic_method(self, method_name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a special method that was compiled. Refuses those that were not."""
        method = self.__getattr__(method_name) if self._c._has_method(method_name) else None
        if method is None:
            raise NotImplementedError(f"{self.original_name} has no {method_name}")
        return method(*args, **kwargs)

    def __iter__(self) -> Iterator[Any]:
        kind = _kind_of(self)
        if kind == "dict":
            return iter(self._modules.keys())
        if kind == "list":
            return iter(self._modules.values())
        return self.forward_magic_method("__iter__")

    def __getitem__(self, index: Any) -> Any:
        kind = _kind_of(self)
        if kind == "list":
            return list(self._modules.values())[index]
        if kind == "dict":
            return self._modules[index]
        return self.forward_magic_method("__getitem__", index)

    def __len__(self) -> int:
        return self.forward_magic_method("__len__")

    def __contains__(self, key: Any) -> bool:
        return self.forward_magic_method("__contains__", key)

    def __dir__(self) -> list[str]:
        held = self._c.object.type
        names = {*dir(type(self)), *self.__dict__, *held.index, *held.methods}
        return sorted(name for name in names if name and not name[0].isdigit())

    def __bool__(self) -> bool:
        return self.forward_magic_method("__bool__") if self._c._has_method("__bool__") else True

    def _replicate_for_data_parallel(self) -> Any:
        raise RuntimeError("a scripted module cannot be replicated: replicate before scripting")


def _kind_of(module: RecursiveScriptModule) -> str:
    concrete = module._c.object.type.concrete
    return concrete.kind if concrete is not None else ""


def _to_python(held: Any) -> Any:
    """A slot's value as Python gets it: modules as modules, other objects as instances of their class."""
    from ..script.values import outward

    return outward(held)


def _names_in(spaces: tuple[Any, ...]) -> Callable[[str], Any]:
    import builtins

    from ..script.frontend.parsing import NOT_FOUND

    def lookup(name: str) -> Any:
        for space in spaces:
            if name in space:
                return space[name]
        return getattr(builtins, name, NOT_FOUND)

    return lookup


# --- the decorator ----------------------------------------------------------------------------------------------------


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> Any:
    """Compile a function, a class or a module; what is compiled already comes back as it is."""
    if not _enabled:
        return obj
    if optimize is not None:
        warnings.warn("`optimize` does nothing and is deprecated; `with torch.jit.optimized_execution()` is its"
                      " successor",
                      FutureWarning, stacklevel=2)
    if isinstance(obj, (ScriptFunction, ScriptModule)):
        return obj
    if isinstance(obj, Module):
        prepare = getattr(obj, "__prepare_scriptable__", None)
        return late.provided("script modules").script_module(prepare() if prepare is not None else obj)
    if inspect.isclass(obj):
        return _script_class(obj)
    if inspect.isfunction(obj) or inspect.ismethod(obj):
        return _script_function(obj)
    return _script_other(obj)


def _script_function(obj: Any) -> ScriptFunction:
    from ..script.unit import PYTHON

    obj = getattr(obj, "__original_fn", obj)
    held = _cached.get(id(obj))
    if held is None or held[0] is not obj:
        held = (obj, ScriptFunction(PYTHON.compile(obj).ensure(), obj))
        _cached[id(obj)] = held
    return held[1]


_cached: dict[int, tuple[Any, ScriptFunction]] = {}


def _script_class(obj: type) -> type:
    from ..script.user_classes import script_class

    return obj if issubclass(obj, enum.Enum) else script_class(obj)


def _script_other(obj: Any) -> Any:
    return late.provided("script value")(obj)


def script_if_tracing(fn: Callable) -> Callable:
    """A function that is compiled when it is first called while tracing; else it runs as Python."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        is_tracing = late.provided("is tracing")()
        return script(wrapper.__original_fn)(*args, **kwargs) if is_tracing else fn(*args, **kwargs)  # type: ignore

    wrapper.__original_fn = fn  # type: ignore[attr-defined]
    wrapper.__script_if_tracing_wrapper = True  # type: ignore[attr-defined]
    return wrapper


def interface(obj: type) -> type:
    """A class that only names methods."""
    from ..script.user_classes import script_interface

    return script_interface(obj)
