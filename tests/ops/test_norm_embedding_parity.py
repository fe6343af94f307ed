"""What op records do not show of norms, embeddings and dropout: state written in place, random numbers, layouts,
meta."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).parent))
from parity import compare, gradients_agree, ours  # noqa: E402

import rushlight as rl  # noqa: E402

F, G = torch.nn.functional, rl.nn.functional


def sample(*shape: int, dtype: Any = torch.float64, seed: int = 0) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + len(shape)), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("shape", [(6, 3), (4, 3, 5), (5, 20, 4, 4), (2, 3, 4, 5, 2)])
def test_batch_norm_moves_running_statistics(shape: tuple[int, ...]) -> None:
    x = sample(*shape)
    theirs = [torch.zeros(shape[1], dtype=torch.float64), torch.ones(shape[1], dtype=torch.float64)]
    mine = [ours(t) for t in theirs]
    for momentum in (0.1, 0.5, 1.0, 0.0):
        compare(
            F.batch_norm(x, *theirs, training=True, momentum=momentum),
            G.batch_norm(ours(x), *mine, training=True, momentum=momentum),
            rtol=1e-9,
        )
        compare(theirs, mine, rtol=1e-9)
    compare(F.batch_norm(x, *theirs), G.batch_norm(ours(x), *mine), rtol=1e-9)


def test_instance_norm_moves_running_statistics() -> None:
    x = sample(4, 3, 5)
    theirs, mine = [torch.zeros(3).double(), torch.ones(3).double()], [rl.zeros(3).double(), rl.ones(3).double()]
    compare(F.instance_norm(x, *theirs), G.instance_norm(ours(x), *mine), rtol=1e-9)
    compare(theirs, mine, rtol=1e-9)


@pytest.mark.parametrize("shape", [(4, 32, 5, 5), (2, 32, 6, 6), (40, 16)])
def test_norms_of_channels_last_and_transposed_inputs(shape: tuple[int, ...]) -> None:
    w, b = sample(shape[1], seed=1), sample(shape[1], seed=2)
    transposed = sample(shape[0], *shape[2:], shape[1]).movedim(-1, 1)
    for x in (sample(*shape), transposed):
        gradients_agree(lambda m, x, w, b: m.nn.functional.batch_norm(x, None, None, w, b, True), x, w, b, rtol=1e-8)
        gradients_agree(lambda m, x, w, b: m.nn.functional.group_norm(x, 8, w, b), x, w, b, rtol=1e-8)


def test_half_norms_take_float_parameters() -> None:
    x, w = sample(4, 16, 5, 5, dtype=torch.bfloat16), sample(16, dtype=torch.float32)
    for weight in (None, w, w.bfloat16()):
        mine = None if weight is None else ours(weight)
        compare(
            torch.native_batch_norm(x, weight, None, None, None, True, 0.1, 1e-5),
            rl.native_batch_norm(ours(x), mine, None, None, None, True, 0.1, 1e-5),
            rtol=2e-2,
        )
        compare(
            torch.native_group_norm(x, weight, None, 4, 16, 25, 4, 1e-5),
            rl.native_group_norm(ours(x), mine, None, 4, 16, 25, 4, 1e-5),
            rtol=2e-2,
        )


def test_large_mean_keeps_precision() -> None:
    x = sample(8, 32, 20, 20, dtype=torch.float32) + 100
    exact = F.batch_norm(x.double(), None, None, training=True)
    got = torch.from_dlpack(G.batch_norm(ours(x), None, None, training=True))
    assert (got.double() - exact).abs().max() < 1e-5


def test_norms_on_meta() -> None:
    x = rl.empty(4, 32, 5, 5, device="meta")
    assert G.batch_norm(x, None, None, training=True).shape == x.shape
    assert [t.shape for t in rl.native_group_norm(x, None, None, 4, 32, 25, 8, 1e-5)] == [x.shape, (4, 8), (4, 8)]
    assert G.embedding(rl.empty(3, 2, device="meta", dtype=rl.int64), rl.empty(5, 7, device="meta")).shape == (3, 2, 7)


# --- embedding --------------------------------------------------------------------------------------------------------


INDEX = torch.tensor([[1, 2, 0], [3, 1, 1]])


def test_embedding_shortens_rows_in_place() -> None:
    table = sample(5, 4) * 3
    for norm_type in (1.0, 2.0, float("inf")):
        theirs, mine = table.clone(), ours(table)
        compare(
            F.embedding(INDEX, theirs, max_norm=1.0, norm_type=norm_type),
            G.embedding(ours(INDEX), mine, max_norm=1.0, norm_type=norm_type),
            rtol=1e-9,
        )
        compare(theirs, mine, rtol=1e-9)


def test_embedding_gradients_with_padding_and_frequencies() -> None:
    for options in ({}, {"padding_idx": 1}, {"padding_idx": -2}, {"scale_grad_by_freq": True}):
        gradients_agree(
            lambda m, w, o=options: m.nn.functional.embedding(m.tensor(INDEX.tolist()), w, **o),
            sample(5, 4),
            second=False,
        )


def test_sparse_gradient_of_embedding_holds_the_rows_looked_up() -> None:
    table = sample(6, 3)
    for options in ({}, {"padding_idx": 2}):
        theirs, mine = table.clone().requires_grad_(), ours(table).requires_grad_()
        for index in ([1, 2, 1], [5, 1]):
            F.embedding(torch.tensor(index), theirs, sparse=True, **options).sum().backward()
            G.embedding(rl.tensor(index), mine, sparse=True, **options).sum().backward()
        assert mine.grad.layout is rl.sparse_coo
        compare(theirs.grad.to_dense(), mine.grad.to_dense())


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag_forms(mode: str) -> None:
    flat, starts = [1, 2, 0, 3, 1, 1, 4], [0, 2, 2, 5]
    for options in ({}, {"padding_idx": 1}, {"include_last_offset": True}):
        gradients_agree(
            lambda m, w, o=options: m.nn.functional.embedding_bag(m.tensor(flat), w, m.tensor(starts), mode=mode, **o),
            sample(5, 4),
            second=False,
        )
    gradients_agree(
        lambda m, w: m.nn.functional.embedding_bag(m.tensor(INDEX.tolist()), w, mode=mode), sample(5, 4), second=False
    )
    if mode == "max":
        codes = (torch.tensor(flat), torch.tensor(starts))
        compare(
            torch.embedding_bag(sample(5, 4), *codes, mode=2),
            rl.embedding_bag(ours(sample(5, 4)), *map(ours, codes), mode=2),
        )


def test_embedding_bag_weights_samples() -> None:
    def bag(m, w, p):
        picked, starts = m.tensor([1, 2, 0, 3]), m.tensor([0, 1])
        return m.nn.functional.embedding_bag(picked, w, starts, mode="sum", per_sample_weights=p)

    gradients_agree(bag, sample(5, 4), sample(4), second=False)


@pytest.mark.parametrize("call", [
    lambda m: m.nn.functional.embedding(m.tensor([5]), m.ones(3, 2)),
    lambda m: m.nn.functional.embedding(m.tensor([-1]), m.ones(3, 2)),
    lambda m: m.nn.functional.embedding(m.tensor([1.0]), m.ones(3, 2)),
    lambda m: m.nn.functional.embedding(m.tensor([1]), m.ones(3, 2), padding_idx=5),
    lambda m: m.nn.functional.embedding_bag(m.tensor([1, 7]), m.ones(5, 3), m.tensor([0])),
    lambda m: m.nn.functional.embedding_bag(m.tensor([1, 2]), m.ones(5, 3), m.tensor([1])),
    lambda m: m.nn.functional.embedding_bag(m.tensor([1, 2]), m.ones(5, 3), m.tensor([0, 5])),
    lambda m: m.nn.functional.embedding_bag(m.tensor([1, 2]), m.ones(5, 3), m.tensor([0]), mode="max",
                                            scale_grad_by_freq=True),
    lambda m: m.nn.functional.embedding_bag(m.tensor([1, 2]), m.ones(5, 3), m.tensor([0]), mode="mean",
                                            per_sample_weights=m.ones(2)),
    lambda m: m.nn.functional.one_hot(m.tensor([1, -1])),
    lambda m: m.nn.functional.one_hot(m.tensor([1, 4]), 3),
    lambda m: m.nn.functional.batch_norm(m.ones(4, 3), None, None),
    lambda m: m.nn.functional.batch_norm(m.ones(1, 3), None, None, training=True),
    lambda m: m.nn.functional.group_norm(m.ones(4, 3), 2),
    lambda m: m.nn.functional.dropout(m.ones(3), 1.5),
])
def test_refusals_have_pytorchs_class(call: Any) -> None:
    with pytest.raises(Exception) as want:
        call(torch)
    with pytest.raises(type(want.value)):
        call(rl)


# --- random numbers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, shape", [
    ("dropout", (50, 7)), ("dropout1d", (4, 6)), ("dropout1d", (3, 4, 6)), ("dropout2d", (3, 4, 5, 6)),
    ("dropout3d", (4, 2, 3, 5)), ("dropout3d", (2, 4, 2, 3, 5)), ("alpha_dropout", (9, 5)),
    ("feature_alpha_dropout", (4, 5, 3)),
])
def test_dropouts_draw_pytorchs_numbers(name: str, shape: tuple[int, ...]) -> None:
    x = sample(*shape, dtype=torch.float32)
    for inplace in (False, True):
        torch.manual_seed(3)
        rl.manual_seed(3)
        compare(
            getattr(F, name)(x.clone(), 0.3, True, inplace), getattr(G, name)(ours(x), 0.3, True, inplace), rtol=1e-5
        )
    compare(getattr(F, name)(x, 0.3, False), getattr(G, name)(ours(x), 0.3, False))


@pytest.mark.parametrize("hard", [False, True])
def test_gumbel_softmax_draws_pytorchs_numbers(hard: bool) -> None:
    x = sample(6, 5, dtype=torch.float32)
    torch.manual_seed(3)
    rl.manual_seed(3)
    compare(F.gumbel_softmax(x, 0.7, hard, dim=0), G.gumbel_softmax(ours(x), 0.7, hard, dim=0), rtol=1e-5)


def test_softmax_without_dim_warns() -> None:
    for name in ("softmax", "log_softmax", "softmin"):
        with pytest.warns(UserWarning, match="Implicit dimension"):
            got = getattr(G, name)(ours(sample(2, 3)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compare(getattr(F, name)(sample(2, 3)), got)


@pytest.mark.parametrize("shape", [(0, 12, 5), (0, 4), (2, 4, 0)])
@pytest.mark.filterwarnings("ignore:.*no degrees of freedom")
def test_parameters_of_empty_groups_have_gradients(shape: tuple[int, ...]) -> None:
    parameters = sample(shape[1], seed=1), sample(shape[1], seed=2)
    gradients_agree(
        lambda m, x, w, b: m.group_norm(x, 2, w, b), torch.zeros(shape).double(), *parameters, second=False
    )


@pytest.mark.parametrize("shape", [(4, 4, 5, 5), (2, 20, 30, 30)])
@pytest.mark.parametrize("number", [1e30, -1e22])
def test_variances_beyond_the_greatest_number(shape: tuple[int, ...], number: float) -> None:
    """What is normalised by an infinite deviation is 0, in its channel alone."""
    x = sample(*shape, dtype=torch.float32)
    x[1, 2, 3, 4] = number
    calls = (
        lambda m, x: m.nn.functional.batch_norm(x, None, None, training=True),
        lambda m, x: m.nn.functional.instance_norm(x),
    )
    for call in calls:
        compare(call(torch, x), call(rl, ours(x)), rtol=1e-5)


def test_running_means_of_what_is_infinite() -> None:
    x = sample(4, 3, 5, 5, dtype=torch.float32)
    x[1, 1, 2, 2] = torch.inf
    theirs, mine = [torch.zeros(3), torch.ones(3)], [rl.zeros(3), rl.ones(3)]
    F.batch_norm(x, *theirs, training=True)
    G.batch_norm(ours(x), *mine, training=True)
    compare(theirs, mine, rtol=1e-5)
