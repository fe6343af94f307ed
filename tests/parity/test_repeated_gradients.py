"""Derivative rules that the core repeats (csrc/transcript.h) give what Python's give, bit for bit, over PyTorch's op
records: the calls are written down with other elements than those they are repeated for."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's op records need it")

import torch  # noqa: E402

import rushlight as rl  # noqa: E402
from tests.parity.checks import _differentiable, _pair, samples  # noqa: E402
from tests.parity.compare import leaves  # noqa: E402
from tests.parity.convert import thing  # noqa: E402
from tests.parity.records import RECORDS  # noqa: E402

NAMES = [name for name, record in RECORDS.items() if record.supports_autograd and torch.float64 in record.dtypes]


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = rl._C.keep_transcripts(True)
    yield
    rl._C.keep_transcripts(before)


def turned(value: Any) -> Any:
    """The same elements in another order, where there are several."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or not value.is_floating_point():
        return value
    with torch.no_grad():
        other = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype) if value.numel() else value
        if value.numel():
            other.copy_(value.flip(tuple(range(value.ndim))))
    return other.requires_grad_(value.requires_grad)


def gradients(function: Any, sample: Any, is_turned: bool) -> list[Any] | None:
    """Ours, of a sample; None where there are none. PyTorch's part is to hold the arguments."""
    given = sample.transform(turned) if is_turned else sample
    memo: dict[int, Any] = {}
    arguments = thing((given.input, list(given.args), dict(given.kwargs)), memo)
    inputs = [memo[id(t)] for t in leaves((given.input, given.args, given.kwargs))
              if isinstance(t, torch.Tensor) and t.requires_grad and id(t) in memo]
    rl.manual_seed(11)
    outs = _differentiable(function(arguments[0], *arguments[1], **arguments[2]), rl.Tensor)
    if not outs or not inputs:
        return None
    heads = []
    for k, out in enumerate(outs):
        ramp = rl.linspace(0.5 + k, 1.5 + is_turned, max(out.numel(), 1), dtype=rl.float64)[: out.numel()]
        heads.append(ramp.reshape(out.shape).to(out.dtype))
    rl.manual_seed(12)
    return list(rl.autograd.grad(outs, inputs, heads, allow_unused=True))


def bits(x: Any) -> Any:
    if not isinstance(x, rl.Tensor) or x.layout is not rl.strided:
        return x if x is None else str(x)
    parts = rl.view_as_real(x.detach().resolve_conj()) if x.is_complex() else x.detach()
    return tuple(x.shape), x.stride(), str(x.dtype), [number.hex() for number in parts.reshape(-1).tolist()]


@pytest.mark.share(3)
@pytest.mark.parametrize("name", NAMES)
def test_repeated_rules_give_the_same_bits(name: str) -> None:
    record = RECORDS[name]
    function = _pair(record).ours
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in samples(record, torch.float64, "gradient", requires_grad=True):
            rl._C.keep_transcripts(False)
            try:
                wanted = gradients(function, sample, False)
            except Exception:   # noqa: BLE001  what is refused is other tests' business
                continue
            finally:
                rl._C.keep_transcripts(True)
            for _ in range(3):
                try:
                    gradients(function, sample, True)
                except Exception:   # noqa: BLE001  these elements do not suit the op: take the others
                    gradients(function, sample, False)
            got = gradients(function, sample, False)
            assert (wanted is None) == (got is None)
            for index, (want, found) in enumerate(zip(wanted or [], got or [], strict=True)):
                assert bits(want) == bits(found), f"gradient {index}"
