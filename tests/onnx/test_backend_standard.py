"""The standard's own cases, run by its own runner against `rushlight.onnx.backend`."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx.backend.test")

import unittest  # noqa: E402
import warnings  # noqa: E402
import zlib  # noqa: E402

import numpy as np  # noqa: E402

import rushlight as torch  # noqa: E402
from rushlight.onnx import backend  # noqa: E402

GROUPS = 24
# What differs, and why.
LEFT_OUT = {
    "image_decoder": "decoding images is left to the program",
    "bernoulli": "random numbers are this library's own",
    "training_dropout": "random numbers are this library's own",
    "attention_.*(causal|padded|mask).*(bf16|fp16)": "the reference rounds to half precision elsewhere",
    "attention_.*bf16": "the reference rounds to half precision elsewhere",
    "test_dft_inverse": "zeros that are 1e-7 here",
    "basic_deform_conv_with_padding": "the reference has no value between the last element and the margin",
    "loop16_seq_none": "the runner cannot compare an optional sequence",
    "(inception_v1|inception_v2|resnet50|bvlc_alexnet|densenet121|shufflenet|squeezenet|vgg19|zfnet512)":
        "files that are downloaded; light ones take minutes and are in benchmarks/onnx.py",
}


@pytest.fixture(scope="module")
def cases() -> list[unittest.TestCase]:
    """What the standard's runner makes of its cases for this backend; loading them takes seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import onnx.backend.test

        runner = onnx.backend.test.BackendTest(backend, __name__)
        for pattern in [*LEFT_OUT, "_cuda$"]:
            runner.exclude(pattern)
        return list(runner.test_suite)


@pytest.mark.slow
@pytest.mark.share(8)
@pytest.mark.parametrize("group", range(GROUPS))
def test_the_standards_cases_pass(cases, group):
    chosen = unittest.TestSuite([c for c in cases if zlib.crc32(c.id().encode()) % GROUPS == group])
    result = unittest.TestResult()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen.run(result)
    wrong = [f"{case.id()}: {text.strip().splitlines()[-1]}" for case, text in result.failures + result.errors]
    assert not wrong, "\n".join(wrong)
    assert result.testsRun > len(result.skipped)


def test_one_node_runs_by_itself():
    from onnx import helper

    x = np.array([[-1.0, 2.0]], np.float32)
    (got,) = backend.run_node(helper.make_node("Relu", ["x"], ["y"]), [x])
    assert got.tolist() == [[0.0, 2.0]] and got.dtype == np.float32


def test_models_are_prepared_once_and_run_by_order_or_name():
    from onnx import TensorProto, helper

    a, b, c = [helper.make_tensor_value_info(n, TensorProto.INT64, ["n"]) for n in "abc"]
    graph = helper.make_graph([helper.make_node("Sub", ["a", "b"], ["c"])], "g", [a, b], [c])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    rep = backend.prepare(model)
    one, two = np.array([5, 6]), np.array([1, 2])
    assert rep.run([one, two])[0].tolist() == [4, 4] == rep.run({"b": two, "a": one})[0].tolist()
    assert backend.run_model(model, [one, two])[0].dtype == np.int64
    assert backend.is_compatible(model) and backend.supports_device("CPU") and not backend.supports_device("TPU")
    assert backend.supports_device("CUDA") == torch.cuda.is_available()
    with pytest.raises(RuntimeError, match="TPU"):
        backend.prepare(model, "TPU")
