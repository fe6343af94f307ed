"""Whole training on the lazy device: networks, optimizers, gradients of gradients, and how many graphs they need."""

from __future__ import annotations

import copy

import pytest

import rushlight as rl
from rushlight import lazy
from rushlight.lazy import cache, metrics
from rushlight.utils.checkpoint import checkpoint

nn, F = rl.nn, rl.nn.functional


@pytest.fixture(autouse=True)
def counted_anew():
    lazy.mark_step()
    cache.reset()
    metrics.reset()
    yield


class Gated(nn.Module):
    """Attention, a norm and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.letter, self.norm, self.mixed = nn.Embedding(11, 8), nn.LayerNorm(8), nn.Linear(8, 24)
        self.drop, self.scores = nn.Dropout(0.2), nn.Linear(8, 11)

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        x = self.letter(x)
        q, k, v = self.mixed(self.norm(x)).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2)
        return self.scores(x + self.drop(F.gelu(seen))).flatten(0, 1)


def images() -> tuple:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                          nn.Linear(36, 5))
    return model, rl.randn(4, 1, 8, 8), rl.randint(0, 5, (4,))


def words() -> tuple:
    return Gated(), rl.randint(0, 11, (3, 6)), rl.randint(0, 11, (18,))


def losses(make, optimizer_of, device: str, steps: int = 4) -> list[float]:
    rl.manual_seed(0)
    model, x, y = make()
    model, x, y = model.to(device), x.to(device), y.to(device)
    optimizer = optimizer_of(model.parameters())
    schedule = rl.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if device == "lazy":
            lazy.mark_step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("make", [images, words])
def test_networks_learn_as_in_eager_mode_with_two_graphs(make):
    def optimizer(parameters):
        return rl.optim.SGD(parameters, lr=0.1, momentum=0.9)

    want = losses(make, optimizer, "cpu")
    assert losses(make, optimizer, "lazy") == pytest.approx(want, rel=2e-4)
    assert metrics.counter_value("UncachedCompile") <= 2
    assert metrics.counter_value("CachedCompile") >= 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop",
                                  "Rprop", "SGD"])
def test_optimizers(name):
    def make() -> tuple:
        return nn.Linear(3, 2), rl.randn(4, 3), rl.randint(0, 2, (4,))

    def optimizer(parameters):
        return getattr(rl.optim, name)(parameters, lr=0.01)

    want = losses(make, optimizer, "cpu", 5)
    assert losses(make, optimizer, "lazy", 5) == pytest.approx(want, rel=1e-4)


def test_gradients_of_gradients_hooks_and_functions():
    class Cube(rl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x * x

    x = rl.tensor([2.0, -1.0]).to("lazy").requires_grad_()
    seen = []
    x.register_hook(lambda g: seen.append(1) or g * 10)
    (first,) = rl.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
    first.sum().backward()
    assert first.tolist() == [120.0, 30.0] and x.grad.tolist() == [1200.0, -600.0] and len(seen) == 2


def test_checkpointing_accumulation_and_copies():
    rl.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    x = rl.randn(5, 3)
    there, moved = copy.deepcopy(model).to("lazy"), x.to("lazy")
    for part in (slice(0, 2), slice(2, 5)):
        model(x[part]).sum().backward()
        checkpoint(there, moved[part], use_reentrant=False).sum().backward()
        lazy.mark_step()
    for a, b in zip(there.parameters(), model.parameters(), strict=True):
        assert rl.allclose(a.grad.cpu(), b.grad, atol=1e-6)
    state = there.state_dict()
    other = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    other.load_state_dict({k: v.cpu() for k, v in state.items()})
    assert rl.allclose(copy.deepcopy(there)(moved).cpu(), other(x), atol=1e-6)


def test_one_seed_is_one_mask_and_steps_have_others():
    x = rl.ones(64).to("lazy")

    def masks() -> list:
        rl.manual_seed(4)
        found = []
        for _ in range(2):
            found.append(F.dropout(x, 0.5))
            lazy.mark_step()
        return [m.tolist() for m in found]

    first, second = masks(), masks()
    assert first == second and first[0] != first[1]
    rl.manual_seed(4)
    assert first[0] == F.dropout(rl.ones(64), 0.5).tolist()


def test_what_is_counted_and_reported():
    x = rl.ones(3).to("lazy") * 2
    assert lazy.get_tensor_id(x) == lazy.get_tensor_id(x) != lazy.get_tensor_id(x + 1)
    lazy.mark_step()
    assert metrics.counter_value("lazy::mul") == 1 and "UncachedCompile" in metrics.counter_names()
    report = metrics.metrics_report()
    assert "Metric: CompileTime" in report and "Percentiles" in report and "Counter: lazy::mul" in report
    metrics.reset()
    assert metrics.counter_names() == [] and metrics.counter_value("lazy::mul") == 0


def test_what_is_written_down_can_be_read():
    x = rl.ones(2).to("lazy")
    y = (x * 3).add_(1)
    text = lazy.debug.dump_ir([y], "text")
    assert "lazy::mul" in text and "return" in text
    assert "def forward" in lazy.debug.dump_ir([y], "backend")
    assert lazy.debug.render_ir_graph([y]).startswith("digraph")
    with pytest.raises(RuntimeError, match="html"):
        lazy.debug.dump_ir([y], "html")


def test_forced_fallbacks_are_counted():
    lazy.settings.set_force_fallback("aten::mul")
    try:
        assert (rl.full((2,), 3.0).to("lazy") * 2).tolist() == [6.0, 6.0]
        assert metrics.counter_value("aten::mul") >= 1 and lazy.settings.get_force_fallback() == "aten::mul"
    finally:
        lazy.settings.set_force_fallback("")
    with pytest.raises(TypeError):
        lazy.settings.set_force_fallback(3)


def test_the_cache_has_a_bound():
    held = lazy.cache.Cache(2)
    for k in range(5):
        held.keep(k, type("P", (), {"baked": ()}), None, [])
    assert len(held) == 2 and held.find(4, []) is not None and held.find(0, []) is None


def test_trees_come_to_the_host_in_one_graph(tmp_path):
    x = rl.ones(2).to("lazy")
    tree = {"a": x + 1, "b": [x * 3, 7]}
    host = lazy.to_cpu(tree)
    assert host["a"].tolist() == [2.0, 2.0] and host["b"][0].device.type == "cpu" and host["b"][1] == 7
    assert metrics.counter_value("UncachedCompile") == 1
    lazy.save(tree, tmp_path / "tree.pt")
    assert rl.load(tmp_path / "tree.pt")["a"].tolist() == [2.0, 2.0]


def test_closures_on_a_thread_of_their_own():
    import threading

    called, done = [], threading.Event()
    lazy.add_step_closure(lambda word: called.append(word), ("first",))
    lazy.add_step_closure(lambda: (called.append(threading.current_thread().name), done.set()), run_async=True)
    lazy.mark_step()
    assert done.wait(10) and "first" in called and "lazy step closures" in called


def test_a_graph_is_taken_out():
    graph = rl.fx.symbolic_trace(nn.Sequential(nn.Linear(3, 2), nn.ReLU()))
    x = rl.randn(4, 3)
    want = copy.deepcopy(graph)(x)
    run = lazy.computation.extract_compiled_graph(graph, (x,))
    assert rl.allclose(run(x)[0] if isinstance(run(x), (list, tuple)) else run(x), want, atol=1e-6)
