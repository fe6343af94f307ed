"""Sizes and numbers that only elements can tell: graphs hold them, forward and backward, for all counts."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as torch
from rushlight.aot.refused import NotCaptured
from rushlight.compiler.driver import graph_backend
from rushlight.functorch.compile import aot_function, default_partition, min_cut_rematerialization_partition
from rushlight.fx import symbolic_trace
from rushlight.inductor import compile_graph
from rushlight.inductor.parts import Parted
from tests.aot.hidden_programs import (
    COUNTS,
    PROGRAMS,
    a_mask,
    joined,
    matrices,
    results_and_gradient,
    vector,
    views,
    writes_through_views,
)

pytestmark = pytest.mark.share(2)   # of each test that has several cases

close = torch.testing.assert_close
# Copies into slices are calls of Python, whose plans are for one size; products of few rows have plans of their own.
MADE_FOR_EACH = (writes_through_views, views, matrices)


def compiled_by(compiler: Any, function: Any, **options: Any) -> Any:
    return aot_function(function, fw_compiler=compiler, **options)


@pytest.mark.share(2)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
@pytest.mark.parametrize("partition", [default_partition, min_cut_rematerialization_partition])
def test_one_graph_serves_all_counts(program: Any, partition: Any) -> None:
    graphs: list[Any] = []
    run = compiled_by(lambda g, e: graphs.append(g) or g, program, partition_fn=partition)
    for count in COUNTS:
        have, have_gradient = results_and_gradient(run, vector(count))
        want, gradient = results_and_gradient(program, vector(count))
        close(have, want, equal_nan=True)
        close(have_gradient, gradient, equal_nan=True)
    assert len(graphs) <= 2      # a forward, and a backward


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_native_plans_serve_all_counts(program: Any) -> None:
    found: list[Any] = []
    run = compiled_by(lambda g, e: found.append(compile_graph(g, e)) or boxed(found[-1]), program,
                      partition_fn=min_cut_rematerialization_partition)
    for count in COUNTS:
        have, have_gradient = results_and_gradient(run, vector(count))
        want, gradient = results_and_gradient(program, vector(count))
        close(have, want, equal_nan=True)
        close(have_gradient, gradient, equal_nan=True)
        assert [h.stride() for h in have if h.numel() > 1] == [w.stride() for w in want if w.numel() > 1]
    before = [x.compilations for x in found if hasattr(x, "compilations")]
    for count in (3, 4, 6, 8):
        close(results_and_gradient(run, vector(count)), results_and_gradient(program, vector(count)), equal_nan=True)
    if program not in MADE_FOR_EACH:
        assert [x.compilations for x in found if hasattr(x, "compilations")] == before, "other counts compile nothing"


def boxed(function: Any) -> Any:
    def call(args: list[Any]) -> Any:
        return function(args)

    call._boxed_call = True
    return call


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64])
def test_types_and_layouts(dtype: Any) -> None:
    def program(x: Any) -> Any:
        rows = x[x[:, 0] > 0]
        return rows.t() * 2, rows.sum(0), x[:, ::2][x[:, ::2] > 0], x.t()[x.t() != 0] + x.sum().item()

    run = compiled_by(lambda g, e: boxed(compile_graph(g, e)), program)
    for count in COUNTS:
        x = (torch.outer(vector(count), torch.arange(4.0)) * 8 + vector(count)[:, None]).to(dtype)
        close(list(run(x)), list(program(x)))
        wide = x.repeat(1, 2)[:, :4]
        close(list(run(wide)), list(program(wide)))


def graph_of(function: Any, examples: list[Any]) -> Any:
    graph = symbolic_trace(function)
    for node, example in zip(graph.graph.find_nodes(op="placeholder"), examples, strict=True):
        node.meta["example_value"] = example
    return graph


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_what_tracing_took_for_equal_may_differ(backend: str) -> None:
    """Sizes that meet are required to be equal; where one of them is 1 the graph runs op by op."""
    def program(x: Any, a: Any, b: Any) -> Any:
        return ((x[a] + x[b]).sum(),)

    def mask(n: int) -> Any:
        return torch.arange(10) < n

    x = vector(4).requires_grad_()
    run = graph_backend(backend)(graph_of(program, [x, mask(3), mask(3)]), [x, mask(3), mask(3)])
    for first, second in ((3, 3), (1, 5), (5, 1), (0, 0), (1, 1), (7, 7)):
        a, b = vector(4).requires_grad_(), vector(4).requires_grad_()
        have, want = run([a, mask(first), mask(second)])[0], program(b, mask(first), mask(second))[0]
        have.backward()
        want.backward()
        close(have, want)
        close(a.grad, b.grad)
    with pytest.raises(RuntimeError, match="The size of tensor a \\(2\\) must match the size of tensor b \\(3\\)"):
        run([x, mask(2), mask(3)])


def test_squeezing_a_count_is_checked() -> None:
    run = compiled_by(lambda g, e: g, lambda x: x[x > 0].squeeze() * 2)
    close(run(vector(3)), vector(3)[:3] * 2)
    with pytest.raises(RuntimeError, match="u0 != 1"):
        run(vector(1))


def test_a_decision_on_elements_is_refused_with_its_line() -> None:
    def program(x: Any) -> Any:
        y = x[x > 0]
        return y * 2 if y.numel() > 3 else y

    with pytest.raises(NotCaptured, match="test_hidden_sizes.py.*y.numel\\(\\) > 3"):
        compiled_by(lambda g, e: g, program)(vector(5))


def test_results_that_are_numbers() -> None:
    def program(x: Any) -> Any:
        return (x > 0).sum().item(), x[x > 0].numel() * 2, x.sum().item()

    run = compiled_by(lambda g, e: boxed(compile_graph(g, e)), program)
    for count in COUNTS:
        assert run(vector(count)) == pytest.approx(program(vector(count)))


def test_sizes_of_inputs_and_of_elements_together() -> None:
    found: list[Any] = []
    run = compiled_by(lambda g, e: found.append(compile_graph(g, e)) or boxed(found[-1]), joined, dynamic=True)
    for length, count in ((10, 5), (7, 3), (20, 11), (9, 4)):
        have, gradient = results_and_gradient(run, vector(count, length))
        want, wanted = results_and_gradient(joined, vector(count, length))
        close((have, gradient), (want, wanted))
    assert len(found) == 2


def test_inputs_that_are_written_to() -> None:
    def program(x: Any) -> Any:
        x[x > 0] = 0
        x.index_add_(0, (x < -0.5).nonzero()[:, 0], torch.ones((x < -0.5).sum().item()))
        return x[x < 0].sum()

    run = compiled_by(lambda g, e: boxed(compile_graph(g, e)), program)
    for count in COUNTS:
        a, b = vector(count), vector(count)
        close(run(a), program(b))
        close(a, b)


def test_parts_fuse_what_stands_between_counts() -> None:
    found: list[Any] = []
    run = compiled_by(lambda g, e: found.append(compile_graph(g, e)) or boxed(found[-1]),
                      lambda x: a_mask(x.exp() - 1).sin().cos() + a_mask(x).sum())
    x = vector(4)
    close(run(x), a_mask(x.exp() - 1).sin().cos() + a_mask(x).sum())
    (parted,) = found
    assert isinstance(parted, Parted) and len(parted.parts) == 2      # both masks are looked at between the same parts
    assert sorted(parted.calls) == ["nonzero", "nonzero"]


def test_a_division_in_place_by_a_number_made_of_sizes_is_compiled():
    def mean(x):
        total = x.sum((0, 1))
        total /= x.shape[0] * x.shape[1]
        return total

    compiled = torch.compile(mean, dynamic=True)
    for shape in ((3, 4, 5), (2, 6, 5)):
        x = torch.randn(shape, requires_grad=True)
        assert torch.allclose(compiled(x), x.mean((0, 1)))
        compiled(x).sum().backward()
        assert torch.allclose(x.grad, torch.full(shape, 1 / (shape[0] * shape[1])))
