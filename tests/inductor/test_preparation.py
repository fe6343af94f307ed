"""What depends on a module's tensors alone is computed once, and again when they change."""

from __future__ import annotations

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.inductor.compile_fx import compile_graph
from rushlight.op.pack import packers


def compiled(function, static, *inputs):
    graph = make_fx(function, tracing_mode="fake", _own_ops=True)(*static, *inputs)
    graph.meta["static_inputs"] = list(range(len(static)))
    return compile_graph(graph, [*static, *inputs])


def layer(w, b, mean, var, x):
    return F.linear(x, w, b) * (var + 1e-5).rsqrt() - mean


def fresh():
    return [rl.randn(256, 128), rl.randn(256), rl.randn(256), rl.rand(256), rl.randn(32, 128)]


def test_weights_are_packed_and_statistics_folded_once() -> None:
    tensors = fresh()
    made = compiled(layer, tensors[:4], tensors[4])
    rl.testing.assert_close(made(tensors)[0], layer(*tensors), rtol=1e-4, atol=1e-4)
    kept = made.kept
    assert len(kept) == 2 and not any("rsqrt" in label for label in made.labels)
    rl.testing.assert_close(
        made([*tensors[:4], tensors[4] * 2])[0], layer(*tensors[:4], tensors[4] * 2), rtol=1e-4, atol=1e-4
    )
    assert made.kept is kept


def test_a_write_to_a_weight_is_seen() -> None:
    tensors = fresh()
    made = compiled(layer, tensors[:4], tensors[4])
    made(tensors)
    tensors[0].mul_(3)
    tensors[3].add_(1)
    rl.testing.assert_close(made(tensors)[0], layer(*tensors), rtol=1e-4, atol=1e-4)


def test_another_tensor_in_the_place_of_a_weight_is_seen() -> None:
    tensors, others = fresh(), fresh()
    made = compiled(layer, tensors[:4], tensors[4])
    made(tensors)
    rl.testing.assert_close(made(others)[0], layer(*others), rtol=1e-4, atol=1e-4)


def test_results_that_depend_on_weights_alone_are_not_kept_from_the_caller() -> None:
    """An output is the caller's: a second call must not give the same memory."""
    w = rl.randn(8, 8)
    made = compiled(lambda w, x: (w * 2, x + w.exp()), [w], rl.randn(8, 8))
    first = made([w, rl.zeros(8, 8)])[0]
    first.zero_()
    rl.testing.assert_close(made([w, rl.zeros(8, 8)])[0], w * 2)


def test_a_compiled_module_sees_training_and_loading_of_weights() -> None:
    rl.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 8)).eval()
    run, x = rl.compile(model, fullgraph=True), rl.randn(16, 64)
    with rl.no_grad():
        for _ in range(2):
            rl.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-5)
        for p in model.parameters():
            p.mul_(0.5)
        model[1].running_var.add_(1)
        rl.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-5)
        model.load_state_dict({k: v + 0.1 if v.is_floating_point() else v for k, v in model.state_dict().items()})
        rl.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-5)
        model[0].weight.data = rl.randn(256, 64)
        rl.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kernel, groups, channels", [(3, 1, 16), (1, 1, 16), (5, 2, 8), (3, 16, 16)])
def test_weights_of_convolutions_are_laid_out_once(kernel: int, groups: int, channels: int) -> None:
    rl.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(channels, 16, kernel, padding=kernel // 2, groups=groups), nn.ReLU(), nn.Conv2d(16, 4, kernel)
    ).eval()
    compiled, x = rl.compile(model, fullgraph=True), rl.randn(2, channels, 24, 24)
    with rl.no_grad():
        rl.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
        model[0].weight.mul_(2)
        rl.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
        model[2].weight.data = rl.randn_like(model[2].weight)
        for _ in range(2):
            rl.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)


def test_no_step_packs_what_is_prepared() -> None:
    made = compiled(lambda w, x: F.linear(x, w), [rl.randn(64, 64)], rl.randn(16, 64))
    assert made.preparation is not None
    assert not [s for s in made.steps if s.kernel in packers]
