"""What steps over streams and steps over maps have in common."""

from __future__ import annotations

import random
from typing import Any, Self

from ..sampler import draw_seed
from .datapipe import DataChunk


class Batched:
    """A step that makes chunks of `batch_size` consecutive samples."""

    def __init__(
        self, datapipe: Any, batch_size: int, drop_last: bool = False, wrapper_class: type[DataChunk] = DataChunk
    ) -> None:
        if batch_size <= 0:
            raise AssertionError("batch_size: expected at least 1")
        super().__init__()
        self.datapipe = datapipe
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.wrapper_class = wrapper_class


class Shuffled:
    """A step with an order of its own, which can be switched off. Seeded by `set_seed` or the default generator."""

    def __init__(self) -> None:
        super().__init__()
        self._enabled = True
        self._seed: int | None = None
        self._rng = random.Random()

    def set_shuffle(self, shuffle: bool = True) -> Self:
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Self:
        """Use `seed` in the next pass, and in that one only."""
        self._seed = seed
        return self

    def seed_pass(self) -> None:
        """Seed the generator for a pass that begins."""
        self._rng.seed(draw_seed() if self._seed is None else self._seed)
        self._seed = None
