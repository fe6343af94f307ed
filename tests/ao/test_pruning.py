"""Pruning against PyTorch's answers: stored ones, and those of the installed PyTorch; then `shrink`, which is ours."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest
from pruning_programs import PROGRAMS

import rushlight

ANSWERS = json.loads((Path(__file__).parent / "pruning_answers.json").read_text(encoding="utf-8"))
PARTS = (
    "nn.utils.prune",
    "ao.pruning",
    "ao.pruning._experimental.pruner",
    "ao.pruning._experimental.data_sparsifier",
    "ao.pruning._experimental.activation_sparsifier.activation_sparsifier",
)


def run(library, name):
    """What a program leaves, as JSON reads it back."""
    for part in PARTS:
        importlib.import_module(f"{library.__name__}.{part}")
    return json.loads(json.dumps(PROGRAMS[name](library)))


def close(one, two):
    """Equal, but for the last digits of numbers."""
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(close(one[key], two[key]) for key in one)
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(close, one, two))
    if isinstance(one, float) and isinstance(two, (int, float)):
        return abs(one - two) <= 2e-3
    return one == two


@pytest.mark.parametrize("name", PROGRAMS)
def test_answers_are_pytorchs(name):
    assert close(ANSWERS[name], run(rushlight, name))


def test_stored_answers_are_those_of_the_installed_pytorch():
    torch = pytest.importorskip("torch")
    if not torch.__version__.startswith("2.13"):
        pytest.skip("the answers are of PyTorch 2.13")
    assert [name for name in PROGRAMS if not close(ANSWERS[name], run(torch, name))] == []


def test_a_refused_second_pruning_leaves_the_first():
    prune = rushlight.nn.utils.prune
    module = prune.l1_unstructured(rushlight.nn.Linear(4, 3), "weight", 2)
    with pytest.raises(ValueError, match="at most the 10"):
        prune.l1_unstructured(module, "weight", 50)
    (hook,) = module._forward_pre_hooks.values()
    assert type(hook).__name__ == "L1Unstructured" and int(module.weight_mask.sum()) == 10


def test_quantized_mappings_refuse():
    for name in ("get_static_sparse_quantized_mapping", "get_dynamic_sparse_quantized_mapping"):
        with pytest.raises(NotImplementedError, match="quantized tensors"):
            getattr(rushlight.ao.pruning, name)()
