"""Selective checkpointing: keep the results of chosen ops, and recompute only the rest.

Enters: a policy per op, or a list of ops to keep. Leaves: a pair of contexts for `checkpoint(..., context_fn=...)`:
around the first run a mode that keeps chosen results, around the second one that hands them out. Also the mode with
which `checkpoint(debug=True)` writes down the ops of both runs. Refuses: kept results that were changed in place since,
a second backward through one region, a second run that calls other ops, and moving results to another device.
"""

from __future__ import annotations

import traceback
from collections import defaultdict
from collections.abc import Callable
from enum import Enum
from typing import Any

from .. import _C
from ..aten.namespaces import OpOverloadPacket
from ..aten.overloads import AtenOverload
from ..dispatch.modes import TorchDispatchMode
from ._pytree import tree_map

_RECOMPUTE, _CONSUMED = object(), object()
_IGNORED = frozenset(("detach", "alias"))   # hooks of saved tensors call them in one run and not in the other


class CheckpointPolicy(Enum):
    """What to do with the result of an op."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


class SelectiveCheckpointContext:
    """What a policy is told: whether this is the second run, and what the op gave."""

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute, self.op_output = is_recompute, op_output


class _Kept:
    """A kept result, with the version that was kept."""

    __slots__ = ("value", "version")

    def __init__(self, value: Any) -> None:
        is_tensor = isinstance(value, _C.Tensor)
        self.value = value.detach() if is_tensor else value   # the tape will attach the op's node to the tensor itself
        self.version = value._version if is_tensor else None

    def get(self, may_be_changed: bool) -> Any:
        if self.version is not None and not may_be_changed and self.value._version != self.version:
            raise RuntimeError("checkpoint: a tensor that the policy kept has been mutated since")
        return self.value.detach() if self.version is not None else self.value


class _Counting(TorchDispatchMode):
    """Numbers the calls of each op within one run."""

    def __init__(self, storage: dict[Any, dict[int, Any]]) -> None:
        self.storage = storage
        self.calls: dict[Any, int] = defaultdict(int)

    def number(self, func: Any) -> int:
        self.calls[func] += 1
        return self.calls[func] - 1


class _CachingTorchDispatchMode(_Counting):
    """The first run: keep what the policy chooses."""

    def __init__(self, policy_fn: Callable, storage: dict[Any, dict[int, Any]]) -> None:
        super().__init__(storage)
        self.policy_fn = policy_fn

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if func._opname in _IGNORED:
            return out
        policy = self.policy_fn(SelectiveCheckpointContext(is_recompute=False, op_output=out), func, *args, **kwargs)
        if isinstance(policy, bool):
            policy = CheckpointPolicy.MUST_SAVE if policy else CheckpointPolicy.PREFER_RECOMPUTE
        if policy in (CheckpointPolicy.MUST_CPU_OFFLOAD, CheckpointPolicy.PREFER_CPU_OFFLOAD):
            raise NotImplementedError(
                f"selective checkpoint: {policy} needs an accelerator. Use MUST_SAVE: the results are on the CPU"
                " already."
            )
        keep = policy in (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)
        self.storage[func][self.number(func)] = tree_map(_Kept, out) if keep else _RECOMPUTE
        return out


class _CachedTorchDispatchMode(_Counting):
    """The second run: hand out what was kept, once."""

    def __init__(self, storage: dict[Any, dict[int, Any]], allow_cache_entry_mutation: bool) -> None:
        super().__init__(storage)
        self.may_be_changed = allow_cache_entry_mutation

    def __enter__(self) -> Any:
        self.calls.clear()
        return super().__enter__()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        if func._opname in _IGNORED:
            return func(*args, **(kwargs or {}))
        number = self.number(func)
        entry = self.storage.get(func, {}).get(number)
        if entry is None:
            raise RuntimeError(
                f"{func} (call {number}) was not called in the forward pass: the operations of a checkpointed region"
                " must be the same both times."
            )
        if entry is _CONSUMED:
            raise RuntimeError(
                "checkpoint: backward an extra time through a region with a policy. Its kept tensors serve once."
            )
        if entry is _RECOMPUTE:
            return func(*args, **(kwargs or {}))
        self.storage[func][number] = _CONSUMED
        return tree_map(lambda kept: kept.get(self.may_be_changed), entry)


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable | list, allow_cache_entry_mutation: bool = False
) -> tuple[Any, Any]:
    """Contexts for `context_fn`: `functools.partial(create_selective_checkpoint_contexts, policy)`,
    or with a list of ops to keep."""
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not isinstance(op, (_C.Overload, AtenOverload)):
                hint = f" For example {op}.default." if isinstance(op, OpOverloadPacket) else ""
                raise ValueError(f"op_list: expected OpOverloads, got {op} of type {type(op)}.{hint}")
        chosen = set(policy_fn_or_list)

        def policy_fn(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
            return CheckpointPolicy.MUST_SAVE if op in chosen else CheckpointPolicy.PREFER_RECOMPUTE
    elif callable(policy_fn_or_list):
        policy_fn = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list: expected a function or a list of ops.")
    storage: dict[Any, dict[int, Any]] = defaultdict(dict)
    return _CachingTorchDispatchMode(policy_fn, storage), _CachedTorchDispatchMode(storage, allow_cache_entry_mutation)


class OpLog(TorchDispatchMode):
    """Writes down every op with where it was called, for `debug=True`."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        shown = ", ".join(f"{a.dtype.name}{list(a.shape)}" if isinstance(a, _C.Tensor) else repr(a) for a in args)
        frames = [f for f in traceback.extract_stack()[:-1] if "rushlight" not in f.filename]
        place = f"{frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name}" if frames else "unknown"
        self.lines.append(f"{func}({shown})   at {place}")
        return func(*args, **(kwargs or {}))
