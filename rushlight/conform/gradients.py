"""Gradients against the host: of every sample that has one, twice over for some, and what backward passes rely on.

Enters: a device. Leaves: a case for each op whose gradient is compared, and cases of accumulation, views, in-place
changes, hooks, functions of one's own and recomputation. The host's backward pass gives what is expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import rushlight as rl
from rushlight.autograd.gradcheck import gradcheck
from rushlight.utils.checkpoint import checkpoint

from .case import Case, Chip, case
from .expect import same
from .generated import of_sample, options
from .samples import Sample, listed, pointwise, values, whole

# Pointwise ops whose gradients are compared with --quick too, each having kernels of its own, and others that are left
# out of it, having kernels that take long to compile.
QUICK = frozenset("add mul div pow exp log tanh sigmoid relu gelu abs maximum erf addcmul".split())
LONG = frozenset((
    "fft", "rfft", "inv", "cholesky", "det", "causal attention", "conv1d", "conv2d in groups", "conv_transpose2d",
    "pad by reflection", "im2col", "interpolate to nearest", "pixel_shuffle", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "kl_div", "smooth_l1_loss", "l1_loss", "baddbmm", "logcumsumexp", "cumprod",
    "cosine_similarity", "glu", "prelu", "norm of order 1", "norm of order inf", "aminmax", "cummin",
))


def cases(chip: Chip) -> Iterator[Case]:
    """The gradient of each sample."""
    for sample in (*pointwise(), *listed()):
        if sample.gradient:
            inputs = ", ".join(sample.inputs)
            made = of_sample("gradients", sample.name, sample, [
                f"gradients_against_host(device, call, {inputs}{loosened(sample)})"
            ])
            made.quick = sample.name in QUICK if sample.pointwise else sample.quick and sample.name not in LONG
            yield made


def loosened(sample: Sample) -> str:
    """The options of a sample for its gradients: where a result is exact these may be sums."""
    return options(sample) if sample.options.get("rtol") else ", rtol=1e-4, atol=1e-5"


def both(chip: Chip, work: Callable[[Any], Any], **how: Any) -> None:
    """Compare what a piece of work gives on the device and on the host; it is told where to put its tensors."""
    same(work(chip.device), work("cpu"), **how)


# What backward passes rely on
# ----------------------------------------------------------------------------------------------


@case(needs=("float32",))
def gradients_add_up(chip: Chip) -> None:
    """Two backward passes into one leaf, then none."""

    def work(place: Any) -> Any:
        x = values(7, 13).to(place).requires_grad_()
        (x * 2).sum().backward()
        (x * x).sum().backward()
        first = x.grad
        assert first is not None
        first = first.clone()
        x.grad = None
        (x * 3).sum().backward()
        return first, x.grad

    both(chip, work)


@case(needs=("float32",))
def gradients_live_on_the_device(chip: Chip) -> None:
    """A leaf's gradient is where the leaf is, and a copy to the host passes gradients back."""
    x = values(5).to(chip.device).requires_grad_()
    (x.cpu() * 2).sum().backward()
    slope = x.grad
    assert slope is not None and slope.device.type == chip.name, f"the gradient of a tensor on {chip.name}: {slope}"
    same(slope, rl.full((5,), 2.0), exact=True)


@case(needs=("float32",))
def gradients_twice(chip: Chip) -> None:
    """Gradients of gradients."""

    def work(place: Any) -> Any:
        x, y = values(5, 7, low=0.2).to(place).requires_grad_(), values(7, 3, seed=1).to(place).requires_grad_()
        loss = ((x @ y).tanh() * (x * x).sum(1, keepdim=True)).sum()
        slopes = rl.autograd.grad(loss, (x, y), create_graph=True)
        return rl.autograd.grad(sum((s * s).sum() for s in slopes), (x, y))

    both(chip, work, rtol=1e-3, atol=1e-4)


@case(needs=("float32",))
def gradients_through_views(chip: Chip) -> None:
    """Slices, transposes and stretched dims, each read more than once."""

    def work(place: Any) -> Any:
        x = values(6, 8).to(place).requires_grad_()
        y = x[1:, ::2].t() @ x[:5, :3] + x.expand(2, 6, 8).sum((0, 1))[:3]
        (y * y).sum().backward()
        return x.grad

    both(chip, work, rtol=1e-4, atol=1e-4)


@case(needs=("float32",))
def gradients_through_changes(chip: Chip) -> None:
    """Tensors changed in place, wholly and in part."""

    def work(place: Any) -> Any:
        x = values(6, 8).to(place).requires_grad_()
        y = x * 2
        y[1].mul_(3)
        y[:, 2] = x[:, 3]
        y.add_(x).relu_()
        y.sum().backward()
        return x.grad

    both(chip, work)


@case(needs=("float32", "int64"))
def gradients_of_repeated_places(chip: Chip) -> None:
    """One row picked many times: its gradients are summed, none is lost."""

    def work(place: Any) -> Any:
        x = values(5, 3).to(place).requires_grad_()
        picked = whole(1000, high=5).to(place)
        (x[picked] + rl.nn.functional.embedding(picked, x)).sum().backward()
        return x.grad

    both(chip, work, exact=True)


@case(needs=("float32",))
def hooks_are_called(chip: Chip) -> None:
    """A hook sees the gradient on the device and may replace it."""
    seen: list[str] = []

    def work(place: Any) -> Any:
        x = values(7).to(place).requires_grad_()
        y = x * 2

        def twice(slope: rl.Tensor) -> rl.Tensor:
            seen.append(slope.device.type)
            return slope * 2

        y.register_hook(twice)
        y.sum().backward()
        return x.grad

    both(chip, work)
    assert seen == [chip.name, "cpu"], f"hooks saw gradients on {seen}"


@case(needs=("float32",))
def functions_of_ones_own(chip: Chip) -> None:
    """A Function with a backward of its own, and what it saved."""

    class Cube(rl.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: rl.Tensor) -> rl.Tensor:
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx: Any, slope: rl.Tensor) -> rl.Tensor:
            (x,) = ctx.saved_tensors
            return slope * 3 * x * x

    def work(place: Any) -> Any:
        x = values(7, 13).to(place).requires_grad_()
        Cube.apply(x).sum().backward()
        return x.grad

    both(chip, work)


@case(needs=("float32",))
def recomputed_gradients(chip: Chip) -> None:
    """A block that is run again in the backward pass."""
    def work(place: Any) -> Any:
        x = values(5, 7).to(place).requires_grad_()
        checkpoint(lambda t: (t @ t.t()).tanh().sum(), x, use_reentrant=False).backward()
        return x.grad

    both(chip, work, rtol=1e-4, atol=1e-5)


@case(needs=("float32",))
def larger_gradients(chip: Chip) -> None:
    """A layer of 100 by 130: sums over many rows."""

    def work(place: Any) -> Any:
        x, w, b = (values(*sizes, seed=seed).to(place).requires_grad_()
                   for seed, sizes in enumerate(((70, 100), (130, 100), (130,))))
        (rl.nn.functional.linear(x, w, b).relu() ** 2).mean().backward()
        return x.grad, w.grad, b.grad

    both(chip, work, rtol=1e-3, atol=1e-4)


@case(needs=("float64",))
def gradients_by_differences(chip: Chip) -> None:
    """Gradients are what small steps say they are, without asking the host at all."""
    x = values(4, 3, dtype=rl.float64, low=0.2).to(chip.device).requires_grad_()
    y = values(3, 2, dtype=rl.float64, seed=1).to(chip.device).requires_grad_()
    assert gradcheck(lambda a, b: (a.log() @ b).tanh() * a.sum(1, keepdim=True), (x, y))
