"""Compiled graphs whose work on a device is queued as a whole: recorded once, then replayed.

Enters: a `Compiled` on a CUDA device, or a `Sized`, recorded for each size. Leaves: a callable like it. A call is
recorded when the addresses of its inputs have settled (a loop that trains comes to that); inputs that keep moving are
copied to memory of the recording. A replay writes to the memory that the last one returned, so it happens only while
nobody holds that; other calls run as they would without this. Gradients of parameters may be that memory as long as
they are dropped before the next call. By itself that serves small graphs, whose time is the host's, without checks of
indices, which a replay does not make; the setting `replay` (mode="reduce-overhead") serves all, and moves what is held
elsewhere before a replay, unless it is much. Recordings share the memory of what they do not return. What cannot be
recorded (steps that wait for the device) is found when recording fails, and is not tried again.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from .. import _C
from ..base import late, logs

SETTLED = 4              # calls that are looked at
OFTEN = 2                # changes of an address among them from which on it is known to move
PATIENT = 12             # calls before moving inputs are copied: they settle when what made them is replayed
PATIENCE = 3             # calls in a row that find results held, after which gradients get copies of them
MOST_RECORDINGS = 4      # of one graph
MOST_TRIES = 64          # calls after which a graph that never settled is left alone
MOST_SIZES = 32          # of one graph that are recorded; those used last stay
SMALL = 64 << 20         # bytes of inputs, and of results, up to which a graph is recorded by itself
COPIED = 4 << 20         # bytes of moving inputs likewise


class Recording:
    """One recorded call: the graph, its results, the addresses it was made with, and copies of moving inputs."""

    def __init__(
        self, graph: Any, results: list[Any], addresses: Sequence[int], copies: dict[int, Any], moves: bool
    ) -> None:
        """`moves`: results that are held are moved before a replay."""
        self.graph, self.copies, self.moves = graph, copies, moves
        self.addresses = tuple(addresses)
        self.fixed = [(k, at) for k, at in enumerate(addresses) if k not in copies]
        self.kept_waiting = 0      # calls in a row that found results held
        self.keep(results)
        self.launched = graph.raw_cuda_graph_exec()
        self.prepare = graph.prepare if graph.draws else None
        self.lend(True)

    def keep(self, results: Sequence[Any]) -> None:
        """Remember the results, and how many hold their memory while nobody else does."""
        self.results = tuple(results)
        self.tensors = [t for t in results if isinstance(t, _C.Tensor)]
        self.alone = tuple([_C.storage_holders(t) for t in self.tensors])

    def serves(self, addresses: Sequence[int]) -> bool:
        return all(addresses[k] == at for k, at in self.fixed)

    def is_free(self) -> bool:
        """Whether nobody else holds the memory of the results."""
        return tuple([_C.storage_holders(t) for t in self.tensors]) == self.alone

    def lend(self, is_lent: bool) -> None:
        """Whether gradients of parameters may be the results themselves, until they are set to None, and no copies."""
        for t in self.tensors:
            _C.lend_storage(t, is_lent)

    def waits(self) -> bool:
        """Whether results are held, and not moved. Where gradients add up over several calls it is they that are:
        copies then."""
        if self.is_free() or (self.moves and self.make_way()):
            self.kept_waiting = 0
            return False
        self.kept_waiting += 1
        if self.kept_waiting == PATIENCE:
            self.lend(False)
        return True

    def make_way(self) -> bool:
        """Move results that somebody holds to memory of their own; whether that was done."""
        members: dict[int, list[Any]] = {}       # those that share memory
        holders = {}
        for t, alone in zip(self.tensors, self.alone, strict=True):
            if t.numel() and _C.storage_holders(t) != alone:
                holders[t.untyped_storage().data_ptr()] = t
        for t in self.tensors:
            members.setdefault(t.untyped_storage().data_ptr(), []).append(t)
        if not holders or held(list(holders.values())) > SMALL:
            return not holders
        replaced: dict[int, Any] = {}
        for at, t in holders.items():
            size = t.untyped_storage().nbytes()
            away = _C.empty((size,), (1,), _C.uint8, t.device)
            away.copy_(_C.alias(t.detach(), (size,), (1,), 0, _C.uint8))
            _C.exchange_memory(t, away)
            for one in members[at]:
                shape, strides = tuple(one.shape), tuple(one.stride())
                replaced[id(one)] = _C.alias(away, shape, strides, one.storage_offset(), one.dtype)
        results = [replaced.get(id(t), t) for t in self.results]
        is_lent = self.kept_waiting < PATIENCE
        self.results, self.tensors = (), []
        holders.clear(), members.clear(), replaced.clear()
        del t, one, away
        self.keep(results)
        self.lend(is_lent)
        return True

    def replay(self, given: Sequence[Any]) -> list[Any]:
        for k, own in self.copies.items():
            own.copy_(given[k].detach())
        self.graph.replay()
        return [t.detach() if isinstance(t, _C.Tensor) else t for t in self.results]


class Replayed:
    """A compiled graph, and recordings of it."""

    native_parts = None

    def __init__(self, compiled: Any, always: bool) -> None:
        self.compiled, self.always = compiled, always
        self.recordings: list[Recording] = []
        self.seen: deque[list[int]] = deque(maxlen=SETTLED)
        self.is_refused, self.tries = False, 0
        self.device, self.graphs = compiled.device, None
        self.quick: Recording | None = None      # the last one, where the core can replay it

    def __getattr__(self, name: str) -> Any:
        return getattr(self.compiled, name)

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        graphs = self.graphs = self.graphs or late.provided("cuda graphs")
        if self.is_refused or not graphs.may_replay(self.device):
            return self.compiled(inputs)
        given, quick = self.compiled.arguments(inputs), self.quick
        if quick is not None:
            found = _C.cuda_replay(
                quick.launched, self.device, given, quick.addresses, quick.results, quick.alone, quick.prepare
            )
            if type(found) is list:
                quick.kept_waiting = 0
                return found
        addresses = [t.data_ptr() for t in given]
        found = next((one for one in self.recordings if one.serves(addresses)), None)
        if found is not None:
            return self.compiled(inputs) if found.waits() else found.replay(given)
        self.seen.append(addresses)
        self.tries += 1
        moving = self.moving() if len(self.seen) == SETTLED else None
        if moving is None:
            self.is_refused = self.tries > MOST_TRIES
            if self.is_refused:
                _tell("not replayed: addresses of its inputs do not settle")
            return self.compiled(inputs)
        result = self.record(given, addresses, moving, graphs)
        if result is None:
            self.is_refused = True
            _tell("not replayed: it cannot be recorded, is too large, or writes to its inputs")
            return self.compiled(inputs)
        _tell(f"recorded, to be replayed; {len(result.copies)} of {len(given)} inputs are copied first")
        self.recordings = [*self.recordings[1 - MOST_RECORDINGS :], result]
        self.quick = None if result.copies else result
        self.seen.clear()
        self.tries = 0
        return result.replay(given)

    def moving(self) -> list[int] | None:
        """Which inputs come at new addresses again and again; None while that is not clear."""
        found = []
        for k in range(len(self.seen[0])):
            column = [one[k] for one in self.seen]
            changes = sum(a != b for a, b in pairwise(column))
            if changes >= OFTEN:
                found.append(k)
            elif changes:
                return None
        return found if not found or self.tries >= PATIENT else None

    def record(
        self, given: Sequence[Any], addresses: Sequence[int], moving: Sequence[int], graphs: Any
    ) -> Recording | None:
        """A recording of a call, which it does not run; None where it cannot be recorded."""
        moved = [given[k] for k in moving]
        if not all(t._is_dense() for t in moved):
            return None
        if not self.always and (held(given) > SMALL or held(moved) > COPIED):
            return None
        copies = {k: _C.empty(tuple(t.shape), tuple(t.stride()), t.dtype, t.device) for k, t in zip(moving, moved)}
        arguments = [copies.get(k, t) for k, t in enumerate(given)]
        if self.compiled.writes or any(k in copies for k in self.compiled.updated):
            return None
        graph, results = graphs.recorded(lambda: self.compiled.run(arguments))
        if graph is None:
            return None
        memory = {t.untyped_storage().data_ptr() for t in arguments}
        tensors = [t for t in results if isinstance(t, _C.Tensor)]
        if any(t.untyped_storage().data_ptr() in memory for t in tensors):
            return None
        if held(tensors) > SMALL and not self.always:
            return None
        return Recording(graph, results, addresses, copies, self.always)


def _tell(what: str) -> None:
    """What becomes of a graph, for those who listen."""
    if (log := logs.artifact("cudagraphs")) is not None:
        log.debug("a graph is %s", what, stacklevel=2)


class OneSize:
    """A graph for many sizes, called with one of them: what `Replayed` takes for a compiled graph."""

    def __init__(self, sized: Any, inputs: Sequence[Any]) -> None:
        self.sized, self.tensors = sized, [k for k, x in enumerate(inputs) if isinstance(x, _C.Tensor)]
        self.numbers = [None if isinstance(x, _C.Tensor) else x for x in inputs]
        self.device = inputs[self.tensors[0]].device

    updated = ()

    @property
    def writes(self) -> bool:
        """Whether it writes to its inputs, as far as it was called."""
        return any(plan.compiled.writes for plan in self.sized.plans)

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        return self.sized(inputs)

    def arguments(self, inputs: Sequence[Any]) -> list[Any]:
        return [inputs[k] for k in self.tensors]

    def run(self, arguments: Sequence[Any]) -> list[Any]:
        inputs = list(self.numbers)
        for k, t in zip(self.tensors, arguments, strict=True):
            inputs[k] = t
        return self.sized(inputs)


class ReplayedSizes:
    """A graph for many sizes, with recordings for each."""

    native_parts = None

    def __init__(self, sized: Any) -> None:
        self.compiled = sized
        self.sizes: OrderedDict[tuple, Replayed] = OrderedDict()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.compiled, name)

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        key = tuple([(x.shape, x.stride()) if isinstance(x, _C.Tensor) else (type(x), x) for x in inputs])
        found = self.sizes.get(key)
        if found is None:
            found = self.sizes[key] = Replayed(OneSize(self.compiled, inputs), True)
            if len(self.sizes) > MOST_SIZES:
                self.sizes.popitem(last=False)
        else:
            self.sizes.move_to_end(key)
        return found(inputs)


def held(tensors: Sequence[Any]) -> int:
    """Bytes of memory that tensors look at."""
    return sum(t.untyped_storage().nbytes() for t in tensors)


def can_replay(compiled: Any, device: Any, always: bool) -> bool:
    """Whether a compiled graph is worth trying: on a device that records, without checks unless these may go, and
    without inputs that are written to, which count that (those that callers count it for may be)."""
    if device.type != "cuda" or compiled.writes or compiled.report is not None:
        return False
    return always or not any(step.error >= 0 for step in compiled.steps)


__all__ = ["Replayed", "ReplayedSizes", "can_replay"]
