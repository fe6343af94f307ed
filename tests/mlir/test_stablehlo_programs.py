"""mlir.export(dialect="stablehlo"): whole programs, sizes that vary, control flow, weights, lines, and refusals."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import rushlight as torch
from rushlight import mlir, nn
from rushlight._higher_order_ops.cond import cond
from rushlight._higher_order_ops.scan import scan
from rushlight._higher_order_ops.while_loop import while_loop
from rushlight.export import Dim
from rushlight.utils import _pytree as pytree
from tests.mlir import judges

pytest.importorskip("jaxlib")

F = nn.functional


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm, self.out = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8, 5)

    def forward(self, x, scale=1.0):
        x = F.avg_pool2d(self.norm(self.conv(x)).relu(), 2)
        return self.out(F.max_pool2d(x, 2).mean((2, 3)) * scale).softmax(-1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.layer = nn.Embedding(10, 8), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, tokens):
        return self.layer(self.embed(tokens))[:, -1]


def check(model, *args, **options):
    module = mlir.export(model, args, **options)
    with torch.no_grad():
        expected = model(*args)
    expected = pytree.tree_leaves(expected)
    found = judges.run(str(module), args)
    assert len(found) == len(expected) == len(module.output_names)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=2e-4, atol=1e-5)
    return str(module)


def test_models():
    check(Net().eval(), torch.rand(2, 3, 8, 8))
    check(Block().eval(), torch.tensor([[1, 2, 3], [4, 5, 6]]))
    check(nn.LSTM(3, 4, bidirectional=True), torch.rand(5, 2, 3))


def test_control_flow_is_case_and_while():
    x = torch.linspace(-1, 2, 12).reshape(4, 3)
    text = check(lambda x: cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() + 1, (x,)), x)
    assert '"stablehlo.case"' in text
    judges.run(text, [-x])
    text = check(lambda x: while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 1.1), (torch.tensor(0), x)), x)
    assert '"stablehlo.while"' in text
    check(lambda x: scan(lambda c, y: (c + y, c * y), torch.zeros(3), x), x)
    check(lambda x: scan(lambda c, y: (c + y, c * y), torch.zeros(3), x, reverse=True), x)


def test_keyword_arguments_and_numbers():
    module = mlir.export(Net().eval(), (torch.rand(1, 3, 8, 8),), {"scale": torch.tensor(2.0)})
    assert module.input_names == ("x", "scale") and "%scale: tensor<f32>" in str(module)
    fixed = mlir.export(Net().eval(), (torch.rand(1, 3, 8, 8),), {"scale": 2.0})
    assert "@main(%x: tensor<1x3x8x8xf32>)" in str(fixed)


def test_results_that_are_inputs_and_repeated():
    x = torch.rand(3)
    check(lambda x: (x, x, x + 1), x)
    check(lambda x: x.size(0) * x, x)


VARYING = [
    lambda x: x.softmax(1), lambda x: F.layer_norm(x, (8,)), lambda x: x @ x.mT, lambda x: x.view(-1, 8)[1:],
    lambda x: x.view(x.shape[0], x.shape[1], 2, 4).transpose(1, 2), lambda x: x.chunk(2, 2)[1], lambda x: x[:, -1],
    lambda x: x[:, :-1, ::2], lambda x: x.mean(1) + x.var(1), lambda x: x.argmax(1), lambda x: x.cumsum(1),
    lambda x: x.sort(1)[0], lambda x: torch.cat([x, x], 1), lambda x: F.pad(x, (1, 2, 1, 0)),
    lambda x: x + torch.arange(x.shape[1])[:, None], lambda x: torch.zeros(x.shape[0], 3) + x.shape[1],
    lambda x: x.expand(2, -1, -1, -1), lambda x: x.tril(), lambda x: x.repeat(1, 2, 1),
    lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
]


@pytest.mark.share(2)
@pytest.mark.parametrize("function", VARYING)
def test_sizes_that_vary(function):
    pytest.importorskip("torch_mlir")

    class Model(nn.Module):
        def forward(self, x):
            return function(x)

    sizes = ({0: Dim("batch"), 1: Dim("length")},)
    text = str(mlir.export(Model(), (torch.rand(4, 6, 8),), dynamic_shapes=sizes))
    assert "%x: tensor<?x?x8xf32>" in text
    judges.verify(text)


def test_batches_that_vary():
    pytest.importorskip("torch_mlir")
    text = str(mlir.export(Net().eval(), (torch.rand(2, 3, 8, 8),), dynamic_shapes=({0: Dim("batch")},)))
    assert "-> tensor<?x5xf32>" in text
    judges.verify(text)


def test_weights_inline_and_as_resources(tmp_path):
    pytest.importorskip("torch_mlir")
    model = Net().eval()
    inline = mlir.export(model, (torch.rand(1, 3, 8, 8),))
    apart = mlir.export(model, (torch.rand(1, 3, 8, 8),), weights="resource")
    assert "dense_resource" not in str(inline) and "dense_resource<conv_weight>" in str(apart)
    assert "dialect_resources" in judges.verify(str(apart))
    path = tmp_path / "net.mlir"
    apart.save(path)
    assert path.read_text() == str(apart) and [p.name for p in tmp_path.iterdir()] == ["net.mlir"]
    with pytest.raises(RuntimeError, match="does not exist"):
        apart.save(tmp_path / "nowhere" / "net.mlir")


def test_operations_carry_the_users_lines():
    line = Net.forward.__code__.co_firstlineno + 1
    text = str(mlir.export(Net().eval(), (torch.rand(1, 3, 8, 8),)))
    assert re.search(r"stablehlo\.convolution.*loc\(#loc\d+\)", text)
    assert f'test_stablehlo_programs.py":{line}:0)' in text
    assert "loc(" not in mlir.export(Net().eval(), (torch.rand(1, 3, 8, 8),)).text(locations=False)


def test_all_is_verified_by_another_reader():
    pytest.importorskip("torch_mlir")
    for model, x in ((Net().eval(), torch.rand(2, 3, 8, 8)), (Block().eval(), torch.tensor([[1, 2, 3]]))):
        judges.verify(str(mlir.export(model, (x,))))


def test_refusals_name_the_op_and_the_line():
    def draws(x):
        return F.dropout(x, 0.5, training=True)

    with pytest.raises(mlir.UnsupportedOp, match=r"(?s)draws random numbers.*test_stablehlo_programs.py") as raised:
        mlir.export(draws, (torch.rand(3),))
    assert "return F.dropout(x, 0.5, training=True)" in str(raised.value)
    with pytest.raises(mlir.UnsupportedOp, match="nonzero"):
        mlir.export(lambda x: x.nonzero(), (torch.rand(3),))
    with pytest.raises(mlir.UnsupportedOp, match="complex32"):
        mlir.export(lambda x: x.to(torch.complex32).real, (torch.rand(3),))
    with pytest.raises(ValueError, match="dialect must be one of stablehlo, linalg, torch, got 'tosa'"):
        mlir.export(Net(), (torch.rand(1, 3, 8, 8),), dialect="tosa")
    with pytest.raises(ValueError, match="weights must be"):
        mlir.export(Net(), (torch.rand(1, 3, 8, 8),), weights="file")
    with pytest.raises(TypeError, match="expected a module, a function or an ExportedProgram, got int"):
        mlir.export(3, ())
    program = torch.export.export(nn.ReLU(), (torch.rand(3),))
    with pytest.raises(ValueError, match="has its sizes"):
        mlir.export(program, dynamic_shapes=({0: Dim("n")},))


def test_what_is_written_is_left_out_and_said():
    with pytest.warns(UserWarning, match="writes to running_mean"):
        text = str(mlir.export(nn.BatchNorm1d(3), (torch.rand(4, 3),)))
    assert text.count("-> tensor<4x3xf32> {") == 1


@pytest.mark.slow
def test_the_command(tmp_path):
    program, out = tmp_path / "model.pt2", tmp_path / "out.mlir"
    torch.export.save(torch.export.export(nn.Linear(3, 2), (torch.rand(1, 3),)), program)
    command = [sys.executable, "-m", "rushlight", "mlir", str(program)]
    subprocess.run([*command, "-o", str(out)], check=True)
    assert "func.func @main(%input: tensor<1x3xf32>) -> tensor<1x2xf32>" in out.read_text()
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == out.read_text()
    program.write_text("no program")
    failed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert failed.returncode == 1 and failed.stderr.startswith("rushlight mlir: ")
