"""Recurrent layers and packed sequences against PyTorch's, with the same weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

SETTINGS = [
    {},
    {"bidirectional": True},
    {"num_layers": 2, "dropout": 0.5},
    {"num_layers": 2, "bidirectional": True, "bias": False},
    {"batch_first": True},
]
CASES = [(kind, kwargs) for kind in ("RNN", "LSTM", "GRU") for kwargs in SETTINGS] + [
    ("RNN", {"nonlinearity": "relu"}), ("LSTM", {"proj_size": 2, "num_layers": 2, "bidirectional": True}),
]


def both(program: Any) -> None:
    """The same program gives the same numbers."""
    result = []
    for t in (torch, rl):
        t.manual_seed(5)
        result.append([np.asarray(x.detach().numpy()) if hasattr(x, "detach") else x for x in program(t)])
    assert len(result[0]) == len(result[1])
    for a, b in zip(*result):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=2e-6)


def flat(x: Any) -> list[Any]:
    return [t for item in x for t in flat(item)] if isinstance(x, (tuple, list)) else [x]


@pytest.mark.parametrize("kind, kwargs", CASES, ids=str)
def test_packed_and_padded(kind: str, kwargs: dict[str, Any]) -> None:
    def program(t):
        layer = getattr(t.nn, kind)(3, 4, **kwargs)
        x = t.randn(3, 5, 3) if kwargs.get("batch_first") else t.randn(5, 3, 3)
        x.requires_grad_()
        out, last = layer(x)
        packed = t.nn.utils.rnn.pack_padded_sequence(x, [2, 5, 3], batch_first=layer.batch_first, enforce_sorted=False)
        packed_out, packed_last = layer(packed, last)
        padded, lengths = t.nn.utils.rnn.pad_packed_sequence(packed_out, batch_first=layer.batch_first)
        (out.square().sum() + padded.square().sum() + sum(s.sum() for s in flat(packed_last))).backward()
        alone = layer(x[0])[0]
        return [
            out,
            *flat(last),
            padded,
            lengths,
            *flat(packed_last),
            alone,
            x.grad,
            *(p.grad for p in layer.parameters()),
        ]

    both(program)


def test_sequences_pack_and_pad() -> None:
    def program(t):
        u = t.nn.utils.rnn
        parts = [t.arange(6.0).reshape(3, 2), t.arange(10.0).reshape(5, 2), t.ones(1, 2)]
        packed = u.pack_sequence(parts, enforce_sorted=False)
        return [packed.data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices,
                *u.unpack_sequence(packed), u.pad_sequence(parts),
                u.pad_sequence(parts, batch_first=True, padding_value=7, padding_side="left"),
                *u.pad_packed_sequence(packed, total_length=8, padding_value=-1),
                *u.unpad_sequence(u.pad_sequence(parts), t.tensor([3, 5, 1]))]

    both(program)


@pytest.mark.parametrize("t", [torch, rl], ids=["torch", "rushlight"])
def test_misfits_are_refused(t: Any) -> None:
    layer = t.nn.LSTM(3, 4)
    for error, call in (
        (RuntimeError, lambda: layer(t.ones(2, 2, 5))), (ValueError, lambda: layer(t.ones(3))),
        (ValueError, lambda: t.nn.GRU(3, 4, proj_size=2)),
        (RuntimeError, lambda: layer(t.ones(2, 2, 3), (t.ones(1, 1, 4), t.ones(1, 2, 4)))),
        (ValueError, lambda: t.nn.RNN(3, 0)),
        (RuntimeError, lambda: t.nn.utils.rnn.pack_padded_sequence(t.ones(3, 2, 1), [1, 3])),
        (ValueError, lambda: t.nn.RNN(3, 3, nonlinearity="gelu")),
        (RuntimeError, lambda: t.nn.GRU(3, 4)(t.ones(2, 3), t.ones(1, 1, 4))),
        (ValueError, lambda: t.nn.LSTM(3, 4, dropout=2)),
    ):
        with pytest.raises(error):
            call()
