"""Compiled graphs in which dequantize, linear and quantize became one product of bytes."""

from __future__ import annotations

import pytest

import rushlight
from rushlight import nn

D = rushlight.ops.quantized_decomposed


class Layer(nn.Module):
    """A linear layer as exported quantized models have it."""

    def __init__(self, inputs: int, outputs: int, relu: bool, bias: bool, requantized: bool) -> None:
        super().__init__()
        self.register_buffer("weight", rushlight.randint(-127, 128, (outputs, inputs), dtype=rushlight.int8))
        self.register_buffer("scales", rushlight.rand(outputs) / 100 + 1e-3)
        self.register_buffer("zeros", rushlight.zeros(outputs, dtype=rushlight.int64))
        self.bias = nn.Parameter(rushlight.randn(outputs)) if bias else None
        self.relu, self.requantized = relu, requantized

    def forward(self, x: rushlight.Tensor) -> rushlight.Tensor:
        x = D.quantize_per_tensor(x, 0.05, 117, 0, 255, rushlight.uint8)
        x = D.dequantize_per_tensor(x, 0.05, 117, 0, 255, rushlight.uint8)
        weight = D.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -128, 127, rushlight.int8)
        y = nn.functional.linear(x, weight, self.bias)
        y = y.relu() if self.relu else y
        if not self.requantized:
            return y
        y = D.quantize_per_tensor(y, 0.1, 20, 0, 255, rushlight.uint8)
        return D.dequantize_per_tensor(y, 0.1, 20, 0, 255, rushlight.uint8)


@pytest.mark.parametrize(
    ("relu", "bias", "requantized"),
    [(True, True, True), (False, True, True), (True, False, False), (False, False, False)],
)
@pytest.mark.parametrize("sizes", [(1, 64, 32), (9, 50, 33)])
def test_layers_of_integers(sizes: tuple[int, int, int], relu: bool, bias: bool, requantized: bool) -> None:
    rushlight.manual_seed(3)
    rows, inputs, outputs = sizes
    model, x = Layer(inputs, outputs, relu, bias, requantized).eval(), rushlight.randn(rows, inputs)
    with rushlight.no_grad():
        wanted = model(x)
        compiled = rushlight.compile(model, fullgraph=True)
        found = compiled(x)
        assert found.dtype is rushlight.float32
        # one step of the result where a sum lies on the edge of two; floats differ in their last bits
        step = 0.1001 if requantized else 1e-5 * wanted.abs().max().item() + 1e-5
        assert (found - wanted).abs().max().item() <= step
        assert ((found - wanted).abs() > 1e-4).float().mean() < 0.02
        model.weight.neg_()      # what was packed is packed again
        assert (compiled(x) - model(x)).abs().max().item() <= step * 4


def test_the_graph_has_no_product_of_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    from rushlight.inductor import compile_fx

    seen, whole = [], compile_fx.compiled_for

    def note(graph: object, *rest: object, **named: object) -> object:
        seen.append(graph)
        return whole(graph, *rest, **named)

    monkeypatch.setattr(compile_fx, "compiled_for", note)
    with rushlight.no_grad():
        rushlight.compile(Layer(16, 8, True, True, True).eval())(rushlight.randn(2, 16))
    names = [str(node.target) for node in seen[0].graph.nodes if node.op == "call_function"]
    assert sum("_folded_linear" in name for name in names) == 1 and not any(".linear." in name for name in names)
