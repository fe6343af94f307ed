"""Marks on functions and tensors that tell graph capture what to do.

Enters: functions, modules, tensors. Leaves: the same objects, marked where PyTorch leaves a mark; `disable` gives a
function around the given one. Refuses: arguments PyTorch refuses.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from types import FunctionType, MethodType
from typing import Any

from .. import _C
from .._C import Tensor
from ..dynamo import settings as config
from ..dynamo.record import marks
from ..nn import Module
from . import registry

_STANCES = frozenset(
    (
        "default",
        "force_eager",
        "eager_on_recompile",
        "fail_on_recompile",
        "eager_then_compile",
        "aot_eager_then_compile",
    )
)


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None, wrapping: bool = True) -> Any:
    """Not to be compiled, and with `recursive` neither is what it calls. Usable bare, with arguments,
    on functions and modules."""
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason, wrapping=wrapping)
    if not callable(fn):
        raise AssertionError(f"disable: expected a callable, got {type(fn).__name__}")
    if isinstance(fn, Module):
        fn.forward = disable(fn.forward, recursive=recursive, reason=reason)
        return fn
    if recursive and isinstance(fn, (FunctionType, MethodType, _C.CompiledCallable)):
        fn = _undisturbed(fn)
    with contextlib.suppress(AttributeError, TypeError):   # built-in functions cannot be marked, and need not be
        fn._torchdynamo_disable = True
        fn._torchdynamo_disable_msg = reason
        fn._torchdynamo_disable_recursive = recursive
    return fn


def is_dynamo_disable_recursive(method: Callable) -> bool | None:
    """Whether `disable` marked a function together with all that it calls; None where it did not mark it."""
    return getattr(method, "_torchdynamo_disable_recursive", None)


def allow_c_slot(tp: type, *, tp_hash: bool = True, tp_richcompare: bool = True) -> type:
    """Objects of a class written in C may be hashed and compared while a program is captured. Where capture does not
    use this permission, the comparison ends the graph and runs as it is."""
    if not isinstance(tp, type):
        raise TypeError(f"allow_c_slot: expected a class, got {type(tp).__name__}")
    return tp


def disable_nested_graph_breaks(fn: Callable | None = None) -> Any:
    """For a block or a function: a break inside of a called function ends the graph of the caller at its call. That is
    always so here."""
    return contextlib.nullcontext() if fn is None else fn


def override_optimization_hint(x: Any, val: int) -> None:
    """Advises compilers that choose by a size, which this one does not, what a number from elements may be."""
    if not isinstance(val, int):
        raise TypeError(f"override_optimization_hint: expected an int as the hint, got {type(val).__name__}")


def override_cudagraphs(fwd: bool | None = None, bwd: bool | None = None) -> Any:
    """Refused: whether graphs are replayed is a choice of `compile`."""
    raise NotImplementedError(
        "override_cudagraphs: which graphs are replayed cannot be chosen for a block. Compile the function with"
        " mode='reduce-overhead', or with options={'triton.cudagraphs': False}."
    )


def set_recursion_limit(limit: int) -> None:
    """Refused, but for -1 (none): capture recurses as deep as Python may."""
    if not isinstance(limit, int) or (limit < 1 and limit != -1):
        raise ValueError(f"set_recursion_limit: expected a limit of at least 1, or -1 for none, got {limit}")
    if limit != -1:
        raise NotImplementedError("set_recursion_limit: capture has no limit of its own. Use sys.setrecursionlimit.")


def get_recursion_limit() -> int:
    """Capture's own limit: -1, none."""
    return -1


def replay(filename: str) -> None:
    """Refused: no recordings of captures are written."""
    raise NotImplementedError("_dynamo.replay: captures are not recorded to files, so there are none to replay.")


def _undisturbed(fn: Callable) -> Callable:
    """A function that runs, with all that it calls, as it is."""

    @functools.wraps(fn)
    def as_it_is(*args: Any, **kwargs: Any) -> Any:
        before = _C.disable_compiled_here(True)
        try:
            return fn(*args, **kwargs)
        finally:
            _C.disable_compiled_here(before)

    return as_it_is


def _marked(name: str, what: str | None, doc: str) -> Callable[[Any], Any]:
    def mark(fn: Any) -> Any:
        for one in fn if isinstance(fn, (list, tuple)) else (fn,):
            if not callable(one):
                raise AssertionError(f"{name} expects a callable, got {type(one).__name__}")
            if what is not None:
                marks.mark(one, what)
        return fn

    mark.__name__ = mark.__qualname__ = name
    mark.__doc__ = doc
    return mark


allow_in_graph = _marked("allow_in_graph", marks.IN_GRAPH, "A call to put in the graph as it is, unread.")
disallow_in_graph = _marked("disallow_in_graph", marks.GRAPH_BREAK, "A call not to be put in a graph: it ends there.")
forbid_in_graph = _marked("forbid_in_graph", marks.FORBIDDEN, "A call at which capture must raise.")
assume_constant_result = _marked("assume_constant_result", marks.CONSTANT, "A call whose result stays the same.")
nonstrict_trace = _marked("nonstrict_trace", marks.NONSTRICT, "A call to trace by running it: one node of the graph.")
dont_skip_tracing = _marked("dont_skip_tracing", None, "A function to capture, library or not: all are.")


def run(fn: Callable | None = None) -> Any:
    """`fn`, or a `with` block, where what is compiled is used and nothing new is compiled."""
    return _only_compiled() if fn is None else _within(_only_compiled, fn)


@contextlib.contextmanager
def _only_compiled() -> Iterator[None]:
    before, marks.here.only_compiled = marks.here.only_compiled, True
    try:
        yield
    finally:
        marks.here.only_compiled = before


def _within(context: Callable[[], Any], fn: Callable) -> Callable:
    """A function that runs inside of a context."""

    @functools.wraps(fn)
    def within(*args: Any, **kwargs: Any) -> Any:
        with context():
            return fn(*args, **kwargs)

    return within


def substitute_in_graph(
    original_fn: Callable,
    *,
    can_constant_fold_through: bool = False,
    skip_signature_check: bool = False,
    is_embedded_type: bool = False,
) -> Callable:
    """Decorator: capture this function in place of `original_fn`. Calls on plain values are computed while a program is
    captured in any case, so `can_constant_fold_through` changes nothing."""
    if not callable(original_fn):
        raise TypeError(f"substitute_in_graph: expected a function, got {type(original_fn)}")
    if is_embedded_type:
        raise NotImplementedError("substitute_in_graph: is_embedded_type=True is not supported: classes are captured.")

    def register(traceable_fn: Callable) -> Callable:
        if not isinstance(traceable_fn, FunctionType):
            raise TypeError(f"@substitute_in_graph expects a function, got {type(traceable_fn)}")
        if original_fn in marks.substitutes:
            raise ValueError(f"substitute_in_graph: {original_fn} has a substitute already")
        if not skip_signature_check:
            _check_signatures(original_fn, traceable_fn)
        marks.substitutes[original_fn] = traceable_fn
        return traceable_fn

    return register


def _check_signatures(original: Callable, substitute: Callable) -> None:
    import inspect  # noqa: PLC0415 - for those who substitute

    try:
        expected, given = inspect.signature(original), inspect.signature(substitute)
    except ValueError:      # built-in functions do not all have one
        return

    def shown(signature: Any) -> list[tuple]:
        return [(p.name, p.kind, p.default is p.empty) for p in signature.parameters.values()]

    if shown(expected) != shown(given):
        raise TypeError(f"substitute_in_graph: the signatures differ: {expected} originally, {given} of the new one."
                        " skip_signature_check=True takes it anyway.")


def graph_break(msg: str = "") -> None:
    """End the captured graph here."""


def skip_frame(msg: str = "") -> None:
    """Do not capture the function that calls this."""


def step_unsupported(msg: str = "") -> None:
    """In a captured program: the graph ends here."""


marks.mark(graph_break, marks.GRAPH_BREAK)
marks.mark(step_unsupported, marks.GRAPH_BREAK)
marks.mark(skip_frame, marks.SKIP_FRAME)


class error_on_graph_break(marks.ErrorOnBreak):  # noqa: N801 - PyTorch's name
    """In a `with` block, or a function decorated with it: whether a break in the graph is an error. compile() with
    fullgraph=True makes it one everywhere."""

    def __call__(self, fn: Callable) -> Callable:
        return _within(functools.partial(error_on_graph_break, self.error), fn)


def patch_dynamo_config(arg1: Any = None, arg2: Any = None, **kwargs: Any) -> Any:
    """`config.patch` for the code of a block or function."""
    return config.patch(arg1, arg2, **kwargs)


def _mark_dims(name: str, t: Any, index: Any, mark: str) -> None:
    if not isinstance(t, Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(t).__name__}")
    dims = set(getattr(t, mark, ()))
    for dim in index if isinstance(index, (list, tuple, range)) else (index,):
        if not -t.ndim <= dim < max(t.ndim, 1):
            raise IndexError(f"{name}: dim {dim} is out of range for a tensor of {t.ndim} dims")
        dims.add(dim % t.ndim)
    setattr(t, mark, dims)


def mark_dynamic(t: Tensor, index: int | list[int] | tuple[int, ...], *, hint_override: int | None = None,
                 min: int | None = None, max: int | None = None, specialize_on: Any = None) -> None:
    """These sizes vary from call to call.

    They must lie between `min` and `max` now; code compiled for them is right for all others too. `hint_override`
    advises compilers that choose by a size, which this one does not. `specialize_on` are functions of a size: sizes for
    which they say different things are compiled for apart, and each time what they say is known."""
    is_list = isinstance(specialize_on, (list, tuple))
    if specialize_on is not None and not (is_list and all(map(callable, specialize_on))):
        raise TypeError("mark_dynamic: specialize_on must be a list of functions of a size")
    _mark_dims("mark_dynamic", t, index, "_dynamo_dynamic_indices")
    if specialize_on:
        known = dict(getattr(t, "_specialize_on", {}))
        known.update({dim % t.ndim: list(specialize_on) for dim in ((index,) if isinstance(index, int) else index)})
        t._specialize_on = known
    for dim in (index,) if isinstance(index, int) else index:
        size = t.shape[dim]
        if (min is not None and size < min) or (max is not None and size > max):
            raise ValueError(f"mark_dynamic: dimension {dim} has size {size}, which is not within min={min}, max={max}")


def maybe_mark_dynamic(t: Tensor, index: int | list[int] | tuple[int, ...]) -> None:
    """These sizes may vary from call to call."""
    _mark_dims("maybe_mark_dynamic", t, index, "_dynamo_weak_dynamic_indices")


def mark_static(t: Any, index: int | list[int] | tuple[int, ...] | None = None) -> None:
    """These sizes stay; for a module class, its integer attributes do."""
    if isinstance(t, Tensor):
        _mark_dims("mark_static", t, range(t.ndim) if index is None else index, "_dynamo_static_indices")


def mark_static_address(t: Any, guard: bool = False) -> None:
    """This tensor stays where it is in memory."""
    if not isinstance(t, Tensor):
        raise TypeError(f"mark_static_address: expected a Tensor, got {type(t).__name__}")


class set_stance:  # noqa: N801 - PyTorch's name
    """What compiled functions do from now on, in a `with` block, or in a function decorated with it.

    With `skip_guard_eval_unsafe`, a function that was compiled once runs that without a look at its guards: right only
    if they would hold. Functions that were compiled more than once are still told apart by their guards."""

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None
    ) -> None:
        if stance not in _STANCES:
            raise RuntimeError(f"invalid torch.compile stance '{stance}'; expected one of {sorted(_STANCES)}")
        if force_backend is not None and stance != "default":
            raise RuntimeError("stance: force_backend goes with the stance 'default' only")
        self.stance, self.backend, self.skips = stance, force_backend, skip_guard_eval_unsafe
        self._before = marks.stance.name, marks.stance.backend
        self._skipped = self._begin()

    def __enter__(self) -> None:
        self._begin()

    def __exit__(self, *exc: object) -> None:
        _choose(*self._before, self._skipped)

    def _begin(self) -> bool:
        """Take the stance; whether guards were skipped before."""
        if self.backend is None:
            return _choose(self.stance, None, self.skips)
        from .driver import graph_backend  # noqa: PLC0415 - for those who force one

        return _choose(self.stance, graph_backend(registry.lookup(self.backend)), self.skips)

    def __call__(self, fn: Callable) -> Callable:
        _choose(*self._before, self._skipped)     # as a decorator it is for the function alone
        return _within(functools.partial(set_stance, self.stance, skip_guard_eval_unsafe=self.skips,
                                         force_backend=self.backend), fn)


def _choose(name: str, backend: Callable | None, skips: bool = False) -> bool:
    """Set the stance; whether guards were skipped before."""
    marks.stance.name, marks.stance.backend = name, backend
    _C.disable_compiled(name == "force_eager")
    return _C.skip_guards(skips)
