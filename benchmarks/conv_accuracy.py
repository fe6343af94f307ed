"""`python -m benchmarks.conv_accuracy`: errors of convolutions and of their gradients, Rushlight's beside PyTorch's.

Enters: cases over every algorithm the planner knows. Leaves: a table, one line per case: for the result, the gradient
of the input and that of the weight the root mean square of our error and, in brackets, PyTorch's, relative to the root
mean square of the exact result, then the ratio of both and that of the largest errors. Exact means float64.
`--times` adds PyTorch's time over ours.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

import rushlight as rl

PARTS = ("result", "input gradient", "weight gradient")


@dataclasses.dataclass(frozen=True)
class Conv:
    """One convolution; numbers hold for every spatial dimension."""

    algorithm: str
    images: int
    channels: int
    size: int
    outs: int
    kernel: int = 3
    stride: int = 1
    padding: int = 1
    dilation: int = 1
    groups: int = 1
    transposed: bool = False
    dims: int = 2
    dtype: str = "float32"
    channels_last: bool = False
    positive: bool = False

    @property
    def rest(self) -> tuple:
        """Arguments of `convolution` after the bias."""
        each = [[n] * self.dims for n in (self.stride, self.padding, self.dilation)]
        return (*each, self.transposed, [0] * self.dims, self.groups)

    def __str__(self) -> str:
        text = (
            f"{self.algorithm:10} {self.images}x{self.channels}x{self.size} -> {self.outs},"
            f" {'x'.join([str(self.kernel)] * self.dims)}"
        )
        for name, usual in (("stride", 1), ("dilation", 1), ("groups", 1)):
            if getattr(self, name) != usual:
                text += f" {name} {getattr(self, name)}"
        flags = [name.replace("_", " ") for name in ("transposed", "channels_last", "positive") if getattr(self, name)]
        return " ".join([text, *flags, *([self.dtype] if self.dtype != "float32" else [])])

    def tensors(self) -> tuple[Any, Any, Any]:
        """Input, weight and gradient of the result; the elements are normally distributed,
        or positive like those after a ReLU."""
        g = torch.Generator().manual_seed(7)
        x = torch.randn((self.images, self.channels, *[self.size] * self.dims), generator=g)
        x = x.relu() if self.positive else x
        w = (self.channels, self.outs // self.groups) if self.transposed else (self.outs, self.channels // self.groups)
        weight = torch.randn((*w, *[self.kernel] * self.dims), generator=g) * (w[1] * self.kernel**self.dims) ** -0.5
        shape = torch.convolution(x.to("meta"), weight.to("meta"), None, *self.rest).shape
        found = [t.to(getattr(torch, self.dtype)) for t in (x, weight, torch.randn(shape, generator=g))]
        if self.channels_last:
            found = [t.contiguous(memory_format=torch.channels_last) for t in found]
        return tuple(found)


class Error(NamedTuple):
    """Of one result, relative to the root mean square of the exact one."""

    rms: float
    largest: float


def error(found: Any, exact: Any) -> Error:
    scale = exact.square().mean().sqrt()
    difference = found.double() - exact
    return Error(float(difference.square().mean().sqrt() / scale), float(difference.abs().max() / scale))


def ours(t: Any) -> Any:
    """The same elements with the same strides."""
    return rl.from_dlpack(t.detach())


def theirs(t: Any) -> Any:
    return torch.from_dlpack(t.detach().contiguous())


def results(m: Any, case: Conv, x: Any, w: Any, g: Any) -> list[Any]:
    """The result and both gradients, on PyTorch or Rushlight."""
    x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
    y = m.convolution(x, w, None, *case.rest)
    return [y.detach(), *m.autograd.grad(y, (x, w), g)]


def errors(case: Conv) -> list[tuple[Error, Error]]:
    """(ours, PyTorch's) for each of PARTS."""
    tensors = case.tensors()
    exact = results(torch, case, *(t.double().contiguous() for t in tensors))
    mine = results(rl, case, *(ours(t) for t in tensors))
    return [
        (error(theirs(a), e), error(b, e)) for a, b, e in zip(mine, results(torch, case, *tensors), exact, strict=True)
    ]


def ratios(case: Conv, rounds: int) -> list[float]:
    """PyTorch's time over ours for each of PARTS: best of `rounds`, taken in turns; processor time on one thread,
    else the clock's."""
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    tensors = case.tensors()

    def calls(m: Any, x: Any, w: Any, g: Any) -> list[Callable]:
        to_input, to_weight = x.detach().requires_grad_(), w.detach().requires_grad_()
        first, second = m.convolution(to_input, w, None, *case.rest), m.convolution(x, to_weight, None, *case.rest)
        return [
            lambda: m.convolution(x, w, None, *case.rest),
            lambda: m.autograd.grad(first, to_input, g, retain_graph=True),
            lambda: m.autograd.grad(second, to_weight, g, retain_graph=True),
        ]

    found = []
    for pair in zip(calls(torch, *tensors), calls(rl, *(ours(t) for t in tensors)), strict=True):
        best = [float("inf")] * 2
        for _ in range(rounds):
            for k, call in enumerate(pair):
                start = clock()
                call()
                best[k] = min(best[k], clock() - start)
        found.append(best[0] / best[1])
    return found


CASES = (
    *(
        Conv("tiles", n, c, s, c)
        for n, c, s in (
            (1, 16, 112),
            (1, 32, 112),
            (2, 64, 56),
            (2, 128, 28),
            (2, 256, 14),
            (2, 512, 7),
            (4, 512, 14),
            (8, 96, 7),
            (3, 48, 33),
        )
    ),
    *(Conv("tiles", 2, c, s, c, positive=True) for c, s in ((64, 56), (256, 14), (512, 7))),
    Conv("tiles", 2, 64, 56, 64, channels_last=True),
    Conv("tiles", 2, 256, 14, 256, channels_last=True),
    Conv("tiles", 6, 256, 14, 256, channels_last=True),
    Conv("tiles", 2, 128, 28, 128, channels_last=True),
    Conv("tiles", 2, 64, 28, 192),
    Conv("tiles", 2, 384, 14, 32),
    Conv("tiles", 2, 64, 28, 64, transposed=True),
    Conv("tiles", 2, 128, 28, 128, padding=0),
    Conv("tiles", 2, 64, 28, 64, dtype="bfloat16"),
    Conv("tiles", 2, 64, 28, 64, dtype="float16"),
    *(
        Conv("panels", n, 3, s, o, k, stride, k // 2)
        for n, s, o, k, stride in ((2, 112, 64, 7, 2), (2, 56, 32, 3, 1), (2, 112, 32, 3, 2))
    ),
    *(Conv("panels", 2, c, s, 2 * c, 3, 2) for c, s in ((64, 56), (128, 28), (256, 14), (512, 7))),
    *(
        Conv("panels", 2, c, s, o, 1, padding=0)
        for c, s, o in ((3, 56, 16), (64, 56, 256), (256, 28, 64), (512, 14, 512), (512, 7, 2048), (2048, 7, 512))
    ),
    Conv("panels", 2, 64, 56, 128, 1, 2, 0),
    Conv("panels", 2, 64, 28, 64, dilation=2, padding=2),
    Conv("panels", 2, 256, 14, 256, dilation=4, padding=4),
    Conv("panels", 2, 48, 28, 64, 5, padding=2),
    Conv("panels", 2, 64, 28, 64, groups=4),
    Conv("panels", 2, 256, 14, 256, groups=32),
    Conv("panels", 2, 96, 28, 96, groups=2),
    Conv("panels", 2, 256, 14, 128, 2, 2, 0, transposed=True),
    Conv("panels", 2, 128, 14, 64, 4, 2, 1, transposed=True),
    Conv("panels", 2, 256, 14, 256, 1, padding=0, channels_last=True),
    Conv("panels", 2, 256, 28, 256, 3, 2, channels_last=True),
    Conv("panels", 4, 64, 100, 64, dims=1),
    Conv("panels", 4, 80, 100, 96, dims=1),
    Conv("panels", 4, 512, 100, 512, dims=1),
    Conv("panels", 2, 16, 14, 32, dims=3),
    Conv("panels", 1, 64, 14, 64, dims=3),
    Conv("panels", 2, 128, 14, 128, 1, padding=0, dtype="bfloat16"),
    Conv("panels", 2, 32, 14, 32, 3, 2, dtype="float16"),
    *(
        Conv("depthwise", 2, c, s, c, k, stride, k // 2, groups=c)
        for c, s, k, stride in ((32, 112, 3, 1), (96, 56, 3, 2), (384, 14, 5, 1), (512, 7, 7, 1))
    ),
    Conv("depthwise", 2, 128, 14, 128, groups=128, dilation=2, padding=2),
    Conv("overlap", 2, 64, 28, 3, 4, 2, 1, transposed=True),
    Conv("overlap", 2, 256, 14, 1, 3, transposed=True),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--times", type=int, default=0, metavar="ROUNDS", help="add PyTorch's time over ours, best of so many"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="cases whose line holds this text")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    rl.set_num_threads(chosen.threads)
    print(f"{'case':62}" + "".join(f"{part + ': rms, ratio of rms, of max':48}" for part in PARTS))
    worst = 0.0
    for case in CASES:
        if chosen.only not in str(case):
            continue
        found = errors(case)
        worst = max(worst, *(a.rms / b.rms for a, b in found))
        line = "".join(
            f"{f'{a.rms:.2e} ({b.rms:.2e}) {a.rms / b.rms:5.2f} {a.largest / b.largest:5.2f}':48}" for a, b in found
        )
        speed = " ".join(f"{ratio:5.2f}x" for ratio in ratios(case, chosen.times)) if chosen.times else ""
        print(f"{case!s:62}{line}{speed}", flush=True)
    print(f"largest ratio of rms: {worst:.2f}")


if __name__ == "__main__":
    main()
