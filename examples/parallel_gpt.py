"""Train a GPT with its layers, its batch and its pipeline spread over processes, all from one configuration file.

Enters: a TOML file, whose numbers the command line may replace; the text is the standard library's own. Leaves: a line
per step with the loss of the whole batch, which is the same on 1, 2, 4 and 8 processes, to rounding.

    python examples/parallel_gpt.py examples/parallel_gpt.toml --data 1 --tensor 1 --pipeline 1
    rushlight run --nproc 8 examples/parallel_gpt.py examples/parallel_gpt.toml

Tensor: linear layers are cut by columns, then by rows; between them, sequences are cut, so that norms and sums are
computed once. Context: every rank has its positions, and keys and values travel round. Pipeline: every rank keeps a run
of blocks. Data: gradients are averaged once per step. Expert (where the model has experts): every rank has samples of
its own and some of the experts, and letters travel to theirs and back.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import tomllib
from typing import Any

from characters import read_text

import rushlight as torch  # the one line in which this differs from a program for PyTorch
import rushlight.distributed as dist
from rushlight.distributed._functional_collectives import all_to_all_single, all_to_all_single_autograd
from rushlight.distributed.device_mesh import DeviceMesh, init_device_mesh
from rushlight.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from rushlight.distributed.tensor import Replicate, Shard, distribute_module, distribute_tensor
from rushlight.distributed.tensor.experimental import context_parallel
from rushlight.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

nn, F = torch.nn, torch.nn.functional
DIMS = ("pipeline", "data", "expert", "context", "tensor")      # ranks that talk most are neighbours
SCHEDULES = {"1F1B": Schedule1F1B, "GPipe": ScheduleGPipe}


class Attention(nn.Module):
    """Heads are whatever the linear layers leave: all of them, or this rank's."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.size = width // heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (-1, self.size)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x)))


class Experts(nn.Module):
    """As many MLPs as there are experts, or as this rank has; rows come in the order of their experts."""

    def __init__(self, experts: int, width: int) -> None:
        super().__init__()
        self.up = nn.Parameter(torch.randn(experts, width, 4 * width) / math.sqrt(width))
        self.down = nn.Parameter(torch.randn(experts, 4 * width, width) / math.sqrt(4 * width))

    def forward(self, rows: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        up, down = (p.to_local() if hasattr(p, "to_local") else p for p in (self.up, self.down))
        parts = rows.split(counts.tolist())
        return torch.cat([F.gelu(part @ up[e]) @ down[e] for e, part in enumerate(parts)])


class Mixture(nn.Module):
    """Every letter goes to the two experts that the router likes best, and takes what they say by how much it does."""

    chosen = 2

    def __init__(self, experts: int, width: int) -> None:
        super().__init__()
        self.router, self.experts = nn.Linear(width, experts), Experts(experts, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        letters = x.flatten(0, -2)
        shares, experts = self.router(letters).softmax(-1).topk(self.chosen)
        order = experts.flatten().argsort(stable=True)
        counts = experts.flatten().bincount(minlength=self.router.out_features)
        said = self.experts(letters[order // self.chosen], counts) * shares.flatten()[order].unsqueeze(1)
        return torch.zeros_like(letters).index_add(0, order // self.chosen, said).view_as(x)


class ExpertParallel(ParallelStyle):
    """Every rank has some of the experts: rows travel to their expert's rank before the module, and back behind it."""

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        return distribute_module(module, device_mesh, self._cut, self._send, self._return)

    def _cut(self, name: str, module: nn.Module, mesh: DeviceMesh) -> None:
        for key, param in list(module.named_parameters(recurse=False)):
            module.register_parameter(key, nn.Parameter(distribute_tensor(param, mesh, [Shard(0)])))

    def _send(self, module: nn.Module, inputs: tuple, mesh: DeviceMesh) -> tuple:
        rows, counts = inputs
        theirs = all_to_all_single(counts, None, None, mesh).view(mesh.size(), -1)      # rows per rank and own expert
        self.given, self.taken = counts.view(mesh.size(), -1).sum(1).tolist(), theirs.sum(1).tolist()
        rows = all_to_all_single_autograd(rows, self.taken, self.given, mesh)
        experts = torch.arange(theirs.shape[1]).repeat(mesh.size()).repeat_interleave(theirs.flatten())
        self.order = experts.argsort(stable=True)
        return rows[self.order], theirs.sum(0)

    def _return(self, module: nn.Module, outputs: torch.Tensor, mesh: DeviceMesh) -> torch.Tensor:
        return all_to_all_single_autograd(outputs[self.order.argsort()], self.given, self.taken, mesh)


class Block(nn.Module):
    def __init__(self, width: int, heads: int, experts: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.mlp = Attention(width, heads), Mixture(experts, width) if experts else MLP(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Embedding(nn.Module):
    def __init__(self, letters: int, length: int, width: int) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(letters, width), nn.Embedding(length, width)
        self.positions = torch.arange(length)          # of the letters that this rank has

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        return self.letters(numbers) + self.places(self.positions.expand_as(numbers))


class Head(nn.Module):
    def __init__(self, letters: int, width: int) -> None:
        super().__init__()
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, letters)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.norm(x))


def build(config: dict[str, Any], letters: int, stage: int, stages: int) -> nn.Sequential:
    """The blocks of one stage. All are made, so that their numbers do not depend on how many stages there are."""
    size = config["model"]
    blocks = [Block(size["width"], size["heads"], size["experts"]) for _ in range(size["layers"])]
    whole = [Embedding(letters, size["length"], size["width"]), *blocks, Head(letters, size["width"])]
    first, last = (len(whole) * k // stages for k in (stage, stage + 1))
    return nn.Sequential(*whole[first:last])


def spread(model: nn.Sequential, mesh: DeviceMesh) -> None:
    """Cut the layers of a stage over the ranks of the tensor dimension."""
    cut = PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate())
    embedding = RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1))
    for part in model:
        if isinstance(part, Embedding):
            plan: dict[str, Any] = {"letters": embedding, "places": embedding}
        elif isinstance(part, Head):
            plan = {
                "norm": SequenceParallel(),
                "out": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
            }
        else:
            columns, rows = ColwiseParallel(), RowwiseParallel(output_layouts=Shard(1))
            plan = {"norm1": SequenceParallel(), "norm2": SequenceParallel(), "attention": cut,
                    "attention.query": columns, "attention.key": columns, "attention.value": columns,
                    "attention.out": rows}
            if isinstance(part.mlp, MLP):
                plan |= {"mlp": cut, "mlp.up": columns, "mlp.down": rows}
            else:                                      # every rank of the tensor dimension asks all experts
                plan["mlp"] = PrepareModuleInputOutput(
                    input_layouts=Shard(1), desired_input_layouts=Replicate(), use_local_input=True,
                    output_layouts=Replicate(), desired_output_layouts=Shard(1),
                )
        parallelize_module(part, mesh, plan)


def spread_experts(model: nn.Sequential, mesh: DeviceMesh) -> None:
    """Give every rank of the expert dimension some of the experts."""
    for part in model:
        if isinstance(getattr(part, "mlp", None), Mixture):
            parallelize_module(part.mlp, mesh, {"experts": ExpertParallel()})


def average_gradients(model: nn.Module, mesh: DeviceMesh) -> None:
    """What ranks with other samples or positions found; each has the gradients of its own part of a layer, and those of
    its own experts are of everybody's letters already."""
    found = [p.grad for p in model.parameters() if p.grad is not None]
    own = [hasattr(g, "to_local") and "expert" in g.device_mesh.mesh_dim_names for g in found]
    local = [g.to_local() if hasattr(g, "to_local") else g for g in found]
    for is_expert, dims in ((False, ("data", "expert", "context")), (True, ("data", "context"))):
        part = [g for g, expert in zip(local, own, strict=True) if expert == is_expert]
        if not part:
            continue
        flat = torch.cat([g.reshape(-1) for g in part])
        for name in dims:
            if mesh[name].size() > 1:
                dist.all_reduce(flat, group=mesh.get_group(name))
        flat /= mesh["data"].size() * mesh["expert"].size() * mesh["context"].size()
        for g, mean in zip(part, flat.split([g.numel() for g in part]), strict=True):
            g.copy_(mean.view_as(g))


def cut_sequences(model: nn.Sequential, mesh: DeviceMesh, *rows: torch.Tensor) -> Any:
    """Within, this rank has its positions of a batch, and attention sees all."""
    if mesh.size() == 1:
        return contextlib.nullcontext()
    buffers, dims = list(rows), [1] * len(rows)
    if isinstance(model[0], Embedding):
        model[0].positions = torch.arange(model[0].places.num_embeddings)
        buffers, dims = [*buffers, model[0].positions], [*dims, 0]
    return context_parallel(mesh, buffers=buffers, buffer_seq_dims=dims, no_restore_buffers=set(buffers))


def loss_of(logits: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.flatten(0, 1), wanted.flatten())


def train(config: dict[str, Any]) -> list[float]:
    parallel, training, length = config["parallel"], config["training"], config["model"]["length"]
    sizes = tuple(parallel[name] for name in DIMS)
    mesh = init_device_mesh("cpu", sizes, mesh_dim_names=DIMS)
    stages, copies, experts, _, tensor = sizes
    stage, share, place, *_ = mesh.get_coordinate()
    shares, share = copies * experts, share * experts + place      # of the batch
    last = stage == stages - 1

    text = read_text(200_000)
    letters = sorted(set(text))
    numbers = torch.tensor([letters.index(c) for c in text])
    torch.manual_seed(training["seed"])
    model = build(config, len(letters), stage, stages)
    if tensor > 1:
        spread(model, mesh["tensor"])
    if experts > 1:
        spread_experts(model, mesh["expert"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=training["learning_rate"])
    pipe = PipelineStage(model, stage, stages, torch.device("cpu"), group=mesh.get_group("pipeline"))
    schedule = SCHEDULES[parallel["schedule"]](pipe, parallel["micro_batches"], loss_fn=loss_of)

    order, losses = torch.Generator().manual_seed(training["seed"]), []
    for step in range(training["steps"]):
        starts = torch.randint(0, len(numbers) - length - 1, (training["batch"],), generator=order)
        rows = torch.stack([numbers[s : s + length + 1] for s in starts.tolist()])
        rows = rows.chunk(shares)[share]              # every rank draws the whole batch and keeps its part
        read, wanted = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
        given: list[torch.Tensor] = []
        optimizer.zero_grad()
        with cut_sequences(model, mesh["context"], read, wanted):
            schedule.step(*([read] if stage == 0 else []), **({"target": wanted, "losses": given} if last else {}))
        average_gradients(model, mesh)
        optimizer.step()
        loss = torch.stack(given).mean().detach() if last else torch.zeros(())
        dist.all_reduce(loss)                          # every rank of the last stage has one
        losses.append(float(loss) * stages / dist.get_world_size())
        if dist.get_rank() == 0:
            print(f"step {step}: loss {losses[-1]:.6f}", flush=True)
    return losses


def read_config() -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="a TOML file such as parallel_gpt.toml")
    for name in (*DIMS, "micro-batches"):
        parser.add_argument(f"--{name}", type=int, help=f"replaces parallel.{name.replace('-', '_')}")
    parser.add_argument("--experts", type=int, help="replaces model.experts")
    parser.add_argument("--steps", type=int, help="replaces training.steps")
    options = vars(parser.parse_args())
    with open(options.pop("file"), "rb") as file:
        config = tomllib.load(file)
    for name, value in options.items():
        if value is not None:
            config[{"steps": "training", "experts": "model"}.get(name, "parallel")][name] = value
    experts, ranks = config["model"]["experts"], config["parallel"]["expert"]
    if experts % ranks or (ranks > 1 and not experts):
        raise SystemExit(f"expert: the model has {experts} experts, which cannot be dealt to {ranks} ranks")
    if config["parallel"]["schedule"] not in SCHEDULES:
        raise SystemExit(f"schedule: expected one of {', '.join(SCHEDULES)}, got {config['parallel']['schedule']!r}")
    return config


def main() -> None:
    config = read_config()
    torch.set_num_threads(1)
    if dist.is_torchelastic_launched():
        dist.init_process_group("gloo")
    else:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    wanted = math.prod(config["parallel"][name] for name in DIMS)
    if wanted != dist.get_world_size():
        raise SystemExit(f"{' x '.join(DIMS)} is {wanted}, but {dist.get_world_size()} processes were started")
    train(config)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
