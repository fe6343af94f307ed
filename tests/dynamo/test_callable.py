"""Compiled callables: called as the function is, compiled as often as needed, the original wherever that is right."""

import copy
import gc
import importlib.util
import inspect
import os
import pickle
import sys
import threading
import time
from typing import Any

import pytest

import rushlight as torch
from rushlight import _dynamo, nn


class Counting:
    """A backend that counts graphs."""

    def __init__(self):
        self.graphs = []

    def __call__(self, gm, example_inputs):
        self.graphs.append(gm)
        return gm.forward


def compiled(function, **options):
    backend = Counting()
    return torch.compile(function, backend=backend, **options), backend.graphs


def everything(a, /, b, *rest, c=3, d, **named):
    return a * b, rest, c, d, sorted(named.items())


SIGNATURES = [
    (lambda x: (x, 2.0), lambda x: {"d": 1}), (lambda x: (x, x, 5, 6), lambda x: {"d": x, "c": 4, "z": 1, "a": 2}),
    (lambda x: (x,), lambda x: {"b": x, "d": 0}),
]


@pytest.mark.parametrize("args, kwargs", SIGNATURES)
def test_arguments_are_bound_as_python_binds_them(args, kwargs):
    run, _ = compiled(everything)
    x = torch.arange(3.0)
    for _ in range(2):
        wanted, got = everything(*args(x), **kwargs(x)), run(*args(x), **kwargs(x))
        assert str(wanted) == str(got)
    assert inspect.signature(run) == inspect.signature(everything) and run.__name__ == "everything"


@pytest.mark.parametrize("args, kwargs", [((), {}), ((1,), {"d": 1}), ((1, 2), {}), ((1, 2), {"b": 1, "d": 1})])
def test_calls_that_do_not_fit_raise_what_python_raises(args, kwargs):
    run, _ = compiled(everything)
    with pytest.raises(TypeError) as wanted:
        everything(*args, **kwargs)
    with pytest.raises(TypeError) as got:
        run(*args, **kwargs)
    assert str(got.value) == str(wanted.value)


def test_defaults_are_read_at_each_call():
    def f(x, n=2, *, m=3):
        return x * n + m

    run, _ = compiled(f)
    x = torch.ones(1)
    assert run(x).item() == 5
    f.__defaults__, f.__kwdefaults__ = (4,), {"m": 1}
    assert run(x).item() == 5 and f(x).item() == 5
    f.__defaults__ = (6,)
    assert run(x).item() == 7


def test_methods_and_callable_objects():
    class Box:
        def __init__(self, n):
            self.n = n

        def scale(self, x):
            return x * self.n

        def __call__(self, x):
            return x + self.n

    box = Box(3)
    assert compiled(box.scale)[0](torch.ones(1)).item() == 3
    assert compiled(box)[0](torch.ones(1)).item() == 4
    Box.scale = compiled(Box.scale)[0]
    assert Box(5).scale(torch.ones(1)).item() == 5 and Box(6).scale(torch.ones(1)).item() == 6


# -- breaks ---------------------------------------------------------------------------------------------------------


def test_a_break_keeps_both_parts_compiled(capsys):
    def f(x):
        y = x * 2
        print("in between", y.sum().item())
        return y + 1

    run, graphs = compiled(f)
    for _ in range(2):
        assert run(torch.ones(2)).tolist() == [3, 3]
    assert len(graphs) == 2 and capsys.readouterr().out.count("in between 4.0") == 2


def test_breaks_in_loops_do_not_pile_up_frames():
    def f(x):
        total = 0.0
        for _ in range(3000):
            total += x.item()
        return total

    run, _ = compiled(f)
    assert run(torch.ones(())) == 3000


def test_breaks_inside_blocks():
    log = []

    class Noted:
        def __enter__(self):
            log.append("enter")

        def __exit__(self, kind, error, trace):
            log.append("exit" if kind is None else kind.__name__)
            return kind is ZeroDivisionError

    def f(x, n):
        with torch.no_grad():
            y = x * 2
            if y.sum().item() > 0:
                y = y + 1
            quiet = torch.is_grad_enabled()
        try:
            with Noted():
                y = y + int(y.sum().item()) // n
        finally:
            log.append("finally")
        return y * 2, quiet, torch.is_grad_enabled()

    run, _ = compiled(f)
    for n in (1, 0, 1):
        wanted = f(torch.ones(2), n), list(log)
        log.clear()
        got = run(torch.ones(2), n), list(log)
        log.clear()
        assert got[0][0].tolist() == wanted[0][0].tolist() and got[0][1:] == wanted[0][1:] and got[1] == wanted[1]
        assert torch.is_grad_enabled()


def helper_that_breaks(x):
    y = x.sin()
    if y.sum() > 0:
        return y + 1
    return y[:1] - 1


def test_functions_called_at_a_break_are_compiled_too(without_suppositions):
    def f(x):
        return helper_that_breaks(x * 2) * 3

    run, graphs = compiled(f)
    for x in (torch.ones(2), -torch.ones(2)):
        for _ in range(2):
            torch.testing.assert_close(run(x), f(x))
    assert len(graphs) >= 5      # before the call, in it up to the question, both its ways, behind it


def test_a_recursive_function():
    def power(x, n):
        if x.sum() > 1e30:
            return x
        return x if n == 0 else power(x * 2, n - 1)

    run, _ = compiled(power)
    assert run(torch.ones(1), 5).item() == 32


# -- recompiling ------------------------------------------------------------------------------------------------------


def test_sizes_that_change_become_symbols():
    run, graphs = compiled(lambda x: (x * 2).sum(0) / x.shape[0])
    for n in range(2, 66):
        assert torch.equal(run(torch.ones(n, 3)), torch.full((3,), 2.0))
    assert len(graphs) == 2
    for n in range(2, 66):
        assert run(torch.ones(7, n)).shape == (n,)
    assert len(graphs) == 3
    run(torch.ones(1, 3))      # 1 is broadcast: a graph of its own
    assert len(graphs) == 4


def test_numbers_that_change_become_symbols():
    run, graphs = compiled(lambda x, n: x * n)
    for n in range(2, 20):
        assert run(torch.ones(1), n).item() == n
    assert len(graphs) == 2


def test_dynamic_says_when():
    at_once, graphs = compiled(lambda x: x + 1, dynamic=True)
    for n in range(2, 9):
        at_once(torch.ones(n))
    assert len(graphs) == 1
    never, graphs = compiled(lambda x: x + 1, dynamic=False)
    for n in range(2, 6):
        never(torch.ones(n))
    assert len(graphs) == 4


def test_marks_on_tensors():
    run, graphs = compiled(lambda x: x + 1)
    for n in (3, 4, 5):
        x = torch.ones(n, 2)
        _dynamo.mark_dynamic(x, 0)
        run(x)
    assert len(graphs) == 1
    run, graphs = compiled(lambda x: x + 1)
    for n in (3, 4, 5):
        x = torch.ones(n, 2)
        _dynamo.mark_static(x, 0)
        run(x)
    assert len(graphs) == 3
    with pytest.raises(IndexError):
        _dynamo.mark_dynamic(torch.ones(2), 1)
    _dynamo.mark_dynamic(torch.ones(4), 0, min=2, max=8)
    with pytest.raises(ValueError, match="size 9, which is not within min=2, max=8"):
        _dynamo.mark_dynamic(torch.ones(9), 0, min=2, max=8)


def test_limits_then_as_it_is():
    run, graphs = compiled(lambda x, flag: x + len(flag), dynamic=False)
    with pytest.warns(UserWarning, match="recompile_limit"):
        for n in range(12):
            assert run(torch.ones(1), "a" * n).item() == n + 1
    assert len(graphs) == 8
    assert run(torch.ones(1), "aa").item() == 3      # what is compiled still serves


def test_why_it_is_compiled_again(monkeypatch, capsys):
    run, _ = compiled(lambda x, flag: x + 1 if flag else x - 1)
    run(torch.ones(2), True)
    monkeypatch.setenv("RUSHLIGHT_SHOW", "recompiles")
    run(torch.ones(2), "another")
    said = capsys.readouterr().err
    assert "recompiles" in said and "flag" in said and "test_callable.py" in said


def test_recompiling_can_be_an_error():
    run, _ = compiled(lambda x, flag: x + 1 if flag else x - 1)
    run(torch.ones(2), True)
    with _dynamo.config.patch(error_on_recompile=True), pytest.raises(_dynamo.exc.RecompileError, match="flag"):
        run(torch.ones(2), False)


# -- where the original runs ------------------------------------------------------------------------------------------


def test_stances():
    run, graphs = compiled(lambda x, flag: x + 1 if flag else x - 1)
    x = torch.ones(1)
    with torch.compiler.set_stance("force_eager"):
        assert run(x, True).item() == 2 and not graphs
    run(x, True)
    with torch.compiler.set_stance("eager_on_recompile"):
        assert run(x, False).item() == 0 and len(graphs) == 1
    with torch.compiler.set_stance("fail_on_recompile"), pytest.raises(_dynamo.exc.RecompileError):
        run(x, False)
    assert run(x, False).item() == 0 and len(graphs) == 2


def test_disabled_functions_run_with_all_they_call_as_they_are():
    inner, graphs = compiled(lambda x: x + 1)

    @torch.compiler.disable
    def outer(x):
        return inner(x) * 2

    assert outer(torch.ones(1)).item() == 4 and not graphs
    run, own = compiled(lambda x: outer(x * 3) - 1)
    assert run(torch.ones(1)).item() == 7 and len(own) == 2 and not graphs


def test_reset_forgets():
    run, graphs = compiled(lambda x: x + 1)
    run(torch.ones(1))
    torch.compiler.reset()
    run(torch.ones(1))
    assert len(graphs) == 2


def test_errors_of_the_program_keep_their_lines():
    def f(x, n):
        y = x + 1
        y.sum().item()
        return y, 1 // n

    run, _ = compiled(f)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError) as caught:
            run(torch.ones(1), 0)
        assert caught.traceback[-1].lineno == f.__code__.co_firstlineno + 2
    assert run(torch.ones(1), 1)[1] == 1


def test_fullgraph_says_where_and_why():
    def f(x):
        y = x * 2
        total = y.sum().item()
        return y + total if total > 3 else y

    with pytest.raises(_dynamo.exc.Unsupported) as caught:
        torch.compile(f, fullgraph=True, backend="eager")(torch.ones(2))
    said = str(caught.value)
    assert "test_callable.py" in said and "y + total if total > 3" in said and "torch.where" in said
    assert "torch._check" in said


def test_backends_that_are_not_here_are_refused():
    absent = [("tvm", "TVM")] + [("openxla", "XLA")] * (importlib.util.find_spec("jaxlib") is None)
    for name, shown in absent:
        with pytest.raises(RuntimeError, match=shown):
            torch.compile(lambda x: x, backend=name)
    assert {"inductor", "eager", "aot_eager"} <= set(_dynamo.list_backends(None))


# -- explain ----------------------------------------------------------------------------------------------------------


def test_explain_counts_graphs_and_breaks(tmp_path, without_suppositions):
    def f(x):
        y = x * 2
        if y.sum() > 0:
            return y.sin()
        return y

    found = _dynamo.explain(f)(torch.ones(2))
    assert found.graph_count == 2 and found.graph_break_count == 1 and found.op_count >= 3
    assert "test_callable.py" in found.break_reasons[0].user_stack[0]
    assert "Graph Break Count: 1" in str(found)
    page = found.html(str(tmp_path / "page.html"))
    assert "y.sum() &gt; 0" in page and (tmp_path / "page.html").read_text() == page
    whole = _dynamo.explain(nn.Linear(2, 2))(torch.ones(1, 2))
    assert whole.graph_count == 1 and whole.graph_break_count == 0


# -- copies, threads, processes ---------------------------------------------------------------------------------------


@torch.compile(backend="eager")
def in_place_of_its_name(x):
    return x + 1


def plain(x):
    return x + 1


def test_copies_and_pickles():
    assert pickle.loads(pickle.dumps(in_place_of_its_name)) is in_place_of_its_name
    run = torch.compile(plain, backend="eager")
    for again in (pickle.loads(pickle.dumps(run)), copy.deepcopy(run), copy.copy(run)):
        assert again is not run and again.function is plain and again(torch.ones(1)).item() == 2
    net = torch.compile(nn.Linear(2, 2), backend="eager")
    net(torch.ones(1, 2))
    twin = copy.deepcopy(net)
    with torch.no_grad():
        twin.weight.zero_()
    assert torch.equal(twin(torch.ones(1, 2)), twin.bias[None]) and net.weight.abs().sum() > 0


def test_copies_and_pickles_of_modules_that_compile_in_place():
    net, x = nn.Sequential(nn.Linear(2, 3), nn.ReLU()), torch.ones(1, 2)
    net.compile(backend="eager")
    expected = net(x)
    for again in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        torch.testing.assert_close(again(x), expected)
        with torch.no_grad():
            again[0].weight.zero_()
        torch.testing.assert_close(again(x), again[0].bias.relu()[None])
    torch.testing.assert_close(net(x), expected)
    whole = torch.compile(nn.Linear(2, 3), backend="eager")
    torch.testing.assert_close(pickle.loads(pickle.dumps(whole))(x), whole(x))


def test_threads_that_waited_use_what_was_compiled():
    def slow(gm, inputs):
        time.sleep(0.02)
        return gm.forward

    compiled = torch.compile(lambda x: x.sin() + 1, backend=slow)
    given = [torch.randn(n % 5 + 2, 3) for n in range(12)]
    found = {}

    def work(n):
        found[n] = compiled(given[n])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n, x in enumerate(given):
        torch.testing.assert_close(found[n], x.sin() + 1)
    assert len(compiled.entries()) <= 3     # one size, then a symbol; a thread may ask just before its turn


def test_threads_compile_once_each_kind():
    run, graphs = compiled(lambda x: (x * 2).sin() + 1, dynamic=False)
    wanted = {n: (torch.ones(n) * 2).sin() + 1 for n in (2, 3, 4)}
    failed = []

    def work():
        try:
            for _ in range(20):
                for n, result in wanted.items():
                    assert torch.equal(run(torch.ones(n)), result)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and 3 <= len(graphs) <= 12


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_children_use_and_add_to_what_is_compiled():
    run, _ = compiled(lambda x: x * 2)
    run(torch.ones(2))
    child = os.fork()
    if child == 0:
        try:
            good = run(torch.ones(2)).tolist() == [2, 2] and run(torch.ones(3, 3)).shape == (3, 3)
        finally:
            os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0


class TestGraphsCalledWithoutTheirFunction:
    """Where a compiled function only calls its graph, calls go there with what its guards looked up."""

    @staticmethod
    def taken(compiled: Any, *args: Any) -> bool:
        """Whether a call enters no Python frame of the function."""
        entered: list[Any] = []
        code = getattr(compiled, "__func__", compiled).entries()[0][1].__code__
        before = sys.getprofile()
        sys.setprofile(lambda frame, event, _: entered.append(frame.f_code) if event == "call" else None)
        try:
            compiled(*args)
        finally:
            sys.setprofile(before)
        return code not in entered

    def test_changes_of_a_module_are_seen(self) -> None:
        model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)).eval()
        run, x = torch.compile(model.forward, fullgraph=True), torch.randn(5, 4)
        for _ in range(3):
            torch.testing.assert_close(run(x), model(x))
        assert self.taken(run, x)
        with torch.no_grad():
            model[0].weight.mul_(-2)
            torch.testing.assert_close(run(x), model(x))
        model[0].weight = nn.Parameter(torch.randn(3, 4))
        gc.collect()
        torch.testing.assert_close(run(x), model(x))
        model[2] = nn.Linear(3, 2)
        gc.collect()
        torch.testing.assert_close(run(x), model(x))
        model[2].bias.data = torch.randn(2)
        torch.testing.assert_close(run(x), model(x))
        model[1].register_forward_hook(lambda module, args, result: result + 1)
        torch.testing.assert_close(run(x), model(x))
        run(x).sum().backward()
        assert model[0].weight.grad is not None

    def test_functions_that_do_more_run(self) -> None:
        kept: dict[str, Any] = {"x": None}

        def two(x: Any) -> Any:
            return x + 1, x * 2

        def writes(x: Any) -> Any:
            kept["x"] = x
            return x + 1

        def last(x: Any) -> Any:
            y = x.relu()
            return y.sum() * 2

        x = torch.randn(3)
        for function, is_taken in ((two, False), (writes, False), (last, True)):
            run = torch.compile(function, fullgraph=True)
            for _ in range(3):
                torch.testing.assert_close(run(x), function(x))
            assert self.taken(run, x) == is_taken, function.__name__
        assert kept["x"] is x

    def test_errors_name_the_function(self) -> None:
        def pick_rows(table: Any, index: Any) -> Any:
            return table[index] * 2

        run, table = torch.compile(pick_rows, fullgraph=True), torch.randn(4, 3)
        for _ in range(3):
            run(table, torch.tensor([0, 3]))
        assert self.taken(run, table, torch.tensor([0, 3]))
        with pytest.raises(IndexError) as caught:
            run(table, torch.tensor([0, 4]))
        assert "pick_rows" in [entry.name for entry in caught.traceback]

    def test_wrong_entries_are_refused(self) -> None:
        run = torch.compile(lambda x: x + 1, fullgraph=True)
        run(torch.ones(2))
        guards, function = run.entries()[0]
        for direct in ((1, 2), (len, [0], 0), (len, ("a",), 0)):
            with pytest.raises(TypeError):
                run.add_entry(guards, function, direct)
        with pytest.raises(IndexError):
            run.add_entry(guards, function, (len, (~5,), 0))
