"""Locks that a captured frame takes: `with lock:`, `lock.acquire()`, `lock.release()`.

Enters: calls of a lock's methods while a frame is captured; no lock is touched then. Leaves: code around the frame's.
Effects of a frame are written behind its graph, so the locks are taken before all of it, in the program's order, and
let go when the effects are there: whatever the program does inside a block is done with the lock held. What guards
found was found before the lock was there, so they are asked again with it; if another thread changed something in
between, the locks are let go and the frame runs as it is. Refuses (breaks the graph): waiting with a timeout, locks
taken one after the other (held together they could wait for each other), functions of the program inside of the graph,
which may want the same lock.
"""

from __future__ import annotations

import threading
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..bytecode.instructions import Handler, Instruction
from ..record.breaks import GraphBreak

if TYPE_CHECKING:
    from ...fx.graph import Graph
    from ..bytecode.emitter import Emitter
    from .guards import GuardTree

KINDS = (type(threading.Lock()), type(threading.RLock()))
_TAKE, _LET_GO = ("acquire", "__enter__"), ("release", "__exit__")
_VARIABLE = 0x04 | 0x08      # flags of code: *args, **kwargs


class Locks:
    """The locks of one capture."""

    def __init__(self) -> None:
        self.taken: list[Any] = []            # all that were, in order
        self.depth: dict[int, int] = {}       # how often each is held now, by its id

    def call(self, lock: Any, name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
        """lock.name(*args, **kwargs)"""
        if name in _TAKE and (not (args or kwargs) or (args, kwargs) == ((True,), {})):
            self.take(lock)
            return True
        if name in _LET_GO:
            if not self.depth.get(id(lock)):
                raise GraphBreak("native", "a lock is let go that the function did not take")
            self.depth[id(lock)] -= 1
            return None
        raise GraphBreak("native", f"{name} of a lock is called, which depends on other threads")

    def take(self, lock: Any) -> None:
        held = self.depth.get(id(lock), 0)
        if held and type(lock) is KINDS[0]:
            raise GraphBreak("native", "a lock is taken that the function holds already")
        if not held and self.taken and not any(self.depth.values()):
            if lock is not self.taken[-1]:
                raise GraphBreak("native", "two locks are taken one after the other")
        if id(lock) not in self.depth:
            self.taken.append(lock)
        self.depth[id(lock)] = held + 1

    def check(self, graph: Graph) -> None:
        """Refuse functions of the program inside of a graph that runs with locks."""
        for node in graph.nodes:
            if node.op != "call_function":
                continue
            name = getattr(node.target, "__name__", "")
            if getattr(node.target, "__module__", "") == "program" or "::" in name:
                raise GraphBreak("native", f"{name} runs in the graph while a lock is held")

    # --- the code -----------------------------------------------------------------------------------------------------

    def write_start(self, emitter: Emitter, globals: dict[str, Any]) -> tuple[Again, Handler]:
        """Take the locks, and see that all is still as the guards found it. What follows has the handler."""
        code, given = emitter.code, emitter.parameters
        again = Again(code, given, globals)
        self.write(emitter, take_all)
        emitter.load_const(again.holds)
        self.write_frame(emitter)
        go_on, failed = emitter.label(), emitter.label()
        emitter.jump_if(True, go_on)
        self.write(emitter, let_all_go)
        emitter.load_const(again.run)
        self.write_frame(emitter)
        emitter.return_value()
        emitter.place(failed)      # an exception of what follows: it alone is on the stack
        self.write(emitter, let_all_go)
        emitter.emit("RERAISE", 0, 0)
        emitter.place(go_on)
        return again, Handler(failed, 0, False)

    def write_frame(self, emitter: Emitter) -> None:
        """callable -> callable(locals, cells)"""
        for name in emitter.parameters:
            emitter.load_local(name)
        emitter.build_tuple(len(emitter.parameters))
        for name in emitter.code.co_freevars:
            emitter.load_cell(name)
        emitter.build_tuple(len(emitter.code.co_freevars))
        emitter.call(2)

    def write_end(self, emitter: Emitter) -> None:
        """Let go of what the program let go of."""
        held = tuple(self.depth[id(lock)] for lock in self.taken)
        emitter.load_const(settle)
        emitter.load_const(tuple(self.taken))
        emitter.load_const(held)
        emitter.call(2)
        emitter.pop()

    def write(self, emitter: Emitter, function: Any) -> None:
        emitter.load_const(function)
        emitter.load_const(tuple(self.taken))
        emitter.call(1)
        emitter.pop()


def under(handler: Handler, instructions: Sequence[Instruction]) -> None:
    """Let exceptions of these instructions go to a handler."""
    for one in instructions:
        if one.handler is None:
            one.handler = handler


class Again:
    """The guards of a frame, to be asked once more; and the frame as it is, for where they do not hold."""

    def __init__(self, code: types.CodeType, given: Sequence[str], globals: dict[str, Any]) -> None:
        self.tree: GuardTree | None = None      # known when the frame is captured
        self.globals, self.given = globals, tuple(given)
        count = len(given)
        self.code = code.replace(co_argcount=count, co_kwonlyargcount=0, co_posonlyargcount=0,
                                 co_flags=code.co_flags & ~_VARIABLE)

    def holds(self, locals: tuple, cells: tuple) -> bool:
        assert self.tree is not None, "locks: the guards of a frame are known before it runs"
        return self.tree.check(locals, self.globals, cells)

    def run(self, locals: tuple, cells: tuple) -> Any:
        """The frame as it is."""
        values = dict(zip(self.given, locals, strict=True))
        function = types.FunctionType(self.code, self.globals, self.code.co_name, None, cells)
        return function(*[values[name] for name in self.code.co_varnames[:len(values)]])


def take_all(locks: tuple) -> None:
    """Take locks, in order; all or none."""
    done = []
    try:
        for lock in locks:
            lock.acquire()
            done.append(lock)
    except BaseException:
        let_all_go(tuple(done))
        raise


def let_all_go(locks: tuple) -> None:
    """Let go of locks that are held once."""
    for lock in reversed(locks):
        lock.release()


def settle(locks: tuple, depths: tuple[int, ...]) -> None:
    """Hold each lock as often as the program does now; here all are held once."""
    for lock, depth in zip(reversed(locks), reversed(depths), strict=True):
        if not depth:
            lock.release()
        for _ in range(depth - 1):
            lock.acquire()
