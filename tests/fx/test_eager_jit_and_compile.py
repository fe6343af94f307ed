"""jit's and compile's names run programs as Python, and say so where that is not enough."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Final

import pytest

import rushlight as rl
import rushlight._dynamo
import rushlight._jit_internal
from rushlight import jit, nn
from rushlight.dynamo.record import marks


def test_marks_leave_python_as_it_is() -> None:
    def f(x: int) -> int:
        return x + 1

    class C(nn.Module):
        n: Final[int] = 3

        @jit.export
        def g(self) -> int:
            return self.n

        @jit.ignore
        def h(self) -> int:
            return 1

        @jit.unused
        def k(self) -> int:
            return 2

        @property
        @jit.ignore(drop=True)
        def p(self) -> int:
            return 4

    assert jit.script_if_tracing(f)(2) == 3
    with pytest.raises(RuntimeError, match="an instance instead"):
        jit.script(C)
    assert (C().g(), C().h(), C().k(), C().p) == (3, 1, 2, 4)
    internal = rushlight._jit_internal
    assert (
        internal.is_ignored_fn(C.h)
        and internal.should_drop(C.k)
        and internal.get_torchscript_modifier(C.g) is internal.FunctionModifiers.EXPORT
    )
    assert not jit.is_scripting() and not jit.is_tracing()


def test_small_names() -> None:
    assert (
        jit.annotate(list[int], []) == [] and jit.isinstance([1, 2], list[int]) and not jit.isinstance(["a"], list[int])
    )
    assert jit.wait(jit.fork(lambda a, b: a + b, 1, b=2)) == 3
    with jit.optimized_execution(False), jit.fuser("fuser1"), jit.strict_fusion():
        pass
    before = jit.set_fusion_strategy([("DYNAMIC", 1)])
    assert jit.set_fusion_strategy(before) == [("DYNAMIC", 1)]
    both = rushlight._jit_internal.boolean_dispatch(
        "flag", 1, False, lambda x, flag: "yes", lambda x, flag=False: "no", "m", "both"
    )
    assert (both(1), both(1, True), both(1, flag=True), both.__name__) == ("no", "yes", "yes", "both")
    from rushlight.jit.annotations import BroadcastingList2, List  # noqa: F401

    assert isinstance(jit.Attribute(1, int), tuple)


def test_traced_modules_share_parameters() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU()).eval()
    seen = []
    net.register_forward_pre_hook(lambda m, a: seen.append(jit.is_tracing()))
    x = rl.randn(3, 2)
    traced = jit.trace(net, x)
    assert seen[0] is True and isinstance(traced, jit.ScriptModule) and rl.equal(traced(x), net(x))
    assert list(traced.state_dict()) == list(net.state_dict()) and next(traced.parameters()) is next(net.parameters())
    assert jit.trace(lambda a: a * 2, (x,))(x).shape == (3, 2)
    assert jit.trace_module(net, {"forward": x})(x).shape == (3, 2)
    with pytest.raises(RuntimeError, match="strict=False"):
        jit.trace(lambda a: {"a": a}, x)
    with pytest.warns(jit.TracerWarning, match="nondeterministic"):
        jit.trace(lambda a: a + rl.rand(2), x)


def test_what_needs_a_compiled_form_is_refused() -> None:
    with pytest.raises(NotImplementedError):
        rushlight._dynamo.export(len)
    with pytest.raises(RuntimeError, match="expected a scripted module, got NoneType"):
        jit.export_opnames(None)


def test_compiled_modules_wrap_the_original() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Dropout())
    result = rl.compile(net, backend="eager")
    assert isinstance(result, rushlight._dynamo.OptimizedModule) and result._orig_mod is net
    assert list(result.state_dict()) == ["_orig_mod.0.weight", "_orig_mod.0.bias"]
    result.eval()
    assert not net.training and not result.training and len(result) == 2
    result.extra = 3
    assert net.extra == 3
    x = rl.randn(1, 2)
    for other in (copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
        assert rl.equal(other(x), net(x)) and other._orig_mod is not net
    net.compile(backend="eager")
    assert rl.equal(net(x), result(x))


def test_compiled_functions() -> None:
    @rl.compile(fullgraph=True, backend="eager")
    def f(x):
        """doc"""
        return x + 1

    assert f(1) == 2 and f.__name__ == "f" and f.__doc__ == "doc"
    with pytest.raises(RuntimeError, match="nothing"):
        rl.compile(f, backend="nothing")
    with pytest.raises(RuntimeError, match="both"):
        rl.compile(f, mode="default", options={})
    with pytest.raises(RuntimeError, match="Unrecognized mode"):
        rl.compile(f, mode="fastest")
    with pytest.raises(TypeError, match="a name or a function"):
        rl.compile(f, backend=3)


def test_functions_of_plain_numbers_compile() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rl.compile(lambda x: x + 1)(1) == 2


def test_marks_and_settings() -> None:
    assert not rl.compiler.is_compiling() and not rl.compiler.is_exporting() and not rl.compiler.is_dynamo_compiling()

    @rl.compiler.disable
    def f(x):
        return x

    @rl.compiler.disable(recursive=False)
    def g(x):
        return x

    assert f(1) == g(1) == 1 and rl.compiler.allow_in_graph(f) is f and rl.compiler.assume_constant_result(f) is f
    with rushlight._dynamo.config.patch(cache_size_limit=1):
        assert rushlight._dynamo.config.cache_size_limit == 1
    assert rushlight._dynamo.config.cache_size_limit == 8
    with pytest.raises(AttributeError), rushlight._dynamo.config.patch(no_such_setting=1):
        pass
    with rl.compiler.set_stance("force_eager"):
        assert marks.stance.name == "force_eager"
    assert marks.stance.name == "default"
    with pytest.raises(RuntimeError, match="stance"):
        rl.compiler.set_stance("other")
    rushlight._dynamo.mark_dynamic(rl.ones(2), 0)
    with pytest.raises(IndexError):
        rushlight._dynamo.mark_dynamic(rl.ones(2), 5)
    rl.compiler.reset()
    assert "inductor" in rl.compiler.list_backends() and "eager" in rushlight._dynamo.list_backends(None)


def test_numpy_functions_take_tensors() -> None:
    numpy = pytest.importorskip("numpy")
    double = rl.compiler.wrap_numpy(lambda x: numpy.add(x, x))
    assert double(rl.ones(2)).tolist() == [2.0, 2.0]


def test_futures() -> None:
    future = rl.futures.Future()
    following = future.then(lambda f: f.value() + 1)
    assert not following.done()
    future.set_result(1)
    assert following.wait() == 2 and rl.futures.wait_all([future, following]) == [1, 2]
    with pytest.raises(RuntimeError, match="once"):
        future.set_result(2)
    failed = rl.futures.Future()
    failed.set_exception(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        failed.wait()
