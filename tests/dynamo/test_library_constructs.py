"""What libraries do that ended graphs, or did not run: assertions on elements, enums that are strings, signatures."""

from __future__ import annotations

import enum
import inspect
import operator
import random
from typing import Any

import numpy as np
import pytest

import rushlight as torch


@pytest.fixture(autouse=True)
def fresh() -> Any:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_assertions_on_elements_are_looked_at_before_anything_is_changed(backend: str) -> None:
    def logarithm(x: Any, log: list) -> Any:
        torch._assert_async((x > 0).all(), "positive numbers, please")
        log.append("done")
        return x.log()

    compiled, log = torch.compile(logarithm, backend=backend, fullgraph=True), []
    torch.testing.assert_close(compiled(torch.ones(3), log), torch.zeros(3))
    with pytest.raises(RuntimeError, match="positive numbers"):
        compiled(torch.tensor([1.0, -1.0, 2.0]), log)
    assert log == ["done"]


def test_an_assertion_is_about_the_elements_as_they_were_then() -> None:
    def cleared(x: Any) -> Any:
        holds = x.sum() > 0
        torch._assert_async(input=holds)
        holds.zero_()
        return x + holds

    torch.testing.assert_close(torch.compile(cleared, fullgraph=True)(torch.ones(2)), torch.ones(2))


class Kind(str, enum.Enum):  # noqa: UP042 - as libraries that support older Pythons write it
    """Compared as libraries do, in Python, whatever the case of the letters."""

    FIRST = "first"

    def __eq__(self, other: object) -> bool:
        return self.value == str(other.value if isinstance(other, enum.Enum) else other).lower()

    __hash__ = str.__hash__


def test_members_of_enums_compare_as_their_class_says() -> None:
    def chosen(x: Any, kind: Any) -> Any:
        return x + 1 if kind == Kind.FIRST else x - 1

    compiled = torch.compile(chosen, backend="eager", fullgraph=True)
    for kind in ("FIRST", "second", Kind.FIRST, 3):
        torch.testing.assert_close(compiled(torch.ones(1), kind), chosen(torch.ones(1), kind))


def test_text_of_devices_and_dtypes() -> None:
    def told(x: Any) -> Any:
        return f"{x.device} {x.dtype!s} {x.device!r}", x + 1

    text, _ = torch.compile(told, backend="eager", fullgraph=True)(torch.ones(2))
    assert text == told(torch.ones(2))[0]


def test_compiled_functions_have_the_signature_of_the_original() -> None:
    class Thing:
        def method(self, a: int, /, b: int = 2, *rest: int, c: int, d: int = 4, **named: int) -> None: ...

    function, compiled = Thing.method, torch.compile(Thing.method)
    assert inspect.signature(compiled) == inspect.signature(function)
    assert inspect.getfullargspec(compiled) == inspect.getfullargspec(function)
    assert inspect.getfullargspec(torch.compile(Thing().method)) == inspect.getfullargspec(Thing().method)


def test_a_place_that_held_a_tensor_and_then_a_number() -> None:
    def at(x: Any, time: Any) -> Any:
        times = time if isinstance(time, torch.Tensor) else torch.tensor([time])
        return x * times

    compiled = torch.compile(at, backend="eager", fullgraph=True)
    for time in (torch.tensor([3, 4]), 7):
        torch.testing.assert_close(compiled(torch.ones(2), time), at(torch.ones(2), time))


def test_modules_lend_their_way_of_compiling() -> None:
    graphs = []

    def backend(graph: Any, inputs: list) -> Any:
        graphs.append(graph)
        return graph

    compiled = torch.compile(torch.nn.Linear(2, 2), backend=backend)
    assert torch.equal(compiled.dynamo_ctx(lambda x: x + 1)(torch.ones(2)), torch.full((2,), 2.0)) and len(graphs) == 1


class Scaled:
    """Called, and hashed by what it holds."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def __hash__(self) -> int:
        return hash(self.scale)

    def __call__(self, x: Any) -> Any:
        return x * self.scale


def test_objects_with_a_hash_of_their_own_are_called() -> None:
    scaled = Scaled(3.0)
    compiled = torch.compile(lambda x: scaled(x) + 1, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(torch.ones(2)), torch.full((2,), 4.0))
    scaled.scale = 5.0
    torch.testing.assert_close(compiled(torch.ones(2)), torch.full((2,), 6.0))


def _drops(x: Any) -> Any:
    y = x.sin()
    if random.random() < 0.5:
        y = y + 1
    return y.cos() * random.uniform(1, 2)


def _drawn_by_numpy(x: Any) -> Any:
    return x.sin() * float(np.random.rand())


@pytest.mark.parametrize("function", [_drops, _drawn_by_numpy])
def test_numbers_drawn_by_python_break_the_graph_but_not_the_frame(function: Any) -> None:
    """`random.random` is a method of an object that its module keeps to itself: it is called as it is, and the ops
    around it are in graphs."""
    graphs = []

    def backend(gm: Any, inputs: Any) -> Any:
        graphs.append(gm)
        return gm.forward

    found = []
    for run in (function, torch.compile(function, backend=backend)):
        random.seed(3)
        np.random.seed(3)
        found.append([run(torch.ones(3)) for _ in range(6)])
    torch.testing.assert_close(found[1], found[0])
    assert any("sin" in gm.code for gm in graphs)


def test_methodcaller_on_an_object_of_the_program() -> None:
    class Scale:
        def by(self, x: Any, k: int = 2) -> Any:
            return x * k

    def scaled(x: Any) -> Any:
        return operator.methodcaller("by", x)(Scale()) + operator.methodcaller("by", x, k=5)(Scale())

    x = torch.ones(2)
    assert torch.compile(scaled, backend="eager", fullgraph=True)(x).tolist() == [7.0, 7.0]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("bounds", [(-2.0, 2.0), (1.0, 1.4)])
def test_truncated_numbers_are_drawn(bounds: Any, backend: str) -> None:
    def drawn(x: Any) -> Any:
        result = torch.zeros(3, 4)
        torch.nn.init.trunc_normal_(result[0], 0.0, 1.0, *bounds)
        return result + x

    torch.manual_seed(0)
    expected = drawn(1)
    torch.manual_seed(0)
    torch.testing.assert_close(torch.compile(drawn, backend=backend)(1), expected, rtol=0, atol=0)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_rows_of_a_table_are_shortened(backend: str) -> None:
    def looked_up(i: Any, table: Any) -> Any:
        return torch.nn.functional.embedding(i, table, max_norm=1.0)

    given, i = torch.arange(18.0).view(6, 3), torch.tensor([4, 1, 1, 0])
    tables = given.clone(), given.clone()
    found, expected = torch.compile(looked_up, backend=backend, fullgraph=True)(i, tables[0]), looked_up(i, tables[1])
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(*tables)
    assert expected.norm(dim=1).max() < 1.001 and torch.equal(tables[0][2], given[2])
