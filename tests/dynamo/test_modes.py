"""Modes around compiled code and inside of it: what they see and do is what eager code shows them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.fake import FakeTensorMode
from rushlight.overrides import TorchFunctionMode
from rushlight.utils._device import DeviceContext
from rushlight.utils._python_dispatch import TorchDispatchMode
from rushlight.utils.flop_counter import FlopCounterMode

LAYER = nn.Linear(4, 4)
X = rl.linspace(-1, 1, 4)


class SeesKernels(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        self.told.append(str(func))
        return func(*args, **(kwargs or {}))


class ChangesKernels(TorchDispatchMode):
    told = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result + 1 if "mul" in str(func) else result


class SeesCalls(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        self.told.append(func.__name__)
        return func(*args, **(kwargs or {}))


class ChangesCalls(TorchFunctionMode):
    told = 0

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        return (rl.cos if func is rl.sin else func)(*args, **(kwargs or {}))


class Counts(FlopCounterMode):
    def __init__(self) -> None:
        super().__init__(display=False)

    @property
    def told(self) -> int:
        return self.get_total_flops()


MODES = [SeesKernels, ChangesKernels, SeesCalls, ChangesCalls, Counts]


def body(x: Any) -> Any:
    return rl.sin(LAYER(x)) * 2 + x.sum()


def inside(kind: type) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        x = x * 3
        with kind() as mode:
            y = body(x)
        return y.sin(), mode.told

    return run


def counted(x: Any) -> Any:
    with FlopCounterMode(display=False) as mode:
        y = LAYER(x[None].expand(8, 4))
    return y * 2, mode.get_total_flops()


def same(a: Any, b: Any) -> None:
    rl.testing.assert_close(a[0], b[0])
    assert a[1:] == b[1:]
    assert type(a[0]) is rl.Tensor      # no mode of capture is left behind


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("kind", MODES)
def test_entered_inside(kind: type, backend: str) -> None:
    function = inside(kind)
    compiled = rl.compile(function, backend=backend)
    for _ in range(2):
        same(compiled(X), function(X))


@pytest.mark.parametrize("was_compiled", [False, True])
@pytest.mark.parametrize("kind", MODES)
def test_active_outside(kind: type, was_compiled: bool) -> None:
    compiled = rl.compile(body)
    if was_compiled:
        compiled(X)
    found = []
    for function in (compiled, body):
        with kind() as mode:
            y = function(X)
        found.append((y, mode.told))
    same(*found)
    rl.testing.assert_close(compiled(X), body(X))


def test_a_mode_of_ours_ends_the_graph_and_says_so() -> None:
    same(rl.compile(counted)(X), counted(X))
    with pytest.raises(rl._dynamo.exc.Unsupported, match="FlopCounterMode changes what calls inside of its block do"):
        rl.compile(counted, fullgraph=True)(X)
    assert isinstance(rl.ones(2) + 1, rl.Tensor) and not rl._dynamo.is_compiling()


def made_elsewhere(x: Any) -> Any:
    with rl.device("meta"):
        z = rl.zeros(3) + 1
        y = x * 2
    return y, z.device.type, rl.ones(2).device.type


def made_by_a_context(x: Any) -> Any:
    with DeviceContext("meta"):
        z = rl.arange(3)
    return x + 1, z.device.type


def made_here(x: Any) -> Any:
    with rl.device("cpu"):
        return x + rl.ones(4), "cpu"


def chooses(x: Any) -> Any:
    rl.set_default_device("meta")
    z = rl.ones(2)
    rl.set_default_device(None)
    return x * 2, z.device.type


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("function", [made_elsewhere, made_by_a_context, made_here, chooses])
def test_devices_as_contexts(function: Callable, backend: str) -> None:
    same(rl.compile(function, backend=backend)(X), function(X))


def test_a_device_that_is_the_default_anyway_does_not_end_the_graph() -> None:
    same(rl.compile(made_here, fullgraph=True)(X), made_here(X))
    with pytest.raises(rl._dynamo.exc.Unsupported, match="new tensors go to meta"):
        rl.compile(made_elsewhere, fullgraph=True)(X)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_default_devices_are_seen(backend: str) -> None:
    compiled = rl.compile(lambda x: (x + 1, rl.zeros(3).device.type, rl.arange(3)), backend=backend)
    try:
        for device in (None, "meta", "cpu", "meta", None):
            rl.set_default_device(device)
            y, kind, made = compiled(X)
            assert kind == made.device.type == (device or "cpu") and y.device.type == "cpu"
    finally:
        rl.set_default_device(None)


def test_fake_tensors_go_to_the_default_device() -> None:
    with FakeTensorMode(), rl.device("meta"):
        assert rl.zeros(3).device.type == "meta"


def test_handles_of_hooks_may_be_made_in_a_frame() -> None:
    """They are contexts too, which change nothing until they are left."""
    layer = rl.nn.Linear(3, 3)
    seen: list[int] = []

    def hook(module: Any, args: Any, result: Any) -> None:
        seen.append(1)

    def program(x: rl.Tensor) -> rl.Tensor:
        if not layer._forward_hooks:
            layer.register_forward_hook(hook)
        return layer(x) * 2

    compiled = rl.compile(program, backend="eager", fullgraph=True)
    x = rl.ones(2, 3)
    for calls in (1, 2, 3):
        found = compiled(x)
        assert len(seen) == calls and len(layer._forward_hooks) == 1
    assert rl.allclose(found, layer(x) * 2)


# --- modes that see calls, around compiled code -------------------------------------------------------------------


def graphs_of(function: Callable, **told: Any) -> tuple[Callable, list[list[str]]]:
    """The function compiled, and the ops of its graphs, as they are made."""
    graphs: list[list[str]] = []

    def backend(graph: Any, inputs: list[Any]) -> Callable:
        graphs.append([node.target.__name__ for node in graph.graph.nodes if node.op == "call_function"])
        return graph.forward

    return rl.compile(function, backend=backend, **told), graphs


class Scales(TorchFunctionMode):
    def __init__(self, by: float) -> None:
        super().__init__()
        self.by, self.seen = by, 0

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        self.seen += 1
        result = func(*args, **(kwargs or {}))
        return result * self.by if func is rl.cos else result


def wave(x: Any) -> Any:
    return rl.sin(x) + rl.cos(x)


def test_a_function_mode_around_a_frame_is_captured_with_it() -> None:
    compiled, graphs = graphs_of(wave, fullgraph=True)
    with ChangesCalls():
        for _ in range(2):
            rl.testing.assert_close(compiled(X), wave(X))
    assert graphs == [["cos", "cos", "add"]]
    rl.testing.assert_close(compiled(X), rl.sin(X) + rl.cos(X))
    with Scales(3.0):
        found = compiled(X)
    rl.testing.assert_close(found, rl.sin(X) + rl.cos(X) * 3)
    assert graphs[1:] == [["sin", "cos", "add"], ["sin", "cos", "mul", "add"]]


def test_function_modes_are_told_as_often_as_in_eager_code() -> None:
    compiled, graphs = graphs_of(wave)
    told = []
    for function in (compiled, wave):
        with Scales(2.0) as mode:
            for _ in range(5):
                y = function(X)
        told.append(mode.seen)
    assert told[0] == told[1] and len(graphs) == 2      # the count is another number the second time, then any
    rl.testing.assert_close(y, compiled(X) + rl.cos(X))


def test_the_order_of_function_modes_counts() -> None:
    compiled, _graphs = graphs_of(wave)
    for modes in ([ChangesCalls(), Scales(2.0)], [Scales(2.0), ChangesCalls()], [Scales(5.0)], []):
        for _ in range(2):
            with contextlib.ExitStack() as stack:
                for mode in modes:
                    stack.enter_context(mode)
                rl.testing.assert_close(compiled(X), wave(X))


def test_a_break_inside_of_a_block_leaves_the_mode_on() -> None:
    active: list[int] = []

    @rl._dynamo.disable
    def look(x: Any) -> Any:
        active.append(len(rl.overrides._get_current_function_mode_stack()))
        return rl.sin(x)

    def program(x: Any) -> Any:
        y = rl.sin(x)
        with ChangesCalls():
            y = rl.sin(y)
            y = look(y)
            with Scales(2.0) as inner:
                y = rl.cos(look(y))
            y = rl.sin(y)
        return rl.sin(y), inner.seen

    compiled, graphs = graphs_of(program)
    for _ in range(2):
        same(compiled(X), program(X))
    assert active == [1, 2] * 4
    assert graphs == [["sin", "cos"], ["cos", "mul", "cos", "sin"]]


def test_a_block_of_a_function_mode_may_end_in_another_frame() -> None:
    def begin(x: Any) -> Any:
        mode = ChangesCalls()
        mode.__enter__()
        return mode, rl.sin(x)

    def end(mode: Any, x: Any) -> Any:
        y = rl.sin(x)
        mode.__exit__(None, None, None)
        return rl.sin(y)

    (first, begins), (second, ends) = graphs_of(begin), graphs_of(end)
    mode, y = first(X)
    assert rl.overrides._get_current_function_mode_stack() == [mode]
    rl.testing.assert_close(second(mode, y), rl.sin(rl.cos(rl.cos(X))))
    assert not rl.overrides._get_current_function_mode_stack()
    assert begins == [["cos"]] and ends == [["cos", "sin"]]


def test_exceptions_leave_function_modes_as_they_are() -> None:
    def backend(graph: Any, inputs: list[Any]) -> Callable:
        def run(*given: Any) -> Any:
            assert not rl.overrides._get_current_function_mode_stack()
            raise ValueError("a graph that fails")

        return run

    compiled = rl.compile(wave, backend=backend)
    with ChangesCalls() as mode:
        for _ in range(2):
            with pytest.raises(ValueError, match="a graph that fails"):
                compiled(X)
            assert rl.overrides._get_current_function_mode_stack() == [mode]


def test_blocks_without_function_modes_are_seen() -> None:
    compiled, _graphs = graphs_of(wave)
    with Scales(2.0):
        compiled(X)
        with rl._C.DisableTorchFunction():
            without = compiled(X)
        within = compiled(X)
    rl.testing.assert_close(without, rl.sin(X) + rl.cos(X))
    rl.testing.assert_close(within, rl.sin(X) + rl.cos(X) * 2)


class Ignores(SeesKernels):
    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True


def test_a_dispatch_mode_that_does_not_mind_sees_what_compiled_code_calls() -> None:
    compiled, graphs = graphs_of(wave)
    for kind, count in ((SeesKernels, 0), (Ignores, 1)):
        with kind() as mode:
            found = compiled(X)
        rl.testing.assert_close(found, wave(X))
        assert len(mode.told) == 3 and len(graphs) == count
    whole = rl.compile(wave)
    with Ignores() as mode:
        rl.testing.assert_close(whole(X), rl.sin(X) + rl.cos(X))


def test_handlers_may_call_compiled_functions() -> None:
    compiled, graphs = graphs_of(lambda x: rl.cos(x) * 2)

    class Calls(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
            return compiled(*args) if "sin" in str(func) else func(*args, **(kwargs or {}))

    with Calls():
        rl.testing.assert_close(rl.sin(X), rl.cos(X) * 2)
    assert graphs == [["cos", "mul"]]


class Named(rl.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        return super().__torch_function__(rl.cos if func is rl.sin else func, types, args, kwargs or {})


def test_blocks_without_rules_of_classes_are_seen() -> None:
    compiled, _ = graphs_of(rl.sin)
    named = X.as_subclass(Named)
    for _ in range(2):
        assert rl.equal(compiled(named), rl.cos(X))
        with rl._C.DisableTorchFunctionSubclass():
            assert rl.equal(compiled(named), rl.sin(X)) and type(compiled(named)) is rl.Tensor


def test_checkpointed_calls_are_compiled_once() -> None:
    net = rl.nn.Sequential(rl.nn.Linear(4, 8), rl.nn.Dropout(0.5), rl.nn.Linear(8, 2))
    graphs: list[Any] = []

    def backend(graph: Any, examples: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    called, x = rl.compile(net, backend=backend), rl.ones(3, 4)
    for _ in range(6):      # hooks on what is saved are active while it runs, and while it is captured
        rl.utils.checkpoint.checkpoint(called, x, use_reentrant=False).sum().backward()
    assert len(graphs) <= 2
