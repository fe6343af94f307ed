"""Compiled through capture and partition, functions and modules give what they give in eager mode,
forward and backward."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn
from rushlight.utils._pytree import tree_leaves

pytestmark = pytest.mark.share(2)   # of each test that has several cases

BACKENDS = ("aot_eager", "aot_eager_decomp_partition", "inductor")


class ResidualNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.conv2, self.bn2 = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.fc = nn.Linear(4, 5)

    def forward(self, x: Any) -> Any:
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        x = F.relu(self.bn2(self.conv2(x)) + x, inplace=True)
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class TiedLanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: Any) -> Any:
        return self.head(self.block(self.embed(tokens)))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(4, 6, num_layers=2, batch_first=True)

    def forward(self, x: Any) -> Any:
        out, (h, c) = self.rnn(x)
        return {"out": out, "state": (h, c)}


class Hooked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 2)
        self.a.register_forward_hook(lambda module, args, result: result * 2)
        self.b.register_forward_pre_hook(lambda module, args: (args[0].tanh(),))

    def forward(self, x: Any) -> Any:
        return self.b(self.a(x))


def tokens(*sizes: int) -> Any:
    return rl.randint(0, 11, sizes)


MODULES: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple]]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2)),
            lambda: (rl.randn(3, 4),)),
    "dropout": (lambda: nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.ReLU(), nn.Dropout(0.2)),
                lambda: (rl.randn(3, 4),)),
    "residual": (ResidualNet, lambda: (rl.randn(2, 3, 6, 6),)),
    "tied": (TiedLanguageModel, lambda: (tokens(2, 5),)),
    "lstm": (Recurrent, lambda: (rl.randn(2, 5, 4),)),
    "gru": (lambda: nn.GRU(4, 3), lambda: (rl.randn(5, 2, 4),)),
    "hooks": (Hooked, lambda: (rl.randn(3, 4),)),
    "attention": (lambda: nn.MultiheadAttention(8, 2, batch_first=True), lambda: (rl.randn(2, 3, 8),) * 3),
    "group norm": (lambda: nn.Sequential(nn.Conv2d(2, 4, 1), nn.GroupNorm(2, 4), nn.SiLU(), nn.MaxPool2d(2)),
                   lambda: (rl.randn(2, 2, 4, 4),)),
    "transposed": (lambda: nn.Sequential(nn.ConvTranspose2d(2, 3, 2, 2), nn.InstanceNorm2d(3),
                                         nn.Upsample(scale_factor=2)), lambda: (rl.randn(1, 2, 3, 3),)),
    "embedding bag": (lambda: nn.EmbeddingBag(11, 4, mode="mean"), lambda: (tokens(3, 4),)),
    "parametrised": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), lambda: (rl.randn(2, 4),)),
}


def loss_of(result: Any) -> Any:
    return sum(
        (t.float() * t.float()).mean() for t in tree_leaves(result) if t is not None and t.dtype.is_floating_point
    )


@pytest.mark.share(2)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MODULES)
def test_modules_train_as_in_eager_mode(name: str, backend: str) -> None:
    make, arguments = MODULES[name]
    rl.manual_seed(0)
    plain = make()
    other = copy.deepcopy(plain)
    compiled = rl.compile(other, fullgraph=True, backend=backend)
    optimizers = [rl.optim.SGD(m.parameters(), lr=0.1) for m in (plain, other)]
    near = {"rtol": 1e-4, "atol": 1e-5} if backend == "inductor" else {}     # sums are in another order there
    for step in range(3):
        args = arguments()
        results = []
        for model, optimizer in zip((plain, compiled), optimizers, strict=True):
            rl.manual_seed(step)
            optimizer.zero_grad()
            result = model(*args)
            loss_of(result).backward()
            optimizer.step()
            results.append(result)
        for a, b in zip(*map(tree_leaves, results), strict=True):
            assert a is b is None or (
                rl.testing.assert_close(b, a, **near) is None and a.requires_grad == b.requires_grad
            )
    for (key, a), b in zip(plain.state_dict().items(), other.state_dict().values(), strict=True):
        rl.testing.assert_close(b, a, msg=lambda text, key=key: f"{key}: {text}", **near)
    assert rl.compiler.is_compiling() is False


@pytest.mark.parametrize("name", MODULES)
def test_modules_evaluate_as_in_eager_mode(name: str) -> None:
    make, arguments = MODULES[name]
    rl.manual_seed(0)
    model = make()
    compiled = rl.compile(model, fullgraph=True, backend="aot_eager")
    model.eval()
    args = arguments()
    for mode in (rl.no_grad(), rl.inference_mode(), rl.enable_grad()):
        with mode:
            for a, b in zip(tree_leaves(model(*args)), tree_leaves(compiled(*args)), strict=True):
                assert a is b is None or rl.testing.assert_close(b, a) is None


FUNCTIONS: dict[str, Callable] = {
    "pointwise": lambda x, y: (x.sin() * y.exp() + 1).tanh(),
    "matmul": lambda x, y: (x @ y.T).softmax(-1),
    "reductions": lambda x, y: (x.var(0) + y.mean(0), x.logsumexp(1), y.norm()),
    "in-place inside": lambda x, y: ((x * 2).add_(y).relu_(), (y + 1).mul_(x)),
    "views written to": lambda x, y: _written_views(x, y),
    "indexing": lambda x, y: (
        (x[:, 1:], x[[0, 2]], y[x > 0], x.gather(1, y.argsort(1)))
        if False
        else (x[:, 1:] * 2, x[[0, 2]], x.gather(1, y.argsort(1)))
    ),
    "concatenation": lambda x, y: rl.cat([x, y, x]).split(2)[1] * rl.stack([x, y]).sum(),
    "where and masks": lambda x, y: rl.where(x > y, x, y * 2).masked_fill(x < 0, 0.0).clamp(-1, 1),
    "detached": lambda x, y: x.detach() * y + x,
    "without gradients inside": lambda x, y: _without_gradients(x, y),
    "losses": lambda x, y: F.mse_loss(x, y) + F.smooth_l1_loss(x, y) + F.cross_entropy(x, y.softmax(1)),
    "sorting": lambda x, y: (x.sort(1).values, y.topk(2, dim=1).values, x.cumsum(0)),
    "gradient inside": lambda x, y: rl.autograd.grad((x * x * y).sum(), x, create_graph=True)[0],
    "nested outputs": lambda x, y: {"a": x + y, "b": [None, 3, (x * y, "text")]},
    "constants": lambda x, y: x * rl.tensor([1.0, 2.0, 3.0]) + rl.arange(3) + rl.ones(4, 3) + y,
    "einsum": lambda x, y: rl.einsum("ij,kj->ik", x, y),
}


def _written_views(x: Any, y: Any) -> Any:
    z = x * 1
    z[1] = y[0]
    z[:, 0].mul_(3)
    z.view(-1)[2:5].add_(y.flatten()[:3])
    return z.t() + z.diagonal().sum()


def _without_gradients(x: Any, y: Any) -> Any:
    with rl.no_grad():
        scale = (x * y).sum()
    return x * scale + y


@pytest.mark.share(2)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_and_their_gradients(name: str, backend: str) -> None:
    rl.manual_seed(1)
    f = FUNCTIONS[name]
    compiled = rl.compile(f, fullgraph=True, backend=backend)
    x, y = rl.randn(4, 3, requires_grad=True), rl.randn(4, 3, requires_grad=True)
    expected, got = f(x, y), compiled(x, y)
    for a, b in zip(tree_leaves(expected), tree_leaves(got), strict=True):
        if not isinstance(a, rl.Tensor):
            assert a == b
            continue
        rl.testing.assert_close(b, a)
        assert a.requires_grad == b.requires_grad and a.stride() == b.stride()
    wanted = rl.autograd.grad(loss_of(_tensors(expected)), (x, y), allow_unused=True)
    found = rl.autograd.grad(loss_of(_tensors(got)), (x, y), allow_unused=True)
    for a, b in zip(wanted, found, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            rl.testing.assert_close(b, a)


def _tensors(result: Any) -> list[Any]:
    return [t for t in tree_leaves(result) if isinstance(t, rl.Tensor) and t.requires_grad]


@pytest.mark.parametrize("dynamic", (False, True))
def test_third_derivatives_of_a_compiled_function(dynamic: bool) -> None:
    def curvature(x: Any) -> Any:
        (g,) = rl.autograd.grad((x.sin() * x).sum(), x, create_graph=True)
        return rl.autograd.grad(g.sum(), x, create_graph=True)[0]

    rl._dynamo.reset()
    compiled = rl.compile(curvature, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for n in (3, 5):
        x = rl.linspace(-1, 2, n).requires_grad_()
        found, wanted = (rl.autograd.grad(f(x).sum(), x)[0] for f in (compiled, curvature))
        rl.testing.assert_close(found, wanted)
