"""Attention under masks that hide whole blocks of keys, which are skipped: as if all scores were computed."""

from __future__ import annotations

import math
from typing import Any

import pytest

import rushlight as rl
import rushlight.nn.functional as F


def of_a_window(rows: Any, columns: Any) -> Any:
    return (columns <= rows) & (rows - columns < 40)


def of_padding(rows: Any, columns: Any) -> Any:
    return (columns < 70) & (rows >= 0)


def of_two_documents(rows: Any, columns: Any) -> Any:
    return (rows < 150) == (columns < 150)


def of_late_keys(rows: Any, columns: Any) -> Any:
    return (columns > 310) & (rows % 150 != 149)      # and some rows see nothing


@pytest.mark.parametrize("is_bool", (True, False))
@pytest.mark.parametrize("visible", (of_a_window, of_padding, of_two_documents, of_late_keys))
def test_blocks_that_a_mask_hides(visible: Any, is_bool: bool) -> None:
    rl.manual_seed(0)
    n = 330
    query, key, value = (rl.randn(2, 2, n, 24) for _ in range(3))
    places = rl.arange(n)
    seen = visible(places[:, None], places[None])
    mask = seen if is_bool else rl.zeros(n, n).masked_fill(~seen, -math.inf)
    found = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    scores = (query.double() @ key.double().mT / math.sqrt(24)).masked_fill(~seen, -math.inf)
    expected = scores.softmax(-1).nan_to_num(0.0) @ value.double()
    rl.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
    one_head = mask[None, None].expand(2, 2, n, n).contiguous()
    one_head[1, 1] = True if is_bool else 0.0
    both = F.scaled_dot_product_attention(query, key, value, attn_mask=one_head)
    rl.testing.assert_close(both[0], found[0], rtol=0, atol=0)
    rl.testing.assert_close(both[1, 1], F.scaled_dot_product_attention(query, key, value)[1, 1])
