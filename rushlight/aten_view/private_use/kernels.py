"""Calls on PyTorch's device of others (PrivateUse1): the kernel that a back end registered, or what stands in for one.

Enters: one of ATen's overloads with its arguments, below autograd, some tensor or the result of which lies on the
device. Leaves: its result. Asked in PyTorch's order: a kernel of the overload; for overloads that PyTorch writes by
their form with out=, that form, with results made first; PyTorch's composites below autograd; the fallback of the key.
Refuses: overloads for which none of these is there (NotImplementedError, naming the op, the device and the keys that
have one).
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ..._C import Tensor
from ..._decomp.aten_forms import aten_rule
from ..._decomp.core import rule_of
from ...aten.calls import aten_call
from ...aten.overloads import schemas_of
from ...base.shape import contiguous_format
from ...devices import private_use
from ...devices.private_use import PRIVATE
from ...dispatch import table
from ...dispatch.dispatcher import tensors_of
from ...dispatch.keys import DispatchKey, DispatchKeySet
from ...op.results import result_type
from ...rules import levels
from ..factories import with_options
from .composites import EXPLICIT, foreach
from .forms import NOTHING, Form, Row, call, full_name, out_form, row_table

KEY = DispatchKey.PrivateUse1


# --- one call ---------------------------------------------------------------------------------------------------------


def kernel_for(func: Any, key: DispatchKey = KEY) -> Any:
    """The function a back end registered for an overload; None where there is none, or it says to pass on."""
    found = table.private.get((full_name(func), key))
    return None if found is table.FALLTHROUGH else found


def run(func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A call on the device, below autograd."""
    name = full_name(func)
    if "::" in getattr(func, "_qualname", "") or _is_custom(func):
        return _run_custom(func, args, kwargs)
    kernel = table.private.get((name, KEY))
    if kernel is table.FALLTHROUGH:
        raise NotImplementedError(
            f"aten::{_short(name)}: there were no tensor arguments to this function that a key takes: its kernel for"
            f" '{private_use.state.name}' passes on, and no fallback function is registered below it."
        )
    if kernel is not None:
        lead = (_keys(),) if (name, KEY) in table.with_keyset else ()
        return _named(func, kernel(*lead, *args, **kwargs))
    answer = _composite(func, name, args, kwargs)
    if answer is not NotImplemented:
        return answer
    return _fall_back(func, args, kwargs)


def _fall_back(func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The fallback of the key."""
    fallback = table.fallbacks.get(KEY)
    if fallback is None or fallback is table.fallthrough_kernel:
        raise missing(func)
    lead = (_keys(),) if ("_", KEY) in table.with_keyset else ()
    return _named(func, fallback(*lead, func, *args, **kwargs))


def _named(func: Any, result: Any) -> Any:
    """Several results as the class that PyTorch has for them."""
    spec = getattr(getattr(func, "definition", None), "spec", None)
    names = getattr(spec, "return_names", None)
    if type(result) is not tuple or not names or len(names) != len(result):
        return result
    return result_type(spec.name, names)(result)


def _keys() -> DispatchKeySet:
    """What a kernel that asks for the keys of its call gets."""
    return DispatchKeySet([KEY])


def _is_custom(func: Any) -> bool:
    definition = getattr(func, "definition", None)
    return bool(getattr(definition, "custom", False))


def _run_custom(func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    for key in (KEY, DispatchKey.CompositeExplicitAutograd):
        kernel = table.find(func.name, key)
        if kernel is not None and kernel is not table.FALLTHROUGH:
            return kernel(*args, **kwargs)
    return _fall_back(func, args, kwargs)


def run_out(overload: Any, args: tuple, out: Any) -> Any:
    """A call with out= that writes to a tensor on the device, or reads one."""
    found = aten_call(overload, args)
    form = None if found is None else out_form(full_name(found[0]))
    if found is None or form is None:
        raise missing(overload)
    _, given, named = with_options(*found)
    named = {k: v for k, v in named.items() if k not in ("device", "pin_memory")}
    outs = tuple(out) if isinstance(out, (list, tuple)) else (out,)
    names = row_table()[full_name(found[0])].names
    run(form, given, {**named, **dict(zip(names, outs, strict=True))})
    return out


# --- stand-ins --------------------------------------------------------------------------------------------------------


def as_meta(value: Any) -> Any:
    """A tensor on the device, without elements, for shape rules; what refers to the device likewise."""
    if isinstance(value, Tensor):
        if value.device.type == "meta":
            return value
        return _C.make_wrapper(Tensor, tuple(value.shape), tuple(value.stride()), value.dtype, _C.device("meta"),
                               value.storage_offset())
    if isinstance(value, (list, tuple)):
        return type(value)([as_meta(v) for v in value]) if type(value) in (list, tuple) else value
    return _C.device("meta") if private_use.is_private(value) else value


def shape_of(func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The results of a call, by its shape rule."""
    return func(*[as_meta(a) for a in args], **{k: as_meta(v) for k, v in kwargs.items()})


def _check_places(func: Any, args: tuple) -> None:
    if func._opname.startswith("index"):
        return
    places = dict.fromkeys(str(t.device) for t in tensors_of(args) if t.ndim or t._keys & PRIVATE)
    if len(places) > 1:
        raise RuntimeError(
            f"{func._opname}: expected all tensors to be on the same device, but found at least two devices,"
            f" {' and '.join(list(places)[:2])}!"
        )


def _structured(func: Any, form: Form, row: Row, args: tuple, kwargs: dict[str, Any]) -> Any:
    """An overload by its form with out=: the results are made first, or are what the call writes to."""
    _check_places(func, args)
    if func._opname.endswith("_"):
        run(form, args, {**kwargs, row.names[0]: args[0]})
        return args[0]
    shapes = shape_of(func, args, kwargs)
    listed = tuple(shapes) if isinstance(shapes, (tuple, list)) else (shapes,)
    device = next(t.device for t in tensors_of(args) if t._keys & PRIVATE)
    outs = [_made(t, device) for t in listed]
    run(form, args, {**kwargs, **dict(zip(row.names, outs, strict=True))})
    if len(outs) == 1:
        return outs[0]
    return type(shapes)(outs) if type(shapes) is not tuple else tuple(outs)


def _made(like: Tensor, device: Any) -> Tensor:
    """A new tensor on the device with the sizes and strides of a shape."""
    if like.is_contiguous():
        return call("empty.memory_format", list(like.shape), dtype=like.dtype, device=device,
                    memory_format=contiguous_format)
    return call("empty_strided", list(like.shape), list(like.stride()), dtype=like.dtype, device=device)


def _composite(func: Any, name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """What PyTorch has for an overload on every back end; NotImplemented where it has nothing."""
    if isinstance(func, Form):
        return _copied(func, args, kwargs) if func.is_copied else NotImplemented
    if isinstance(func, _C.Overload) and not schemas_of(func.name):     # a part of ours, as ATen's ops compute it
        rule = aten_rule(func)
        return NotImplemented if rule is None else rule(*args, **kwargs)
    row = row_table().get(name, NOTHING)
    if row.kind == "-":
        return NotImplemented
    rule = EXPLICIT.get(name) or EXPLICIT.get(func._opname) or foreach(name)
    answer = rule(*args, **kwargs) if rule is not None else NotImplemented
    if answer is not NotImplemented:
        return answer
    if getattr(func, "is_view", False) and not func._opname.endswith("_"):
        return _strided(args[0], shape_of(func, args, kwargs))
    form = out_form(name)
    if form is not None and tensors_of(args) and (not form.is_copied or kernel_for(form) is not None):
        return _structured(func, form, row, args, kwargs)
    rule = rule_of(name)
    return NotImplemented if rule is None else rule(*args, **kwargs)


def _copied(form: Form, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A form with out= that PyTorch makes of the other: the result, copied to where it is wanted."""
    outs = [kwargs[name] for name in form.writes]
    named = {k: v for k, v in kwargs.items() if k not in form.writes}
    result = run(form.functional, args, named)
    for out, value in zip(outs, result if isinstance(result, (tuple, list)) else (result,), strict=True):
        if out.shape != value.shape:
            out.resize_(value.shape)
        out.copy_(value)
    return outs[0] if len(outs) == 1 else tuple(outs)


def _strided(base: Tensor, views: Any) -> Any:
    def view(t: Tensor) -> Any:
        return call("as_strided", base, list(t.shape), list(t.stride()), t.storage_offset())

    return levels.map_tensors(view, views)


# --- refusals ---------------------------------------------------------------------------------------------------------


def _short(name: str) -> str:
    return name.removesuffix(".default")


def missing(func: Any) -> NotImplementedError:
    """What is said of an overload without a kernel."""
    name = func.name if isinstance(func.name, str) and "::" in func.name else f"aten::{_short(full_name(func))}"
    filed = full_name(func)
    keys = {k.name for n, k in table.private if n == filed} | {k.name if isinstance(k, DispatchKey) else k
                                                                for n, k in table.kernels if n == name}
    if name.startswith("aten::"):
        keys |= {"CPU", "Meta", "BackendSelect", "Python", "AutogradCPU", "AutogradPrivateUse1"}
    return NotImplementedError(
        f"Could not run '{name}' with arguments from the '{private_use.state.name}' backend: it has no kernel for the"
        f" dispatch key PrivateUse1, and there is no fallback. '{name}' is only available for these backends:"
        f" [{', '.join(sorted(keys))}]. Register one: torch.library.impl('{name}', 'privateuseone')."
    )
