"""Layers between DequantizeLinear and QuantizeLinear are computed in integers: those of the runtime."""

import numpy as np
import pytest

import rushlight as torch
from rushlight.onnx.importing.quantized_layers import with_integers
from rushlight.onnx.importing.reader import read_model

from .files import model, node, value

I8, U8 = torch.int8, torch.uint8


def seeded(shape, low, high, dtype):
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


def layers(by_channel=True, rectified=True, bias_scale=1.0, second_reader=False, zero=3, kind=U8):
    """A convolution, a product with a matrix and a Gemm, each between DequantizeLinear and QuantizeLinear."""
    w = seeded((6, 4, 3, 3), -128, 128, I8)
    scales = torch.linspace(0.01, 0.03, 6) if by_channel else torch.tensor(0.02)
    out_zero = 0 if kind is U8 else -128
    tensors = {
        "xs": torch.tensor(0.05), "xz": torch.tensor(zero, dtype=kind), "w": w, "ws": scales,
        "wz": torch.zeros(6 if by_channel else (), dtype=I8), "ys": torch.tensor(0.2),
        "yz": torch.tensor(out_zero, dtype=kind), "b": seeded((6,), -900, 900, torch.int32),
        "bs": scales * 0.05 * bias_scale, "bz": torch.zeros(6 if by_channel else (), dtype=torch.int32),
        "m": seeded((6, 5), -128, 128, I8), "ms": torch.tensor(0.01), "mz": torch.tensor(2, dtype=I8),
        "g": seeded((3, 5), -128, 128, I8), "gs": torch.tensor(0.02), "gb": seeded((3,), -90, 90, torch.int32),
        "gbs": torch.tensor(0.02) * 0.2, "half": torch.tensor(0.5), "flat": torch.tensor([-1, 6]),
    }
    nodes = [
        node("QuantizeLinear", "x xs xz", "xq"), node("DequantizeLinear", "xq xs xz", "xd"),
        node("DequantizeLinear", "w ws wz", "wd", **({"axis": 0} if by_channel else {})),
        node("DequantizeLinear", "b bs bz", "bd", **({"axis": 0} if by_channel else {})),
        node("Conv", "xd wd bd", "c", pads=[1, 0, 1, 2], strides=[2, 1]),
        *([node("Relu", "c", "r")] if rectified else []),
        node("QuantizeLinear", f"{'r' if rectified else 'c'} ys yz", "cq"),
        node("DequantizeLinear", "cq ys yz", "cd"), node("GlobalAveragePool", "cd", "p"),
        node("Reshape", "p flat", "f"), node("QuantizeLinear", "f ys yz", "fq"),
        node("DequantizeLinear", "fq ys yz", "fd"), node("DequantizeLinear", "m ms mz", "md"),
        node("MatMul", "fd md", "t"), node("QuantizeLinear", "t ys yz", "tq"),
        node("DequantizeLinear", "tq ys yz", "td"), node("DequantizeLinear", "g gs mz", "gd"),
        node("DequantizeLinear", "gb gbs", "gbd"), node("Gemm", "td gd gbd", "u", transB=1),
        node("QuantizeLinear", "u ys yz", "uq"), node("DequantizeLinear", "uq ys yz", "y"),
    ]
    outputs = [value("y", None), *([value("c", None)] if second_reader else [])]
    return model(nodes, [value("x", "n", 4, 9, 8)], outputs, tensors, opset=17)


def names(data):
    read = read_model(data)
    return [n.op for n in with_integers(read.graph, read.opset).nodes if "Quantize" not in n.op and "quant" not in n.op]


def test_patterns_become_one_node_each():
    rest = ["QLinearConv", "GlobalAveragePool", "Reshape", "QLinearMatMul", "QGemm"]
    for settings in ({}, {"by_channel": False}, {"rectified": False}, {"kind": I8}):
        assert sorted(names(layers(**settings))) == sorted(rest)
    assert "Conv" in names(layers(second_reader=True)) and "Conv" in names(layers(bias_scale=2.0))


@pytest.mark.parametrize("settings", [{}, {"by_channel": False}, {"rectified": False}, {"kind": I8, "zero": -5},
                                      {"second_reader": True}, {"bias_scale": 2.0}], ids=str)
def test_results_are_the_runtimes(settings):
    runtime = pytest.importorskip("onnxruntime")
    data = layers(**settings)
    x = torch.randn(2, 4, 9, 8, generator=torch.Generator().manual_seed(0))
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    expected = runtime.InferenceSession(data, options).run(None, {"x": x.numpy()})
    loaded = torch.onnx.load(data)
    with torch.no_grad():
        for call in (loaded, torch.compile(loaded)):
            found = call(x)
            for a, b in zip(found if isinstance(found, tuple) else (found,), expected, strict=True):
                np.testing.assert_allclose(a.numpy(), b, atol=1e-4)


def test_integers_go_out_again():
    runtime = pytest.importorskip("onnxruntime")
    data = model([node("DynamicQuantizeLinear", "x", "q s z"), node("ConvInteger", "q w z wz", "c", pads=[1, 1, 1, 1]),
                  node("Cast", "c", "f", to=1), node("Mul", "f s", "y")],
                 [value("x", "n", 4, 6, 6)], [value("y", None)],
                 {"w": seeded((3, 4, 3, 3), 0, 256, U8), "wz": torch.tensor(120, dtype=U8)}, opset=17)
    x = torch.randn(2, 4, 6, 6, generator=torch.Generator().manual_seed(0))
    (expected,) = runtime.InferenceSession(data).run(None, {"x": x.numpy()})
    loaded = torch.onnx.load(data)
    np.testing.assert_allclose(loaded(x).numpy(), expected, rtol=1e-6)
    again = torch.onnx.export(loaded, (x,))
    assert "ConvInteger" in [n.op for n in again.model.graph.nodes]
    np.testing.assert_allclose(again(x)[0].numpy(), expected, rtol=1e-6)


def test_zero_points_that_channels_share_are_one_number():
    """ONNX Runtime convolves integers with no others."""
    pytest.importorskip("onnxruntime")
    data = model([node("DynamicQuantizeLinear", "x", "q s z"), node("ConvInteger", "q w z wz", "c"),
                  node("Cast", "c", "f", to=1), node("Mul", "f s", "y")],
                 [value("x", "n", 4, 6, 6)], [value("y", None)],
                 {"w": seeded((3, 4, 3, 3), 0, 256, U8), "wz": torch.tensor([120, 120, 120], dtype=U8)}, opset=17)
    x, loaded = torch.randn(2, 4, 6, 6), torch.onnx.load(data)
    np.testing.assert_allclose(torch.onnx.export(loaded, (x,))(x)[0].numpy(), loaded(x).numpy(), rtol=1e-6)
