"""Modules through the script compiler: graphs that PyTorch 2.13 makes of them (module_answers.txt), the results that
Python gives, the Python side of scripted modules, layers of nn, and what is refused."""

from __future__ import annotations

import copy
import importlib.util
import math
import pickle
import re
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import rushlight as rl
from rushlight import jit, nn

HERE = Path(__file__)


def _programs() -> ModuleType:
    """The programs under the name they had when PyTorch was asked: graphs name classes."""
    spec = importlib.util.spec_from_file_location("progs", HERE.with_name("module_programs.py"))
    module = sys.modules["progs"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answers() -> dict[str, str]:
    parts = HERE.with_name("module_answers.txt").read_text().split("## ")[1:]
    return {part.partition("\n")[0]: part.partition("\n")[2].strip() for part in parts}


programs = _programs()
x = rl.arange(8.0).reshape(2, 4) / 7 - 0.5


def canonical(graph: object) -> str:
    names: dict[str, str] = {}
    text = re.sub(r"%[\w.]+", lambda m: names.setdefault(m.group(0), f"%{len(names)}"), str(graph))
    return re.sub(r" # .*", "", re.sub(r"___torch_mangle_\d+\.", "", text)).strip()


def flat(value: Any) -> list[Any]:
    return [v for item in value for v in flat(item)] if isinstance(value, (tuple, list)) else [value]


@pytest.mark.parametrize("name", sorted(answers()))
def test_graphs_are_pytorchs_and_results_pythons(name: str) -> None:
    module = getattr(programs, name)()
    scripted = jit.script(getattr(programs, name)())
    scripted.load_state_dict(module.state_dict(), strict=False)
    assert canonical(scripted.graph) == answers()[name]
    # A18 branches on is_scripting; A22 holds Attributes, which only scripts take apart
    expected = x + 1 if name == "A18" else x * 2 + 3 if name == "A22" else module(x.clone())
    for found, wanted in zip(flat(scripted(x.clone())), flat(expected), strict=True):
        if isinstance(wanted, rl.Tensor):
            rl.testing.assert_close(found, wanted)
        else:
            assert found == wanted


class Counting(nn.Module):
    """Parameters, buffers, a submodule, an attribute that scripts write, a method that stays Python."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.register_buffer("seen", rl.zeros(()))
        self.register_buffer("passing", rl.zeros(()), persistent=False)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        self.seen.add_(1)
        if self.training:
            x = x * 2
        return self.inner(x)

    @jit.ignore
    def python(self) -> str:
        return type(self).__name__


def test_a_scripted_module_is_a_module_over_the_compiled_state() -> None:
    module = Counting()
    scripted = jit.script(module)
    assert isinstance(scripted, jit.RecursiveScriptModule) and scripted.original_name == "Counting"
    assert str(scripted).startswith("RecursiveScriptModule(\n  original_name=Counting\n  (inner): RecursiveScript")
    assert [name for name, _ in scripted.named_parameters()] == ["inner.weight", "inner.bias"]
    assert scripted.inner.weight is module.inner.weight
    assert list(scripted.state_dict()) == ["seen", "passing", "inner.weight", "inner.bias"]
    scripted(x)
    assert scripted.calls == 1 and module.calls == 0 and scripted.seen.item() == 1
    scripted.calls = 5
    assert scripted.calls == 5
    rl.testing.assert_close(scripted.eval()(x), module.eval()(x))
    assert not scripted.training and not scripted.inner.training
    assert scripted.python() == "RecursiveScriptModule"
    with pytest.raises(RuntimeError, match="calls"):
        scripted.calls = "many"
    with pytest.raises(AttributeError, match="nothing"):
        _ = scripted.nothing
    assert jit.script(scripted) is scripted


def test_copies_conversions_and_states() -> None:
    scripted = jit.script(Counting())
    twin, shallow = copy.deepcopy(scripted), copy.copy(scripted)
    assert twin.inner.weight is not scripted.inner.weight and shallow.inner.weight is scripted.inner.weight
    with rl.no_grad():
        twin.inner.weight.zero_()
    assert scripted.inner.weight.abs().sum() > 0
    twin.load_state_dict(scripted.state_dict())
    rl.testing.assert_close(twin(x), scripted(x))
    assert twin.double()(x.double()).dtype is rl.float64
    seen: list[str] = []
    twin.apply(lambda m: seen.append(m.original_name))
    assert seen == ["Linear", "Counting"]
    with pytest.raises(RuntimeError, match="__getstate__"):
        pickle.dumps(scripted)
    loss = scripted(x).sum()
    loss.backward()
    assert scripted.inner.weight.grad is not None


def test_equal_modules_share_a_type() -> None:
    def kind(module: Any) -> Any:
        return jit.script(module)._c._type()

    assert kind(Counting()) is kind(Counting())
    wide = jit.script(Counting(8))
    assert wide._c._type() is not kind(Counting()) and re.search(r"___torch_mangle_\d+\.Counting$",
                                                                 wide._c.qualified_name)
    assert re.fullmatch(r"__torch__\.torch\.nn\.modules\.linear\.(___torch_mangle_\d+\.)?Linear",
                        wide.inner._c.qualified_name)


def before(self, given: tuple[rl.Tensor]) -> tuple[rl.Tensor]:
    return (given[0] * 2,)


def after(self, given: tuple[rl.Tensor], result: rl.Tensor) -> rl.Tensor:
    return result + given[0]


def test_hooks_are_compiled_around_calls() -> None:
    class Hooked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act = nn.ReLU()
            self.act.register_forward_pre_hook(before)
            self.act.register_forward_hook(after)

        def forward(self, x):
            return self.act(x)

    module = Hooked()
    scripted = jit.script(module)
    rl.testing.assert_close(scripted(x), module(x))
    rl.testing.assert_close(scripted.act(x), module.act(x))
    assert [n.kind() for n in scripted.graph.nodes()].count("prim::CallFunction") == 2
    with pytest.raises(RuntimeError, match="missing a return annotation"):
        module.act.register_forward_pre_hook(unannotated)
        jit.script(module)


def unannotated(self, given: tuple[rl.Tensor]):
    return None


def test_script_methods_of_subclasses() -> None:
    class Own(jit.ScriptModule):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(rl.ones(4))
            self.table = jit.Attribute({}, dict[str, int])

        @jit.script_method
        def forward(self, x):
            self.table["n"] = len(self.table)
            return x * self.w

    own = Own()
    rl.testing.assert_close(own(x), x)
    assert own.table == {"n": 0} and "aten::mul" in str(own.graph)
    own.define("def twice(self, x):\n    return x * 2\n")
    rl.testing.assert_close(own.twice(x), x * 2)


class Holder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.odd = object()
        self.empty = []
        self.k = 1
        self.rows = nn.ModuleList([nn.ReLU()])


class UsesOdd(Holder):
    def forward(self, x):
        return self.odd


class UsesEmpty(Holder):
    def forward(self, x):
        return self.empty


class Unknown(Holder):
    def forward(self, x):
        return self.missing


class WrongType(Holder):
    def forward(self, x):
        self.k = "s"
        return x


class NewName(Holder):
    def forward(self, x):
        self.fresh = x
        return x


class Varying(Holder):
    def forward(self, x, i: int):
        return self.rows[i](x)


class Recursive(Holder):
    def forward(self, x):
        return self.again(x)

    def again(self, x):
        return self.forward(x)


@pytest.mark.parametrize(("kind", "said"), [
    (UsesOdd, "Module 'UsesOdd' has no attribute 'odd'.*'object' to a TorchScript type"),
    (UsesEmpty, "List trace inputs must have elements"), (Unknown, "has no attribute 'missing'"),
    (WrongType, "Wrong type for attribute assignment"), (NewName, "nonexistent attribute"),
    (Varying, "Expected integer literal"), (Recursive, "recursive"),
])
def test_refusals_name_the_attribute_and_the_line(kind: type, said: str) -> None:
    with pytest.raises(RuntimeError, match=said) as refused:
        jit.script(kind())
    assert "<--- HERE" in str(refused.value)


LAYERS = {
    "conv": (lambda: nn.Conv2d(2, 4, 3, padding=1, padding_mode="circular"), (1, 2, 5, 5)),
    "transposed": (lambda: nn.ConvTranspose1d(2, 3, 3, stride=2), (1, 2, 5)),
    "norms": (lambda: nn.Sequential(nn.BatchNorm1d(4, momentum=None), nn.LayerNorm(6), nn.GroupNorm(2, 4)), (2, 4, 6)),
    "instance": (lambda: nn.InstanceNorm1d(4, affine=True, track_running_stats=True), (2, 4, 6)),
    "pools": (lambda: nn.Sequential(nn.MaxPool2d(2), nn.AdaptiveAvgPool2d((2, 1)), nn.LPPool2d(2.0, 1)), (1, 2, 6, 6)),
    "indices": (lambda: nn.AdaptiveMaxPool1d(2, return_indices=True), (1, 2, 6)),
    "pads": (lambda: nn.Sequential(nn.ZeroPad1d(1), nn.ReflectionPad1d(2), nn.CircularPad1d(1)), (1, 2, 6)),
    "resized": (lambda: nn.Upsample(scale_factor=2.0, mode="bilinear", align_corners=False), (1, 2, 3, 3)),
    "lstm": (lambda: nn.LSTM(4, 3, 2, bidirectional=True, proj_size=2), (5, 2, 4)),
    "gru": (lambda: nn.GRU(4, 3, batch_first=True), (5, 4)),
    "cell": (lambda: nn.LSTMCell(4, 3), (2, 4)),
    "encoder": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), 2), (5, 2, 4)),
    "acts": (lambda: nn.Sequential(nn.ReLU(inplace=True), nn.Softmax(-1), nn.Hardtanh(), nn.GELU(), nn.GLU()), (3, 4)),
}


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_layers_give_what_python_gives(name: str) -> None:
    make, shape = LAYERS[name]
    rl.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = make()
        given = rl.randn(shape)
        scripted = jit.script(copy.deepcopy(module))
        expected = module(given.clone())
    for found, wanted in zip(flat(scripted(given.clone())), flat(expected), strict=True):
        rl.testing.assert_close(found, wanted)
    for found, wanted in zip(scripted.state_dict().values(), module.state_dict().values(), strict=True):
        rl.testing.assert_close(found, wanted)


def test_losses_and_attention() -> None:
    attention = nn.MultiheadAttention(4, 2, batch_first=True, kdim=3, vdim=3, add_bias_kv=True, add_zero_attn=True)
    given = rl.randn(2, 5, 4), rl.randn(2, 6, 3), rl.randn(2, 6, 3)
    for found, wanted in zip(jit.script(attention)(*given), attention(*given), strict=True):
        rl.testing.assert_close(found, wanted)
    scores, target = rl.randn(3, 4), rl.tensor([0, 2, 1])
    for loss in (nn.CrossEntropyLoss(label_smoothing=0.1), nn.MultiMarginLoss(p=2)):
        rl.testing.assert_close(jit.script(loss)(scores, target), loss(scores, target))


def _rows(*shape: int) -> rl.Tensor:
    return rl.arange(float(math.prod(shape))).reshape(shape).sin()


_HIDE = rl.tensor([[False, False, True]] * 3)
_LATER = rl.ones(3, 3).triu(1).bool()
_A, _B = _rows(3, 3, 4), _rows(3, 3, 4).cos()
SEQUENCES = {     # the layer, and calls: arguments, then what is named
    "rnn": (lambda: nn.RNN(4, 3, 2, nonlinearity="relu"), [
        ((_rows(5, 4),), {}), ((_rows(5, 4), _rows(2, 3)), {}), ((_A, _rows(2, 3, 3)), {}), ((_rows(4),), {}),
        ((_A, _rows(2, 3)), {}), ((_rows(5, 4), _rows(2, 1, 3)), {}), ((_rows(5, 2, 3),), {})]),
    "lstm": (lambda: nn.LSTM(4, 3, batch_first=True, proj_size=2), [
        ((_rows(5, 4), (_rows(1, 2), _rows(1, 3))), {}), ((_A, (_rows(1, 3, 2), _rows(1, 3, 3))), {}),
        ((_A, (_rows(1, 3, 2), _rows(1, 3, 2))), {}), ((_A, (_rows(1, 2), _rows(1, 3))), {})]),
    "gru cell": (lambda: nn.GRUCell(4, 3), [((_rows(4),), {}), ((_rows(4), _rows(3)), {}), ((_A,), {}),
                                            ((_rows(2, 4), _rows(2, 2, 3)), {})]),
    "lstm cell": (lambda: nn.LSTMCell(4, 3), [((_rows(4), (_rows(3), _rows(3).cos())), {}), ((_A,), {}),
                                              ((_rows(2, 4), (_rows(2, 3), _rows(2, 2, 3))), {})]),
    "attention": (lambda: nn.MultiheadAttention(4, 2, batch_first=True), [
        ((_A, _A, _A), {}), ((_A, _B, _B), {"need_weights": False}), ((_A, _B, _A), {"average_attn_weights": False}),
        ((_A, _A, _A), {"attn_mask": _LATER, "is_causal": True, "need_weights": False}),
        ((_A, _A, _A), {"attn_mask": _rows(3, 3), "is_causal": True, "need_weights": False, "key_padding_mask": _HIDE}),
        ((_A, _B, _B), {"attn_mask": _rows(6, 3, 3), "key_padding_mask": _HIDE, "need_weights": False}),
        ((_A[0], _B[0], _B[0]), {"attn_mask": _LATER, "key_padding_mask": _HIDE[0]}),
        ((_A, _A, _A), {"is_causal": True}), ((_A[0], _B, _B), {}), ((_A, _B, _B), {"attn_mask": _rows(3)}),
        ((_A, _B, _B), {"attn_mask": _LATER.int()}), ((_rows(3, 3, 6), _B, _B), {})]),
    "transformer": (lambda: nn.Transformer(4, 2, 1, 1, 8, dropout=0.0, norm_first=True), [
        ((_A, _B), {"tgt_mask": _LATER, "src_key_padding_mask": _HIDE, "memory_key_padding_mask": _HIDE}),
        ((_A, _rows(3, 2, 4)), {}), ((_A, _rows(3, 3, 2)), {})]),
}


@pytest.mark.parametrize("name", sorted(SEQUENCES))
def test_sequences_take_states_and_masks_and_refuse_what_python_refuses(name: str) -> None:
    make, calls = SEQUENCES[name]
    rl.manual_seed(0)
    module = make()
    scripted = jit.script(module)
    for args, named in calls:
        try:
            expected = module(*args, **named)
        except (AssertionError, RuntimeError, ValueError) as refusal:
            with pytest.raises(Exception, match=rf"builtins\.{type(refusal).__name__}: "):
                scripted(*args, **named)
            continue
        for found, wanted in zip(flat(scripted(*args, **named)), flat(expected), strict=True):
            assert (found is None) == (wanted is None)
            if wanted is not None:
                rl.testing.assert_close(found, wanted)


def test_scripting_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit._script._enabled, "enabled", False, raising=False)
    module = nn.Linear(2, 2)
    assert jit.script(module) is module and jit.script(before) is before
