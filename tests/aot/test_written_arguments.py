"""Users' ops that write to their arguments, in compiled functions and at functionalize levels."""

from __future__ import annotations

import pytest

import rushlight as rl


@rl.library.custom_op("aot_writes::fill", mutates_args=("out",))
def fill(x: rl.Tensor, out: rl.Tensor, factor: int) -> None:
    out.copy_(x * factor)


@rl.library.custom_op("aot_writes::both", mutates_args=("a", "b"))
def both(a: rl.Tensor, b: rl.Tensor, by: float = 1.0) -> rl.Tensor:
    total = a + b
    a.add_(by)
    b.mul_(2)
    return total


@both.register_fake
def _both(a, b, by=1.0):
    return rl.empty_like(a)


@pytest.fixture(autouse=True)
def fakes():
    fill.register_fake(lambda x, out, factor: None)


PROGRAMS = {
    "new memory": lambda x, y: (fill(x, out := rl.empty_like(x), 3), out + 1)[1],
    "an argument": lambda x, y: (fill(x.sin(), y, 2), y.cos())[1],
    "a view": lambda x, y: (fill(x[0], y[1], 2), y.sum(0))[1],
    "twice": lambda x, y: (fill(x, y, 2), fill(y.exp(), x, 3), x - y)[2],
    "with a result": lambda x, y: both(x, y, by=0.5) * y,
    "read before": lambda x, y: (before := y * 2, fill(x, y, 5), before + y)[2],
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_programs_see_what_ops_write(name, dynamic):
    rl.manual_seed(0)
    program, run = PROGRAMS[name], rl.compile(PROGRAMS[name], fullgraph=True, dynamic=dynamic)
    for n in (4, 5) if dynamic else (4, 4):
        x, y = rl.randn(3, n), rl.randn(3, n)
        given, others = [x.clone(), y.clone()], [x.clone(), y.clone()]
        assert rl.allclose(run(*given), program(*others))
        assert all(rl.allclose(a, b) for a, b in zip(given, others, strict=True))


def test_functionalize_sees_them():
    x, y = rl.arange(4.0), rl.zeros(4)
    result = rl.func.functionalize(lambda x, y: (fill(x, y, 2), y + 1)[1])(x, y)
    assert result.tolist() == [1.0, 3.0, 5.0, 7.0]
