"""Programs whose results, and gradients, lie in memory in an order that PyTorch fixes; and its answers.

`measured(library)` runs every program on inputs in every order of `inputs`. `result_strides.txt` holds what PyTorch
answers, one line each: program, order of the input, strides of the result, strides of the gradient.
`python -m tests.ops.result_strides` writes it again, where PyTorch is installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

ANSWERS = Path(__file__).with_suffix(".txt")

# name: expression of T, F and x, for inputs of 4 dims unless it says otherwise; gradients too unless it starts with "="
PROGRAMS = {
    "softmax": "x.softmax(1)",
    "softmax first": "x.softmax(0)",
    "softmax last": "x.softmax(-1)",
    "softmax wide": "x.softmax(-1, dtype=T.float64)",
    "log_softmax": "x.log_softmax(1)",
    "softmin": "F.softmin(x, 1)",
    "masked_fill": "x.masked_fill(x > 0, 1)",
    "sort": "x.sort(1)[0]",
    "sort indices": "=x.sort(-1)[1]",
    "argsort": "=x.argsort(0)",
    "topk": "x.topk(2, 1)[0]",
    "flip": "x.flip(1)",
    "quarter turn": "x.rot90(1, (1, 2))",
    "roll": "x.roll(1, 1)",
    "index list": "x[[0, 1, 0]]",
    "index middle": "x[:, [0, 1, 0]]",
    "index pairs": "x[T.tensor([0, 1]), :, T.tensor([0, 1])]",
    "index mask": "x[T.tensor([True, False])]",
    "index all": "x[x > 0]",
    "index_put": "x.index_put((T.tensor([0]),), T.tensor(3.0))",
    "index_put mask": "x.index_put((x > 0,), T.tensor(3.0))",
    "index_fill": "x.index_fill(1, T.tensor([0]), 1.0)",
    "index_fill tensor": "x.index_fill(1, T.tensor([0]), T.tensor(1.0))",
    "masked_scatter": "=x.masked_scatter(x > 0, T.ones(x.numel()))",
    "no turn": "x.rot90(0, (1, 2))",
    "interpolate 5": "=F.interpolate(x, scale_factor=2.0)",
    "put": "x.put(T.tensor([0]), T.tensor([3.0]))",
    "scatter": "x.scatter(1, T.zeros(x.shape, dtype=T.int64), x)",
    "scatter_reduce": "=x.scatter_reduce(1, T.zeros(x.shape, dtype=T.int64), x, 'sum')",
    "index_reduce": "=x.index_reduce(1, T.tensor([0]), x[:, :1], 'prod')",
    "gather": "x.gather(1, T.zeros(x.shape, dtype=T.int64))",
    "cat": "T.cat([x, x], 1)",
    "stack": "T.stack([x, x], 1)",
    "stack behind": "T.stack([x, x], -1)",
    "repeat": "x.repeat(2, *[1] * (x.ndim - 1))",
    "where": "T.where(x > 0, x, 0.0)",
    "tril": "x.tril()",
    "cumsum": "x.cumsum(1)",
    "clamp": "x.clamp(0, 1).exp()",
    "dropout": "F.dropout(x)",
    "gelu": "F.gelu(x)",
    "glu": "F.glu(x, 1)",
    "sum": "x.sum(1)",
    "max": "x.max(1)[0]",
    "logsumexp": "x.logsumexp(1)",
    "prod": "x.prod(1)",
    "normalize": "F.normalize(x, dim=1)",
    "renorm": "x.renorm(2, 0, 1.0)",
    "pad": "F.pad(x, (1, 1))",
    "linear": "F.linear(x, T.ones(2, x.shape[-1]))",
    "batch_norm": "F.batch_norm(x, None, None, training=True)",
    "batch_norm eval": "F.batch_norm(x, T.zeros(x.shape[1]), T.ones(x.shape[1]))",
    "group_norm": "F.group_norm(x, 2, T.ones(x.shape[1]), T.ones(x.shape[1]))",
    "instance_norm": "F.instance_norm(x)",
    "layer_norm": "F.layer_norm(x, x.shape[-1:])",
    "view_copy": "=T.view_copy(x, (-1,))",
    "pixel_shuffle 4": "F.pixel_shuffle(x, 1)",
    "conv 4": "F.conv2d(x, T.ones(3, x.shape[1], 2, 2))",
    "max_pool 4": "F.max_pool2d(x, 2)",
    "avg_pool 4": "F.avg_pool2d(x, 2)",
    "adaptive_avg_pool 4": "F.adaptive_avg_pool2d(x, 2)",
    "interpolate 4": "F.interpolate(x, scale_factor=2)",
    "max_pool 3": "F.max_pool1d(x, 2)",
    "avg_pool 3": "F.avg_pool1d(x, 2)",
    "adaptive_avg_pool 3": "F.adaptive_avg_pool1d(x, 2)",
    "adaptive_max_pool 3": "F.adaptive_max_pool1d(x, 2)",
    "max_pool 5": "F.max_pool3d(x, 2)",
    "avg_pool 5": "F.avg_pool3d(x, 2)",
    "adaptive_avg_pool 5": "F.adaptive_avg_pool3d(x, 2)",
    "adaptive_max_pool 5": "F.adaptive_max_pool3d(x, 2)",
}


FOR_CHANNELS = ("[0, 1", "topk", "glu", "group_norm")


def inputs(T: Any) -> dict[str, Any]:
    """Tensors in many orders, by name."""
    dense, flat = T.arange(120.0).sin().view(2, 4, 3, 5), T.arange(48.0).cos()
    volume = T.arange(240.0).sin().view(2, 4, 3, 5, 2)
    return {
        "rows": dense,
        "channels last": dense.contiguous(memory_format=T.channels_last),
        "transposed": dense.transpose(2, 3).contiguous().transpose(2, 3),
        "reversed": dense.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0),
        "gaps": T.stack([dense, dense], -1).flatten(-2)[..., ::2],
        "part": T.cat([dense, dense], 1)[:, :4],
        "expanded": dense[:1].expand(2, 4, 3, 5),
        "three": flat.view(2, 4, 6),
        "three turned": flat.view(2, 6, 4).transpose(1, 2),
        "volume": volume,
        "volume channels last": volume.contiguous(memory_format=T.channels_last_3d),
        "one channel": dense[:, :1],
    }


def takes(name: str, ndim: int) -> bool:
    """Whether a program is meant for inputs of so many dims."""
    return not name[-1].isdigit() or int(name[-1]) == ndim


def run(T: Any, name: str, x: Any) -> Any:
    """The result of one program; None where it has nothing to say about the input, which has too few channels."""
    if not takes(name, x.ndim) or (x.shape[1] < 2 and any(word in PROGRAMS[name] for word in FOR_CHANNELS)):
        return None
    return eval(PROGRAMS[name].removeprefix("="), {"T": T, "F": T.nn.functional, "x": x})


def measured(T: Any, order: str, part: slice = slice(None)) -> Iterator[tuple[str, str]]:
    """For each program (of a part) on the input of that order: its name, and the strides of result and gradient."""
    x = inputs(T)[order]
    for name, text in list(PROGRAMS.items())[part]:
        leaf = x.detach().requires_grad_(not text.startswith("="))
        result = run(T, name, leaf)
        if result is None:
            continue
        found = [shown(result)]
        if leaf.requires_grad:
            found.append(shown(*T.autograd.grad(result, leaf, T.ones_like(result))))
        yield name, " ; ".join(found)


def shown(t: Any) -> str:
    """The strides that say where an element is; those of dims of one element do not."""
    return " ".join(str(s) if n > 1 else "-" for n, s in zip(t.shape, t.stride(), strict=True))


def stored() -> dict[tuple[str, str], str]:
    """PyTorch's answers, by order and program."""
    lines = [line.split(" | ") for line in ANSWERS.read_text().splitlines()]
    return {(order, name): strides for order, name, strides in lines}


if __name__ == "__main__":
    import torch

    lines = [f"{order} | {name} | {strides}" for order in inputs(torch) for name, strides in measured(torch, order)]
    ANSWERS.write_text("\n".join(lines) + "\n")
