"""Which machines take part in a job, when their number may change: agreed on through a store, in rounds.

A round is open until enough machines have come (the least number, and then a moment for more; or the most), and then
runs. A machine that comes later waits; the running ones see that, end their processes, and a new round opens for all.
A machine whose sign of life stops for a while is taken for dead, which ends a round as well.

The state of a job is one value in the store, changed only by comparing and setting. Signs of life are counters: each
machine sees for how long another's has not moved, by its own clock.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..store import Store


@dataclass(frozen=True)
class Limits:
    """How many machines, and seconds: to wait for the least number, for more after that, between signs of life, and
    without one until a machine is taken for dead."""

    least: int
    most: int
    join: float = 600.0
    last_call: float = 30.0
    beat: float = 1.0
    silence: float = 15.0


@dataclass(frozen=True)
class Round:
    """A round that runs: its number, how often processes have failed so far, and the machines, in order, with the
    number of processes of each."""

    number: int
    restarts: int
    machines: tuple[tuple[str, int], ...]

    def place(self, name: str) -> tuple[int, int, int, int]:
        """(this machine's number, machines, its first rank, ranks)."""
        names = [machine for machine, _ in self.machines]
        counts = [count for _, count in self.machines]
        at = names.index(name)
        return at, len(names), sum(counts[:at]), sum(counts)


class ClosedError(RuntimeError):
    """The job has ended: nobody can join it any more."""


class Membership:
    """A machine's place in a job."""

    def __init__(self, store: Store, job: str, processes: int, limits: Limits) -> None:
        self.name = uuid.uuid4().hex[:12]
        self._store, self._job, self._processes, self.limits = store, job, processes, limits
        self._seen: dict[str, tuple[int, float]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="elastic-beat", daemon=True)
        self._thread.start()

    # --- the state ----------------------------------------------------------------------------------------------------

    def _key(self, name: str) -> str:
        return f"elastic/{self._job}/{name}"

    def _read(self) -> tuple[bytes, dict[str, Any]]:
        first = {"round": 0, "runs": False, "machines": [], "waiting": [], "restarts": 0, "closed": ""}
        raw = self._store.compare_set(self._key("state"), "", json.dumps(first))
        return raw, json.loads(raw)

    def _change(self, change: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Change the state, unless `change` says that there is nothing to do; what it is then."""
        while True:
            raw, state = self._read()
            if not change(state):
                return state
            wanted = json.dumps(state).encode()
            if self._store.compare_set(self._key("state"), raw.decode(), wanted.decode()) == wanted:
                return state

    def _beat(self) -> None:
        count = 0
        while not self._stop.wait(self.limits.beat if count else 0):
            count += 1
            with contextlib.suppress(RuntimeError, OSError):      # the store's end is noticed elsewhere
                self._store.set(self._key(f"beat/{self.name}"), str(count))

    def _is_dead(self, name: str) -> bool:
        if name == self.name:
            return False
        known = self._store.check([self._key(f"beat/{name}")])
        count = int(self._store.get(self._key(f"beat/{name}"))) if known else 0
        before, since = self._seen.get(name, (-1, 0.0))
        if count != before:
            self._seen[name] = count, time.monotonic()
            return False
        return time.monotonic() - since > self.limits.silence

    # --- a round ------------------------------------------------------------------------------------------------------

    def join(self) -> Round:
        """Take part in the next round: wait until it runs."""
        deadline = time.monotonic() + self.limits.join
        enough_since: float | None = None
        while True:
            state = self._change(self._enter)
            if state["closed"]:
                raise ClosedError(f"job {self._job} has ended: {state['closed']}")
            names = [name for name, _ in state["machines"]]
            if state["runs"] and self.name in names:
                return Round(state["round"], state["restarts"], tuple((n, c) for n, c in state["machines"]))
            if not state["runs"]:
                dead = [name for name in names if self._is_dead(name)]
                if len(names) - len(dead) < self.limits.least:
                    enough_since = None
                elif enough_since is None:
                    enough_since = time.monotonic()
                is_full = len(names) - len(dead) >= self.limits.most
                is_time = enough_since is not None and time.monotonic() - enough_since >= self.limits.last_call
                if dead or is_full or is_time:
                    self._change(lambda s, n=state["round"], d=dead, go=is_full or is_time: self._settle(s, n, d, go))
                    continue
            else:
                self._end_round_of_the_dead(state)
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"job {self._job}: {len(names)} of at least {self.limits.least} machines came within "
                    f"{self.limits.join:g} s"
                )
            time.sleep(min(0.1, self.limits.beat))

    def _enter(self, state: dict[str, Any]) -> bool:
        names = [name for name, _ in state["machines"]]
        if state["closed"] or self.name in names:
            return False
        if not state["runs"] and len(names) < self.limits.most:
            state["machines"].append([self.name, self._processes])
            state["waiting"] = [name for name in state["waiting"] if name != self.name]
            return True
        if self.name in state["waiting"]:
            return False
        state["waiting"].append(self.name)
        return True

    def _settle(self, state: dict[str, Any], number: int, dead: list[str], goes: bool) -> bool:
        if state["round"] != number or state["runs"]:
            return False
        state["machines"] = [row for row in state["machines"] if row[0] not in dead]
        state["runs"] = goes and len(state["machines"]) >= self.limits.least
        return True

    def _end_round_of_the_dead(self, state: dict[str, Any]) -> None:
        """One that waits ends a round that nobody is left in."""
        if all(self._is_dead(name) for name, _ in state["machines"]):
            self.leave(Round(state["round"], state["restarts"], ()), failed=False)

    def is_over(self, running: Round) -> str:
        """Why a round must end, in words; nothing while it may go on."""
        _, state = self._read()
        if state["closed"]:
            return f"the job has ended: {state['closed']}"
        if state["round"] != running.number:
            return "another machine began a new round"
        dead = [name for name, _ in state["machines"] if self._is_dead(name)]
        if dead:
            return f"a machine gave no sign of life for {self.limits.silence:g} s"
        waiting = [name for name in state["waiting"] if not self._is_dead(name)]
        if waiting and len(state["machines"]) < self.limits.most:
            return f"{len(waiting)} more machine(s) came"
        return ""

    def leave(self, running: Round, failed: bool) -> None:
        """End a round, and open the next; `failed` counts against the restarts."""

        def open_next(state: dict[str, Any]) -> bool:
            if state["round"] != running.number or state["closed"]:
                return False
            state.update(round=running.number + 1, runs=False, machines=[], waiting=[])
            state["restarts"] += int(failed)
            return True

        self._change(open_next)

    def finish(self, running: Round) -> bool:
        """This machine's processes have ended well: wait for the others'. False if the round ends before they do."""
        key = self._key(f"done/{running.number}")
        try:
            self._store.add(key, 1)
            while self._store.add(key, 0) < len(running.machines):
                _, state = self._read()
                if state["closed"] or state["round"] != running.number:
                    return bool(state["closed"])
                if any(self._is_dead(name) for name, _ in state["machines"]):
                    return True      # it may have ended well before it died; there is nothing left to run here
                time.sleep(0.1)
        except (RuntimeError, OSError):      # the machine with the store has seen all done, and has gone
            pass
        return True

    def close(self, why: str) -> None:
        """End the job for all."""

        def shut(state: dict[str, Any]) -> bool:
            if state["closed"]:
                return False
            state["closed"] = why
            return True

        with contextlib.suppress(RuntimeError, OSError):
            self._change(shut)
        self._stop.set()
