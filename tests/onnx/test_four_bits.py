"""Integers of 4 bits: types of their own in files from opset 21 on, bytes within limits before."""

import os

import pytest

import rushlight as torch
import rushlight.ao.quantization.fx._decomposed  # noqa: F401 - its ops
from rushlight.onnx.model import memory_of

decomposed = torch.ops.quantized_decomposed


def generator():
    return torch.Generator().manual_seed(0)


class Faked(torch.nn.Module):
    def forward(self, x):
        return torch.fake_quantize_per_tensor_affine(x, 0.3, 1, -8, 7)


class Grouped(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("w", torch.randint(-8, 8, (6, 64), generator=generator()).to(torch.int8))
        self.register_buffer("scales", torch.rand(6, 2, generator=generator()) + 0.1)
        self.register_buffer("zeros", torch.zeros(6, 2, dtype=torch.int8))

    def forward(self, x):
        w = decomposed.dequantize_per_channel_group(self.w, self.scales, self.zeros, -8, 7, torch.int8, 32,
                                                    torch.float32)
        return x[:, :64] @ w.t()


class ByRow(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("w", torch.randint(0, 16, (7, 5), generator=generator()).to(torch.uint8))
        self.register_buffer("scales", torch.rand(7, generator=generator()) + 0.1)
        self.register_buffer("zeros", torch.randint(0, 16, (7,), generator=generator()))

    def forward(self, x):
        return decomposed.dequantize_per_channel(self.w, self.scales, self.zeros, 0, 0, 15, torch.uint8) + x[:7, :5]


class Seen(torch.nn.Module):
    """Integers that are results, too: these stay bytes."""

    def forward(self, x):
        q = decomposed.quantize_per_tensor(x, 0.2, 0, -8, 7, torch.int8)
        return q, decomposed.dequantize_per_tensor(q, 0.2, 0, -8, 7, torch.int8)


@pytest.mark.parametrize("opset", [20, 21, 25])
@pytest.mark.parametrize("kind", [Faked, Grouped, ByRow, Seen])
def test_programs_come_back(kind, opset, tmp_path):
    model, x = kind(), torch.randn(8, 64, generator=generator())
    program = torch.onnx.export(model, (x,), opset_version=opset)
    types = {t.dtype.code for t in program.model.graph.tensors.values()}
    assert bool(types & {"i4", "u4"}) == (opset >= 21)
    path = os.path.join(tmp_path, "model.onnx")
    program.save(path, external_data=True)
    for file in (program.serialize(), path):
        torch.testing.assert_close(torch.onnx.load(file)(x), model(x))


@pytest.mark.parametrize("kind", [Faked, Grouped, Seen])
def test_the_runtime_gives_the_same(kind):
    pytest.importorskip("onnxruntime")
    model, x = kind(), torch.randn(8, 64, generator=generator())
    program = torch.onnx.export(model, (x,), opset_version=21)
    expected = model(x)
    torch.testing.assert_close(program(x), list(expected) if isinstance(expected, tuple) else [expected])


def test_two_elements_share_a_byte():
    t = torch.tensor([1, -2, 7, -8, 3], dtype=torch.int8).view(torch.int4)
    assert bytes(memory_of(t)) == bytes([0xE1, 0x87, 0x03])
    assert bytes(memory_of(torch.tensor([15, 1], dtype=torch.uint8).view(torch.uint4))) == bytes([0x1F])


def test_numbers_that_do_not_fit_stay_bytes():
    model = Grouped()
    model.w[0, 0] = 100
    program = torch.onnx.export(model, (torch.ones(2, 64),), opset_version=21)
    assert "i4" not in {t.dtype.code for t in program.model.graph.tensors.values()}
    torch.testing.assert_close(torch.onnx.load(program.serialize())(torch.ones(2, 64)), model(torch.ones(2, 64)))
