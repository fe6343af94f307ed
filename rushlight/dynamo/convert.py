"""From a function to a callable that runs what was compiled for it: `compiled`, and what happens when no guards hold.

Enters: a function and `Choices`. Leaves: a `_C.CompiledCallable`. A call for which nothing compiled fits comes to
`Conversion.miss`, which captures the frame, completes its code where the graph breaks, and adds an entry; or lets the
original run: when it was compiled too often, when nothing of it can be captured, inside of another capture. Sizes and
numbers that were different the last time are captured as symbols. Refuses, with fullgraph: any break.
"""

from __future__ import annotations

import contextlib
import copyreg
import functools
import os
import sys
import threading
import time
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .. import _C
from .._C import Tensor
from ..base import collector, environment, late, logs, show
from ..base.sources import PACKAGE
from ..devices.base import default_device, handlers
from ..dispatch.modes import state as modes
from ..loops.record import Record
from ..nn import Module, Parameter
from . import errors, settings
from .direct import direct_call
from .record import counting, marks
from .record.breaks import BreakAt, GraphBreak, Refused
from .record.tracing import without_saving_hooks
from .stored import frames as stored_frames
from .values.guards import GuardTree
from .values.sources import Local, Source

if TYPE_CHECKING:      # what was captured before is found on disk, and needs none of this
    from .report import Report

_NOT_COMPILED = 0x20 | 0x80 | 0x200      # flags of code: generators, coroutines, and both
_PACKAGE = PACKAGE
_LIBRARY = os.path.dirname(os.__file__)


class Choices(Record):
    """What `compile()` was told. `backend` makes a function of a graph and example inputs."""

    backend: Callable[[Any, list[Any]], Callable]
    fullgraph: bool = False
    dynamic: bool | None = None
    limit: int | None = None           # how often one function may be compiled; None: as the settings say
    arguments: dict[str, Any] = {}     # of compile(), to make the same again
    report: Report | None = None       # explain(): told of everything that is compiled
    # the backend of first calls under the stance "aot_eager_then_compile", made when it is asked for
    first: Callable[[], Callable] | None = None

    @property
    def backend_name(self) -> str:
        """What the program calls the backend."""
        told = self.arguments.get("backend", self.backend)
        return told if isinstance(told, str) else getattr(told, "__name__", type(told).__name__)

    @functools.cached_property
    def frames(self) -> dict[Any, Any]:
        """Callables for frames, by code and globals."""
        return {}

    @functools.cached_property
    def on_frame(self) -> Callable | None:
        """Asked about frames that uncaptured code enters (csrc/extras/frame_hook.cpp); None: they run as they are."""
        is_on = _C.has_frame_hook and not self.fullgraph and environment.get("RUSHLIGHT_FRAME_HOOK") != "0"
        return functools.partial(_for_frame, self) if is_on else None


class _Captures(threading.local):
    running = False


_here = _Captures()
_lock = threading.RLock()
_all: weakref.WeakSet[Any] = weakref.WeakSet()


def _renew_lock() -> None:
    """A child process has only the thread that forked: whoever held the lock is not there."""
    global _lock
    _lock = threading.RLock()
    _here.running = False
    _C.frames_after_fork()


_C.frame_kinds((Module,))
os.register_at_fork(after_in_child=_renew_lock)


@contextlib.contextmanager
def _in_turn() -> Iterator[bool]:
    """One capture at a time; whether another thread's had to be waited for."""
    lock = _lock
    waited = not lock.acquire(blocking=False)
    if waited:
        lock.acquire()
    try:
        yield waited
    finally:
        lock.release()


def compiled(function: Callable, choices: Choices) -> Any:
    """A callable that behaves as `function` and runs compiled."""
    if type(function) is _C.CompiledCallable:
        function = function.function
    if getattr(function, "_torchdynamo_disable", False):
        return function
    if type(function) is types.FunctionType and not hasattr(function, "_transform"):
        return _wrap(function, Conversion(choices, Family(function), is_root=True))
    if type(function) is types.MethodType and type(function.__func__) is types.FunctionType:
        return types.MethodType(compiled(function.__func__, choices), function.__self__)
    call = vars(type(function)).get("__call__")
    if type(call) is types.FunctionType and not isinstance(function, Module):
        return types.MethodType(compiled(call, choices), function)

    def call_it(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    wrapped = _wrap(call_it, Conversion(choices, Family(call_it), is_root=True))
    functools.update_wrapper(wrapped, function, [n for n in functools.WRAPPER_ASSIGNMENTS if hasattr(function, n)], ())
    return wrapped


def compiled_module(module: Module, choices: Choices) -> tuple[Any, Any]:
    """What a call of a module runs: its forward where nothing stands between (None if there is no plain one), and the
    whole call."""
    forward = getattr(type(module), "forward", None)
    is_plain = type(module).__call__ is Module.__call__ and type(forward) is types.FunctionType \
        and "forward" not in vars(module)
    quick = types.MethodType(compiled(forward, choices), module) if is_plain else None
    return quick, compiled(module, choices)


def _wrap(function: types.FunctionType, conversion: Conversion) -> Any:
    compiled = _C.CompiledCallable(function, conversion.miss)
    functools.update_wrapper(compiled, function)
    # what `inspect` asks of a function that is none of Python's own
    compiled.__code__, compiled.__defaults__ = function.__code__, function.__defaults__
    compiled.__kwdefaults__ = function.__kwdefaults__
    compiled._torchdynamo_orig_callable = compiled._torchdynamo_inline = function
    if function.__code__.co_flags & _NOT_COMPILED:
        compiled.as_is = True
    else:
        compiled.on_frame = conversion.choices.on_frame
    _all.add(compiled)
    return compiled


def reset() -> None:
    """Forget everything that was compiled."""
    for compiled in list(_all):
        reset_one(compiled)
    _closures.clear()
    _C.forget_frames()
    logs.count_frames_anew()


def reset_one(compiled: Any) -> None:
    """Forget what was compiled for one callable, and what was learned about its sizes."""
    conversion = compiled.on_miss.__self__
    with _lock:
        compiled.clear_entries()
        conversion.forget()
        if compiled.function.__code__.co_flags & _NOT_COMPILED:
            compiled.as_is = True


def reset_code(code: types.CodeType) -> None:
    """Forget what was compiled of one code object."""
    for compiled in list(_all):
        if compiled.function.__code__ is code:
            reset_one(compiled)


class Family:
    """A function and the functions that go on behind its breaks, and those that its code calls there."""

    def __init__(self, function: types.FunctionType) -> None:
        self.resumed: dict[Any, Any] = {}
        self.name = function.__qualname__


class Conversion:
    """What is known of one callable: its entries, and the sizes and numbers it met."""

    def __init__(self, choices: Choices, family: Family, is_root: bool = False) -> None:
        self.choices, self.family, self.is_root = choices, family, is_root
        self.forget()

    def forget(self) -> None:
        self.trees: list[GuardTree] = []
        self.met: dict[Source, Any] = {}
        self.empty = 0
        self.unsure: frozenset[tuple[types.CodeType, int]] = frozenset()      # branches that do more than check
        self.family.resumed.clear()
        self.is_full = self.was_met = False
        self.frame_id: int | None = None      # among all that were compiled
        self.compilations = 0

    # -- a call that nothing fits ---------------------------------------------------------------------------------

    def miss(self, compiled: Any, locals: tuple, called: types.FunctionType) -> Any:
        """The function to run on these locals; None: the one called, which is the original or has other cells."""
        if self.is_full or _here.running or marks.here.only_compiled:
            return None
        if modes.all_functions_disabled and modes.function_modes:      # a block turns off what frames would guard
            return None
        stance, forced = marks.stance.name, marks.stance.backend
        if stance != "default" and not self._may_compile(stance, compiled, locals):
            return None
        if settings.disable:
            return None
        if default_device().type == "meta":      # graphs would compute what has no elements
            if self.choices.fullgraph:
                raise unsupported(GraphBreak("not modelled", "the default device is meta"), True)
            return None
        for device in handlers.values():
            device.anticipate()
        with _in_turn() as waited, collector.paused():
            if waited and (found := self._compiled_since(compiled, locals, called)) is not None:
                return found
            _here.running = True
            try:
                if stance == "aot_eager_then_compile" and not self.was_met:
                    self.was_met = True
                    return self._convert(compiled, locals, called, self.choices.first(), is_kept=False)
                return self._convert(compiled, locals, called, forced or self.choices.backend)
            finally:
                _here.running = False

    @staticmethod
    def _compiled_since(compiled: Any, locals: tuple, called: types.FunctionType) -> Any:
        """What another thread compiled that serves these locals, while this one waited for its turn."""
        for guards, function in compiled.entries():
            if guards.check(locals, called.__globals__, called.__closure__ or ()):
                return function
        return None

    def _may_compile(self, stance: str, compiled: Any, locals: tuple) -> bool:
        if stance == "fail_on_recompile" and self.trees:
            raise errors.RecompileError(
                f"compile: {self.family.name} would be compiled again, and set_stance('fail_on_recompile') forbids it."
            )
        if stance == "eager_then_compile" and not self.was_met:
            self.was_met = True      # the first call runs as it is; sizes that differ from its own will be symbols
            for name, value in zip(compiled.parameters, locals, strict=True):
                if isinstance(value, Tensor) or type(value) in (int, float):
                    self.dynamic(Local(name), value)
            return False
        return stance != "force_eager" and not (stance == "eager_on_recompile" and self.trees)

    def _convert(self, compiled: Any, locals: tuple, function: types.FunctionType, backend: Callable,
                 is_kept: bool = True) -> Any:
        if self.frame_id is None:
            self.frame_id = next(logs.frame_ids)
        with logs.compiling(logs.CompileId(self.frame_id, self.compilations)):
            self.compilations += 1
            return self._converted(compiled, locals, function, backend, is_kept)

    def _converted(self, compiled: Any, locals: tuple, function: types.FunctionType, backend: Callable,
                   is_kept: bool) -> Any:
        if self.trees and not self._may_recompile(compiled, locals, function):
            return None
        started, since = time.perf_counter(), time.time()
        given = dict(zip(compiled.parameters, locals, strict=True))
        # what becomes of a frame whose branches are distrusted is this process's own
        is_kept_on_disk = is_kept and self.choices.report is None and not self.unsure and not logs.is_followed()
        place = self._place(function, given, backend) if is_kept_on_disk else None
        found = None if place is None else place.found(given, self.dynamic)
        if found is not None:
            return self._restored(compiled, function, found)
        from . import interruptions, telling  # noqa: PLC0415 - frames that are found on disk need none of it
        from .bytecode import resume  # noqa: PLC0415 - frames that are found on disk need none of it
        from .capture import Settings, capture  # noqa: PLC0415
        from .report import Step  # noqa: PLC0415

        telling.started(function.__code__)
        try:
            with without_saving_hooks(), interruptions.handlers_outside():
                captured = capture(function.__code__, given, function.__globals__, function.__closure__ or (),
                                   Settings(backend, self.choices.fullgraph, self.dynamic, self.unsure,
                                            self.choices.backend_name))
            completed = self._completed(captured.emitter, captured.break_at, function)
        except (GraphBreak, Refused, resume.CannotResume) as found:
            return self._refused(compiled, found)
        telling.finished(function.__code__, captured)
        if captured.graph is None and captured.break_at is None and self._is_of_no_use(compiled):
            if place is not None:
                place.keep(captured, is_used=False)
            return None
        tree = GuardTree(captured.guards, compiled.parameters, function.__code__.co_freevars)
        telling.guards(tree)
        telling.replaced(function.__code__, completed.__code__)
        if captured.again is not None:
            captured.again.tree = tree
        if captured.checked is not None and not self.choices.fullgraph:
            captured.checked.distrust = functools.partial(self._distrust, compiled)
        if is_kept:
            self.trees.append(tree)
            compiled.add_entry(tree.native, completed, direct_call(captured.emitter, tree))
        stop = captured.break_at
        counting.count(None if stop is None else stop.reason, None if captured.graph is None else captured.num_ops)
        if place is not None:
            place.keep(captured)
        taken = time.perf_counter() - started
        counting.note_time(counting.FRAME, taken)
        before = len(self.trees) - is_kept
        telling.measured(telling.Measured(function.__code__, captured, len(tree.guards), before, since, taken))
        if self.choices.report is not None:
            self.choices.report.add(Step.of(function, captured, tree, taken))
        return completed

    def _distrust(self, compiled: Any, branches: set[tuple[types.CodeType, int]]) -> None:
        """Branches that were taken for checks go the other way too: graphs end at them from now on."""
        with _lock:
            self.unsure |= branches
            compiled.clear_entries()
            self.trees.clear()

    def _restored(self, compiled: Any, function: types.FunctionType, found: stored_frames.Found) -> Any:
        """The function for a frame that an earlier process captured."""
        if found.emitter is None:
            self._is_of_no_use(compiled)
            return None
        completed = self._completed(found.emitter, found.break_at, function)
        self.trees.append(found.tree)
        compiled.add_entry(found.tree.native, completed, direct_call(found.emitter, found.tree))
        counting.count(None if found.break_at is None else found.break_at.reason, found.num_ops)
        return completed

    def _is_of_no_use(self, compiled: Any) -> bool:
        """Whether a frame that left no graph runs as it is: what it returns depends on values that may be others each
        time. The rest of a function, or a callback, is given up after the second such call."""
        if self.is_root:
            return False
        self.empty += 1
        compiled.as_is = self.empty > 1 and not self.trees
        return True

    def _place(self, function: types.FunctionType, given: dict[str, Any], backend: Callable) -> Any:
        """Where what becomes of a frame is kept."""
        told = self.choices.fullgraph, self.choices.dynamic, self.is_root
        return stored_frames.place_for(function, given, backend, told, self.dynamic)

    def _refused(self, compiled: Any, found: Exception | GraphBreak) -> None:
        reason = found.reason if isinstance(found, Refused) else found
        counting.count(reason)
        if self.choices.report is not None:
            self.choices.report.refused(compiled.function, reason)
        if self.choices.fullgraph or getattr(reason, "is_error", False):
            raise unsupported(reason, self.choices.fullgraph) from found
        compiled.as_is = True
        if show.is_shown("breaks"):
            show.show("breaks", self.family.name, f"runs as it is: {reason}")
        if logs.heard() is not None:
            from . import telling  # noqa: PLC0415 - as above

            telling.refused(self.family.name, reason)

    # -- recompiling ----------------------------------------------------------------------------------------------

    def _may_recompile(self, compiled: Any, locals: tuple, called: types.FunctionType) -> bool:
        """Whether one more entry is allowed; says why it is needed."""
        limit = self.choices.limit if self.choices.limit is not None else settings.recompile_limit
        reasons = self.reasons(locals, called)
        reasons += [f"user context: {hook()}" for hook in marks.recompile_contexts]
        if show.is_shown("recompiles"):
            show.show("recompiles", f"{self.family.name} ({location(compiled.function)})", "\n".join(reasons))
        if logs.heard() is not None:
            from . import telling  # noqa: PLC0415 - as above

            given = locals, called.__globals__, called.__closure__ or ()
            telling.recompiled(compiled.function, [[*map(_told, tree.failures(*given))] for tree in self.trees],
                               reasons[len(self.trees):])
        if settings.error_on_recompile:
            raise errors.RecompileError(f"compile: {self.family.name} would be compiled again. " + "; ".join(reasons))
        if len(self.trees) < limit:
            return True
        said = (
            f"compile: {self.family.name} ({location(compiled.function)}) was compiled {len(self.trees)} times, which"
            f" is the limit (recompile_limit). The last reason: {reasons[-1] if reasons else 'unknown'}. dynamic=True"
            " captures sizes as symbols."
        )
        if self.choices.fullgraph or settings.fail_on_recompile_limit_hit:
            raise errors.FailOnRecompileLimitHit(said)
        self.is_full = True      # what is compiled still serves; nothing is added
        warnings.warn(said + " Other calls run uncompiled.", stacklevel=4)
        return False

    def reasons(self, locals: tuple, called: types.FunctionType) -> list[str]:
        """For each entry, why it does not serve these locals."""
        found = []
        for tree in self.trees:
            failed = tree.explain(locals, called.__globals__, called.__closure__ or ())
            if failed is not None:
                found.append(_told(failed))
        return found

    def dynamic(self, source: Source, value: Any) -> Any:
        """For a tensor, its dims to be captured as symbols; for an int, whether it is to be one: marked so, asked for,
        or different from the last time."""
        if isinstance(value, Tensor):
            return self._dynamic_dims(source, value)
        before = self.met.setdefault(source, value)
        if type(before) is tuple:      # sizes of a tensor that was in this place
            self.met[source] = value
        elif before is not _VARIES and before != value:
            self.met[source] = _VARIES
        is_fixed = settings.specialize_float if type(value) is float else settings.specialize_int
        if is_fixed or self.choices.dynamic is False:
            return False
        if self.choices.dynamic is True and isinstance(source, Local):      # attributes are settings, as a rule
            return True
        return settings.automatic_dynamic_shapes and self.met[source] is _VARIES

    def _dynamic_dims(self, source: Source, t: Tensor) -> tuple[int, ...]:
        marked = getattr(t, "_dynamo_dynamic_indices", frozenset())
        fixed = getattr(t, "_dynamo_static_indices", frozenset())
        if isinstance(t, Parameter):
            return tuple(sorted(marked))
        sizes = self.met.get(source)
        if type(sizes) is not tuple or len(sizes) != t.ndim:      # numbers that were in this place are of no use
            sizes = tuple(t.shape)
        else:
            sizes = tuple(a if a is _VARIES or a == b else _VARIES for a, b in zip(sizes, t.shape, strict=True))
        self.met[source] = sizes
        automatic = settings.automatic_dynamic_shapes and self.choices.dynamic is not False
        weakly = getattr(t, "_dynamo_weak_dynamic_indices", frozenset())
        return tuple(
            d for d, size in enumerate(sizes)
            if d in marked or (d not in fixed and self.choices.dynamic is not False and (
                self.choices.dynamic or d in weakly or (automatic and size is _VARIES)))
        )

    # -- the code -------------------------------------------------------------------------------------------------

    def _completed(self, emitter: Any, stop: BreakAt | None, function: types.FunctionType) -> types.FunctionType:
        """The emitted function, with the break at its end if there is one."""
        if stop is not None:
            from .bytecode import resume  # noqa: PLC0415 - as above

            point = resume.BreakPoint(function.__code__, stop.index, stop.stack, frozenset(stop.live))
            resume.emit_break(emitter, point, lambda code: self._resumed(code, function), self._called,
                              self.choices.on_frame)
            if show.is_shown("breaks"):
                show.show("breaks", self.family.name, str(stop.reason))
        return emitter.function(function.__globals__, function.__closure__)

    def _resumed(self, code: types.CodeType, function: types.FunctionType) -> Any:
        from .bytecode import resume  # noqa: PLC0415 - as above

        found = self.family.resumed.get(code)
        if found is None:
            found = types.FunctionType(code, function.__globals__, function.__name__, None, function.__closure__)
            if code.co_freevars or not resume.is_plain(code):      # others find their cells by the callable
                found = _wrap(found, Conversion(self.choices, self.family))
            self.family.resumed[code] = found
        return found

    def _called(self, callee: Any) -> Any:
        """What emitted code calls in the place of a callable that capture did not look into: its compiled form."""
        return through(callee, self.choices)


_VARIES: Any = type("Varies", (), {"__repr__": lambda self: "varies"})()


# -- functions that compiled code calls ----------------------------------------------------------------------------

_callees: weakref.WeakKeyDictionary[types.FunctionType, dict[int, Any]] = weakref.WeakKeyDictionary()
_closures: weakref.WeakKeyDictionary[types.CodeType, int] = weakref.WeakKeyDictionary()
_MANY = 8      # more functions of one code are made anew for every call: not worth compiling


def through(callee: Any, choices: Choices) -> Any:
    """A callable with its Python function compiled; anything else as it is."""
    kind = type(callee)
    if kind is types.FunctionType:
        return _compiled_callee(callee, choices)
    if kind is types.MethodType and type(callee.__func__) is types.FunctionType:
        inner = _compiled_callee(callee.__func__, choices)
        return callee if inner is callee.__func__ else types.MethodType(inner, callee.__self__)
    if isinstance(callee, Module):
        forward = plain_forward(callee)
        return callee if forward is None else through(forward, choices)
    return callee


def plain_forward(module: Module) -> Any:
    """The bound forward that a call of a module comes to; None where hooks or a __call__ of its own are between."""
    if type(module).__call__ is not Module.__call__ or _C.module_is_hooked(module):
        return None
    return module.forward


def _compiled_callee(function: types.FunctionType, choices: Choices) -> Any:
    code = function.__code__
    if is_run_only(function) or (function.__closure__ and choices.on_frame is not None):
        return function      # those with cells may be made anew for each call: their frames share what is compiled
    found = _callees.get(function)
    if found is None:
        _closures[code] = _closures.get(code, 0) + 1
        if _closures[code] > _MANY:
            return function
        found = _callees[function] = {}
    compiled = found.get(id(choices))
    if compiled is None:
        compiled = found[id(choices)] = _wrap(function, Conversion(choices, Family(function)))
    return compiled


_NOT_FRAMES = frozenset(("<listcomp>", "<dictcomp>", "<setcomp>", "__torch_function__", "__torch_dispatch__"))


def _for_frame(choices: Choices, function: types.FunctionType) -> Any:
    """The compiled form of a function whose frame uncaptured code enters; None: none, whatever its arguments.

    Comprehensions are parts of frames that run as they are; handlers of ops run inside of one."""
    if function.__code__.co_name in _NOT_FRAMES or marks.of(function) is not None:
        return None
    if is_run_only(function):
        return None
    key = function.__code__, id(function.__globals__)
    found = choices.frames.get(key)
    if found is None:
        found = choices.frames[key] = _wrap(function, Conversion(choices, Family(function)))
    return found


def is_run_only(function: types.FunctionType) -> bool:
    """Whether a function is called as it is wherever it is called."""
    from .bytecode import resume  # noqa: PLC0415 - for programs that are not captured whole

    code = function.__code__
    is_disabled = getattr(function, "_torchdynamo_disable", False)
    return is_disabled or bool(code.co_flags & _NOT_COMPILED) or is_own(code) or resume.is_plain(code)


def is_own(code: types.CodeType) -> bool:
    """Whether code belongs to this package (but for the forwards of modules) or to the standard library: it is run,
    and never compiled by itself."""
    file = code.co_filename
    if file.startswith(_PACKAGE):
        return code.co_name != "forward"
    return file.startswith("<frozen") or (file.startswith(_LIBRARY) and "site-packages" not in file)


# -- copies ------------------------------------------------------------------------------------------------------------


def _reduced(compiled: Any) -> Any:
    """Pickled by its name where it has taken the function's place in a module, otherwise as the function and what
    compile() was told; copies compile anew."""
    found: Any = sys.modules.get(compiled.function.__module__)
    for part in compiled.function.__qualname__.split("."):
        found = getattr(found, part, None)
    if found is compiled:
        return compiled.function.__qualname__
    return _made_again, (compiled.function, compiled.on_miss.__self__.choices.arguments)


def _made_again(function: Callable, told: dict[str, Any]) -> Any:
    return late.provided("compile_callable")(function, **told)


copyreg.pickle(_C.CompiledCallable, _reduced)


# -- messages --------------------------------------------------------------------------------------------------------


def _told(failed: tuple[Any, str]) -> str:
    """A guard that does not hold: why, and the line of the program that made it."""
    guard, why = failed
    return why + (f"    # {guard.where}" if guard.where else "")


def location(function: types.FunctionType) -> str:
    from .bytecode import resume  # noqa: PLC0415 - for messages

    code = resume.original_code(function.__code__)
    return f"{code.co_filename}:{code.co_firstlineno}"


def unsupported(reason: Any, fullgraph: bool = True, asked: str = "compile") -> Exception:
    """The error that fullgraph=True, or an `error_on_graph_break` block, makes of a break; `asked` is who wants it."""
    import linecache  # noqa: PLC0415 - for messages

    named = "compile(fullgraph=True)" if fullgraph and asked == "compile" else asked
    lines = [f"{named}: the graph breaks: {getattr(reason, 'reason', reason)}"]
    where = getattr(reason, "location", "")
    if where:
        lines.append(f"  at {where}")
        file, _, rest = where.rpartition(":")
        number = rest.split(" ")[0]
        text = linecache.getline(file, int(number)).strip() if number.isdigit() else ""
        lines += [f"    {text}"] if text else []
    if getattr(reason, "hint", ""):
        lines.append(f"  {reason.hint}")
    return errors.Unsupported("\n".join(lines))
