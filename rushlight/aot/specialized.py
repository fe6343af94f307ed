"""A callable that is captured anew for each kind of arguments it meets, and runs what was compiled for them.

Enters: a function, the modules whose tensors it uses, and a way to compile what is captured. Leaves: a callable with
its signature. Arguments are opened (pytrees), tensors of arguments and modules become inputs of the graph, once each;
everything else is a constant of it. What the graph depends on is the key of a cache: layouts, dtypes, devices, which
require gradients, the other values, training flags and the modes of the thread. Refuses: tensor subclasses with rules
of their own, arguments that share memory of which one is written to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .. import _C
from .._C import Tensor
from ..autograd import grad_mode
from ..dispatch.modes import state as modes
from ..nn import Buffer, Module, Parameter
from ..rules import levels
from ..utils import _pytree as pytree
from .capture import Captured, capture
from .module_state import ModuleState
from .refused import NotCaptured, TooOften
from .runtime import CompiledRegion
from .thread_casts import autocast_state, without_autocast

PLAIN = (Tensor, Parameter, Buffer)
MOST_QUICK = 1024     # calls that are told apart by their sizes
_VALUES = (int, float, bool, str, bytes, complex, type(None), _C.dtype, _C.device)


@dataclass
class Entry:
    """What was compiled for one key."""

    region: CompiledRegion
    lifted: list[Tensor]         # tensors found while tracing
    lifted_layouts: Any
    out_spec: Any
    kept: list[Any]        # objects whose identity is part of the key: they must not be freed
    captured: Captured
    static: frozenset[int] = frozenset()     # with symbolic sizes: inputs whose sizes are numbers all the same

    def accepts(self, tensors: Sequence[Tensor]) -> bool:
        """Whether the graph, captured with symbolic sizes, holds for these inputs too."""
        env: Any = self.captured.shape_env
        return env.accepts(*[t for i, t in enumerate(tensors) if i not in self.static])

    @cached_property
    def is_one_leaf(self) -> bool:
        """Whether the result is a single value, in no container."""
        return self.out_spec.is_leaf()


class Specialized:
    """`function`, captured for each kind of arguments. `compile_region(captured)` says how it then runs."""

    def __init__(self, function: Callable, modules: Sequence[Module],
                 compile_region: Callable[[Captured], CompiledRegion], *, decompositions: Any = None,
                 dynamic: bool = False) -> None:
        self.function, self.modules, self.compile_region = function, tuple(dict.fromkeys(modules)), compile_region
        self.decompositions, self.dynamic = decompositions, dynamic
        self.cache: dict[Any, Entry] = {}
        self.limit: int | None = None      # how often it may be captured
        self.captures = 0
        self.by_rank: dict[Any, list[Entry]] = {}     # with symbolic sizes: entries that may serve other sizes
        # calls with nothing but tensors, to results that are the graph's own: by what the core says of them
        self.quick: dict[bytes, tuple[Any, Any]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        quick = None if kwargs else _C.call_key(self.modules, args, PLAIN)
        if quick is not None:      # plain tensors, and no mode or transform around the call
            known = self.quick.get(quick[1])
            if known is not None:
                result = known[0](quick[0])
                return result[0] if known[1] is None else pytree.tree_unflatten(result, known[1])
        if is_traced_elsewhere():
            return self.function(*args, **kwargs)
        call, entry = self.prepare(args, kwargs)
        if quick is not None:
            self.remember(quick[1], call, entry)
        return call.run(entry)

    def prepare(self, args: tuple, kwargs: dict[str, Any]) -> tuple[_Call, Entry]:
        """A call, and what runs it."""
        call = _Call(self, args, kwargs)
        return call, self.find(call)

    def remember(self, key: bytes, call: _Call, entry: Entry) -> None:
        """Let calls like this one go straight to the graph, where it needs nothing around it."""
        if entry.lifted or not entry.region.plain or call.leaves is not None:
            return
        if len(self.quick) >= MOST_QUICK:
            self.quick.clear()
        self.quick[key] = entry.region.native, None if entry.is_one_leaf else entry.out_spec

    def find(self, call: _Call) -> Entry:
        """What runs a call; captured and compiled if nothing fits."""
        found = self.cache.get(call.key)
        if found is None and self.dynamic:
            found = next((e for e in self.by_rank.get(call.rank_key(), ()) if e.accepts(call.tensors)), None)
            if found is not None:
                self.cache[call.key] = found
        if found is None or (found.lifted and _layouts(found.lifted) != found.lifted_layouts):
            found = self.cache[call.key] = self.compile(call)
            if self.dynamic:
                self.by_rank.setdefault(call.rank_key(), []).append(found)
        return found

    def compile(self, call: _Call) -> Entry:
        """Capture and compile for the arguments of a call."""
        if self.limit is not None and self.captures >= self.limit:
            raise TooOften(
                f"compile: the function was captured {self.captures} times, each for other arguments, and that is the"
                " limit (recompile_limit). dynamic=True captures sizes as symbols."
            )
        self.captures += 1
        specs: list[Any] = []
        state, places, leaves, in_spec = call.opened()

        def flat(values: list[Any]) -> list[Any]:
            with state.exchanged([values[i] for i in places]) as after:
                args, kwargs = pytree.tree_unflatten(
                    [values[v] if is_tensor else v for is_tensor, v in leaves], in_spec
                )
                result = self.function(*args, **kwargs)
            _check_replaced(after, [values[i] for i in places])
            outputs, spec = pytree.tree_flatten(result)
            specs.append(spec)
            return outputs

        with grad_mode.inference_mode(False), grad_mode.set_grad_enabled(call.records):
            dims = [() if i in places else None for i in range(len(call.tensors))] if self.dynamic else None
            captured = capture(
                flat,
                call.tensors,
                wants_grad=call.records,
                decompositions=self.decompositions,
                dynamic=self.dynamic,
                dynamic_dims=dims,
            )
        _check_shared(captured, call.tensors)
        if not captured.meta.is_joint:      # what a module holds changes seldom: compilers may prepare it
            captured.graph.meta["static_inputs"] = sorted({*places} - {*captured.meta.mutated})
        region = self.compile_region(captured)
        lifted = list(captured.lifted)
        return Entry(region, lifted, _layouts(lifted), specs[0], call.kept(), captured, frozenset(places))

    def reset(self) -> None:
        """Forget what was compiled."""
        self.cache.clear()
        self.quick.clear()
        self.by_rank.clear()
        self.captures = 0


def _layouts(tensors: list[Tensor]) -> Any:
    """What a graph depends on of tensors that are no arguments."""
    found = _C.layout_key(tensors, PLAIN) if tensors else None
    return None if found is None else found[1]


def is_traced_elsewhere() -> bool:
    """Whether a trace or transform around the call sees its ops: it then runs as it is."""
    return bool(levels.state.stack or modes.dispatch_modes or modes.function_modes)


class _Call:
    """The arguments of one call, opened, and the key they give."""

    def __init__(self, owner: Specialized, args: tuple, kwargs: dict[str, Any]) -> None:
        self.owner, self.args, self.kwargs = owner, args, kwargs
        own, flags = _C.module_key(owner.modules) if owner.modules else ([], b"")
        if not kwargs and all(type(a) is Tensor for a in args):     # nothing to open
            self.leaves, spec, values, given = None, len(args), (), args
        else:
            self.leaves, spec = pytree.tree_flatten((args, kwargs))
            values = tuple([None if isinstance(x, Tensor) else _value_key(x) for x in self.leaves])
            given = [x for x in self.leaves if isinstance(x, Tensor)]
        self.all, self.num_own = [*own, *given], len(own)
        found = _C.layout_key(self.all, PLAIN)
        if found is None:
            odd = next(t for t in self.all if type(t) not in PLAIN)
            raise NotCaptured(
                f"compile: an argument is a {type(odd).__name__}, a tensor with rules of its own, which cannot be"
                " captured yet"
            )
        self.tensors, layouts, _ = found
        self.records = _C.is_grad_enabled()
        self.key = (
            spec,
            layouts,
            values,
            flags,
            self.records,
            _C.is_inference_mode_enabled(),
            autocast_state(),
            _C.get_default_dtype(),
        )

    def rank_key(self) -> tuple:
        """The key with ranks in the place of sizes and strides, but for the modules' own tensors."""
        at = {id(t): i for i, t in enumerate(self.tensors)}
        given = self.all[self.num_own:]
        ranks = tuple([(at[id(t)], t.ndim, t.dtype, t.device, t.requires_grad, t.is_leaf) for t in given])
        return (self.key[0], _layouts(self.all[: self.num_own]), ranks, *self.key[2:])

    def opened(self) -> tuple[ModuleState, list[int], list[tuple[bool, Any]], Any]:
        """What capturing needs: the modules' slots, which input fills each,
        the leaves of the arguments (inputs by number), their structure."""
        leaves, spec = pytree.tree_flatten((self.args, self.kwargs))
        state = ModuleState(self.owner.modules)
        at = {id(t): i for i, t in enumerate(self.tensors)}
        return (
            state,
            [at[id(t)] for t in state.tensors()],
            [(True, at[id(x)]) if isinstance(x, Tensor) else (False, x) for x in leaves],
            spec,
        )

    def kept(self) -> list[Any]:
        """Objects whose identity is part of the key: they must not be freed."""
        return [self.owner.modules, *(x for x in self.leaves or () if not isinstance(x, (Tensor, *_VALUES)))]

    def run(self, entry: Entry) -> Any:
        inputs = [*self.tensors, *entry.lifted] if entry.lifted else self.tensors
        if self.key[6] is None:
            outputs = entry.region(inputs)
        else:
            with without_autocast():     # the graph has its casts
                outputs = entry.region(inputs)
        return outputs[0] if entry.is_one_leaf else pytree.tree_unflatten(outputs, entry.out_spec)


def _value_key(value: Any) -> Any:
    return type(value), value if isinstance(value, _VALUES) else id(value)


def _check_replaced(after: Sequence[Any], given: Sequence[Any]) -> None:
    for t, was in zip(after, given, strict=True):
        if t is not was:
            raise NotCaptured(
                "compile: forward puts another tensor in the place of a parameter or buffer. Write to it in place"
                " (copy_), or leave that part uncompiled."
            )


def _check_shared(captured: Captured, tensors: Sequence[Tensor]) -> None:
    """Writes to an input that shares memory with another would have to be seen there."""
    if not captured.meta.mutated:
        return
    counts: dict[int, int] = {}
    for t in tensors:
        place = t.untyped_storage()._cdata
        counts[place] = counts.get(place, 0) + 1
    if any(counts[tensors[i].untyped_storage()._cdata] > 1 for i in captured.meta.mutated):
        raise NotCaptured(
            "compile: the function writes to an argument that shares memory with another one, which a graph cannot"
            " repeat. Pass only one of them."
        )
