"""Modes: what they see, in which order, what they do not see, and that the fast path comes back after them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import pytest

import rushlight as rl
from rushlight.overrides import DisableTorchFunction, DisableTorchFunctionSubclass, TorchFunctionMode
from rushlight.utils._python_dispatch import TorchDispatchMode


class Functions(TorchFunctionMode):
    """Writes down the names of functions."""

    def __init__(self, label: str = "", log: list | None = None) -> None:
        super().__init__()
        self.label, self.log = label, [] if log is None else log

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        self.log.append(self.label + func.__name__)
        return func(*args, **(kwargs or {}))


class Calls(TorchDispatchMode):
    """Writes down the ops that arrive below autograd."""

    def __init__(self, label: str = "", log: list | None = None) -> None:
        super().__init__()
        self.label, self.log = label, [] if log is None else log

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        self.log.append(self.label + str(func))
        return func(*args, **(kwargs or {}))


def test_function_modes_see_public_calls_once() -> None:
    x = rl.randn(3, 3)
    with Functions() as mode:
        x + 1
        x.softmax(-1)
        rl.nn.functional.layer_norm(x, (3,))
        x[0]
        rl.cat([x, x])
        rl.zeros(2)
    assert mode.log == ["add", "softmax", "layer_norm", "__getitem__", "cat", "zeros"]


def test_function_modes_do_not_see_the_engine() -> None:
    x = rl.randn(3, 3, requires_grad=True)
    y = (x @ x).softmax(-1).sum()
    with Functions() as mode:
        y.backward()
        rl.autograd.grad((x * 2).sum(), x)
    assert mode.log == ["backward", "mul", "sum"]


def test_function_modes_see_users_backward_code() -> None:
    class Double(rl.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g.cos()

    x = rl.randn(3, requires_grad=True)
    y = Double.apply(x).sum()
    with Functions() as mode:
        rl.autograd.grad(y, x)
    assert "cos" in mode.log and "expand" not in mode.log


def test_nested_modes_are_asked_from_the_innermost() -> None:
    log: list[str] = []
    with Functions("outer ", log), Functions("inner ", log):
        rl.ones(2)
    assert log == ["inner ones", "outer ones"]
    log.clear()
    with Calls("outer ", log), Calls("inner ", log):
        rl.ones(2) * 3
    assert log == [
        "inner aten.ones.default",
        "outer aten.ones.default",
        "inner aten.mul.Tensor",
        "outer aten.mul.Tensor",
    ]


def test_function_modes_come_before_dispatch_modes() -> None:
    log: list[str] = []
    with Calls("dispatch ", log), Functions("function ", log):
        rl.ones(2)
    assert log == ["function ones", "dispatch aten.ones.default"]


def test_dispatch_modes_see_the_backward_pass() -> None:
    x = rl.randn(3, 3, requires_grad=True)
    with Calls() as mode:
        (x @ x).sum().backward()
    assert mode.log.count("aten.mm.default") == 3
    assert x.grad is not None


def test_a_mode_can_replace_results_and_refuse() -> None:
    class Zero(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
            return 7 if func is rl.Tensor.cos or func is rl.cos else NotImplemented

    x = rl.ones(2)
    with Zero():
        assert rl.cos(x) == 7
        with pytest.raises(TypeError):
            x.sin()
    assert x.cos().shape == (2,)

    class Scaled(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            return result * 10 if func is rl.ops.aten.add.default or "add" in str(func) else result

    with Scaled():
        y = x + 1
    assert y.tolist() == [20.0, 20.0]


def test_errors_leave_the_stack_as_it_was() -> None:
    class Broken(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
            raise ValueError("broken")

    x = rl.ones(2)
    with Functions() as outer:
        with pytest.raises(ValueError, match="broken"), Broken():
            x + 1
        x + 2
    assert outer.log == ["add"]
    assert (x + 3).tolist() == [4.0, 4.0]
    assert rl._C.get_thread_keys()[0] & 2 == 0


def test_disabling_functions() -> None:
    x = rl.ones(2)
    with Functions() as mode:
        with DisableTorchFunction():
            x + 1
        with DisableTorchFunctionSubclass():
            x + 2
    assert mode.log == ["add"]


def test_modes_belong_to_their_thread() -> None:
    seen: list[list[float]] = []
    with Functions() as mode:
        worker = threading.Thread(target=lambda: seen.append((rl.ones(2) + 1).tolist()))
        worker.start()
        worker.join()
    assert seen == [[2.0, 2.0]] and mode.log == []


def test_in_place_and_out_reach_dispatch_modes() -> None:
    x, out = rl.ones(2), rl.zeros(2)
    with Calls() as mode:
        x.add_(1)
        rl.mul(x, 2, out=out)
    assert "aten.add_.Tensor" in mode.log and any("mul" in name for name in mode.log)
    assert x.tolist() == [2.0, 2.0] and out.tolist() == [4.0, 4.0]


def test_autograd_works_under_a_dispatch_mode() -> None:
    x = rl.randn(4, requires_grad=True)
    with Calls():
        y = (x.sin() * 2).sum()
    y.backward()
    assert rl.allclose(x.grad, 2 * x.detach().cos())


def written_view(x: Any) -> Any:
    y = x * 2
    y[:2].mul_(3)
    return y


def written_view_of_a_view(x: Any) -> Any:
    y = x * 2
    y.view(2, 2)[0].add_(1).mul_(y.new_full((2,), 5.0))
    return y


def stale_view(x: Any) -> Any:
    y = x * 2
    v = y.view(2, 2)
    y.mul_(3)
    return v


def filled(x: Any) -> Any:
    y = x.new_zeros(8)
    y[:4] = x
    y[4:].copy_(x * x)
    return y


@pytest.mark.parametrize("make", [written_view, written_view_of_a_view, stale_view, filled])
def test_views_are_written_under_a_dispatch_mode(make: Any) -> None:
    grads, versions = [], []
    for mode in (None, Calls()):
        x = rl.arange(1.0, 5, requires_grad=True)
        if mode is None:
            result = make(x)
        else:
            with mode:
                result = make(x)
        result.sum().backward()
        grads.append(x.grad.tolist())
        versions.append(result._version)
    assert grads[0] == grads[1]
    assert versions[0] == versions[1]


def test_views_of_no_grad_are_not_written_under_a_dispatch_mode() -> None:
    y = rl.ones(4, requires_grad=True) * 2
    with Calls():
        with rl.no_grad():
            v = y[:2]
        with pytest.raises(RuntimeError, match="no_grad"):
            v.view(1, 2).mul_(3)


def test_the_trace_is_readable() -> None:
    code = (
        "import rushlight as rl; x = rl.ones(2, 3, requires_grad=True); rl.nn.functional.layer_norm(x, (3,)); (x *"
        " 2).sum()"
    )
    here = os.path.dirname(os.path.dirname(rl.__file__))
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "RUSHLIGHT_SHOW": "dispatch", "PYTHONPATH": here},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert "layer_norm(float32[2, 3], grad, (3,))  [CompositeImplicitAutograd]" in [
        line.replace("float32[2, 3], grad", "float32[2, 3], grad") for line in lines
    ] or any(line.startswith("layer_norm(float32[2, 3], grad") for line in lines)
    assert any(line.startswith("  _layer_norm_rows(") and "AutogradCPU > CPU" in line for line in lines)
    assert any(line.startswith("mul(float32[2, 3], grad, 2)") for line in lines)
