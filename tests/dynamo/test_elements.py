"""Numbers and sizes that only elements tell, in captured programs: results as they are, one graph for all of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as torch
from rushlight._dynamo.exc import Unsupported
from rushlight._dynamo.utils import counters
from rushlight.op import find_op

pytestmark = pytest.mark.share(2)   # of each test that has several cases

BACKENDS = ("eager", "aot_eager", "inductor")


@pytest.fixture(autouse=True)
def _fresh() -> Any:
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def data() -> list[torch.Tensor]:
    """Some elements above zero, others, all, and none."""
    return [
        torch.tensor([1.5, -2.0, 3.0, -4.0, 0.5, 2.0]), torch.tensor([-1.0, -2.0, 3.0, -4.0, -5.0, -6.0]),
        torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), torch.tensor([-1.0, -2.0, -3.0, -4.0, -5.0, -6.0]),
    ]


def same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected), f"{found!r} is no {type(expected).__name__}"
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(found, expected, equal_nan=True)
    elif isinstance(expected, (tuple, list)):
        for a, b in zip(found, expected, strict=True):
            same(a, b)
    else:
        assert found == expected or (found != found and expected != expected)


def number(x: torch.Tensor) -> Any:
    n = x.sum().item()
    return x * n, n, n + 1, -n / 2


def sizes(x: torch.Tensor) -> Any:
    n = int((x > 0).sum())
    return torch.zeros(n, 2) + 1, torch.arange(n), torch.full((n + 1,), 2.0), x.new_ones(2 * n), n


def slices(x: torch.Tensor) -> Any:
    n = int((x > 0).sum())
    return x[:n], x[n:], x[n - 3 :], x[: n - 3], x[n // 2], x[-n - 1] if x.shape[0] > 9 else x.narrow(0, 0, n)


def masks(x: torch.Tensor) -> Any:
    m = x > 0
    return x[m] * 2, (x[m] - x.cos()[m]) ** 2, torch.masked_select(x, m).sum(), x[m].mean()


def written(x: torch.Tensor) -> Any:
    y, m = x.clone(), x > 0
    y[m] = y[m] * 3
    y[x < -3] = 7.0
    return y


def counted(x: torch.Tensor) -> Any:
    i = (x > 0).nonzero()
    return i, i.shape[0], x[i[:, 0]], torch.argwhere(x > 0), torch.where(x > 0)[0], len(i) + 1


def grouped(x: torch.Tensor) -> Any:
    group = x.abs().long()
    values, places = torch.unique(group, return_inverse=True)
    total = torch.zeros(int(group.max()) + 1).index_add(0, group, x)
    return values * 2, places, torch.bincount(group), total, torch.repeat_interleave(x, (x > 0).long() + 1)


def joined(x: torch.Tensor) -> Any:
    y = torch.cat([x[x > 0], x[x < 0]])
    return y, torch.stack([y, y * 2], 1), y.sort()[0], torch.softmax(x[x > 0], 0), (x[x > 0][:, None] - x).sum(0)


def sorted_first(x: torch.Tensor) -> Any:
    """Ops with several results, which are wanted before and behind those that elements give sizes."""
    values, places = torch.sort(x)
    kept = torch.unique(values.round())
    return x.cos()[places], torch.bincount((values - values.min()).long())[: len(kept)], places, kept


def listed(x: torch.Tensor) -> Any:
    first, *rest = x[:3].tolist()
    return x + first, rest, (x[:4].view(2, 2) > 0).tolist(), float(x[0]), int(x[2]), max(int(x[0]), 3)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "program", [number, sizes, slices, masks, written, counted, grouped, joined, sorted_first, listed]
)
def test_one_graph_for_all_counts(program: Callable, backend: str) -> None:
    compiled = torch.compile(program, backend=backend, fullgraph=True)
    for x in data():
        same(compiled(x), program(x))
    assert counters["stats"]["unique_graphs"] == 1 and not counters["graph_break"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_of_what_masks_and_indices_select(backend: str) -> None:
    def loss(x: torch.Tensor, w: torch.Tensor) -> Any:
        m = x > 0
        i = m.nonzero()[:, 0]
        rows = w[i] * x[i, None]
        return (x[m].exp() * w[m, 0]).sum() + rows.tanh().sum() * x.detach().max().item()

    compiled = torch.compile(loss, backend=backend, fullgraph=True)
    for x in data():
        results = []
        for function in (loss, compiled):
            leaves = x.clone().requires_grad_(), torch.linspace(-1, 1, 12).view(6, 2).requires_grad_()
            value = function(*leaves)
            value.backward()
            results.append([value.detach(), *(t.grad for t in leaves)])
        same(results[1], results[0])
    assert counters["stats"]["unique_graphs"] == 1


def test_numbers_are_stored_and_live_across_breaks() -> None:
    class Holder:
        count: Any = None
        seen: list[Any] = []

    def program(holder: Holder, x: torch.Tensor) -> Any:
        n = int((x > 0).sum())
        holder.count = n
        holder.seen.append((n, x[x > 0]))
        torch._dynamo.graph_break()
        return x * n, n * 2, {"n": n, "half": n / 2}

    compiled = torch.compile(program, backend="eager")
    for x in data():
        ours, theirs = Holder(), Holder()
        ours.seen, theirs.seen = [], []
        same(list(compiled(ours, x)[2].values()), list(program(theirs, x)[2].values()))
        same((ours.count, ours.seen), (theirs.count, theirs.seen))


def test_a_number_is_what_was_read_then() -> None:
    def program(x: torch.Tensor) -> Any:
        t = x.sum()
        n = t.item()
        t.add_(1)
        m = x[0].item()
        x.mul_(2)
        return n, m, t, x

    for backend in BACKENDS:
        compiled = torch.compile(program, backend=backend, fullgraph=True)
        for x in data():
            same(compiled(x.clone()), program(x.clone()))


def test_checks_narrow_and_are_made() -> None:
    def program(x: torch.Tensor) -> Any:
        n = int(x.sum())
        torch._check_is_size(n, max=4)
        torch._check_value(n != 3, lambda: "three is too many")
        return torch.ones(4)[:n].sum() if n < 5 else None

    for backend in BACKENDS:
        compiled = torch.compile(program, backend=backend, fullgraph=True)
        for k in (0, 2, 4):
            assert compiled(torch.tensor([k, 0])).item() == k
        for k in (5, -1):
            with pytest.raises(RuntimeError):
                compiled(torch.tensor([k, 0]))
    with pytest.raises(ValueError, match="three is too many"):
        torch.compile(program, backend="eager", fullgraph=True)(torch.tensor([3, 0]))


def decides(x: torch.Tensor) -> Any:
    n = int((x > 0).sum())
    y = x * n
    return y + 1 if n > 2 else y[:1]


def test_a_decision_ends_the_graph_there(without_suppositions: None) -> None:
    for backend in BACKENDS:
        torch._dynamo.reset()
        counters.clear()
        compiled = torch.compile(decides, backend=backend)
        for x in data():
            same(compiled(x), decides(x))
        assert len(counters["graph_break"]) == 1 and "2 < u0" in next(iter(counters["graph_break"]))


def second_of(x: torch.Tensor) -> Any:
    found = (x > 0).nonzero()
    i = 1 if len(found) > 1 else 0
    return x[found[i].item()] * 2, found[i].item(), i


def size_by_the_sum(x: torch.Tensor) -> Any:
    n = 3 if x.sum() > 0 else 5
    return torch.arange(n) * x.sum(), n, not n > 4


def several_by_a_count(x: torch.Tensor) -> Any:
    n = int((x > 0).sum())
    if n > 2:
        a, b, c = 2, x.sin(), 0.5
    else:
        a, b, c = n + 1, x.cos(), 2.5
    return b * a * c, a


def truths(x: torch.Tensor) -> Any:
    some, many = bool((x > 0).any()), bool(int((x > 0).sum()))
    return some, many, not some, bool(x.sum()), x * (2 if some else 3)


@pytest.mark.parametrize("program", [second_of, size_by_the_sum, several_by_a_count, truths])
def test_numbers_that_elements_choose_between(program: Any) -> None:
    for backend in BACKENDS:
        torch._dynamo.reset()
        compiled = torch.compile(program, backend=backend, fullgraph=True)
        for x in data()[:-1]:
            if program is second_of and not (x > 0).any():
                with pytest.raises(IndexError):
                    compiled(x)
            else:
                same(compiled(x), program(x))


def test_whole_graphs_name_the_decision() -> None:
    with pytest.raises(Unsupported) as caught:
        torch.compile(decides, backend="eager", fullgraph=True)(data()[0])
    said = str(caught.value)
    assert "test_elements.py" in said and "return y + 1 if n > 2 else y[:1]" in said and "torch._check" in said


def test_decisions_in_callees_end_the_graph_where_the_number_was_made(without_suppositions: None) -> None:
    def inner(y: torch.Tensor) -> torch.Tensor:
        return y.sum() if len(y) > 3 else y

    def outer(y: torch.Tensor) -> torch.Tensor:
        return inner(y.sin()) + 1

    def program(x: torch.Tensor) -> torch.Tensor:
        y = x[x > 0]
        return outer(y * 2)

    compiled = torch.compile(program, backend="eager")
    for x in data():
        same(compiled(x), program(x))
    assert len(counters["graph_break"]) == 1 and next(iter(counters["graph_break"])).count("program.") == 1


def test_loops_text_and_keys_need_the_number() -> None:
    def loop(x: torch.Tensor) -> Any:
        for i in range(int((x > 0).sum())):
            x = x + i
        return x

    def text(x: torch.Tensor) -> Any:
        n = int((x > 0).sum())
        return f"{n:>3} of {len(x)}", str([n]), {n: x}[n], n in (1, 2), [0] * n

    for program in (loop, text):
        compiled = torch.compile(program, backend="eager")
        for x in data():
            same(compiled(x), program(x))


def test_backends_that_cannot_compile_them_get_breaks() -> None:
    graphs = []

    def backend(gm: Any, inputs: list[Any]) -> Callable:
        if gm.meta["unbacked"]:
            raise RuntimeError("no sizes from elements here")
        graphs.append(gm)
        return gm.forward

    def program(x: torch.Tensor) -> Any:
        return (x.sin()[x > 0] * 2).sum() + 1

    compiled = torch.compile(program, backend=backend)
    for x in data():
        same(compiled(x), program(x))
    assert graphs and "no sizes from elements here" in next(iter(counters["graph_break"]))


def test_text_of_symbolic_sizes_is_that_of_the_number() -> None:
    compiled = torch.compile(lambda x: (x + 1, f"{x.shape[0]} rows", str(x.shape[0])), backend="eager", fullgraph=True)
    for n in (2, 3, 5):
        assert compiled(torch.ones(n))[1:] == (f"{n} rows", str(n))


def test_settings_of_pytorch_change_nothing() -> None:
    for told in (True, False):
        torch._dynamo.reset()
        with torch._dynamo.config.patch(capture_scalar_outputs=told, capture_dynamic_output_shape_ops=told):
            compiled = torch.compile(masks, backend="eager", fullgraph=True)
            same(compiled(data()[0]), masks(data()[0]))


def test_a_branch_on_a_number_that_only_raises_is_a_check() -> None:
    def program(x: torch.Tensor) -> Any:
        n = int((x > 0).sum())
        if n > 5:
            raise ValueError(f"{n} are too many")
        return x * n

    for backend in BACKENDS:
        compiled = torch.compile(program, backend=backend)
        for x in data():
            if (x > 0).all():
                with pytest.raises(ValueError, match="6 are too many"):
                    compiled(x)
            else:
                same(compiled(x), program(x))
    assert not any("decides where" in reason for reason in counters["graph_break"])


def test_contiguous_results_lie_in_rows() -> None:
    def columns(x: torch.Tensor) -> torch.Tensor:
        return x[x[:, 0] > 0].t().contiguous()

    compiled = torch.compile(columns)
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(6, 3)
        assert compiled(x).stride() == columns(x).stride() and torch.equal(compiled(x), columns(x))


def test_no_warnings_of_sizes_that_no_call_had() -> None:
    def spread(x: torch.Tensor) -> torch.Tensor:
        return x[x > 0].std()

    x = torch.tensor([1.0, -2.0, 3.0, 5.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.allclose(torch.compile(spread)(x), spread(x))


def _written(x: Any, i: Any) -> Any:
    x = x.clone()
    x[i, :2] = 0
    x[i] += 1
    return x


BY_A_NUMBER_IN_A_TENSOR = {
    "a row": lambda x, i: x[i],
    "part of a row": lambda x, i: x[i, :2],
    "a column": lambda x, i: x[..., i],
    "one element": lambda x, i: x[i, i],
    "with a new dim": lambda x, i: x[None, i],
    "of a view": lambda x, i: x[0:3][i, 1:],
    "bounds": lambda x, i: x[i : i + 2],
    "beside an index": lambda x, i: x[i, torch.tensor([0, 3])],
    "written": _written,
}


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("name", BY_A_NUMBER_IN_A_TENSOR)
def test_places_that_tensors_hold(name: str, backend: str) -> None:
    function = BY_A_NUMBER_IN_A_TENSOR[name]
    compiled = torch.compile(function, backend=backend, fullgraph=True)
    for place in (0, 1, 2, -2):
        x, i = torch.randn(5, 4), torch.tensor(place)
        torch.testing.assert_close(compiled(x, i), function(x, i))


def test_sizes_that_turn_out_to_be_numbers_in_graphs_that_write() -> None:
    def program(x: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        labels = (x.abs() * 2).long().clamp(max=2)
        total.add_(torch.bincount(labels * 3 + labels.flip(0), minlength=9).reshape(3, 3))
        return total * 2

    for backend in BACKENDS:
        torch._dynamo.reset()
        compiled = torch.compile(program, backend=backend, fullgraph=True)
        for x in data():
            same(compiled(x, torch.zeros(3, 3)), program(x, torch.zeros(3, 3)))


def test_results_of_sizes_that_are_known_by_now() -> None:
    """A graph that is traced once more has numbers for symbols that turned out to be some."""
    bincount = find_op("bincount").overload_list[0].definition
    assert bincount.hidden_size(9, torch.zeros(3, dtype=torch.int64), None, 9).shape == (9,)
