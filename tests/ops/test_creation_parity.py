"""Factories, copies and casts against PyTorch: values, dtypes, layouts, options, refusals."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).parent))
from parity import agree, compare, gradients_agree, ours, outcome  # noqa: E402

import rushlight as rl  # noqa: E402

DTYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128",
)
FLOAT8 = ("float8_e4m3fn", "float8_e5m2")

FACTORIES: list[Callable] = [
    lambda m: m.zeros(2, 3), lambda m: m.zeros((2, 3)), lambda m: m.zeros([]), lambda m: m.zeros(()),
    lambda m: m.zeros(0, 3), lambda m: m.zeros(size=(2,)), lambda m: m.ones(2, dtype=m.int16),
    lambda m: m.ones(3, dtype=m.complex64), lambda m: m.ones(2, dtype=m.bool), lambda m: m.full((2, 2), 3),
    lambda m: m.full((2,), 3.5), lambda m: m.full((2,), True), lambda m: m.full((2,), 1 + 2j),
    lambda m: m.full((2,), 3, dtype=m.float64), lambda m: m.full((), -1), lambda m: m.full((2,), 2.7, dtype=m.int32),
    lambda m: m.full((2,), float("nan")), lambda m: m.full((70000,), 1.5),
    lambda m: m.zeros(3, dtype=m.float8_e4m3fn).to(m.float32), lambda m: m.full((2,), m.tensor(2)),
    lambda m: m.full((2,), 1e30, dtype=m.float16), lambda m: m.arange(5), lambda m: m.arange(5.0),
    lambda m: m.arange(1, 5), lambda m: m.arange(1, 5, 2), lambda m: m.arange(5, 1, -1), lambda m: m.arange(5, 1, -2),
    lambda m: m.arange(0, 1, 0.1), lambda m: m.arange(1, 0, -0.25), lambda m: m.arange(0.5, 4),
    lambda m: m.arange(5, dtype=m.float64), lambda m: m.arange(5, dtype=m.int8),
    lambda m: m.arange(0, 10, 3, dtype=m.float32), lambda m: m.arange(3, 3), lambda m: m.arange(2**53, 2**53 + 4),
    lambda m: m.arange(-(2**62), -(2**62) + 3), lambda m: m.arange(0, 2, 0.3, dtype=m.float64),
    lambda m: m.arange(0, 2.5, dtype=m.int64), lambda m: m.arange(start=1, end=4), lambda m: m.arange(end=3),
    lambda m: m.arange(1, 4, step=2), lambda m: m.arange(0, 1000, 0.7), lambda m: m.arange(5, dtype=m.bfloat16),
    lambda m: m.arange(0, 3, 0.5, dtype=m.float16), lambda m: m.arange(m.tensor(4)), lambda m: m.arange(100000)[-3:],
    lambda m: m.arange(0.1, 0.7, 0.2), lambda m: m.range(0, 4), lambda m: m.range(1, 2, 0.5),
    lambda m: m.linspace(0, 1, 5), lambda m: m.linspace(3, -3, 7), lambda m: m.linspace(0, 10, 1),
    lambda m: m.linspace(0, 10, 0), lambda m: m.linspace(0, 10, 4, dtype=m.int32),
    lambda m: m.linspace(-5, 5, 11, dtype=m.float64), lambda m: m.linspace(0, 1j, 3),
    lambda m: m.linspace(1, 2, 100), lambda m: m.linspace(0, 1, 5, dtype=m.float16),
    lambda m: m.linspace(start=1, end=2, steps=3), lambda m: m.linspace(2, 2, 4),
    lambda m: m.linspace(0, 7, 3, dtype=m.int64), lambda m: m.linspace(10, 1, 4, dtype=m.uint8),
    lambda m: m.linspace(0, 1, 5, dtype=m.bfloat16), lambda m: m.logspace(0, 2, 5),
    lambda m: m.logspace(0, 3, 4, base=2), lambda m: m.logspace(0, 2, 3, dtype=m.int32), lambda m: m.logspace(1, 1, 1),
    lambda m: m.logspace(-2, 2, 5, dtype=m.float64), lambda m: m.eye(3), lambda m: m.eye(2, 4),
    lambda m: m.eye(4, 2, dtype=m.int64), lambda m: m.eye(0), lambda m: m.eye(3, m=2), lambda m: m.scalar_tensor(2),
    lambda m: m.scalar_tensor(2, dtype=m.int8), lambda m: m.tril_indices(3, 4), lambda m: m.triu_indices(3, 3, 1),
    lambda m: m.zeros(2, device="meta").shape == (2,), lambda m: m.zeros(3, requires_grad=True).requires_grad,
    lambda m: m.empty(2, 3).shape == (2, 3), lambda m: m.complex(m.ones(2), m.zeros(2)),
    lambda m: m.polar(m.ones(2), m.zeros(2)), lambda m: m.zeros(2).new_tensor([1, 2]),
    lambda m: m.zeros(2, layout=m.strided), lambda m: m.asarray([1, 2]), lambda m: m.as_tensor([1.0, 2]),
    lambda m: m.tensor([[1, 2], [3, 4]], dtype=m.float16),
]


@pytest.mark.parametrize("k", range(len(FACTORIES)))
def test_factories(k: int) -> None:
    agree(lambda m: FACTORIES[k](m), what=str(k))


REFUSALS: list[Callable] = [
    lambda m: m.zeros(-1), lambda m: m.zeros(2.5), lambda m: m.zeros("a"), lambda m: m.zeros(),
    lambda m: m.zeros(2, dtype="float"), lambda m: m.zeros(2, 3, foo=1),
    lambda m: m.ones((2, -3)), lambda m: m.full((2,)), lambda m: m.full((2,), "a"), lambda m: m.full((2,), None),
    lambda m: m.arange(), lambda m: m.arange(1, 2, 0), lambda m: m.arange(5, 1), lambda m: m.arange(1, 5, -1),
    lambda m: m.arange(float("nan")), lambda m: m.arange(float("inf")), lambda m: m.linspace(0, 1),
    lambda m: m.linspace(0, 1, -1), lambda m: m.linspace(0, 1, 2.5), lambda m: m.logspace(0, 1, -1),
    lambda m: m.eye(-1), lambda m: m.eye(2, -1), lambda m: m.eye(2.5), lambda m: m.zeros(2, device="nowhere"),
    lambda m: m.zeros(3, dtype=m.int64, requires_grad=True), lambda m: m.full((2,), 1 + 2j, dtype=m.float32),
    lambda m: m.zeros(2, out=3), lambda m: m.empty_strided((2, 3), (1,)),
    lambda m: m.empty_strided((2,), (-1,)), lambda m: m.empty(2, 3, memory_format=m.channels_last),
    lambda m: m.zeros_like(3), lambda m: m.zeros_like([1, 2]), lambda m: m.ones(2).new_full((2,)),
    lambda m: m.arange(0, 5, dtype=m.complex64), lambda m: m.range(1, 0), lambda m: m.range(0, 1, 0),
    lambda m: m.empty_like(m.ones(2, 3), memory_format=m.channels_last),
    lambda m: m.ones(2, 3).contiguous(memory_format=m.preserve_format), lambda m: m.ones(2).to("nowhere"),
    lambda m: m.ones(2).to(), lambda m: m.ones(2).copy_(m.ones(3)), lambda m: m.ones(2).fill_(m.ones(2)),
    lambda m: m.ones(2).fill_("a"), lambda m: m.ones(2).fill_(1j), lambda m: m.ones(2, dtype=m.uint8).fill_(-1),
    lambda m: m.ones(2, device="meta").item(), lambda m: m.ones(2).copy_(m.ones(2, device="meta")),
    lambda m: m.ones(2, device="meta").tolist(), lambda m: m.ones(2, device="meta").to("cpu"),
    lambda m: m.zeros([2, 3], [4]), lambda m: m.zeros(None), lambda m: m.zeros((2, None)), lambda m: m.zeros((2, "a")),
    lambda m: m.full((2,), 300, dtype=m.uint8), lambda m: m.full((2,), 1e60, dtype=m.float32),
    lambda m: m.arange(2**63), lambda m: m.scalar_tensor("a"), lambda m: m.tensor(2**64),
    lambda m: m.ones(2).type("nope"), lambda m: m.full((2,), -1, dtype=m.uint8),
    lambda m: m.arange(300, dtype=m.uint8)[-1], lambda m: m.ones(3).new_zeros(),
    lambda m: m.complex(m.ones(2), m.ones(3)), lambda m: m.complex(m.ones(2), m.ones(2).double()),
]


@pytest.mark.parametrize("k", range(len(REFUSALS)))
def test_refusals_have_pytorchs_class(k: int) -> None:
    agree(lambda m: REFUSALS[k](m), what=str(k))


def layout(t: Any) -> tuple:
    return tuple(t.shape), tuple(t.stride()), str(t.dtype).rpartition(".")[2], t.requires_grad, t.is_contiguous()


def test_like_forms_keep_layouts() -> None:
    base = torch.arange(120.0).reshape(2, 3, 4, 5)
    sources = [
        base, base.permute(0, 2, 3, 1), base.contiguous(memory_format=torch.channels_last), base.transpose(0, 3),
        base[:, ::2], base[:1].expand(3, 3, 4, 5), base[..., 0], torch.zeros(0, 3), torch.tensor(1.0),
        base.to(torch.int32), base[:, :, 1:3, 1:3].transpose(1, 2),
        base.reshape(2, 3, 2, 2, 5).contiguous(memory_format=torch.channels_last_3d),
    ]
    makers: list[Callable] = [
        lambda m, x: m.zeros_like(x), lambda m, x: m.ones_like(x, dtype=m.float64), lambda m, x: m.empty_like(x),
        lambda m, x: m.full_like(x, 3), lambda m, x: x.clone(),
        lambda m, x: m.zeros_like(x, memory_format=m.contiguous_format),
        lambda m, x: x.clone(memory_format=m.contiguous_format),
        lambda m, x: x.to(m.float64), lambda m, x: x.double(), lambda m, x: x.contiguous(),
        lambda m, x: x.new_zeros(2, 3), lambda m, x: x.new_ones((2,), dtype=m.bool), lambda m, x: x.new_full((2,), 7),
        lambda m, x: x.new_empty(3), lambda m, x: m.empty_like(x, memory_format=m.channels_last),
        lambda m, x: x.contiguous(memory_format=m.channels_last), lambda m, x: x.to(memory_format=m.channels_last),
        lambda m, x: x.clone(memory_format=m.channels_last), lambda m, x: x + 1, lambda m, x: x.neg(),
        lambda m, x: x.new_empty_strided((2, 2), (1, 2)), lambda m, x: x.to(m.float64, copy=True),
        lambda m, x: x.contiguous(memory_format=m.channels_last_3d), lambda m, x: m.empty_like(x, device="meta"),
        lambda m, x: m.zeros_like(x, requires_grad=True) if x.is_floating_point() else x,
    ]
    for (i, x), (j, maker) in itertools.product(enumerate(sources), enumerate(makers)):
        want, raised, text = outcome(maker, torch, (x,))
        got, refused, said = outcome(maker, rl, (ours(x),))
        assert (raised and raised.__name__) == (refused and refused.__name__), (i, j, text, said)
        if raised is None:
            assert layout(got) == layout(want), (i, j)


def test_memory_formats_are_told_apart() -> None:
    for shape in ((2, 3, 4, 5), (1, 3, 1, 1), (2, 1, 4, 4), (1, 1, 1, 1), (0, 3, 2, 2)):
        for make in (
            lambda m, s: m.zeros(s),
            lambda m, s: m.zeros(s).to(memory_format=m.channels_last),
            lambda m, s: m.empty(s, memory_format=m.channels_last),
            lambda m, s: m.zeros(s).transpose(1, 2),
        ):
            answers = []
            for m in (torch, rl):
                x = make(m, shape)
                answers.append(
                    [
                        x.is_contiguous(),
                        x.is_contiguous(memory_format=m.channels_last),
                        tuple(x.stride()),
                        tuple((x + x).stride()),
                        tuple(x.clone().stride()) if min(shape) > 1 else None,
                    ]
                )
            assert answers[0] == answers[1], shape


def numbers(dtype: str) -> Any:
    """Values that a type can hold, edges included."""
    kind = getattr(torch, dtype)
    if dtype == "bool":
        return torch.tensor([True, False, True])
    if kind.is_complex:
        return torch.tensor([0, 1.5 - 2j, -3 + 0.25j, complex(1e3, -1e-3), 0.1j], dtype=kind)
    if kind.is_floating_point:
        values = [0.0, -0.0, 1.0, -1.5, 0.1, 3.14159, 100.7, -7.9, 0.0078125, 448.0, 1e-3]
        return torch.tensor(values, dtype=torch.float64).to(kind)
    info = torch.iinfo(kind)
    return torch.tensor([0, 1, 2, 77, info.max, info.max - 1] + ([-1, -100, info.min] if info.min else []), dtype=kind)


@pytest.mark.parametrize("source", DTYPES + FLOAT8)
def test_casts_among_all_dtypes(source: str) -> None:
    wrong = []
    for target in DTYPES + FLOAT8:
        x = numbers(source)
        from_float = getattr(torch, source).is_floating_point or getattr(torch, source).is_complex
        to_integer = target not in FLOAT8 and not (
            getattr(torch, target).is_floating_point or getattr(torch, target).is_complex or target == "bool"
        )
        if from_float and to_integer:   # outside the range of the target any value is as good as another
            top = torch.iinfo(getattr(torch, target)).max
            keep = x.to(torch.complex128).real
            x = x[(keep > (-1 if target.startswith("u") else -120)) & (keep <= min(top, 2**30))]
        for fn in (
            lambda m, x, t=target: x.to(getattr(m, t)),
            lambda m, x, t=target: m.zeros(x.shape, dtype=getattr(m, t)).copy_(x),
        ):
            try:
                want, raised, _ = outcome(fn, torch, (x,))
                if raised is None:
                    got = fn(rl, mine(x))
                    wide = (
                        torch.complex128
                        if want.dtype.is_complex
                        else torch.float64 if want.dtype.is_floating_point else None
                    )
                    if wide is not None:
                        want, got = want.to(wide), got.to(getattr(rl, str(wide).rpartition(".")[2]))
                    compare(want, got, rtol=0.0)
            except AssertionError as error:
                wrong.append(f"{source} -> {target}: {str(error)[:200]}")
    assert not wrong, "\n".join(wrong)


def mine(x: Any) -> Any:
    """A Rushlight copy, float8 through its bytes."""
    if "float8" in str(x.dtype):
        return ours(x.view(torch.uint8)).view(getattr(rl, str(x.dtype).rpartition(".")[2]))
    return ours(x)


def test_every_float8_pattern() -> None:
    for name in FLOAT8:
        bits = torch.arange(256, dtype=torch.int64).to(torch.uint8)
        want = bits.view(getattr(torch, name)).to(torch.float32)
        got = ours(bits).view(getattr(rl, name)).to(rl.float32)
        compare(want, got, rtol=0.0, what=name)
        values = torch.cat(
            [
                torch.linspace(-500, 500, 4001),
                torch.linspace(-0.1, 0.1, 2001),
                want,
                torch.tensor(
                    [float("inf"), float("-inf"), float("nan"), 1e30, -1e30, 464.0, 480.0, 57344.0, 61440.0, 65536.0]
                ),
            ]
        )
        for kind in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
            x = values.to(kind)
            compare(
                x.to(getattr(torch, name)).to(torch.float32),
                ours(x).to(getattr(rl, name)).to(rl.float32),
                rtol=0.0,
                what=f"{name} {kind}",
            )


def test_half_types_round_to_nearest_even() -> None:
    x = torch.cat(
        [
            torch.linspace(-70000, 70000, 5001, dtype=torch.float64),
            1 + torch.arange(4096, dtype=torch.float64) / 2**13,
            torch.logspace(-30, 30, 400, dtype=torch.float64),
        ]
    )
    for name in ("float16", "bfloat16"):
        for kind in (torch.float64, torch.float32):
            agree(lambda m, x, name=name: x.to(getattr(m, name)).to(m.float64), x.to(kind), rtol=0.0)


def test_to_returns_self_where_nothing_changes() -> None:
    x = rl.ones(2, 3)
    assert (
        x.to(rl.float32) is x
        and x.to("cpu") is x
        and x.to(x) is x
        and x.float() is x
        and x.contiguous() is x
        and x.cpu() is x
        and x.type_as(x) is x
    )
    assert x.to(rl.float32, copy=True) is not x and x.clone() is not x and x.t().contiguous() is not x
    assert (
        x.to(dtype=rl.float64).dtype is rl.float64
        and x.to("cpu", rl.int8).dtype is rl.int8
        and x.to(rl.zeros(1, dtype=rl.int16)).dtype is rl.int16
    )
    assert x.to("meta").device.type == "meta" and x.to(device="meta", dtype=rl.float64).dtype is rl.float64


COPIES: list[Callable] = [
    lambda m, x, y: x.copy_(y), lambda m, x, y: x.t().copy_(y.t()), lambda m, x, y: x.copy_(y[0]),
    lambda m, x, y: x.copy_(y[:, :1]), lambda m, x, y: x[:, ::2].copy_(y[:, ::2]),
    lambda m, x, y: x.copy_(x.t().contiguous().t()), lambda m, x, y: x.fill_(2.5), lambda m, x, y: x.fill_(y[0, 0]),
    lambda m, x, y: x.zero_(), lambda m, x, y: x[1:].fill_(7), lambda m, x, y: m.fill(x, 3),
    lambda m, x, y: x.copy_(y.to(m.int32)), lambda m, x, y: x.t()[1:3].copy_(y.t()[:2]),
]


@pytest.mark.parametrize("k", range(len(COPIES)))
def test_copies_and_fills(k: int) -> None:
    x, y = torch.arange(12.0, dtype=torch.float64).reshape(3, 4), torch.arange(12.0, 24.0, dtype=torch.float64).reshape(
        3, 4
    )

    def whole(m: Any, x: Any, y: Any) -> list:
        x = x * 1
        return [COPIES[k](m, x, y), x]

    agree(whole, x, y)
    gradients_agree(lambda m, x, y: [r * 1 for r in whole(m, x, y)], x, y, second=False)


def test_casts_carry_gradients() -> None:
    x = torch.linspace(-2, 2, 6, dtype=torch.float64)
    gradients_agree(lambda m, x: x.to(m.float32).to(m.float64) * x, x, second=False, rtol=1e-6)
    gradients_agree(lambda m, x: x.to(m.complex128) * x, x)
    gradients_agree(lambda m, x: x.reshape(2, 3).t().contiguous() * 2, x)
    gradients_agree(lambda m, x: x.clone() * x.double(), x)


def test_meta_factories_have_geometry_and_no_data() -> None:
    for make in (lambda d: rl.zeros(2, 3, device=d), lambda d: rl.arange(5, device=d), lambda d: rl.eye(3, device=d),
                 lambda d: rl.linspace(0, 1, 4, device=d), lambda d: rl.full((2,), 7, device=d),
                 lambda d: rl.empty(2, 3, 4, 5, memory_format=rl.channels_last, device=d),
                 lambda d: rl.logspace(0, 1, 3, device=d), lambda d: rl.zeros(2, 3, device=d).to(rl.int8),
                 lambda d: rl.ones(3, 4, device=d).t().clone()):
        there, here = make("meta"), make("cpu")
        assert (there.shape, there.stride(), there.dtype, there.device.type) == (
            here.shape,
            here.stride(),
            here.dtype,
            "meta",
        )
    assert rl.zeros(10**6, 10**6, device="meta").numel() == 10**12
