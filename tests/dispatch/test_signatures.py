"""`inspect.signature` and `help` answer for every op, method and layer."""

from __future__ import annotations

import inspect
import pydoc

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.op import load_all, ops


def test_every_op_has_a_signature_and_a_promise() -> None:
    load_all()
    silent = []
    for name, op in ops.items():
        if "::" in name:   # a custom op of another test in this process
            continue
        signature = inspect.signature(op)
        schema, _, promise = (op.__doc__ or "").partition("\n\n")
        if (not signature.parameters and name not in schema) or "->" not in schema or not promise.strip():
            silent.append(name)
    assert not silent


def test_every_method_of_a_tensor_has_a_signature() -> None:
    silent = []
    for name in dir(rl.Tensor):
        method = getattr(rl.Tensor, name)
        if name.startswith("_") or not callable(method):
            continue
        try:
            inspect.signature(method)
        except (ValueError, TypeError):
            silent.append(name)
    assert not silent


def test_a_signature_fits_the_calls() -> None:
    assert (
        str(inspect.signature(rl.softmax))
        == "(input: 'Tensor', dim: 'int', dtype: 'dtype | None' = None, *, out: 'Tensor | None' = None) -> 'Tensor'"
    )
    x = rl.ones(2, 2)
    for op, calls in (
        (rl.add, [((x, x), {}), ((x, x), {"alpha": 2}), ((x, x), {"out": x})]),
        (rl.max, [((x,), {}), ((x, 0), {"keepdim": True})]),
        (rl.sum, [((x,), {}), ((x, 0), {}), ((x,), {"dtype": rl.float64})]),
    ):
        for args, kwargs in calls:
            inspect.signature(op).bind(*args, **kwargs)
    assert list(inspect.signature(x.add).parameters) == ["other", "alpha", "out"]
    assert str(inspect.signature(x.size)) == "(dim=None)"
    with pytest.raises(ValueError):
        inspect.signature(type(rl.add))


def test_every_layer_has_a_signature_and_help() -> None:
    for name in dir(nn):
        layer = getattr(nn, name)
        if isinstance(layer, type) and issubclass(layer, nn.Module):
            inspect.signature(layer)
            assert layer.__doc__ and name in pydoc.plain(pydoc.render_doc(layer))
    shown = pydoc.plain(pydoc.render_doc(rl.add))
    assert "alpha" in shown.split("\n\n")[1]   # from Python 3.13 on a long signature is broken into lines
