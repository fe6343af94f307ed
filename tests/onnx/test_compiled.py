"""compile(backend="onnxrt"): graphs run by ONNX Runtime give what eager mode gives."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

import rushlight as torch
from rushlight import _dynamo, nn

needs_runtime = pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is None, reason="needs onnxruntime")


def test_without_the_runtime_it_says_what_to_install():
    program = """
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "onnxruntime" else real(name, *rest)
import rushlight
try:
    rushlight.compile(lambda x: x, backend="onnxrt")
except RuntimeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert "pip install onnxruntime" in done.stdout, done.stderr


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3))


@needs_runtime
def test_inference_for_batches_of_any_size():
    model = net()
    fast = torch.compile(model, backend="onnxrt")
    with torch.no_grad():
        for batch in (4, 5, 6, 9):
            x = torch.randn(batch, 8)
            torch.testing.assert_close(fast(x), model(x))
    assert "onnxrt" in _dynamo.list_backends()


@needs_runtime
def test_weights_that_change_are_seen():
    model = net()
    fast = torch.compile(model, backend="onnxrt")
    x = torch.randn(4, 8)
    with torch.no_grad():
        fast(x)
        model[0].weight.mul_(2)
        torch.testing.assert_close(fast(x), model(x))


@needs_runtime
def test_gradients():
    model, twin = net(), net()
    fast = torch.compile(model, backend="onnxrt")
    x = torch.randn(4, 8, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    fast(x).square().sum().backward()
    twin(y).square().sum().backward()
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-4, atol=1e-5)
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5)


@needs_runtime
def test_what_programs_write_and_how_results_lie():
    def f(x, counts):
        counts.add_(1)
        return x.t() * 2, x[0], counts.sum()

    fast = torch.compile(f, backend="onnxrt")
    ours, theirs = torch.zeros(2), torch.zeros(2)
    x = torch.randn(3, 4)
    for _ in range(2):
        found, expected = fast(x, ours), f(x, theirs)
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b)
            assert a.stride() == b.stride()
    torch.testing.assert_close(ours, theirs)


@needs_runtime
def test_a_transformer_layer():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    fast = torch.compile(layer, backend="onnxrt")
    with torch.no_grad():
        x = torch.randn(2, 5, 16)
        torch.testing.assert_close(fast(x), layer(x), rtol=1e-4, atol=1e-4)


@needs_runtime
def test_ops_without_nodes_and_random_numbers_are_refused():
    with pytest.raises(Exception, match="eig"):
        torch.compile(lambda x: torch.linalg.eigvals(x @ x.mT), backend="onnxrt")(torch.ones(3, 3))
    with pytest.raises(Exception, match="random"):
        torch.compile(lambda x: torch.rand_like(x) + x, backend="onnxrt")(torch.ones(3))
    with pytest.raises(RuntimeError, match="options"):
        torch.compile(lambda x: x, backend="onnxrt", options={"fuse": False})


PROGRAMS = {
    "eigvalsh": lambda x: torch.linalg.eigvalsh(x @ x.mT),          # whose body holds constants of its own
    "svdvals": torch.linalg.svdvals,
    "views alone": lambda x: (x.split(2), x.t()),                   # of which the graph computes nothing
    "complex results": lambda x: torch.fft.rfft(x),
    "complex arguments": lambda x: torch.fft.ifft(torch.fft.fft(x) * 2j).imag,
    "several": lambda x: (*x.topk(2), None, x.sort(1).values, 3),
    "factors": lambda x: torch.linalg.solve(x @ x.mT + torch.eye(4), x),
    "sizes that data decides": lambda x: x[x > 0],
    "scans": lambda x: x.cumsum(1).softmax(-1).var(0),
    "other types": lambda x: (x.double().sin(), (x * 10).long() // 3),
}


@needs_runtime
@pytest.mark.parametrize("name", PROGRAMS)
def test_diverse_programs(name):
    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(PROGRAMS[name], backend="onnxrt")(x), PROGRAMS[name](x), rtol=1e-3,
                                   atol=1e-4)


@needs_runtime
def test_graphs_handed_complex_numbers():
    z = torch.fft.fft(torch.randn(4, 4, generator=torch.Generator().manual_seed(0)))
    fast = torch.compile(lambda z: z * z.conj() + z.conj().t(), backend="onnxrt")
    torch.testing.assert_close(fast(z), z * z.conj() + z.conj().t(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(fast(z.conj()), z * z.conj() + z.t(), rtol=1e-4, atol=1e-4)
