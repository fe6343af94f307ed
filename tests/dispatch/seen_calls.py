"""Programs and the calls that a `TorchDispatchMode` sees of them: what PyTorch shows is kept in `seen_calls.txt`.

`python -m tests.dispatch.seen_calls` writes the answers anew, where PyTorch is installed.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

ANSWERS = Path(__file__).with_name("seen_calls.txt")
HEAD = "# What PyTorch's modes see of each program. Written by `python -m tests.dispatch.seen_calls`; do not edit.\n\n"

PROGRAMS = """
F.linear(x, w, b).relu().sum().backward()
F.linear(x3, w, b).sum().backward()
F.linear(x3, w).sum().backward()
(x * x).mean().backward()
(x3 * x[0]).sum().backward()
(x3 @ x3.transpose(1, 2)).sum().backward()
(x3 @ w.t()).sum().backward()
(x @ w.t()).exp().log().sin().cos().sqrt().sum().backward()
(x / (x * x + 1)).sub(2, alpha=3).pow(3).sum(1).backward(ones(2))
F.cross_entropy(F.layer_norm(x, [4]), T.tensor([0, 1])).backward()
F.softmax(x, -1).sum().backward()
F.log_softmax(x, 1).mean(0).max().backward()
F.conv2d(im, cw, cb, padding=1).sum().backward()
F.conv_transpose2d(im, cw.transpose(0, 1), None, 2).sum().backward()
F.batch_norm(im, ones(3), ones(3), training=True).sum().backward()
F.group_norm(im, 3).sum().backward()
F.max_pool2d(im, 2).sum().backward()
F.avg_pool2d(im, 2).sum().backward()
F.adaptive_avg_pool2d(im, 1).sum().backward()
F.adaptive_avg_pool2d(im, 3).sum().backward()
F.interpolate(im, scale_factor=2).sum().backward()
F.interpolate(im, size=(4, 4), mode='bilinear').sum().backward()
F.embedding(T.tensor([1, 2]), w).sum().backward()
F.dropout(x, 0.5).sum().backward()
F.dropout(x, 0.5, False)
(F.gelu(x) + F.silu(x) + F.leaky_relu(x) + x.sigmoid() + x.tanh() + F.hardswish(x)).sum().backward()
F.logsigmoid(x).sum().backward()
F.glu(x).sum().backward()
F.mse_loss(x, d).backward()
F.l1_loss(x, d).backward()
F.smooth_l1_loss(x, d).backward()
F.nll_loss(F.log_softmax(x, 1), T.tensor([0, 1])).backward()
F.rms_norm(x, [4]).sum().backward()
F.scaled_dot_product_attention(q, q, q).sum()
x.std().backward()
x.var(1).sum().backward()
x.norm().backward()
x.max(1).values.sum().backward()
x.sort()[0].sum().backward()
x.clamp(0, 1).sum().backward()
T.where(d > 0, x, d).sum().backward()
x[0].sum().backward()
x[:, 1:3].sum().backward()
x[T.tensor([0])]
x[None, ..., 0]
x[x > 0]
x.gather(1, T.tensor([[0], [1]])).sum().backward()
x.masked_fill(d > 0, 1.0).sum().backward()
x.cumsum(0).sum().backward()
x.squeeze(0).unsqueeze(0).expand(3, 2, 4).sum().backward()
ones(2, 3), T.zeros(2), T.arange(3), T.full((2,), 3.0), T.rand(2), T.eye(2), T.empty(2), T.randperm(3)
T.ones_like(d), T.zeros_like(d), T.empty_like(d), T.full_like(d, 1), d.new_zeros(2), d.new_full((2,), 1)
T.tensor([1.0, 2.0])
d.to(T.float64), d.double(), d.to('cpu'), d.clone(), d.contiguous(), d.t().contiguous(), d.type(T.int32)
d.sum().item(), bool(d.sum() > 0)
d.add_(1).mul_(d).fill_(1).clamp_(0, 1).sub_(2, alpha=2).div_(2).relu_().zero_()
d + 1, 1 + d, d - 1, 1 - d, d * 2, 2 / d, d / 2, d**2, 2**d, d // 2, d % 2, -d, d > 1, d == d, abs(d), ~(d > 0), d.T
T.cat([d, d]), T.stack([d, d]), d.split(1), d.chunk(2), T.split(d, [1, 1]), d.unbind(0), d.reshape(-1), d.flatten()
d.permute(1, 0), d.transpose(0, 1), d.squeeze(), d.repeat(2, 1), d.narrow(1, 0, 2), d.select(0, 1), d.tril(), d.flip(0)
d.sum(0), d.mean(1, True), d.max(), d.argmax(1), d.prod(), d.any(), d.logsumexp(0), d.amax(0), d.topk(2), d.median()
T.bmm(x3, x3.mT), T.mv(d, d[0]), T.dot(d[0], d[0]), T.outer(d[0], d[0]), T.addmm(d, d, d.new_ones(4, 4))
d.nonzero(), T.isnan(d), d.round(), F.pad(d, (1, 1)), T.lerp(d, d, 0.5), T.addcmul(d, d, d), T.isfinite(d)
T.fft.fft(d), T.linalg.norm(d), T.linalg.qr(d)
x.detach(), x.requires_grad
""".strip().splitlines()


def calls_of(library: str) -> dict[str, list[str]]:
    """For each program the overloads that a mode of this library is given."""
    lib = importlib.import_module(library)
    functional = importlib.import_module(f"{library}.nn.functional")
    base = importlib.import_module(f"{library}.utils._python_dispatch").TorchDispatchMode

    class Calls(base):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[str] = []

        def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
            self.seen.append(str(func))
            return func(*args, **(kwargs or {}))

    found = {}
    for program in PROGRAMS:
        lib.manual_seed(1)
        names = {
            "T": lib, "F": functional, "ones": lib.ones, "d": lib.rand(2, 4), "q": lib.rand(1, 2, 4, 8),
            "x": lib.rand(2, 4).requires_grad_(), "x3": lib.rand(2, 3, 4).requires_grad_(),
            "w": lib.rand(3, 4).requires_grad_(), "b": lib.rand(3).requires_grad_(),
            "im": lib.rand(1, 3, 8, 8).requires_grad_(), "cw": lib.rand(4, 3, 3, 3).requires_grad_(),
            "cb": lib.rand(4).requires_grad_(),
        }
        mode = Calls()
        with mode:
            eval(program, names)  # noqa: S307 - the programs above
        found[program] = [name.removeprefix("aten.") for name in mode.seen]
    return found


def stored() -> dict[str, list[str]]:
    """The answers in the file."""
    lines = [line for line in ANSWERS.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    return {program: calls.split() for program, _, calls in (line.partition(" => ") for line in lines)}


def main() -> None:
    rows = [f"{program} => {' '.join(calls)}\n" for program, calls in calls_of("torch").items()]
    ANSWERS.write_text(HEAD + "".join(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
