"""The simulator against what it forecasts: data parallel steps of a small GPT on this machine's processes.

    python -m benchmarks.simulator                    1, 2, 4 and 8 processes

Constants are taken from two processes that only talk and from one that only computes; every other line is forecast,
then run.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time

BATCH, LENGTH = 16, 128
STEPS = 12


def work(rank: int, ranks: int, path: str) -> None:
    """One process: the median step, as rank 0 saw it, goes to stdout."""
    import rushlight as rl
    from rushlight import distributed as dist

    from .networks import gpt

    rl.set_num_threads(1)
    rl.manual_seed(0)
    model = gpt(rl, layers=4, width=192)
    if ranks > 1:
        dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=ranks)
        model = rl.nn.parallel.DistributedDataParallel(model)
    optimizer = rl.optim.AdamW(model.parameters())
    x = rl.randint(0, 64, (BATCH // ranks, LENGTH))
    times = []
    for _ in range(STEPS):
        began = time.perf_counter()
        optimizer.zero_grad()
        logits = model(x)
        rl.nn.functional.cross_entropy(logits.flatten(0, 1), x.flatten()).backward()
        optimizer.step()
        times.append(time.perf_counter() - began)
    if ranks > 1:
        dist.barrier()
        dist.destroy_process_group()
    if rank == 0:
        print(json.dumps(statistics.median(times[STEPS // 3 :])))


def measured(ranks: int) -> float:
    """Seconds of a real step."""
    path = tempfile.mkdtemp() + "/meeting"
    command = [sys.executable, "-m", "benchmarks.simulator", "--work"]
    processes = [
        subprocess.Popen([*command, str(r), str(ranks), path], stdout=subprocess.PIPE, text=True) for r in range(ranks)
    ]
    texts = [process.communicate()[0] for process in processes]
    return float(json.loads(texts[0].splitlines()[-1]))


def main() -> None:
    if "--work" in sys.argv:
        rank, ranks, path = sys.argv[-3:]
        work(int(rank), int(ranks), path)
        return
    import rushlight as rl
    from rushlight.distributed.simulator import Layout, of_module, simulate
    from rushlight.distributed.simulator.measure import calibrated, measure

    from .networks import gpt

    model = of_module(gpt(rl, layers=4, width=192), rl.zeros((1, LENGTH), dtype=rl.int64), name="small GPT")
    alone = measured(1)
    cluster = calibrated(measure(2), model, BATCH, alone)
    link = cluster.levels[0].link
    print(f"latency {link.latency * 1e6:.1f} us, {link.bandwidth / 1e9:.2f} GB/s, "
          f"{cluster.chip.flops / 1e9:.1f} GFLOP/s sustained, {cluster.processors} processors")
    print(f"{'processes':>10} {'forecast':>10} {'measured':>10} {'ratio':>7}")
    for ranks in (1, 2, 4, 8):
        forecast = simulate(model, Layout(data=ranks), cluster, BATCH).seconds
        real = alone if ranks == 1 else measured(ranks)
        print(f"{ranks:>10} {forecast * 1e3:>7.1f} ms {real * 1e3:>7.1f} ms {real / forecast:>7.2f}", flush=True)


if __name__ == "__main__":
    main()
