"""Constants of this machine: how fast its processes compute, and how fast they talk.

Enters: a number of processes. Leaves: a `Cluster` of one level. `calibrated` replaces the arithmetic by what a model
reached in one process, since sustained speed depends on the model.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from dataclasses import replace
from typing import Any

from .engine import simulate
from .layout import Layout
from .machines import Chip, Cluster, Level, Link
from .work import Model

SMALL, LARGE = 1 << 10, 1 << 24      # bytes of the two all-reduces from which latency and bandwidth follow
ROUNDS = 15


def measure(ranks: int = 2) -> Cluster:
    """This machine as `ranks` processes of one thread see it: starts them, and takes some seconds."""
    if ranks < 2:
        raise ValueError(f"measure: expected at least two processes, which talk to each other; got {ranks}")
    from ...multiprocessing import spawn

    with tempfile.TemporaryDirectory() as folder:
        spawn(_measure_links, args=(ranks, folder), nprocs=ranks)
        with open(os.path.join(folder, "found"), encoding="utf-8") as file:
            small, large = (float(word) for word in file.read().split())
    bandwidth, flops = memory_bandwidth(), product_speed()
    cores = len(os.sched_getaffinity(0))
    turns = max(1.0, ranks / cores)
    # Bytes first: of the large one, latency is nothing. An all-reduce moves 2 (n - 1) / n of its size, and adds half.
    moved = 2 * (ranks - 1) / ranks
    beta = large / turns / LARGE / moved - 1 / bandwidth / 2
    rounds = 2 * max(1, (ranks - 1).bit_length())
    alpha = max(small / turns - moved * SMALL * beta, 1e-7) / rounds
    memory = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")) / ranks
    link = Link(alpha, 1 / max(beta, 1e-13))
    return Cluster(Chip(flops, bandwidth, memory, "process"), (Level("machine", ranks, link),), processors=cores)


def _measure_links(rank: int, ranks: int, folder: str) -> None:
    from ... import distributed
    from ..._C import set_num_threads
    from ...op import find_op

    set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=ranks)
    found = []
    for size in (SMALL, LARGE):
        numbers = find_op("zeros")(size // 4)
        found.append(_median(lambda numbers=numbers: distributed.all_reduce(numbers)))
    if rank == 0:
        with open(os.path.join(folder, "found"), "w", encoding="utf-8") as file:
            file.write(" ".join(map(str, found)))
    distributed.barrier()
    distributed.destroy_process_group()


def memory_bandwidth(size: int = 1 << 26) -> float:
    """Bytes per second that a copy reads and writes."""
    from ...op import find_op

    source = find_op("zeros")(size // 4)
    target = find_op("empty_like")(source)
    return 2 * size / _median(lambda: target.copy_(source))


def product_speed(width: int = 512) -> float:
    """Multiplications and additions per second of a matrix product on one thread."""
    from ..._C import get_num_threads, set_num_threads
    from ...op import find_op

    before = get_num_threads()
    a = find_op("ones")((width, width))
    multiply = find_op("matmul")
    try:
        set_num_threads(1)
        return 2 * width**3 / _median(lambda: multiply(a, a))
    finally:
        set_num_threads(before)


def _median(call: Any) -> float:
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times[ROUNDS // 3 :])


def calibrated(cluster: Cluster, model: Model, batch: int, seconds: float) -> Cluster:
    """The cluster with the arithmetic that makes a step of `batch` samples in one process take `seconds`."""
    alone = replace(cluster, processors=None)
    fixed = simulate(model, Layout(), replace(alone, chip=replace(cluster.chip, flops=1e30)), batch).seconds
    if seconds <= fixed:
        raise ValueError(f"calibrated: {model.name} cannot take {seconds:.3g} s: moving its memory takes {fixed:.3g}")
    return replace(cluster, chip=replace(cluster.chip, flops=model.flops * batch / (seconds - fixed)))
