"""Gradients through vmap within vmap: rules that keep only shapes see one example's."""

from __future__ import annotations

import rushlight


def test_squeeze_within_two_vmaps() -> None:
    x = rushlight.randn(2, 3, 1, 4, requires_grad=True)
    rushlight.vmap(rushlight.vmap(lambda t: t.squeeze(0).sum(0)))(x).sum().backward()
    assert x.grad.tolist() == rushlight.ones(2, 3, 1, 4).tolist()


def test_indexing_by_mapped_positions() -> None:
    table = rushlight.randn(5, 5, requires_grad=True)
    i = rushlight.arange(5)
    picked = rushlight.vmap(rushlight.vmap(lambda i, j: table[i, j], in_dims=(None, 0)), in_dims=(0, None))(i, i)
    picked.sum().backward()
    assert picked.tolist() == table.tolist() and table.grad.tolist() == rushlight.ones(5, 5).tolist()
