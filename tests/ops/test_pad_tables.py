"""Padding reads inside its input, whatever is cut and added."""

from __future__ import annotations

import itertools

import pytest

import rushlight as rl
from rushlight.definitions.shapes.pad import sources
from rushlight.nn import functional as F


@pytest.mark.parametrize("mode", ["circular", "reflect", "replicate"])
def test_every_place_is_inside(mode):
    for size, before, after in itertools.product(range(1, 6), range(-5, 6), range(-5, 6)):
        if (
            size + before + after < 1
            or (mode == "reflect" and max(before, after) >= size)
            or (mode == "circular" and max(before, after) > size)
        ):
            continue
        assert all(0 <= place < size for place in sources(mode, size, before, after)), (size, before, after)


@pytest.mark.parametrize("mode", ["circular", "reflect", "replicate"])
def test_every_position_shows_the_place_its_mode_says(mode):
    for size, before, after in itertools.product(range(1, 6), range(-5, 6), range(-5, 6)):
        if (
            size + before + after < 1
            or (mode == "reflect" and max(before, after) >= size)
            or (mode == "circular" and max(before, after) > size)
        ):
            continue
        padded = F.pad(rl.arange(10.0, 10 + size)[None], (before, after), mode)
        assert padded[0].tolist() == [10.0 + i for i in sources(mode, size, before, after)], (size, before, after)


def test_nothing_kept_and_something_added():
    assert F.pad(rl.ones(4, 3, 4, 1), (-1, 1, -2, 1), "circular").shape == (4, 3, 3, 1)
