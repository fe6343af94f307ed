"""What a captured frame changed outside of itself, and the code that changes it again.

Enters: twins, and what they were when they were first read. Leaves: instructions that bring the objects they stand for
to the same state: members of containers, attributes, cells, globals, modes of the thread. Tensors are written to by the
graph itself.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import Any

from ..._C import Tensor
from ..record.acts import (
    delete_item,
    fill_cell,
    refill,
    refill_base,
    refill_dict,
    refill_dict_base,
    refill_set,
    set_grad,
    set_item,
    step_behind,
)
from ..record.breaks import GraphBreak
from ..values import iterators
from ..values.attributes import MISSING
from ..values.outside import Twin, dict_of
from .rebuild import Rebuilder


class Effects:
    """Writes the effects of one frame."""

    def __init__(self, rebuilder: Rebuilder) -> None:
        self.rebuilder, self.emitter = rebuilder, rebuilder.emitter
        self.machine = rebuilder.machine
        self.changed: list[Twin] = []
        self.locks_end = 0      # how many instructions were written when the frame's locks were let go
        self.acts: list[tuple[Callable | None, tuple, bool]] = []      # what was written: see act; None: call_again

    def write(self) -> None:
        """All effects."""
        for call in self.machine.asserted:      # before anything is changed
            self.call_again(*call)
        for step in self.machine.optimizer_steps.taken:      # first: what the program wrote to optimizers came later
            self.act(step_behind, step.optimizer, step.params, step.gradients)
        for known in list(self.machine.outside.by_twin.values()):
            rule = _RULES.get(known.kind)
            if rule is not None:
                if rule(self, known):
                    self.changed.append(known)
        for t in self.machine.gradients.changed.values():
            self.act(set_grad, t, self.machine.gradients.now[id(t)][1])
        for t, names in self.machine.classes.written.values():
            for name, value in names.items() if self.machine.twin_of(t) is not None else ():
                self.act(setattr, t, name, value)
        for place, names in self.machine.writes.items():
            for name, value in names.items():
                self.act(set_item, self.machine.scopes[place], name, value, is_known=True)
        if self.machine.locks.taken:      # what is said is said without them
            self.machine.locks.write_end(self.emitter)
            self.locks_end = len(self.emitter.instructions)
        for call in self.machine.deferred:
            self.call_again(*call)

    def call_again(self, function: Callable, args: tuple, kwargs: dict[str, Any]) -> None:
        """function(*args, **kwargs), from the code itself: warnings name their caller."""
        self.acts.append((None, (function, args, kwargs), False))
        for value in (function, args, kwargs):
            self.rebuilder.push(value)
        self.emitter.call_spread(has_kwargs=True)
        self.emitter.pop()

    def act(self, function: Callable, owner: Any, *args: Any, is_known: bool = False) -> None:
        """function(owner, *args)"""
        self.acts.append((function, (owner, *args), is_known))
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
        self.act(refill, known.twin, now)
        return 1

    def dict(self, known: Twin) -> int:
        before, now = known.before, dict(dict.items(known.twin))
        if before is None or (_same_keys(now, before) and _same(list(now.values()), list(before.values()))):
            return 0
        gone = [k for k in before if k not in now]
        kept = [k for k in before if k in now]
        if not _same_keys(list(now)[:len(kept)], kept):
            self.act(refill_dict, known.twin, now)
            return 1
        for key in gone:
            self.act(delete_item, known.twin, key)
        for key, value in now.items():
            if key not in before or before[key] is not value:
                self.act(set_item, known.twin, key, value)
        return 1

    def set(self, known: Twin) -> int:
        if known.twin == known.before:
            return 0
        self.act(refill_set, known.twin, list(known.twin))
        return 1

    def iterator(self, known: Twin) -> int:
        count, is_done = iterators.drawn(known.twin, known.before)
        if not count and not is_done:
            return 0
        self.act(iterators.advance, known.twin, count, is_done)
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
        self.act(fill_cell, known.twin, now)
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
                self.act(refill_base, known.twin, now)
                count += 1
        elif isinstance(known.twin, dict):
            count += self.dict_base(known)
        return count

    def slots(self, known: Twin) -> int:
        count = 0
        for one in type(known.twin).__mro__:
            for name, found in one.__dict__.items():
                if not isinstance(found, types.MemberDescriptorType) or name == "__dict__":      # that of a namespace
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
        self.act(refill_dict_base, known.twin, now)
        return 1


_RULES: dict[str, Callable[[Effects, Twin], int]] = {
    "list": Effects.list, "dict": Effects.dict, "set": Effects.set, "cell": Effects.cell, "object": Effects.object,
    "iterator": Effects.iterator,
}


def _same_keys(a: Iterable, b: Iterable) -> bool:
    """Whether keys are the same, in the same order; those that are tensors as objects."""
    a, b = list(a), list(b)
    return len(a) == len(b) and all(
        x is y or (not isinstance(x, Tensor) and not isinstance(y, Tensor) and x == y)
        for x, y in zip(a, b, strict=True))


def _same(a: list, b: list) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))
