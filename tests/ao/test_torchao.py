"""torchao's training over exported graphs: losses and graphs as PyTorch 2.13 has them (its side takes a minute, so its
answers stand here). And what tensors made of others need: files, compiled code, moves, without torchao."""

from __future__ import annotations

import importlib.util
import io
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.serialization import safe_globals

ROOT = Path(__file__).resolve().parents[2]
TRAINED = """
import logging, warnings
logging.disable(logging.WARNING)
warnings.simplefilter("ignore")
import torch
from torch import nn
from torchao.quantization.pt2e import move_exported_model_to_eval
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_qat_pt2e
from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.head = nn.Linear(512, 10)

    def forward(self, x):
        return self.head(torch.flatten(nn.functional.relu(self.norm(self.conv(x))), 1))

torch.manual_seed(0)
net, x = Pictures().train(), torch.randn(4, 3, 8, 8)
quantizer = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config(is_qat=True))
prepared = prepare_qat_pt2e(torch.export.export(net, (x,)).module(), quantizer)
optimizer = torch.optim.SGD(prepared.parameters(), lr=0.05)
for _ in range(3):
    loss = prepared(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.5f}")
move_exported_model_to_eval(prepared)
converted = convert_pt2e(prepared)
print(f"{converted(x).square().mean().item():.5f}")
print(" ".join(n.name for n in converted.graph.nodes if n.op == "call_function"))
"""


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torchao") is None, reason="torchao is not installed")
def test_training_over_an_exported_graph(tmp_path: Path) -> None:
    program = tmp_path / "trained.py"
    program.write_text(TRAINED)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-m", "rushlight", "run", str(program)], capture_output=True, text=True,
                          env=environment, timeout=600, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    *numbers, names = done.stdout.strip().splitlines()
    assert [float(n) for n in numbers] == pytest.approx(LOSSES, abs=2e-4)
    assert names == NAMES


LOSSES = [0.14006, 0.02626, 0.00686, 0.00144]
NAMES = (
    "dequantize_per_channel_default quantize_per_tensor_default dequantize_per_tensor_default dequantize_per_channel"
    " conv2d_2 quantize_per_tensor_default_1 dequantize_per_tensor_default_1 relu flatten quantize_per_tensor_default_2"
    " dequantize_per_tensor_default_2 linear"
)


class Scaled(torch.Tensor):
    """Integers and a scale, with handlers of functions and of ops."""

    @staticmethod
    def __new__(cls, whole: torch.Tensor, scale: torch.Tensor) -> Scaled:
        # geometry by position, as PyTorch takes it
        return torch.Tensor._make_wrapper_subclass(cls, whole.shape, whole.stride(), 0, dtype=scale.dtype)

    def __init__(self, whole: torch.Tensor, scale: torch.Tensor) -> None:
        self.whole, self.scale = whole, scale

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["whole", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, inner: dict, context: None, size: object, stride: object) -> Scaled:
        return cls(inner["whole"], inner["scale"])

    def numbers(self) -> torch.Tensor:
        return self.whole.to(self.scale.dtype) * self.scale

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):      # noqa: ANN001, ANN206
        if func is nn.functional.linear:
            return nn.functional.linear(args[0], args[1].numbers(), *args[2:])
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):      # noqa: ANN001, ANN206
        if func in (torch.ops.aten.detach.default, torch.ops.aten._to_copy.default, torch.ops.aten.clone.default):
            return cls(func(args[0].whole), func(args[0].scale))
        if func == torch.ops.aten.copy_.default:
            args[0].whole.copy_(args[1].div(args[0].scale).round().to(torch.int8))
            return args[0]
        raise NotImplementedError(str(func))


def scaled() -> Scaled:
    return Scaled(torch.arange(-6, 6, dtype=torch.int8).reshape(3, 4), torch.tensor(0.5))


def test_tensors_with_both_handlers_are_compiled_whole() -> None:
    layer = nn.Linear(4, 3)
    layer.weight = nn.Parameter(scaled(), requires_grad=False)
    x = torch.randn(2, 4)
    wanted = x @ scaled().numbers().t() + layer.bias
    assert torch.allclose(layer(x), wanted, atol=1e-6)
    assert torch.allclose(torch.compile(layer, fullgraph=True)(x), wanted, atol=1e-6)


def test_compiled_code_writes_into_tensors_made_of_others() -> None:
    state = scaled()

    @torch.compile(fullgraph=True)
    def step(state: torch.Tensor, given: torch.Tensor) -> None:
        state.copy_(given * 2)

    step(state, torch.full((3, 4), 1.0))
    assert state.whole.tolist() == [[4] * 4] * 3


def test_modules_that_hold_such_tensors_convert() -> None:
    layer = nn.Linear(4, 3)
    layer.weight = nn.Parameter(scaled(), requires_grad=False)
    held = layer.weight
    layer._apply(lambda t: t.clone())
    assert layer.weight is held
    assert type(held) is Scaled
    assert held.whole.tolist() == scaled().whole.tolist()


@dataclass(frozen=True)
class Granularity:
    dim: int


def test_frozen_records_load_where_they_are_allowed() -> None:
    file = io.BytesIO()
    torch.save({"of": Granularity(2)}, file)
    file.seek(0)
    with safe_globals([Granularity]):
        assert torch.load(file, weights_only=True) == {"of": Granularity(2)}


def test_int_mm_takes_unsigned_rows() -> None:
    rows, columns = torch.tensor([[0, 200, 255, 7]], dtype=torch.uint8), torch.tensor([[1], [-2], [-128], [127]])
    assert torch._int_mm(rows, columns.to(torch.int8)).tolist() == [[200 * -2 + 255 * -128 + 7 * 127]]
    with pytest.raises(RuntimeError, match="int8"):
        torch._int_mm(rows, columns.to(torch.uint8))


def test_decomposed_ops_keep_to_their_range_and_give_back() -> None:
    ops = torch.ops.quantized_decomposed
    x = torch.tensor([-100.0, -0.26, 0.25, 0.75, 100.0])
    whole = ops.quantize_per_tensor(x, 0.5, 3, -8, 7, torch.int8)
    assert whole.tolist() == [-8, 2, 3, 5, 7]
    scale, zero = torch.tensor(0.5), torch.tensor(3)
    assert ops.quantize_per_tensor.tensor(x, scale, zero, -8, 7, torch.int8).tolist() == whole.tolist()
    assert ops.dequantize_per_tensor(whole, 0.5, 3, -8, 7, torch.int8).tolist() == [-5.5, -0.5, 0.0, 1.0, 2.0]
    with pytest.raises(AssertionError, match="quant_min"):
        ops.quantize_per_tensor(x, 0.5, 3, -129, 7, torch.int8)
    with pytest.raises(AssertionError, match="group_size"):
        ops.quantize_per_channel_group(x[None, :4], torch.ones(1, 2), torch.zeros(1, 2), -8, 7, torch.int8, 3)
