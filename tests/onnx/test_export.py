"""onnx.export: models and arguments, checked by onnx and run by ONNX Runtime."""

from __future__ import annotations

import io
import os

import pytest

import rushlight as torch
from benchmarks import networks
from rushlight import nn

pytest.importorskip("onnx.checker")
pytest.importorskip("onnxruntime")
import onnx  # noqa: E402


def check(program, model, *args, **kwargs):
    """The model is valid, and gives what the module gives."""
    onnx.checker.check_model(program.model_proto, full_check=True)
    with torch.no_grad():
        expected = model(*args, **kwargs)
    expected = [expected] if isinstance(expected, torch.Tensor) else list(expected)
    found = program(*args, **kwargs)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def tokens(n):
    return lambda batch: torch.randint(0, n, (batch, 12))


MODELS = {
    "mlp": (lambda: networks.mlp(torch), lambda b: torch.randn(b, 16)),
    "resnet18": (lambda: networks.resnet18(torch), lambda b: torch.randn(b, 3, 32, 32)),
    "unet": (lambda: networks.unet(torch), lambda b: torch.randn(b, 3, 32, 32)),
    "mobilenet": (lambda: networks.mobilenet(torch, 10), lambda b: torch.randn(b, 3, 64, 64)),
    "gpt": (lambda: networks.gpt(torch), tokens(64)),
    "bert": (lambda: networks.bert(torch, 2), tokens(1000)),
    "vit": (lambda: networks.vit(torch, 2), lambda b: torch.randn(b, 3, 224, 224)),
}


@pytest.mark.share(2)
@pytest.mark.parametrize("name", MODELS)
def test_networks_for_every_batch(name):
    torch.manual_seed(0)
    make, data = MODELS[name]
    model = make().eval()
    program = torch.onnx.export(model, (data(2),), dynamic_shapes=({0: "batch"},))
    assert program.model.graph.inputs[0].shape[0] == "batch"
    assert program.model.graph.outputs[0].shape[0] == "batch"
    for batch in (2, 5):
        check(program, model, data(batch))


def test_sequences_of_any_length():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.attend = nn.LayerNorm(16), nn.MultiheadAttention(16, 4, batch_first=True)
            self.out = nn.Linear(16, 16)

        def forward(self, x):
            y = self.norm(x)
            y = x + self.attend(y, y, y, need_weights=False)[0]
            return (y + self.out(y)).reshape(x.shape[0] * x.shape[1], 2, -1)

    model = Block().eval()
    program = torch.onnx.export(model, (torch.randn(2, 7, 16),), dynamic_shapes={"x": {0: "batch", 1: "length"}})
    assert program.model.graph.inputs[0].shape == ("batch", "length", 16)
    assert program.model.graph.outputs[0].shape == ("batch*length", 2, 8)
    for batch, length in ((2, 7), (3, 11), (1, 1)):
        check(program, model, torch.randn(batch, length, 16))


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("options", [
    {}, {"num_layers": 2, "bidirectional": True, "batch_first": True}, {"bias": False},
])
def test_recurrent_networks_are_one_node_a_layer(kind, options):
    model = getattr(nn, kind)(6, 5, **options).eval()

    class Flat(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, x):
            y, last = self.inner(x)
            return (y, *last) if isinstance(last, tuple) else (y, last)

    program = torch.onnx.export(Flat(), (torch.randn(3, 4, 6),))
    check(program, Flat(), torch.randn(3, 4, 6))
    assert sum(n.op == kind for n in program.model.graph.nodes) == options.get("num_layers", 1)


class TwoInputs(nn.Module):
    def forward(self, x, scale=None, *, shift):
        y = x * scale if scale is not None else x
        return {"sum": y + shift, "largest": y.amax(-1)}


def test_names_and_nested_results():
    x, shift = torch.randn(3, 4), torch.randn(4)
    program = torch.onnx.export(TwoInputs(), (x,), kwargs={"shift": shift}, input_names=["a", "b"],
                                output_names=["c", "d"])
    assert [v.name for v in program.model.graph.inputs] == ["a", "b"]
    assert [v.name for v in program.model.graph.outputs] == ["c", "d"]
    onnx.checker.check_model(program.model_proto, full_check=True)
    found = program(x, shift=shift)
    torch.testing.assert_close(found[0], x + shift)
    torch.testing.assert_close(found[1], x.amax(-1))
    with pytest.raises(ValueError, match="input_names has \\['e'\\]"):
        torch.onnx.export(TwoInputs(), (x,), kwargs={"shift": shift}, input_names=["a", "b", "e"])
    with pytest.raises(ValueError, match="output_names has \\['e'\\]"):
        torch.onnx.export(TwoInputs(), (x,), kwargs={"shift": shift}, output_names=["c", "d", "e"])


def test_dynamic_axes_say_what_varies_by_name():
    model = nn.Linear(4, 2)
    program = torch.onnx.export(model, (torch.ones(3, 4),), input_names=["x"], output_names=["y"],
                                dynamic_axes={"x": {0: "rows"}, "y": {0: "rows"}})
    assert program.model.graph.inputs[0].shape == ("rows", 4) and program.model.graph.outputs[0].shape == ("rows", 2)
    check(program, model, torch.randn(9, 4))
    unnamed = torch.onnx.export(model, (torch.ones(3, 4),), dynamic_axes={"input": [0]})
    assert unnamed.model.graph.inputs[0].shape == ("input_dim_0", 4)


def test_results_that_are_inputs_parameters_or_the_same():
    class Same(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        def forward(self, x):
            y = x + self.weight
            return x, self.weight, y, y

    check(torch.onnx.export(Same(), (torch.ones(2),), output_names=["a", "b", "c", "d"]), Same(), torch.randn(2))


@pytest.mark.parametrize("opset", [9, 12, 14, 17, 18, 20, 23, 26])
def test_opsets(opset):
    model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8), nn.Softmax(-1)).eval()
    program = torch.onnx.export(model, (torch.ones(2, 8),), opset_version=opset)
    assert program.model_proto.opset_import[0].version == opset
    check(program, model, torch.randn(2, 8))


@pytest.mark.parametrize("options", [
    {"opset_version": 6}, {"opset_version": 29}, {"operator_export_type": torch.onnx.OperatorExportTypes.ONNX_ATEN},
    {"export_modules_as_functions": True}, {"autograd_inlining": False},
    {"dynamic_axes": {"input": [0]}, "dynamic_shapes": ({0: "n"},)},
])
def test_arguments_that_cannot_be_are_refused_by_name(options):
    with pytest.raises((ValueError, NotImplementedError), match=next(iter(options))):
        torch.onnx.export(nn.Linear(2, 2), (torch.ones(2, 2),), **options)


def test_ops_without_nodes_are_named_with_the_line():
    class Eigen(nn.Module):
        def forward(self, x):
            return torch.linalg.eigvals(x @ x.mT)

    with pytest.raises(torch.onnx.OnnxExporterError, match=r"(?s)eig.*return torch.linalg.eigvals"):
        torch.onnx.export(Eigen(), (torch.ones(3, 3),))


def test_rules_of_the_users_own():
    class Eigen(nn.Module):
        def forward(self, x):
            return x.sinh() + 1

    table = {torch.ops.aten.sinh.default: lambda g, x: g.node("Mul", x, g.constant(3.0, x.dtype))}
    program = torch.onnx.export(Eigen(), (torch.ones(3),), custom_translation_table=table)
    torch.testing.assert_close(program(torch.ones(3))[0], torch.full((3,), 4.0))


def test_files(tmp_path):
    model = nn.Linear(64, 64)
    torch.onnx.export(model, (torch.ones(2, 64),), tmp_path / "net.onnx")
    assert sorted(os.listdir(tmp_path)) == ["net.onnx", "net.onnx.data"]
    import onnxruntime

    session = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"))
    x = torch.randn(2, 64)
    torch.testing.assert_close(torch.from_numpy(session.run(None, {"input": x.numpy()})[0]), model(x).detach(),
                               rtol=1e-5, atol=1e-5)
    file = io.BytesIO()
    torch.onnx.export(model, (torch.ones(2, 64),), file)
    onnx.checker.check_model(onnx.load_model_from_string(file.getvalue()))


def test_reports_and_programs_are_written_where_asked(tmp_path):
    torch.onnx.export(nn.Linear(2, 2), (torch.ones(2, 2),), report=True, profile=True, dump_exported_program=True,
                      artifacts_dir=tmp_path, verify=True)
    kinds = sorted(name.rpartition(".")[2] for name in os.listdir(tmp_path))
    assert kinds == ["md", "pt2"]
    page = next(tmp_path.glob("*.md")).read_text()
    assert "Gemm" in page and "| capture |" in page and "aten.linear" in page


def test_a_model_that_is_wrong_is_found_by_verify():
    table = {torch.ops.aten.sinh.default: lambda g, x: g.node("Cosh", x)}

    class Wrong(nn.Module):
        def forward(self, x):
            return x.sinh()

    with pytest.raises(torch.onnx.OnnxExporterError, match="output sinh of the model differs"):
        torch.onnx.export(Wrong(), (torch.ones(3),), custom_translation_table=table, verify=True)


def test_programs_change_weights_names_and_show_values():
    model, other = nn.Linear(2, 3), nn.Linear(2, 3)
    program = torch.onnx.export(nn.Sequential(model, nn.ReLU()), (torch.ones(2, 2),), dynamic_shapes=({0: "n"},))
    x = torch.randn(4, 2)
    program(x)
    program.apply_weights({"0.weight": other.weight, "0.bias": other.bias})
    torch.testing.assert_close(program(x)[0], other(x).relu().detach())
    between = program.compute_values([program.model.graph.nodes[0].outputs[0]], (x,))
    torch.testing.assert_close(between[0], other(x).detach())
    program.rename_axes({"n": "rows"})
    assert program.model_proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "rows"
    torch.testing.assert_close(program.call_reference(x)[0], other(x).relu().detach())
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="no tensors weights; it has 0.weight"):
        program.apply_weights({"weights": other.weight, "0.bias": torch.zeros(3)})
    assert not program.model.graph.tensors["0.bias"].any()
    with pytest.raises(ValueError, match=r"0\.bias"):
        program.apply_weights({"0.bias": torch.ones(7)})


def test_state_that_is_written_is_left_out_and_said():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            self.calls.add_(1)
            return x * self.calls

    with pytest.warns(UserWarning, match="writes to calls"):
        program = torch.onnx.export(Counts(), (torch.ones(2),))
    torch.testing.assert_close(program(torch.ones(2))[0], torch.ones(2))


def test_models_ask_whether_they_are_exported():
    class Asks(nn.Module):
        def forward(self, x):
            return x * 2 if torch.onnx.is_in_onnx_export() else x

    program = torch.onnx.export(Asks(), (torch.ones(2),))
    torch.testing.assert_close(program(torch.ones(2))[0], torch.full((2,), 2.0))
    assert not torch.onnx.is_in_onnx_export()


def test_training_and_the_older_exporter():
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    file = io.BytesIO()
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="dynamo=False"):
        assert torch.onnx.export(model, (torch.ones(2, 4),), file, dynamo=False) is None
    ops = [n.op_type for n in onnx.load_model_from_string(file.getvalue()).graph.node]
    assert ops == ["Gemm"] and model.training
    program = torch.onnx.export(model.eval(), torch.ones(2, 4), training=torch.onnx.TrainingMode.TRAINING)
    assert "Dropout" in [n.op for n in program.model.graph.nodes] and not model[1].training


def test_an_exported_program_is_exported():
    model = nn.Linear(3, 2)
    exported = torch.export.export(model, (torch.ones(2, 3),), dynamic_shapes=({0: torch.export.Dim("rows")},))
    program = torch.onnx.export(exported)
    assert program.model.graph.inputs[0].shape == ("rows", 3)
    check(program, model, torch.randn(5, 3))
