"""The Python dispatcher: one call, walked through its keys from the outermost in.

Enters: an overload and its bound arguments, from the core. Leaves: the result. Order: `__torch_function__` modes and
subclasses; autocast; levels of function
transforms; registered kernels above autograd; autograd around `__torch_dispatch__` modes and
subclasses; registered backend kernels; the op's own kernel.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any

from .. import _C
from .._C import Tensor
from ..base import late, logs, show
from ..base.bits import BITS
from ..base.homes import is_own
from ..devices import default_device, device_of, private_use
from ..op import ops
from ..op.registry import explain_mismatch
from ..rules import levels
from ..rules.out import call_out
from . import table
from .keys import (
    AUTOCAST,
    AUTOCAST_OF,
    AUTOGRAD_OF,
    FUNCTORCH,
    PRIVATE,
    QUANTIZED,
    SHOW,
    SUBCLASS,
    DispatchKey,
    DispatchKeySet,
    backend_of,
)
from .modes import below, is_open, state
from .older_forms import respelled_older
from .overridable import respelled

_ABOVE_AUTOCAST = (DispatchKey.PreDispatch, DispatchKey.Functionalize)
_ABOVE_AUTOGRAD = (DispatchKey.Tracer, DispatchKey.ADInplaceOrView)
_depth = 0


def install() -> None:
    """Make the core ask this dispatcher."""
    _C.set_hooks(dispatcher=dispatch, out_caller=dispatch_out, bind_error=mismatch)
    if show.is_shown("dispatch"):
        keys, excluded = _C.get_thread_keys()
        _C.set_thread_keys(keys | SHOW, excluded)


def dispatch(overload: Any, args: tuple, *written: Any) -> Any:
    """Run a call that left the fast path. `written`: the op object, arguments and keywords, as the program has them,
    where it was such a call."""
    if overload.definition.custom:
        teach_core(overload, args)
        if (kernel := plain_kernel(overload, args)) is not None:
            return run_plainly(kernel, overload, args)
    if show.is_shown("dispatch"):
        return traced(overload, args, written)
    return route(overload, args, written)


def dispatch_out(overload: Any, args: tuple, out: Any, *written: Any) -> Any:
    """A call with out=: as the plain form, but modes, subclasses and registered kernels have their say."""
    tensors = tensors_of((*args, *(out if isinstance(out, (list, tuple)) else (out,))))
    keys, excluded = _C.get_thread_keys()
    if not (keys & ~excluded & ~AUTOCAST or overload.overridden or any(t._keys for t in tensors)):
        # mixed precision leaves forms with out= alone, as it does in-place ones
        _C.set_thread_keys(keys, excluded | AUTOCAST)
        try:
            return call_out(overload, args, out)
        finally:
            _C.set_thread_keys(keys, excluded)
    if overload.name in ops:
        if written:
            handled = ask_written(tensors, written)
        else:
            positional, named = public_args(overload, args)
            handled = ask_overrides(public_op(overload), tensors, positional, {**named, "out": out})
        if handled is not NotImplemented:
            return handled
        if any(t._keys & PRIVATE for t in tensors):
            return late.provided("private out")(overload, args, out)
    return call_out(overload, args, out, dispatch)


def mismatch(op: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Arguments that fit no signature: objects with `__torch_function__` may still take the call, and older forms
    are today's with a warning."""
    owners = owners_in((*args, *kwargs.values()))
    if not all(isinstance(a, Tensor) for a in owners):
        if isinstance(op, _C.Op):
            answer = ask_written(owners, (op, args, kwargs))
        else:
            answer = ask_overrides(op, owners, args, kwargs)
        if answer is not NotImplemented:
            return answer
    older = respelled_older(op, args, kwargs)
    return explain_mismatch(op, args, kwargs) if older is None else op(*older[0], **older[1])


def owners_in(args: Any) -> list[Any]:
    """The tensors and objects with `__torch_function__` among arguments, lists included."""
    return [
        a
        for a in flat(args if isinstance(args, (tuple, list)) else (args,))
        if isinstance(a, Tensor) or getattr(type(a), "__torch_function__", None) is not None
    ]


def flat(args: Any) -> list[Any]:
    """Arguments with lists and tuples opened once."""
    found: list[Any] = []
    for a in args:
        if isinstance(a, (list, tuple)):
            found += a
        else:
            found.append(a)
    return found


def tensors_of(args: tuple) -> list[Tensor]:
    """Every tensor among the arguments, lists included."""
    found = []
    for a in args:
        if isinstance(a, Tensor):
            found.append(a)
        elif isinstance(a, (list, tuple)):
            found += [x for x in a if isinstance(x, Tensor)]
    return found


def route(overload: Any, args: tuple, written: tuple = ()) -> Any:
    """Ask handlers in order; the first that takes the call decides."""
    tensors = tensors_of(args)
    # nor are derivatives public calls
    if not state.all_functions_disabled and overload.name in ops and not _C.in_rule():
        handled = torch_function(overload, args, tensors, written)
        if handled is not NotImplemented:
            return handled
    if _C.get_thread_keys()[0] & AUTOCAST and not any(t._keys & PRIVATE for t in tensors):
        from . import autocast  # noqa: PLC0415 - most programs never need it

        handled = autocast.call(overload, args) if autocast.is_active() else NotImplemented
        if handled is not NotImplemented:
            return handled
    if any(t._keys & FUNCTORCH for t in tensors):
        args = levels.map_args(levels.alive, args)   # a transform that ended leaves the values its tensors stood for
        tensors = tensors_of(args)
    if levels.state.stack:
        level = levels.state.stack[-1]
        levels.state.is_internal = _C.in_rule()
        return _C.own_call(interpreter(level.kind), level, overload, args, tensors)
    return below_levels(overload, args, tensors)


def interpreter(kind: str) -> Callable:
    """What runs calls at levels of a kind: `grad`, `jvp` or `vmap`, each a module here."""
    if kind not in levels.interpreters:
        late.import_module(f".levels.{kind}", __package__)
    return levels.interpreters[kind]


def below_levels(overload: Any, args: tuple, tensors: list[Tensor]) -> Any:
    """Registered kernels, autograd and what is below it."""
    name = registered_name(overload)
    device = device_of(args)
    above = registered_above(overload, name, args, device)
    if above is not None:
        return above[0]
    composed = compose(overload, args, tensors)
    if composed is not NotImplemented:
        return composed
    if sees_aten(tensors) or is_placed_privately(overload, args):
        answer = late.provided("aten view")(overload, args)
        if answer is not NotImplemented:
            return answer
    if is_composite(overload) and not makes_alike(name, tensors):
        return overload.redispatch(*args)
    if wants_torch_dispatch(tensors):
        return overload.autograd(lambda *inner: torch_dispatch(overload, inner), *args)
    if overload.records and any(t._keys & PRIVATE for t in tensors):     # parts of ours that ATen has no name for
        return overload.autograd(lambda *inner: torch_dispatch(overload, inner), *args)
    kernel = backend_kernel(overload, name, device)
    if kernel is not None:
        return overload.autograd(lambda *inner: call_kernel(overload, kernel, inner), *args)
    return overload.redispatch(*args)


def compose(overload: Any, args: tuple, tensors: list[Tensor]) -> Any:
    """Tensors made of other tensors (sparse, nested) answer with ops on their parts, which the tape then sees;
    quantized ones with ops on their integers."""
    for t in tensors:
        if t._keys & QUANTIZED:
            return late.provided("quantized call")(overload, args)
        rules = getattr(type(t), "__compose__", None) if t._keys & SUBCLASS else None
        if rules is not None:
            return rules(overload, args)
    return NotImplemented


def makes_alike(name: str, tensors: list[Tensor]) -> bool:
    """Whether a call makes a tensor like one of a program's class, which the parts of its body would not show."""
    return name.endswith("_like") and not state.subclass_dispatch_disabled and any(
        not is_own(type(t)) for t in dispatch_subclasses(tensors))


def is_composite(overload: Any) -> bool:
    """Whether the op is its body: its parts are dispatched, not the op itself."""
    definition = overload.definition
    if getattr(definition, "composite_implicit", None):
        return True
    return definition.is_composite and not overload.records and not definition.custom


# --- calls of users' ops that nothing but a kernel takes -------------------------------------------------------------


def plain_kernel(overload: Any, args: tuple) -> tuple[Any, Callable] | None:
    """The key and the kernel of a call that no mode, subclass, transform or derivative has to see; None for others,
    which `route` asks everyone about."""
    keys, excluded = _C.get_thread_keys()
    if keys & ~excluded or _running.calls or levels.state.stack or private_use.state.is_used:
        return None
    recording, device = _C.is_grad_enabled(), None
    for t in tensors_of(args):
        if t._keys or (recording and t.requires_grad):
            return None
        if device is None or t.ndim:
            device = t.device if device is None or device.type == t.device.type else None
            if device is None:
                return None
    kind = default_device().type if device is None else device.type
    known = overload.definition.plain
    if kind not in known:
        known[kind] = _found_plainly(overload.definition, _C.device(kind))
    return known[kind]


def _found_plainly(definition: Any, device: Any) -> tuple[Any, Callable] | None:
    """What `registered_above` and `backend_kernel` come to where nothing is recorded: what `register_autograd` filed
    is passed, any other kernel above the backend is not."""
    name = definition.name
    for key in (*_ABOVE_AUTOCAST, *_ABOVE_AUTOGRAD, *autograd_keys(device), DispatchKey.CompositeImplicitAutograd):
        kernel = table.find(name, key)
        if kernel not in (None, table.FALLTHROUGH) and not getattr(kernel, "records_only", False):
            return None
    backend = backend_of(device)
    if backend is DispatchKey.Meta:
        return None
    for key in (backend, DispatchKey.CompositeExplicitAutograd):
        kernel = table.find(name, key)
        if kernel is not None and kernel is not table.FALLTHROUGH:
            return None if (name, key) in table.with_keyset else (key, kernel)
    return None


def teach_core(overload: Any, args: tuple) -> None:
    """Tell the core once for each type of device what is registered, so that it runs calls that nobody else has a say
    in without asking here (csrc/registered.cpp)."""
    definition = overload.definition
    tensors = tensors_of(args)
    if not tensors or private_use.state.is_used or tensors[0].device.type in definition.taught:
        return
    device = tensors[0].device
    definition.taught.add(device.type)
    backend = backend_of(device)
    if backend is DispatchKey.Meta:
        return
    above = (*_ABOVE_AUTOCAST, *_ABOVE_AUTOGRAD, *autograd_keys(device), DispatchKey.CompositeImplicitAutograd)
    below_autograd = () if is_composite(overload) else (backend, DispatchKey.CompositeExplicitAutograd)
    rungs = [_rung(definition, key, key in below_autograd) for key in (*above, *below_autograd)]
    overload.learn_kernels(_C.device_types().index(device.type), [rung for rung in rungs if rung is not None])


def _rung(definition: Any, key: Any, is_backend: bool) -> tuple[Any, ...] | None:
    """A registered kernel as `learn_kernels` takes it; None where there is none. One that wants its arguments as a
    program writes them (keywords by name, defaults left out) stays Python's to call."""
    kernel = table.find(definition.name, key)
    if kernel is None or kernel is table.FALLTHROUGH:
        return None
    takes_all = getattr(kernel, "takes_every_argument", False)
    by_place = takes_all or all(p.required and not p.keyword_only for p in definition.spec.params)
    run = getattr(kernel, "direct", kernel) if by_place and (definition.name, key) not in table.with_keyset else None
    if run is kernel and definition.lists and not takes_all:
        run = functools.partial(_given_lists, definition, kernel)
    return ((definition.name, key), run, getattr(kernel, "check", None), getattr(kernel, "records_only", False),
            is_backend, getattr(kernel, "gives_tensor", False))


def _given_lists(definition: Any, kernel: Callable, *args: Any) -> Any:
    return kernel(*definition.listed(args))


def run_plainly(found: tuple[Any, Callable], overload: Any, args: tuple) -> Any:
    """Run a kernel with itself skipped, as `call_guarded`; those of binary extensions take every argument in order."""
    key, kernel = found
    _running.calls.append((overload.name, key))
    try:
        if getattr(kernel, "takes_every_argument", False):
            return kernel(*args)
        positional, named = public_args(overload, args)
        return kernel(*positional, **named)
    finally:
        _running.calls.pop()


# --- __torch_function__ -----------------------------------------------------------------------------------------------


def public_args(overload: Any, args: tuple) -> tuple[tuple, dict[str, Any]]:
    """Bound arguments as a user would write them: trailing defaults dropped, keyword-only ones by name."""
    params = overload.definition.spec.params
    if overload.definition.custom:
        args = overload.definition.listed(args)
    positional = [(p, a) for p, a in zip(params, args, strict=True) if not p.keyword_only]
    while positional and not positional[-1][0].required and positional[-1][1] is positional[-1][0].default:
        positional.pop()
    named = {
        p.name: a for p, a in zip(params, args, strict=True) if p.keyword_only and (p.required or a is not p.default)
    }
    return tuple(a for _, a in positional), named


@functools.cache
def is_foreign_tensor(cls: type) -> bool:
    """Whether instances are tensors of an installed PyTorch: their overrides would hand our function back to us,
    for ever."""
    return any(
        base.__name__ in ("Tensor", "TensorBase") and base.__module__.partition(".")[0] == "torch"
        for base in cls.__mro__
    )


def overloaded_types(tensors: list[Tensor]) -> list[Tensor]:
    """One tensor per type that overrides `__torch_function__`, subclasses before their bases."""
    found: list[Tensor] = []
    for t in tensors:
        cls = type(t)
        if cls is Tensor or cls.__torch_function__ is _C._disabled_torch_function_impl or any(
            type(f) is cls for f in found
        ):
            continue
        if not issubclass(cls, Tensor) and is_foreign_tensor(cls):
            raise TypeError(
                f"got a tensor of PyTorch ({cls.__module__}.{cls.__qualname__}) beside tensors of Rushlight. "
                "Convert it first: rushlight.from_dlpack(x), or torch.from_dlpack(x) for the other way."
            )
        at = next((i for i, f in enumerate(found) if issubclass(cls, type(f))), len(found))
        found.insert(at, t)
    return found


def torch_function(overload: Any, args: tuple, tensors: list[Tensor], written: tuple = ()) -> Any:
    """Modes, then subclasses; NotImplemented if there is none to ask. `written`: the call as the program has it, which
    handlers of programs are shown; those of this package get the op and its parameters in order."""
    if not state.function_modes and (state.subclass_functions_disabled or not overloaded_types(tensors)):
        return NotImplemented
    if written and (not state.function_modes or is_open(state.function_modes[-1])):
        return ask_written(tensors, written)
    return ask_overrides(public_op(overload), tensors, *public_args(overload, args))


def ask_overrides(func: Any, tensors: list[Tensor], args: tuple, kwargs: dict[str, Any]) -> Any:
    """What modes and subclasses make of a call of `func`; NotImplemented if there is none to ask."""
    subclasses = [] if state.subclass_functions_disabled else overloaded_types(tensors)
    if state.all_functions_disabled or _C.in_rule() or not (state.function_modes or subclasses):
        return NotImplemented
    result = first_answer(func, subclasses, args, kwargs)
    if result is NotImplemented:
        name = getattr(func, "__name__", func)
        raise TypeError(
            f"Multiple dispatch failed for 'torch.{name}'; all __torch_function__ handlers returned NotImplemented:"
            f" {[type(t).__name__ for t in subclasses]}"
        )
    return result


def first_answer(func: Any, owners: Iterable[Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    """What the innermost mode, then the first of `owners` that does not decline, makes of a call; NotImplemented if
    all decline."""
    types = tuple(type(owner) for owner in owners)
    if state.function_modes:
        with below(state.function_modes) as mode:
            result = mode.__torch_function__(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    for kind in types:
        result = kind.__torch_function__(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    return NotImplemented


def ask_written(owners: list[Any], written: tuple[Any, tuple, dict[str, Any]]) -> Any:
    """`ask_overrides` for a call of an op object as the program has it."""
    op, args, kwargs = written
    function = public_form(op)
    return ask_overrides(function, owners, *respelled(function, args, kwargs))


def public_form(op: Any) -> Any:
    """What handlers are told of an op object that was called: operators show themselves as methods."""
    return op.__dict__.get("method", op)


def public_op(overload: Any) -> Any:
    """The object users call: what handlers compare `func` with."""
    return ops.get(overload.name, overload)


# --- __torch_dispatch__ -----------------------------------------------------------------------------------------------


def dispatch_subclasses(tensors: list[Tensor]) -> list[Tensor]:
    """One tensor per type with a `__torch_dispatch__` of its own."""
    found: list[Tensor] = []
    for t in tensors:
        handler = getattr(type(t), "__torch_dispatch__", None)
        if (
            type(t) is Tensor
            or handler is None
            or handler is _C._disabled_torch_function_impl
            or any(type(f) is type(t) for f in found)
        ):
            continue
        found.append(t)
    return found


def wants_torch_dispatch(tensors: list[Tensor]) -> bool:
    """Whether a mode or a subclass wants the call below autograd."""
    if state.dispatch_modes:
        return True
    return (
        not state.subclass_dispatch_disabled
        and any(t._keys & SUBCLASS for t in tensors)
        and bool(dispatch_subclasses(tensors))
    )


def sees_aten(tensors: list[Tensor]) -> bool:
    """Whether the first to be asked below autograd, or a subclass among the arguments, is to see ATen's ops: handlers
    of programs do; those of this package see our own (`own_ops`)."""
    if (state.dispatch_modes and not state.dispatch_modes[-1].own_ops) or any(t._keys & PRIVATE for t in tensors):
        return True
    return (
        not state.subclass_dispatch_disabled
        and any(t._keys & SUBCLASS for t in tensors)
        and any(not getattr(type(t), "own_ops", False) for t in dispatch_subclasses(tensors))
    )


def is_placed_privately(overload: Any, args: tuple) -> bool:
    """Whether a call names PyTorch's device of others as the place of its result, or leaves it to a default that is."""
    if not private_use.state.is_used or registered_name(overload) not in table.PLACING:
        return False
    named = next((a for a in args if isinstance(a, _C.device) or private_use.is_private(a)), None)
    if named is None and not tensors_of(args):
        named = default_device()
    return named is not None and private_use.is_private(named)


def _declined(owner: Any, overload: Any, types: tuple[type, ...]) -> None:
    """A mode or a subclass left a call to the next one."""
    if (log := logs.artifact("not_implemented")) is not None:
        log.debug("%s leaves %s of %s to the next", type(owner).__name__, overload.name, [t.__name__ for t in types])


def torch_dispatch(overload: Any, args: tuple, seen: tuple[Any, tuple, dict[str, Any]] | None = None) -> Any:
    """Modes, then subclasses, then the backend. `seen`: the call as handlers of programs see it, by ATen's overload."""
    tensors = tensors_of(args)
    subclasses = dispatch_subclasses(tensors)
    if len(subclasses) == 1 and not state.dispatch_modes and not table.python_rules:
        bound = getattr(type(subclasses[0]), "__bound_dispatch__", None)
        if bound is not None:
            return bound(overload, args)
    types = tuple(type(t) for t in subclasses)
    positional, named = public_args(overload, args)
    own = (overload, positional, named)
    if state.dispatch_modes:
        with below(state.dispatch_modes) as mode:
            rule = table.python_rules.get((overload.name, type(mode)))
            handler = mode.__torch_dispatch__ if rule is None else functools.partial(rule, mode)
            func, given, options = own if seen is None or mode.own_ops else seen
            result = handler(func, types, given, options)
        if result is not NotImplemented:
            return result
        _declined(mode, overload, types)
    for t in subclasses:
        handler = table.python_rules.get((overload.name, type(t)), type(t).__torch_dispatch__)
        func, given, options = own if seen is None or getattr(type(t), "own_ops", False) else seen
        result = handler(func, types, given, options)
        if result is not NotImplemented:
            return result
        _declined(t, overload, types)
    if subclasses:
        raise TypeError(
            f"Multiple dispatch failed for {overload.name}: all __torch_dispatch__ handlers returned NotImplemented:"
            f" {[c.__name__ for c in types]}"
        )
    if private_use.state.is_used and (any(t._keys & PRIVATE for t in tensors) or is_placed_privately(overload, args)):
        return late.provided("private call")(*(seen or own))
    kernel = backend_kernel(overload, registered_name(overload), device_of(args))
    return call_kernel(overload, kernel, args) if kernel is not None else overload.backend(*args)


# --- registered kernels -----------------------------------------------------------------------------------------------


def registered_name(overload: Any) -> str:
    """The name registrations of this op are filed under."""
    return overload.name


def autograd_keys(device: Any) -> tuple[Any, ...]:
    """Keys under which an autograd kernel for a device may be registered."""
    backend = backend_of(device)
    own = AUTOGRAD_OF.get(backend) if isinstance(backend, DispatchKey) else DispatchKey.AutogradPrivateUse1
    return (own, DispatchKey.Autograd) if own is not None else (DispatchKey.Autograd,)


def autocast_keys(device: Any) -> tuple[Any, ...]:
    """Keys of mixed precision that concern a device now: none where it is off for it."""
    keys, excluded = _C.get_thread_keys()
    if not keys & ~excluded & AUTOCAST:
        return ()
    from . import autocast  # noqa: PLC0415 - most programs never need it

    if not autocast.state.enabled.get(device.type):
        return ()
    own = AUTOCAST_OF.get(device.type)
    return (DispatchKey.Autocast,) if own is None else (own, DispatchKey.Autocast)


def registered_above(overload: Any, name: str, args: tuple, device: Any) -> tuple[Any] | None:
    """A kernel registered at autograd's level or above, with its result; None if there is none."""
    if not overload.overridden:
        return None
    for key in (*_ABOVE_AUTOCAST, *autocast_keys(device), *_ABOVE_AUTOGRAD, *autograd_keys(device),
                DispatchKey.CompositeImplicitAutograd):
        kernel = table.find(name, key)
        if kernel is None or kernel is table.FALLTHROUGH or (name, key) in _running.calls:
            continue
        positional, named = public_args(overload, args)
        lead = (keyset_of(overload, args),) if (name, key) in table.with_keyset else ()
        return (call_guarded((name, key), kernel, (*lead, *positional), named),)
    return None


class _Running:
    @property
    def calls(self) -> list[tuple[str, Any]]:
        """Registered kernels now on this thread's stack: the list that the core keeps."""
        return _C.running_kernels()


_running = _Running()


def call_guarded(call: tuple[str, Any], kernel: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Run a kernel with itself skipped, so that calling the op again goes to the keys below."""
    _running.calls.append(call)
    try:
        return kernel(*args, **kwargs)
    finally:
        _running.calls.pop()


def call_kernel(overload: Any, kernel: Callable, args: tuple) -> Any:
    """Run a registered backend kernel. It knows nothing of conjugate and negative bits: it is handed the elements that
    are shown, and what it writes to them goes back through the bits."""
    given = args
    if any(t._keys & BITS for t in tensors_of(args)):
        given = levels.map_args(lambda t: t.clone() if t._keys & BITS else t, args)
    positional, named = public_args(overload, given)
    result = kernel(*positional, **named)
    if given is args:
        return result
    was = {id(new): old for old, new in zip(tensors_of(args), tensors_of(given), strict=True) if old is not new}
    written = [a for p, a in zip(overload.definition.spec.params, given, strict=True) if p.mutated]
    for new in tensors_of(tuple(written)):
        if id(new) in was:
            was[id(new)].copy_(new)
    return levels.map_tensors(lambda t: was.get(id(t), t), result)


def backend_kernel(overload: Any, name: str, device: Any) -> Callable | None:
    """A registered implementation for the device; a custom op's fake is what it has for meta."""
    key = backend_of(device)
    if key is DispatchKey.Meta and getattr(overload.definition, "fake", None) is not None:
        return None
    for k in (
        key,
        DispatchKey.CompositeExplicitAutograd,
        *(() if isinstance(key, DispatchKey) or private_use.state.is_used else (DispatchKey.PrivateUse1,)),
    ):
        kernel = table.find(name, k)
        if kernel is not None and kernel is not table.FALLTHROUGH and (name, k) not in _running.calls:
            return lambda *args, _k=k, _f=kernel, **kwargs: call_guarded((name, _k), _f, args, kwargs)
    return None


def keyset_of(overload: Any, args: tuple) -> DispatchKeySet:
    """The keys this call passes through, for people and for `with_keyset` kernels."""
    tensors, device = tensors_of(args), device_of(args)
    keys: list[Any] = []
    if state.function_modes or overloaded_types(tensors):
        keys.append(DispatchKey.PythonMode)
    if levels.state.stack:
        keys.append(DispatchKey.FuncTorchDynamicLayer)
    if _C.is_grad_enabled() and overload.records and any(t.requires_grad for t in tensors):
        keys.append(autograd_keys(device)[0])
    if wants_torch_dispatch(tensors):
        keys.append(DispatchKey.Python)
    keys.append(DispatchKey.CompositeImplicitAutograd if is_composite(overload) else backend_of(device))
    return DispatchKeySet(keys)


# --- RUSHLIGHT_SHOW=dispatch ------------------------------------------------------------------------------------------


def describe(value: Any) -> str:
    """A short word for an argument."""
    if isinstance(value, Tensor):
        grad = ", grad" if value.requires_grad else ""
        return f"{value.dtype.name}{list(value.shape)}{grad}"
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], Tensor):
        return "[" + ", ".join(describe(v) for v in value) + "]"
    return repr(value)


def traced(overload: Any, args: tuple, written: tuple = ()) -> Any:
    """Print the call, indented by depth, with the keys it passes through; then run it."""
    global _depth
    positional, named = public_args(overload, args)
    shown = [describe(a) for a in positional] + [f"{k}={describe(v)}" for k, v in named.items()]
    keys = " > ".join(k if isinstance(k, str) else k.name for k in keyset_of(overload, args))
    print(f"{'  ' * _depth}{overload.name}({', '.join(shown)})  [{keys}]", file=sys.stderr)
    _depth += 1
    try:
        return route(overload, args, written)
    finally:
        _depth -= 1
