"""Ops whose arguments are functions: how they run, how they are recorded, and how they are differentiated in a graph.

Enters: `op(*arguments)`, functions and tensors in the op's own order, where each function takes flat tensors and
returns a flat sequence of them, and needs nothing else (`closed` makes such a function of any). Leaves: a tuple.
On tensors with elements the op simply runs. While a graph is recorded (make_fx, export, AOTAutograd) each function
becomes a graph of its own, and the call one node; gradients are the same op again, on the functions' gradients. Refuses
(`NotRecordable`): functions that write to what they are given, results that do not fit, gradients that an op has no
rule for, function transforms around a call that is recorded.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

from .. import _C
from .._C import Tensor
from ..autograd import Function, enable_grad, grad as autograd_grad, no_grad
from ..base.shape import contiguous_format
from ..dispatch.modes import TorchFunctionMode, refresh, state
from ..fake import FakeTensor, FakeTensorMode
from ..op import ops
from ..rules import levels
from ..utils import _pytree as pytree


class NotRecordable(NotImplementedError):
    """A call that has no place in a graph."""


def tensors_in(arguments: Any) -> list[Tensor]:
    """All tensors of nested arguments."""
    return [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, Tensor)]


def recording_mode() -> Any:
    """The mode that makes a graph of the calls now, if one does."""
    return next((mode for mode in reversed(state.dispatch_modes) if mode.records), None)


class HigherOrderOp:
    """One op over functions. Subclasses say what it does."""

    name = ""

    def __init__(self) -> None:
        self.__name__ = self.__qualname__ = self.name
        self.__module__ = "torch.ops.higher_order"
        self._qualified_op_name = f"higher_order::{self.name}"

    def __repr__(self) -> str:
        return f"torch.ops.higher_order.{self.name}"

    def __reduce__(self) -> str | tuple:
        return find, (self.name,)

    # --- what subclasses give -----------------------------------------------------------------------------------------

    def functions(self, arguments: tuple) -> dict[str, tuple[int, list[Tensor]]]:
        """For each function, by the name of its graph: which argument it is, and tensors like those it is called with
        (in memory of others: only their sizes and types count)."""
        raise NotImplementedError

    def assuming(self, name: str, arguments: tuple) -> Any:
        """Inside, what is known of sizes is what the function of this name is called with."""
        return contextlib.nullcontext()

    def run(self, *arguments: Any) -> Sequence[Tensor]:
        """The op on real tensors."""
        raise NotImplementedError

    def imitated(self, arguments: tuple, result: dict[str, list[Tensor]]) -> list[Tensor]:
        """Tensors like the results, from what each function returned for tensors like its own."""
        raise NotImplementedError

    def differentiated(self, arguments: tuple) -> Sequence[Tensor]:
        """The op as one step of the tape."""
        raise NotRecordable(f"{self.name}: gradients through it cannot be part of a graph")

    # --- calls --------------------------------------------------------------------------------------------------------

    def __call__(self, *arguments: Any) -> tuple[Tensor, ...]:
        watching = state.function_modes[-1] if state.function_modes else None
        if isinstance(watching, _Watching):      # a call inside of a function that is looked at
            with dispatching(state.dispatch_modes, state.function_modes[:-1]):
                return watching.__torch_function__(self, (), arguments)
        tensors = tensors_in(arguments)
        mode = recording_mode()
        if mode is None and not any(isinstance(t, FakeTensor) for t in tensors):
            return tuple(self.run(*arguments))
        if levels.state.stack:
            raise NotRecordable(f"{self.name}: a call inside of a function transform cannot be recorded")
        is_taped = mode is None or mode.records_gradients
        if is_taped and _C.is_grad_enabled() and any(t.requires_grad for t in tensors):
            return tuple(self.differentiated(arguments))
        if mode is not None:
            return tuple(mode.record_higher_order(self, arguments))
        result = {}
        for name, (at, like) in self.functions(arguments).items():
            with self.assuming(name, arguments):
                result[name] = checked_results(self, name, arguments[at], like)
        return tuple(self.imitated(arguments, result))


REGISTRY: dict[str, HigherOrderOp] = {}


def register(op: HigherOrderOp) -> HigherOrderOp:
    """Make an op known by its name."""
    REGISTRY[op.name] = op
    return op


def find(name: str) -> HigherOrderOp:
    """The op of a name."""
    return REGISTRY[name]


# --- functions on tensors without elements ----------------------------------------------------------------------------


def fake_mode_for(tensors: Sequence[Any]) -> FakeTensorMode:
    """The mode that tensors like these belong to."""
    found = next((t.fake_mode for t in tensors if isinstance(t, FakeTensor)), None)
    found = found or next((m for m in reversed(state.dispatch_modes) if isinstance(m, FakeTensorMode)), None)
    return found or FakeTensorMode(allow_non_fake_inputs=True)


def apart(t: Tensor, mode: FakeTensorMode) -> Tensor:
    """A fake like `t` in memory of its own, without its history."""
    with dispatching(()):
        strides = t.stride() if t._is_dense() else None
        return mode.empty(tuple(t.shape), strides, t.dtype, device_of(t))


def member_like(x: Tensor) -> Tensor:
    """A tensor like the members of `x` along its first dim, of which there may be none."""
    if not getattr(x, "_has_hidden_sizes", False) and not (isinstance(x.shape[0], int) and x.shape[0] == 0):
        return x.detach().select(0, 0)
    mode = fake_mode_for([x])
    with dispatching(()):
        return mode.empty(tuple(x.shape)[1:], x.stride()[1:], x.dtype, device_of(x))


def device_of(t: Tensor) -> Any:
    """The device a tensor is on, or stands for (which plans that are being made do not see)."""
    return t.fake_device if isinstance(t, FakeTensor) else t.device


class dispatching:  # noqa: N801 - used as a function
    """Inside, these dispatch modes are the active ones, and these function modes if they are given."""

    def __init__(self, modes: Sequence[Any], functions: Sequence[Any] | None = None) -> None:
        self.modes, self.functions = list(modes), functions

    def __enter__(self) -> None:
        self.before = state.dispatch_modes, state.function_modes
        state.dispatch_modes = self.modes
        if self.functions is not None:
            state.function_modes = list(self.functions)
        refresh()

    def __exit__(self, *exc: Any) -> None:
        state.dispatch_modes, state.function_modes = self.before
        refresh()


def as_results(op: Any, result: Any) -> list[Tensor]:
    """What a function of an op returned, as a list of tensors."""
    result = [result] if isinstance(result, Tensor) else list(result)
    for value in result:
        if not isinstance(value, Tensor):
            raise RuntimeError(f"{op.name}: expected its functions to return tensors, got {type(value).__name__}")
    return result


def checked_results(op: Any, name: str, function: Callable, like: Sequence[Tensor]) -> list[Tensor]:
    """What a function returns for tensors like these; each result in memory of its own."""
    mode = fake_mode_for(like)
    given = [apart(t, mode) for t in like]
    with dispatching([mode]):
        result = settled(op, name, function, given)
    return result


def settled(op: Any, name: str, function: Callable, given: Sequence[Tensor]) -> list[Tensor]:
    """function(*given), contiguous and in memory of its own; refused if it writes to what it is given."""
    versions = [t._version for t in given]
    result = as_results(op, function(*given))
    if any(t._version != version for t, version in zip(given, versions, strict=True)):
        raise NotRecordable(f"{op.name}: {name} writes to a tensor that it is given. Return the new value instead.")
    seen = {t.untyped_storage()._cdata for t in given}
    results = []
    for t in result:
        if not t.is_contiguous() or t.is_conj() or t.is_neg() or t.untyped_storage()._cdata in seen:
            t = t.clone(memory_format=contiguous_format)
        seen.add(t.untyped_storage()._cdata)
        results.append(t)
    return results


def expect_alike(op: Any, result: Sequence[Tensor], expected: Sequence[Tensor], what: str) -> None:
    """Refuse results whose number, sizes or types are not those expected."""
    shown = [[(tuple(t.shape), t.dtype) for t in values] for values in (result, expected)]
    if len(result) != len(expected) or any(
            a.dtype != b.dtype or len(a.shape) != len(b.shape) or any(m != n for m, n in zip(a.shape, b.shape))
            for a, b in zip(result, expected)):
        raise RuntimeError(f"{op.name}: {what}: got {shown[0]}, expected {shown[1]}")


def are_alike_but_for_sizes(a: Sequence[Tensor], b: Sequence[Tensor]) -> bool:
    """Whether tensors have the same types and ranks, where sizes that differ can be symbols."""
    env = fake_mode_for([*a, *b]).shape_env
    return env is not None and env.merges_sizes and len(a) == len(b) and all(
        x.dtype == y.dtype and x.ndim == y.ndim for x, y in zip(a, b, strict=True))


def of_either(a: Tensor, b: Tensor) -> Tensor:
    """A tensor without elements that is like one of two: which, only elements can tell."""
    mode = fake_mode_for([a, b])
    env: Any = mode.shape_env
    sizes = [m if (m == n) is True else env.size_of_either(m, n) for m, n in zip(a.shape, b.shape, strict=True)]
    return mode.empty(sizes, None, a.dtype, device_of(a))


# --- functions that need nothing else ---------------------------------------------------------------------------------


class _Watching(TorchFunctionMode):
    """Sees which tensors a function uses besides those it is given, and puts others in their place."""

    def __init__(self, known: Sequence[Tensor], instead: dict[int, Tensor]) -> None:
        super().__init__()
        self.known = {id(t): t for t in known}
        self.instead, self.found = instead, {}       # type: ignore[var-annotated]

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        args, kwargs = pytree.tree_map(self.seen, (args, kwargs or {}))
        result = func(*args, **kwargs)
        self.known.update({id(t): t for t in tensors_in(result)})
        return result

    def seen(self, value: Any) -> Any:
        if not isinstance(value, Tensor) or value._wrapped is not None:
            return value
        if id(value) in self.instead:
            return self.instead[id(value)]
        if id(value) not in self.known:
            self.found[id(value)] = value
        return value


def closed(functions: Sequence[tuple[Callable, Sequence[Tensor]]], assumptions: Sequence[Any] | None = None
           ) -> tuple[list[Callable], list[Tensor]]:
    """Functions that take the tensors they found elsewhere as further arguments, the same for all of them; and those
    tensors. Each function comes with tensors like those it is called with, and with what is assumed meanwhile."""
    found: dict[int, Tensor] = {}
    for k, (function, like) in enumerate(functions):
        if getattr(function, "graph", None) is not None:      # a graph holds what it needs
            continue
        mode = fake_mode_for(like)
        with contextlib.nullcontext() if assumptions is None else assumptions[k]:
            given = [apart(t, mode) for t in like]
            with no_grad(), dispatching([mode], []), _Watching(given, {}) as watching:
                function(*given)
        found.update(watching.found)
    lifted = list(found.values())

    def with_lifted(function: Callable, count: int) -> Callable:
        def run(*values: Tensor) -> Any:
            instead = {id(t): v for t, v in zip(lifted, values[count:], strict=True)}
            with _Watching(values, instead):
                return function(*values[:count])

        return run

    return [with_lifted(f, len(like)) if lifted else f for f, like in functions], lifted


# --- gradients --------------------------------------------------------------------------------------------------------


def is_differentiable(t: Tensor) -> bool:
    return t.dtype.is_floating_point or t.dtype.is_complex


def vjp(function: Callable, inputs: Sequence[Tensor], grads: Sequence[Tensor], wanted: Sequence[int]) -> list[Tensor]:
    """Gradients of a function's differentiable results (`grads`, in their order) for some of its inputs; zeros where a
    result does not depend on one."""
    with enable_grad():
        leaves = [t.detach() for t in inputs]
        for i in wanted:
            leaves[i].requires_grad_()
        result = [t for t in function(*leaves) if is_differentiable(t)]
        pairs = [(t, g) for t, g in zip(result, grads, strict=True) if t.requires_grad]
        wrt = [leaves[i] for i in wanted]
        found = (None,) * len(wrt)
        if pairs:
            found = autograd_grad([t for t, _ in pairs], wrt, [g for _, g in pairs], allow_unused=True)
    return [ops["zeros_like"](inputs[i]) if g is None else g for i, g in zip(wanted, found, strict=True)]


class Step(Function):
    """One call of an op on the tape. `rules` are (forward, backward): forward(*tensors) gives results and further
    tensors to keep; backward(tensors, kept, gradients) the gradients of the tensors."""

    @staticmethod
    def forward(ctx: Any, rules: tuple[Callable, Callable], *tensors: Tensor) -> tuple[Tensor, ...]:
        results, kept = rules[0](*tensors)
        ctx.rules, ctx.count = rules, len(tensors)
        ctx.save_for_backward(*tensors, *kept)
        ctx.mark_non_differentiable(*[t for t in results if not is_differentiable(t)])
        ctx.set_materialize_grads(False)      # zeros are made by ops, so that they are recorded too
        ctx.like = [(tuple(t.shape), t.dtype, device_of(t)) if is_differentiable(t) else None for t in results]
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple:
        saved = ctx.saved_tensors
        grads = tuple(
            ops["zeros"](like[0], dtype=like[1], device=like[2]) if g is None and like is not None else g
            for g, like in zip(grads, ctx.like, strict=True)
        )
        before, _again.running = _again.running, True
        try:
            return None, *ctx.rules[1](saved[: ctx.count], saved[ctx.count :], grads)
        finally:
            _again.running = before


class _Again(threading.local):
    running = False      # functions are called once more, for their gradients


_again = _Again()


def check_draws(op: HigherOrderOp, draws: bool) -> None:
    """Refuse random numbers where a function runs again for its gradient: they would be others."""
    if draws and _again.running:
        raise NotRecordable(
            f"{op.name}: its functions draw random numbers, and their gradients would need the same ones again"
        )
