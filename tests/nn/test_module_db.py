"""Every record of PyTorch's `module_db`, against PyTorch."""

from __future__ import annotations

import pytest

from tests.nn.module_records import RECORDS, check


NOT_YET = {"nn.RNNCell", "nn.GRUCell", "nn.LSTMCell", "nn.RNN", "nn.GRU", "nn.LSTM"}  # recurrent layers


@pytest.mark.parametrize("name", [name for name in RECORDS if name not in NOT_YET])
def test_record(name: str) -> None:
    assert check(RECORDS[name]) == []
