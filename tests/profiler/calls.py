"""Calls that programs write, each with the events that PyTorch 2.13 shows for it at the top, and what we show where
that differs.

`python -m tests.profiler.calls` asks PyTorch and writes call_answers.txt again.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

ANSWERS = Path(__file__).parent / "call_answers.txt"
FIELDS = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")

# Expression -> the names we show: what is one op there is several here, or the other way round.
DIFFERS = {
    "x[[0, 1]]": ["aten::index"],
    "x[s]": ["aten::select"],
    "x[True]": ["aten::unsqueeze", "aten::index"],
    "x.__setitem__(0, 1.0)": ["aten::select", "aten::fill_"],
    "x.__setitem__(slice(0, 2), 1.0)": ["aten::slice", "aten::fill_"],
    "x.__setitem__(i, 2.0)": ["aten::index_put_"],
    "x.__setitem__(big, 2.0)": ["aten::masked_fill_"],
    "x.__setitem__(Ellipsis, 3)": ["aten::fill_"],
    "x.__setitem__(0, s)": ["aten::select", "aten::expand", "aten::copy_"],
    "2 / x": ["aten::div"],
    "torch.tensor([1.0, 2.0])": [],
    "torch.nn.functional.mse_loss(v, v)": ["aten::mse_loss"],
    "torch.nn.functional.l1_loss(v, v)": ["aten::l1_loss"],
    "torch.nn.functional.normalize(v)": ["rushlight::normalize"],
    "torch.nn.functional.softsign(v)": ["rushlight::softsign"],
}

EXPRESSIONS = """
x[0] | x[0, 1] | x[0:2] | x[:] | x[...] | x[None] | x[:, 1:3] | x[..., 0] | x[0:2, None, ..., 1::2] | x[i] | x[m]
x[big] | x[0, i] | x[:, i] | x[[0, 1]] | x[s] | x[True] | x[-1] | x[1:-1] | x[:, :, 2] | x.__setitem__(0, 1.0)
x.__setitem__(slice(0, 2), 1.0) | x.__setitem__(0, v) | x.__setitem__(i, 2.0) | x.__setitem__(big, 2.0)
x.__setitem__(big, x[big]) | x.__setitem__((0, i), v[0:2]) | x.__setitem__(Ellipsis, 3) | x.__setitem__(0, s)
x[0, 0, 0].item() | float(x[0, 0, 0]) | int(j[0]) | bool(m[0]) | x.detach() | x.data | n.data | n.sum().backward()
(n * 2).exp().mean().backward() | torch.autograd.grad((n * n).sum(), n) | torch.tensor([1.0, 2.0]) | x.cpu()
x.to(torch.float64) | x.to(x) | x.float() | x.double() | x.long() | x.bool() | x.contiguous()
x.transpose(0, 1).contiguous() | v.T | x.mT | x.mH | v.H | x.shape | x.size() | len(x) | list(j) | x.clone() | 1 - x
1 + x | 2 / x | 2**x | 2 // x | 5 % x | x // 2 | x % 2 | x / 2 | -x | abs(x) | ~m | m & m | m ^ m | True & m
j << 1 | x - 1 | x * x | x * 2.5 | 1 << j | x == 1 | x != x | x < 1 | 1 < x | x >= x | x @ v.T | x**2 | x + x
x.add_(1) | x.__iadd__(1) | x.__ifloordiv__(2) | x.__ipow__(2) | x.mul_(x) | torch.add(x, x, alpha=2)
torch.sub(x, x) | torch.add(x, 1, out=torch.empty(4, 5, 6)) | torch.mm(v, v.T, out=torch.empty(5, 5))
torch.exp(x, out=torch.empty(0)) | torch.empty(3) | torch.zeros(2, 3) | torch.ones(2) | torch.rand(2)
torch.randn(2, 3) | torch.randint(0, 5, (3,)) | torch.randint(5, (3,)) | torch.randperm(4) | torch.arange(5)
torch.arange(0, 5, 2) | torch.linspace(0, 1, 3) | torch.full((2,), 1.0) | torch.eye(3) | torch.zeros_like(x)
torch.empty_like(x) | torch.ones_like(x) | torch.full_like(x, 2) | torch.rand_like(x) | torch.randn_like(x)
x.new_zeros(3) | x.new_empty(2) | x.new_full((2,), 1) | x.new_ones(2) | torch.empty(3, requires_grad=True)
torch.zeros(3, device="cpu", dtype=torch.float64) | x.requires_grad_(False) | x.flatten() | x.view(-1)
x.view(20, 6) | x.reshape(20, 6) | x.permute(2, 1, 0) | x.unbind(0) | x.chunk(2) | x.split(2) | x.split([1, 3])
torch.cat([x, x]) | torch.stack([v, v]) | torch.where(big, x, 0.0) | torch.where(big) | x.max() | x.max(0) | x.sum()
x.sum(0) | x.sum((0, 1), keepdim=True) | x.mean() | x.mean(-1) | x.std() | x.var(0) | x.norm() | x.argmax()
x.argmax(1) | x.sort() | x.topk(2) | x.masked_fill(big, 0) | x.clamp(0, 1) | x.clamp(min=0) | x.softmax(-1)
x.log_softmax(-1) | x.expand(2, 4, 5, 6) | x.repeat(2, 1, 1) | x.squeeze() | x.unsqueeze(0) | x.squeeze_(0)
x.unsqueeze_(0) | v.t() | x.copy_(x + 1) | x.fill_(1) | x.zero_() | x.normal_() | x.uniform_() | x.bernoulli_()
torch.equal(x, x) | torch.allclose(x, x) | torch.einsum("ij,kj->ik", v, v) | torch.broadcast_tensors(x, v)
torch.meshgrid(v[0], v[1], indexing="ij") | torch.isnan(x) | torch.isfinite(x) | torch.nonzero(x) | torch.unique(j)
torch.tril(v) | torch.outer(v[0], v[1]) | torch.bmm(x, x.transpose(1, 2)) | torch.multinomial(torch.ones(4), 2)
torch.bincount(j) | torch.cumsum(x, 0) | torch.gather(v, 0, w) | v.scatter_(0, w, 0.0) | x.index_select(0, i)
torch.nn.functional.linear(v, v) | torch.nn.functional.relu(v) | torch.nn.functional.relu(v, inplace=True)
torch.nn.functional.gelu(v) | torch.nn.functional.dropout(v, 0.5) | torch.nn.functional.softmax(v, 1)
torch.nn.functional.cross_entropy(v, c) | torch.nn.functional.nll_loss(v, c) | torch.nn.functional.mse_loss(v, v)
torch.nn.functional.l1_loss(v, v) | torch.nn.functional.binary_cross_entropy_with_logits(v, v)
torch.nn.functional.layer_norm(v, (6,)) | torch.nn.functional.batch_norm(x, z, o)
torch.nn.functional.embedding(i, v) | torch.nn.functional.one_hot(j) | torch.nn.functional.pad(x, (1, 1))
torch.nn.functional.scaled_dot_product_attention(x, x, x) | torch.nn.functional.conv2d(p, k)
torch.nn.functional.conv2d(p, k, padding=1) | torch.nn.functional.max_pool2d(p, 2)
torch.nn.functional.avg_pool2d(p, 2) | torch.nn.functional.interpolate(p, scale_factor=2)
torch.nn.functional.normalize(v) | torch.nn.functional.cosine_similarity(v, v) | torch.nn.functional.sigmoid(v)
torch.nn.functional.tanh(v) | torch.nn.functional.silu(v) | torch.nn.functional.leaky_relu(v)
torch.nn.functional.logsigmoid(v) | torch.nn.functional.softsign(v) | torch.nn.functional.adaptive_avg_pool2d(p, 1)
torch.nn.functional.group_norm(x, 1) | torch._foreach_mul_([v, v], 2.0) | torch.linalg.norm(v)
torch.linalg.inv(torch.eye(3)) | torch.linalg.svd(v) | torch.fft.fft(v) | torch.special.expit(v)
torch.special.i0e(v) | x.type(torch.float64) | x.pow(2) | x.any() | x.all() | x.count_nonzero() | x.view_as(x)
x.expand_as(x) | x.narrow(0, 0, 2) | x.select(0, 1) | x.diagonal() | v.diag() | x.numel() | x.lerp(x, 0.5)
x.addcmul(x, x) | torch.addmm(v, v, torch.eye(6)) | v.mm(v.T) | v.matmul(v.T) | v.mv(v[0]) | v[0].dot(v[1])
x.roll(1) | x.flip(0) | torch.complex(v, v).real | torch.view_as_real(torch.complex(v, v)) | x.resize_(4, 30)
torch.absolute(x) | v.nonzero(as_tuple=True) | v.unique_consecutive() | x.sqrt_() | torch.subtract(x, 1)
x.true_divide(2) | torch.clip(x, 0, 1)
"""


def expressions() -> list[str]:
    """Every call, as it is written."""
    return [part.strip() for line in EXPRESSIONS.strip().splitlines() for part in line.split(" | ")]


def world(torch: Any) -> dict[str, Any]:
    """What expressions name, new for each of them."""
    x = torch.arange(120.0).reshape(4, 5, 6) - 60
    v = torch.arange(30.0).reshape(5, 6) / 7
    return {
        "torch": torch, "x": x, "v": v, "m": torch.tensor([True, False, True, False]), "big": x > 30,
        "i": torch.tensor([0, 2]), "j": torch.tensor([1, 3, 2]), "s": torch.tensor(1), "c": torch.arange(5),
        "n": torch.ones(3, requires_grad=True), "w": torch.zeros(1, 6, dtype=torch.int64), "z": torch.zeros(5),
        "o": torch.ones(5), "p": torch.zeros(1, 1, 4, 4), "k": torch.zeros(1, 1, 3, 3),
    }


def answers() -> dict[str, list[list[Any]]]:
    """What PyTorch showed: per expression, the fields of each event at the top, then whether it had a number."""
    lines = (line.partition(" => ") for line in ANSWERS.read_text().splitlines() if line and not line.startswith("#"))
    return {expression: json.loads(shown) for expression, _, shown in lines}


def _ask(torch: Any, expression: str) -> list[list[Any]]:
    from torch.profiler import ProfilerActivity, profile

    names = world(torch)
    code = compile(expression, expression, "eval")
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as watched:
        eval(code, names)  # noqa: S307 - rows of the table above
    with tempfile.TemporaryDirectory() as folder:
        watched.export_chrome_trace(os.path.join(folder, "trace.json"))
        with open(os.path.join(folder, "trace.json")) as file:
            found = [e for e in json.load(file)["traceEvents"] if e.get("cat") == "cpu_op" and e.get("ph") == "X"]
    shown, end = [], -1.0
    for event in sorted(found, key=lambda e: (e["ts"], -e["dur"])):
        if event["ts"] >= end:
            end = event["ts"] + event["dur"]
            given = event.get("args", {})
            shown.append([event["name"], *map(given.get, FIELDS), given.get("Sequence number", -1) >= 0])
    return shown


def main() -> None:
    """Write the answers anew."""
    import torch

    torch.set_num_threads(1)
    lines = [f"{e} => {json.dumps(_ask(torch, e))}" for e in expressions()]
    head = "# What PyTorch 2.13 shows for calls. Written by `python -m tests.profiler.calls`; do not edit.\n\n"
    ANSWERS.write_text(head + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
