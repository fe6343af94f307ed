"""What a captured frame changed outside of itself, and the code that changes it again.

Enters: twins, and what they were when they were first read. Leaves: instructions that bring the objects they stand for
to the same state: members of containers, attributes, cells, globals, modes of the thread. Tensors are written to by the
graph itself.
"""

from __future__ import annotations

import collections
import types
from collections.abc import Callable, Iterable
from typing import Any

from .._C import Tensor
from .attributes import MISSING
from .breaks import GraphBreak
from .optimizers import step_behind
from .outside import Twin, dict_of
from .rebuild import Rebuilder


class Effects:
    """Writes the effects of one frame."""

    def __init__(self, rebuilder: Rebuilder) -> None:
        self.rebuilder, self.emitter = rebuilder, rebuilder.emitter
        self.machine = rebuilder.machine
        self.changed: list[Twin] = []
        self.locks_end = 0      # how many instructions were written when the frame's locks were let go

    def write(self) -> int:
        """All effects; how many there were."""
        count = 0
        for call in self.machine.asserted:      # before anything is changed
            self.call_again(*call)
            count += 1
        for step in self.machine.optimizer_steps.taken:      # first: what the program wrote to optimizers came later
            self.act(step_behind, step.optimizer, step.params, step.gradients)
            count += 1
        for known in list(self.machine.outside.by_twin.values()):
            rule = _RULES.get(known.kind)
            if rule is not None:
                done = rule(self, known)
                count += done
                if done:
                    self.changed.append(known)
        for t in self.machine.gradients.changed.values():
            self.act(_set_grad, t, self.machine.gradients.now[id(t)][1])
            count += 1
        for t, names in self.machine.classes.written.values():
            for name, value in names.items() if self.machine.twin_of(t) is not None else ():
                self.act(setattr, t, name, value)
                count += 1
        for place, names in self.machine.writes.items():
            for name, value in names.items():
                self.act(_set_item, self.machine.scopes[place], name, value, is_known=True)
                count += 1
        if self.machine.locks.taken:      # what is said is said without them
            self.machine.locks.write_end(self.emitter)
            self.locks_end = len(self.emitter.instructions)
            count += 1
        for call in self.machine.deferred:
            self.call_again(*call)
            count += 1
        return count

    def call_again(self, function: Callable, args: tuple, kwargs: dict[str, Any]) -> None:
        """function(*args, **kwargs), from the code itself: warnings name their caller."""
        for value in (function, args, kwargs):
            self.rebuilder.push(value)
        self.emitter.call_spread(has_kwargs=True)
        self.emitter.pop()

    def act(self, function: Callable, owner: Any, *args: Any, is_known: bool = False) -> None:
        """function(owner, *args)"""
        self.emitter.load_const(function)
        if is_known:
            self.emitter.load_const(owner)
        else:
            self.rebuilder.push(owner)
        for value in args:
            self.rebuilder.push(value)
            self.machine.kept.append(value)
        self.emitter.call(1 + len(args))
        self.emitter.pop()
        while self.rebuilder.pending:
            self.rebuilder.pending.pop(0)()

    def list(self, known: Twin) -> int:
        now = list(known.twin)
        if known.before is None or _same(now, known.before):
            return 0
        self.act(_refill, known.twin, now)
        return 1

    def dict(self, known: Twin) -> int:
        before, now = known.before, dict(dict.items(known.twin))
        if before is None or (_same_keys(now, before) and _same(list(now.values()), list(before.values()))):
            return 0
        gone = [k for k in before if k not in now]
        kept = [k for k in before if k in now]
        if not _same_keys(list(now)[:len(kept)], kept):
            self.act(_refill_dict, known.twin, now)
            return 1
        for key in gone:
            self.act(_delete_item, known.twin, key)
        for key, value in now.items():
            if key not in before or before[key] is not value:
                self.act(_set_item, known.twin, key, value)
        return 1

    def set(self, known: Twin) -> int:
        if known.twin == known.before:
            return 0
        self.act(_refill_set, known.twin, list(known.twin))
        return 1

    def cell(self, known: Twin) -> int:
        try:
            now = known.twin.cell_contents
        except ValueError:
            if known.before is None:
                return 0
            raise GraphBreak("mutation", "a variable of an enclosing function is deleted") from None
        if now is known.before:
            return 0
        self.act(_fill_cell, known.twin, now)
        return 1

    def object(self, known: Twin) -> int:
        count = 0
        own = dict_of(known.twin)
        for name, value in list(own.items()):
            if known.read.get(name, MISSING) is not value:
                self.act(object.__setattr__, known.twin, name, value)
                count += 1
        real = dict_of(known.real)
        for name in known.read:
            if name not in own and name in real:
                self.act(object.__delattr__, known.twin, name)
                count += 1
        count += self.slots(known)
        if isinstance(known.twin, list):
            now = list(list.__iter__(known.twin))
            if not _same(now, known.before):
                self.act(_refill_base, known.twin, now)
                count += 1
        elif isinstance(known.twin, dict):
            count += self.dict_base(known)
        return count

    def slots(self, known: Twin) -> int:
        count = 0
        for one in type(known.twin).__mro__:
            for name, found in one.__dict__.items():
                if not isinstance(found, types.MemberDescriptorType):
                    continue
                try:
                    value = found.__get__(known.twin)
                except AttributeError:
                    if name in known.deleted:
                        self.act(object.__delattr__, known.twin, name)
                        count += 1
                    continue
                if known.read.get(name, MISSING) is not value:
                    self.act(object.__setattr__, known.twin, name, value)
                    count += 1
        return count

    def dict_base(self, known: Twin) -> int:
        now = dict(dict.items(known.twin))
        if _same_keys(now, known.before) and _same(list(now.values()), list(known.before.values())):
            return 0
        self.act(_refill_dict_base, known.twin, now)
        return 1


_RULES: dict[str, Callable[[Effects, Twin], int]] = {
    "list": Effects.list, "dict": Effects.dict, "set": Effects.set, "cell": Effects.cell, "object": Effects.object,
}  # fmt: skip


def _same_keys(a: Iterable, b: Iterable) -> bool:
    """Whether keys are the same, in the same order; those that are tensors as objects."""
    a, b = list(a), list(b)
    return len(a) == len(b) and all(
        x is y or (not isinstance(x, Tensor) and not isinstance(y, Tensor) and x == y)
        for x, y in zip(a, b, strict=True))


def _same(a: list, b: list) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


# --- what the written code calls --------------------------------------------------------------------------------------


def _refill(owner: Any, members: list) -> None:
    if isinstance(owner, collections.deque):
        owner.clear()
        owner.extend(members)
    else:
        owner[:] = members


def _refill_base(owner: list, members: list) -> None:
    list.__setitem__(owner, slice(None), members)


def _refill_dict(owner: dict, now: dict) -> None:
    owner.clear()
    owner.update(now)


def _refill_dict_base(owner: dict, now: dict) -> None:
    base = collections.OrderedDict if isinstance(owner, collections.OrderedDict) else dict
    base.clear(owner)
    for key, value in now.items():
        base.__setitem__(owner, key, value)


def _refill_set(owner: set, now: list) -> None:
    owner.clear()
    owner.update(now)


def _set_grad(owner: Any, value: Any) -> None:
    owner.grad = value


def _set_item(owner: Any, key: Any, value: Any) -> None:
    owner[key] = value


def _delete_item(owner: Any, key: Any) -> None:
    del owner[key]


def _fill_cell(cell: types.CellType, contents: Any) -> None:
    cell.cell_contents = contents
