"""Models quantized as graphs: code, module classes, names of the state and qparams are PyTorch's."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from fx_programs import PROGRAMS, kit, mappings, module, randn, residual

import rushlight

FILE = Path(__file__).parent / "fx_answers.json"
ANSWERS = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def short(value):
    """Long texts and lists of them as a digest; numbers as they are."""
    if isinstance(value, dict):
        return {key: short(each) for key, each in value.items()}
    if isinstance(value, list) and value and not isinstance(value[0], str):
        return value
    text = value if isinstance(value, str) else "\n".join(value)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def close(one, two):
    """Equal, but for the last digits of numbers."""
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(close(one[key], two[key]) for key in one)
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(close, one, two))
    if isinstance(one, float) and isinstance(two, float):
        return abs(one - two) <= 1e-4 * max(1.0, abs(one))
    return one == two


def run(library, name):
    kit(library)
    return json.loads(json.dumps(PROGRAMS[name](library)))


@pytest.mark.parametrize("name", PROGRAMS)
def test_answers_are_pytorchs(name):
    found = run(rushlight, name)
    assert close(ANSWERS[name], short(found)), json.dumps(found, indent=1)


def test_stored_answers_are_those_of_the_installed_pytorch():
    torch = pytest.importorskip("torch")
    if not torch.__version__.startswith("2.13"):
        pytest.skip("the answers are of PyTorch 2.13")
    assert [name for name in PROGRAMS if not close(ANSWERS[name], short(run(torch, name)))] == []


def test_quantized_model_computes_what_the_float_one_does():
    fx, _, _ = kit(rushlight)
    model = module(rushlight, lambda nn: {"a": nn.Linear(8, 16), "r": nn.ReLU(), "b": nn.Linear(16, 4)},
                   lambda self, x: self.b(self.r(self.a(x))))
    inputs = randn(rushlight, 32, 8)
    wanted = model(inputs)
    prepared = fx.prepare_fx(model.eval(), mappings(rushlight), (inputs,))
    assert prepared(inputs).equal(wanted)
    quantized = fx.convert_fx(prepared)
    error = (quantized(inputs) - wanted).abs().max()
    assert 0 < error < 0.05 * wanted.abs().max()


def test_a_converted_model_keeps_its_packed_weights_in_its_state():
    fx, _, _ = kit(rushlight)

    def made(seed):
        rushlight.manual_seed(seed)
        weight = rushlight.nn.Parameter(rushlight.randn(4, 4))
        model = module(rushlight, lambda nn: {"w": weight},
                       lambda self, x: rushlight.nn.functional.linear(x, self.w))
        prepared = fx.prepare_fx(model.eval(), mappings(rushlight), (inputs,))
        prepared(inputs)
        return fx.convert_fx(prepared)

    inputs = randn(rushlight, 3, 4)
    one, two = made(3), made(4)
    assert not one(inputs).equal(two(inputs))
    two.load_state_dict(one.state_dict())
    assert one(inputs).equal(two(inputs))
    assert "_packed_weight_0" in one.state_dict()


def test_a_model_that_cannot_be_traced_is_refused_by_name():
    fx, _, _ = kit(rushlight)
    model = module(rushlight, lambda nn: {"a": nn.Linear(4, 4)}, lambda self, x: self.a(x) if x.sum() > 0 else x)
    with pytest.raises(rushlight.fx.proxy.TraceError, match="control flow"):
        fx.prepare_fx(model.eval(), mappings(rushlight), (randn(rushlight, 2, 4),))


def test_the_model_given_is_not_observed():
    fx, _, _ = kit(rushlight)
    model = residual(rushlight).eval()
    before = list(model.state_dict())
    prepared = fx.prepare_fx(model, mappings(rushlight), (randn(rushlight, 2, 2, 4, 4),))
    assert list(model.state_dict()) == before
    assert "activation_post_process_0.min_val" in prepared.state_dict()
