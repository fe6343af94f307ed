"""Gradients that a program computes itself."""

from __future__ import annotations

import rushlight as torch
from rushlight import nn

from .harness import case, tensors


def pair():
    (x,) = tensors()
    return x, x.detach().sin().requires_grad_()


@case("backward fills grad of two leaves", pair)
def _(x, w):
    (x * w).sum().backward()
    return x.grad * 2, w.grad


@case("backward twice adds up", pair)
def _(x, w):
    (x * w).sum().backward()
    (x - w).square().sum().backward()


@case("backward with retain_graph and a weight", pair)
def _(x, w):
    y = x * w
    y.backward(torch.ones_like(y), retain_graph=True)
    y.backward(gradient=y.detach())


@case("backward with inputs=", pair)
def _(x, w):
    (x * w).sum().backward(inputs=[w])
    return w.grad


@case("autograd.backward of two losses", pair)
def _(x, w):
    torch.autograd.backward([(x * w).sum(), (x + w).square().sum()])


@case("grad set to None, and read", pair)
def _(x, w):
    (x * w).sum().backward()
    kept = x.grad
    x.grad = None
    (x * 2).sum().backward()
    return kept, x.grad, kept is x.grad


@case("grads of leaves do not share memory", pair)
def _(x, w):
    (x + w).sum().backward()
    x.grad.add_(1)
    return w.grad


@case("a leaf made inside: requires_grad_ and grad")
def _(x):
    y = x.detach().clone().requires_grad_()
    (y.sin() * y).sum().backward()
    return x + y.grad.sign()


@case("a leaf made inside that leaves the frame", breaks=True)
def _(x):
    y = x.detach().clone().requires_grad_()
    (y * y).sum().backward()
    return y


def outside():
    (x,) = tensors()
    return x, x * 3


@case("backward to a history outside of the frame", outside, breaks=True)
def _(x, h):
    h.square().sum().backward()
    return h.detach() + 1


def hooked():
    (x,) = tensors()
    x.register_hook(lambda g: g * 5)
    return (x,)


@case("backward to a leaf with a hook", hooked, breaks=True)
def _(x):
    x.square().sum().backward()


def model():
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)), tensors()[0].detach()


@case("forward and backward of a model", model)
def _(m, x):
    loss = m(x).square().mean()
    loss.backward()
    return loss.detach()


@case("backward under no_grad for the update", model)
def _(m, x):
    m(x).square().mean().backward()
    with torch.no_grad():
        for p in m.parameters():
            p.sub_(p.grad, alpha=0.1)
            p.grad = None


def optimizer():
    m, x = model()
    return m, x, torch.optim.SGD(m.parameters(), lr=0.1)


@case("a training step with an optimizer", optimizer)
def _(m, x, opt):
    opt.zero_grad()
    loss = m(x).square().mean()
    loss.backward()
    opt.step()
    return loss.detach()


@case("backward of a tensor without a gradient is an error", lambda: (torch.ones(2),))
def _(x):
    x.sum().backward()
