"""Pruning against PyTorch's answers: stored ones, and those of the installed PyTorch; then `shrink`, which is ours."""

from __future__ import annotations

import copy
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


def test_sparse_layers_have_quantized_ones():
    linear, sparse = rushlight.nn.Linear, rushlight.ao.nn.sparse.quantized
    assert rushlight.ao.pruning.get_static_sparse_quantized_mapping() == {linear: sparse.Linear}
    assert rushlight.ao.pruning.get_dynamic_sparse_quantized_mapping() == {linear: sparse.dynamic.Linear}


def test_a_weight_in_blocks_keeps_its_integers_in_a_file():
    weight = rushlight.zeros(4, 8)
    weight[0, 4:], weight[2, :4] = rushlight.arange(4.0), -1.0
    quantized = rushlight.quantize_per_tensor(weight, 0.5, 0, rushlight.qint8)
    ops = rushlight.ops
    packed = ops.sparse.qlinear_prepack(quantized, rushlight.arange(4.0), 1, 4)
    state = packed.__getstate__()[0]
    assert [state[7].tolist(), state[8].tolist()] == [[0, 1, 1, 2, 2], [1, 0]]     # two blocks of eight are kept
    again, bias, block = ops.sparse.qlinear_unpack(copy.deepcopy(packed))
    assert again.int_repr().tolist() == quantized.int_repr().tolist() and bias.tolist() == [0.0, 1.0, 2.0, 3.0]
    x = rushlight.quantize_per_tensor(rushlight.arange(16.0).reshape(2, 8), 0.25, 10, rushlight.quint8)
    dense = ops.quantized.linear(x, ops.quantized.linear_prepack(quantized, bias), 1.0, 5)
    assert block == [1, 4] and ops.sparse.qlinear(x, packed, 1.0, 5).int_repr().tolist() == dense.int_repr().tolist()
    with pytest.raises(RuntimeError, match="blocks"):
        ops.sparse.qlinear_prepack(quantized, None, 2, 2)
