"""Views against PyTorch: sizes, strides, offsets, sharing, versions, gradients, writes through views, refusals."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).parent))
from parity import agree, compare, gradients_agree, ours, outcome, parts  # noqa: E402

import rushlight as rl  # noqa: E402

pytestmark = pytest.mark.share(2)   # of each test that has several cases


def cube(dtype: Any = torch.float64) -> Any:
    """2 x 3 x 4, elements all different."""
    return torch.arange(24, dtype=torch.float64).reshape(2, 3, 4).mul(0.37).sub(3).to(dtype)


VIEWS: dict[str, Callable] = {
    "permute": lambda x: x.permute(2, 0, 1),
    "permute_list": lambda x: x.permute([-1, 0, 1]),
    "transpose": lambda x: x.transpose(0, -1),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "movedim": lambda x: x.movedim(0, 2),
    "movedim_many": lambda x: x.movedim((0, 1), (-1, 0)),
    "mT": lambda x: x.mT,
    "select": lambda x: x.select(1, -1),
    "slice": lambda x: x[:, 1:, ::2],
    "negative_bounds": lambda x: x[-1:, :-1],
    "index_int_none": lambda x: x[None, 1, ..., None],
    "narrow": lambda x: x.narrow(2, 1, 2),
    "narrow_negative": lambda x: x.narrow(-1, -2, 2),
    "narrow_empty": lambda x: x.narrow(1, 3, 0),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "unsqueeze_last": lambda x: x.unsqueeze(-1),
    "squeeze": lambda x: x[:1].squeeze(),
    "squeeze_dim": lambda x: x[:, :1].squeeze(1),
    "squeeze_other": lambda x: x.squeeze(0),
    "squeeze_dims": lambda x: x[:1, :1].squeeze((0, 1)),
    "expand": lambda x: x[:, :1].expand(5, -1, 3, 4),
    "expand_same": lambda x: x.expand(2, 3, 4),
    "expand_as": lambda x: x[:1].expand_as(x),
    "broadcast_to": lambda x: x.broadcast_to((2, 2, 3, 4)),
    "view": lambda x: x.view(6, 4),
    "view_infer": lambda x: x.view(-1, 2),
    "view_strided": lambda x: x[:, :, 1:3].view(2, 3, 2, 1),
    "reshape_copy": lambda x: x.transpose(0, 1).reshape(6, 4),
    "reshape_view": lambda x: x.reshape(24),
    "flatten": lambda x: x.flatten(1),
    "flatten_part": lambda x: x.flatten(0, 1),
    "unflatten": lambda x: x.unflatten(2, (2, -1)),
    "ravel": lambda x: x.ravel(),
    "unfold": lambda x: x.unfold(2, 2, 1),
    "unfold_step": lambda x: x.unfold(1, 2, 2),
    "unfold_zero": lambda x: x.unfold(1, 0, 1),
    "diagonal": lambda x: x.diagonal(0, 1, 2),
    "diagonal_above": lambda x: x.diagonal(2, 0, 2),
    "diagonal_below": lambda x: x.diagonal(-1, -2, -1),
    "diagonal_outside": lambda x: x.diagonal(9, 1, 2),
    "as_strided": lambda x: x.as_strided((3, 2), (2, 5), 1),
    "as_strided_overlapping": lambda x: x.as_strided((4, 3), (1, 1)),
    "split": lambda x: x.split(2, 1),
    "split_sizes": lambda x: x.split([1, 0, 3], -1),
    "swapaxes_named": lambda x: x.swapaxes(axis0=0, axis1=2),
    "split_named": lambda x: x.split(split_size=2, dim=1) + x.split(split_size=[1, 3], dim=2),
    "chunk": lambda x: x.chunk(3, 2),
    "chunk_many": lambda x: x.chunk(7, 1),
    "tensor_split": lambda x: x.tensor_split(3, 2),
    "tensor_split_at": lambda x: x.tensor_split((1, 3, 9), 2),
    "tensor_split_back": lambda x: x.tensor_split((-1, 1), 2),
    "tensor_split_named": lambda x: x.tensor_split(indices=[1, 3], dim=2) + x.tensor_split(sections=2, dim=1),
    "hsplit": lambda x: x.hsplit(3),
    "hsplit_named": lambda x: x.hsplit(indices=[1]) + x.hsplit(sections=3),
    "vsplit": lambda x: x.vsplit([1]),
    "dsplit": lambda x: x.dsplit(2),
    "unbind": lambda x: x.unbind(1),
    "view_as": lambda x: x.view_as(x.reshape(4, 6)),
    "adjoint": lambda x: x.adjoint(),
    "t": lambda x: x[0].t(),
    "T": lambda x: x[0].T,
    "real": lambda x: x.real,
    "detach": lambda x: x.detach(),
    "split_with_sizes": lambda x: x.split_with_sizes([1, 2], 1),
}


def geometry(t: Any, base: Any) -> tuple:
    """What describes a view: sizes, strides, offset, whether it shares memory with `base`."""
    shared = t.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
    return tuple(t.shape), tuple(t.stride()), t.storage_offset(), shared, t.is_contiguous()


@pytest.mark.parametrize("name", VIEWS)
def test_geometry_sharing_and_values(name: str) -> None:
    for source in (cube(), cube().transpose(0, 2), cube(torch.int16)[:, :, 1:]):
        fn, mine = VIEWS[name], ours(source)
        want, raised, _ = outcome(lambda _, x, fn=fn: fn(x), torch, (source,))
        got, refused, said = outcome(lambda _, x, fn=fn: fn(x), rl, (mine,))
        assert (raised and raised.__name__) == (refused and refused.__name__), said
        if raised:
            continue
        compare(want, got, what=name)
        for w, g in zip(parts(want), parts(got), strict=True):
            assert geometry(g, mine) == geometry(w, source), name
            if geometry(w, source)[3]:
                assert g._is_view() or name in ("real", "detach"), name


@pytest.mark.parametrize("name", [n for n in VIEWS if n != "detach"])
def test_gradients(name: str) -> None:
    gradients_agree(lambda m, x: [v * v for v in parts(VIEWS[name](x * 1))], cube(), what=name)


def test_views_share_versions() -> None:
    for m in (torch, rl):
        x = m.zeros(3, 4)
        views = [
            x.t(),
            x[1:],
            x.view(12),
            x.select(0, 1),
            x.detach(),
            x.expand(2, 3, 4),
            x.unfold(1, 2, 1),
            x.diagonal(),
        ]
        start = x._version
        views[1].add_(1)
        x.mul_(2)
        assert x._version == start + 2
        assert all(v._version == x._version for v in views)
        assert x.clone()._version == 0
        assert x.data._version == 0


SCATTERS: list[Callable] = [
    lambda m, x, s: x.select_scatter(s[0], 0, 1),
    lambda m, x, s: m.select_scatter(x, s[:, 0], 1, -1),
    lambda m, x, s: m.slice_scatter(x, s[:, :2], 1, 0, 4, 2),
    lambda m, x, s: m.slice_scatter(x, s[:1], 0, -1),
    lambda m, x, s: m.diagonal_scatter(x, s[:, :, 0], 0, 1, 2),
    lambda m, x, s: m.as_strided_scatter(x, s[0], (3, 4), (4, 1), 2),
    lambda m, x, s: m.select_scatter(x, s, 1, 0),
]


@pytest.mark.parametrize("k", range(len(SCATTERS)))
def test_scatters_into_copies(k: int) -> None:
    agree(SCATTERS[k], cube(), cube() + 100)
    if k not in (5, 6):   # PyTorch's gradient of as_strided_scatter is zero where it should not be
        gradients_agree(SCATTERS[k], cube(), cube() + 100)
    elif k == 5:
        x, s = ours(cube()).requires_grad_(), ours(cube()).requires_grad_()
        assert rl.autograd.gradcheck(lambda x, s: SCATTERS[5](rl, x, s), (x, s))


WRITES: list[Callable] = [
    lambda x, y: x[0].mul_(y),
    lambda x, y: x.t()[1:].add_(y.sum()),
    lambda x, y: x[:, 1].copy_(y[:3] * 2),
    lambda x, y: x.view(-1)[2:6].mul_(y),
    lambda x, y: x.diagonal().copy_(y[:3]),
    lambda x, y: x.select(0, 1).sin_(),
    lambda x, y: x.narrow(1, 1, 2).zero_(),
    lambda x, y: x.as_strided((2, 2), (4, 1), 1).mul_(3),
    lambda x, y: x.unsqueeze(0).transpose(1, 2)[0, 2].fill_(0.5),
    lambda x, y: x.__setitem__((slice(None), 2), y[:3]),
    lambda x, y: x[1:].view(2, 2, 2)[0].exp_(),
]


@pytest.mark.parametrize("k", range(len(WRITES)))
def test_gradients_of_writes_through_views(k: int) -> None:
    def fn(m: Any, x: Any, y: Any) -> list:
        base = x * 1.5
        other = base[1]
        WRITES[k](base, y)
        return [base.cos() * 1.1, other * other]

    gradients_agree(fn, cube()[0], torch.linspace(0.5, 2, 4, dtype=torch.float64))


def test_writes_through_views_of_leaves_are_refused() -> None:
    for write in (
        lambda x: x[0].mul_(2),
        lambda x: x.view(-1).zero_(),
        lambda x: x.add_(1),
        lambda x: x.unbind(0)[0].add_(1),
    ):
        agree(lambda m, x, write=write: write(x.requires_grad_()), cube()[0])
    agree(lambda m, x: (x.requires_grad_() * 1).unbind(0)[0].add_(1), cube()[0])
    agree(lambda m, x: (x.requires_grad_() * 1).split(1)[0].mul_(2), cube()[0])


REFUSALS: list[Callable] = [
    lambda m, x: x.permute(0, 1), lambda m, x: x.permute(0, 0, 1), lambda m, x: x.permute(0, 1, 3),
    lambda m, x: x.transpose(0, 3), lambda m, x: x.t(), lambda m, x: x.movedim(0, 5),
    lambda m, x: x.movedim((0, 1), (0,)),
    lambda m, x: x.movedim((0, 0), (0, 1)), lambda m, x: x[0, 0].adjoint(), lambda m, x: x.unsqueeze(4),
    lambda m, x: x.unsqueeze(-5), lambda m, x: x.squeeze(3), lambda m, x: x.squeeze((0, 0)), lambda m, x: x.expand(3),
    lambda m, x: x.expand(2, 4, 4), lambda m, x: x.expand(-1, 2, 3, 4), lambda m, x: x.expand(2, 3, -2),
    lambda m, x: x.view(5, 5), lambda m, x: x.view(-1, -1), lambda m, x: x.view(-2, 4), lambda m, x: x.view(-1, 0),
    lambda m, x: x.transpose(0, 1).view(24), lambda m, x: x.reshape(7, -1), lambda m, x: x[:0].reshape(-1, 0),
    lambda m, x: x.flatten(2, 1), lambda m, x: x.flatten(0, 4), lambda m, x: x.unflatten(0, (3, -1)),
    lambda m, x: x.unflatten(3, (1,)), lambda m, x: x.unflatten(0, ()), lambda m, x: x.select(0, 2),
    lambda m, x: x.select(3, 0),
    lambda m, x: m.tensor(1.0).select(0, 0), lambda m, x: x.narrow(0, 0, 3),
    lambda m, x: x.narrow(0, 3, 0), lambda m, x: x.narrow(0, 0, -1), lambda m, x: m.tensor(1.0).narrow(0, 0, 1),
    lambda m, x: x.unfold(0, 3, 1), lambda m, x: x.unfold(0, 1, 0), lambda m, x: x.unfold(0, -1, 1),
    lambda m, x: x.unfold(3, 1, 1), lambda m, x: x.diagonal(0, 1, 1), lambda m, x: x.diagonal(0, 0, 3),
    lambda m, x: x.as_strided((2,), (1, 1)), lambda m, x: x.as_strided((25,), (1,)),
    lambda m, x: x.as_strided((2,), (-1,)), lambda m, x: x.as_strided((2,), (1,), -1),
    lambda m, x: x.as_strided((-2,), (1,)), lambda m, x: x.split(0), lambda m, x: x.split(-1),
    lambda m, x: x.split([1, 2]),
    lambda m, x: x.split([3, -1]), lambda m, x: m.tensor(1.0).split(1),
    lambda m, x: x.chunk(0), lambda m, x: m.tensor(1).chunk(1), lambda m, x: x.tensor_split(0),
    lambda m, x: m.tensor(1).tensor_split(1), lambda m, x: x.hsplit(2), lambda m, x: x[0, 0].vsplit(1),
    lambda m, x: x[0].dsplit(1), lambda m, x: x.dsplit(3), lambda m, x: m.tensor(1).unbind(),
    lambda m, x: x.unbind(3), lambda m, x: m.view_as_real(x), lambda m, x: m.view_as_complex(x),
    lambda m, x: m.view_as_complex(x.transpose(0, 2)), lambda m, x: m.view_as_complex(m.tensor(1.0)),
    lambda m, x: m.imag(x),
    lambda m, x: x.view(m.complex128).view(m.float64)[..., 1:].view(m.complex128),
    lambda m, x: m.tensor(1.0).view(m.int16), lambda m, x: x.to(m.float32)[..., :3].view(m.float64),
    lambda m, x: x.transpose(0, 2).view(m.float32), lambda m, x: x[0].view(2.0, 6), lambda m, x: x.view("a"),
    lambda m, x: x.permute(0.5, 1, 2), lambda m, x: x.unsqueeze(), lambda m, x: x.select(0),
    lambda m, x: x.transpose(0), lambda m, x: x.expand(), lambda m, x: x.narrow(0, 1),
    lambda m, x: x.broadcast_to((3, 4)), lambda m, x: x.select(0, 0, 0), lambda m, x: x.view_as(3),
    lambda m, x: x.swapaxes(0, 7),
    lambda m, x: m.broadcast_tensors(x, x[:, :2]), lambda m, x: m.select(x, 0, 1.0),
]


@pytest.mark.parametrize("k", range(len(REFUSALS)))
def test_refusals_have_pytorchs_class(k: int) -> None:
    agree(REFUSALS[k], cube())


def test_dtype_views() -> None:
    for fn in (
        lambda m, x: x.view(m.int64), lambda m, x: x.view(m.float32), lambda m, x: x.view(m.uint8),
        lambda m, x: x.view(m.complex128), lambda m, x: x.view(m.int16)[..., 1:3],
        lambda m, x: x.to(m.float32).view(m.float64),
        lambda m, x: x.view(m.bfloat16), lambda m, x: m.view_as_complex(x.reshape(3, 4, 2)),
        lambda m, x: m.view_as_real(m.view_as_complex(x.reshape(3, 4, 2)).t()),
    ):
        agree(fn, cube().clamp(-1e3, 1e3))
    z = torch.complex(cube()[0], cube()[1])
    for fn in (
        lambda m, z: z.real,
        lambda m, z: z.imag,
        lambda m, z: m.view_as_real(z),
        lambda m, z: z.t().imag,
        lambda m, z: z.mH,
        lambda m, z: z.adjoint(),
    ):
        agree(fn, z)
        gradients_agree(lambda m, z, fn=fn: fn(m, z * 1), z)

    def write_parts(m: Any, z: Any) -> Any:
        w = z * 1
        w.real.mul_(2)
        w.imag[0] = 7
        m.view_as_real(w)[1, :, 0] = -1
        return w

    agree(write_parts, z)
    gradients_agree(write_parts, z)


# --- random chains ----------------------------------------------------------------------------------------------------


def last_part(t: Any, size: int, d: int) -> Any:
    return t.split(size, d)[-1]


def draw_step(draw: Any, x: Any) -> Callable:
    """One view op whose arguments mostly fit a tensor of x's sizes."""
    n = x.ndim
    dim = st.integers(-n, n - 1) if n else st.just(0)
    kind = draw(
        st.sampled_from(
            [
                "transpose",
                "permute",
                "slice",
                "select",
                "unsqueeze",
                "expand",
                "view",
                "reshape",
                "unfold",
                "diagonal",
                "narrow",
                "squeeze",
                "flip",
                "swap",
                "split",
                "as_strided",
            ]
        )
    )
    if kind in ("transpose", "swap"):
        a, b = draw(dim), draw(dim)
        return lambda t: t.transpose(a, b)
    if kind == "permute":
        order = draw(st.permutations(range(n)))
        return lambda t: t.permute(order)
    if kind == "slice" and n:
        d = draw(st.integers(0, n - 1))
        low, high = draw(st.none() | st.integers(-6, 6)), draw(st.none() | st.integers(-6, 6))
        step = draw(st.integers(1, 3))
        return lambda t: t[(slice(None),) * d + (slice(low, high, step),)]
    if kind == "select" and n > 1:
        d, i = draw(dim), draw(st.integers(-4, 4))
        return lambda t: t.select(d, i)
    if kind == "unsqueeze" and n < 5:
        d = draw(st.integers(-n - 1, n))
        return lambda t: t.unsqueeze(d)
    if kind == "squeeze":
        d = draw(st.none() | dim)
        return (lambda t: t.squeeze()) if d is None else (lambda t: t.squeeze(d))
    if kind == "expand":
        sizes = [draw(st.sampled_from([-1, s if s != 1 else draw(st.integers(0, 3))])) for s in x.shape]
        lead = [draw(st.integers(1, 2))] if n < 5 and draw(st.booleans()) else []
        return lambda t: t.expand(*lead, *sizes)
    if kind in ("view", "reshape"):
        sizes = draw(
            st.sampled_from(
                [(-1,), (1, -1), (-1, 2), (2, -1), (3, -1, 2), (0, -1), tuple(x.shape), (*x.shape, 1), (x.numel(),)]
            )
        )
        return (lambda t: t.view(sizes)) if kind == "view" else (lambda t: t.reshape(sizes))
    if kind == "unfold" and n < 5:
        d, size, step = draw(dim), draw(st.integers(0, 3)), draw(st.integers(1, 2))
        return lambda t: t.unfold(d, size, step)
    if kind == "diagonal" and n > 1:
        a, b, k = draw(dim), draw(dim), draw(st.integers(-3, 3))
        return lambda t: t.diagonal(k, a, b)
    if kind == "narrow" and n:
        d, start, length = draw(dim), draw(st.integers(-3, 3)), draw(st.integers(0, 3))
        return lambda t: t.narrow(d, start, length)
    if kind == "flip" and n:
        d = draw(dim)
        return lambda t: t.flip(d)
    if kind == "split" and n:
        d, size = draw(dim), draw(st.integers(1, 3))
        return lambda t: last_part(t, size, d)
    if kind == "as_strided":
        sizes, strides = draw(st.lists(st.integers(0, 3), min_size=2, max_size=2)), draw(
            st.lists(st.integers(0, 4), min_size=2, max_size=2)
        )
        offset = draw(st.none() | st.integers(0, 9))
        return lambda t: t.as_strided(sizes, strides, offset)
    return lambda t: t[...]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.data())
def test_random_chains_of_views(data: Any) -> None:
    shape = data.draw(st.sampled_from([(), (5,), (3, 4), (2, 3, 4), (2, 1, 3, 2), (0, 3), (1, 1)]))
    count = 1
    for s in shape:
        count *= s
    their_base = torch.arange(count, dtype=torch.int32).reshape(shape)
    want, got = their_base, ours(their_base)
    mine_base = got
    for _ in range(data.draw(st.integers(1, 6))):
        step = draw_step(data.draw, want)
        after, raised, text = outcome(lambda _, t, step=step: step(t), torch, (want,))
        mine, refused, said = outcome(lambda _, t, step=step: step(t), rl, (got,))
        assert (raised and raised.__name__) == (refused and refused.__name__), (text, said)
        if raised:
            continue
        compare(after, mine)
        if after.numel() and geometry(after, their_base)[3]:      # without elements, everything lies at no address
            assert geometry(mine, mine_base) == geometry(after, their_base)
        else:   # a copy: its layout is not the views' business
            after, mine = after.clone(memory_format=torch.contiguous_format), mine.clone(
                memory_format=rl.contiguous_format
            )
            their_base, mine_base = after, mine
        want, got = after, mine


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.data())
def test_random_chains_with_gradients_and_writes(data: Any) -> None:
    source = cube()
    steps = []
    seen = source
    for _ in range(data.draw(st.integers(1, 4))):
        step = draw_step(data.draw, seen)
        after, raised, _ = outcome(lambda _, t, step=step: step(t), torch, (seen,))
        if not raised:
            steps.append(step)
            seen = after
    # Parts of a split may not be written to; writes to views that overlap themselves are refused.
    write = data.draw(st.booleans()) and not any("last_part" in step.__code__.co_names for step in steps)

    def fn(m: Any, x: Any) -> list:
        base = x * 1
        v = base
        for step in steps:
            v = step(v)
        if write and not overlapping(v):
            v.mul_(2)
        return [base * base, v * v * v]

    gradients_agree(fn, source, second=False)


def overlapping(t: Any) -> bool:
    """Whether two elements may share memory, as far as strides tell."""
    walk = sorted((s, n) for s, n in zip(t.stride(), t.shape, strict=True) if n > 1)
    reach = 1
    for stride, size in walk:
        if stride < reach:
            return True
        reach = stride * (size - 1) + reach
    return False


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 15, 16, 17, 33])
def test_copies_of_short_rows(length):
    """Rows of up to 16 elements are written out in kernels of their own, which must not serve another length."""
    x = torch.arange(6 * length * 900, dtype=torch.float32).reshape(6, length, 900)
    agree(lambda t, x: x.permute(0, 2, 1).contiguous(), x)
    agree(lambda t, x: x.permute(2, 0, 1).contiguous(), x)
    agree(lambda t, x: x.unfold(2, min(length, 20), 3).contiguous(), x)
    agree(lambda t, x: x.permute(0, 2, 1).double().permute(1, 0, 2).clone(memory_format=t.contiguous_format), x)


@pytest.mark.parametrize("count", [1, 4, 255, 256, 257, 5000])
def test_lines_backwards(count):
    agree(lambda t, x: x.flip(0), torch.arange(count, dtype=torch.float32))
    agree(lambda t, x: x.flip(0, 1), torch.arange(3 * count).reshape(3, count))
