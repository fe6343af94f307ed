"""Gather, scatter, indexing, joining, rearranging and scans against PyTorch, with gradients, errors and bad indices."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).parent))
from parity import agree, gradients_agree, ours  # noqa: E402

import rushlight as rl  # noqa: E402

pytestmark = pytest.mark.share(2)   # of each test that has several cases

DTYPES = ("float32", "float64", "bfloat16", "int64", "uint8", "bool", "complex64")


def sample(*shape: int, dtype: str = "float64", seed: int = 0):
    """Numbers of the dtype, in a fixed order."""
    generator = torch.Generator().manual_seed(seed)
    kind = getattr(torch, dtype)
    if kind.is_floating_point or kind.is_complex:
        return torch.randn(
            *shape, dtype=torch.complex128 if kind.is_complex else torch.float64, generator=generator
        ).to(kind)
    return torch.randint(0, 2 if kind is torch.bool else 90, shape, generator=generator).to(kind)


def indices(*shape: int, below: int, seed: int = 1):
    return torch.randint(0, below, shape, generator=torch.Generator().manual_seed(seed))


I23 = indices(2, 3, below=4)
ROWS = torch.tensor([2, 0, 2, 1])
MASK = sample(4, 5) > 0

# Functions of x [4, 5] (any dtype); src [4, 5] is of the same dtype.
MOVES = {
    "gather 0": lambda m, x, src: x.gather(0, ours_or(m, I23)),
    "gather 1": lambda m, x, src: m.gather(x, -1, ours_or(m, I23)),
    "gather int32": lambda m, x, src: x.gather(1, ours_or(m, I23.int())),
    "index_select 0": lambda m, x, src: x.index_select(0, ours_or(m, ROWS)),
    "index_select 1": lambda m, x, src: m.index_select(x, 1, ours_or(m, ROWS)),
    "take": lambda m, x, src: x.take(ours_or(m, torch.tensor([[0, 19], [-1, 7]]))),
    "take_along_dim": lambda m, x, src: m.take_along_dim(x, ours_or(m, torch.tensor([[3], [0], [1], [1]])), 1),
    "take_along_dim flat": lambda m, x, src: m.take_along_dim(x.contiguous(), ours_or(m, torch.tensor([3, 11]))),
    "index rows": lambda m, x, src: x[ours_or(m, ROWS)],
    "index columns": lambda m, x, src: x[:, ours_or(m, ROWS)],
    "index pairs": lambda m, x, src: x[ours_or(m, ROWS), ours_or(m, ROWS)],
    "index broadcast": lambda m, x, src: x[ours_or(m, ROWS)[:, None], ours_or(m, torch.tensor([[1, -1]]))],
    "index mask": lambda m, x, src: x[ours_or(m, MASK)],
    "index row mask": lambda m, x, src: x[ours_or(m, MASK[:, 0])],
    "index mask and slice": lambda m, x, src: x[1:, ours_or(m, MASK[0])],
    "index 2-d": lambda m, x, src: x[ours_or(m, I23)],
    "masked_select": lambda m, x, src: x.masked_select(ours_or(m, MASK[:, :1])),
    "masked_scatter": lambda m, x, src: x.masked_scatter(ours_or(m, MASK), src),
    "scatter": lambda m, x, src: x.scatter(1, ours_or(m, unique_index()), src),
    "scatter value": lambda m, x, src: x.scatter(0, ours_or(m, I23), 1),
    "scatter_add 0": lambda m, x, src: x.scatter_add(0, ours_or(m, I23), src[:2, :3]),
    "scatter_add 1": lambda m, x, src: x.scatter_add(1, ours_or(m, I23), src[1:3, 1:4]),
    "index_add 0": lambda m, x, src: x.index_add(0, ours_or(m, ROWS), src),
    "index_add 1": lambda m, x, src: x.index_add(1, ours_or(m, ROWS), src[:, :4], alpha=2),
    "index_copy": lambda m, x, src: x.index_copy(0, ours_or(m, torch.tensor([3, 1])), src[:2]),
    "index_fill": lambda m, x, src: x.index_fill(1, ours_or(m, torch.tensor([3, -1])), 1),
    "index_put": lambda m, x, src: x.index_put((ours_or(m, torch.tensor([3, 1])),), src[0]),
    "index_put accumulate": lambda m, x, src: x.index_put((ours_or(m, ROWS), ours_or(m, ROWS)), src[:, 0], True),
    "index_put mask": lambda m, x, src: x.index_put((ours_or(m, MASK),), src[0, 0]),
    "put": lambda m, x, src: x.put(ours_or(m, torch.tensor([3, -1, 7])), src[0, :3]),
    "put accumulate": lambda m, x, src: x.put(ours_or(m, torch.tensor([3, 3, 7])), src[0, :3], True),
    "cat 0": lambda m, x, src: m.cat([x, src]),
    "cat 1": lambda m, x, src: m.cat((x, src[:, :2], x), -1),
    "cat empty": lambda m, x, src: m.cat([x, x.new_empty(0), src], 1),
    "stack": lambda m, x, src: m.stack([x, src], 1),
    "stack last": lambda m, x, src: m.stack([x, src, x], -1),
    "hstack": lambda m, x, src: (
        m.hstack([x, src]),
        m.vstack([x, src]),
        m.dstack([x, src]),
        m.column_stack([x, x[:, 0]]),
    ),
    "repeat": lambda m, x, src: (x.repeat(2, 1), x.repeat(2, 3, 1), x.tile(2), x.repeat(0, 1)),
    "repeat_interleave": lambda m, x, src: (
        x.repeat_interleave(2),
        x.repeat_interleave(3, 1),
        x.repeat_interleave(ours_or(m, ROWS), 0),
    ),
    "roll": lambda m, x, src: (x.roll(3), x.roll(-1, 0), x.roll((1, 7), (0, 1))),
    "flip": lambda m, x, src: (
        x.flip(0),
        x.flip(0, 1),
        x.fliplr(),
        x.flipud(),
        x.rot90(),
        x.rot90(2),
        x.rot90(-1, (1, 0)),
    ),
    "tril": lambda m, x, src: (x.tril(), x.tril(-1), x.triu(), x.triu(2), x.tril(9), x.triu(-9)),
    "diag": lambda m, x, src: (
        x.diag(),
        x.diag(1),
        x[0].diag(),
        x[0].diag(-2),
        x.diagflat(1),
        m.diag_embed(x),
        m.diag_embed(x, -1, 0, 2),
    ),
    "nonzero": lambda m, x, src: (m.nonzero(x), m.nonzero(x, as_tuple=True), m.argwhere(x), m.where(x != 0)),
}
SKIP = {("scatter value", "bool"), ("index_add 1", "bool"), ("index_fill", "bool")}


def ours_or(m, t):
    return t if m is torch else ours(t)


def unique_index():
    return torch.stack([torch.randperm(5, generator=torch.Generator().manual_seed(k)) for k in range(4)])


@pytest.mark.parametrize("name", MOVES)
def test_values(name):
    for dtype in DTYPES if not name.startswith(("hstack", "masked_scatter")) else ("float32", "int64"):
        if (name, dtype) in SKIP:
            continue
        x, src = sample(4, 5, dtype=dtype), sample(4, 5, dtype=dtype, seed=9)
        agree(MOVES[name], x, src, what=f"{name} {dtype}")
        if dtype in ("float32", "uint8"):
            agree(
                MOVES[name],
                sample(5, 4, dtype=dtype).t(),
                sample(4, 10, dtype=dtype, seed=9)[:, ::2],
                what=f"{name} strided {dtype}",
            )


@pytest.mark.parametrize("name", [n for n in MOVES if n not in ("nonzero",)])
def test_gradients(name):
    gradients_agree(MOVES[name], sample(4, 5), sample(4, 5, seed=9), what=name)


IN_PLACE = {
    "scatter_": lambda m, x, s: x.scatter_(1, ours_or(m, unique_index()), s),
    "scatter_ value": lambda m, x, s: x.scatter_(0, ours_or(m, I23), 2.5),
    "scatter_ reduce": lambda m, x, s: (
        x.scatter_(0, ours_or(m, I23), s, reduce="add"),
        x.scatter_(0, ours_or(m, I23), 2, reduce="multiply"),
    ),
    "scatter_add_": lambda m, x, s: x.scatter_add_(0, ours_or(m, I23), s[:2, :3]),
    "index_add_": lambda m, x, s: x.index_add_(0, ours_or(m, ROWS), s, alpha=0.5),
    "index_copy_": lambda m, x, s: x.index_copy_(0, ours_or(m, torch.tensor([3, 1])), s[:2]),
    "index_fill_": lambda m, x, s: x.index_fill_(0, ours_or(m, torch.tensor([3, 1])), 7),
    "index_put_": lambda m, x, s: x.index_put_([ours_or(m, ROWS)], s, accumulate=True),
    "put_": lambda m, x, s: x.put_(ours_or(m, torch.tensor([3, -1, 7])), s[0, :3]),
    "masked_scatter_": lambda m, x, s: x.masked_scatter_(ours_or(m, MASK), s),
    "cumsum_": lambda m, x, s: x.cumsum_(1),
    "cumprod_": lambda m, x, s: x.cumprod_(0),
    "tril_": lambda m, x, s: (x.tril_(), x.triu_(-1)),
    "scatter_reduce_": lambda m, x, s: x.scatter_reduce_(0, ours_or(m, I23), s[:2, :3], "amax"),
}


def setitem(m, x, s):
    """Assignments through every kind of index."""
    rows = ours_or(m, torch.tensor([3, 1]))
    x[rows] = s[:2]
    x[:, rows] = 0.5
    x[ours_or(m, MASK)] = -1
    x[0, rows] += 1
    x[rows, rows] *= 2
    x[ours_or(m, MASK[:, 0]), 1:] = s[0, 0]
    return x


@pytest.mark.parametrize("name", [*IN_PLACE, "setitem"])
def test_in_place(name):
    fn = IN_PLACE.get(name, setitem)
    agree(lambda m, x, s: (fn(m, x := x.clone(), s), x)[1], sample(4, 5), sample(4, 5, seed=9), what=name)
    agree(
        lambda m, x, s: fn(m, x.clone().t().contiguous().t(), s),
        sample(4, 5),
        sample(4, 5, seed=9),
        what=f"{name} transposed",
    )
    if name in ("cumsum_", "cumprod_", "index_fill_", "tril_"):
        agree(
            lambda m, x, s: (fn(m, (x := x.clone())[:, ::2], s), x)[1],
            sample(4, 5),
            sample(4, 5, seed=9),
            what=f"{name} strided",
        )
    if name != "scatter_ reduce":   # PyTorch has no derivative for it
        gradients_agree(lambda m, x, s: fn(m, x * 1, s), sample(4, 5), sample(4, 5, seed=9), second=False, what=name)


@pytest.mark.parametrize("mode", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce(mode, include_self):
    for dtype in ("float32", "float64", "int64", "bfloat16"):
        agree(
            lambda m, x, s: x.scatter_reduce(0, ours_or(m, I23), s, mode, include_self=include_self),
            sample(4, 5, dtype=dtype),
            sample(4, 5, dtype=dtype, seed=9),
            what=f"{mode} {dtype}",
        )
    full = indices(4, 5, below=4)
    gradients_agree(
        lambda m, x, s: x.scatter_reduce(0, ours_or(m, full), s, mode, include_self=include_self),
        sample(4, 5),
        sample(4, 5, seed=9),
        second=mode in ("sum", "mean", "amax"),
        what=mode,
    )
    zeros = sample(4, 5, seed=9).round()
    if mode == "prod":
        gradients_agree(
            lambda m, x, s: x.scatter_reduce(0, ours_or(m, full), s, mode, include_self=include_self),
            sample(4, 5),
            zeros,
            second=False,
            what=mode,
        )
    x = torch.tensor([1.0, math.nan, 3.0])
    agree(
        lambda m, x: x.scatter_reduce(
            0, ours_or(m, torch.tensor([0, 1, 2])), x * 0 + 2, mode, include_self=include_self
        ),
        x,
    )


SCANS = {
    "cumsum": lambda m, x, d: m.cumsum(x, d),
    "cumprod": lambda m, x, d: x.cumprod(d),
    "cummax": lambda m, x, d: m.cummax(x, d),
    "cummin": lambda m, x, d: m.cummin(x, d),
    "logcumsumexp": lambda m, x, d: m.logcumsumexp(x, d),
}


@pytest.mark.parametrize("name", SCANS)
def test_scans(name):
    fn = SCANS[name]
    for dtype in ("float32", "float64", "bfloat16", "int64", "bool", "uint8", "complex64"):
        if name == "logcumsumexp" and dtype == "complex64":
            continue
        for d in (0, 1, -1):
            agree(
                lambda m, x, d=d: fn(m, x, d),
                sample(3, 4, 5, dtype=dtype),
                rtol=2e-2 if dtype == "bfloat16" else None,
                what=f"{name} {dtype} {d}",
            )
        agree(
            lambda m, x: fn(m, x, 1),
            sample(3, 4, 5, dtype=dtype).permute(2, 0, 1),
            rtol=2e-2 if dtype == "bfloat16" else None,
            what=f"{name} {dtype} permuted",
        )
    for shape in ((), (0,), (3, 0), (1,)):
        agree(lambda m, x: fn(m, x, 0), sample(*shape) if shape else torch.tensor(2.0), what=f"{name} {shape}")
    agree(lambda m, x: fn(m, x, 3), sample(3, 4), what=name)
    nan, inf = math.nan, math.inf
    agree(
        lambda m, x: fn(m, x, 1),
        torch.tensor([[1.0, nan, 2.0, nan], [-inf, 1.0, -inf, inf], [-inf, -inf, inf, 1.0], [2.0, 2.0, 1.0, 2.0]]),
        what=name,
    )
    gradients_agree(lambda m, x: (fn(m, x, 0), fn(m, x, -1)), sample(3, 4), second=name != "logcumsumexp", what=name)
    gradients_agree(lambda m, x: fn(m, x * (x.abs() > 0.4), 1), sample(3, 4), second=False, what=f"{name} with zeros")
    agree(lambda m, x: fn(m, x, 1), sample(40, 900, 3), rtol=1e-9, what=f"{name} large")


def test_advanced_indexing_layouts():
    x = sample(3, 4, 5, 2)
    i, j = torch.tensor([[0, 2], [1, 1]]), torch.tensor([1, 0])
    for fn in (
        lambda m, t: t[ours_or(m, i)], lambda m, t: t[:, ours_or(m, i)],
        lambda m, t: t[ours_or(m, i), :, ours_or(m, j)], lambda m, t: t[:, ours_or(m, i), ours_or(m, j)],
        lambda m, t: t[ours_or(m, j), ..., ours_or(m, j)], lambda m, t: t[0, ours_or(m, i), :, ours_or(m, j)],
        lambda m, t: t[..., ours_or(m, j)], lambda m, t: t[ours_or(m, i), ours_or(m, j), 1:, None],
        lambda m, t: t[[2, 0]], lambda m, t: t[[1, 2], [0, 3]],
        lambda m, t: t[ours_or(m, torch.tensor([], dtype=torch.int64))],
        lambda m, t: t[ours_or(m, torch.tensor(1))], lambda m, t: t[t > 0],
        lambda m, t: t[t[..., 0] > 0], lambda m, t: t[:, t[0, :, 0, 0] > 0],
        lambda m, t: t[ours_or(m, torch.tensor(True))],
        lambda m, t: t[ours_or(m, torch.tensor([True, False, True])), ours_or(m, torch.tensor([1, 0]))],
        lambda m, t: t.permute(3, 1, 0, 2)[ours_or(m, j), :, ours_or(m, j)],
    ):
        agree(fn, x)
        gradients_agree(fn, x)


BAD = {
    "gather": lambda m, x: x.gather(0, ours_or(m, torch.tensor([[4]]))),
    "gather negative": lambda m, x: x.gather(0, ours_or(m, torch.tensor([[-1]]))),
    "gather dtype": lambda m, x: x.gather(0, ours_or(m, torch.tensor([[1.0]]))),
    "gather shape": lambda m, x: x.gather(0, ours_or(m, torch.zeros(2, 9, dtype=torch.int64))),
    "gather ndim": lambda m, x: x.gather(0, ours_or(m, torch.zeros(2, dtype=torch.int64))),
    "gather dim": lambda m, x: x.gather(2, ours_or(m, torch.zeros(2, 2, dtype=torch.int64))),
    "index_select": lambda m, x: x.index_select(0, ours_or(m, torch.tensor([0, 4]))),
    "index_select 2-d": lambda m, x: x.index_select(1, ours_or(m, torch.tensor([[1]]))),
    "take": lambda m, x: x.take(ours_or(m, torch.tensor([20]))),
    "take negative": lambda m, x: x.take(ours_or(m, torch.tensor([-21]))),
    "index": lambda m, x: x[ours_or(m, torch.tensor([0, 4]))],
    "index negative": lambda m, x: x[:, ours_or(m, torch.tensor([-6]))],
    "index huge": lambda m, x: x[ours_or(m, torch.tensor([2**62]))],
    "index mask shape": lambda m, x: x[ours_or(m, torch.ones(3, dtype=torch.bool))],
    "index too many": lambda m, x: x[(ours_or(m, torch.tensor([0])),) * 3],
    "index float": lambda m, x: x[ours_or(m, torch.tensor([0.0]))],
    "index shapes": lambda m, x: x[ours_or(m, torch.tensor([0, 1])), ours_or(m, torch.tensor([0, 1, 2]))],
    "index_put": lambda m, x: x.index_put((ours_or(m, torch.tensor([4])),), x[0]),
    "index_put shape": lambda m, x: x.index_put((ours_or(m, torch.tensor([1, 2])),), x[:3]),
    "index_put dtype": lambda m, x: x.index_put((ours_or(m, torch.tensor([1])),), x[0].long()),
    "scatter": lambda m, x: x.scatter(0, ours_or(m, torch.tensor([[4]])), 1.0),
    "scatter dtype": lambda m, x: x.scatter(0, ours_or(m, torch.tensor([[0]])), x.long()),
    "scatter_add": lambda m, x: x.scatter_add(1, ours_or(m, torch.tensor([[-1]])), x),
    "scatter_reduce mode": lambda m, x: x.scatter_reduce(1, ours_or(m, torch.tensor([[0]])), x, "most"),
    "index_add": lambda m, x: x.index_add(0, ours_or(m, torch.tensor([4])), x[:1]),
    "index_add shape": lambda m, x: x.index_add(0, ours_or(m, torch.tensor([1])), x[:2]),
    "index_copy": lambda m, x: x.index_copy(0, ours_or(m, torch.tensor([4])), x[:1]),
    "index_fill": lambda m, x: x.index_fill(0, ours_or(m, torch.tensor([4])), 1),
    "put": lambda m, x: x.put(ours_or(m, torch.tensor([20])), x[0, :1]),
    "put count": lambda m, x: x.put(ours_or(m, torch.tensor([2])), x[0]),
    "cat nothing": lambda m, x: m.cat([]),
    "cat sizes": lambda m, x: m.cat([x, x[:, :2]]),
    "cat ndim": lambda m, x: m.cat([x, x[0]]),
    "cat scalars": lambda m, x: m.cat([x[0, 0], x[0, 0]]),
    "stack shapes": lambda m, x: m.stack([x, x[0]]),
    "masked_select": lambda m, x: x.masked_select(ours_or(m, torch.tensor([1, 0, 1, 0, 0]))),
    "masked_scatter": lambda m, x: x.masked_scatter(ours_or(m, torch.ones(4, 5, dtype=torch.bool)), x[0]),
    "repeat": lambda m, x: x.repeat(2),
    "repeat_interleave": lambda m, x: x.repeat_interleave(ours_or(m, torch.tensor([1, 2])), 0),
    "roll": lambda m, x: x.roll((1, 2), 0),
    "flip": lambda m, x: x.flip(0, 0),
    "tril": lambda m, x: x[0].tril(),
    "diag": lambda m, x: x[None].diag(),
}


@pytest.mark.parametrize("case", BAD)
def test_refusals(case):
    agree(BAD[case], sample(4, 5), what=case)


def test_bad_indices_say_which():
    x = ours(sample(4, 5))
    with pytest.raises(IndexError, match="index 9 .* dimension 1 with size 5"):
        x[:, rl.tensor([0, 9])]
    with pytest.raises(IndexError, match=r"index -7 .* dimension 0 with size 4"):
        x[rl.tensor([-7])]
    with pytest.raises(RuntimeError, match=r"gather.*index 4 .* dimension 0 with size 4"):
        x.gather(0, rl.tensor([[4]]))


@pytest.mark.parametrize("index", [2**63 - 1, -(2**63), 2**58 - 1, 2**57, -(2**58), 2**48])
def test_enormous_indices_raise(index):
    x = ours(sample(4, 5))
    for fn in (lambda i: x[i], lambda i: x.index_select(0, i), lambda i: x.take(i), lambda i: x.index_fill(0, i, 1)):
        with pytest.raises(IndexError):
            fn(rl.tensor([index]))


def test_scatter_does_not_depend_on_threads():
    x, index = ours(torch.zeros(50, 700)), ours(indices(3000, 700, below=50))
    src = ours(torch.randn(3000, 700, generator=torch.Generator().manual_seed(3)))
    before = rl.get_num_threads()
    try:
        seen = []
        for threads in (1, 2):
            rl.set_num_threads(threads)
            seen.append(
                [x.scatter_add(0, index, src).sum(0).tolist(), x.index_put([index[:, 0]], src, True).sum(0).tolist()]
            )
    finally:
        rl.set_num_threads(before)
    assert seen[0] == seen[1]


@pytest.mark.parametrize("size", [(0, 3), (3, 0), (1, 1), (5, 9), (9, 5), (40, 33)])
def test_positions_of_triangles_from_every_diagonal(size):
    for offset in (-(2**40), -39, -6, -1, 0, 1, 4, 9, 32, 2**40):
        agree(lambda m: (m.tril_indices(*size, offset), m.triu_indices(*size, offset)))  # noqa: B023 - called here


def test_creation_of_triangles_and_meta():
    agree(lambda m: (m.tril_indices(4, 3), m.triu_indices(3, 5, 1), m.tril_indices(2, 2, dtype=m.int32)))
    assert rl.triu_indices(6, 4, device="meta").shape == (2, 10)
    x, i = rl.empty(4, 5, device="meta"), rl.empty(2, dtype=rl.int64, device="meta")
    assert x.index_select(0, i).shape == (2, 5) and x[i].shape == (2, 5) and rl.cat([x, x]).shape == (8, 5)
    assert x.cumsum(0).device.type == "meta" and x.index_add(0, i, x[:2]).shape == (4, 5) and x.flip(0).shape == (4, 5)


def test_index_that_shares_memory_with_the_target():
    x = rl.tensor([0, 1, 2, 3, 4, 5])
    with pytest.raises(RuntimeError, match="in the memory that the operation writes"):
        x.index_add_(0, x[:3], x[3:6])
    y = rl.arange(4.0)
    with pytest.raises(RuntimeError, match="in the memory that the operation writes"):
        y.index_copy_(0, rl.tensor([0, 1]), y[1:3])


def test_writes_to_overlapping_memory_are_refused():
    with pytest.raises(RuntimeError, match="single memory location"):
        rl.zeros(1, 5).expand(4, 5).index_fill_(0, rl.tensor([1]), 1)


def layouts(m, rank):
    """Tensors of one shape in the layouts that matter to where channels lie."""
    last = m.channels_last if rank == 4 else m.channels_last_3d
    x = m.arange(2 * 3 * 4**(rank - 2), dtype=m.float32).reshape(2, 3, *[4] * (rank - 2))
    return [
        x,
        x.to(memory_format=last),
        x.double().to(memory_format=last),
        x.permute(0, *range(2, rank), 1).contiguous().movedim(-1, 1)[:, :, :2],
    ]


@pytest.mark.parametrize("rank", [4, 5])
def test_cat_keeps_channels_last_where_all_have_it(rank):
    def joined(m):
        given, result = layouts(m, rank), []
        for pair in ([0, 0], [0, 1], [1, 0], [1, 1], [1, 2], [3, 3], [1, 1, 1]):
            result += [m.cat([given[k] for k in pair], dim) for dim in range(rank)]
        result.append(m.cat([m.ones(0), given[1]]))
        result.append(
            m.cat(
                [m.ones(2, 1, *[4] * (rank - 2)).to(memory_format=m.channels_last if rank == 4 else m.channels_last_3d)]
                * 2,
                1,
            )
        )
        return result

    for got, expected in zip(joined(rl), joined(torch), strict=True):
        assert got.stride() == expected.stride() and got.tolist() == expected.tolist()


def test_large_cat_of_channels_last_writes_rows_side_by_side():
    def joined(m):
        x = (
            m.arange(4 * 24 * 32 * 32, dtype=m.float32)
            .reshape(4, 24, 32, 32)
            .to(memory_format=m.channels_last)
            .requires_grad_(True)
        )
        y = m.cat([x, x * 2], 1)
        (y * y).sum().backward()
        return [y.detach(), x.grad, *[m.cat([x.detach()] * 3, dim) for dim in range(4)]]

    for got, expected in zip(joined(rl), joined(torch), strict=True):
        assert got.stride() == expected.stride() and got.tolist() == expected.tolist()


@pytest.mark.parametrize("rank", [4, 5])
def test_to_a_memory_format_copies_as_pytorch_does(rank):
    def moved(m):
        last = m.channels_last if rank == 4 else m.channels_last_3d
        given = [
            *layouts(m, rank),
            m.ones(2, 3, *[4] * (rank - 2)).permute(*reversed(range(rank))),
            m.ones(1, 1, *[1] * (rank - 2)),
        ]
        result = [
            (x.to(memory_format=f, **more), x)
            for x in given
            for f in (last, m.contiguous_format, m.preserve_format)
            for more in ({}, {"copy": True}, {"dtype": m.float64}, {"dtype": m.float32})
        ]
        result += [
            (getattr(x, name)(memory_format=f), x)
            for x in given
            for f in (last, m.contiguous_format, m.preserve_format)
            for name in ("float", "double", "half", "bfloat16", "int", "bool", "cfloat")
        ]
        return [(y.stride(), y is x) for y, x in result]

    assert moved(rl) == moved(torch)


@pytest.mark.parametrize("size", [60, 130], ids=["small", "large"])
def test_masks_of_all_sizes(size: int) -> None:
    """Large ones are looked through by kernels, small ones by the core."""
    plain, deep = sample(size, size, dtype="float32"), sample(size, size, 3, dtype="float32")
    for make in (lambda t: t, lambda t: t.t(), lambda t: t[:, ::2], lambda t: t.expand(2, size, size)):
        x = make(plain)
        for mask in (x > 0, x > 9, x == x, make(plain > 0)):
            got, own = ours(x), ours(mask)
            assert torch.equal(torch.from_dlpack(got[own]), x[mask])
            if x.ndim == 2:
                values = torch.arange(int(mask.sum()), dtype=torch.float32)
                expected, written = x.clone(), got.clone()
                expected[mask], written[own] = values, ours(values)
                assert torch.equal(torch.from_dlpack(written), expected)
    mask = plain > 0
    assert torch.equal(torch.from_dlpack(ours(deep)[ours(mask)]), deep[mask])
    x, y = ours(plain).requires_grad_(), plain.clone().requires_grad_()
    (x[ours(mask)] ** 2).sum().backward()
    (y[mask] ** 2).sum().backward()
    assert torch.equal(torch.from_dlpack(x.grad), y.grad)
    for lib, t, m in ((rl, ours(plain), ours(mask)), (torch, plain.clone(), mask)):
        with pytest.raises((RuntimeError, IndexError)):
            t[m] = lib.ones(3)
        with pytest.raises(RuntimeError, match="memory"):    # values would be written over while they are read
            t[m] = t.view(-1)[: int(m.sum())]
        with pytest.raises(IndexError):
            t[m[1:]]
