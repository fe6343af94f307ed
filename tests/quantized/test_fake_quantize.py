"""Fake quantization and quantized_decomposed: PyTorch's bits, gradients, refusals; graphs, batches, one kernel."""

from __future__ import annotations

import json
from typing import Any

import fake_programs
import pytest

import rushlight
from rushlight.fx.experimental.proxy_tensor import make_fx

STORED = json.loads(fake_programs.STORED.read_text())


@pytest.mark.parametrize("name", fake_programs.PROGRAMS)
def test_answers_are_pytorchs_bit_for_bit(name: str) -> None:
    ours = fake_programs.plain(fake_programs.PROGRAMS[name](rushlight))
    for number, (found, expected) in enumerate(zip(ours, STORED[name], strict=True)):
        if name == "learnable" and number % 4 >= 2:     # sums over many elements, which may be added in another order
            found, expected = ([float.fromhex(v) for v in values[2:]] for values in (found, expected))
            expected = pytest.approx(expected, rel=1e-5, abs=1e-6)
        assert found == expected, f"answer {number}"


@pytest.mark.slow
def test_stored_answers_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch.ao.quantization.fx._decomposed")
    for name, program in fake_programs.PROGRAMS.items():
        assert fake_programs.plain(program(torch)) == STORED[name], name


def test_the_input_may_be_written_before_the_gradient_is_taken() -> None:
    x = rushlight.tensor([0.3, 9.0, -4.0], requires_grad=True)
    h = x * 1
    y = rushlight.fake_quantize_per_tensor_affine(h, 0.1, 3, 0, 12)
    h.add_(5)
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 0.0, 0.0]


def targets(function: Any, *args: Any) -> list[str]:
    graph = make_fx(function, tracing_mode="fake")(*args).graph
    return [str(n.target).partition(".")[2] or str(n.target) for n in graph.nodes if n.op == "call_function"]


def test_graphs_hold_the_ops_that_pytorchs_do() -> None:
    x = rushlight.randn(2, 3)
    assert targets(lambda x: rushlight.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 255), x)[0] == (
        "fake_quantize_per_tensor_affine_cachemask.default"
    )

    def there_and_back(x: Any) -> Any:
        ops, uint8 = rushlight.ops.quantized_decomposed, rushlight.uint8
        scale, point = ops.choose_qparams.tensor(x, 0, 255, 1e-5, uint8)
        q = ops.quantize_per_tensor.tensor(x, scale, point, 0, 255, uint8)
        return ops.dequantize_per_tensor.tensor(q, scale, point, 0, 255, uint8)

    found = [name for name in targets(there_and_back, x) if "getitem" not in name]
    assert found == ["choose_qparams.tensor", "quantize_per_tensor.tensor", "dequantize_per_tensor.tensor"]
    assert rushlight.compile(there_and_back)(x).tolist() == there_and_back(x).tolist()


def test_compiled_fake_quantizers_follow_their_observer() -> None:
    quantization = rushlight.ao.quantization
    for made in (quantization.default_fused_act_fake_quant, quantization.default_per_channel_weight_fake_quant):
        plain, other = made(), made()
        compiled = rushlight.compile(other)
        for step in range(2):
            x = rushlight.linspace(-3, 2 + step, 12).reshape(3, 4)
            assert compiled(x).tolist() == plain(x).tolist()
        assert [v.tolist() for v in other.state_dict().values()] == [v.tolist() for v in plain.state_dict().values()]


def test_one_call_is_one_kernel() -> None:
    x = rushlight.randn(8, 8)
    rushlight.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 255)
    with rushlight.profiler.profile() as record:
        rushlight.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 255)
    names = [event.key for event in record.key_averages()]
    assert sum("_fake_quantized_elements" in name for name in names) == 1
    assert not any(part in name for name in names for part in ("round", "clamp", "mul"))


def test_examples_of_a_batch_are_rounded_alike() -> None:
    x = rushlight.randn(4, 3)
    rounded = rushlight.vmap(lambda row: rushlight.fake_quantize_per_tensor_affine(row, 0.1, 3, 0, 12))(x)
    assert rounded.tolist() == rushlight.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 12).tolist()
