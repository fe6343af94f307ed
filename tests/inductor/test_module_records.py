"""Every module of PyTorch's records, compiled: forward, backward and buffers equal eager mode's."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's module records need it")

from tests.inductor.compiled_modules import checked  # noqa: E402
from tests.nn.module_records import RECORDS  # noqa: E402

# What capture by tracing refuses, and why.
REFUSED = {
    **dict.fromkeys([name for name in RECORDS if "Lazy" in name], "has no parameters before its first call"),
    "nn.BatchNorm1d": "momentum=None counts batches in Python",
    "nn.BatchNorm2d": "momentum=None counts batches in Python",
    "nn.BatchNorm3d": "momentum=None counts batches in Python",
    "nn.CTCLoss": "labels in one row are as wide as their elements say",
}
SHOWN = [
    "nn.BatchNorm2d",
    "nn.Conv2d",
    "nn.CrossEntropyLoss",
    "nn.GRU",
    "nn.LSTM",
    "nn.MultiheadAttention",
    "nn.TransformerEncoderLayer",
]


def check(name: str, dynamic: bool = False) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agreed, refused = checked(RECORDS[name], dynamic)
    assert not refused or name in REFUSED, refused[0]
    assert agreed or name in REFUSED
    return agreed


@pytest.mark.parametrize("name", [name for name in RECORDS if any(name.startswith(shown) for shown in SHOWN)])
def test_a_module(name: str) -> None:
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
def test_all_modules(dynamic: bool, share: Callable[[Iterable[str], int], list[str]]) -> None:
    names = share(RECORDS, 3)
    assert sum([check(name, dynamic) for name in names]) >= 4 * sum(name not in REFUSED for name in names)
