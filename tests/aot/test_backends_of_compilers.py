"""Backends that users write: of compilers by aot_autograd, of a module by aot_module_simplified, of the inductor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight._dynamo import lookup_backend
from rushlight._dynamo.backends.common import aot_autograd
from rushlight._inductor.compile_fx import compile_fx, compile_fx_inner
from rushlight.functorch.compile import (
    aot_function,
    aot_module_simplified,
    get_aot_compilation_context,
    get_aot_graph_name,
    get_graph_being_compiled,
    make_boxed_func,
    min_cut_rematerialization_partition,
)

X = rl.linspace(-2, 2, 30).reshape(5, 6)


def as_it_is(gm: Any, inputs: Any) -> Callable:
    return make_boxed_func(gm.forward)


BACKENDS: dict[str, Callable] = {
    "aot_autograd": aot_autograd(fw_compiler=as_it_is),
    "min cut": aot_autograd(fw_compiler=as_it_is, bw_compiler=as_it_is,
                            partition_fn=min_cut_rematerialization_partition),
    "unboxed": aot_autograd(fw_compiler=lambda gm, inputs: gm.forward),
    "simplified": lambda gm, inputs: aot_module_simplified(gm, inputs, fw_compiler=lambda g, _: g.forward),
    "inductor by name": lambda gm, inputs: lookup_backend("inductor")(gm, inputs),
    "aot_eager by name": lambda gm, inputs: lookup_backend("aot_eager")(gm, inputs),
    "compile_fx": compile_fx,
    "compile_fx_inner": lambda gm, inputs: compile_fx(gm, inputs, inner_compile=compile_fx_inner),
}


@pytest.mark.parametrize("name", BACKENDS)
def test_results_and_gradients(name: str) -> None:
    rl.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 4), nn.GELU(), nn.LayerNorm(4))

    def results(run: Callable) -> list[Any]:
        model.zero_grad()
        y = run(X)
        y.pow(2).sum().backward()
        return [y.detach(), *[p.grad.clone() for p in model.parameters()]]

    wanted = results(model)
    run = rl.compile(model, backend=BACKENDS[name])
    for got, want in zip(results(run), wanted, strict=True):
        rl.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    with rl.no_grad():
        rl.testing.assert_close(run(X), wanted[0])


def test_compilers_see_both_graphs() -> None:
    seen = []

    def look(gm: Any, inputs: Any) -> Callable:
        seen.append({str(n.target) for n in gm.graph.nodes if n.op == "call_function"})
        return make_boxed_func(gm.forward)

    model = nn.Sequential(nn.Linear(6, 4), nn.GELU(), nn.LayerNorm(4))
    rl.compile(model, backend=aot_autograd(fw_compiler=look))(X).sum().backward()
    assert seen[0] >= {"aten.t.default", "aten.addmm.default", "aten.gelu.default", "aten.native_layer_norm.default"}
    assert seen[1] >= {"aten.gelu_backward.default", "aten.mm.default", "aten.native_layer_norm_backward.default"}


def test_compilers_know_what_they_compile() -> None:
    names = []

    def look(gm: Any, inputs: Any) -> Callable:
        names.append((get_graph_being_compiled(), get_aot_graph_name(), get_aot_compilation_context()))
        return make_boxed_func(gm.forward)

    f = aot_function(lambda x: x.sin(), look, look)
    f(X.clone().requires_grad_()).sum().backward()
    f(X)
    kinds = [label.partition("_")[2] for label, _, _ in names]
    assert kinds == ["forward", "backward", "inference"]
    region = int(names[0][0].partition("_")[0])
    assert [int(label.partition("_")[0]) - region for label, _, _ in names] == [0, 0, 1]
    assert len({name for _, name, _ in names}) == 3 and all(n.startswith(f"model__{label}_") for label, n, _ in names)
    assert get_graph_being_compiled() == "" and get_aot_compilation_context()[0] == []


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match="forward_compiler"):
        aot_autograd(forward_compiler=as_it_is)
    with pytest.raises(TypeError, match="fw_compiler is missing"):
        aot_autograd()
    with pytest.raises(NotImplementedError, match="ignore_shape_env"):
        compile_fx(None, [], ignore_shape_env=True)
