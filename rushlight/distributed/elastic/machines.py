"""The launcher of a job whose machines come and go (`--nnodes 2:4 --rdzv-backend c10d`).

Every machine runs one. They agree on who takes part (`membership.py`), start their processes, and begin again with
whoever is there when a process fails, a machine is lost or one more comes. Programs that save checkpoints go on from
the last one; failures count against `--max-restarts`, changes of machines do not.
"""

from __future__ import annotations

import sys
import time

from ..doors import own_address
from ..launcher import Job, Launcher, free_port
from .membership import ClosedError, Limits, Membership, Round

_LOOK_SECONDS = 0.5      # between looks at the other machines


class ElasticLauncher(Launcher):
    """One machine's part of such a job."""

    def __init__(self, job: Job, limits: Limits) -> None:
        super().__init__(job)
        if self.store is None:
            raise ValueError("a job whose machines come and go needs a place to meet (--rdzv-endpoint)")
        self.membership = Membership(self.store, job.name, job.processes, limits)

    def _run(self) -> int:
        members, job = self.membership, self.job
        while True:
            try:
                running = members.join()
            except (ClosedError, TimeoutError) as error:
                print(f"rushlight: {error}", file=sys.stderr)
                return 1
            try:
                failures, why = self._round(running)
            except (RuntimeError, OSError) as error:      # the store has gone, and with it the others
                print(f"rushlight: the machine where launchers meet cannot be reached ({error})", file=sys.stderr)
                return 1
            if not failures and not why:
                if members.finish(running):
                    members.close("all processes ended well")
                    return 0
                why = "a process on another machine failed"
            for failure in failures:
                print(f"rushlight: {failure}", file=sys.stderr)
            if failures and running.restarts >= job.max_restarts:
                members.close(f"{failures[0]}, and max_restarts={job.max_restarts}")
                return 1
            print(f"rushlight: beginning again: {why or 'a process failed'}", file=sys.stderr)
            members.leave(running, failed=bool(failures))

    def _round(self, running: Round) -> tuple[list, str]:
        """Run the processes of a round: what failed here, or why it ended otherwise."""
        self.machine, self.machines, self.first_rank, self.total = running.place(self.membership.name)
        store, key = self.store, f"elastic/{self.job.name}/master/{running.number}"
        assert store is not None, "the launcher has met the others"
        if self.machine == 0:
            store.set(key, f"{own_address()} {free_port()}")
        while not store.check([key]):      # whoever gives it out may be lost before that
            why = self.membership.is_over(running)
            if why:
                return [], why
            time.sleep(0.05)
        address, port = store.get(key).decode().split()
        print(f"rushlight: round {running.number}: {self.machines} machine(s), {self.total} processes", file=sys.stderr)
        try:
            for local_rank in range(self.job.processes):
                self.processes.append(self._start(local_rank, running.restarts, address, int(port)))
            return self._watch_round(running)
        finally:
            self._clear()

    def _watch_round(self, running: Round) -> tuple[list, str]:
        looked = 0.0
        while True:
            failures, are_done = self._look()
            if failures or are_done:
                return failures, ""
            if time.monotonic() - looked > _LOOK_SECONDS:
                looked = time.monotonic()
                why = self.membership.is_over(running)
                if why:
                    return [], why
            time.sleep(self.job.interval)
