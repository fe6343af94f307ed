"""Recordings: which events, how they nest, and what happens to them when a program does something else meanwhile."""

from __future__ import annotations

import os
import threading

import pytest

import rushlight as rl
from rushlight import _extras
from rushlight.autograd.profiler import record_function
from tests.profiler.recorded import (
    COLLECTIVE,
    COMPILE,
    EVALUATE,
    INNER,
    KERNEL,
    KERNELS,
    MEM,
    MEMORY,
    NODE,
    OP,
    REGION,
    SHAPES,
    THREADS,
    USER,
    record,
    rows,
    top,
)


class Doubled(rl.autograd.Function):
    """A Function of the program's."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def names(events, *kinds):
    return [e.name for e in events if not kinds or e.kind in kinds]


def test_the_programs_calls_have_pytorchs_names_and_what_is_below_has_ours():
    x = rl.randn(4, 4)
    events = record(lambda: rl.nn.functional.layer_norm((1 - x).relu_(), (4,)).logsumexp(0))
    assert names(top(events)) == ["aten::rsub", "aten::relu_", "aten::layer_norm", "aten::logsumexp"]
    assert all(e.name.startswith("rushlight::") for e in events if e.parent >= 0)


def test_events_nest_and_are_in_order():
    x = rl.randn(3, requires_grad=True)
    events = record(lambda: (rl.nn.functional.cosine_similarity(x, x + 1, 0) * 2).backward())
    assert any(e.parent >= 0 for e in events)
    for i, e in enumerate(events):
        assert e.begin <= e.end
        assert e.parent < i
        if e.parent >= 0:
            assert events[e.parent].begin <= e.begin
            assert e.end <= events[e.parent].end
    assert [e.begin for e in events] == sorted(e.begin for e in events)


def test_nodes_of_backward_carry_the_number_of_their_forward_call():
    x = rl.randn(3, requires_grad=True)
    events = record(lambda: (x * 2).exp().sum().backward())
    forward = {e.name: e.sequence for e in events if e.kind == OP}
    evaluated = [e for e in events if e.kind == EVALUATE]
    assert names(evaluated) == [
        "autograd::engine::evaluate_function: SumBackward0", "autograd::engine::evaluate_function: ExpBackward0",
        "autograd::engine::evaluate_function: MulBackward0",
        "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad",
    ]
    wanted = [forward["aten::sum"], forward["aten::exp"], forward["aten::mul"], -1]
    assert [e.sequence for e in evaluated] == wanted
    nodes = [e for e in events if e.kind == NODE]
    assert names(nodes) == ["SumBackward0", "ExpBackward0", "MulBackward0", "torch::autograd::AccumulateGrad"]
    assert [e.sequence for e in nodes] == wanted
    assert [events[e.parent].name.rpartition(": ")[2] for e in nodes] == names(nodes)
    assert wanted[2] < wanted[1] < wanted[0]
    assert {e.forward_thread for e in nodes if e.sequence >= 0} == {nodes[0].forward_thread} != {0}


def test_calls_without_tensors_or_without_grad_mode_have_no_number():
    def program():
        rl.zeros(3)
        with rl.no_grad():
            rl.ones_like(x) + x
        x + 1

    x = rl.randn(3)
    events = record(program)
    assert [e.sequence >= 0 for e in events if e.kind == OP] == [False, False, False, True]


def test_functions_custom_ops_and_regions_go_by_their_names():
    @rl.library.custom_op("recording_test::twice", mutates_args=())
    def twice(x: rl.Tensor) -> rl.Tensor:
        return x.sin() * 2

    compiled = rl.compile(lambda t: t.cos() + 1)
    x = rl.randn(3, requires_grad=True)
    with rl.no_grad():
        compiled(x)

    def program():
        Doubled.apply(x).sum().backward()
        with rl.no_grad():
            twice(x)
            compiled(x)

    events = record(program)
    tree = {e.name: [c.name for c in events if c.parent == i] for i, e in enumerate(events)}
    assert tree["Doubled"] == ["aten::mul"]
    assert tree["DoubledBackward"] == ["aten::mul"]
    assert tree["recording_test::twice"] == ["aten::sin", "aten::mul"]
    regions = [e for e in events if e.kind == REGION]
    assert len(regions) == 1
    assert regions[0].name.startswith("Torch-Compiled Region: ")


def test_optimizers_and_loaders_say_what_they_do():
    p = rl.nn.Parameter(rl.randn(3))
    p.grad = rl.ones(3)
    optimizer = rl.optim.Adam([p])

    def program():
        for _ in rl.utils.data.DataLoader([1.0, 2.0]):
            pass
        optimizer.step()
        optimizer.zero_grad()

    assert names(record(program), USER) == [
        *["enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"] * 3,
        "Optimizer.step#Adam.step", "Optimizer.zero_grad#Adam.zero_grad",
    ]


def test_record_function_is_a_context_and_a_decorator():
    x = rl.randn(3)

    @record_function("decorated")
    def add(a):
        return a + 1

    def program():
        with record_function("outer"), record_function("inner", "some text"):
            x + 1
        add(add(x))

    events = record(program)
    parents = [(e.name, events[e.parent].name if e.parent >= 0 else None) for e in events if e.kind in (OP, USER)]
    assert parents == [
        ("outer", None), ("inner", "outer"), ("aten::add", "inner"), ("decorated", None), ("aten::add", "decorated"),
        ("decorated", None), ("aten::add", "decorated"),
    ]
    with pytest.raises(TypeError, match="must be a str"):
        record_function(3)


def test_shapes_of_gradients_and_texts_of_labels():
    x = rl.randn(3, 2, requires_grad=True)

    def program():
        with record_function("label", "text"):
            x.exp().sum().backward()

    shown = {e.name: e.inputs for e in record(program, SHAPES) if e.kind in (NODE, USER)}
    assert shown == {
        "label": ([[]], [""], [[]], [""]), "SumBackward0": ([[]], ["float"], [[]], [""]),
        "ExpBackward0": ([[3, 2]], ["float"], [[0, 0]], [""]),
        "torch::autograd::AccumulateGrad": ([[3, 2]], ["float"], [[2, 1]], [""]),
    }


def test_collectives_have_pytorchs_names():
    store = rl.distributed.HashStore()
    rl.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        events = record(lambda: (rl.distributed.all_reduce(rl.ones(3)), rl.distributed.barrier()))
    finally:
        rl.distributed.destroy_process_group()
    assert [e.name for e in events if e.kind == COLLECTIVE] == ["c10d::allreduce_", "c10d::barrier"]
    assert all(e.kind != OP for e in events if e.parent >= 0 and events[e.parent].kind == COLLECTIVE)


def test_a_label_ends_with_a_future():
    def program():
        with record_function("waits") as label:
            future = rl.futures.Future()
            last.append(label._call_end_callbacks_on_future(future))
        x + 1
        future.set_result(7)

    last, x = [], rl.randn(2)
    events = record(program)
    assert last[0].wait() == 7
    assert [(e.name, e.parent) for e in events if e.kind in (OP, USER)] == [("waits", -1), ("aten::add", 0)]


def test_errors_close_events_and_the_next_recording_is_clean():
    def program():
        with pytest.raises(RuntimeError):
            rl.mm(x, x)
        with pytest.raises(ZeroDivisionError), record_function("fails"):
            raise ZeroDivisionError
        x + 1

    x = rl.randn(3)
    for _ in range(2):
        events = [e for e in record(program) if e.kind in (OP, USER)]
        assert [(e.name, e.parent) for e in events] == [("aten::mm", -1), ("fails", -1), ("aten::add", -1)]


def test_a_raising_hook_closes_its_node():
    def refuse(grad):
        raise ZeroDivisionError

    x = rl.randn(3, requires_grad=True)
    y = x * 2
    y.register_hook(refuse)

    def program():
        with pytest.raises(ZeroDivisionError):
            y.sum().backward()
        x.detach()

    events = record(program)
    assert [e.name for e in top(events)][-1] == "aten::detach"
    assert all(e.end for e in events)


def test_one_recording_at_a_time_and_none_to_stop():
    with pytest.raises(RuntimeError, match="not enabled"):
        _extras.profile_stop()
    with pytest.raises(RuntimeError, match="not enabled"):
        _extras.profile_toggle(False)
    _extras.profile_start(0)
    try:
        with pytest.raises(RuntimeError, match="already enabled"):
            _extras.profile_start(0)
    finally:
        _extras.profile_stop()
    assert not _extras.profile_is_on()


def test_a_pause_leaves_events_out():
    def program():
        x + 1
        _extras.profile_toggle(False)
        x - 1
        with record_function("unseen"):
            _extras.profile_toggle(True)
        x * 2

    x = rl.randn(3)
    assert names(record(program), OP, USER) == ["aten::add", "aten::mul"]


def test_what_is_open_at_the_end_ends_there():
    x = rl.randn(3)
    _extras.profile_start(0)
    handle = _extras.record_begin("open")
    x + 1
    events = rows(_extras.profile_stop())
    _extras.record_end(handle)          # of a recording that is over: nothing
    assert events[0].name == "open"
    assert events[0].end >= events[1].end
    assert names(record(lambda: x + 1), OP) == ["aten::add"]


def test_other_threads_take_part_when_asked():
    x = rl.randn(3)

    def program():
        x + 1
        threads = [threading.Thread(target=lambda: x * 2, name=f"worker {i}") for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert names(record(program), OP) == ["aten::add"]
    _extras.profile_start(THREADS)
    program()
    recording = _extras.profile_stop()
    events = [e for e in rows(recording) if e.kind == OP]
    assert [(e.name, recording["threads"][e.thread][1]) for e in events] == [
        ("aten::add", threading.current_thread().name), ("aten::mul", "worker 0"), ("aten::mul", "worker 1")]
    assert len({t[0] for t in recording["threads"]}) == len({t[2] for t in recording["threads"]}) == 3


def test_the_engines_own_threads_take_part():
    depth = 60      # beyond this many nested passes, the engine goes on with a thread of its own

    class Again(rl.autograd.Function):
        @staticmethod
        def forward(ctx, x, left):
            ctx.left = left
            return x * 1

        @staticmethod
        def backward(ctx, g):
            if ctx.left:
                x = rl.ones(1, requires_grad=True)
                with rl.enable_grad():
                    Again.apply(x, ctx.left - 1).sum().backward()
            return g, None

    x = rl.ones(1, requires_grad=True)
    _extras.profile_start(0)
    Again.apply(x, depth).sum().backward()
    recording = _extras.profile_stop()
    events = rows(recording)
    assert len(recording["threads"]) > 1
    assert sum(e.name == "AgainBackward" for e in events) == depth + 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_no_recording_and_may_start_one():
    x = rl.randn(3)
    _extras.profile_start(MEMORY)
    with record_function("around"):
        child = os.fork()
        if not child:
            code = 1
            try:
                fresh = not _extras.profile_is_on()
                events = record(lambda: x + 1)
                code = 0 if fresh and names(events, OP) == ["aten::add"] else 2
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        x + 1
    events = rows(_extras.profile_stop())
    assert names(events, OP, USER) == ["around", "aten::add"]


def test_memory_is_told_with_totals():
    def program():
        a = rl.empty(1000)
        b = a + 1
        del a
        b.resize_(3000)
        kept.append(b)

    kept = []
    events = [e for e in record(program, MEMORY) if e.kind == MEM]
    start = events[0].total - events[0].value
    assert [e.value for e in events] == [4000, 4000, -4000, 12000, -4000]
    assert [e.total - start for e in events] == [4000, 8000, 4000, 16000, 12000]
    assert events[0].address == events[2].address != events[1].address
    inside = record(lambda: kept.append(kept[0] * 2), MEMORY)
    assert [e.name for e in inside[:1]] == ["aten::mul"]
    assert [(e.value, e.parent) for e in inside if e.kind == MEM] == [(12000, 0)]
    assert not any(e.kind == MEM for e in record(lambda: kept[0] * 2))


def test_memory_that_nobody_saw_taken_is_not_seen_given_back():
    a = rl.empty(500)
    assert [e for e in record(lambda: a.set_(), MEMORY) if e.kind == MEM] == []


def test_plans_and_kernels_show_when_asked():
    x = rl.randn(5)
    rl.add(x, x)
    rl.sum(x)
    kernels = [e for e in record(lambda: rl.sum(rl.add(x, x)), KERNELS) if e.kind == KERNEL]
    assert len(kernels) == 2
    assert all(e.parent >= 0 and not e.name.startswith("aten::") for e in kernels)
    assert not any(e.kind == KERNEL for e in record(lambda: rl.add(x, x)))
    rl._C.forget_plans()
    made = record(lambda: rl.add(x, x))
    wanted = [("aten::add", OP, -1), ("rushlight::plan: add", COMPILE, 0)]
    assert [(e.name, e.kind, e.parent) for e in made[:2]] == wanted


def test_a_limit_is_kept_and_what_is_beyond_is_counted():
    x = rl.randn(3)
    _extras.profile_limit(4096)
    try:
        _extras.profile_start(0)
        for _ in range(5000):
            x + x
        recording = _extras.profile_stop()
    finally:
        _extras.profile_limit(1 << 26)
    assert len(rows(recording)) == 4096
    assert recording["dropped"] == 5000 - 4096
    assert _extras.profile_is_on() is False


def test_a_recording_changes_no_decision():
    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        return module.forward

    x = rl.randn(3)
    compiled = rl.compile(lambda t: t.sin() + 1, backend=backend)
    compiled(x)
    record(lambda: compiled(x), SHAPES | MEMORY)
    compiled(x)
    assert len(graphs) == 1
    out = rl.empty(3)
    record(lambda: rl.add(x, 1, out=out))
    assert out.tolist() == (x + 1).tolist()
    with rl.autocast("cpu", dtype=rl.bfloat16):
        results = []
        record(lambda: results.append(rl.mm(rl.ones(2, 2), rl.ones(2, 2))))
    assert results[0].dtype is rl.bfloat16
    seen = []

    class Mode(rl.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    def program():
        with Mode():
            x + 1

    record(program)
    assert seen == ["aten.add.Tensor"]
    assert rl.func.vmap(lambda t: t * 2)(x).tolist() == (x * 2).tolist()


def test_with_a_derivative_rule_ops_are_ours():
    x = rl.randn(3, 3, requires_grad=True)
    y = (x @ x).sum()
    events = record(y.backward)
    inside = [e for e in events if e.parent >= 0 and events[e.parent].kind == NODE]
    assert inside
    assert all(e.kind in (INNER, COMPILE) and e.name.startswith("rushlight::") for e in inside)
