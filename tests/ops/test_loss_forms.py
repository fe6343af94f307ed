"""What op records do not show of losses and distances: legacy switches, target forms, chunks, edge values."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).parent))
from parity import agree, compare, gradients_agree, ours  # noqa: E402

import rushlight as rl  # noqa: E402

F, G = torch.nn.functional, rl.nn.functional


def sample(*shape: int, seed: int = 0) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + len(shape)), dtype=torch.float64)


@pytest.mark.parametrize(
    "switches",
    [{"reduce": False}, {"size_average": False}, {"size_average": True}, {"reduce": True, "size_average": False}],
)
def test_deprecated_switches_win_and_warn(switches: dict[str, bool]) -> None:
    x, y = sample(4, 3), sample(4, 3, seed=1)
    for name in (
        "mse_loss",
        "l1_loss",
        "smooth_l1_loss",
        "soft_margin_loss",
        "hinge_embedding_loss",
        "poisson_nll_loss",
        "kl_div",
    ):
        with pytest.warns(UserWarning, match="size_average and reduce"):
            want = getattr(F, name)(x, y, **switches)
        with pytest.warns(UserWarning, match="size_average and reduce"):
            compare(want, getattr(G, name)(ours(x), ours(y), **switches), rtol=1e-9)


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_reductions_by_number(reduction: int) -> None:
    x, y = sample(4, 3), sample(4, 3, seed=1)
    for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss"):
        agree(lambda m, x, y, n=name: getattr(m.ops.aten, n)(x, y, reduction), x, y)
    agree(lambda m, x, y: m.kl_div(x, y, reduction), x, y.abs())
    agree(lambda m, x, y: m.binary_cross_entropy_with_logits(x, y, None, None, reduction), x, y)
    agree(lambda m, x: m.ops.aten.cross_entropy_loss(x, m.tensor([0, 1, 2, 1]), None, reduction, -100, 0.1), x)


def test_weighted_means() -> None:
    x, y, w = sample(4, 3), sample(4, 3, seed=1), sample(4, 3, seed=2).abs()
    for name in ("mse_loss", "l1_loss", "huber_loss"):
        for reduction in ("none", "mean", "sum"):
            agree(
                lambda m, x, y, w, n=name, r=reduction: getattr(m.nn.functional, n)(x, y, reduction=r, weight=w),
                x,
                y,
                w,
            )
        with pytest.raises(ValueError, match="same size"):
            getattr(G, name)(ours(x), ours(y), weight=ours(w[:2]))


def test_binary_cross_entropy_at_certainty() -> None:
    x, y = torch.tensor([0.0, 1.0, 0.0, 1.0]).double(), torch.tensor([0.0, 1.0, 1.0, 0.0]).double()
    gradients_agree(
        lambda m, x: m.nn.functional.binary_cross_entropy(x, m.tensor(y.tolist()).double(), reduction="none"),
        x,
        second=False,
        rtol=1e-7,
    )
    agree(lambda m, x: m.nn.functional.binary_cross_entropy_with_logits(x * 1000 - 500, x), y)


def test_cross_entropy_of_images_with_everything() -> None:
    x, w = sample(2, 5, 3, 4), sample(5).abs()
    target = torch.randint(0, 5, (2, 3, 4), generator=torch.Generator().manual_seed(0)).tolist()
    target[0][0][0] = -100
    for reduction in ("none", "mean", "sum"):
        gradients_agree(
            lambda m, x, w, r=reduction: m.nn.functional.cross_entropy(
                x, m.tensor(target), w.detach(), reduction=r, label_smoothing=0.1
            ),
            x,
            w,
            second=False,
        )


LOGS = torch.randn(12, 4, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64).log_softmax(2)
LABELS = [[1, 2, 2, 3], [4, 4, 1, 5], [1, 1, 1, 1], [2, 3, 4, 5]]


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_ctc_with_padded_targets(zero_infinity: bool) -> None:
    for reduction in ("none", "mean", "sum"):

        def loss(m, x, r=reduction):
            lengths = m.tensor([12, 10, 7, 3]), m.tensor([4, 3, 4, 4])
            return m.nn.functional.ctc_loss(x, m.tensor(LABELS), *lengths, reduction=r, zero_infinity=zero_infinity)

        gradients_agree(loss, LOGS, second=False, rtol=1e-8)


def test_ctc_with_joined_targets_empty_ones_and_no_batch() -> None:
    joined = [1, 2, 2, 3, 4, 4, 1, 1]
    gradients_agree(
        lambda m, x: m.nn.functional.ctc_loss(x, m.tensor(joined), [12, 10, 7, 3], [4, 3, 1, 0]),
        LOGS,
        second=False,
        rtol=1e-8,
    )
    gradients_agree(
        lambda m, x: m.nn.functional.ctc_loss(x, m.tensor([1, 2, 2]), m.tensor([12]), m.tensor([3]), blank=5),
        LOGS[:, 0],
        second=False,
        rtol=1e-8,
    )
    gradients_agree(
        lambda m, x: m.nn.functional.ctc_loss(
            x, m.tensor(LABELS), m.tensor([0, 0, 3, 3]), m.tensor([0, 1, 1, 1]), reduction="none"
        ),
        LOGS,
        second=False,
        rtol=1e-8,
    )


def test_ctc_refuses_what_would_read_elsewhere() -> None:
    x, labels, lengths = ours(LOGS), rl.tensor(LABELS), rl.tensor([4, 4, 4, 4])
    for call in (
        lambda: G.ctc_loss(x, labels, rl.tensor([13, 1, 1, 1]), lengths),
        lambda: G.ctc_loss(x, labels + 3, lengths, lengths), lambda: G.ctc_loss(x, labels, lengths, lengths + 1),
        lambda: G.ctc_loss(x, labels, lengths, lengths, blank=6), lambda: G.ctc_loss(x, labels, lengths[:3], lengths),
    ):
        with pytest.raises(RuntimeError, match="ctc_loss"):
            call()


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, float("inf")])
def test_cdist_of_equal_points_has_no_gradient_there(p: float) -> None:
    x = sample(3, 4, 2)
    y = torch.cat([x[:, :2], sample(3, 3, 2, seed=5)], 1)
    gradients_agree(lambda m, x, y: m.cdist(x, y, p), x, y, second=False, rtol=1e-8)


def test_cdist_modes_agree() -> None:
    x, y = sample(30, 7), sample(40, 7, seed=2)
    for mode in ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"):
        gradients_agree(lambda m, x, y, mode=mode: m.cdist(x, y, compute_mode=mode), x, y, second=False, rtol=1e-7)
    with pytest.raises(ValueError, match="compute_mode"):
        rl.cdist(ours(x), ours(y), compute_mode="fast")


def test_linear_cross_entropy_in_chunks_is_the_whole_one() -> None:
    x, w, b, target = sample(11, 3), sample(20, 3, seed=1), sample(20, seed=2), [*range(10), -100]
    for reduction in ("none", "mean", "sum"):
        whole, parts = [], []
        for kept, options in (
            (whole, None),
            (parts, rl.nn.LinearCrossEntropyOptions(batch_chunk_size=4)),
            (parts, rl.nn.LinearCrossEntropyOptions()),
        ):
            leaves = [ours(t).requires_grad_() for t in (x, w, b)]
            loss = G.linear_cross_entropy(
                leaves[0], leaves[1], rl.tensor(target), linear_bias=leaves[2], reduction=reduction, options=options
            )
            loss.sum().backward()
            kept.append([loss.detach(), *[t.grad for t in leaves]])
        for part in parts:
            assert all(rl.allclose(a, c) for a, c in zip(whole[0], part, strict=True))
    with pytest.raises(ValueError, match="chunk"):
        rl.nn.LinearCrossEntropyOptions(batch_chunk_size=0)


@pytest.mark.parametrize("compiled", [False, True])
def test_linear_cross_entropy_in_chunks_trains_as_the_whole_one(compiled: bool) -> None:
    """Gradients of gradients too, of frozen weights none, and with an upstream gradient that is not 1."""
    options = rl.nn.LinearCrossEntropyOptions(batch_chunk_size=4)
    target = rl.tensor([*range(10), -100])

    def loss(x: Any, w: Any, options: Any = None) -> Any:
        return G.linear_cross_entropy(x, w, target, options=options) ** 2 * 3

    found = []
    for one in (None, options):
        run = rl.compile(lambda x, w, one=one: loss(x, w, one)) if compiled else loss
        x, w = (ours(sample(*shape, seed=k)).requires_grad_() for k, shape in enumerate(((11, 3), (20, 3))))
        given = (x, w) if compiled else (x, w, one)
        grads = rl.autograd.grad(run(*given), (x, w), create_graph=not compiled)
        kept = [*grads]
        if not compiled:
            kept += rl.autograd.grad(grads[0].square().sum() + grads[1].sum(), (x, w))
        run(x, w.detach(), *given[2:]).backward()
        found.append([*[t.detach() for t in kept], x.grad])
    for whole, part in zip(*found, strict=True):
        assert rl.allclose(part, whole)


def test_gaussian_variance_floor_passes_gradients() -> None:
    x, y, v = sample(4, 3), sample(4, 3, seed=1), torch.tensor([[1e-9], [0.5], [2.0], [0.0]]).double()
    gradients_agree(
        lambda m, x, v: m.nn.functional.gaussian_nll_loss(x, m.tensor(y.tolist()).double(), v), x, v, second=False
    )
    with pytest.raises(ValueError, match="negative"):
        G.gaussian_nll_loss(ours(x), ours(y), ours(v) - 1)


VMAPPED = {
    "cross_entropy": (lambda x: G.cross_entropy(x, rl.tensor([1, 0, 2])), (4, 3, 5)),
    "ctc_loss": (
        lambda x: G.ctc_loss(x.log_softmax(-1), rl.tensor([[1, 2], [3, 1]]), rl.tensor([6, 5]), rl.tensor([2, 1])),
        (3, 6, 2, 5),
    ),
    "batch_norm": (lambda x: G.batch_norm(x, None, None, training=True), (3, 5, 16, 4)),
    "group_norm": (lambda x: G.group_norm(x, 4), (3, 5, 16, 4)),
    "multi_margin_loss": (lambda x: G.multi_margin_loss(x, rl.tensor([1, 0, 2])), (4, 3, 5)),
    "cdist": (lambda x: rl.cdist(x, x + 1), (3, 5, 2)),
}


@pytest.mark.parametrize("name", VMAPPED)
def test_examples_of_a_batch_and_their_gradients(name: str) -> None:
    fn, shape = VMAPPED[name]
    x = ours(sample(*shape))
    slope = rl.func.grad(lambda x: (fn(x) ** 2).sum())
    for f in (fn, slope):
        assert rl.allclose(rl.func.vmap(f)(x), rl.stack([f(one) for one in x]))


@pytest.mark.parametrize("width", [1, 3, 17, 70])
@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, float("inf")])
def test_distances_of_pairs_and_their_gradients(p: float, width: int) -> None:
    """Points of few and of many numbers, two of them equal, and two with one number in common."""
    x = sample(21, width)
    x[3], x[5, 0] = x[9], x[6, 0]
    gradients_agree(lambda m, x: m.pdist(x, p), x, second=False, rtol=1e-8)
    gradients_agree(lambda m, x, y: m.cdist(x, y, p), x, sample(2, 30, width, seed=4), second=False, rtol=1e-8)


def test_gradients_of_distances_have_gradients() -> None:
    x, y = ours(sample(4, 3)).requires_grad_(), ours(sample(5, 3, seed=1)).requires_grad_()
    for p in (1.5, 3.0):
        assert rl.autograd.gradgradcheck(lambda x, y, p=p: rl.cdist(x, y, p), (x, y))
        assert rl.autograd.gradgradcheck(lambda x, p=p: rl.pdist(x, p), (x,))
