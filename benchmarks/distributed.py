"""Collectives and data parallel steps between processes of this machine, against PyTorch's Gloo.

    python -m benchmarks.distributed                  2 and 4 processes
    python -m benchmarks.distributed --ranks 2 --only all_reduce
    python -m benchmarks.distributed --ranks 2 --only "GPT step"      DDP, fully_shard and tensor parallel
    python -m benchmarks.distributed --memory         a char GPT under fully_shard: bytes in each of 4 processes
    python -m benchmarks.distributed --overlap        what a compiled function does while something is sent
    python -m benchmarks.distributed --overhead       a data parallel step against one process's and its bytes

Both libraries run the same program, in turn, several times; the median of each is compared. One thread per process.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import statistics
import subprocess
import sys
import time
from typing import Any

from .distributed_models import SPREAD, overlap, show_overlap

SIZES = {"4 KB": 4096, "1 MB": 1 << 20, "64 MB": 1 << 26}
ROUNDS = 3


def calls(lib: Any, dist: Any, size: int, ranks: int) -> dict[str, Any]:
    """A collective per name, on tensors of so many bytes."""
    count = size // 4 // ranks * ranks
    whole, part = lib.ones(count), lib.ones(count // ranks)
    other = lib.ones(count)
    return {
        "all_reduce": lambda: dist.all_reduce(whole.fill_(1)),
        "broadcast": lambda: dist.broadcast(whole, 0),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole),
        "all_to_all": lambda: dist.all_to_all_single(other, whole),
    }


def resnet_step(lib: Any, wrap: bool = True) -> Any:
    """A data parallel training step of ResNet-18 on 16 small pictures."""
    from .networks import resnet18

    return training_step(lib, resnet18(lib), lib.randn(16, 3, 32, 32), lib.randint(0, 10, (16,)), wrap)


def gpt_step(lib: Any, wrap: bool = True) -> Any:
    """One of a small GPT on 8 lines of characters."""
    from .networks import gpt

    letters = lib.randint(0, 65, (8, 128))
    return training_step(lib, gpt(lib, layers=4, width=192), letters, letters.flatten(), wrap)


def training_step(lib: Any, model: Any, x: Any, y: Any, wrap: bool) -> Any:
    size = sum(p.numel() for p in model.parameters())
    if wrap:
        model = lib.nn.parallel.DistributedDataParallel(model)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        optimizer.zero_grad()
        lib.nn.functional.cross_entropy(model(x).flatten(0, -2), y).backward()
        optimizer.step()

    step.parameters = size      # type: ignore[attr-defined]
    return step


STEPS = {"ResNet-18 step": resnet_step, "DDP GPT step": gpt_step, **SPREAD}


def work(name: str, rank: int, ranks: int, path: str, only: str) -> None:
    """One process: what rank 0 measured goes to stdout."""
    began = time.perf_counter()
    lib = importlib.import_module(name)
    dist = importlib.import_module(f"{name}.distributed")
    lib.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=ranks)
    first = lib.ones(1)
    dist.all_reduce(first)
    found = {"import to first collective": time.perf_counter() - began}
    for label, size in SIZES.items():
        for call_name, call in calls(lib, dist, size, ranks).items():
            if only in f"{call_name} {label}":
                found[f"{call_name} {label}"] = agreed(lib, dist, call)
    for label, build in STEPS.items():
        if only in label:
            found[label] = agreed(lib, dist, build(lib))
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        print(json.dumps(found))


def char_gpt_step(lib: Any, wrap: Any) -> tuple[Any, Any]:
    """A model and one step of it, as `wrap` makes it."""
    from .networks import gpt

    lib.manual_seed(0)
    model = wrap(gpt(lib))
    optimizer = lib.optim.AdamW(model.parameters(), lr=1e-3)
    x = lib.randint(0, 65, (2, 256))

    def step(forward_only: bool = False) -> None:
        loss = lib.nn.functional.cross_entropy(model(x).flatten(0, 1), x.flatten())
        if not forward_only:
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    return model, step


def memory(rank: int, ranks: int, path: str) -> None:
    """One process: what it holds between steps and at the peak of one, with and without `fully_shard`."""
    import rushlight as lib
    from rushlight import _C, distributed as dist
    from rushlight.distributed.fsdp import fully_shard

    lib.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=ranks)

    def cut(model: Any) -> Any:
        for block in [m for m in model.modules() if type(m).__name__ == "Block"]:
            fully_shard(block)
        return fully_shard(model, reshard_after_forward=True)

    found = {}
    for label, wrap in (("alone", lambda model: model), ("sharded", cut)):
        before = _C.memory_stats()["allocated"]
        model, step = char_gpt_step(lib, wrap)
        for _ in range(2):
            step()
        found[f"{label}, between steps"] = _C.memory_stats()["allocated"] - before
        _C.reset_peak_memory()
        step()
        found[f"{label}, peak"] = _C.memory_stats()["peak"] - before
        if label == "alone":
            _C.reset_peak_memory()
            step(forward_only=True)
            found["forward"] = _C.memory_stats()["peak"] - before - found[f"{label}, between steps"]
            found["parameters"] = sum(p.numel() * p.element_size() for p in model.parameters())
        del model, step
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        print(json.dumps(found))


def show_memory(ranks: int) -> None:
    """Against what must be there: a share of parameters and state (two moments), and at the peak what one process has
    besides them (activations, and what backward computes from them)."""
    found = run_once("memory", ranks, "")
    parameters, activations = found["parameters"], found["alone, peak"] - found["alone, between steps"]
    for label, expected in (("between steps", 3 * parameters / ranks), ("peak", 3 * parameters / ranks + activations)):
        got = found[f"sharded, {label}"]
        print(f"{label:16}{got / 1e6:9.2f} MB in each of {ranks}; expected {expected / 1e6:8.2f} MB, ratio "
              f"{got / expected:.3f}; one process {found[f'alone, {label}'] / 1e6:.2f} MB")
    print(f"parameters {parameters / 1e6:.2f} MB, activations {activations / 1e6:.2f} MB "
          f"({found['forward'] / 1e6:.2f} MB in forward)")


def overhead(rank: int, ranks: int, path: str) -> None:
    """A process of `--overhead`: processor time of steps by themselves, data parallel ones and an all_reduce of as many
    bytes as they exchange, in turn."""
    import rushlight as lib
    from rushlight import distributed as dist

    lib.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=ranks)
    found = {}
    for label, build in (("ResNet-18 step", resnet_step), ("GPT step", gpt_step)):
        alone, together = build(lib, wrap=False), build(lib)
        bytes_ = lib.ones(together.parameters)
        times: dict[str, list[float]] = {"alone": [], "together": [], "bytes": []}
        turns = {"alone": alone, "together": together, "bytes": lambda b=bytes_: dist.all_reduce(b)}
        for turn in range(10):
            for name, call in turns.items():
                began = time.process_time()
                call()
                if turn >= 3:
                    times[name].append(time.process_time() - began)
        found[label] = {name: statistics.median(values) for name, values in times.items()}
    dist.destroy_process_group()
    if rank == 0:
        print(json.dumps(found))


def show_overhead(ranks: int) -> None:
    """What is left of a data parallel step without one process's work and without the bytes."""
    print(f"{ranks} processes, processor time{'':6}{'alone':>10}{'parallel':>10}{'bytes':>10}{'overhead':>10}")
    for label, row in run_once("overhead", ranks, "").items():
        left = (row["together"] - row["alone"] - row["bytes"]) / row["together"]
        cells = "".join(f"{row[name] * 1e3:8.1f}ms" for name in ("alone", "together", "bytes"))
        print(f"{label:32}{cells}{left:10.1%}", flush=True)


def agreed(lib: Any, dist: Any, call: Any) -> float:
    """The median of a number of calls that all ranks agree on."""
    for _ in range(3):
        call()
    began = time.perf_counter()
    for _ in range(3):
        call()
    each = lib.tensor([(time.perf_counter() - began) / 3])
    dist.all_reduce(each, dist.ReduceOp.MAX)
    times = []
    for _ in range(max(5, min(300, int(0.4 / float(each))))):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def run_once(name: str, ranks: int, only: str) -> dict[str, float]:
    import tempfile

    path = os.path.join(tempfile.mkdtemp(), "meeting")
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.distributed", "--work", name, str(r), path, "--ranks", str(ranks),
             "--only", only],
            stdout=subprocess.PIPE if r == 0 else subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True,
        )
        for r in range(ranks)
    ]
    text = processes[0].communicate()[0]
    for process in processes:
        process.wait()
    return json.loads(text.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=0, help="how many processes; 2 and then 4 by default")
    parser.add_argument("--only", default="", help="measurements whose names hold this")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--memory", action="store_true", help="bytes in each process under fully_shard")
    parser.add_argument("--overlap", action="store_true", help="arithmetic while something is sent, compiled")
    parser.add_argument("--overhead", action="store_true", help="data parallel steps beyond one process's work")
    args = parser.parse_args()
    if args.overlap:
        return show_overlap(run_once("overlap", args.ranks or 2, ""))
    if args.work and args.work[0] == "overlap":
        return overlap(int(args.work[1]), args.ranks, args.work[2])
    if args.overhead:
        return show_overhead(args.ranks or 2)
    if args.work and args.work[0] == "overhead":
        return overhead(int(args.work[1]), args.ranks, args.work[2])
    if args.memory:
        return show_memory(args.ranks or 4)
    if args.work and args.work[0] == "memory":
        return memory(int(args.work[1]), args.ranks, args.work[2])
    if args.work:
        return work(args.work[0], int(args.work[1]), args.ranks, args.work[2], args.only)
    for ranks in (args.ranks,) if args.ranks else (2, 4):
        rounds: dict[str, list[dict[str, float]]] = {"torch": [], "rushlight": []}
        for _ in range(ROUNDS):
            for name, found in rounds.items():
                found.append(run_once(name, ranks, args.only))
        show(ranks, rounds)


def show(ranks: int, rounds: dict[str, list[dict[str, float]]]) -> None:
    print(f"{ranks} processes{'':22}{'torch':>12}{'rushlight':>12}{'ratio':>8}")
    ratios = []
    for label in rounds["torch"][0]:
        theirs, ours = (statistics.median(found[label] for found in rounds[n]) for n in ("torch", "rushlight"))
        print(f"{label:32}{theirs * 1e6:11.1f}u{ours * 1e6:11.1f}u{theirs / ours:8.2f}")
        ratios.append(theirs / ours)
    print(f"{'geometric mean':56}{math.exp(statistics.fmean(map(math.log, ratios))):8.2f}", flush=True)


if __name__ == "__main__":
    main()
