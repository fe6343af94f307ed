"""Branches on elements that only check, with checks that hold and checks that fail."""

from __future__ import annotations

import logging
import warnings

import rushlight as torch
from rushlight import nn

from .harness import case, tensors

log = logging.getLogger(__name__)
state: dict = {"seen": 0}


@case("a check that raises")
def _(x):
    y = x * 2
    if torch.isnan(x).any():
        raise ValueError("nan")
    return y


@case("a check that raises, and fails")
def _(x):
    y = x * 2
    if (x < 100).any():
        raise ValueError("too small", y.shape)
    return y


@case("assert of a tensor")
def _(x):
    assert torch.isfinite(x).all(), "not finite"
    return x.exp()


@case("assert of a tensor, and it fails")
def _(x):
    assert (x > 100).all(), "too small"
    return x.exp()


@case("checks one after the other, joined by or")
def _(x):
    if torch.isnan(x).any() or torch.isinf(x).any() or x.max() > 1e6:
        raise ValueError("out of range")
    if not (x.abs() < 1e6).all():
        raise ValueError("large")
    return x.sin()


@case("a check that warns")
def _(x):
    if x.std() < 1e-6:
        warnings.warn("constant", stacklevel=2)
        log.warning("constant")
    return (x - x.mean()) / x.std()


@case("a check with an else")
def _(x):
    total = x.abs().sum()
    if total <= 0:
        warnings.warn("nothing there", stacklevel=1)
        y = torch.zeros_like(x)
    else:
        y = x / total
    return y


@case("a check in a method, in a loop", lambda: (nn.Sequential(nn.Linear(4, 4), nn.ReLU()), *tensors()))
def _(model, x):
    for layer in model:
        x = layer(x)
        if not torch.isfinite(x).all():
            raise FloatingPointError(type(layer).__name__)
    return x


@case("effects around a check", observe=lambda: dict(state))
def _(x):
    state["seen"] = 1
    if x.sum() > 1e9:
        state["seen"] = 2
        raise ValueError("large")
    state["behind"] = x.shape
    return x + 1


@case("effects before a check that fails", observe=lambda: dict(state))
def _(x):
    state["seen"] = 3
    if x.sum() < 1e9:
        state["seen"] = 4
        raise ValueError("small")
    state["seen"] = 5
    return x + 1


@case("writes before a check that fails", lambda: (torch.zeros(3), *tensors()))
def _(total, x):
    total += x.detach().sum(1)
    if (x < 100).all():
        raise ValueError("small")
    total += 1
    return x * total[:, None]


@case("a try block around a check that fails")
def _(x):
    try:
        if (x < 100).all():
            raise ValueError("small")
        y = x * 2
    except ValueError as error:
        y = x * len(str(error))
    return y


@case("a with block around a check, and random numbers")
def _(x):
    with torch.no_grad():
        noise = torch.rand_like(x)
        if torch.isnan(noise).any():
            raise ValueError("nan")
    return nn.functional.dropout(x, 0.5) * noise


@case("tensors that change their own sizes")
def _(x):
    mask = (x > 0).detach()
    mask.unsqueeze_(1)
    other = mask.clone()
    other.transpose_(0, 2).squeeze_()
    return x * mask.squeeze(1), other, other.t_().shape
