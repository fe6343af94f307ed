"""Frames, functions of C and modules in recordings (csrc/extras/profile_stack.cpp)."""

from __future__ import annotations

import cProfile
import gc
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rushlight
from rushlight import _extras, nn
from rushlight.profiler import record_function

STACK, MODULES, THREADS = 4, 8, 16
OP, PYTHON, CALL, MODULE = 0, 8, 9, 10


class Rows:
    """A recording's rows, with what a test asks of them."""

    def __init__(self, recording: dict[str, Any]) -> None:
        columns = {name: memoryview(data).cast("q").tolist() for name, data in recording["columns"].items()}
        self.parent, self.kind, self.begin, self.end = (columns[c] for c in ("parent", "kind", "begin", "end"))
        self.thread = columns["thread"]
        self.name = [recording["names"][number] for number in columns["name"]]
        self.module = [recording["names"][number] if number >= 0 else "" for number in columns["module"]]

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.name)))

    def called(self, row: int) -> str:
        """A frame's function, without its file and line."""
        return self.name[row].rpartition(": ")[2] if self.kind[row] == PYTHON else self.name[row]

    def find(self, name: str) -> int:
        found = [row for row in self if self.called(row) == name]
        assert found, f"no {name} among {[self.called(row) for row in self]}"
        return found[0]

    def stack(self, row: int) -> list[str]:
        """What is around a row, the innermost first."""
        above, found = self.parent[row], []
        while above >= 0:
            found.append(self.called(above))
            above = self.parent[above]
        return found

    def check_nesting(self) -> None:
        for row in self:
            above = self.parent[row]
            assert self.begin[row] <= self.end[row]
            if above >= 0:
                assert above < row and self.thread[above] == self.thread[row]
                assert self.begin[above] <= self.begin[row] and self.end[row] <= self.end[above], self.name[row]


def record(run: Callable[[], Any], flags: int = STACK) -> Rows:
    """The rows of a program; its error passes, and nothing is recorded after it."""
    _extras.profile_start(flags)
    try:
        run()
    finally:
        recording = _extras.profile_stop()
    return Rows(recording)


def one_op() -> None:
    rushlight.ones(2)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)])

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


# --- frames ---------------------------------------------------------------------------------------------------------


def test_frame_is_named_by_file_and_line() -> None:
    rows = record(one_op)
    row = rows.find("one_op")
    file = os.path.join(os.path.dirname(__file__), "test_stacks.py")
    shown = rows.name[row].partition("(")[0]
    assert file.endswith(shown) and not shown.startswith(os.sep)
    assert rows.name[row] == f"{shown}({one_op.__code__.co_firstlineno}): one_op"
    assert rows.stack(rows.find("aten::ones"))[0] == "one_op"


def test_frames_there_at_the_start_are_open_to_the_end() -> None:
    rows = record(one_op)
    assert rows.called(rows.find("aten::ones")) == "aten::ones"
    assert rows.stack(rows.find("one_op"))[0] == "record"
    record_row = rows.find("record")
    assert rows.begin[record_row] <= rows.begin[rows.find("one_op")]
    assert rows.end[record_row] >= max(rows.end[row] for row in rows if rows.parent[row] == record_row)
    assert str(record.__code__.co_firstlineno) not in rows.name[record_row]      # where it stood, not where it begins


def test_generators_go_on_where_they_stopped() -> None:
    def numbers() -> Iterator[int]:
        yield 1
        rushlight.ones(1)
        yield 2

    rows = record(lambda: list(numbers()))
    first = numbers.__code__.co_firstlineno
    found = [rows.name[row] for row in rows if rows.called(row) == "numbers"]
    assert [int(name.partition("(")[2].partition(")")[0]) - first for name in found] == [0, 1, 3]
    assert rows.stack(rows.find("aten::ones"))[0] == "numbers"
    rows.check_nesting()


def test_exceptions_end_frames() -> None:
    def fail() -> None:
        raise ValueError

    def program() -> None:
        try:
            fail()
        except ValueError:
            rushlight.ones(1)
        try:
            iter(3)      # type: ignore[call-overload]
        except TypeError:
            rushlight.zeros(1)

    rows = record(program)
    rows.check_nesting()
    assert rows.stack(rows.find("aten::ones"))[0] == "program"
    assert rows.stack(rows.find("aten::zeros"))[0] == "program"


def test_an_error_leaves_the_next_recording_clean() -> None:
    def fail() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        record(fail)
    assert sys.getprofile() is None
    rows = record(one_op)
    assert not [row for row in rows if rows.called(row) == "fail"]


def test_recursion() -> None:
    def down(depth: int) -> None:
        down(depth - 1) if depth else rushlight.ones(1)

    rows = record(lambda: down(300))
    assert rows.stack(rows.find("aten::ones")).count("down") == 301
    rows.check_nesting()


def test_endless_recursion_is_the_programs_error() -> None:
    def endless() -> None:
        endless()

    def program() -> None:
        with pytest.raises(RecursionError):
            endless()
        rushlight.ones(1)

    rows = record(program)
    assert rows.stack(rows.find("aten::ones"))[0] == "program"


def test_functions_of_c() -> None:
    rows = record(lambda: (len([1]), sorted([2, 1], key=lambda v: -v), [].append(1)))
    assert rows.kind[rows.find("<built-in function len>")] == CALL
    keys = [row for row in rows if rows.called(row) == "<lambda>"]
    assert [row for row in keys if rows.stack(row)[0] == "<built-in function sorted>"]
    assert [row for row in rows if rows.name[row].startswith("<built-in method append of list object at 0x")]


def test_labels_stand_in_the_frame_that_opened_them() -> None:
    class Wrapped:
        def __enter__(self) -> None:
            self.label = record_function("label")
            self.label.__enter__()

        def __exit__(self, *error: object) -> None:
            self.label.__exit__(*error)

    def program() -> None:
        with Wrapped():
            rushlight.ones(1)
        with record_function("own"):
            rushlight.zeros(1)
        rushlight.full((1,), 2.0)

    rows = record(program)
    assert rows.stack(rows.find("aten::ones"))[:2] == ["label", "program"]
    assert rows.stack(rows.find("aten::zeros"))[:2] == ["own", "program"]
    assert rows.stack(rows.find("aten::full"))[0] == "program"
    rows.check_nesting()


def test_how_an_op_works_is_not_shown() -> None:
    def program() -> None:
        nn.functional.cosine_embedding_loss(rushlight.ones(2, 3), rushlight.ones(2, 3), rushlight.ones(2))
        rushlight.special.logit(rushlight.full((3, 1, 2), 0.5))      # planned here for the first time
        rushlight.func.vmap(rushlight.add)(rushlight.ones(2, 3), rushlight.ones(2, 3))      # batched in Python

    rows = record(program)
    ops = {row for row in rows if rows.kind[row] == OP}
    assert not [rows.name[row] for row in rows if rows.kind[row] in (PYTHON, CALL) and rows.parent[row] in ops]
    frames = [rows.name[row] for row in rows if rows.kind[row] in (PYTHON, CALL)]
    inner = ("rushlight/op/", "rushlight/definitions/", "rushlight/planners/", "rushlight/codegen/", "importlib")
    assert not [name for name in frames if name.startswith(inner) or "importlib" in name]
    assert not [name for name in frames if name.startswith(("rushlight/profiler/", "rushlight/autograd/labels"))]


def test_a_custom_ops_function_is_shown() -> None:
    @rushlight.library.custom_op("stacks::halved", mutates_args=())
    def halved(x: rushlight.Tensor) -> rushlight.Tensor:
        return halve(x)

    def halve(x: Any) -> Any:
        return x * 0.5

    x = rushlight.ones(2)
    for call in (halved, rushlight.ops.stacks.halved, rushlight.ops.stacks.halved.default):
        rows = record(lambda call=call: call(x))
        assert rows.stack(rows.find("aten::mul"))[:3] == ["halve", "halved", "stacks::halved"]
        assert not [row for row in rows if rows.name[row].startswith(("rushlight/op/", "rushlight/base/"))]


def test_our_functions_are_shown_as_torch_shows_its_own() -> None:
    model, x = nn.Linear(2, 2), rushlight.ones(1, 2)
    rows = record(lambda: model(x))
    above = rows.stack(rows.find("aten::linear"))
    assert above[:2] == ["forward", "nn.Module: Linear_0"]
    assert rows.name[rows.find("forward")].startswith("rushlight/nn/modules/linear.py(")


# --- who else watches -----------------------------------------------------------------------------------------------


def test_another_profiler_gets_the_thread_back() -> None:
    other = cProfile.Profile()
    other.enable()
    try:
        with pytest.warns(UserWarning, match="sys.setprofile"):
            rows = record(one_op)
        assert sys.getprofile() is other
    finally:
        other.disable()
    assert rows.find("one_op") >= 0


def test_a_profiler_set_meanwhile_stays() -> None:
    seen: list[str] = []

    def watch(frame: Any, event: str, arg: Any) -> None:
        seen.append(event)

    try:
        record(lambda: sys.setprofile(watch))
        assert sys.getprofile() is watch
    finally:
        sys.setprofile(None)


def test_a_warning_that_is_an_error_starts_nothing() -> None:
    sys.setprofile(lambda *event: None)
    try:
        with warnings.catch_warnings(), pytest.raises(UserWarning):
            warnings.simplefilter("error")
            _extras.profile_start(STACK)
        assert not _extras.profile_is_on()
    finally:
        sys.setprofile(None)


def test_compiled_functions_compile_what_they_call() -> None:
    def double(x: Any) -> Any:
        return x * 2

    def program(values: list[Any]) -> Any:
        values = sorted(values, key=lambda x: double(x).sum().item())
        return values[0] + 1

    compiled = rushlight.compile(program)
    values = [rushlight.full((2,), 3.0), rushlight.ones(2)]
    rows = record(lambda: compiled(values))
    assert sys.getprofile() is None
    assert not [row for row in rows if rows.name[row].startswith(("rushlight/dynamo", "rushlight/inductor"))]
    rows = record(lambda: compiled(values))
    assert compiled(values).tolist() == [2.0, 2.0]
    assert not [row for row in rows if rows.called(row) == "double"]      # inlined: the hook still compiles the key
    rows.check_nesting()


# --- threads, pauses, forks -----------------------------------------------------------------------------------------


def in_thread(run: Callable[[], Any]) -> Callable[[], None]:
    def program() -> None:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()

    return program


@pytest.mark.parametrize("flags", [STACK, STACK | THREADS])
def test_threads_take_part_when_asked(flags: int) -> None:
    rows = record(in_thread(one_op), flags)
    found = [row for row in rows if rows.called(row) == "aten::ones"]
    assert len(found) == (1 if flags & THREADS else 0)
    for row in found:
        assert rows.thread[row] == 1
        assert rows.stack(row)[:3] == ["one_op", "run", "_bootstrap_inner"]
    rows.check_nesting()


def test_a_thread_that_outlives_the_recording_is_left_alone() -> None:
    go, gone, found = threading.Event(), threading.Event(), []

    def work() -> None:
        rushlight.ones(1)
        go.set()
        gone.wait()
        one_op()
        found.append(sys.getprofile())

    thread = threading.Thread(target=work)

    def program() -> None:
        thread.start()
        go.wait()

    record(program, STACK | THREADS)
    gone.set()
    thread.join()
    assert found == [None]


def test_pauses() -> None:
    def pause() -> None:
        _extras.profile_toggle(False)

    def again() -> None:
        _extras.profile_toggle(True)
        rushlight.zeros(1)

    def program() -> None:
        pause()
        one_op()
        again()
        rushlight.full((1,), 2.0)

    rows = record(program)
    assert not [row for row in rows if rows.called(row) in ("one_op", "aten::ones")]
    assert rows.stack(rows.find("aten::zeros"))[:2] == ["again", "program"]
    assert rows.stack(rows.find("aten::full"))[0] == "program"
    ended = [row for row in rows if rows.called(row) == "program"]
    assert len(ended) == 2 and rows.end[ended[0]] <= rows.begin[ended[1]]
    rows.check_nesting()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_fork() -> None:
    def program() -> None:
        child = os.fork()
        if not child:
            one_op()
            os._exit(0 if sys.getprofile() is None else 1)
        _, status = os.waitpid(child, 0)
        assert status == 0
        one_op()

    rows = record(program)
    assert rows.stack(rows.find("aten::ones"))[:2] == ["one_op", "program"]


# --- modules --------------------------------------------------------------------------------------------------------


def test_modules_are_numbered_by_class() -> None:
    model, x = Net(), rushlight.ones(1, 2)
    rows = record(lambda: (model(x), model(x), Net()(x)))
    names = [rows.name[row] for row in rows if rows.kind[row] == MODULE]
    once = ["nn.Module: Net_0", "nn.Module: Linear_0", "nn.Module: ReLU_0", "nn.Module: Linear_1"]
    other = ["nn.Module: Net_1", "nn.Module: Linear_2", "nn.Module: ReLU_1", "nn.Module: Linear_3"]
    assert names == once + once + other
    rows.check_nesting()


def test_a_module_that_calls_by_name() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(2, 2)

        def __call__(self, x: Any) -> Any:
            return super().__call__(x)

        def forward(self, x: Any) -> Any:
            return self.inner(x)

    model, x = Own(), rushlight.ones(1, 2)
    rows = record(lambda: model(x), STACK | MODULES)
    above = [name for name in rows.stack(rows.find("aten::linear")) if name.startswith("nn.Module")]
    assert above == ["nn.Module: Linear_0", "nn.Module: Own_0"]
    assert rows.module[rows.find("aten::linear")] == "TOP(Own)::forward.inner(Linear)::forward."


def test_hooks_of_modules_stand_in_them() -> None:
    def hook(module: Any, args: Any, result: Any) -> Any:
        return result.relu()

    model, x = nn.Linear(2, 2), rushlight.ones(1, 2)
    model.register_forward_hook(hook)
    rows = record(lambda: model(x))
    above = rows.stack(rows.find("aten::relu"))
    assert above[0] == "hook" and "nn.Module: Linear_0" in above


@pytest.mark.parametrize("flags", [MODULES, MODULES | STACK])
def test_calls_have_the_path_of_modules_around_them(flags: int) -> None:
    model, x = Net(), rushlight.ones(1, 2)

    def program() -> None:
        model.layers[1](x)
        model(x)
        rushlight.ones(1)

    rows = record(program, flags)
    assert sys.getprofile() is None
    if flags == MODULES:
        assert {rows.kind[row] for row in rows} == {OP}      # no frames, nor modules as events
    assert [rows.module[row] for row in rows if rows.kind[row] == OP] == [
        "TOP(ReLU)::forward.",
        "TOP(Net)::forward.layers.0(Linear)::forward.",
        "TOP(Net)::forward.layers.1(ReLU)::forward.",
        "TOP(Net)::forward.layers.2(Linear)::forward.",
        "",
    ]


def test_an_error_leaves_the_path_of_modules() -> None:
    class Failing(nn.Module):
        def forward(self, x: Any) -> Any:
            raise ValueError

    def program() -> None:
        with pytest.raises(ValueError):
            Failing()(None)
        rushlight.ones(1)

    rows = record(program, MODULES)
    assert rows.module[rows.find("aten::ones")] == ""


def test_a_module_of_no_other_has_no_name_in_it() -> None:
    class Outer(nn.Module):
        def forward(self, x: Any) -> Any:
            return nn.ReLU()(x)

    model, x = Outer(), rushlight.ones(1, 2)
    rows = record(lambda: model(x), MODULES)
    assert rows.module[rows.find("aten::relu")] == "TOP(Outer)::forward.(ReLU)::forward."


def test_a_recording_keeps_no_module_alive() -> None:
    x = rushlight.ones(1, 2)
    alive: list[Any] = []

    def program() -> None:
        for _ in range(3):
            model = nn.ReLU()
            model(x)
            alive.append(weakref.ref(model))
            del model
        gc.collect()
        assert [one() for one in alive] == [None] * 3

    rows = record(program)
    found = [rows.name[row] for row in rows if rows.kind[row] == MODULE]
    assert found == ["nn.Module: ReLU_0", "nn.Module: ReLU_1", "nn.Module: ReLU_2"]      # one address, three modules
