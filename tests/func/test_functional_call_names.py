"""functional_call: which names a module may be called with, and that it is as it was afterwards. The answers are
PyTorch 2.13's, and are compared with it where it is installed."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import pytest

import rushlight as rl

LIBRARIES = ["rushlight", *(["torch"] if importlib.util.find_spec("torch") else [])]


def _module(torch: Any) -> Any:
    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.full((2,), 2.0))
            self.register_buffer("bias", torch.full((2,), 3.0))
            self.register_parameter("none", None)
            self.plain, self.number = torch.full((2,), 5.0), 4
            self.inner = torch.nn.Linear(2, 2, bias=False)
            self.inner.weight = torch.nn.Parameter(torch.eye(2))
            self.tied = torch.nn.Linear(2, 2, bias=False)
            self.tied.weight = self.inner.weight

        def forward(self, x: Any) -> Any:
            added = getattr(self, "unknown", 0) + (0 if self.none is None else self.none)
            return self.tied(self.inner(x)) * self.weight + self.bias + self.plain + self.number + added

    return Module()


TENSORS = {
    "weight": 21.0, "bias": 20.0, "none": 23.0, "plain": 18.0, "unknown": 23.0, "inner.weight": 660.0,
    "tied.weight": 660.0, "inner.unknown": 14.0, "number": "TypeError", "forward": "TypeError", "inner": "TypeError",
    "training": "TypeError", "missing.weight": "AttributeError", "a.b.c": "AttributeError", "": "KeyError",
    "weight.": "TypeError", "inner.": "KeyError",
}
NOTHING = {"none": 14.0, "plain": "TypeError", "unknown": "TypeError", "number": "TypeError", "": "KeyError"}


def _called(torch: Any, name: str, value: Any, **options: Any) -> Any:
    module = _module(torch)
    before = {**vars(module), "state": module.state_dict()}
    if value == "tensor":
        value = torch.full((2, 2) if name in ("inner.weight", "tied.weight") else (2,), 9.0)
    try:
        return torch.func.functional_call(module, {name: value}, (torch.ones(2),), **options).tolist()[0]
    except (TypeError, KeyError, AttributeError, RuntimeError, ValueError) as error:
        return type(error).__name__
    finally:
        now = {**vars(module), "state": module.state_dict()}
        assert list(now) == list(before) and list(now["state"]) == list(before["state"])
        assert all(now[key] is before[key] for key in before if key != "state")
        assert all(torch.equal(a, b) for a, b in zip(now["state"].values(), before["state"].values(), strict=True))
        assert module.tied.weight is module.inner.weight


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", TENSORS)
def test_names(name: str, library: str) -> None:
    torch = importlib.import_module(library)
    assert _called(torch, name, "tensor") == TENSORS[name]
    assert _called(torch, name, "tensor", strict=True) == "RuntimeError"


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", NOTHING)
def test_nothing_in_the_place_of_a_tensor(name: str, library: str) -> None:
    torch = importlib.import_module(library)
    assert _called(torch, name, None) == NOTHING[name]
    assert _called(torch, name, 3.0) == "TypeError"


@pytest.mark.parametrize("library", LIBRARIES)
def test_ties_and_several_dicts(library: str) -> None:
    torch = importlib.import_module(library)
    module, x, two = _module(torch), torch.ones(2), torch.eye(2) * 2
    call = torch.func.functional_call
    assert call(module, {"inner.weight": two}, (x,), tie_weights=False).tolist() == [16.0, 16.0]
    assert call(module, {"inner.weight": two}, (x,)).tolist() == [20.0, 20.0]
    with pytest.raises(ValueError, match="tie"):
        call(module, {"inner.weight": two, "tied.weight": two + 1}, (x,))
    assert call(module, ({"weight": x}, {"bias": x, "ignored": x}), (x,)).tolist() == [11.0, 11.0]
    with pytest.raises(ValueError, match="weight"):
        call(module, ({"weight": x}, {"weight": x}), (x,))
    whole = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    assert call(module, whole, (x,), strict=True).tolist() == [14.0, 14.0]
    with pytest.raises(RuntimeError, match="more"):
        call(module, {**whole, "more": x}, (x,), strict=True)
    with pytest.raises(RuntimeError, match="bias"):
        call(module, {k: v for k, v in whole.items() if k != "bias"}, (x,), strict=True)
    assert torch.func.grad(lambda w: call(module, {"weight": w, "ignored": w}, (x,)).sum())(x).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_parametrized_weight(library: str) -> None:
    torch = importlib.import_module(library)
    layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2, bias=False))
    before = layer.weight.detach().clone()
    assert torch.func.functional_call(layer, {"weight": torch.eye(2)}, (torch.ones(2),)).tolist() == [1.0, 1.0]
    assert torch.allclose(layer.weight, before)
    scaled = {"parametrizations.weight.original0": layer.parametrizations.weight.original0 * 2}
    assert torch.allclose(torch.func.functional_call(layer, scaled, (torch.ones(2),)), 2 * before.sum(1))


def test_a_name_is_ignored_in_a_graph() -> None:
    module = _module(rl)
    compiled = rl.compile(lambda w: rl.func.functional_call(module, {"weight": w, "ignored": w}, (rl.ones(2),)),
                          fullgraph=True, backend="eager")
    assert compiled(rl.ones(2)).tolist() == [13.0, 13.0] and "ignored" not in vars(module)
