"""`freezing`: norms of inference become part of the weights before them, and follow changes of either."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.inductor import compile_graph, settings
from rushlight.planners.convolutions import convolve, tiles as convolve_tiles

F = nn.functional


def network(dims: int, groups: int, bias: bool, affine: bool) -> nn.Module:
    rl.manual_seed(0)
    conv, norm = ((nn.Conv1d, nn.BatchNorm1d), (nn.Conv2d, nn.BatchNorm2d), (nn.Conv3d, nn.BatchNorm3d))[dims - 1]
    model = nn.Sequential(
        conv(8, 16, 3, padding=1, groups=groups, bias=bias), norm(16, affine=affine), nn.ReLU(), conv(16, 8, 1),
        norm(8, affine=affine),
    )
    for m in model:
        if isinstance(m, norm):
            for t in (m.running_mean, m.running_var, *((m.weight, m.bias) if affine else ())):
                t.data.copy_(rl.rand(t.shape[0]) + 0.5)
    return model.eval()


def labels_of(model: nn.Module, x: rl.Tensor) -> list[str]:
    """The steps of the model's graph, compiled with its tensors as static inputs."""
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    names = [k for k, t in state.items() if t.is_floating_point()]

    def f(*tensors):
        return rl.func.functional_call(model, dict(zip(names, tensors, strict=False)), (tensors[-1],))

    tensors = [*[state[k].detach() for k in names], x]
    graph = make_fx(f, tracing_mode="fake", _own_ops=True)(*tensors)
    graph.meta["static_inputs"] = list(range(len(names)))
    result = compile_graph(graph, tensors)
    rl.testing.assert_close(result(tensors)[0], model(x).detach(), rtol=1e-4, atol=1e-5)
    assert result.prepared_bytes > 0
    return list(result.labels)


@pytest.mark.parametrize("dims, groups, bias, affine", [(2, 1, False, True), (2, 8, True, True), (1, 2, True, False),
                                                        (3, 1, False, False)])
def test_norms_disappear(dims, groups, bias, affine, monkeypatch) -> None:
    model, x = network(dims, groups, bias, affine), rl.randn(2, 8, *(12,) * dims)
    assert any("_scaled_channels" in label for label in labels_of(model, x))
    monkeypatch.setattr(settings, "freeze", True)
    labels = labels_of(model, x)
    assert not any("_scaled_channels" in label or "rsqrt" in label for label in labels)


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64])
def test_a_compiled_module_follows_changes(dtype) -> None:
    model = network(2, 1, False, True).to(dtype)
    fast, x = rl.compile(model, options={"freezing": True}), rl.randn(2, 8, 20, 20, dtype=dtype)
    changes = [lambda: None, lambda: model[0].weight.mul_(2), lambda: model[1].running_var.add_(1),
               lambda: model[4].bias.sub_(3), lambda: model.load_state_dict({k: v * 2 for k, v in
                                                                             model.state_dict().items()})]
    with rl.no_grad():
        for change in changes:
            change()
            for _ in range(2):
                rl.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-4)


def test_training_does_not_fold() -> None:
    model, x = network(2, 1, False, True), rl.randn(2, 8, 20, 20)
    other = network(2, 1, False, True)
    fast = rl.compile(other, options={"freezing": True})
    for mode in (False, True):
        found = []
        for module, run in ((model, model), (other, fast)):
            module.train(mode).zero_grad()
            result = run(x)
            result.square().sum().backward()
            found.append([result.detach(), *[p.grad for p in module.parameters()], *module.buffers()])
        for expected, got in zip(*found, strict=True):
            rl.testing.assert_close(got, expected, rtol=1e-3, atol=1e-2)


def test_what_is_read_before_its_norm_stays(monkeypatch) -> None:
    monkeypatch.setattr(settings, "freeze", True)
    x, w, mean, var = rl.randn(2, 8, 12, 12), rl.randn(16, 8, 3, 3), rl.randn(16), rl.rand(16) + 0.5

    def f(w, mean, var, x):
        y = F.conv2d(x, w)
        return F.batch_norm(y, mean, var), y.sum()

    graph = make_fx(f, tracing_mode="fake", _own_ops=True)(w, mean, var, x)
    graph.meta["static_inputs"] = [0, 1, 2]
    got = compile_graph(graph, [w, mean, var, x])([w, mean, var, x])
    for a, b in zip(got, f(w, mean, var, x), strict=True):
        rl.testing.assert_close(a, b, rtol=1e-4, atol=1e-3)


def planned_tiles(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of results of the tiles that convolutions are planned in from now on."""
    found: list[int] = []
    steps = convolve.tile_steps

    def watched(*args):
        found.append(args[-1].high)
        return steps(*args)

    monkeypatch.setattr(convolve, "tile_steps", watched)
    monkeypatch.setattr(convolve_tiles, "FEW_WEIGHTS", 0)
    return found


@pytest.mark.parametrize("images, channels, outs, high, wide, padding", [
    (2, 17, 35, 33, 31, 1), (1, 65, 48, 30, 46, 1), (3, 34, 16, 21, 26, 0), (1, 130, 66, 18, 13, 2)])
def test_large_tiles(images, channels, outs, high, wide, padding, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frozen 3x3 convolutions may take tiles of 4x4 results; docs/accuracy.md says how exact they are."""
    found = planned_tiles(monkeypatch)
    # whether they take less time is another question, with another answer for every width of registers
    monkeypatch.setattr(convolve, "large_pays", lambda *walk: convolve_tiles.fits_tiles(*walk, convolve_tiles.LARGE))
    rl.manual_seed(0)
    conv = nn.Conv2d(channels, outs, 3, padding=padding).eval()
    x = rl.randn(images, channels, high, wide)
    rest = rl.randn(images, outs, high + 2 * padding - 2, wide + 2 * padding - 2)
    functions = {"alone": lambda x, rest: conv(x), "finished": lambda x, rest: (conv(x) * 2 + rest).relu()}
    terms = channels * 9
    bound = 4 * 0.3 * 2.0**-24 * (min(terms, 144) + terms / 144) ** 0.5
    with rl.no_grad():
        for name, function in functions.items():
            rl.testing.assert_close(rl.compile(function)(x, rest), function(x, rest))
            assert found and 4 not in found, name
            frozen = rl.compile(function, options={"freezing": True})
            for factor in (1.0, -0.5):      # weights that change are seen
                conv.weight.mul_(factor)
                got = frozen(x, rest)
                double = {k: v.double() for k, v in conv.named_parameters()}
                exact = rl.func.functional_call(conv, double, (x.double(),))
                exact = exact if name == "alone" else (exact * 2 + rest.double()).relu()
                error = (got - exact).square().mean().sqrt() / exact.square().mean().sqrt()
                assert error <= bound, f"{name}: {error / bound:.2f} of the bound"
            assert 4 in found, name
            del found[:]


def test_large_tiles_only_where_they_multiply_less(monkeypatch: pytest.MonkeyPatch) -> None:
    found = planned_tiles(monkeypatch)
    conv, x = nn.Conv2d(40, 40, 3, padding=1).eval(), rl.randn(90, 40, 2, 8)      # rows of two: half a tile
    with rl.no_grad():
        rl.testing.assert_close(rl.compile(conv, options={"freezing": True})(x), conv(x), rtol=1e-4, atol=1e-5)
    assert found and 4 not in found
