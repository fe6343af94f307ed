"""Eager quantization against PyTorch's answers: stored ones, and those of the installed PyTorch; then files."""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from eager_programs import PROGRAMS, files, loaded, numbers, saved

STORED = Path(__file__).with_name("eager_answers.json")
PARTS = ("ao.quantization", "ao.nn.intrinsic.qat", "ao.nn.quantized.dynamic", "ao.nn.qat", "nn.quantized")


def run(library, name):
    """What a program leaves, as JSON reads it back."""
    for part in PARTS:
        importlib.import_module(f"{library.__name__}.{part}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return json.loads(json.dumps(PROGRAMS[name](library)))


def close(one, two, step=0.0):
    """Equal, but for the last digits of fractions; results of integers may be one step apart."""
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(close(one[k], two[k], 0.02 if k == "out" else step) for k in one)
    if isinstance(one, list):
        return len(one) == len(two) and all(close(a, b, step) for a, b in zip(one, two))
    if isinstance(one, float):
        return abs(one - two) <= step + 1e-4 + 1e-3 * abs(one)
    return one == two


@pytest.fixture(scope="module")
def rushlight():
    return importlib.import_module("rushlight")


@pytest.mark.parametrize("name", PROGRAMS)
def test_answers_are_pytorchs(rushlight, name):
    found, known = run(rushlight, name), json.loads(STORED.read_text())[name]
    assert close(known, found), f"expected {known}, got {found}"


def test_stored_answers_are_those_of_the_installed_pytorch():
    torch = pytest.importorskip("torch")
    if not torch.__version__.startswith("2.13"):
        pytest.skip("the answers are of PyTorch 2.13")
    known = json.loads(STORED.read_text())
    for name in ("static_x86", "dynamic", "refusals"):
        assert close(known[name], run(torch, name))


@pytest.mark.parametrize("way", ["ours to ours", "PyTorch to ours", "ours to PyTorch"])
def test_states_travel(rushlight, way):
    libraries = {"ours": rushlight}
    if "PyTorch" in way:
        libraries["PyTorch"] = pytest.importorskip("torch")
    here, there = (libraries[side] for side in way.split(" to "))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, (make, x) in files(here).items():
            source, (make_other, same_x) = make(), files(there)[name]
            with here.no_grad():
                expected = numbers(source(x))
            target = make_other()
            for other in target.modules():
                if hasattr(other, "scale") and isinstance(other.scale, float):
                    other.scale *= 2      # so that a state that is not taken over shows
            state = loaded(there, saved(here, source), packed=name == "dynamic")
            assert str(target.load_state_dict(state)) == "<All keys matched successfully>"
            with there.no_grad():
                assert numbers(target(same_x)) == pytest.approx(expected, abs=1e-5)


def test_float_input_is_refused_with_the_path_of_the_layer(rushlight):
    tq, nn = rushlight.ao.quantization, rushlight.nn
    model = tq.QuantWrapper(nn.Sequential(nn.ReLU(), nn.Sequential(nn.Linear(4, 2)))).eval()
    model.qconfig = tq.default_qconfig
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = tq.convert(tq.prepare(model))
    with pytest.raises(NotImplementedError, match=r"QuantizedLinear at 'module\.1\.0'.*float32.*QuantStub"):
        model.module[1][0](rushlight.ones(1, 4))


def test_errors_of_conversion_name_the_module(rushlight):
    tq, nn = rushlight.ao.quantization, rushlight.nn
    with warnings.catch_warnings(), pytest.raises(AssertionError, match=r"module '1\.0' \(LSTM\).*bias"):
        warnings.simplefilter("ignore")
        tq.quantize_dynamic(nn.Sequential(nn.ReLU(), nn.Sequential(nn.LSTM(2, 2, bias=False))))


def test_state_with_an_impossible_scale_is_refused_by_name(rushlight):
    layer = rushlight.ao.nn.quantized.Linear(2, 2)
    state = layer.state_dict()
    state["scale"] = rushlight.tensor(-1.0)
    with pytest.raises(RuntimeError, match="scale.*-1"):
        layer.load_state_dict(state)


def test_older_names_are_the_same_modules(rushlight):
    assert importlib.import_module("rushlight.nn.quantized.modules.linear") is rushlight.ao.nn.quantized.modules.linear
    assert importlib.import_module("rushlight.quantization").prepare is rushlight.ao.quantization.prepare
    importlib.import_module("rushlight.ao.quantization.quantize")
    assert callable(rushlight.ao.quantization.quantize)     # the function, though a file has its name
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("rushlight.nn.qat.nothing")


if __name__ == "__main__":
    oracle = importlib.import_module("torch")
    STORED.write_text(json.dumps({name: run(oracle, name) for name in PROGRAMS}, indent=0) + "\n")
