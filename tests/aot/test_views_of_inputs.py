"""Views of inputs that compiled functions return show the memory of the inputs, wherever these begin."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import rushlight as rl

FUNCTIONS: dict[str, Callable] = {
    "transposed": lambda x, y: (x + y, y.t()),
    "flat": lambda x, y: (y.sum(), x.flatten()),
    "slice": lambda x, y: (x * y, x[1:], y[:, 0]),
    "pieces": lambda x, y: (*x.chunk(2), y.detach()),
    "written": lambda x, y: (x.add_(1)[1:], y[2]),
    "of a new tensor": lambda x, y: ((z := x * y)[1:], z.t()),
}


def rows(first: int, second: int, count: int) -> tuple[rl.Tensor, rl.Tensor]:
    """Two pieces of one tensor."""
    whole = rl.arange(40.0).reshape(20, 2)
    return whole[first:first + count], whole[second:second + count]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("backend", "dynamic"), [("aot_eager", False), ("aot_eager", True), ("inductor", None)])
def test_inputs_that_begin_elsewhere(backend: str, name: str, dynamic: bool | None) -> None:
    function = FUNCTIONS[name]
    compiled = rl.compile(function, backend=backend, dynamic=dynamic)
    for first, second, count in ((0, 4, 4), (8, 12, 4), (3, 10, 4), (5, 0, 5), (6, 12, 6)):
        given, plain = rows(first, second, count), rows(first, second, count)
        for result, expected in zip(compiled(*given), function(*plain), strict=True):
            assert rl.equal(result, expected)
            assert result.stride() == expected.stride() and result.storage_offset() == expected.storage_offset()
        assert rl.equal(given[0], plain[0])
    if name != "of a new tensor":
        assert result.untyped_storage().data_ptr() == given[0].untyped_storage().data_ptr()      # the last output
