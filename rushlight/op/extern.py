"""Extern ops: a meta rule, a derivative, and per-device implementations that call a library.

Enters: a definition with `meta` and `cpu` (or `steps`, for calls the core can replay without Python).
Leaves: an op whose outputs are allocated from `meta`. On a device without an implementation of its own the inputs
are computed on the host and the results copied back, so a new device starts complete and is made fast op by op.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from .. import _C
from ..devices import device_of, handlers
from ..loops.record import Record
from .definition import KIND_PYTHON, OpDefinition
from .results import result_type


class Spec(Record):
    """Shape, dtype and (optionally) strides of an output."""

    shape: tuple[int, ...]
    dtype: Any
    strides: tuple[int, ...] | None = None


class Extern(OpDefinition):
    """A definition whose body is a call into a library."""

    kind = KIND_PYTHON
    computes: ClassVar[bool] = True      # False: it compares and moves elements, and adds or multiplies none

    def meta(self, *args: Any) -> Spec | tuple[Spec, ...]:
        """The outputs' specs; raises for arguments the op refuses."""
        raise NotImplementedError

    def cpu(self, out: Any, *args: Any) -> None:
        """Fill `out` (a tensor, or a tuple of them) on the host."""
        raise NotImplementedError

    def flops(self, *args: Any) -> int | None:
        """Floating-point operations of such a call, of which no Lowered tells; None: nobody has counted them."""
        return None if self.computes else 0

    def run(self, *args: Any) -> Any:
        device = device_of(args)
        specs = self.meta(*args)
        single = isinstance(specs, Spec)
        given = (specs,) if isinstance(specs, Spec) else specs
        outs = tuple(_C.empty(s.shape, s.strides, s.dtype, device) for s in given)
        if device.type != "meta":
            self.implementation(device)(outs[0] if single else outs, *args)
        return outs[0] if single else self.wrap(outs)

    def wrap(self, outs: tuple) -> Any:
        """Several outputs as the op returns them."""
        names = self.spec.return_names
        return result_type(self.spec.name, names)(outs) if names else outs

    # elsewhere(out, *args): the same by other ops, for devices without an implementation of their own, or whose own
    # returns False for these arguments
    elsewhere: ClassVar[Callable | None] = None

    def implementation(self, device: Any) -> Any:
        if device.type == "cpu":
            return self.cpu
        handler = handlers[device.type]
        if self.elsewhere is not None:
            own = handler.own(self.spec.name)
            return self.elsewhere if own is None else functools.partial(self.own_or_elsewhere, own)
        return handler.own_or_report(self.spec.name) or self.through_host

    def own_or_elsewhere(self, own: Callable, out: Any, *args: Any) -> None:
        """By the device's function, unless it returns False: it does not take these arguments then."""
        otherwise: Any = self.elsewhere
        if own(out, *args) is False:
            otherwise(out, *args)

    def through_host(self, out: Any, *args: Any) -> None:
        """Run on the host for a device that has no implementation of its own."""
        host = [_to_host(a) for a in args]
        result = self.run(*host)
        for target, source in zip(out, result, strict=True) if isinstance(out, tuple) else ((out, result),):
            target.copy_(source)


class OwnPlans(Extern):
    """An extern that keeps its plans itself: eager calls run them, graphs take them apart."""

    def exact_plan(self, args: tuple) -> Any:
        """A plan for tensors of exactly these sizes, whose elements lie in order."""
        raise NotImplementedError

    def plan(self, args: tuple) -> Any:
        return self.exact_plan(args)


def own_function(name: str, device: Any) -> Callable | None:
    """The function that a plugged-in device has for a library op; None on the host, and where it has none."""
    return None if device.type in ("cpu", "meta") else handlers[device.type].own(name)


def own_or_reported(name: str, device: Any) -> Callable | None:
    """The same; that there is none, and the host serves, is shown (RUSHLIGHT_SHOW=fallback)."""
    return None if device.type in ("cpu", "meta") else handlers[device.type].own_or_report(name, expected=True)


def recorded_transfer(target: Any, source: Any) -> bool:
    """Elements to or from a device that writes calls down, by its own way; False where neither is such a device."""
    handler: Any      # a lazy device, which has two methods more than others
    if _C.records(source.device):
        handler = handlers[source.device.type]
        target.copy_(handler.to_host(source))
    elif _C.records(target.device):
        handler = handlers[target.device.type]
        handler.from_host(target, source)
    else:
        return False
    return True


def on_other_device(name: str, device: Any, args: tuple, compute: Any) -> Any:
    """A library op on a plugged-in device: by the device's own function, or by `compute` on the host, copied back.

    The outputs that the device's function fills are those that `compute` makes of meta tensors; it may return others,
    or NotImplemented for arguments it does not take.
    """
    own = handlers[device.type].own_or_report(name)
    if own is not None:
        shapes = compute(*_moved(args, "meta"))
        outs = _room.taken(name, shapes) or _moved(
            shapes, device, lambda t, place: _C.empty(tuple(t.shape), t.stride(), t.dtype, place)
        )
        result = own(outs, *args)
        if result is not NotImplemented:
            return outs if result is None else result
        handlers[device.type].fall_back(name)
    result = compute(*_moved(args, "cpu"))
    out = _room.taken(name, result)
    return _moved(result, device) if out is None else out.copy_(result)


class _Room(threading.local):
    """Where a plan wants the one result of a library op that it calls."""

    name: str = ""
    out: Any = None

    def taken(self, name: str, like: Any) -> Any:
        """The tensor to fill, once; None where another op is called, or what it gives lies otherwise."""
        out = self.out
        if out is None or name != self.name or not isinstance(like, _C.Tensor) or out.dtype is not like.dtype \
                or out.shape != like.shape or out.stride() != like.stride():
            return None
        self.out = None
        return out


_room = _Room()


def called_into(overload: Any, out: Any, args: Sequence[Any]) -> Any:
    """The result of an op, which is `out` where the op calls a library that could write there."""
    before = _room.name, _room.out
    _room.name, _room.out = overload.definition.name, out
    try:
        return overload.call(*args)
    finally:
        _room.name, _room.out = before


def _moved(value: Any, place: Any, move: Any = None) -> Any:
    """Tensors, those in lists and tuples (named ones too) included, at another place."""
    if isinstance(value, _C.Tensor):
        return move(value, place) if move else value.to(place)
    if isinstance(value, (list, tuple)):
        parts = [_moved(x, place, move) for x in value]
        return tuple(parts) if type(value) is tuple else type(value)(parts)
    return value


def _to_host(a: Any) -> Any:
    return _moved(a, "cpu")
