"""Writes as values, call by call: what a graph of ATen ops does to memory, without writing.

Enters: calls in order, on fake tensors. Leaves: calls that write nothing, recorded by a `Recorder`; the current value
of any tensor. Memory that was written to has a newest value; a tensor that looks at it is computed from that by the
same views when it is next used. A write through a view goes back to the memory by the inverse of each view.
Refuses: writes through views that have no inverse here, naming the op.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _C
from .._C import Tensor
from ..aten.calls import aten_overload
from ..aten.overloads import AtenOverload
from ..base.shape import contiguous_format
from ..fx.node import map_aggregate
from ..op import find_op, ops
from .recording import Recorder


class _Memory:
    """One allocation: its newest value, and how often it was written to."""

    def __init__(self, value: Tensor) -> None:
        self.value, self.version = value, 0


class _Seen:
    """How a tensor looks at memory: the views from the whole of it, and when its value was last right."""

    def __init__(self, memory: _Memory, views: tuple, version: int) -> None:
        self.memory, self.views, self.version = memory, views, version
        self.value: Tensor | None = None


class Functional:
    """The state of one run."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.seen: dict[int, _Seen] = {}
        self.kept: list[Tensor] = []          # what `seen` knows by identity stays alive

    def own(self, t: Tensor) -> _Seen:
        """A tensor with memory of its own."""
        self.kept.append(t)
        found = self.seen[id(t)] = _Seen(_Memory(t), (), 0)
        return found

    def is_written(self, t: Tensor) -> bool:
        """Whether somebody wrote to the tensor's memory."""
        return id(t) in self.seen and self.seen[id(t)].memory.version > 0

    def current(self, t: Tensor) -> Tensor:
        """The tensor as it is now."""
        found = self.seen.get(id(t))
        if found is None or found.version == found.memory.version:
            return t if found is None or found.value is None else found.value
        value = found.memory.value
        for target, args, kwargs in found.views:
            value = self.run(target, (value, *args), kwargs)
        found.value, found.version = value, found.memory.version
        return value

    # --- calls --------------------------------------------------------------------------------------------------------

    def call(self, target: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A call that may write, without writing."""
        now, kw = map_aggregate((args, kwargs), lambda a: self.current(a) if isinstance(a, Tensor) else a)
        if target.inplace:
            return self.write(target, args, now, kw)
        if isinstance(target, _C.Overload) and any(p.mutated for p in target.definition.spec.params):
            return self.write_to_copies(target, (args, kwargs), now, kw)
        if target._opname == "batch_norm" and now[5] and now[3] is not None:
            return self.batch_norm(args, now)
        result = self.run(target, now, kw)
        if is_view(target) and args and isinstance(args[0], Tensor):
            self.note_view(target, args, kwargs, result)
        else:
            for t in [result] if isinstance(result, Tensor) else result if isinstance(result, (tuple, list)) else ():
                if isinstance(t, Tensor) and id(t) not in self.seen:
                    self.own(t)
        return result

    def run(self, target: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        return target(*args, **kwargs)

    def note_view(self, target: Any, args: tuple, kwargs: dict[str, Any], result: Any) -> None:
        base = self.seen.get(id(args[0])) or self.own(args[0])
        for i, t in enumerate([result] if isinstance(result, Tensor) else result):
            step = (target, args[1:], kwargs)
            if not isinstance(result, Tensor):
                step = (_Part(target, i), args[1:], kwargs)
            self.kept.append(t)
            self.seen[id(t)] = _Seen(base.memory, (*base.views, step), base.memory.version)

    def batch_norm(self, args: tuple, now: tuple) -> Tensor:
        """The norm of a batch, which changes the running statistics too."""
        result, _, _, *running = find_op("_native_batch_norm_legit_functional")(*now[:8])
        for t, value in zip(args[3:5], running, strict=True):
            self.assign(t, value)
        self.own(result)
        return result

    def write(self, target: Any, args: tuple, now: tuple, kwargs: dict[str, Any]) -> Any:
        """A write: its value becomes that of the memory it went to."""
        result = self.functional_form(target, now, kwargs)
        self.assign(args[0], _like(result, now[0]))
        return args[0]

    def write_to_copies(self, target: Any, given: tuple[tuple, dict], now: tuple, kwargs: dict[str, Any]) -> Any:
        """A call of an op of the program's own that writes to arguments: it does to copies, which are their values."""
        places, names = list(now), dict(kwargs)
        copies = []
        for i, p in enumerate(target.definition.spec.params):
            own, key = (places, i) if i < len(places) else (names, p.name)
            if p.mutated and isinstance(places[i] if own is places else names.get(p.name), Tensor):
                own[key] = own[key].clone()
                copies.append(((given[0] if own is places else given[1])[key], own[key]))
        result = self.run(target, tuple(places), names)
        for written, value in copies:
            self.own(value)
            self.assign(written, value)
        return result

    def assign(self, written: Tensor, value: Tensor) -> None:
        """A tensor has another value from now on."""
        found = self.seen.get(id(written)) or self.own(written)
        found.memory.value = self.put_back(found, value)
        found.memory.version += 1
        found.value, found.version = value, found.memory.version

    def functional_form(self, target: Any, now: tuple, kwargs: dict[str, Any]) -> Tensor:
        name, label = target._opname.removesuffix("_"), target._overloadname
        if name == "copy":
            return _like(now[1], now[0]).clone()
        if name in ("fill", "zero"):
            value = now[1] if name == "fill" else 0
            if isinstance(value, Tensor):
                return _like(value, now[0]).clone()
            return find_op("full_like")(now[0], value)
        found = aten_overload(name, label)
        if found is None and name not in ops:
            raise NotImplementedError(
                f"run_decompositions: {target} writes, and there is no op that computes the same without writing"
            )
        return (found or find_op(name))(*now, **kwargs)

    def put_back(self, found: _Seen, value: Tensor) -> Tensor:
        """The value of the whole memory after `value` was written through the views of `found`."""
        if not found.views:
            return value
        stages = [found.memory.value]
        for target, args, kwargs in found.views[:-1]:
            stages.append(self.run(target, (stages[-1], *args), kwargs))
        for stage, (target, args, kwargs) in zip(reversed(stages), reversed(found.views), strict=True):
            value = _inverse(target)(stage, value, *args, **kwargs)
        return value


def _like(value: Tensor, target: Tensor) -> Tensor:
    """The value as what it is written to has it."""
    value = value if value.dtype is target.dtype else value.to(target.dtype)
    return value if tuple(value.shape) == tuple(target.shape) else value.expand(list(target.shape))


class _Part:
    """One of the results of a view that gives several."""

    inplace = False

    def __init__(self, target: Any, index: int) -> None:
        self.target, self.index = target, index
        self._opname = target._opname

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.target(*args, **kwargs)[self.index]


_VIEWS_BY_NAME = frozenset(
    ("reshape", "flatten", "t", "chunk", "split", "split_with_sizes", "unbind", "expand_as", "view_as", "narrow",
     "unflatten", "movedim", "swapaxes", "swapdims", "squeeze", "unsqueeze", "detach", "alias")
)


def is_view(target: Any) -> bool:
    """Whether a call gives another look at its argument."""
    if isinstance(target, AtenOverload):
        return target.is_view or target._opname in _VIEWS_BY_NAME
    return isinstance(target, _C.Overload) and (target.is_view or target._opname in _VIEWS_BY_NAME)


# --- inverses: the memory with a view of it replaced ------------------------------------------------------------------


def _reshaped(base: Any, value: Any, *args: Any) -> Any:
    return value.reshape(list(base.shape))


def _slice(base: Any, value: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return find_op("slice_scatter")(base, value, dim, start, end, step)


def _permuted(base: Any, value: Any, dims: Any) -> Any:
    order = [d % value.ndim for d in dims]
    return value.permute([order.index(d) for d in range(len(order))])


def _part_inverse(part: _Part) -> Callable:
    def inverse(base: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        pieces = list(part.target(base, *args, **kwargs))
        pieces[part.index] = value
        if part._opname == "unbind":
            return find_op("stack")(pieces, args[0] if args else kwargs.get("dim", 0))
        return find_op("cat")(pieces, args[1] if len(args) > 1 else kwargs.get("dim", 0))

    return inverse


_INVERSES: dict[str, Callable] = {
    "view": _reshaped, "reshape": _reshaped, "flatten": _reshaped, "unsqueeze": _reshaped, "squeeze": _reshaped,
    "unflatten": _reshaped, "view_as": _reshaped, "_unsafe_view": _reshaped, "slice": _slice, "permute": _permuted,
    "narrow": lambda base, value, dim, start, length: _slice(base, value, dim, start, start + length),
    "select": lambda base, value, dim, index: find_op("select_scatter")(base, value, dim, index),
    "transpose": lambda base, value, a, b: value.transpose(a, b), "t": lambda base, value: value.t(),
    "diagonal": lambda base, value, *args: find_op("diagonal_scatter")(base, value, *args),
    "detach": lambda base, value: value, "alias": lambda base, value: value,
    "as_strided": lambda base, value, *args: find_op("as_strided_scatter")(base.clone(
        memory_format=contiguous_format), value, *args),
}


def _inverse(target: Any) -> Callable:
    if isinstance(target, _Part):
        return _part_inverse(target)
    found = _INVERSES.get(target._opname)
    if found is None:
        raise NotImplementedError(
            f"run_decompositions: the program writes through a view made by {target}, which has no inverse here. "
            "Write to a copy, and assign that."
        )
    return found
