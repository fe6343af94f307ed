"""Frames that uncaptured code enters run compiled: callbacks of native code, functions of code that runs as it is."""

from __future__ import annotations

import functools
import gc
import os
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rushlight as torch
from rushlight import _C, nn

pytestmark = pytest.mark.skipif(not _C.has_frame_hook, reason="this interpreter has no frame hook")


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch.compiler.reset()
    yield
    assert not _C.are_frames_watched()


def counted(fn: Callable, **told: Any) -> tuple[Any, list[str]]:
    """The function compiled, and the names of the functions that its graphs are of, as they are made."""
    names: list[str] = []

    def backend(graph: Any, inputs: list[Any]) -> Callable:
        names.append(graph.meta["location"].rpartition(" in ")[2].rpartition(".")[2])
        return graph.forward

    return torch.compile(fn, backend=backend, **told), names


def total(t: torch.Tensor) -> float:
    return (t.sin() * 2).sum().item()


def add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.sin() + b


def values() -> list[torch.Tensor]:
    return [torch.full((3,), float(n)) for n in (2, 1, 3)]


def test_keys_of_sorted() -> None:
    compiled, names = counted(lambda xs: sorted(xs, key=total))
    for _ in range(3):
        assert [t[0].item() for t in compiled(values())] == [t[0].item() for t in sorted(values(), key=total)]
    assert names == ["total"]


def test_callbacks_behind_a_break() -> None:
    def program(xs: list[torch.Tensor]) -> Any:
        torch._dynamo.graph_break()
        return functools.reduce(add, xs), xs[0][0].item(), [total(x) for x in sorted(xs, key=total)]

    compiled, names = counted(program)
    for _ in range(2):
        got, expected = compiled(values()), program(values())
        torch.testing.assert_close(got[0], expected[0])
        assert got[1:] == expected[1:]
    assert "total" in names


def library(source: str) -> types.ModuleType:
    """A module that capture cannot look into: its function is called by native code."""
    module = types.ModuleType("a_library")
    exec(compile(source, "a_library.py", "exec"), vars(module))
    return module


def test_functions_of_code_that_runs_as_it_is() -> None:
    lib = library("def each(f, xs):\n for x in xs:\n  yield f(x)\n")
    compiled, names = counted(lambda xs: [t + 1 for t in lib.each(torch.sin, [add(xs[0], xs[1])])])
    torch.testing.assert_close(compiled(values())[0], add(*values()[:2]).sin() + 1)

    def inner(x: torch.Tensor) -> torch.Tensor:
        return x.cos() * 3

    def outer(xs: list[torch.Tensor]) -> list[torch.Tensor]:
        try:
            raise ValueError
        except ValueError:
            print(end="")
            torch._dynamo.graph_break()      # a break where an exception is handled: the frame runs as it is
            return [inner(x) for x in xs]

    compiled, names = counted(outer)
    for got, expected in zip(compiled(values()), outer(values()), strict=True):
        torch.testing.assert_close(got, expected)
    assert names == ["inner"]


def test_disable_holds_for_nested_frames() -> None:
    @torch.compiler.disable
    def undisturbed(xs: list[torch.Tensor]) -> list[float]:
        return [total(x) for x in sorted(xs, key=total)]

    compiled, names = counted(lambda xs: (xs[0] + 1, undisturbed(xs)))
    compiled(values())
    assert names == ["<lambda>"]

    @functools.partial(torch.compiler.disable, recursive=False)
    def alone(xs: list[torch.Tensor]) -> list[float]:
        return list(map(total, xs))

    compiled, names = counted(lambda xs: alone(xs))
    assert compiled(values()) == [total(x) for x in values()]
    assert names == ["total"]


def test_stance_holds_for_nested_frames() -> None:
    def program(xs: list[torch.Tensor]) -> list[float]:
        torch._dynamo.graph_break()
        with torch.compiler.set_stance("force_eager"):
            return list(map(total, xs))

    compiled, names = counted(program)
    assert compiled(values()) == [total(x) for x in values()]
    assert names == []


def test_exceptions_leave_frames() -> None:
    def key(t: torch.Tensor) -> float:
        y = t.sin().sum()
        raise KeyError(f"{t.ndim} dims", y.ndim)

    compiled, _ = counted(lambda xs: sorted(xs, key=key))
    for _ in range(3):
        with pytest.raises(KeyError) as found:
            compiled(values())
        assert found.value.args == ("1 dims", 0)
        assert "key" in [entry.name for entry in found.traceback]
        assert not _C.are_frames_watched()


def test_locals_of_frames_are_freed() -> None:
    compiled, _ = counted(lambda xs: [total(x) for x in sorted(xs, key=total)])
    xs = values()
    refs = [weakref.ref(x) for x in xs]
    compiled(xs)
    gc.collect()
    counts = [sys.getrefcount(x) for x in xs]
    for _ in range(5):
        compiled(xs)
    gc.collect()
    assert [sys.getrefcount(x) for x in xs] == counts
    del xs
    gc.collect()
    assert all(ref() is None for ref in refs)


def test_all_kinds_of_parameters() -> None:
    def callback(x: torch.Tensor, /, y: int = 2, *rest: Any, z: float = 0.5, **named: Any) -> torch.Tensor:
        return (x * y * z).sum() + sum(rest) + sum(named.values())

    def program(x: torch.Tensor) -> Any:
        torch._dynamo.graph_break()
        calls = (functools.partial(callback, x), functools.partial(callback, x, 3, 4, z=2.0, q=1))
        return [call() for call in calls], x.sum().item()

    compiled, _ = counted(program)
    for _ in range(2):
        got, expected = compiled(torch.ones(3)), program(torch.ones(3))
        torch.testing.assert_close(got[0], expected[0])


def test_cells_of_parameters() -> None:
    def key(t: torch.Tensor) -> float:
        def inner() -> torch.Tensor:
            return t.cos()

        return inner().sum().item()

    compiled, names = counted(lambda xs: sorted(xs, key=key))
    assert [t[0].item() for t in compiled(values())] == [t[0].item() for t in sorted(values(), key=key)]
    assert names == ["key"]


def test_recursion_and_deep_recursion() -> None:
    def deep(x: torch.Tensor, n: int) -> float:
        return x.sum().item() if n == 0 else max([x], key=lambda t: deep(t, n - 1))[0].sum().item()

    compiled, _ = counted(lambda x: [deep(x, 20), x.item() if x.numel() == 1 else 0])
    assert compiled(torch.ones(2)) == [1.0, 0]

    def count(n: int) -> int:
        return 0 if n == 0 else 1 + count(n - 1)

    def program(x: torch.Tensor) -> int:
        torch._dynamo.graph_break()
        return max([x], key=lambda t: count(600)).ndim * count(600)

    compiled, _ = counted(program)
    assert compiled(torch.ones(2)) == 600


def test_generators_and_coroutines() -> None:
    def numbers(xs: list[torch.Tensor]) -> Iterator[float]:
        for x in xs:
            try:
                yield total(x)
            except ValueError:
                yield -1.0

    async def later(x: torch.Tensor) -> float:
        return total(x)

    def program(xs: list[torch.Tensor]) -> Any:
        torch._dynamo.graph_break()
        found = numbers(xs)
        first = next(found)
        thrown = found.throw(ValueError)
        try:
            later(xs[0]).send(None)
        except StopIteration as stop:
            return first, thrown, list(found), stop.value

    compiled, _ = counted(program)
    for _ in range(2):
        assert compiled(values()) == program(values())


def test_tracers_and_profilers_see_frames() -> None:
    compiled, names = counted(lambda xs: sorted(xs, key=total))
    seen: list[str] = []

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            seen.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        compiled(values())
    finally:
        sys.setprofile(None)
    assert seen.count("total") == 3
    assert names == []
    compiled(values())
    assert names == ["total"]


def test_threads_have_hooks_of_their_own() -> None:
    compiled, names = counted(lambda xs: sorted(xs, key=wait_and_total))
    go_on = threading.Event()

    def wait_and_total(t: torch.Tensor) -> float:
        go_on.wait(60)
        return total(t)

    thread = threading.Thread(target=compiled, args=(values(),))
    thread.start()
    deadline = time.monotonic() + 30
    while not _C.are_frames_watched() and time.monotonic() < deadline:
        time.sleep(0.001)
    assert _C.are_frames_watched()
    assert [total(x) for x in values()] == list(map(total, values()))      # here as it is
    assert "total" not in names
    go_on.set()
    thread.join()
    assert not _C.are_frames_watched()


def test_many_threads() -> None:
    compiled, _ = counted(lambda xs: [t.sum().item() for t in sorted(xs, key=total)])
    expected = [t.sum().item() for t in sorted(values(), key=total)]
    found: list[Any] = []

    def work() -> None:
        for _ in range(20):
            found.append(compiled(values()))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 80


def test_limits_hold_for_callbacks() -> None:
    def key(t: torch.Tensor, kind: list[str] = [""]) -> float:  # noqa: B006 - a value that guards see change
        return (t.sum() + len(kind[0])).item()

    compiled, names = counted(lambda xs: sorted(xs, key=key), recompile_limit=2)
    with pytest.warns(UserWarning, match="limit"):
        for n in range(5):
            key.__defaults__[0][0] = "x" * n
            compiled(values())
    assert names.count("key") == 2


def test_functions_made_for_every_call_share_what_is_compiled() -> None:
    def program(xs: list[torch.Tensor], factor: torch.Tensor) -> Any:
        def key(t: torch.Tensor) -> float:
            return (t * factor).sum().item() + n

        n = 1
        return sorted(xs, key=key), [key(factor)]

    compiled, names = counted(program)
    for i in range(12):
        factor = torch.full((3,), i - 5.5)
        got, expected = compiled(values(), factor), program(values(), factor)
        assert [t[0].item() for t in got[0]] == [t[0].item() for t in expected[0]]
        assert got[1] == expected[1]
    assert names.count("key") <= 2


def test_modules_called_by_native_code() -> None:
    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.full((3,), 2.0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * self.weight).relu()

    module = Scale()

    def program(xs: list[torch.Tensor]) -> torch.Tensor:
        torch._dynamo.graph_break()
        return functools.reduce(torch.add, filter(lambda t: t.sum().item() > 0, map(module, xs)))

    compiled, names = counted(program)
    compiled(values()).sum().backward()
    grad, module.weight.grad = module.weight.grad, None
    program(values()).sum().backward()
    torch.testing.assert_close(grad, module.weight.grad)
    assert "forward" in names


def test_functions_of_gradients_in_uncaptured_code() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            ctx.factor = 2
            return x * ctx.factor

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            return g * ctx.factor + x * 0

    def program(xs: list[torch.Tensor]) -> Any:
        torch._dynamo.graph_break()
        return [y for y in map(Double.apply, xs) if y.sum().item() > 0]

    compiled, _ = counted(program)
    for _ in range(2):
        xs = [x.requires_grad_() for x in values()]
        sum(y.sum() for y in compiled(xs)).backward()
        assert [x.grad.tolist() for x in xs] == [[2.0] * 3] * 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_fork_in_uncaptured_code() -> None:
    def key(t: torch.Tensor) -> float:
        child = os.fork()
        if child == 0:
            os._exit(0 if total(t) == total(t) and _C.are_frames_watched() else 1)
        return float(os.waitpid(child, 0)[1]) + total(t)

    compiled, _ = counted(lambda xs: sorted(xs, key=key))
    assert [t[0].item() for t in compiled(values())] == [t[0].item() for t in sorted(values(), key=total)]


def test_another_hook_may_be_put_on_top() -> None:
    """debuggers and other compilers have theirs."""
    torch_ = pytest.importorskip("torch")
    theirs = torch_.compile(lambda x: x.sin() + 1, backend="eager")

    def key(t: torch.Tensor) -> float:
        return total(t) + float(theirs(torch_.zeros(2)).sum())

    compiled, _ = counted(lambda xs: sorted(xs, key=key))
    for _ in range(3):
        assert [t[0].item() for t in compiled(values())] == [t[0].item() for t in sorted(values(), key=total)]
    assert float(theirs(torch_.zeros(3)).sum()) == 3
    _ = compiled(values())
