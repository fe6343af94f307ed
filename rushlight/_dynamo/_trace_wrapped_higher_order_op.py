"""`TransformGetItemToIndex`: PyTorch's helper for masks written as indexing inside vmap."""

from __future__ import annotations


class TransformGetItemToIndex:
    """Inside, `t[i, j]` with batched 0-d indices gathers. Here vmap does that everywhere, so the block adds nothing."""

    def __enter__(self) -> TransformGetItemToIndex:
        return self

    def __exit__(self, *exc: object) -> None:
        pass
