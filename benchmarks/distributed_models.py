"""Steps of models whose parameters are spread, ops on distributed tensors, and work done while something is sent.

`benchmarks.distributed` runs the first two against PyTorch (`SPREAD`); `show_overlap` is of Rushlight alone.
"""

from __future__ import annotations

import importlib
import json
import statistics
import time
from typing import Any

from .networks import gpt


def _gpt_step(lib: Any, wrap: Any) -> Any:
    lib.manual_seed(0)
    model = wrap(gpt(lib, layers=4, width=192))
    optimizer = lib.optim.AdamW(model.parameters(), lr=1e-3)
    letters = lib.randint(0, 65, (8, 128))

    def step() -> None:
        optimizer.zero_grad()
        lib.nn.functional.cross_entropy(model(letters).flatten(0, 1), letters.flatten()).backward()
        optimizer.step()

    return step


def _blocks(model: Any) -> list[tuple[str, Any]]:
    return [(name, m) for name, m in model.named_modules() if type(m).__name__ == "Block"]


def fsdp_step(lib: Any) -> Any:
    """A small GPT under `fully_shard`, block by block."""
    fully_shard = importlib.import_module(f"{lib.__name__}.distributed.fsdp").fully_shard

    def wrap(model: Any) -> Any:
        for _, block in _blocks(model):
            fully_shard(block)
        return fully_shard(model)

    return _gpt_step(lib, wrap)


def tensor_parallel_step(lib: Any) -> Any:
    """A small GPT whose MLPs are cut by columns, then by rows: DTensors."""
    parallel = importlib.import_module(f"{lib.__name__}.distributed.tensor.parallel")
    mesh = lib.distributed.init_device_mesh("cpu", (lib.distributed.get_world_size(),))

    def wrap(model: Any) -> Any:
        plan = {}
        for name, _ in _blocks(model):
            plan |= {f"{name}.fc": parallel.ColwiseParallel(), f"{name}.out": parallel.RowwiseParallel()}
        return parallel.parallelize_module(model, mesh, plan)

    return _gpt_step(lib, wrap)


def _op(name: str) -> Any:
    """An op on small distributed tensors, many times: what finding out how they lie costs."""
    def build(lib: Any) -> Any:
        tensor = importlib.import_module(f"{lib.__name__}.distributed.tensor")
        mesh = lib.distributed.init_device_mesh("cpu", (lib.distributed.get_world_size(),))
        x = tensor.distribute_tensor(lib.ones(8, 8), mesh, [tensor.Shard(0)])
        w = tensor.distribute_tensor(lib.ones(8, 8), mesh, [tensor.Replicate()])
        calls = {"add": lambda: x + x, "matmul": lambda: x @ w, "sum": lambda: x.sum(), "view": lambda: x.view(8, 8, 1)}

        def step() -> None:
            call = calls[name]
            for _ in range(50):
                call()

        return step

    return build


SPREAD = {
    "FSDP2 GPT step": fsdp_step, "TP GPT step": tensor_parallel_step,
    **{f"50 DTensor {name} 8x8": _op(name) for name in ("add", "matmul", "sum", "view")},
}


# --- overlap ----------------------------------------------------------------------------------------------------------


def overlap(rank: int, ranks: int, path: str) -> None:
    """One process: seconds of arithmetic, of a sum over the processes, and of a compiled function that has both. Once
    through shared memory, where sending is the processor's own work, and once over a wire that takes as long as the
    arithmetic and no processor."""
    import rushlight as lib
    from rushlight import distributed as dist
    from rushlight.distributed import _functional_collectives as functional
    from rushlight.distributed.group import HostBackend

    seconds = [0.0]

    class Wire(HostBackend):
        def _run(self, call: Any, result: list[Any], options: Any) -> Any:
            def slow(limit: float) -> None:
                time.sleep(seconds[0])
                call(limit)

            return super()._run(slow, result, options)

    dist.Backend.register_backend(
        "wire", lambda store, rank, size, timeout: Wire(store, rank, size, timeout, "wire", list(range(size)))
    )
    lib.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=ranks)
    groups = {"shared memory": dist.group.WORLD, "a wire": dist.new_group(backend="wire")}
    x, w, g = lib.randn(512, 512), lib.randn(512, 512) / 23, lib.randn(1 << 22)

    def arithmetic(x: Any, w: Any) -> Any:
        for _ in range(12):
            x = (x @ w).tanh()
        return x

    def measured(call: Any) -> float:
        times = []
        for _ in range(9):
            dist.barrier()
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
        return statistics.median(times[2:])

    found: dict[str, dict[str, float]] = {}
    compute = lib.compile(arithmetic, fullgraph=True)
    alone = measured(lambda: compute(x, w))
    for label, group in groups.items():
        seconds[0] = 0.0 if label == "shared memory" else 1.0
        if seconds[0]:
            mean = lib.tensor([alone])
            dist.all_reduce(mean, dist.ReduceOp.MAX)
            seconds[0] = float(mean)
        send = lib.compile(lambda g: functional.all_reduce(g, "sum", group), fullgraph=True)  # noqa: B023

        def both(x: Any, w: Any, g: Any) -> Any:
            total = functional.all_reduce(g, "sum", group)  # noqa: B023
            return arithmetic(x, w), total + 1

        together = lib.compile(both, fullgraph=True)
        found[label] = {
            "arithmetic": measured(lambda: compute(x, w)), "sending": measured(lambda: send(g)),  # noqa: B023
            "both": measured(lambda: together(x, w, g)),  # noqa: B023
        }
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        print(json.dumps(found))


def show_overlap(found: dict[str, dict[str, float]]) -> None:
    """What is done at once, of what could be."""
    for label, times in found.items():
        total = times["arithmetic"] + times["sending"]
        hidden = (total - times["both"]) / min(times["arithmetic"], times["sending"])
        print(f"{label:16}arithmetic {times['arithmetic'] * 1e3:7.1f} ms, sending {times['sending'] * 1e3:7.1f} ms, "
              f"both compiled {times['both'] * 1e3:7.1f} ms: {times['both'] / total:.2f} of the sum, "
              f"{hidden * 100:.0f}% of the shorter hidden")
