"""Frozen modules: what becomes a constant, what stays, and results that stay."""

from __future__ import annotations

import re

import pytest

import rushlight as rl
from rushlight import jit, nn


def kinds(graph: object) -> list[str]:
    return re.findall(r"= ([\w:]+)", str(graph))


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.offset = nn.Parameter(rl.tensor([2.0, 3.0])), 2

    def forward(self, x):
        return x * self.weight + self.offset


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.drop = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Dropout(0.5)
        self.scaled, self.names = Scaled(), ["a", "b"]
        self.register_buffer("calls", rl.zeros(1))
        self.register_buffer("seen", rl.zeros(1))
        self.last = rl.zeros(1)

    def forward(self, x):
        y = self.drop(rl.relu(self.norm(self.conv(x))))
        self.calls.add_(1)
        self.last = y.sum()
        return self.scaled(y.mean([2, 3])) * len(self.names)

    @jit.export
    def extra(self, x):
        return self.scaled(x) + self.last


def network() -> Network:
    made = Network()
    with rl.no_grad():
        made.norm.running_mean.copy_(rl.tensor([0.5, -0.25]))
        made.norm.running_var.copy_(rl.tensor([2.0, 0.5]))
        made.norm.weight.copy_(rl.tensor([1.5, 0.75]))
    return made.eval()


def test_attributes_become_constants_and_norms_part_of_weights() -> None:
    model = network()
    scripted, x = jit.script(model), rl.randn(2, 1, 6, 5)
    frozen = jit.freeze(scripted)
    found = kinds(frozen.graph)
    assert "aten::batch_norm" not in found and "aten::dropout" not in found and "prim::CallMethod" not in found
    assert re.findall(r'prim::[GS]etAttr\[name="(\w+)"\]', str(frozen.graph)) == ["calls", "last"]
    assert "%self.conv.weight_fused_bn : Float(2, 1, 3, 3" in str(frozen.graph)
    assert [name for name, _ in frozen.named_buffers()] == ["calls"] and not list(frozen.parameters())
    rl.testing.assert_close(frozen(x), scripted(x))
    assert frozen.calls.item() == 2 and not hasattr(frozen, "training")
    assert "norm" in dict(scripted.named_children()) and "prim::CallMethod" in kinds(scripted.graph)


def test_traces_are_frozen_too() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(6, 4)).eval()
    x = rl.randn(2, 1, 5, 3)
    frozen = jit.freeze(jit.trace(net, x))
    rl.testing.assert_close(frozen(x), net(x))
    assert "aten::batch_norm" not in kinds(frozen.graph) and not list(frozen.parameters())


def test_what_is_asked_for_stays() -> None:
    scripted, x = jit.script(network()), rl.randn(2, 1, 6, 5)
    frozen = jit.freeze(scripted, preserved_attrs=["names", "extra"], optimize_numerics=False)
    assert frozen.names == ["a", "b"] and "aten::batch_norm" in kinds(frozen.graph)
    assert rl.equal(frozen(x), scripted(x))
    assert rl.equal(frozen.extra(rl.ones(2)), scripted.extra(rl.ones(2)))
    frozen.names = ["a", "b", "c"]
    rl.testing.assert_close(frozen(x) * 2, scripted(x) * 3)
    with pytest.raises(RuntimeError, match="Unknown name: nothing"):
        jit.freeze(scripted, preserved_attrs=["nothing"])


def test_refusals() -> None:
    with pytest.raises(RuntimeError, match="ScriptModule"):
        jit.freeze(network())
    with pytest.raises(RuntimeError, match="eval mode"):
        jit.freeze(jit.script(network()).train())
    with pytest.raises(RuntimeError, match="ScriptModule"):
        jit.optimize_for_inference(network())


class Shared(nn.Module):
    """Two names for one memory, one of which is written; and a view of a third."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", rl.zeros(4))
        self.register_buffer("same", self.state)
        self.register_buffer("part", self.state.view(2, 2)[0])
        self.register_buffer("still", rl.ones(4))
        self.rows = [rl.zeros(2), rl.ones(2)]

    def forward(self, x):
        self.state.add_(1)
        self.rows[0].mul_(2)
        return x + self.same + self.part.sum() + self.still, self.rows[0].add_(1)


def test_what_shares_memory_with_a_written_attribute_is_no_constant() -> None:
    model = Shared().eval()
    frozen = jit.freeze(jit.script(model))
    for turn in range(1, 4):
        found, row = frozen(rl.zeros(4))
        assert rl.equal(found, rl.full([4], turn + 2.0 * turn + 1)) and row[0] == 2**turn - 1
    assert "still" not in re.findall(r'GetAttr\[name="(\w+)"\]', str(frozen.graph))


class Sums(nn.Module):
    def __init__(self, uses_twice: bool) -> None:
        super().__init__()
        self.conv, self.linear, self.norm = nn.Conv1d(2, 3, 1, bias=False), nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.uses_twice, self.row = uses_twice, rl.tensor([[1.0], [2.0], [3.0]])

    def forward(self, x):
        y = self.conv(x)
        z = (y * 2 + self.row) / 4 - 1
        if self.uses_twice:
            z = z + y
        return self.norm(self.linear(z.sum(1)))


@pytest.mark.parametrize("uses_twice", [False, True])
def test_sums_and_products_become_part_of_convolutions(uses_twice: bool) -> None:
    model = Sums(uses_twice)
    model(rl.randn(5, 2, 4))
    scripted, x = jit.script(model.eval()), rl.randn(3, 2, 4)
    frozen = jit.freeze(scripted)
    rl.testing.assert_close(frozen(x), scripted(x))
    found = kinds(frozen.graph)
    assert "aten::batch_norm" not in found and ("aten::div" in found) == uses_twice
    assert not uses_twice or found.count("aten::mul") == 1


def test_a_norm_that_uses_the_batch_is_no_part_of_weights() -> None:
    class Batch(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 2, 3)
            self.mean, self.variance = rl.zeros(2), rl.ones(2)

        def forward(self, x):
            return rl.batch_norm(self.conv(x), None, None, self.mean, self.variance, True, 0.1, 1e-5, False)

    scripted, x = jit.script(Batch().eval()), rl.randn(2, 1, 6, 5)
    frozen = jit.freeze(scripted)
    assert "aten::batch_norm" in kinds(frozen.graph)
    rl.testing.assert_close(frozen(x), scripted(x))


def test_optimize_for_inference_freezes_first() -> None:
    model, x = network(), rl.randn(2, 1, 6, 5)
    scripted = jit.script(model)
    expected = scripted(x)
    fast = jit.optimize_for_inference(scripted, ["extra"])
    rl.testing.assert_close(fast(x), expected)
    assert "aten::batch_norm" not in kinds(fast.graph) and fast.extra(rl.ones(2)).shape == (2,)
    with pytest.raises(RuntimeError, match="Unknown name"):
        jit.optimize_for_inference(scripted, ["no_such_method"])


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_freeze_where_their_checks_only_raise(kind) -> None:
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = kind(4, 5, batch_first=True, bidirectional=True)

        def forward(self, x):
            return self.layer(x)[0]

    scripted, x = jit.script(Tagger().eval()), rl.randn(2, 6, 4)
    rl.testing.assert_close(jit.freeze(scripted)(x), scripted(x))
