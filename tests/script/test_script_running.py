"""How compiled programs run: hot runs of pointwise nodes, forks, errors through calls."""

import threading

import pytest

import rushlight as torch
from rushlight.script import fusion
from rushlight.script.execute import Error
from rushlight.script.unit import Unit


def gated(x, y, k: float):
    a = torch.sigmoid(x * y)
    b = a + k
    c = torch.tanh(b - x) * a
    return c, b


def test_hot_runs_have_the_values_and_gradients_of_cold_ones() -> None:
    compiled = Unit().compile(gated)
    for turn in range(fusion.HOT + 12):
        size, k = (3, 4) if turn % 3 else (5,), 0.5 * (turn % 2)
        x, y = torch.randn(size, requires_grad=True), torch.randn(size)
        found, wanted = compiled(x, y, k), gated(x, y, k)
        for mine, theirs in zip(found, wanted, strict=True):
            torch.testing.assert_close(mine, theirs)
        mine, = torch.autograd.grad(found[0].sum() + found[1].sum(), x)
        theirs, = torch.autograd.grad(wanted[0].sum() + wanted[1].sum(), x)
        torch.testing.assert_close(mine, theirs)


def test_a_hot_run_still_tells_its_errors() -> None:
    compiled = Unit().compile(gated)
    for _ in range(fusion.HOT + 3):
        compiled(torch.ones(3), torch.ones(3), 1.0)
    with pytest.raises(Error, match=r"a = torch.sigmoid\(x \* y\)\n.*~~~~~ <--- HERE(.|\n)*must match the size"):
        compiled(torch.ones(3), torch.ones(4), 1.0)
    assert compiled(torch.ones(3), torch.ones(3), 1.0)[0].shape == (3,)


def written(x):
    y = x * 2
    z = y + 1
    y.add_(5)
    w = z - y
    v = w * y
    return v / 2


def test_writes_between_stay_where_they_are() -> None:
    compiled = Unit().compile(written)
    for _ in range(fusion.HOT + 3):
        torch.testing.assert_close(compiled(torch.arange(3.0)), written(torch.arange(3.0)))


def scaled(x, k: int):
    return x * k


def forks(x):
    first = torch.jit.fork(scaled, x, 3)
    second = torch.jit.fork(scaled, x, k=2)
    return torch.jit.wait(first) + torch.jit.wait(second)




def fails(x):
    return x.view(7)


def forks_failing(x):
    return torch.jit.wait(torch.jit.fork(fails, x))


def annotated_forks(x, depth: int):
    found = torch.jit.annotate(list[torch.jit.Future[torch.Tensor]], [])
    for i in range(depth):
        found.append(torch.jit.fork(forks, x + i))
    total = torch.zeros(2)
    for future in found:
        total = total + torch.jit.wait(future)
    return total


def test_forks_and_what_they_wait_for() -> None:
    unit = Unit()
    assert unit.compile(forks)(torch.ones(2)).tolist() == [5.0, 5.0]
    # more tasks that wait for tasks than there are threads: nobody stands still
    done: list = []
    program = unit.compile(annotated_forks)
    thread = threading.Thread(target=lambda: done.append(program(torch.ones(2), 40).tolist()), daemon=True)
    thread.start()
    thread.join(30)
    assert done == [[5.0 * sum(1 + i for i in range(40))] * 2]


def test_errors_of_forks_come_to_who_waits() -> None:
    with pytest.raises(Error, match=r"(?s)in.*jit.fork\(fails, x\).*HERE.*x.view\(7\).*HERE.*invalid for input"):
        Unit().compile(forks_failing)(torch.ones(2))


def test_forks_keep_the_grad_mode() -> None:
    x = torch.ones(2, requires_grad=True)
    compiled = Unit().compile(forks)
    assert compiled(x).requires_grad
    with torch.no_grad():
        assert not compiled(x).requires_grad


def strictly(x):
    with torch.jit.strict_fusion():
        return x + x * 2 + x.tanh()


def test_strict_fusion_is_a_region_like_any_other() -> None:
    compiled = torch.jit.script(strictly)
    assert "__torch__.torch.jit.strict_fusion = prim::CreateObject()" in str(compiled.graph)
    torch.testing.assert_close(compiled(torch.ones(2)), strictly(torch.ones(2)))
