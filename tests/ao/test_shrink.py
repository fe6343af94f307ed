"""`ao.pruning.shrink`: a smaller model with the outputs of the masked one."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.ao.pruning import WeightNormSparsifier, shrink
from rushlight.ao.pruning._experimental.pruner import SaliencyPruner
from rushlight.nn import functional as F
from rushlight.nn.utils import prune


class Residual(nn.Module):
    """A sum, a strided shortcut, batch norms with shifts, a pool, a flattening."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.a, self.norm_a = nn.Conv2d(8, 12, 3, 2, 1, bias=False), nn.BatchNorm2d(12)
        self.b, self.norm_b = nn.Conv2d(12, 12, 3, 1, 1, bias=False), nn.BatchNorm2d(12)
        self.side, self.head = nn.Conv2d(8, 12, 1, 2), nn.Linear(48, 5)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        x = self.relu(self.norm(self.stem(x)))
        y = self.norm_b(self.b(self.relu(self.norm_a(self.a(x)))))
        y += self.side(x)
        return self.head(rl.flatten(F.adaptive_avg_pool2d(self.relu(y), 2), 1))


class Joined(nn.Module):
    """Concatenation with an input, one reader of a part, a reshape to a number in the program."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(3, 6, 1)
        self.c, self.d, self.head = nn.Conv2d(14, 4, 1), nn.Conv2d(17, 5, 1), nn.Linear(5 * 16, 3)

    def forward(self, x):
        y = rl.cat([self.a(x), self.b(x)], 1)
        z = rl.relu(self.d(rl.cat([x, y], dim=1)))
        return self.head(z.view(-1, 80)), self.c(F.max_pool2d(y, 2))


class Grouped(nn.Module):
    """A depthwise convolution, one in groups, and gates made from means."""

    def __init__(self):
        super().__init__()
        self.a, self.norm = nn.Conv2d(3, 12, 1, bias=False), nn.BatchNorm2d(12)
        self.deep, self.b = nn.Conv2d(12, 24, 3, 1, 1, groups=12), nn.Conv2d(24, 8, 1)
        self.g, self.down, self.up = nn.Conv2d(8, 8, 3, groups=4), nn.Linear(8, 4), nn.Linear(4, 8)
        self.z = nn.Conv2d(8, 4, 1)

    def forward(self, x):
        x = self.g(self.b(self.deep(F.relu6(self.norm(self.a(x))))))
        batch, channels, _, _ = x.size()
        gate = rl.sigmoid(self.up(F.relu(self.down(x.mean([2, 3])))))
        return self.z(x * gate.view(batch, channels, 1, 1))


class Feedforward(nn.Module):
    """A layer norm, which needs all of its input, around a hidden layer, which does not."""

    def __init__(self):
        super().__init__()
        self.norm, self.a, self.b = nn.LayerNorm(8), nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x):
        return x + self.b(F.gelu(self.a(self.norm(x))))


MODELS = {Residual: (2, 3, 8, 8), Joined: (2, 3, 4, 4), Grouped: (2, 3, 6, 6), Feedforward: (2, 5, 8)}
MASKS = {
    "rows": lambda m: prune.ln_structured(m, "weight", 0.5, 1, 0),
    "columns": lambda m: prune.ln_structured(m, "weight", 0.5, 1, 1) if m.weight.shape[1] > 1 else None,
    "everything": lambda m: prune.custom_from_mask(m, "weight", rl.zeros_like(m.weight)),
    "nothing": lambda m: None,
}
# What the models weigh after: of how many parameters, how many stay.
LEFT = {
    "Residual rows": (2793, 1938), "Residual columns": (2793, 1511), "Residual everything": (2793, 78),
    "Joined rows": (641, 336), "Joined columns": (641, 541), "Joined everything": (641, 101),
}


def weight(model):
    return sum(p.numel() for p in model.parameters())


def masked(kind, mask):
    rl.manual_seed(0)
    model = kind().eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
            nn.init.normal_(module.weight)
            nn.init.normal_(module.bias)
        elif isinstance(module, (nn.Conv2d, nn.Linear)):
            MASKS[mask](module)
    return model


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("kind", MODELS)
def test_the_outputs_of_the_masked_model(kind, mask):
    model = masked(kind, mask)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    small = shrink(model, rl.randn(MODELS[kind]))
    x = rl.randn(3, *MODELS[kind][1:])
    for ours, theirs in zip(*(out if isinstance(out, tuple) else (out,) for out in (small(x), model(x))), strict=True):
        rl.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert (weight(small) < weight(model)) == (mask != "nothing")
    assert LEFT.get(f"{kind.__name__} {mask}", (weight(model), weight(small))) == (weight(model), weight(small))
    assert all(rl.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(small.get_submodule(name).out_channels == module.weight.shape[0]
               for name, module in small.named_modules() if isinstance(module, nn.Conv2d))


def test_masks_of_pruners_and_sparsifiers_are_baked_in():
    for pruner in (SaliencyPruner({"sparsity_level": 0.5}), WeightNormSparsifier(1.0)):
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        pruner.prepare(model, [{"tensor_fqn": "0.weight", "prune_bias": False}])
        pruner.step()
        small = shrink(model, rl.ones(1, 4))
        assert small.get_submodule("0").out_features == (4 if isinstance(pruner, SaliencyPruner) else 1)
        rl.testing.assert_close(small(rl.ones(2, 4)), model(rl.ones(2, 4)))
        assert nn.utils.parametrize.is_parametrized(model[0]) and small.training


def test_what_is_shared_or_not_known_stays():
    twice = nn.Linear(6, 6)
    prune.ln_structured(twice, "weight", 3, 1, 0)
    model = nn.Sequential(twice, nn.ReLU(), twice)
    assert weight(shrink(model, rl.ones(1, 6))) == 42
    model = nn.Sequential(prune.ln_structured(nn.Linear(6, 6), "weight", 3, 1, 0), nn.Softmax(-1), nn.Linear(6, 2))
    assert weight(shrink(model, rl.ones(1, 6))) == 42 + 14


def test_a_smaller_model_trains_and_can_be_saved(tmp_path):
    model = masked(Residual, "rows").train()
    small = shrink(model, rl.randn(2, 3, 8, 8))
    optimizer = rl.optim.SGD(small.parameters(), lr=0.01)
    F.cross_entropy(small(rl.randn(4, 3, 8, 8)), rl.tensor([0, 1, 2, 3])).backward()
    optimizer.step()
    rl.save(small.state_dict(), tmp_path / "small.pt")
    assert str(small.load_state_dict(rl.load(tmp_path / "small.pt"))) == "<All keys matched successfully>"
