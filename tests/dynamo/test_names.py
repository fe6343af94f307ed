"""The names of `torch.compiler` and `torch._dynamo`: each exists, and works or says what is missing."""

from __future__ import annotations

import importlib.util
import inspect
from typing import Any

import pytest

import rushlight as rl
from rushlight import _dynamo, compiler

X = rl.ones(3)

# PyTorch 2.13's __all__, with what each name does here: used by the tests below and elsewhere, or refused.
DYNAMO = """
    allow_c_slot allow_in_graph assume_constant_result bytecode_debugger config disable disable_nested_graph_breaks
    disallow_in_graph dont_skip_tracing error_on_graph_break explain export external_utils forbid_in_graph graph_break
    is_compiling is_dynamo_disable_recursive list_backends lookup_backend mark_dynamic mark_static mark_static_address
    maybe_mark_dynamic nonstrict_trace optimize optimize_assert OptimizedModule override_cudagraphs
    override_optimization_hint patch_dynamo_config register_backend register_hook_for_recompile_user_context replay
    reset reset_code reset_frame_count reset_recompile_user_contexts run set_recursion_limit set_stance skip_frame
    step_unsupported substitute_in_graph
"""


def test_every_name_is_there() -> None:
    assert not [name for name in DYNAMO.split() if not hasattr(_dynamo, name) or name not in _dynamo.__all__]
    assert not [name for name in _dynamo.__all__ if not hasattr(_dynamo, name)]
    assert not [name for name in compiler.__all__ if not hasattr(compiler, name)]


def test_names_are_pytorch_s() -> None:
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("torch._dynamo")
    if not torch.__version__.startswith("2.13"):
        pytest.skip("another PyTorch has other names")
    assert not set(theirs.__all__) - set(_dynamo.__all__)
    assert not set(torch.compiler.__all__) - set(compiler.__all__)
    for name in DYNAMO.split():
        own = getattr(_dynamo, name)
        if inspect.isfunction(own) and inspect.isfunction(getattr(theirs, name)) and name not in ("optimize", "export"):
            required = [p.name for p in inspect.signature(getattr(theirs, name)).parameters.values()
                        if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
            taken = inspect.signature(own).parameters
            assert len(required) <= len(taken) or "args" in taken, name


def test_backends_are_pytorch_s() -> None:
    offered = _dynamo.list_backends()      # and what tests before this one registered
    assert {"cudagraphs", "inductor", "openxla", "tvm"} <= set(offered) and "aot_eager" not in offered
    assert "aot_eager" in _dynamo.list_backends(exclude_tags=())
    theirs = pytest.importorskip("torch._dynamo")
    assert set(theirs.list_backends()) <= set(offered)
    for_debugging = set(theirs.list_backends(())) - set(theirs.list_backends())
    assert not for_debugging & set(offered)


@pytest.mark.parametrize(("name", "what"), [("tvm", "TVM"), ("openxla", "XLA")])
def test_backends_that_are_not_here_say_what_is_missing(name: str, what: str) -> None:
    if name == "openxla" and importlib.util.find_spec("jaxlib"):
        pytest.skip("XLA is here, by jaxlib")
    with pytest.raises(RuntimeError, match=what):
        rl.compile(lambda x: x, backend=name)
    with pytest.raises(RuntimeError, match=what):
        _dynamo.lookup_backend(name)


@pytest.mark.parametrize("call", [
    lambda: _dynamo.override_cudagraphs(fwd=False),
    lambda: _dynamo.replay("file"),
    lambda: _dynamo.set_recursion_limit(10),
    lambda: _dynamo.bytecode_debugger.debug,
    lambda: _dynamo.export(lambda x: x),
    lambda: compiler.skip_all_guards_unsafe([]),
    lambda: compiler.load_compiled_function("file"),
])
def test_what_is_not_here_is_refused(call: Any) -> None:
    with pytest.raises(NotImplementedError, match="[a-z_]+"):
        call()


@pytest.mark.parametrize("options", [{"no_such_option": 1}, {"max_autotune": True, "triton.no_such": 2}])
def test_unknown_options_are_named(options: dict) -> None:
    unknown = next(name for name in options if "no_such" in name)
    with pytest.raises(RuntimeError, match=unknown):
        rl.compile(lambda x: x + 1, options=options)(X)
    with pytest.raises(RuntimeError, match="no-such-mode"):
        rl.compile(lambda x: x + 1, mode="no-such-mode")


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_modes_compute_the_same(mode: str) -> None:
    assert rl.equal(rl.compile(lambda x: (x * 2).sin(), mode=mode)(X), (X * 2).sin())


def test_disabled_functions_say_whether_what_they_call_is_too() -> None:
    assert _dynamo.is_dynamo_disable_recursive(_dynamo.disable(lambda x: x)) is True
    assert _dynamo.is_dynamo_disable_recursive(_dynamo.disable(lambda x: x, recursive=False)) is False
    assert _dynamo.is_dynamo_disable_recursive(len) is None


def test_the_graph_ends_where_a_step_is_unsupported() -> None:
    def function(x: Any) -> Any:
        y = x * 2
        _dynamo.step_unsupported("here")
        return y + 1

    assert rl.equal(rl.compile(function)(X), function(X))
    with pytest.raises(_dynamo.exc.Unsupported):
        rl.compile(function, fullgraph=True)(X)


def test_one_function_is_forgotten() -> None:
    graphs: list = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    def first(x: Any) -> Any:
        return x + 1

    def second(x: Any) -> Any:
        return x * 2

    compiled = [rl.compile(f, backend=backend) for f in (first, second)]
    for f in compiled:
        f(X)
    _dynamo.reset_code(first.__code__)
    for f in compiled:
        f(X)
    assert len(graphs) == 3
    with pytest.raises(TypeError, match="code object"):
        _dynamo.reset_code(3)


def test_what_a_program_knows_is_said_where_it_is_compiled_again(capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("RUSHLIGHT_SHOW", "recompiles")
    _dynamo.register_hook_for_recompile_user_context(lambda: "epoch 7")
    try:
        compiled = rl.compile(lambda x: x + 1, backend="eager")
        compiled(X)
        compiled(X.double())
    finally:
        _dynamo.reset_recompile_user_contexts()
    said = capsys.readouterr()
    assert "user context: epoch 7" in said.err + said.out


def test_settings_are_the_same_under_pytorchs_name_and_ours() -> None:
    import rushlight._dynamo.config as config
    import rushlight._functorch.config as functorch_config

    from rushlight.aot import settings as aot_settings
    from rushlight.dynamo import settings

    assert config is settings is _dynamo.config and functorch_config is aot_settings
    compiled = rl.compile(lambda x, n: x * n, backend="eager", dynamic=False)
    config.recompile_limit, before = 1, config.recompile_limit
    try:
        compiled(rl.ones(2), 2)
        with pytest.warns(UserWarning, match="compiled 1 times"):
            compiled(rl.ones(2), 3)
    finally:
        config.recompile_limit = before
