"""The machine: symbolic execution of frames on fake tensors and twins.

Enters: a code object, its flat arguments, globals and cells. Leaves: what it returns, with the graph in the recorder,
the guards and twins in `outside`. Python functions are interpreted, call by call; functions of this framework, of
built-in types and of modules known to be pure run as they are. Everything else breaks the graph.
"""

from __future__ import annotations

import builtins
import collections
import dataclasses
import functools
import inspect
import operator
import os
import sys
import types
import typing
import weakref
from collections.abc import Callable
from typing import Any

from ... import _C
from ..._C import Tensor
from ...aten.namespaces import OpOverloadPacket
from ...base.sources import PACKAGE
from ...dispatch.modes import below, state as mode_state
from ...fx._lazy_graph_module import _LazyGraphModule
from ...library import CustomOpDef
from ...nn import Module
from ...op import ops
from ..frames import control
from ..frames.frame import Frame
from ..record import marks
from ..record.breaks import GraphBreak, Raised, StepsInside, WithoutSelect, shown
from ..record.hidden import Origin, names_in, needs
from ..record.machine import Machine
from ..record.recorder import READS, Recorder, read_by, without_modes
from ..rules import (
    arrays,
    checks,
    class_bodies,
    control_flow,
    custom_functions,
    decided,  # noqa: F401 - its rule
    elements,
    function_modes,
    gradients,
    layouts,
    library_rules,
    marked,
    natives,
    optimizers,
    selects,
    subclasses,
    tensor_hooks,  # noqa: F401 - its rule
)
from ..rules.regions import Derivative, Transformed
from ..values import floats, lists, locks
from ..values.attributes import MISSING, on_class, python_method
from ..values.guards import Kind, Predicate
from ..values.operators import Generator, Operators, put_back, unwatched
from ..values.outside import Outside, is_plain_key, is_python_class
from ..values.sources import Attribute, Constant, Item, Source

_PACKAGE = PACKAGE + os.sep
# Parts of this framework that are interpreted: they look into modules or call the program's functions.
_INTERPRETED = tuple(
    _PACKAGE + part
    for part in (
        "nn" + os.sep, "autograd" + os.sep + "grad_mode.py", "amp" + os.sep, "distributions" + os.sep, "optim" + os.sep,
        "utils" + os.sep + "checkpoint.py", "func" + os.sep + "stateless.py",
        "ao" + os.sep, "utils" + os.sep + "_pytree.py", "_higher_order_ops" + os.sep + "associative_scan.py",
        "_higher_order_ops" + os.sep + "wrap.py",
        "compiler" + os.sep + "decorators.py", os.path.join("distributed", "tensor", "_modules.py"),
        os.path.join("distributed", "tensor", "parallel", "style.py"), os.path.join("dynamo", "rules", "stand_ins.py"),
        *(os.path.join("onnx", "importing", part) for part in ("loading.py", "arguments.py", "layers.py",
                                                               "control.py")),
    )
)
_STANDARD = os.path.dirname(os.__file__) + os.sep
_CAPTURE = _PACKAGE + "dynamo" + os.sep
_WRITERS = frozenset(module.__file__ for module in (collections, dataclasses, typing))
_NUMPY = f"{os.sep}numpy{os.sep}"
_OPS = (type(Tensor.add), OpOverloadPacket, CustomOpDef)      # fakes of users' ops are Python, and part of the op
_NATIVE = (_PACKAGE + "nn" + os.sep + "functional", _PACKAGE + "nn" + os.sep + "init.py")
assert control.OPS and control_flow and custom_functions and elements and layouts and optimizers, (
    "instructions, and rules, in their tables")
MOST_FRAMES, MOST_STEPS = 200, 2_000_000
_FUNCTIONS = frozenset((types.FunctionType, types.MethodType, types.BuiltinFunctionType, type))
_DISPATCH = functools.singledispatch(lambda x: x).dispatch.__code__  # type: ignore[attr-defined]
_UNFIT = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE


def _is_import(frame: types.FrameType | None) -> bool:
    """Whether a frame runs because a built-in function imports something: finders of other packages are asked then."""
    while frame is not None and not frame.f_code.co_filename.startswith(_CAPTURE):
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _is_written(frame: types.FrameType | None) -> bool:
    """Whether a frame runs code that Python's library wrote for a class: methods of data classes, named tuples."""
    while frame is not None and frame.f_code.co_filename.startswith(("<string>", "<dataclass")):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename in _WRITERS


def _is_known(file: str) -> bool:
    """Whether code is this framework's, wherever it is installed, or of the standard library."""
    return file.startswith((_PACKAGE, "<frozen")) or (file.startswith(_STANDARD) and "site-packages" not in file)


def _watch(frame: types.FrameType, event: str, arg: Any) -> None:
    """What a built-in function may call while it runs: this framework and the standard library."""
    if event == "call":
        file = frame.f_code.co_filename
        # NumPy works on our arrays, or on none of the program's
        if not _is_known(file) and _NUMPY not in file and not _is_written(frame) and not _is_import(frame):
            raise GraphBreak("python called back", f"a built-in function calls {frame.f_code.co_qualname}")


class Interpreted:
    """A Python function in the hands of a built-in one: calls of it come back to the machine."""

    def __init__(self, machine: Machine, function: Any) -> None:
        self.machine, self.function = machine, function
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            with unwatched():
                return self.machine.call(self.function, args, kwargs)
        except Raised as raised:
            raise raised.exception from raised.exception.__cause__


class Callback(Interpreted):
    """One of our own functions in the hands of a built-in one."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            with unwatched():
                return self.function(*args, **kwargs)
        except Raised as raised:
            raise raised.exception from raised.exception.__cause__


class Interpreter(Operators):
    """One run of the interpreter."""

    def __init__(self, recorder: Recorder, outside: Outside, scope: dict[str, Any], stop_at: int | None) -> None:
        super().__init__(recorder, outside, scope, stop_at)
        self.gradients = gradients.Gradients()
        self.classes = subclasses.TensorClasses()
        self.optimizer_steps = optimizers.Steps()
        self.locks = locks.Locks()
        outside.has_classes = self.note_classes
        recorder.interpose = self.op_called
        outside.where = self.location

    def assume(self, frame: Frame, value: Tensor, at: int) -> bool | None:
        return checks.assumed(self, frame, value, at)

    def suppose(self, frame: Frame, value: Any, at: int) -> bool | None:
        return None if frame.branches.is_repeated(at) else checks.supposed(self, value, frame.code, at)

    def answer(self, question: Any) -> bool | None:
        """What an op is told that asks about a number from elements."""
        frame = self.frames[-1] if self.frames else None
        return None if frame is None else checks.supposed(self, question, frame.code, frame.at - 1)

    def is_error_on_break(self) -> bool:
        """Whether the program wants no breaks where it is now."""
        return bool([marks.here.error_on_break, *self.errors_on_break][-1])

    def choose(self, value: Tensor, yes: Any, no: Any) -> Tensor | None:
        return selects.chosen(self, value, yes, no)

    def join(self, frame: Frame, value: Any, at: int) -> bool:
        return selects.joined(frame, value, at)

    def is_same(self, a: Any, b: Any) -> bool:
        """a is b"""
        for one in self.selected:
            if one.shared and (one.result is a or one.result is b) and isinstance(a, Tensor) and isinstance(b, Tensor):
                raise WithoutSelect(one.place)
        return super().is_same(a, b)

    def op_called(self, function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """An op that somebody calls on tensors of the graph."""
        if self.user_modes:
            return function_modes.seen(self, function, args, kwargs)
        if self.optimizer_steps.taken:
            self.optimizer_steps.check(self, (*args, *kwargs.values()))
        owners = self.overrides(args, kwargs)
        if owners:
            return subclasses.ask(self, function, owners, args, kwargs)
        return self.recorder.call(function, args, kwargs)

    def overrides(self, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
        """Arguments whose classes take calls of ops."""
        return [] if self.classes.off else subclasses.overriding(self, args, kwargs)

    def note_classes(self) -> None:
        self.has_classes = True

    def load_of_class(self, owner: Tensor, name: str) -> Any:
        return subclasses.load(self, owner, name)

    def store_of_class(self, owner: Tensor, name: str, value: Any) -> None:
        subclasses.store(self, owner, name, value)

    def location(self) -> str:
        """The innermost line of the user's own code."""
        for frame in reversed(self.frames):
            if not frame.code.co_filename.startswith(_PACKAGE):
                return frame.line
        return self.frames[-1].line if self.frames else ""

    def stack(self) -> list[tuple[str, int, str]]:
        """The frames of the user's own code: files, lines, names."""
        found = [(f.code.co_filename, f.now.line or f.code.co_firstlineno, f.code.co_qualname) for f in self.frames]
        return [frame for frame in found if not frame[0].startswith(_PACKAGE)]

    def origin(self) -> Origin:
        """The place where the program is now."""
        return Origin(self.steps, len(self.frames), self.location())

    def tick(self, frame: Frame) -> None:
        """Before each instruction of the top frame."""
        if self.steps == self.stop_at:
            raise Stopped
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise GraphBreak("too long", "a loop was unrolled more than two million steps")

    def close(self) -> None:
        """Let go of what was made: frames and functions refer to each other."""
        self.frames.clear()
        self.kept.clear()

    def as_called(self, function: Any) -> Any:
        """A callable of the program, for built-in functions to call."""
        return Interpreted(self, function)

    def own_callback(self, function: Callable) -> Any:
        """A function of ours, for built-in functions to call."""
        return Callback(self, function)

    # --- native code --------------------------------------------------------------------------------------------------

    def native(self, function: Callable, args: tuple, kwargs: dict[str, Any] | None = None,
               is_watched: bool = True) -> Any:
        """Run a function as it is; what it raises is the program's. Python of the program that it would call, unseen by
        the interpreter, breaks the graph."""
        is_op = not is_watched or isinstance(function, _OPS) or any(isinstance(a, Tensor) for a in args)
        before = None if is_op else sys.getprofile()
        try:
            if is_op:
                return function(*args, **(kwargs or {}))
            sys.setprofile(_watch)
            try:
                return function(*args, **(kwargs or {}))
            finally:
                put_back(before)
        except (GraphBreak, Raised, StepsInside, Stopped):
            raise
        except READS as error:
            raise read_by(function, error) from error
        except RecursionError as error:
            raise GraphBreak("internal", "the program recurses too deeply") from error
        except NotImplementedError as error:
            if is_op:      # of fakes, maybe, and not of real tensors
                raise GraphBreak("not modelled", f"{shown(function)}: {error}") from error
            raise Raised(error.with_traceback(None)) from None
        except (Exception, GeneratorExit) as error:      # noqa: BLE001 - the program's own
            names = names_in((*args, kwargs)) if is_op else None
            if names:      # maybe of what stands for the number
                raise needs(f"{shown(function)}: {error}", names) from error
            raise Raised(error.with_traceback(None)) from None

    def wrapped(self, value: Any) -> Any:
        """An argument for native code: functions come back to the machine, the program's iterators can be drawn."""
        if isinstance(value, types.FunctionType) and not self.runs_natively(value):
            return Interpreted(self, value)
        if isinstance(value, types.MethodType) and not self.is_native_method(value):
            return Interpreted(self, value)
        if isinstance(value, functools.partial):
            return Interpreted(self, value)
        return value

    def callback(self, value: Any) -> Any:
        """The same, for arguments that are called: objects may be, too."""
        if is_python_class(type(value)) and python_method(value, "__call__"):
            return Interpreted(self, value)
        return self.wrapped(value)

    def is_native_method(self, value: types.MethodType) -> bool:
        return isinstance(value.__func__, types.FunctionType) and self.runs_natively(value.__func__)

    # --- names --------------------------------------------------------------------------------------------------------

    def scope_writes(self, scope: dict[str, Any]) -> dict[str, Any]:
        return self.writes.get(id(scope), {})

    def load_global(self, frame: Frame, name: str) -> Any:
        scope = frame.scope
        written = self.scope_writes(scope)
        if name in written:
            return written[name]
        if name in scope:
            value = scope[name]
            if value is ops:      # the table of ops stays
                return value
            if isinstance(value, types.ModuleType):
                if not natives.is_ours(scope.get("__name__")):
                    self.outside.guard(natives.ID_IS, frame.global_source(name), value)
                return value
            if natives.is_ours(scope.get("__name__")) and not isinstance(value, (Tensor, list, dict, set, Module)):
                return value
            return self.outside.admit(value, frame.global_source(name))
        found = vars(builtins).get(name, MISSING)
        if found is MISSING:
            raise Raised(NameError(f"name '{name}' is not defined"))
        if not natives.is_ours(scope.get("__name__")):
            self.outside.guard(natives.LACKS_KEY, self.scope_source(scope), name)
        return found

    def scope_source(self, scope: dict[str, Any]) -> Source:
        return Constant(scope, str(scope.get("__name__", "globals")))

    def store_global(self, frame: Frame, name: str, value: Any) -> None:
        self.scopes[id(frame.scope)] = frame.scope
        self.writes.setdefault(id(frame.scope), {})[name] = value

    def import_name(self, frame: Frame, name: str, names: Any, level: int) -> Any:
        """`import name`, for modules that are loaded already."""
        package = frame.scope.get("__package__") or frame.scope.get("__name__", "").rpartition(".")[0]
        full = name
        if level:
            base = package.rsplit(".", level - 1)[0] if level > 1 else package
            full = f"{base}.{name}" if name else base
        if full not in sys.modules:
            raise GraphBreak("native", f"import of {full}, which is not loaded yet")
        return sys.modules[full] if names else sys.modules[full.partition(".")[0] if not level else full]

    def import_from(self, module: Any, name: str) -> Any:
        if not hasattr(module, name) and f"{module.__name__}.{name}" in sys.modules:
            return sys.modules[f"{module.__name__}.{name}"]
        try:
            return self.load_attr(module, name)
        except Raised as raised:
            if isinstance(raised.exception, AttributeError):
                raise Raised(ImportError(f"cannot import name {name!r} from {module.__name__!r}")) from None
            raise

    # --- calls --------------------------------------------------------------------------------------------------------

    def call(self, function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """function(*args, **kwargs)"""
        kind = type(function)
        if kind in _FUNCTIONS or not python_method(function, "__hash__"):      # which would look into a twin
            try:
                rule = natives.SPECIAL.get(function)
                other = marks.substitutes.get(function)
            except TypeError:      # cannot be hashed
                rule = other = None
            if rule is not None:
                return rule(self, function, args, kwargs)
            if other is not None:
                return self.call(other, args, kwargs)
            said = marks.of(function)
            if said is not None:
                return marked.call_marked(self, function, said, args, kwargs)
        if kind is types.FunctionType:
            if (function.__module__ or "").startswith("numpy"):
                return arrays.call(self, function, args, kwargs)
            return self.call_function(function, args, kwargs)
        if kind is types.MethodType:
            if arrays.is_array(function.__self__):
                return arrays.call(self, function, args, kwargs)
            return self.call_method(function, args, kwargs)
        if isinstance(function, type):
            return self.call_class(function, args, kwargs)
        if kind is Transformed or kind is Derivative:
            return function.call(self, args, kwargs)
        if kind is Interpreted:
            return self.call(function.function, args, kwargs)
        if kind is functools.partial:
            return self.call(function.func, (*function.args, *args), {**function.keywords, **kwargs})
        if kind is functools._lru_cache_wrapper:
            return self.call_cached(function, args, kwargs)
        if kind is weakref.ReferenceType:
            return library_rules.referent(self, function)
        if kind is operator.attrgetter:
            return natives.get_attributes(self, function, args)
        if kind is operator.methodcaller and len(args) == 1 and not kwargs:
            return natives.call_named_method(self, function, args[0])
        if arrays.is_numpy(function):
            return arrays.call(self, function, args, kwargs)
        found = on_class(kind, "__call__")
        is_python = isinstance(found, types.FunctionType)
        if natives.is_native(function) and not (is_python and found.__code__.co_filename.startswith(_INTERPRETED)):
            return self.call_native(function, args, kwargs)
        if is_python:
            if found is Module.__call__:
                return self.call_module(function, args, kwargs)
            return self.call(found, (function, *args), kwargs)
        raise GraphBreak("native", f"a call of {shown(function)}, which is not known to be safe")

    def call_cached(self, function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A function whose results are kept: of plain arguments they are what they are; of others it is called."""
        if all(is_plain_key(a) for a in (*args, *kwargs.values())):
            try:
                with without_modes():       # what it keeps is for every later caller: no fake tensors
                    result = function(*args, **kwargs)
            except Exception as error:      # noqa: BLE001 - the program's own
                raise Raised(error.with_traceback(None)) from None
            return self.outside.admit(result, Constant(result, function.__qualname__))
        return self.call(function.__wrapped__, args, kwargs)

    def call_method(self, method: types.MethodType, args: tuple, kwargs: dict[str, Any]) -> Any:
        owner, function = method.__self__, method.__func__
        if natives.is_logger(owner) and getattr(function, "__name__", "") in natives.LOG_METHODS:
            natives.defer(self, method, args, kwargs)
            return None
        if isinstance(owner, Tensor) and isinstance(function, types.FunctionType) \
                and function.__code__.co_filename.startswith(_PACKAGE):
            rule = natives.TENSOR_METHODS.get(function.__name__)
            if rule is not None:
                return rule(self, function, (owner, *args), kwargs)
            natives.check_method(function.__name__)
            return self.native(function, (owner, *map(self.wrapped, args)), kwargs)
        return self.call(function, (owner, *args), kwargs)

    def call_native(self, function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A function that runs as it is, if that is known to be right."""
        owner = getattr(function, "__self__", None)
        if isinstance(owner, locks.KINDS):
            return self.locks.call(owner, function.__name__, args, kwargs)
        if isinstance(owner, type) and function.__name__ == "__call__" and function.__objclass__ is type:
            return self.new_object(owner, args, kwargs)
        if isinstance(owner, Tensor) or (args and isinstance(args[0], Tensor)
                                             and isinstance(function, types.MethodDescriptorType)):
            rule = natives.TENSOR_METHODS.get(function.__name__)
            if rule is not None:
                return rule(self, function, (owner, *args) if isinstance(owner, Tensor) else args, kwargs)
        if type(owner) is list and function.__name__ in ("index", "count", "remove", "sort"):
            found = lists.list_method(self, owner, function.__name__, args, kwargs)
            if found is not MISSING:
                return found
        if type(owner) is str and floats.holds_symbols((args, kwargs)):      # texts of symbols show their names
            args, kwargs = floats.as_numbers(args), floats.as_numbers(kwargs)
        natives.check(self, function, args, kwargs)
        if type(function) is _C.Overload:      # which no mode of functions sees
            return self.record(function, args, kwargs)
        for value in args:
            self.prepare(value)
        if natives.calls_back(function):
            args = tuple(self.wrapped(a) for a in args)
            kwargs = {k: self.callback(v) if k == "key" else self.wrapped(v) for k, v in kwargs.items()}
        return self.native(function, args, kwargs)

    def call_module(self, module: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """module(...): straight to forward where no hooks are."""
        known = self.twin_of(module)
        _LazyGraphModule.force_recompile(module if known is None else known.real)
        if natives.has_hooks(self, module):
            return self.call(self.load_attr(module, "_call_impl"), args, kwargs)
        return self.call(self.load_attr(module, "forward"), args, kwargs)

    def runs_natively(self, function: types.FunctionType) -> bool:
        """Whether a Python function is one of ours that needs no interpreting."""
        file = function.__code__.co_filename
        if not file.startswith(_PACKAGE) or id(function) in self.own:
            return False
        return file.startswith(_NATIVE) or not file.startswith(_INTERPRETED)

    def call_function(self, function: types.FunctionType, args: tuple, kwargs: dict[str, Any]) -> Any:
        code = function.__code__
        if getattr(function, "_torchdynamo_disable", False):
            raise GraphBreak("asked for", f"{shown(function)} is marked to run as it is")
        if "_transform" in function.__dict__:      # vmap(f) and its like, made outside
            return self.call_transformed(function, args, kwargs)
        if library_rules.is_get_logger(function):
            return library_rules.logger(self, function, args, kwargs)
        if code is _DISPATCH and id(function) not in self.own:
            return self.dispatched(function, *args)
        if self.runs_natively(function):
            looked_into = getattr(function, "_looks_into", ())      # places of arguments
            args = tuple(self.as_outside(a) if k in looked_into else a for k, a in enumerate(args))
            self.check_native_function(function, args, kwargs)
            given = tuple(self.wrapped(a) for a in args)
            return self.native(function, given, {k: self.wrapped(v) for k, v in kwargs.items()})
        if code.co_flags & _UNFIT:
            raise GraphBreak("not modelled", f"{code.co_qualname} is a coroutine")
        if len(self.frames) > MOST_FRAMES:
            raise GraphBreak("too long", f"calls are more than {MOST_FRAMES} deep")
        frame = Frame(self, code, function.__globals__, self.bind(function, args, kwargs), self.closure_of(function))
        what, value = frame.run()
        return Generator(self, frame) if what == "generator" else value

    def as_outside(self, value: Any) -> Any:
        """An object from outside as it is, for functions of ours that read of it what does not change."""
        known = self.twin_of(value)
        if known is None or known.kind != "object":
            return value
        self.outside.guard(Kind.ID_IS, known.source, known.real)
        return known.real

    def dispatched(self, dispatch: types.FunctionType, kind: type) -> Any:
        """What `functools.singledispatch` has for a class."""
        found = dispatch(kind)
        self.outside.guard(Kind.PREDICATE, self.source_of(dispatch), Predicate(
            lambda now: now(kind) is found, f"the function registered for {kind.__name__}"))
        return found

    def call_transformed(self, function: types.FunctionType, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A call of what a transform returned; its closure holds what the transform was given."""
        transform, names = function._transform, function.__code__.co_freevars
        own = transform.__code__.co_varnames[:transform.__code__.co_argcount + transform.__code__.co_kwonlyargcount]
        cells = zip(names, self.closure_of(function), strict=True)
        given = {name: cell.cell_contents for name, cell in cells if name in own}
        return Transformed(transform, given.pop("func"), (), given).call(self, args, kwargs)

    def check_context(self, kind: type) -> None:
        """Contexts of ours that are not interpreted change more than a graph shows."""
        enter = on_class(kind, "__enter__")
        if isinstance(enter, types.FunctionType) and enter.__module__ not in natives.ENTERED \
                and enter not in natives.SPECIAL and self.runs_natively(enter):
            raise GraphBreak("native", f"{shown(kind)} changes what calls inside of its block do")

    def check_native_function(self, function: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        """Functions of ours get tensors and plain values; others may be looked into without guards."""
        if function.__module__.startswith(natives.CALLS_BACK) and any(map(callable, (*args, *kwargs.values()))):
            raise GraphBreak("not modelled", f"{shown(function)} calls functions of the program")
        if function.__name__ == "__enter__":
            self.check_context(type(args[0]))
        if natives.changes_state(function):
            raise GraphBreak("native", f"{shown(function)} changes a state that is not of the graph")
        for value in (*args, *kwargs.values()):
            known = self.twin_of(value)
            if known is not None and known.kind == "object":
                raise GraphBreak("not modelled", f"{shown(function)} looks into {known.source}")

    def own_function(self, function: types.FunctionType) -> types.FunctionType:
        """Note a function that the program made."""
        self.own.add(id(function))
        self.kept.append(function)
        return function

    def source_of(self, function: types.FunctionType) -> Source:
        known = self.twin_of(function)
        return Constant(function, function.__qualname__) if known is None else known.source

    def closure_of(self, function: types.FunctionType) -> tuple[types.CellType, ...]:
        cells = function.__closure__ or ()
        if id(function) in self.own or not cells:
            return cells
        base = Attribute(self.source_of(function), "__closure__")
        return tuple(self.outside.cell(cell, Item(base, i)) for i, cell in enumerate(cells))

    def bind(self, function: types.FunctionType, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call by the names of the parameters."""
        code = function.__code__
        names, count, only = code.co_varnames, code.co_argcount, code.co_kwonlyargcount
        bound = dict(zip(names[:count], args[:count], strict=False))
        kwargs = dict(kwargs)
        if len(args) > count and not code.co_flags & inspect.CO_VARARGS:
            raise self.misfit(function, f"takes {count} positional arguments but {len(args)} were given")
        defaults = function.__defaults__ or ()
        first = count - len(defaults)
        for i, name in enumerate(names[:count]):
            if name in bound:
                if name in kwargs and i >= code.co_posonlyargcount:
                    raise self.misfit(function, f"got multiple values for argument '{name}'")
            elif name in kwargs and i >= code.co_posonlyargcount:
                bound[name] = kwargs.pop(name)
            elif i >= first:
                bound[name] = self.default(function, "__defaults__", i - first, defaults[i - first])
            else:
                raise self.misfit(function, f"missing 1 required positional argument: '{name}'")
        for name in names[count:count + only]:
            keyword = function.__kwdefaults__ or {}
            if name in kwargs:
                bound[name] = kwargs.pop(name)
            elif name in keyword:
                bound[name] = self.default(function, "__kwdefaults__", name, keyword[name])
            else:
                raise self.misfit(function, f"missing 1 required keyword-only argument: '{name}'")
        place = count + only
        if code.co_flags & inspect.CO_VARARGS:
            bound[names[place]] = tuple(args[count:])
            place += 1
        if code.co_flags & inspect.CO_VARKEYWORDS:
            bound[names[place]] = kwargs
        elif kwargs:
            raise self.misfit(function, f"got an unexpected keyword argument '{next(iter(kwargs))}'")
        return bound

    def default(self, function: types.FunctionType, table: str, key: Any, value: Any) -> Any:
        if id(function) in self.own or natives.is_ours(function.__module__):
            return value
        return self.outside.admit(value, Item(Attribute(self.source_of(function), table), key))

    def misfit(self, function: types.FunctionType, what: str) -> Raised:
        return Raised(TypeError(f"{function.__qualname__}() {what}"))

    # --- classes ------------------------------------------------------------------------------------------------------

    def new_class(self, args: tuple, kwargs: dict[str, Any]) -> type:
        """type(name, bases, members)"""
        return class_bodies.class_of_members(self, args, kwargs)

    def call_class(self, kind: type, args: tuple, kwargs: dict[str, Any]) -> Any:
        """kind(...)"""
        if natives.is_plain_class(kind):
            return self.call_native(kind, args, kwargs)
        if natives.changes_state(kind) and natives.is_ours(kind.__module__):
            raise GraphBreak("native", f"{shown(kind)} changes a state that is not of the graph")
        if hasattr(kind, "__del__"):
            raise GraphBreak("not modelled", f"objects of {shown(kind)} have __del__, and are finalized when they go")
        self.check_context(kind)
        maker = on_class(type(kind), "__call__")
        if isinstance(maker, types.FunctionType):
            if natives.is_ours(type(kind).__module__):
                raise GraphBreak("not modelled", f"{shown(kind)} is made")
            return self.call(maker, (kind, *args), kwargs)
        return self.new_object(kind, args, kwargs)

    def new_object(self, kind: type, args: tuple, kwargs: dict[str, Any]) -> Any:
        """type.__call__(kind, ...)"""
        if issubclass(kind, Tensor):
            return subclasses.make(self, kind, args, kwargs)
        new = on_class(kind, "__new__")
        new = new.__func__ if isinstance(new, staticmethod) else new
        if isinstance(new, types.FunctionType):
            result = self.call(new, (kind, *args), kwargs)
        elif issubclass(kind, BaseException):
            result = self.native(new, (kind, *args))
        elif is_python_class(kind) or natives.is_new_safe(kind):
            result = self.native(kind.__new__, (kind,) if kind.__new__ in natives.BARE_NEWS else (kind, *args))
        else:
            raise GraphBreak("native", f"{shown(kind)} is made by code that is not known to be safe")
        if isinstance(result, kind):
            init = on_class(type(result), "__init__")
            if isinstance(init, types.FunctionType):
                self.call(init, (result, *args), kwargs)
            elif init is not object.__init__:
                self.native(init, (result, *(self.iterable(a) for a in args)), kwargs)
        return result

    def special_method(self, owner: Any, name: str) -> Any:
        """A special method, found on the class and bound."""
        found = on_class(type(owner), name)
        if found is MISSING:
            raise Raised(TypeError(f"'{type(owner).__name__}' object does not support the context manager protocol"))
        if isinstance(found, types.FunctionType):
            return types.MethodType(found, owner)
        if not isinstance(owner, locks.KINDS):
            self.check_open(owner, "context")
        return self.native(getattr, (owner, name))

    def record(self, function: Callable, args: tuple, kwargs: dict[str, Any], target: Any = None) -> Any:
        """A call that the recorder writes down as one."""
        if self.user_modes:
            raise GraphBreak("not modelled", f"{shown(function)} inside of a mode that sees ops")
        if self.has_classes and self.overrides(args, kwargs):
            raise GraphBreak("tensor subclass", f"{shown(function)} of a tensor with rules of its own")

        if self.optimizer_steps.taken:
            self.optimizer_steps.check(self, (*args, *kwargs.values()))

        def run() -> Any:
            with below(mode_state.function_modes):
                return self.recorder.call(function, args, kwargs, target)

        return self.native(run, (), is_watched=False)


class Stopped(BaseException):  # noqa: N818 - no error
    """The instruction was reached at which the graph is to end."""


