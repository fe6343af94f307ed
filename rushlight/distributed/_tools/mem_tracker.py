"""MemTracker: what memory is held while a program trains, by what it is for, and by the module that runs.

Enters: tensors made inside the context, and modules, optimizers and tensors given to `track_external`. Leaves: bytes by
device and kind, now, at the peak, and at the ends of each module's forward and backward. What no op made inside is not
seen. Refuses: a second run of the outermost module without `reset_mod_stats`.

A storage counts until nobody but the tracker holds it; that is looked at after every op, and before figures are given.
"""

from __future__ import annotations

import re
import warnings
import weakref
from copy import deepcopy
from enum import StrEnum
from typing import Any

from ... import _C
from ...dispatch.modes import TorchDispatchMode
from ...nn import Module
from ...optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from ...utils._pytree import tree_leaves
from ...utils.weak import WeakIdKeyDictionary
from .mod_tracker import ModTracker
from .snapshots import (
    TOTAL,
    Snapshot,
    print_snapshot,
    print_snapshot_table,
    print_states,
    print_states_table,
)
from .storages import active_fake_mode, bytes_taken, get_untyped_storages, is_held_elsewhere

__all__ = ["MemTracker"]


class _RefType(StrEnum):
    """What memory is for."""


class _State(StrEnum):
    """When a snapshot is taken."""


class _MemRefType(_RefType):
    """Parameters, buffers and gradients of modules; what forward makes; what backward makes; optimizers' state; what
    was named by hand."""

    PARAM = "Parameter"
    BUFFER = "Buffer"
    GRAD = "Gradient"
    ACT = "Activation"
    TEMP = "Temp"
    OPT = "Optstate"
    OTH = "Other"


class _ModState(_State):
    """The ends of a module's forward and backward, their peaks, and forwards that are run again by checkpointing."""

    PRE_FW = "Pre-Forward"
    POST_FW = "Post-Forward"
    PEAK_FW = "Peak-Forward"
    PRE_BW = "Pre-Backward"
    PRE_FW_AC = "Pre-Forward-AC"
    POST_FW_AC = "Post-Forward-AC"
    POST_BW = "Post-Backward"
    PEAK_BW = "Peak-Backward"


class _ModMemStats:
    """What a module's parameters, buffers, inputs and outputs take, and what was held when."""

    def __init__(self, mod_fqn: str) -> None:
        self.mod_fqn = mod_fqn
        self.parameter_mem = self.buffer_mem = self.input_mem = self.output_mem = 0
        self.local_peak: dict[Any, int] = {}
        self.snapshots: dict[_ModState, list[Snapshot]] = {}

    def note(self, state: _ModState, snapshot: Snapshot) -> None:
        self.snapshots.setdefault(state, []).append(snapshot)


class _Held:
    """A storage that is followed: its bytes, device and kind."""

    __slots__ = ("device", "kind", "size", "storage", "taken")

    def __init__(self, storage: Any, device: Any, kind: _RefType) -> None:
        self.storage, self.device, self.kind = storage, device, kind
        # Asked at once: from then on gradients keep its memory as if nobody followed it.
        assert storage._holders > 0, "MemTracker: a storage that nobody holds"
        self.measure()

    def measure(self) -> None:
        self.size = self.storage.nbytes()
        self.taken = bytes_taken(self.size, self.device)


class MemTracker(TorchDispatchMode):
    """`with MemTracker() as tracker:` around the work; then `get_tracker_snapshot` and the `display_` methods."""

    def __init__(self) -> None:
        super().__init__()
        self.memory_tracking = WeakIdKeyDictionary()
        self._held: dict[int, _Held] = {}
        self._current: Snapshot = {}
        self._peak_mem: dict[Any, int] = {}
        self._peak_mem_snap: Snapshot = {}
        self._gradient_hooks = WeakIdKeyDictionary()
        self._optimizer_hooks: list[Any] = []
        self._mod_tracker = ModTracker()
        self._ref_class: type[_RefType] = _MemRefType
        self._in_opt = self._in_ac = False
        self._recomputed: weakref.ref | None = None      # the outermost module that checkpointing runs again
        self._depth = 0
        self._fake_mode: Any = None

    # --- what is held -------------------------------------------------------------------------------------------------

    def _count(self, device: Any, kind: Any, change: int) -> None:
        if not change:
            return
        if device not in self._current:
            self._current[device] = {**dict.fromkeys(self._ref_class, 0), TOTAL: 0}
        found = self._current[device]
        found[kind] += change
        found[TOTAL] += change
        if not found[TOTAL]:
            del self._current[device]

    def _drop_unheld(self) -> None:
        """Forget storages that nobody else holds."""
        for key in [key for key, held in self._held.items() if not is_held_elsewhere(held.storage, 1)]:
            held = self._held.pop(key)
            self._count(held.device, held.kind, -held.taken)

    def _follow(self, t: Any, kind: _RefType, is_settled: bool) -> list[_Held]:
        """The storages of a tensor, followed from now on. Their kind is `kind` where they are new, or `is_settled`."""
        found = []
        for storage in get_untyped_storages(t):
            held = self._held.get(storage._cdata)
            if held is None:
                held = self._held[storage._cdata] = _Held(storage, t.device, kind)
                self._count(held.device, kind, held.taken)
            elif is_settled and held.kind is not kind:
                self._count(held.device, held.kind, -held.taken)
                held.kind = kind
                self._count(held.device, kind, held.taken)
            elif not is_settled and held.size != storage.nbytes():
                before = held.taken
                held.measure()
                self._count(held.device, held.kind, held.taken - before)
            found.append(held)
        return found

    def get_tracker_snapshot(self, type: str = "current") -> Snapshot:
        """Bytes by device and kind: "current", or at the "peak"."""
        if type not in ("current", "peak"):
            raise ValueError(f"Invalid type {type}: expected 'current' or 'peak'")
        if type == "peak":
            return deepcopy(self._peak_mem_snap)
        self._drop_unheld()
        for held in list(self._held.values()):      # sizes that were changed without an op
            if held.size != held.storage.nbytes():
                before = held.taken
                held.measure()
                self._count(held.device, held.kind, held.taken - before)
        return deepcopy(self._current)

    def _note_peaks(self, state: _ModState) -> None:
        for device, found in self._current.items():
            total = found[TOTAL]
            for stats in self.memory_tracking.values():
                if stats.mod_fqn in self._mod_tracker.parents and state in stats.snapshots:
                    if stats.local_peak.get(device, 0) < total:
                        stats.local_peak[device] = total
                        stats.snapshots[state][-1][device] = dict(found)
            if self._peak_mem.get(device, 0) < total:
                self._peak_mem[device] = total
                self._peak_mem_snap[device] = dict(found)

    # --- what it is for -----------------------------------------------------------------------------------------------

    def _follow_module(self, module: Module, install_grad_hooks: bool) -> tuple[int, int]:
        """Follow a module's parameters, their gradients now and later, and its buffers; bytes of the first and last."""

        def note(grad: Any) -> None:
            self._follow(grad, _MemRefType.GRAD, True)

        parameters = 0
        for p in module.parameters():
            parameters += sum(held.taken for held in self._follow(p, _MemRefType.PARAM, True))
            if p.grad is not None:
                note(p.grad)
            if install_grad_hooks and p.requires_grad and p not in self._gradient_hooks:
                later = p.register_post_accumulate_grad_hook(lambda p: note(p.grad))
                self._gradient_hooks[p] = (p.register_hook(note), later)
        buffers = [held.taken for b in module.buffers() for held in self._follow(b, _MemRefType.BUFFER, True)]
        return parameters, sum(buffers)

    def _bytes_of(self, values: Any) -> int:
        tensors = [t for t in tree_leaves(values) if isinstance(t, _C.Tensor)]
        known = (self._held.get(s._cdata) for t in tensors for s in get_untyped_storages(t))
        return sum(held.taken for held in known if held is not None)

    def _pre_fw_hook(self, module: Module, inputs: Any) -> None:
        name = self._mod_tracker.get_known_fqn(module)
        assert name is not None, "MemTracker: a module runs that ModTracker has not named"
        state, stats = _ModState.PRE_FW, self.memory_tracking.get(module)
        if stats is None:
            stats = _ModMemStats(name)
            stats.parameter_mem, stats.buffer_mem = self._follow_module(module, install_grad_hooks=True)
            stats.input_mem = self._bytes_of(inputs)
            self.memory_tracking[module] = stats
        elif self._mod_tracker.is_bw:
            state = _ModState.PRE_FW_AC
            if self._recomputed is None:
                self._recomputed, self._in_ac = weakref.ref(module), True
        else:
            if self._mod_tracker.parents - {name} == {"Global"}:
                raise NotImplementedError(
                    f"MemTracker: {name} runs a second time. Call reset_mod_stats between iterations."
                )
            stats.mod_fqn, stats.input_mem = name, self._bytes_of(inputs)
        snapshot = self.get_tracker_snapshot()
        if state is _ModState.PRE_FW:
            stats.local_peak = {device: found[TOTAL] for device, found in snapshot.items()}
            stats.note(_ModState.PEAK_FW, deepcopy(snapshot))
        stats.note(state, snapshot)

    def _post_fw_hook(self, module: Module, inputs: Any, outputs: Any) -> None:
        stats, state = self.memory_tracking[module], _ModState.POST_FW
        if self._mod_tracker.is_bw:
            state = _ModState.POST_FW_AC
            if self._recomputed is not None and self._recomputed() is module:
                self._recomputed, self._in_ac = None, False
        else:
            stats.output_mem = self._bytes_of(outputs)
        stats.note(state, self.get_tracker_snapshot())

    def _pre_bw_hook(self, module: Module | None, grads: Any) -> None:
        if module is None:
            warnings.warn("MemTracker: a module is gone before its backward, whose start is not noted", stacklevel=2)
            return
        stats, snapshot = self.memory_tracking[module], self.get_tracker_snapshot()
        stats.local_peak = {device: found[TOTAL] for device, found in snapshot.items()}
        stats.note(_ModState.PEAK_BW, deepcopy(snapshot))
        stats.note(_ModState.PRE_BW, snapshot)

    def _post_bw_hook(self, module: Module | None, grads: Any) -> None:
        if module is None:
            warnings.warn("MemTracker: a module is gone before its backward, whose end is not noted", stacklevel=2)
            return
        self.memory_tracking[module].note(_ModState.POST_BW, self.get_tracker_snapshot())

    def _follow_optimizer(self, optimizer: Optimizer) -> None:
        for state in optimizer.state.values():
            for value in state.values():
                if isinstance(value, _C.Tensor):
                    self._follow(value, _MemRefType.OPT, True)

    def _pre_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._in_opt = True

    def _post_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._follow_optimizer(optimizer)
        self._in_opt = False

    def track_external(self, *external: Module | Optimizer | Any) -> None:
        """Follow modules, optimizers and tensors that were made outside; call it before the context is entered."""
        for each in tree_leaves(external):
            if isinstance(each, _C.Tensor):
                self._follow(each, _MemRefType.OTH, True)
            elif isinstance(each, Module):
                self._follow_module(each, install_grad_hooks=False)
            elif isinstance(each, Optimizer):
                self._follow_optimizer(each)
            elif each is not None:
                raise TypeError(f"track_external: expected modules, optimizers and tensors, got {type(each)}")

    # --- what is shown ------------------------------------------------------------------------------------------------

    def display_snapshot(self, type: str = "current", units: str = "B", tabulate: bool = False) -> None:
        """Print a snapshot, in B, KiB, MiB or GiB; as a table with the package tabulate."""
        (print_snapshot_table if tabulate else print_snapshot)(self.get_tracker_snapshot(type), units)

    def display_modulewise_snapshots(self, depth: int = 2, units: str = "B", tabulate: bool = False) -> None:
        """Print the snapshots of every module down to a depth, by name."""

        def natural(stats: _ModMemStats) -> list[Any]:
            return [int(part) if part.isdigit() else part.lower() for part in re.split("([0-9]+)", stats.mod_fqn)]

        for stats in sorted(self.memory_tracking.values(), key=natural):
            if stats.mod_fqn.count(".") < depth:
                print(f"Module:  {stats.mod_fqn}")
                (print_states_table if tabulate else print_states)(stats.snapshots, units)

    def reset_mod_stats(self) -> None:
        """Forget what was noted of modules."""
        self.memory_tracking.clear()

    # --- the mode -----------------------------------------------------------------------------------------------------

    def __enter__(self) -> MemTracker:
        if self._depth == 0:
            self._fake_mode = active_fake_mode()
            self._optimizer_hooks = [
                register_optimizer_step_pre_hook(self._pre_step), register_optimizer_step_post_hook(self._post_step)
            ]
            self._mod_tracker.register_user_hooks(
                self._pre_fw_hook, self._post_fw_hook, self._pre_bw_hook, self._post_bw_hook
            )
            self._peak_mem_snap = self.get_tracker_snapshot()
            self._peak_mem = {device: found[TOTAL] for device, found in self._peak_mem_snap.items()}
            self._mod_tracker.__enter__()
        super().__enter__()
        self._depth += 1
        return self

    def __exit__(self, *exc: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            for handle in [*self._optimizer_hooks, *(h for pair in self._gradient_hooks.values() for h in pair)]:
                handle.remove()
            self._gradient_hooks.clear()
            self._optimizer_hooks.clear()
            self._mod_tracker.clear_user_hooks()
            self._mod_tracker.__exit__(*exc)
        super().__exit__(*exc)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        if any(t.__name__ == "DTensor" for t in types):
            return NotImplemented      # it calls ops on its local tensors, which come here
        result = func(*args, **(kwargs or {}))
        if active_fake_mode() is not self._fake_mode:
            return result      # the shapes of a distributed tensor's result, not the result
        is_backward = self._mod_tracker.is_bw
        made = _MemRefType.TEMP if is_backward and not self._in_ac else _MemRefType.ACT
        kind = _MemRefType.OPT if self._in_opt else made
        self._drop_unheld()
        for t in tree_leaves(result):
            if isinstance(t, _C.Tensor):
                self._follow(t, kind, False)
        self._note_peaks(_ModState.PEAK_BW if is_backward else _ModState.PEAK_FW)
        return result
