"""Products of matrices against PyTorch: every rank, layout and dtype, the add-and-multiply family, einsum,
gradients."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).parent))
from parity import agree, compare, gradients_agree, ours  # noqa: E402

import rushlight as rl  # noqa: E402

SHAPES = [
    ((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 5)), ((3, 4), (4, 5)), ((2, 3, 4), (4,)), ((4,), (2, 4, 5)),
    ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((2, 3, 4), (2, 4, 5)), ((1, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)),
    ((6, 1, 3, 4), (1, 2, 4, 5)), ((0, 4), (4, 5)), ((3, 0), (0, 5)), ((3, 4), (4, 0)), ((0,), (0,)),
    ((2, 0, 4), (4, 5)), ((2, 3, 0), (2, 0, 5)), ((2, 3, 0), (0, 5)), ((2, 3, 4), (4, 0)), ((20, 0), (0, 3)),
    ((3, 0), (0,)), ((0, 3, 4), (4, 2)),
    ((1, 1), (1, 1)), ((1, 4), (4, 1)), ((33, 40), (40, 37)), ((2, 33, 40), (40, 5)),
]
DTYPES = (
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "complex64",
    "complex128",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
)


def sample(*shape: int, dtype: str = "float64", seed: int = 0) -> Any:
    g = torch.Generator().manual_seed(seed + sum(shape) * 7 + len(shape))
    kind = getattr(torch, dtype)
    if not (kind.is_floating_point or kind.is_complex):
        return torch.randint(-3 if dtype != "uint8" else 0, 4, shape, generator=g).to(kind)
    return torch.randn(shape, generator=g, dtype=torch.complex128 if kind.is_complex else torch.float64).to(kind)


def layouts(t: Any) -> list[Any]:
    """The same values in several layouts: dense, transposed, strided, offset."""
    result = [t]
    if t.ndim > 1:
        result.append(t.transpose(-1, -2).contiguous().transpose(-1, -2))
        wide = torch.zeros((*t.shape[:-1], 2 * t.shape[-1] + 1), dtype=t.dtype)
        wide[..., 1::2] = t
        result.append(wide[..., 1::2])
    if t.ndim > 2:
        result.append(t.transpose(0, -1).contiguous().transpose(0, -1))
    return result


@pytest.mark.parametrize("k", range(len(SHAPES)))
def test_matmul_of_every_rank(k: int) -> None:
    a, b = (sample(*s, seed=i) for i, s in enumerate(SHAPES[k]))
    agree(lambda m, a, b: m.matmul(a, b), a, b, rtol=1e-12)
    agree(lambda m, a, b: a @ b, a, b, rtol=1e-12)
    gradients_agree(lambda m, a, b: m.matmul(a, b), a, b, second=a.numel() < 200)


@pytest.mark.parametrize(
    "shapes", [((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5)), ((34, 40), (40, 36)), ((3, 4), (4,))]
)
def test_matmul_of_every_layout(shapes: tuple) -> None:
    for dtype in ("float32", "complex64", "bfloat16", "int64"):
        a, b = (sample(*s, dtype=dtype, seed=i) for i, s in enumerate(shapes))
        for x, y in itertools.product(layouts(a), layouts(b)):
            agree(
                lambda m, a, b: m.matmul(a, b),
                x,
                y,
                rtol={"float32": 1e-5, "complex64": 1e-5, "bfloat16": 0.02}.get(dtype),
                what=f"{dtype} {x.stride()} {y.stride()}",
            )


def test_matmul_of_expanded_operands() -> None:
    a, b = sample(1, 4), sample(4, 1)
    for x, y in (
        (a.expand(3, 4), b.expand(4, 5)),
        (a.expand(2, 3, 4), b.expand(2, 4, 5)),
        (sample(1, 3, 4).expand(5, 3, 4), sample(4, 2)),
        (a[0].expand(3, 4).t(), sample(3, 2)),
    ):
        agree(lambda m, a, b: a @ b, x, y, rtol=1e-12)
        gradients_agree(lambda m, a, b: a @ b, x, y, second=False)


@pytest.mark.parametrize("dtype", DTYPES)
def test_matmul_of_every_dtype(dtype: str) -> None:
    rtol = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5, "complex64": 1e-5}.get(dtype)
    for shapes in (((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((40, 50), (50, 30)), ((7,), (7,)), ((5, 7), (7,))):
        agree(
            lambda m, a, b: m.matmul(a, b),
            *(sample(*s, dtype=dtype, seed=i) for i, s in enumerate(shapes)),
            rtol=rtol,
            what=f"{dtype} {shapes}",
        )


FORMS: dict[str, tuple[Callable, tuple]] = {
    "mm": (lambda m, a, b: m.mm(a, b), ((3, 4), (4, 5))),
    "bmm": (lambda m, a, b: m.bmm(a, b), ((2, 3, 4), (2, 4, 5))),
    "mv": (lambda m, a, b: m.mv(a, b), ((3, 4), (4,))),
    "dot": (lambda m, a, b: m.dot(a, b), ((4,), (4,))),
    "vdot": (lambda m, a, b: m.vdot(a, b), ((4,), (4,))),
    "outer": (lambda m, a, b: m.outer(a, b), ((4,), (3,))),
    "inner": (lambda m, a, b: m.inner(a, b), ((2, 4), (3, 4))),
    "inner_1d": (lambda m, a, b: m.inner(a, b), ((4,), (3, 4))),
    "inner_0d": (lambda m, a, b: m.inner(a, b), ((), (3, 4))),
    "addmm": (lambda m, c, a, b: m.addmm(c, a, b), ((3, 5), (3, 4), (4, 5))),
    "addmm_scaled": (lambda m, c, a, b: m.addmm(c, a, b, beta=0.5, alpha=-2), ((5,), (3, 4), (4, 5))),
    "addmm_beta0": (lambda m, c, a, b: m.addmm(c, a, b, beta=0), ((3, 1), (3, 4), (4, 5))),
    "addmm_alpha": (lambda m, c, a, b: c.addmm(a, b, alpha=3), ((3, 5), (3, 4), (4, 5))),
    "addmm_scalar": (lambda m, c, a, b: m.addmm(c, a, b), ((), (3, 4), (4, 5))),
    "addmm_empty": (lambda m, c, a, b: m.addmm(c, a, b, beta=2), ((3, 5), (3, 0), (0, 5))),
    "baddbmm": (lambda m, c, a, b: m.baddbmm(c, a, b, beta=0.5, alpha=2), ((2, 3, 5), (2, 3, 4), (2, 4, 5))),
    "baddbmm_broadcast": (lambda m, c, a, b: c.baddbmm(a, b), ((3, 1), (2, 3, 4), (2, 4, 5))),
    "addbmm": (lambda m, c, a, b: m.addbmm(c, a, b, beta=0.5, alpha=2), ((3, 5), (2, 3, 4), (2, 4, 5))),
    "addmv": (lambda m, c, a, b: m.addmv(c, a, b, beta=0.5, alpha=2), ((3,), (3, 4), (4,))),
    "addr": (lambda m, c, a, b: m.addr(c, a, b, beta=0.5, alpha=2), ((3, 4), (3,), (4,))),
    "linear": (lambda m, x, w: m.nn.functional.linear(x, w), ((2, 3, 4), (5, 4))),
    "linear_bias": (lambda m, x, w, b: m.nn.functional.linear(x, w, b), ((2, 3, 4), (5, 4), (5,))),
    "linear_vector": (lambda m, x, w: m.nn.functional.linear(x, w), ((3, 4), (4,))),
    "linear_1d": (lambda m, x, w, b: m.nn.functional.linear(x, w, b), ((4,), (5, 4), (5,))),
    "tensordot": (lambda m, a, b: m.tensordot(a, b, dims=([1, 0], [0, 1])), ((3, 4, 5), (4, 3, 2))),
    "tensordot_n": (lambda m, a, b: m.tensordot(a, b, 1), ((3, 4), (4, 5))),
    "tensordot_0": (lambda m, a, b: m.tensordot(a, b, 0), ((2, 3), (4,))),
    "chain_matmul": (lambda m, a, b, c: m.chain_matmul(a, b, c), ((2, 7), (7, 3), (3, 9))),
    "multi_dot": (lambda m, a, b, c: m.linalg.multi_dot([a, b, c]), ((2, 7), (7, 3), (3, 9))),
    "einsum_matmul": (lambda m, a, b: m.einsum("ij,jk->ik", a, b), ((3, 4), (4, 5))),
    "einsum_batch": (lambda m, a, b: m.einsum("bij,bjk->bki", a, b), ((2, 3, 4), (2, 4, 5))),
    "einsum_implicit": (lambda m, a, b: m.einsum("ij,jk", a, b), ((3, 4), (4, 5))),
    "einsum_trace": (lambda m, a: m.einsum("ii", a), ((4, 4),)),
    "einsum_diagonal": (lambda m, a: m.einsum("ii->i", a), ((4, 4),)),
    "einsum_sum": (lambda m, a: m.einsum("ij->", a), ((3, 4),)),
    "einsum_permute": (lambda m, a: m.einsum("ijk->kij", a), ((2, 3, 4),)),
    "einsum_ellipsis": (lambda m, a, b: m.einsum("...ij,...jk->...ik", a, b), ((5, 1, 3, 4), (2, 4, 5))),
    "einsum_outer": (lambda m, a, b: m.einsum("i,j->ij", a, b), ((3,), (4,))),
    "einsum_three": (lambda m, a, b, c: m.einsum("ab,bc,cd->ad", a, b, c), ((2, 3), (3, 4), (4, 5))),
    "einsum_hadamard": (lambda m, a, b: m.einsum("ij,ij->ij", a, b), ((3, 4), (3, 4))),
    "einsum_sublists": (lambda m, a, b: m.einsum(a, [0, 1], b, [1, 2], [0, 2]), ((3, 4), (4, 5))),
    "einsum_spaces": (lambda m, a, b: m.einsum(" b n h , b n h -> b n ", a, b), ((2, 3, 4), (2, 3, 4))),
    "einsum_ones": (lambda m, a, b: m.einsum("ij,jk->ik", a, b), ((3, 1), (4, 5))),
    "einsum_list": (lambda m, a, b: m.einsum("ij,jk->ik", [a, b]), ((3, 4), (4, 5))),
    "bilinear": (lambda m, a, b, w: m.nn.functional.bilinear(a, b, w), ((2, 3), (2, 4), (5, 3, 4))),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    fn, shapes = FORMS[name]
    inputs = [sample(*s, seed=i) for i, s in enumerate(shapes)]
    agree(fn, *inputs, rtol=1e-12)
    gradients_agree(fn, *inputs)
    z = [sample(*s, dtype="complex128", seed=i) for i, s in enumerate(shapes)]
    agree(fn, *z, rtol=1e-12)
    if name != "bilinear":   # PyTorch has no complex derivative of it
        gradients_agree(fn, *z, second=False)


@pytest.mark.parametrize(
    "name",
    [
        "mm",
        "bmm",
        "mv",
        "dot",
        "outer",
        "addmm",
        "addmm_scaled",
        "baddbmm",
        "addbmm",
        "addmv",
        "addr",
        "linear_bias",
        "einsum_matmul",
        "tensordot",
    ],
)
def test_forms_in_other_dtypes(name: str) -> None:
    fn, shapes = FORMS[name]
    for dtype, rtol in (("float32", 1e-5), ("bfloat16", 0.05), ("float16", 5e-3), ("int64", 0)):
        inputs = [sample(*s, dtype=dtype, seed=i) for i, s in enumerate(shapes)]
        if dtype == "int64" and ("scaled" in name or name in ("baddbmm", "addbmm", "addmv", "addr")):
            continue
        agree(fn, *inputs, rtol=rtol, what=f"{name} {dtype}")


def test_beta_zero_ignores_nan() -> None:
    nan = torch.full((3, 5), float("nan"), dtype=torch.float64)
    agree(lambda m, c, a, b: m.addmm(c, a, b, beta=0), nan, sample(3, 4), sample(4, 5), rtol=1e-12)
    agree(
        lambda m, c, a, b: m.baddbmm(c, a, b, beta=0), nan.expand(2, 3, 5), sample(2, 3, 4), sample(2, 4, 5), rtol=1e-12
    )
    agree(lambda m, c, a, b: m.addbmm(c, a, b, beta=0), nan, sample(2, 3, 4), sample(2, 4, 5), rtol=1e-12)
    agree(lambda m, c, a, b: m.addmv(c, a, b, beta=0), nan[0, :3], sample(3, 4), sample(4), rtol=1e-12)


def test_in_place_and_out_forms() -> None:
    c, a, b = sample(3, 5), sample(3, 4), sample(4, 5)
    agree(lambda m, c, a, b: c.addmm_(a, b, beta=2, alpha=3), c, a, b, rtol=1e-12)
    agree(lambda m, c, a, b: c.t().addmm_(b.t(), a.t()), c, a, b, rtol=1e-12)
    agree(lambda m, c, a, b: c.baddbmm_(a.expand(2, 3, 4), b.expand(2, 4, 5)), sample(2, 3, 5), a, b, rtol=1e-12)
    agree(lambda m, c, a, b: c.addbmm_(a.expand(2, 3, 4), b.expand(2, 4, 5)), c, a, b, rtol=1e-12)
    agree(lambda m, c, a, b: c.addmv_(a, b[:, 0]), c[:, 0], a, b, rtol=1e-12)
    agree(lambda m, c, a, b: c.addr_(a[:, 0], b[0]), c, a, b, rtol=1e-12)
    for out in ((3, 5), (0,), (2, 2)):
        agree(lambda m, o, a, b: m.mm(a, b, out=o), torch.zeros(out, dtype=torch.float64), a, b, rtol=1e-12)
        agree(lambda m, o, a, b: m.matmul(a, b, out=o), torch.zeros(out, dtype=torch.float64), a, b, rtol=1e-12)
        agree(lambda m, o, c, a, b: m.addmm(c, a, b, out=o), torch.zeros(out, dtype=torch.float64), c, a, b, rtol=1e-12)
    agree(lambda m, o, a, b: m.mm(a, b, out=o), torch.zeros(5, 3, dtype=torch.float64).t(), a, b, rtol=1e-12)
    agree(lambda m, o, a, b: m.mm(a, b, out=o), torch.zeros(3, 5, dtype=torch.float32), a, b)
    agree(lambda m, o, a, b: m.dot(a[0], b[:, 0], out=o), torch.zeros((), dtype=torch.float64), a, b, rtol=1e-12)


REFUSALS: list[Callable] = [
    lambda m, a, b: a @ a, lambda m, a, b: m.mm(a, a), lambda m, a, b: m.mm(a[0], b), lambda m, a, b: m.mm(a, b[:, 0]),
    lambda m, a, b: m.bmm(a, b), lambda m, a, b: m.bmm(a.expand(2, 3, 4), b.expand(3, 4, 5)),
    lambda m, a, b: m.mv(a, b), lambda m, a, b: m.mv(a, a[:, 0]), lambda m, a, b: m.dot(a, b),
    lambda m, a, b: m.dot(a[0], a[:, 0]), lambda m, a, b: m.matmul(a, m.tensor(1.0, dtype=m.float64)),
    lambda m, a, b: a @ b.to(m.float32), lambda m, a, b: m.mm(a, b.to(m.int64)),
    lambda m, a, b: a.expand(2, 3, 4) @ b.expand(3, 4, 5), lambda m, a, b: m.addmm(a, a, b),
    lambda m, a, b: m.addmm(a[0], a, b),
    lambda m, a, b: m.addmm(a, a, a), lambda m, a, b: m.addmm(a.to(m.float32), a, b),
    lambda m, a, b: m.addmv(a[0], a, b), lambda m, a, b: m.addr(a, a[0], b), lambda m, a, b: m.outer(a, b),
    lambda m, a, b: m.inner(a, b), lambda m, a, b: m.tensordot(a, b, 2), lambda m, a, b: m.tensordot(a, b, ([0], [0])),
    lambda m, a, b: m.tensordot(a, b, -1), lambda m, a, b: m.nn.functional.linear(a, b),
    lambda m, a, b: m.nn.functional.linear(a, a, b), lambda m, a, b: m.einsum("ij,jk->ik", a, a),
    lambda m, a, b: m.einsum("ij,jk->iz", a, b), lambda m, a, b: m.einsum("ij->ij", a, b),
    lambda m, a, b: m.einsum("ijk->i", a), lambda m, a, b: m.einsum("i1->i", a),
    lambda m, a, b: m.einsum("ij,jk->ii", a, b),
    lambda m, a, b: m.einsum("", ), lambda m, a, b: a @ 3, lambda m, a, b: m.mm(a), lambda m, a, b: m.mm(a, b, b),
    lambda m, a, b: m.mm(a.requires_grad_(), b, out=m.zeros(3, 5, dtype=m.float64)), lambda m, a, b: m.vdot(a, a),
    lambda m, a, b: m.chain_matmul(a, a),
    lambda m, a, b: m.linear(a, b) if hasattr(m, "linear") else m.nn.functional.linear(a, b),
    lambda m, a, b: m.mm(a > 0, b > 0),
    lambda m, a, b: m.einsum("...ij->ij", a.expand(2, 3, 4)), lambda m, a, b: a.addmm_(a, b),
    lambda m, a, b: m.zeros(5, dtype=m.float64).addmm_(a, b),
]


@pytest.mark.parametrize("k", range(len(REFUSALS)))
def test_refusals_have_pytorchs_class(k: int) -> None:
    agree(REFUSALS[k], sample(3, 4), sample(4, 5), rtol=1e-12)


def test_messages_name_the_shapes() -> None:
    with pytest.raises(RuntimeError, match=r"3x4 and 5x4.*transpose"):
        rl.zeros(3, 4) @ rl.zeros(5, 4)


def test_gradients_check_numerically() -> None:
    a, b, c = (ours(sample(*s)).requires_grad_() for s in ((3, 4), (4, 2), (2,)))
    assert rl.autograd.gradcheck(lambda a, b, c: rl.addmm(c, a, b, beta=0.7, alpha=1.3), (a, b, c))
    assert rl.autograd.gradgradcheck(lambda a, b: rl.matmul(a, b), (a, b))
    assert rl.autograd.gradgradcheck(lambda a, b, c: rl.nn.functional.linear(a, b.t(), c), (a, b, c))
    z, w = (ours(sample(*s, dtype="complex128")).requires_grad_() for s in ((2, 3), (3, 2)))
    assert rl.autograd.gradcheck(lambda z, w: rl.einsum("ij,jk->k", z, w), (z, w))


def test_large_products_agree_with_exact_ones() -> None:
    a, b = sample(130, 257, dtype="float32"), sample(257, 140, dtype="float32")
    exact = a.double() @ b.double()
    for x, y in itertools.product(layouts(a)[:2], layouts(b)[:2]):
        compare(exact, (ours(x) @ ours(y)).double(), rtol=1e-5)
    for dtype, rtol in (("bfloat16", 1e-2), ("float16", 2e-3)):
        x, y = a.to(getattr(torch, dtype)), b.to(getattr(torch, dtype))
        compare(x.double() @ y.double(), (ours(x) @ ours(y)).double(), rtol=rtol)
    n = torch.iinfo(torch.int64).max // 3
    agree(lambda m, a, b: a @ b, torch.full((2, 2), n), torch.full((2, 2), 5))   # integers wrap around


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("left", "right"),
    [((300, 1, 40), (300, 40, 1)), ((300, 3, 3), (300, 3, 1)), ((90, 16, 16), (90, 16, 1)), ((300, 1, 4), (300, 4, 4)),
     ((50, 1, 16), (50, 16, 16))],
)
def test_many_small_products_with_vectors(left, right, dtype):
    """They are sums from some thousand multiply-adds on, and not where rows of the right operand fill vectors."""
    a, b = torch.randn(left, dtype=getattr(torch, dtype)), torch.randn(right, dtype=getattr(torch, dtype))
    agree(lambda t, a, b: t.bmm(a, b), a, b)
    agree(lambda t, a, b: t.bmm(a, b), a, b.mT.contiguous().mT)
