"""What a node or a call has that its operator cannot take: each is refused by name."""

import random

import numpy as np
import pytest

import rushlight as torch
from rushlight.onnx.importing.rules.text import regex_full_match

from .files import I64, graph, model, node, value
from .test_reading import mutated

X = torch.ones(2, 3)


def one(op, inputs="x", out="y", tensors=None, opset=20, domain="", **settings):
    made = node(op, inputs, out, domain, **settings)
    return model([made], [value("x", 2, 3)], [value("y", None)], tensors or {}, opset=opset)


BAD_FILES = [
    (one("Transpose", perm="ab"), "'y' .Transpose.*'perm' should be integers, got 'ab'"),
    (one("Elu", alpha=[1.0, 2.0]), "'alpha' should be a float, got a list"),
    (one("Softmax", axis=0.5), "'axis' should be an integer, got 0.5"),
    (one("Einsum", equation=3), "'equation' should be a string, got 3"),
    (one("AveragePool", kernel_shape=[1 << 40]), "'kernel_shape' should be under 2147483648, got 1099511627776"),
    (one("Add", "- x"), "node 'y' .Add. leaves input 0 out"),
    (one("Add", "x"), "has 1 inputs, and its operator takes 2"),
    (one("Transpose", perm=[0, 1], strange=1), "attribute 'strange'"),
    (one("LeakyRelu", alpha=graph([node("Neg", "x", "z")], [], [value("z", None)])), "should be a float, got a graph"),
]


@pytest.mark.parametrize("case", range(len(BAD_FILES)))
def test_files_are_refused_when_they_are_loaded(case):
    data, text = BAD_FILES[case]
    with pytest.raises(ValueError, match=text):
        torch.onnx.load(data)


BAD_CALLS = [
    (one("Gather", "x i", tensors={"i": torch.tensor([0, 9])}), IndexError, "9"),
    (one("Split", num_outputs=1 << 20), ValueError, "num_outputs is 1048576, and the node has 1 outputs"),
    (one("LRN", size=0), ValueError, "'y'.*operator takes"),
    (one("Softmax", axis=7), IndexError, "'y'.*7"),
]


@pytest.mark.parametrize("case", range(len(BAD_CALLS)))
def test_calls_name_the_node(case):
    data, kind, text = BAD_CALLS[case]
    loaded = torch.onnx.load(data)
    with pytest.raises(kind, match=text):
        loaded(X)


def test_patterns_and_tables_of_strings():
    with pytest.raises(ValueError, match="'.' is no pattern"):
        regex_full_match(np.array(["ab", "c"], object), pattern="(")
    settings = {"max_gram_length": 1, "max_skip_count": 0, "min_gram_length": 1, "mode": "TF", "pool_int64s": [1, 2]}
    for counts, places in (([0, -(1 << 40)], [0, 1]), ([0], [0, 1 << 40]), ([0], [0, -1]), ([2, 1], [0])):
        table = model([node("TfIdfVectorizer", "x", "y", ngram_counts=counts, ngram_indexes=places, **settings)],
                      [value("x", 2, dtype=I64)], [value("y", None)], {})
        with pytest.raises(ValueError, match="TfIdfVectorizer"):
            torch.onnx.run(table, [torch.tensor([1, 2])])


@pytest.mark.parametrize("seed", range(3))
def test_mutated_files_and_calls_fail_by_name(seed):
    """What survives loading is called, too: errors are those of operators, never bare ones of Python."""
    rng = random.Random(seed)
    nodes = [node("Reshape", "x s", "a"), node("Transpose", "a", "b", perm=[1, 0]), node("Pad", "b p", "c"),
             node("Concat", "c c", "d", axis=0), node("Slice", "d i j", "e"), node("ReduceSum", "e", "f", keepdims=0),
             node("Split", "d", "g h", axis=0, num_outputs=2), node("Einsum", "g h", "k", equation="ij,ij->i")]
    data = model(nodes, [value("x", 2, 3)], [value("f", None), value("k", None)], {
        "s": torch.tensor([3, 2]), "p": torch.tensor([0, 1, 0, 1]), "i": torch.tensor([0]), "j": torch.tensor([3])})
    for _ in range(120):
        try:
            torch.onnx.load(mutated(data, rng))(X)
        except (ValueError, TypeError, RuntimeError, IndexError, MemoryError) as error:
            assert type(error) is not IndexError or ":" in str(error), repr(error)
