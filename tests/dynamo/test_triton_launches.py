"""Launches of Triton's kernels in compiled programs, one node each. Without Triton, kernels are Python functions
behind classes with the names and attributes that Triton's have."""

from __future__ import annotations

import sys
import types

import pytest

import rushlight as rl
from rushlight.library import triton_op, wrap_triton
from rushlight.library.triton_kernels import written_arguments


class KernelInterface:
    def __getitem__(self, grid):
        return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)


class JITFunction(KernelInterface):
    def __init__(self, fn):
        self.fn, self.arg_names, self.launches = fn, list(fn.__code__.co_varnames[: fn.__code__.co_argcount]), []

    def run(self, *args, grid, warmup, **kwargs):
        given = {**dict(zip(self.arg_names, args, strict=False)), **kwargs}
        assert not any("Fake" in type(a).__name__ for a in given.values())
        self.launches.append(grid(given) if callable(grid) else grid)
        tl.compute(self, given)


class Autotuner(KernelInterface):
    def __init__(self, fn, configs):
        self.fn, self.configs, self.arg_names = fn, configs, fn.arg_names

    def run(self, *args, **kwargs):
        return self.fn.run(*args, **{**kwargs, **self.configs[-1].kwargs})


class Heuristics(KernelInterface):
    def __init__(self, fn, values):
        self.fn, self.values, self.arg_names = fn, values, fn.arg_names

    def run(self, *args, **kwargs):
        for name, value in self.values.items():
            kwargs[name] = value({**dict(zip(self.arg_names, args, strict=False)), **kwargs})
        return self.fn.run(*args, **kwargs)


class tl:  # noqa: N801 - Triton's habit
    """What kernels below name; what they compute is said here."""

    @staticmethod
    def compute(kernel, given):
        RULES[kernel.fn.__name__](**given)


def double_plus(x, out, n, BLOCK):  # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(out + at, value * 2 + 1, mask=at < n)


def accumulate(x, total, n, BLOCK):  # noqa: N803
    place = total + tl.arange(0, BLOCK)
    for k in range(4):
        place += k
    tl.atomic_add(place, tl.load(x + tl.arange(0, BLOCK)))


def by_descriptor(source, target, n):
    box = tl.make_tensor_descriptor(target, [n], [1], [16])
    box.store([0], tl.load(source))


def by_index(x, index, out):
    at = tl.load(index + tl.arange(0, 4))
    tl.store(out + at, tl.load(x + at))


RULES = {
    "double_plus": lambda x, out, n, BLOCK, **_: out.view(-1)[:n].copy_(x.reshape(-1)[:n] * 2 + 1),
    "accumulate": lambda x, total, n, BLOCK, **_: total.add_(x.sum()),
}


class Config:
    def __init__(self, **kwargs):
        self.kwargs = kwargs


@pytest.fixture(autouse=True)
def triton(monkeypatch):
    """Modules as Triton has them."""
    jit, tuner = types.ModuleType("triton.runtime.jit"), types.ModuleType("triton.runtime.autotuner")
    jit.JITFunction, tuner.Autotuner, tuner.Heuristics = JITFunction, Autotuner, Heuristics
    monkeypatch.setitem(sys.modules, "triton.runtime.jit", jit)
    monkeypatch.setitem(sys.modules, "triton.runtime.autotuner", tuner)


def cdiv(a, b):
    return (a + b - 1) // b


plain = JITFunction(double_plus)
added = JITFunction(accumulate)
tuned = Autotuner(JITFunction(double_plus), [Config(BLOCK=4), Config(BLOCK=8)])
guessed = Heuristics(JITFunction(double_plus), {"BLOCK": lambda args: 16 if args["n"] > 8 else 8})


def launch(kernel, x, **meta):
    out = rl.empty_like(x)
    n = out.numel()
    kernel[lambda meta: (cdiv(n, meta["BLOCK"]),)](x, out, n, **meta)
    return out


@pytest.mark.parametrize("kind", ["plain", "tuned", "guessed"])
def test_a_launch_is_one_node(kind):
    kernel, meta = {"plain": (plain, {"BLOCK": 4}), "tuned": (tuned, {}), "guessed": (guessed, {})}[kind]
    nodes = []

    def backend(gm, inputs):
        nodes.extend([str(n.target) for n in gm.graph.nodes if n.op == "call_function"])
        return gm.forward

    def step(x):
        return launch(kernel, x.sin(), **meta).cos()

    x = rl.randn(3, 5)
    wanted = (x.sin() * 2 + 1).cos()
    assert rl.allclose(rl.compile(step, fullgraph=True)(x), wanted)
    assert rl.allclose(rl.compile(step, fullgraph=True, backend=backend)(x), wanted)
    assert sum("double_plus" in name for name in nodes) == 1
    inner = kernel if kind == "plain" else kernel.fn
    assert inner.launches[-1][0] == {"plain": 4, "tuned": 2, "guessed": 1}[kind]


def test_what_is_written_and_read_before_is_seen():
    def step(x, total):
        before = total + 1
        added[(1, 1, 1)](x, total, 4, BLOCK=4)
        return before, total * 2

    x, total = rl.ones(4), rl.zeros(4)
    before, after = rl.compile(step, fullgraph=True)(x, total)
    assert before.tolist() == [1.0] * 4 and after.tolist() == [8.0] * 4 and total.tolist() == [4.0] * 4


def test_other_sizes():
    run = rl.compile(lambda x: launch(plain, x, BLOCK=4), fullgraph=True, dynamic=True)
    for n in (5, 9, 33):
        assert rl.equal(run(rl.arange(float(n))), rl.arange(float(n)) * 2 + 1)
        assert plain.launches[-1][0] == cdiv(n, 4)


def test_written_arguments_are_read_off_the_text():
    tensors = {"x", "out", "total", "source", "target", "index"}      # numbers in places are no matter
    assert written_arguments(double_plus) & tensors == {"out"}
    assert written_arguments(accumulate) & tensors == {"total"}
    assert written_arguments(by_descriptor) & tensors == {"target"}
    assert written_arguments(by_index) & tensors == {"out"}


def test_ops_of_kernels():
    @triton_op("dynamo_tests::double_plus", mutates_args=())
    def op(x: rl.Tensor) -> rl.Tensor:
        return launch(wrap_triton(plain), x, BLOCK=4)

    op.register_autograd(lambda ctx, g: g * 2)
    x = rl.arange(6.0, requires_grad=True)
    assert op(x).tolist() == [1.0, 3.0, 5.0, 7.0, 9.0, 11.0]
    result = rl.compile(lambda x: op(x).sum() * 3, fullgraph=True)(x)
    result.backward()
    assert result.item() == 108 and x.grad.tolist() == [6.0] * 6
    with pytest.raises(RuntimeError, match="triton.jit"):
        wrap_triton(len)


def test_ops_of_kernels_that_write():
    @triton_op("dynamo_tests::double_plus_into", mutates_args=("out",))
    def op(x: rl.Tensor, out: rl.Tensor) -> None:
        wrap_triton(plain)[(2,)](x, out, 6, BLOCK=4)

    def step(x):
        out = rl.zeros(6)
        op(x, out)
        return out + 1

    x = rl.arange(6.0)
    assert rl.equal(step(x), x * 2 + 2) and rl.equal(rl.compile(step, fullgraph=True)(x), x * 2 + 2)
