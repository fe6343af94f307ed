"""Checkpointing: forget what a block saved for backward, and run the block again when backward needs it.

Enters: a function and its arguments. Leaves: its result, whose graph holds the arguments instead of the saved tensors.
Two ways: without reentry (the default to choose), saved tensors are replaced by numbered holders, and the first one
unpacked runs the function again to fill them all; with reentry, one custom Function runs a nested backward. The
random state of the first run is restored for the second. Refuses: a second run that saves something else than
the first, and nested backward passes that ask for only some inputs.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from .. import _C
from ..aten.namespaces import namespace
from ..autograd import Function, backward, enable_grad, no_grad
from ..autograd.graph import saved_tensors_hooks
from ..devices import handlers, registered
from ..dispatch import autocast
from ..rules import levels
from .checkpoint_policy import (
    _IGNORED,
    CheckpointPolicy,
    OpLog,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)

__all__ = [
    "CheckpointError", "CheckpointFunction", "CheckpointPolicy", "DefaultDeviceType", "SelectiveCheckpointContext",
    "check_backward_validity", "checkpoint", "checkpoint_sequential", "create_selective_checkpoint_contexts",
    "detach_variable", "get_device_states", "noop_context_fn", "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop", "set_device_states",
]


# Ops that selective checkpointing neither keeps nor expects again.
SAC_IGNORED_OPS = {getattr(namespace("aten"), name).default for name in sorted(_IGNORED)}


class CheckpointError(RuntimeError):
    """The second run did not repeat the first."""


class _StopRecomputation(Exception):
    """Everything the first run saved has been recomputed."""


_local = threading.local()


# --- state that both runs must share ----------------------------------------------------------------------------------


class RandomState:
    """The states of the CPU's generator and of the GPUs', taken when made and restored within `replayed`."""

    def __init__(self, keep: bool) -> None:
        self.states = [(g, g.get_state()) for g in self.generators()] if keep else []

    @staticmethod
    def generators() -> list[Any]:
        """The default generators of everything that was used so far."""
        units = handlers["cuda"].device_count() if "cuda" in registered() else 0
        return [_C.default_generator, *(_C.device_generator(_C.device("cuda", k)) for k in range(units))]

    @contextlib.contextmanager
    def replayed(self) -> Iterator[None]:
        """Within the block random numbers repeat; afterwards they go on as if it had not run."""
        outside = [(g, g.get_state()) for g, _ in self.states]
        for generator, state in self.states:
            generator.set_state(state)
        try:
            yield
        finally:
            for generator, state in outside:
                generator.set_state(state)


def noop_context_fn() -> tuple[Any, Any]:
    """The default: nothing around either run."""
    return contextlib.nullcontext(), contextlib.nullcontext()


@contextlib.contextmanager
def _switched(name: str, value: Any) -> Iterator[None]:
    previous = getattr(_local, name, None)
    setattr(_local, name, value)
    try:
        yield
    finally:
        setattr(_local, name, previous)


def set_checkpoint_early_stop(enable: bool) -> Any:
    """Whether recomputation stops as soon as the last saved tensor exists. A context manager."""
    return _switched("early_stop", enable)


def set_checkpoint_debug_enabled(enabled: bool | None) -> Any:
    """Whether `debug` is on whatever calls say; None leaves it to them. A context manager."""
    return _switched("debug", enabled)


class DefaultDeviceType:
    """The device type whose random state is kept beside the CPU's; a program may name one that has none here."""

    _default_device_type = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type() -> str:
        return DefaultDeviceType._default_device_type


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """Devices of the tensors in `args` that have random states of their own, and those states:
    the CPU's is kept apart."""
    return [], []


def set_device_states(devices: Iterable[int], states: Iterable[Any], *, device_type: str | None = None) -> None:
    """Restore what `get_device_states` returned."""
    if list(devices):
        raise RuntimeError(
            f"set_device_states: no device of type {device_type or DefaultDeviceType.get_device_type()!r} has a random"
            " state here"
        )


# --- with reentry -----------------------------------------------------------------------------------------------------


def detach_variable(inputs: tuple) -> tuple:
    """The tensors among `inputs` as new leaves with the same flags; the rest unchanged."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"detach_variable: expected a tuple of tensors, got {type(inputs).__name__}")
    detached = []
    for value in inputs:
        if isinstance(value, _C.Tensor):
            leaf = value.detach()
            if value.requires_grad:
                leaf.requires_grad_()
            value = leaf
        detached.append(value)
    return tuple(detached)


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn when no input requires grad: nothing inside the block will get a gradient."""
    if not any(isinstance(x, _C.Tensor) and x.requires_grad for x in inputs):
        warnings.warn("checkpoint: no input has requires_grad=True, so there will be no gradients", stacklevel=3)


class CheckpointFunction(Function):
    """The reentrant way: backward runs the function again and then its backward."""

    @staticmethod
    def forward(ctx: Any, run_function: Callable, preserve_rng_state: bool, *args: Any) -> Any:
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.random, ctx.precision = RandomState(preserve_rng_state), autocast.snapshot_now()
        ctx.arguments = [None if isinstance(a, _C.Tensor) else a for a in args]
        ctx.places = [i for i, a in enumerate(args) if isinstance(a, _C.Tensor)]
        ctx.save_for_backward(*(args[i] for i in ctx.places))
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple:
        if _C._backward_has_inputs():
            raise RuntimeError(
                "When use_reentrant=True, checkpoint works with .backward() only, not with autograd.grad() or"
                " backward(inputs=...). Pass use_reentrant=False."
            )
        args = list(ctx.arguments)
        for i, t in zip(ctx.places, ctx.saved_tensors, strict=True):
            args[i] = t
        leaves = detach_variable(tuple(args))
        with ctx.random.replayed(), autocast.replayed(ctx.precision), enable_grad():
            outputs = ctx.run_function(*leaves)
        outputs = (outputs,) if isinstance(outputs, _C.Tensor) else outputs
        pairs = [(o, g) for o, g in zip(outputs, grads, strict=True) if isinstance(o, _C.Tensor) and o.requires_grad]
        if not pairs:
            raise RuntimeError("checkpoint: no output has requires_grad=True, so there is nothing to recompute for")
        backward([o for o, _ in pairs], [g for _, g in pairs])
        return (None, None, *(x.grad if isinstance(x, _C.Tensor) else None for x in leaves))


# --- without reentry --------------------------------------------------------------------------------------------------


class _Holder:
    """Stands for one saved tensor; which recomputed value it means is kept per backward pass."""

    __slots__ = ("__weakref__", "handles")

    def __init__(self) -> None:
        self.handles: dict[Any, int] = {}


class _Frame:
    """One checkpointed call: the holders the graph has, and what each backward pass recomputed for them."""

    def __init__(
        self, recompute: Callable[[], None], early_stop: bool, describe: Callable, early_describe: bool
    ) -> None:
        self.recompute = recompute
        self.early_stop = early_stop
        self.describe = describe
        self.holders: list[weakref.ref] = []
        self.descriptions: list[Any] = []
        self.filled: dict[Any, list[Any]] = {}
        self.ignore_mismatch = not early_describe
        self.logs: tuple[OpLog, OpLog] | None = None   # what both runs called, with debug=True

    def hooks(self) -> saved_tensors_hooks:
        def pack(tensor: Any) -> _Holder:
            holder = _Holder()
            self.holders.append(weakref.ref(holder))
            self.descriptions.append(self.describe(tensor))
            return holder

        def unpack(holder: _Holder) -> Any:
            return self.value_of(holder)

        return saved_tensors_hooks(pack, unpack)

    def value_of(self, holder: _Holder) -> Any:
        key = _C._current_backward() or object()
        if key not in holder.handles:
            self.fill(key)
        index = holder.handles.pop(key, None)
        values = self.filled.get(key)
        if index is None or values is None:
            raise CheckpointError(
                "checkpoint: unpack was triggered for a tensor that the recomputation did not make again. The second"
                " run must save the same tensors as the first."
            )
        value = values[index]
        values[index] = None
        if all(v is None for v in values):
            del self.filled[key]
        return value

    def fill(self, key: Any) -> None:
        """Run the function again and hand its saved tensors to the holders, in order."""
        values: list[Any] = []
        result: list[Any] = []

        def pack(tensor: Any) -> Any:
            index = len(result)
            result.append(self.describe(tensor))
            if index < len(self.holders):
                holder = self.holders[index]()
                if holder is not None:
                    holder.handles[key] = len(values)
                    values.append(tensor.detach())
            if self.early_stop and len(result) == len(self.holders):
                raise _StopRecomputation
            return tensor

        with contextlib.suppress(_StopRecomputation), saved_tensors_hooks(pack, lambda t: t), enable_grad():
            self.recompute()
        try:
            self.compare(result)
        except CheckpointError as error:
            if self.logs is None:
                raise CheckpointError(f"{error}\nPass debug=True to checkpoint to see the ops of both runs.") from None
            first, second = ("\n".join(log.lines) for log in self.logs)
            raise CheckpointError(
                f"{error}\n\nOps of the original forward:\n{first}\n\nOps of the recomputation:\n{second}"
            ) from error
        self.filled[key] = values

    def compare(self, result: list[Any]) -> None:
        if self.ignore_mismatch:
            return
        if len(result) != len(self.holders):
            raise CheckpointError(
                f"checkpoint: the recomputation saved a different number of tensors. "
                f"Forward: {len(self.holders)}, recomputation: {len(result)}."
            )
        differing = [(i, a, b) for i, (a, b) in enumerate(zip(self.descriptions, result, strict=True)) if a != b]
        if differing:
            lines = "\n".join(f"  tensor at position {i}: saved {a}, recomputed {b}" for i, a, b in differing)
            raise CheckpointError(
                f"checkpoint: the metadata of recomputed tensors differs from that of the forward pass:\n{lines}"
            )


def _describe_default(t: Any) -> dict[str, Any]:
    return {"shape": tuple(t.shape), "dtype": t.dtype, "device": t.device}


def _describe_nothing(t: Any) -> None:
    return None


_DETERMINISM_CHECKS: dict[str, Callable] = {"default": _describe_default, "none": _describe_nothing}


def _without_reentry(
    function: Callable,
    args: tuple,
    kwargs: dict[str, Any],
    preserve_rng_state: bool,
    context_fn: Callable,
    determinism_check: str,
    early_stop: bool,
    debug: bool,
) -> Any:
    if determinism_check not in _DETERMINISM_CHECKS:
        raise ValueError(f"determinism_check should be one of {list(_DETERMINISM_CHECKS)}, but got {determinism_check}")
    if debug and context_fn is not noop_context_fn:
        raise ValueError("checkpoint: debug=True is incompatible with a context_fn")
    if any(level.kind in ("grad", "jvp") for level in levels.state.stack):
        # What a backward pass computes again has neither tangents nor histories of the levels around it.
        return function(*args, **kwargs)
    forward_context, recompute_context = (OpLog(), OpLog()) if debug else context_fn()
    random, precision = RandomState(preserve_rng_state), autocast.snapshot_now()

    def recompute() -> None:
        with random.replayed(), autocast.replayed(precision), recompute_context:
            function(*args, **kwargs)

    frame = _Frame(recompute, early_stop, _DETERMINISM_CHECKS[determinism_check], determinism_check != "none")
    frame.logs = (forward_context, recompute_context) if debug else None
    with frame.hooks(), forward_context:
        return function(*args, **kwargs)


# --- entry points -----------------------------------------------------------------------------------------------------


def checkpoint(
    function: Callable,
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """`function(*args, **kwargs)`, keeping its arguments instead of its intermediate results until backward."""
    if use_reentrant is None:
        warnings.warn(
            "checkpoint: pass use_reentrant explicitly; use_reentrant=False is recommended. True is assumed here.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug:
            raise ValueError("checkpoint: context_fn and debug need use_reentrant=False.")
        return CheckpointFunction.apply(function, preserve, *args)
    switched, forced = getattr(_local, "early_stop", None), getattr(_local, "debug", None)
    stop, debug = early_stop if switched is None else switched, debug if forced is None else forced
    return _without_reentry(function, args, kwargs, preserve, context_fn, determinism_check, stop, debug)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Run a sequence of functions (or modules) in `segments` checkpointed pieces;
    the last piece is not checkpointed."""
    if use_reentrant is None:
        warnings.warn("checkpoint_sequential: pass use_reentrant explicitly. True is assumed here.", stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    steps: Sequence[Callable] = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(steps) // segments
    end = 0
    for _ in range(segments - 1):
        start, end = end, end + size
        input = checkpoint(_chained(steps[start:end]), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return _chained(steps[end:])(input)


def _chained(steps: Sequence[Callable]) -> Callable:
    def run(x: Any) -> Any:
        for step in steps:
            x = step(x)
        return x

    return run


class GraphExecGroup:
    """Backward passes that belong together. PyTorch lets them share what is recomputed;
    here each recomputes for itself, to the same values."""

    _current: GraphExecGroup | None = None

    def __enter__(self) -> GraphExecGroup:
        if GraphExecGroup._current is not None:
            raise RuntimeError("GraphExecGroup: one is entered already, and groups cannot be nested")
        GraphExecGroup._current = self
        return self

    def __exit__(self, *exc: object) -> None:
        GraphExecGroup._current = None

    @classmethod
    def _get_current_group(cls) -> GraphExecGroup | None:
        return cls._current
