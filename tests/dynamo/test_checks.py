"""Branches on elements that only check: captured along the usual side, and as in eager code where a check fails."""

from __future__ import annotations

import gc
import traceback
import warnings

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.dynamo.record.counting import counters

BACKENDS = ["eager", "inductor"]
good, bad = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, -2.0, 3.0])


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    counters.clear()


def compiled(function, backend="eager", fullgraph=True):
    return torch.compile(function, backend=backend, fullgraph=fullgraph)


def outcome(function, *args, **kwargs):
    """The result, or the exception with the lines of this file that it came through; and what was warned of."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            result = function(*args, **kwargs)
            found = result.tolist() if isinstance(result, torch.Tensor) else result
        except Exception as error:      # noqa: BLE001 - compared
            lines = [(f.name, f.lineno) for f in traceback.extract_tb(error.__traceback__)[1:]]
            found = type(error), str(error), error.__context__, lines
    return found, [(str(w.message), w.category, w.filename, w.lineno) for w in said]


def same(function, *calls, backend="eager", fullgraph=True):
    """Whether each call does what it does uncompiled; `calls` make their arguments."""
    fast = compiled(function, backend, fullgraph)
    for make in calls:
        given, again = make(), make()
        want = outcome(function, *given)
        assert outcome(fast, *again) == want
        assert [repr(a) for a in again if isinstance(a, torch.Tensor)] == [
            repr(a) for a in given if isinstance(a, torch.Tensor)]
    assert not counters["graph_break"] or not fullgraph


def raises_if_any(x):
    y = x * 2
    if (x < 0).any():
        raise ValueError(f"negative: {x.min().item()}")
    return y.sqrt()


def raises_unless_all(x):
    if not (x >= 0).all():
        raise ValueError("negative")
    return x.sqrt()


def asserts(x):
    assert (x >= 0).all(), "negative"
    return x.sqrt()


def raises_for_one_of_two(x):
    if (x < 0).any() or x.sum() > 100:
        raise ValueError("out of range")
    return x.sqrt()


def returns_only_if_fine(x):
    if (x >= 0).all():
        return x.sqrt()
    raise ValueError("negative")


def compares_numbers(x):
    if x.min() < 0:
        raise ValueError("negative")
    if x.max() > 100:
        raise ValueError("large")
    return x.sqrt()


def raises_in_a_loop(x):
    for row in x.unbind():
        if row < 0:
            raise ValueError("negative")
    return x.sqrt()


def raises_with_a_cause(x):
    if (x < 0).any():
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError("outer") from error
    return x + 1


CHECKS = [raises_if_any, raises_unless_all, asserts, raises_for_one_of_two, returns_only_if_fine, compares_numbers,
          raises_in_a_loop]


@pytest.mark.parametrize("function", CHECKS, ids=lambda f: f.__name__)
def test_both_outcomes(function):
    same(function, lambda: (good.clone(),), lambda: (bad.clone(),), lambda: (good.clone() * 4,),
         lambda: (good.clone() * 80,), lambda: (bad.clone(),), lambda: (bad.clone(),))


def test_both_outcomes_of_machine_code():
    same(compares_numbers, lambda: (good.clone(),), lambda: (bad.clone(),), lambda: (good * 80,), backend="inductor")


def test_a_cause_is_kept():
    fast = compiled(raises_with_a_cause)
    with pytest.raises(ValueError, match="outer") as caught:
        fast(bad)
    assert isinstance(caught.value.__cause__, KeyError)
    assert fast(good).tolist() == [2.0, 3.0, 4.0]


def test_nan_is_true():
    def f(x):
        if x.sum():
            raise ValueError("something")
        return x + 1

    same(f, lambda: (torch.zeros(2),), lambda: (torch.tensor([float("nan"), 0.0]),), lambda: (torch.ones(2),))


# --- warnings ---------------------------------------------------------------------------------------------------------


def warns(x):
    if x.var() < 1e-3:
        warnings.warn("hardly any variance", stacklevel=2)
    return x / (x.std() + 1e-3)


def warns_and_goes_another_way(x):
    if x[-1] <= 0:
        warnings.warn("no samples", RuntimeWarning, stacklevel=1)
        y = torch.zeros_like(x)
    else:
        y = x / x[-1]
    return y * 2


@pytest.mark.parametrize("function", [warns, warns_and_goes_another_way], ids=lambda f: f.__name__)
def test_warnings_name_the_same_line(function):
    same(function, lambda: (good,), lambda: (torch.zeros(3),), lambda: (good * 2,))


def clean(x, strategy):
    nans = torch.isnan(x)
    if nans.any():
        if strategy == "error":
            raise RuntimeError("nan")
        if strategy == "warn":
            warnings.warn("nan values are removed", stacklevel=2)
        x = x[~nans]
    return x.sum()


@pytest.mark.parametrize("strategy", ["error", "warn", "ignore"])
def test_a_side_that_may_raise_is_the_rare_one(strategy):
    holed = torch.tensor([1.0, float("nan"), 3.0])
    fast = compiled(clean, fullgraph=False)
    for x in (good, holed, good):
        assert outcome(fast, x, strategy) == outcome(clean, x, strategy)
    assert not counters["graph_break"]


def test_with_fullgraph_it_breaks_where_it_may_be_the_usual_side():
    with pytest.raises(torch._dynamo.exc.Unsupported, match="the truth of a tensor decides"):
        compiled(clean)(good, "warn")


def test_other_branches_break_as_before():
    def f(x):
        return x.sin() if x.sum() > 0 else x.cos()

    with pytest.raises(torch._dynamo.exc.Unsupported, match="the truth of a tensor decides"):
        compiled(f)(good.clone().requires_grad_())


# --- what is left behind ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_the_graph_wrote_to_is_put_back(backend):
    def f(x, total, view, seen):
        total.add_(x.sum())
        view[1:].mul_(2)
        total.data.add_(1)
        seen.append("before")
        if (x < 0).any():
            total.mul_(100)
            raise ValueError("negative")
        seen.append("behind")
        total.add_(1)
        return x.sqrt()

    base, base2 = torch.ones(4), torch.ones(4)
    mine, yours = [torch.zeros(()), base[::2], []], [torch.zeros(()), base2[::2], []]
    fast = compiled(f, backend)
    for x in (good, bad, good):
        assert outcome(fast, x, *mine) == outcome(f, x, *yours)
        assert mine[0].item() == yours[0].item()
        assert base.tolist() == base2.tolist()
        assert mine[2] == yours[2]
    assert not counters["graph_break"]


def test_buffers_of_modules():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(2)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            y = self.norm(x)
            self.calls += 1
            if not torch.isfinite(x).all():
                raise ValueError("not finite")
            return y

    mine, yours = Counts(), Counts()
    fast = torch.compile(mine, backend="inductor", fullgraph=True)
    x, holed = torch.randn(4, 2), torch.full((4, 2), float("inf"))
    for given in (x, holed, x):
        a, b = outcome(fast, given), outcome(yours, given)
        assert a[0][:2] == b[0][:2] if given is holed else torch.allclose(torch.tensor(a[0]), torch.tensor(b[0]))
        for ours, theirs in zip(mine.state_dict().values(), yours.state_dict().values(), strict=True):
            torch.testing.assert_close(ours, theirs, equal_nan=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_random_numbers_are_drawn_once(backend):
    def f(x):
        y = torch.nn.functional.dropout(x, 0.5)
        if (x < 0).any():
            raise ValueError(f"negative, and drew {torch.rand(()).item()}")
        return y + torch.rand(3)

    fast = compiled(f, backend)
    states = []
    for function in (f, fast):
        torch.manual_seed(5)
        found = [outcome(function, x)[0][:2] for x in (good, bad, good)]
        states.append((found, torch.get_rng_state().tolist()))
    assert states[0] == states[1]


def test_effects_come_behind_the_check(capsys):
    class Box:
        value = 0

    box = Box()

    def f(x, table):
        box.value += 1
        table["x"] = x
        print("seen")
        if (x < 0).any():
            raise ValueError("negative")
        box.value += 10
        return x + 1

    fast = compiled(f)
    table = {}
    fast(good, table)
    assert box.value == 11 and table["x"] is good and capsys.readouterr().out == "seen\n"
    with pytest.raises(ValueError, match="negative"):
        fast(bad, table)
    assert box.value == 12 and table["x"] is bad and capsys.readouterr().out == "seen\n"


def test_a_graph_that_raises_behind_a_check():
    """What is out of range was refused before it was looked up."""
    def f(table, index):
        if (index >= 3).any():
            raise IndexError("my own words")
        return table[index] * 2

    same(f, lambda: (good, torch.tensor([0, 2])), lambda: (good, torch.tensor([1, 7])), backend="inductor")


def test_modes_of_a_graph_that_raises():
    def f(table, index):
        with torch.no_grad():
            if (index >= 3).any():
                raise IndexError("my own words")
            y = table[index] * 2
        return y + table.sum()

    fast = compiled(f)
    assert fast(good, torch.tensor([0])).tolist() == f(good, torch.tensor([0])).tolist()
    with pytest.raises(IndexError, match="my own words"):
        fast(good, torch.tensor([5]))
    assert torch.is_grad_enabled()


def test_interruptions_are_passed_on():
    class Stop(BaseException):
        pass

    def backend(graph, examples):
        def run(*args):
            raise Stop

        return run

    with pytest.raises(Stop) as caught:
        torch.compile(raises_if_any, backend=backend)(good)
    assert caught.value.__context__ is None


def test_inference_mode():
    def f(x, total):
        total += x.sum()
        if (x < 0).any():
            raise ValueError("negative")
        return x.sqrt() + total

    totals = torch.zeros(()), torch.zeros(())
    fast = compiled(f)
    with torch.inference_mode():
        for x in (good, bad, good):
            assert outcome(fast, x, totals[0]) == outcome(f, x, totals[1])
            assert totals[0].item() == totals[1].item()


# --- programs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_training(backend):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x):
            y = self.linear(x).relu()
            if not torch.isfinite(y).all():
                raise ValueError("diverged")
            return y.sum()

    torch.manual_seed(0)
    model = Model()
    fast = torch.compile(model, backend=backend, fullgraph=True)
    found = []
    for one in (model, fast):
        model.zero_grad()
        one(good).backward()
        with pytest.raises(ValueError, match="diverged"):
            one(good / 0)
        one(good * 2).backward()
        found.append([p.grad.clone() for p in model.parameters()])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b)


def validate(x, name):
    if (x < 0).any():
        raise ValueError(f"{name} is negative")


def test_in_a_function_that_is_called():
    def f(x, y):
        validate(x, "x")
        z = x + y
        validate(y, "y")
        return z

    same(f, lambda: (good, good), lambda: (bad, good), lambda: (good, bad), lambda: (good, good))


def test_a_try_block_around_catches():
    def f(x):
        try:
            y = x * 2
            if (x < 0).any():
                raise ValueError("negative")
        except ValueError:
            return x.abs()
        finally:
            x = x + 1
        return y + x

    same(f, lambda: (good,), lambda: (bad,), lambda: (good,))


def test_a_with_block_around_is_left():
    left = []

    class Block:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, trace):
            left.append(kind)
            return True

    def f(x):
        with Block():
            validate(x, "x")
            return x + 1
        return x - 1

    same(f, lambda: (good,), lambda: (bad,), lambda: (good,))
    assert left == [None, None, ValueError, ValueError, None, None]


def test_all_kinds_of_parameters():
    def f(x, /, y=1.0, *rest, scale, **named):
        if (x < 0).any():
            raise ValueError(f"{y} {len(rest)} {scale} {sorted(named)}")
        return x * scale + y + len(rest) + len(named)

    fast = compiled(f)
    for x in (good, bad):
        for args, kwargs in (((x,), {"scale": 2}), ((x, 3.0, x, x), {"scale": 4, "a": 1, "b": x})):
            assert outcome(fast, *args, **kwargs) == outcome(f, *args, **kwargs)


def test_cells_and_methods():
    class Limits:
        def __init__(self, low):
            self.low = low

        def apply(self, x):
            def inner():
                if (x < self.low).any():
                    raise ValueError(f"below {self.low}")
                return x - self.low

            return inner() + offset

    offset = 1.0
    limits = Limits(0.0)
    fast = torch.compile(limits.apply, backend="eager", fullgraph=True)
    for x in (good, bad):
        assert outcome(fast, x) == outcome(limits.apply, x)


def test_in_the_rest_behind_a_break():
    def f(x):
        y = x * 2
        torch._dynamo.graph_break()
        if (y < 0).any():
            raise ValueError("negative")
        return sorted([y.sum(), y.max()], key=key)[0] + 1

    def key(t):
        if t.isnan().any():
            raise ValueError("nan")
        return float(t)

    fast = compiled(f, fullgraph=False)
    for x in (good, bad, good / 0 * 0, good):
        got, want = outcome(fast, x), outcome(f, x)
        assert got[0][:3] == want[0][:3] if isinstance(want[0], tuple) else got == want


def test_sizes_that_vary():
    fast = compiled(raises_if_any)
    for n in (3, 4, 5, 6):
        x = torch.ones(n)
        assert fast(x).tolist() == raises_if_any(x).tolist()
        x[1] = -1
        with pytest.raises(ValueError, match="negative: -1"):
            fast(x)


# --- giving up --------------------------------------------------------------------------------------------------------


def test_twice_in_a_row_is_a_break():
    calls = []

    def backend(graph, examples):
        def run(*args):
            calls.append(graph)
            return graph.forward(*args)

        return run

    fast = torch.compile(warns_and_goes_another_way, backend=backend)
    low = torch.zeros(3)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        for x in (low, good, low, good, low, low):
            assert fast(x).tolist() == warns_and_goes_another_way(x).tolist()
        assert not counters["graph_break"]
        assert len({id(graph) for graph in calls}) == 1
        for x in (low, good, low, good):
            assert fast(x).tolist() == warns_and_goes_another_way(x).tolist()
    assert sum(counters["graph_break"].values()) == 1
    del fast
    gc.collect()


def test_fullgraph_stays_whole():
    fast = compiled(warns_and_goes_another_way)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(4):
            assert fast(torch.zeros(3)).tolist() == [0, 0, 0]
        assert fast(good).tolist() == warns_and_goes_another_way(good).tolist()
    assert len(said) == 4 and not counters["graph_break"]


def test_a_history_cannot_be_put_back():
    """Then the branch breaks the graph, as it did before."""
    def f(x, w):
        x.mul_(w)
        if (w < 0).any():
            raise ValueError("negative")
        return x.sum()

    def run(function, w):
        w = w.clone().requires_grad_()
        x = torch.ones(3) * w
        try:
            function(x, w).backward()
        except ValueError as error:
            return str(error), x.tolist()
        return w.grad.tolist(), x.tolist()

    fast = compiled(f, fullgraph=False)
    for w in (good, bad, good):
        assert run(fast, w) == run(f, w)
    assert counters["graph_break"]


def test_a_region_breaks():
    def f(x):
        def row(r):
            if r.sum() < 0:
                raise ValueError("negative")
            return r * 2

        return torch.vmap(row)(x)

    with pytest.raises(Exception):      # noqa: B017, PT011 - vmap refuses elements, compiled or not
        compiled(f, fullgraph=False)(torch.ones(2, 3))


# --- telling ----------------------------------------------------------------------------------------------------------


def test_explain_lists_checks():
    report = torch._dynamo.explain(raises_if_any)(good)
    assert report.graph_break_count == 0
    assert len(report.checks) == 1
    assert "assumed False" in report.checks[0] and "in raises_if_any" in report.checks[0]
    assert report.checks[0] in str(report)
    assert "Checked at each call" in report.html()


# --- numbers that only elements tell ----------------------------------------------------------------------------------


def test_numbers_from_elements():
    def f(x, n):
        size = int(n)
        if size > 3:
            raise ValueError(f"{size} are too many")
        if n.item() < 0:
            raise ValueError("negative")
        return x * size

    same(f, lambda: (good, torch.tensor(2)), lambda: (good, torch.tensor(7)), lambda: (good, torch.tensor(-1)),
         lambda: (good, torch.tensor(3)))


def test_sizes_from_elements():
    def f(x):
        found = x[x > 0]
        if found.shape[0] < 2:
            raise ValueError(f"only {len(found)} left")
        return found * 2

    fast = compiled(f, fullgraph=False)
    for x in (good, bad, -good, good):
        assert outcome(fast, x) == outcome(f, x)
