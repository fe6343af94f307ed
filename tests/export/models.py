"""Small models, made for Rushlight and for PyTorch by the same code, and arguments for them."""

from __future__ import annotations

import numpy as np

from rushlight.nn import Module


class Call(Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def mlp(t):
    nn = t.nn
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 4), nn.Softmax(-1)), [(3, 8)]


def convolutions(t):
    nn = t.nn
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, 2, groups=2),
        nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5), nn.LogSoftmax(1),
    ), [(2, 3, 12, 12)]


def block(t):
    nn, F = t.nn, t.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.norm = nn.Embedding(11, 8), nn.LayerNorm(8)
            self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

        def forward(self, tokens):
            x = self.embed(tokens)
            b, n, d = x.shape
            q, k, v = self.qkv(self.norm(x)).split(d, dim=2)
            q, k, v = (part.view(b, n, 2, d // 2).transpose(1, 2) for part in (q, k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return x + self.out(y.transpose(1, 2).contiguous().view(b, n, d))

    return Block(), ["tokens"]


def calls(t):
    nn, F = t.nn, t.nn.functional

    class Calls(nn.Module):
        def forward(self, x, y):
            a = t.cat([x[:, 1:3], y[:, :2]], 1) * 2 + 1
            b = t.where(a > 0, a, a.exp()).masked_fill(a < -1, 0.5)
            c = 1 - b.pow(2).mean(-1, keepdim=True) + t.arange(4)
            d, index = c.max(1)
            e = t.stack([c.sum(0), c.std(0), c.amax(0)]).clamp(-3, 3)
            return F.gelu(c).unsqueeze(0), d / 2, index, e.transpose(0, 1).reshape(-1), t.einsum("ij,kj->ik", x, y)

    return Calls(), [(5, 4), (5, 4)]


def losses(t):
    nn, F = t.nn, t.nn.functional

    class Losses(nn.Module):
        def forward(self, x, y):
            x = F.leaky_relu(F.layer_norm(x, (4,)), 0.2)
            return F.mse_loss(x, y), F.smooth_l1_loss(x, y), F.pad(x, (1, 2))

    return Losses(), [(5, 4), (5, 4)]


def others(t):
    """Calls that ATen has under other names, or with other arguments and results."""
    nn, F = t.nn, t.nn.functional

    class Others(nn.Module):
        def forward(self, x, image):
            a = 1 / (F.softsign(x) + 3) + F.logsigmoid(x) + F.selu(x) + F.elu(x, 0.5)
            b = F.kl_div(F.log_softmax(x, 1), F.softmax(x, 1), reduction="batchmean") + F.tanhshrink(x).sum()
            c = F.interpolate(image, scale_factor=2.0) + F.interpolate(image, size=(8, 8), mode="bilinear")
            d, index = F.max_pool2d(image, 2, return_indices=True)
            e = F.adaptive_max_pool2d(image, 2)
            return a, b, c, d, index, e, (x > 0) & (x < 1), x.mT, t.tensordot(x, x, ([0], [0])), x.half()

    return Others(), [(5, 4), (1, 2, 4, 4)]


MAKERS = {"mlp": mlp, "convolutions": convolutions, "block": block, "calls": calls, "losses": losses, "others": others}
MODELS = list(MAKERS)


def make(t, name):
    """The model, in eval mode, with the same weights in both."""
    model = MAKERS[name](t)[0].eval()
    draw = np.random.default_rng(0)
    with t.no_grad():
        for p in model.parameters():
            p.copy_(t.from_numpy(draw.standard_normal(tuple(p.shape)).astype(np.float32) * 0.3))
    return model


def arguments(t, name):
    """Its arguments, the same in both."""
    draw = np.random.default_rng(1)
    shapes = MAKERS[name](t)[1]
    if shapes == ["tokens"]:
        return (t.from_numpy(draw.integers(0, 11, (2, 6))),)
    return tuple(t.from_numpy(draw.standard_normal(s).astype(np.float32)) for s in shapes)


def torch_arguments(name):
    """(model, arguments) of PyTorch."""
    import torch

    return make(torch, name), arguments(torch, name)
