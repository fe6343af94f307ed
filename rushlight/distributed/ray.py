"""A job's processes as actors of Ray (`pip install rushlight[ray]`), on one machine or on a cluster that Ray knows.

    from rushlight.distributed import ray as on_ray

    losses = on_ray.run(train, args=(config,), workers=8, gpus_per_worker=1)      # one result per rank

`run` places the workers, gives each its rank and the place where they meet, calls the function in all of them and
collects what they return. In the function `init_process_group()` needs no arguments. When a worker raises or dies, the
others are ended, and the error names its rank, its machine and what it said. `Workers` is the same for several calls.
"""

from __future__ import annotations

import importlib.util
import time
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from ..base import late
from ..base.environment import adopt
from .launcher import free_port

_DIED = "the process died"
PLACEMENTS = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")


class WorkerFailed(RuntimeError):      # noqa: N818 - what it says is what happened
    """A worker that raised, or died: `rank`, and the `node` it was on."""

    def __init__(self, rank: int, node: str, what: str) -> None:
        super().__init__(f"rank {rank} on {node or 'a machine that is unknown'} failed: {what}")
        self.rank, self.node, self.what = rank, node, what


def _ray() -> Any:
    if importlib.util.find_spec("ray") is None:
        raise RuntimeError("distributed.ray needs Ray: pip install rushlight[ray]")
    import ray

    return ray


class _Worker:
    """What an actor is: one process of the job."""

    def place(self) -> tuple[str, str]:
        """(the machine's number in Ray, its address as others see it)."""
        ray = _ray()
        return ray.get_runtime_context().get_node_id(), ray.util.get_node_ip_address()

    def port(self) -> int:
        """A free port of this machine."""
        return free_port()

    def prepare(self, variables: dict[str, str], serves_torch: bool) -> None:
        """The environment that `init_process_group` reads; and `torch`, for programs that import that."""
        adopt(variables)
        if serves_torch:
            late.provided("torch served")()

    def call(self, function: Callable, args: tuple, kwargs: dict) -> tuple[bool, Any]:
        """(whether it went well, the result or what was raised, in words)."""
        try:
            return True, function(*args, **kwargs)
        except Exception:
            return False, traceback.format_exc()


class Workers:
    """Processes of one job on Ray, ranks 0 to `workers` - 1 in the order of machines; `with` ends them at the end.

    `placement` is Ray's word for how they are placed: PACK (few machines), SPREAD (many), STRICT_PACK (one machine) or
    STRICT_SPREAD (a machine each). `environment` is set in every process; `serves_torch` lets programs written for
    PyTorch import it. `timeout` is for all to be placed and started: a cluster that is too small is an error then."""

    def __init__(
        self,
        workers: int,
        *,
        cpus_per_worker: float = 1,
        gpus_per_worker: float = 0,
        resources_per_worker: dict[str, float] | None = None,
        placement: str = "PACK",
        environment: dict[str, str] | None = None,
        serves_torch: bool = False,
        timeout: timedelta = timedelta(minutes=5),
    ) -> None:
        if not isinstance(workers, int) or workers < 1:
            raise ValueError(f"Workers: expected a positive number of workers, got {workers!r}")
        if placement not in PLACEMENTS:
            raise ValueError(f"Workers: placement must be one of {', '.join(PLACEMENTS)}, got {placement!r}")
        self._ray = _ray()
        if not self._ray.is_initialized():
            self._ray.init(log_to_driver=True)
        self.size, self._actors, self._nodes = workers, [], [""] * workers
        bundle = {"CPU": cpus_per_worker, **(resources_per_worker or {})}
        if gpus_per_worker:
            bundle["GPU"] = gpus_per_worker
        self._group = self._ray.util.placement_group([bundle] * workers, strategy=placement)
        try:
            self._start(bundle, timeout.total_seconds())
            self._prepare(environment or {}, serves_torch, timeout.total_seconds())
        except BaseException:
            self.close()
            raise

    def _start(self, bundle: dict[str, float], seconds: float) -> None:
        if not self._group.wait(seconds):
            have = self._ray.cluster_resources()
            raise RuntimeError(
                f"distributed.ray: {self.size} workers with {bundle} each were not placed within {seconds:g} s; the "
                f"cluster has { {name: have.get(name, 0) for name in bundle} }"
            )
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy as Strategy

        rest = {name: amount for name, amount in bundle.items() if name not in ("CPU", "GPU")}
        kind = self._ray.remote(_Worker)
        self._actors = [
            kind.options(
                num_cpus=bundle["CPU"], num_gpus=bundle.get("GPU", 0), resources=rest or None, max_restarts=0,
                scheduling_strategy=Strategy(placement_group=self._group, placement_group_bundle_index=place),
            ).remote()
            for place in range(self.size)
        ]

    def _prepare(self, environment: dict[str, str], serves_torch: bool, seconds: float) -> None:
        """Ranks by machine, so that neighbours share one; the place to meet is rank 0's."""
        places = self._ray.get([actor.place.remote() for actor in self._actors], timeout=seconds)
        order = sorted(range(self.size), key=lambda i: (places.index(places[i]), i))
        self._actors = [self._actors[i] for i in order]
        places = [places[i] for i in order]
        self._nodes = [address for _, address in places]
        nodes = list(dict.fromkeys(node for node, _ in places))
        counts = {node: sum(n == node for n, _ in places) for node in nodes}
        port = self._ray.get(self._actors[0].port.remote(), timeout=seconds)
        started, seen = [], dict.fromkeys(nodes, 0)
        for rank, (actor, (node, _)) in enumerate(zip(self._actors, places, strict=True)):
            variables = {
                "RANK": rank, "WORLD_SIZE": self.size, "LOCAL_RANK": seen[node], "LOCAL_WORLD_SIZE": counts[node],
                "GROUP_RANK": nodes.index(node), "GROUP_WORLD_SIZE": len(nodes), "MASTER_ADDR": self._nodes[0],
                "MASTER_PORT": port,
            }
            seen[node] += 1
            texts = {**environment, **{name: str(value) for name, value in variables.items()}}
            started.append(actor.prepare.remote(texts, serves_torch))
        self._ray.get(started, timeout=seconds)

    def run(self, function: Callable, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> list[Any]:
        """Call a function in every worker: what each returned, by rank. The first failure ends all and is raised."""
        if not self._actors:
            raise RuntimeError("distributed.ray: the workers have been closed, or ended with an earlier failure")
        calls = [actor.call.remote(function, tuple(args), kwargs or {}) for actor in self._actors]
        rank_of = {call: rank for rank, call in enumerate(calls)}
        results: list[Any] = [None] * self.size
        failures: list[WorkerFailed] = []
        waiting = calls
        deadline = float("inf")
        while waiting and time.monotonic() < deadline:
            done, waiting = self._ray.wait(waiting, num_returns=1, timeout=1.0)
            for call in done:
                rank = rank_of[call]
                try:
                    went_well, results[rank] = self._ray.get(call)
                    what = "" if went_well else results[rank]
                except self._ray.exceptions.RayActorError as error:
                    what = f"{_DIED}: {error}"
                except self._ray.exceptions.RayError as error:
                    what = f"Ray could not make the call: {error}"
                if what:
                    failures.append(WorkerFailed(rank, self._nodes[rank], what))
                    deadline = min(deadline, time.monotonic() + 1.0)     # whose fault it is may be said a moment later
        if failures:
            self.close()
            # A rank that died is the cause of what others, who waited for it, say.
            raise min(failures, key=lambda f: (not f.what.startswith(_DIED), f.rank))
        return results

    def close(self) -> None:
        """End the processes, and give their place back."""
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors = []
        self._ray.util.remove_placement_group(self._group)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def run(
    function: Callable, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None, *, workers: int, **options: Any
) -> list[Any]:
    """Run a function in so many workers, with `Workers`' options: what each returned, by rank."""
    with Workers(workers, **options) as result:
        return result.run(function, args, kwargs)
