"""Attention over pages: the kernel against flex_attention under a block mask that says whose each position is."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as rl
from rushlight.definitions.attention.paged import gathered
from rushlight.nn.attention.flex_attention import create_block_mask, flex_attention
from rushlight.op import find_op

attend, rotated = find_op("_paged_attention"), find_op("_rotated")
TYPES = {"float32": 2e-6, "float64": 1e-14, "bfloat16": 2e-2, "float16": 3e-3}


def case(dtype: Any, heads: int = 4, own: int = 2, width: int = 24, block: int = 4, pages: int = 8) -> tuple[Any, ...]:
    """Five tokens of three sequences, whose pages lie in any order among others."""
    rl.manual_seed(0)
    query = rl.randn(5, heads, width).to(dtype)
    keys, values = (rl.randn(3 * pages + 5, block, own, width).to(dtype) for _ in "kv")
    tables = (rl.randperm(3 * pages) + 5).reshape(3, pages)
    rows = rl.tensor([0, 1, 2, 2, 1])
    positions = rl.tensor([0, pages * block // 2, pages * block - 1, -1, min(3, pages * block - 1)])
    return query, keys, values, tables, rows, positions


def by_blocks(query: Any, keys: Any, values: Any, tables: Any, rows: Any, positions: Any, window: int,
              cap: float = 0.0) -> Any:
    """All pages as one long row of keys; a mask says which of them a token sees, and where in its sequence they are."""
    pages, block, own, width = keys.shape
    places = rl.full((tables.shape[0], pages), -1)      # of each page in each sequence
    for row, table in enumerate(tables.tolist()):
        for n, page in enumerate(table):
            places[row, page] = n

    def seen(batch: Any, head: Any, q: Any, k: Any) -> Any:
        at = places[rows[q], k // block]
        place = at * block + k % block
        inside = (at >= 0) & (place <= positions[q])
        return inside & (place > positions[q] - window) if window else inside

    mask = create_block_mask(seen, None, None, query.shape[0], pages * block, device="cpu")
    long = [t.reshape(pages * block, own, width).transpose(0, 1).unsqueeze(0) for t in (keys, values)]
    bent = (lambda score, *at: cap * (score / cap).tanh()) if cap else None
    out = flex_attention(query.transpose(0, 1).unsqueeze(0), *long, bent, block_mask=mask, enable_gqa=True)
    return out[0].transpose(0, 1)


@pytest.mark.parametrize("window", [0, 5])
@pytest.mark.parametrize("dtype", TYPES)
def test_pages_are_read_as_flex_attention_reads_masked_keys(dtype: str, window: int) -> None:
    given = case(getattr(rl, dtype))
    found, wanted = attend(*given, window=window), by_blocks(*given, window)
    assert found.dtype is given[0].dtype
    assert (found - wanted).abs().max().item() <= TYPES[dtype] * 10
    assert found[3].abs().max().item() == 0, "a token of nothing"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scores_are_bent_below_a_cap(dtype: str) -> None:
    given = case(getattr(rl, dtype))
    found, wanted = attend(*given, window=9, cap=0.7), by_blocks(*given, 9, 0.7)
    assert (found - wanted).abs().max().item() <= TYPES[dtype] * 10
    assert (found - attend(*given, window=9)).abs().max().item() > 0.01
    own = gathered(*given, 9, given[0].shape[2] ** -0.5, 0.7)
    assert (found - own).abs().max().item() < 2e-5
    with pytest.raises(RuntimeError, match="cap must be"):
        attend(*given, cap=-1.0)


@pytest.mark.parametrize("sizes", [
    {"block": 1, "pages": 9}, {"block": 16, "width": 64}, {"block": 7, "width": 5, "own": 4}, {"own": 1, "heads": 6},
    {"block": 256, "pages": 2, "width": 8}, {"block": 300, "pages": 1}, {"width": 600}, {"pages": 1, "block": 1},
])
def test_kernel_agrees_with_gathered_keys(sizes: dict[str, int]) -> None:
    given = case(rl.float32, **sizes)
    assert (attend(*given) - gathered(*given, 0, given[0].shape[2] ** -0.5)).abs().max().item() < 2e-5


def test_strided_queries_and_pages_are_read_in_place() -> None:
    query, keys, values, *rest = case(rl.float32)
    parts = rl.randn(5, 9, 24)
    parts[:, 2:6] = query
    both = rl.stack([keys, values], 1)
    assert rl.equal(attend(parts[:, 2:6], both[:, 0], both[:, 1], *rest), attend(query, keys, values, *rest))
    swapped = keys.transpose(1, 2).contiguous().transpose(1, 2)
    assert rl.equal(attend(query, swapped, values, *rest), attend(query, keys, values, *rest))


def test_a_token_does_not_hang_on_those_beside_it() -> None:
    query, keys, values, tables, rows, positions = case(rl.float32)
    together = attend(query, keys, values, tables, rows, positions)
    for n in range(5):
        one = slice(n, n + 1)
        assert rl.equal(attend(query[one], keys, values, tables, rows[one], positions[one]), together[one])


def test_what_does_not_exist_is_refused() -> None:
    query, keys, values, tables, rows, positions = case(rl.float32)
    with pytest.raises(IndexError, match="row must be in"):
        attend(query, keys, values, tables, rows + 1, positions)
    with pytest.raises(IndexError, match="position below 32"):
        attend(query, keys, values, tables, rows, positions + 1)
    with pytest.raises(IndexError, match="names a page"):
        attend(query, keys, values, tables + 3, rows, positions)
    with pytest.raises(RuntimeError, match="do not fit together"):
        attend(query[:, :3], keys, values, tables, rows, positions)
    with pytest.raises(RuntimeError, match="int64"):
        attend(query, keys, values, tables.int(), rows, positions)
    with pytest.raises(RuntimeError, match="one floating dtype"):
        attend(query.double(), keys, values, tables, rows, positions)
    with pytest.raises(RuntimeError, match="one shape"):
        attend(query, keys, values[1:], tables, rows, positions)
    with pytest.raises(RuntimeError, match="window"):
        attend(query, keys, values, tables, rows, positions, window=-1)


def test_no_tokens_and_no_data() -> None:
    query, keys, values, tables, rows, positions = case(rl.float32)
    assert attend(query[:0], keys, values, tables, rows[:0], positions[:0]).shape == (0, 4, 24)
    assert attend(*[t.to("meta") for t in (query, keys, values, tables, rows, positions)]).shape == query.shape


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("turned", [24, 16, 2])
def test_pairs_are_turned_by_their_positions(dtype: str, turned: int) -> None:
    rl.manual_seed(1)
    x = rl.randn(5, 3, 24).to(getattr(rl, dtype))
    angles = rl.arange(10.0).unsqueeze(1) * rl.rand(turned // 2)
    angles = rl.cat([angles, angles], 1)
    cosines, sines = angles.cos(), angles.sin()
    positions = rl.tensor([0, 9, 3, 3, -1])
    wide, half = x.float(), turned // 2
    swapped = rl.cat([-wide[..., half:turned], wide[..., :half]], -1)
    part = wide[..., :turned] * cosines[positions].unsqueeze(1) + swapped * sines[positions].unsqueeze(1)
    wanted = rl.cat([part, wide[..., turned:]], -1).to(x.dtype)
    assert (rotated(x, cosines, sines, positions) - wanted).abs().max().item() < (1e-6 if dtype == "float32" else 4e-2)
    with pytest.raises(IndexError, match="beyond the 10"):
        rotated(x, cosines, sines, positions + 1)
