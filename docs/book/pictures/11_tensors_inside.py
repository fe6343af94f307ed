"""Pictures of the chapter on tensors: where the elements of views lie, and the two orders of a picture."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from page_pictures import grid

import rushlight as torch

Say = Callable[[str, str], str]


def places(t: torch.Tensor) -> dict[int, str]:
    """The index that lies at each place of the storage."""
    found = {}
    for index in itertools.product(*map(range, t.shape)):
        place = t.storage_offset() + sum(i * step for i, step in zip(index, t.stride(), strict=True))
        found[place] = ",".join(map(str, index))
    return found


def draw_views(say: Say) -> str:
    x = torch.arange(12.0).reshape(3, 4)
    views = {"x": x, "x.t()": x.t(), "x[1:, ::2]": x[1:, ::2], "x.diagonal()": x.diagonal()}
    found = [places(view) for view in views.values()]
    for view, at in zip(views.values(), found, strict=True):
        assert sorted(at) == sorted(int(value) for value in view.flatten().tolist())
    return grid(
        say("Twelve places of one storage, and the index that each view has there",
            "同一块存储的十二个位置，以及各个视图在那里的下标"),
        [[str(place) for place in range(12)], *([at.get(place, "") for place in range(12)] for at in found)],
        hot=lambda row, column: row > 0 and column in found[row - 1],
        side=[say("place", "位置"), *views],
    )


def draw_channels(say: Say) -> str:
    names = [f"{colour}{row}{column}" for colour in "RGB" for row in range(2) for column in range(2)]
    picture = torch.arange(12.0).reshape(1, 3, 2, 2)
    last = picture.to(memory_format=torch.channels_last)
    rows = [[names[int(value)] for value in t.as_strided((12,), (1,)).tolist()] for t in (picture, last)]
    return grid(
        say("A picture of 2 × 2 pixels in memory; the first pixel is marked",
            "一张 2 × 2 像素的图在内存里的样子，标出的是第一个像素"),
        rows,
        hot=lambda row, column: rows[row][column].endswith("00"),
        side=[str(tuple(t.stride())) for t in (picture, last)],
    )
