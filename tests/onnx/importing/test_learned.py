"""ai.onnx.ml beside ONNX Runtime: support vectors, and labels that are words."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch

from .files import graph, model, node, value

onnxruntime = pytest.importorskip("onnxruntime")
helper = pytest.importorskip("onnx.helper")
FLOAT, INT64, STRING = 1, 7, 8
SIZES = [3, 2, 4]          # support vectors of each class


def machine(kind: str, classes: int, transform: str, with_shares: bool, is_text: bool) -> bytes:
    rng = np.random.default_rng(classes)
    sizes, pairs = SIZES[:classes], classes * (classes - 1) // 2
    numbers = {"coefficients": rng.normal(size=(classes - 1, sum(sizes))), "rho": rng.normal(size=pairs) * 0.1,
               "support_vectors": rng.normal(size=(sum(sizes), 4)), "kernel_params": np.array([0.3, 0.5, 2.0])}
    if with_shares:
        numbers |= {"prob_a": -1 - rng.random(pairs), "prob_b": rng.normal(size=pairs) * 0.1}
    given = {name: [float(v) for v in values.reshape(-1)] for name, values in numbers.items()}
    labels = {"classlabels_strings": list("abc")[:classes]} if is_text else {"classlabels_ints": [7, 5, 6][:classes]}
    made = helper.make_node("SVMClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml", kernel_type=kind,
                            post_transform=transform, vectors_per_class=sizes, **given, **labels)
    return learned([made], 4, {"label": STRING if is_text else INT64, "scores": FLOAT})


def learned(nodes: list, columns: int, outputs: dict[str, int]) -> bytes:
    """A file, written by `onnx`: our own records hold no values of words."""
    made = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", FLOAT, ["n", columns])],
                             [helper.make_tensor_value_info(name, number, None) for name, number in outputs.items()])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(made, opset_imports=opsets, ir_version=10).SerializeToString()


@pytest.mark.parametrize("kind, classes, transform, with_shares, is_text", [
    ("RBF", 3, "NONE", True, False), ("POLY", 3, "SOFTMAX", False, True), ("SIGMOID", 2, "NONE", False, False),
    ("LINEAR", 2, "NONE", True, True), ("RBF", 2, "LOGISTIC", False, True), ("RBF", 3, "NONE", False, False)])
def test_support_vectors_classify_as_the_runtime_does(kind, classes, transform, with_shares, is_text):
    data = machine(kind, classes, transform, with_shares, is_text)
    x = np.random.default_rng(1).normal(size=(40, 4)).astype(np.float32)
    labels, scores = onnxruntime.InferenceSession(data).run(None, {"x": x})
    found, shares = torch.onnx.run(data, [x])
    assert np.asarray(found).tolist() == labels.tolist()
    np.testing.assert_allclose(shares.numpy(), scores, rtol=1e-4, atol=1e-5)


def test_labels_that_are_words_are_taken_by_their_places():
    nodes = [helper.make_node("Constant", [], ["words"], value_strings=["no", "yes", "maybe"]),
             helper.make_node("ArgMax", ["x"], ["best"], axis=1, keepdims=0),
             helper.make_node("ArrayFeatureExtractor", ["words", "best"], ["y"], domain="ai.onnx.ml")]
    data = learned(nodes, 3, {"y": STRING})
    x = np.eye(3, dtype=np.float32)[[2, 0, 1, 1]]
    (expected,) = onnxruntime.InferenceSession(data).run(None, {"x": x})
    (found,) = torch.onnx.run(data, [x])
    assert found.tolist() == expected.tolist() == [["maybe", "no", "yes", "yes"]]


def test_names_that_python_writes_alike_stay_apart_in_graphs_of_graphs():
    then = graph([node("Sub", "a.b a_b", "t")], [], [value("t", 2)])
    other = graph([node("Sub", "a_b a.b", "t")], [], [value("t", 2)])
    nodes = [node("Neg", "x", "a.b"), node("Exp", "x", "a_b"),
             node("If", "c", "y", then_branch=then, else_branch=other)]
    data = model(nodes, [value("c", dtype=torch.bool), value("x", 2)], [value("y", 2)])
    loaded, x = torch.onnx.load(data), torch.tensor([1.0, 2.0])
    torch.testing.assert_close(loaded(torch.tensor(True), x), -x - x.exp())
    torch.testing.assert_close(loaded(torch.tensor(False), x), x.exp() + x)
