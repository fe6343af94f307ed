"""Programs beyond one line of ops, as ONNX: control flow, sizes, complex numbers, quantized models, own operators; and
what is told of an export."""

from __future__ import annotations

import math
import os
import warnings

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.onnx.testing import assert_onnx_program
from rushlight.utils import _pytree as pytree
from tests.export.models import Call

pytest.importorskip("onnx.checker")
pytest.importorskip("onnxruntime")
import onnx  # noqa: E402

F = nn.functional


def check(program, model, *args):
    """The model is valid, and gives what the module gives."""
    onnx.checker.check_model(program.model_proto, full_check=True)
    with torch.no_grad():
        expected = [x for x in pytree.tree_leaves(model(*args)) if isinstance(x, torch.Tensor)]
    found = program(*args)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        b = torch.view_as_real(b.resolve_conj()) if b.is_complex() else b
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def ops_of(program):
    return [n.op for n in program.model.graph.nodes]


# --- control flow -----------------------------------------------------------------------------------------------------


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.innermost = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        def large(x):
            return self.inner(x).tanh(), x.sum()

        def small(x):
            return torch.cond(x.mean() > -1, lambda x: (self.innermost(x), x.sum()),
                              lambda x: (x.clone().add_(1), x.amax()), (x,))

        return torch.cond(x.sum() > 0, large, small, (x,))


def test_cond_is_if_with_weights_from_around_it():
    model = Nested()
    program = torch.onnx.export(model, (torch.ones(2, 3),), dynamic_shapes=({0: "rows"},))
    assert "If" in ops_of(program) and "inner.weight" in program.model.graph.tensors
    for x in (torch.ones(2, 3), -torch.ones(3, 3) * 0.1, -torch.ones(4, 3) * 5):
        check(program, model, x)


def test_while_loop_is_loop_and_may_not_run_at_all():
    class Repeats(nn.Module):
        def forward(self, x, n):
            return torch.while_loop(lambda i, h: (i < n).reshape(()), lambda i, h: (i + 1, h * 1.5 + x),
                                    (torch.zeros((), dtype=torch.int64), x))

    program = torch.onnx.export(Repeats(), (torch.ones(2, 3), torch.tensor(3)), dynamic_shapes=({0: "rows"}, None))
    assert "Loop" in ops_of(program)
    for n in (0, 1, 5):
        check(program, Repeats(), torch.randn(4, 3), torch.tensor(n))


def test_scan_and_map_are_scan_of_any_length():
    from rushlight._higher_order_ops.map import map as mapped
    from rushlight._higher_order_ops.scan import scan

    class Scans(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(8, 8)

        def forward(self, h, xs):
            last, found = scan(lambda c, x: (self.inner(c).tanh() + x, (c * x).sum(-1)), h, xs, dim=1, reverse=True)
            return last, found, mapped(lambda x: self.inner(x).relu(), xs)

    model = Scans()
    program = torch.onnx.export(model, (torch.randn(2, 8), torch.randn(2, 5, 8)),
                                dynamic_shapes=({0: "batch"}, {0: "batch", 1: "length"}))
    assert ops_of(program).count("Scan") == 2
    for batch, length in ((2, 5), (3, 7)):
        check(program, model, torch.randn(batch, 8), torch.randn(batch, length, 8))


# --- sizes ------------------------------------------------------------------------------------------------------------


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.table = nn.Embedding(50, 8), nn.Parameter(torch.randn(32, 8))

    def forward(self, tokens):
        return self.embed(tokens) + self.table[: tokens.shape[1]]


def test_a_size_that_the_program_narrows_is_exported_with_a_note():
    model, tokens = Positions(), torch.randint(0, 50, (1, 7))
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="size length of at most 32"):
        program = torch.onnx.export(model, (tokens,), dynamic_shapes={"tokens": {0: "batch", 1: "length"}})
    assert program.model.graph.inputs[0].shape == ("batch", "length")
    for shape in ((1, 7), (3, 11), (2, 32)):
        check(program, model, torch.randint(0, 50, shape))


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_networks_take_any_length(kind):
    model = getattr(nn, kind)(6, 5, num_layers=2, bidirectional=True, batch_first=True).eval()
    program = torch.onnx.export(model, (torch.randn(3, 4, 6),), dynamic_shapes=({0: "batch", 1: "length"},))
    assert ops_of(program).count(kind) == 2 and program.model.graph.inputs[0].shape == ("batch", "length", 6)
    for batch, length in ((3, 4), (2, 9)):
        check(program, model, torch.randn(batch, length, 6))


@pytest.mark.parametrize("function, shapes, others", [
    (lambda x: torch.arange(x.shape[0] * 2) + x.shape[1], ({0: "n", 1: "m"},), [(5, 7)]),
    (lambda x: (x > 0).nonzero(), ({0: "n"},), [(5, 4)]),
    (lambda x: (x[x > 0] * 2, x[x[:, 0] > 0] @ torch.ones(4, 2)), ({0: "n"},), [(5, 4)]),
    (lambda x: x.unfold(0, 2, 1), ({0: "n"},), [(6, 4)]),
    (lambda x: x.split(2, 0)[0], ({0: torch.export.Dim("n", min=3)},), [(6, 4)]),
    (lambda x: x.chunk(2, 1), ({0: "n"},), [(6, 4)]),
])
def test_sizes_that_inputs_and_elements_decide(function, shapes, others):
    model = Call(function)
    program = torch.onnx.export(model, (torch.randn(3, 4),), dynamic_shapes=(shapes,))
    for shape in others:
        check(program, model, torch.randn(*shape))


def test_images_of_even_sizes():
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.MaxPool2d(2), nn.Upsample(scale_factor=2)).eval()
    h, w = torch.export.Dim("h"), torch.export.Dim("w")
    program = torch.onnx.export(model, (torch.randn(2, 3, 8, 12),), dynamic_shapes=({2: 2 * h, 3: 2 * w},))
    assert program.model.graph.inputs[0].shape == (2, 3, "2*h", "2*w")
    check(program, model, torch.randn(2, 3, 16, 6))


# --- versions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opset", [7, 9, 10, 11, 13, 15, 28])
def test_older_and_newer_opsets(opset):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU6(), nn.MaxPool2d(2), nn.Flatten(),
                          nn.Linear(36, 3), nn.Softmax(-1)).eval()
    x = torch.randn(2, 3, 8, 8)
    program = torch.onnx.export(model, (x,), opset_version=opset, dynamic_shapes=({0: "batch"},))
    proto = program.model_proto
    assert proto.opset_import[0].version == opset
    onnx.checker.check_model(proto, full_check=True)
    if opset <= 26:
        check(program, model, torch.randn(5, 3, 8, 8))


def test_what_an_older_opset_lacks_is_named_with_the_first_that_has_it():
    with pytest.raises(torch.onnx.OnnxExporterError, match="opset_version=8: Erf .* since opset 9"):
        torch.onnx.export(nn.GELU(), (torch.ones(2),), opset_version=8)


# --- types ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [
    lambda x: torch.fft.rfft(x), lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2, n=16), lambda x: torch.fft.fft2(x),
    lambda x: torch.stft(x, 8, window=torch.hann_window(8), return_complex=True).abs(),
    lambda x: torch.view_as_complex(x.reshape(2, 8, 2)).exp().conj() * 2j,
    lambda x: torch.complex(x, x) @ torch.complex(x, -x).mT,
])
def test_complex_numbers_are_pairs(function):
    model = Call(function)
    check(torch.onnx.export(model, (torch.ones(2, 16),)), model, torch.randn(2, 16))


@pytest.mark.parametrize("function", [
    torch.linalg.inv, torch.linalg.det, torch.linalg.svdvals, torch.linalg.eigvalsh, torch.linalg.qr,
    lambda x: torch.linalg.cholesky(x @ x.mT + torch.eye(4)), torch.matrix_exp, torch.lgamma, torch.special.i0e,
    lambda x: torch.special.erfinv(x.tanh()), lambda x: x.cummax(1), lambda x: x.logcumsumexp(0), torch.median,
])
def test_factorizations_and_special_functions_by_what_they_are_made_of(function):
    model, x = Call(function), torch.randn(3, 4, 4)
    check(torch.onnx.export(model, (torch.eye(4).expand(3, 4, 4) + 0.1,)), model, x)


def test_half_and_bfloat16_models():
    model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8)).eval().half()
    x = torch.randn(2, 8).half()
    torch.testing.assert_close(torch.onnx.export(model, (x,))(x)[0], model(x).detach(), rtol=2e-3, atol=2e-3)
    double = Call(lambda x: (x.float() * 2).bfloat16())      # the runtime computes with few of these numbers on a CPU
    program, wide = torch.onnx.export(double, (x.bfloat16(),)), x.bfloat16()
    torch.testing.assert_close(program(wide)[0], double(wide))


# --- quantized --------------------------------------------------------------------------------------------------------


def quantized_net(how):
    torch.manual_seed(0)
    net, x = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval(), torch.randn(16, 8)
    quantization = torch.ao.quantization
    if how == "dynamic":
        return quantization.quantize_dynamic(net, {nn.Linear}, dtype=torch.qint8), x
    if how == "fx":
        from rushlight.ao.quantization import get_default_qconfig_mapping, quantize_fx

        prepared = quantize_fx.prepare_fx(net, get_default_qconfig_mapping("x86"), (x,))
        prepared(x)
        return quantize_fx.convert_fx(prepared), x
    whole = nn.Sequential(quantization.QuantStub(), *net, quantization.DeQuantStub()).eval()
    whole.qconfig = quantization.get_default_qconfig("x86")
    prepared = quantization.prepare(whole)
    prepared(x)
    return quantization.convert(prepared), x


@pytest.mark.parametrize("how", ["eager", "fx", "dynamic"])
def test_quantized_modules_are_pairs_of_quantize_and_dequantize(how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, x = quantized_net(how)
        program = torch.onnx.export(model, (x,), dynamic_shapes=({0: "batch"},) if how == "eager" else None)
    assert {"QuantizeLinear", "DequantizeLinear"} <= set(ops_of(program))
    assert any(t.dtype is torch.int8 for t in program.model.graph.tensors.values())
    torch.testing.assert_close(program(x)[0], model(x), rtol=0, atol=1e-5)


@pytest.mark.parametrize("opset", [13, 21])
def test_quantized_programs(opset):
    q = torch.ops.quantized_decomposed
    scales, zeros = torch.rand(4) * 0.1 + 0.01, torch.zeros(4, dtype=torch.int64)
    blocks, shifts = torch.rand(4, 2) * 0.1 + 0.01, torch.zeros(4, 2, dtype=torch.int32)

    def compute(x):
        by_tensor, by_channel = (0.05, 3, 0, 100, torch.uint8), (scales, zeros, 0, -127, 127, torch.int8)
        a = q.dequantize_per_tensor(q.quantize_per_tensor(x, *by_tensor), *by_tensor)
        b = q.dequantize_per_channel(q.quantize_per_channel(x, *by_channel), *by_channel)
        c = q.dequantize_per_channel_group(
            q.quantize_per_channel_group(x, blocks, shifts, -8, 7, torch.int8, 4), blocks, shifts, -8, 7, torch.int8, 4,
            torch.float32)
        return a, b, c, torch.fake_quantize_per_tensor_affine(x, 0.05, 0, -128, 127)

    model, x = Call(compute), torch.randn(4, 8)
    program = torch.onnx.export(model, (x,), opset_version=opset)
    check(program, model, x)
    if opset >= 21:
        assert any(n.attributes.get("block_size") == 4 for n in program.model.graph.nodes)


# --- own operators ----------------------------------------------------------------------------------------------------


def test_operators_by_name_in_the_body_of_a_model():
    def forward(x):
        return torch.onnx.ops.symbolic("custom::Foo", (x, None, x), {"a": 1, "b": [1.0, 2.0], "c": "s"},
                                       dtype=torch.float16, shape=(x.shape[0], 3), version=2)

    program = torch.onnx.export(Call(forward), (torch.randn(2, 4),), dynamic_shapes=(({0: "rows"},),))
    (node,), output = program.model.graph.nodes, program.model.graph.outputs[0]
    assert (node.op, node.domain, node.inputs[1]) == ("Foo", "custom", "") and program.model.opsets == {"custom": 2}
    assert dict(node.attributes) == {"a": 1, "b": [1.0, 2.0], "c": "s"} and output.shape == ("rows", 3)
    assert forward(torch.ones(5, 2)).tolist() == [[0.0] * 3] * 5
    with pytest.raises(ValueError, match="expected a shape for each dtype"):
        torch.onnx.ops.symbolic_multi_out("Foo", (), dtypes=(1,), shapes=())


@pytest.mark.parametrize("opset", [20, 23])
def test_rotary_embedding_and_attention(opset):
    x, cos, sin = torch.randn(2, 4, 6, 8), torch.randn(6, 4), torch.randn(6, 4)
    places, keys = torch.arange(6).expand(2, 6), torch.randn(2, 2, 6, 8)

    def forward(x, cos, sin, places, keys):
        turned = torch.onnx.ops.rotary_embedding(x, cos, sin, places, interleaved=True)
        return torch.onnx.ops.attention(turned, keys, keys, is_causal=True)[0]

    model = Call(forward)
    program = torch.onnx.export(model, (x, cos, sin, places, keys), opset_version=opset)
    assert (ops_of(program) == ["RotaryEmbedding", "Attention"]) is (opset == 23)
    torch.testing.assert_close(program(x, cos, sin, places, keys)[0], model(x, cos, sin, places, keys), rtol=1e-4,
                               atol=1e-5)


def test_functions_of_onnxscript_are_rules():
    onnxscript = pytest.importorskip("onnxscript")
    op = onnxscript.opset18

    def plain(x):
        return op.Mul(op.Sinh(x), op.CastLike(2.0, x)) + 1.0

    @onnxscript.script(default_opset=op)
    def scripted(X):
        return op.Elu(X, alpha=2.0)

    x = torch.randn(3)
    for function, expected in ((plain, x.sinh() * 2 + 1), ([scripted], F.elu(x, 2.0))):
        table = {torch.ops.aten.sinh.default: function}
        program = torch.onnx.export(Call(lambda x: x.sinh()), (x,), custom_translation_table=table, opset_version=18)
        torch.testing.assert_close(program(x)[0], expected)


# --- what is told -----------------------------------------------------------------------------------------------------


def test_programs_are_verified_and_tidied():
    model, x = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8)).eval(), torch.randn(2, 8)
    program = torch.onnx.export(model, (x,), optimize=False)
    assert_onnx_program(program)
    assert_onnx_program(program, args=(x + 1,), backend="reference", rtol=1e-3, atol=1e-4)
    infos = torch.onnx.verification.verify_onnx_program(program, compare_intermediates=True)
    assert [i.name for i in infos][:3] == ["linear", "gelu", "layer_norm"] and all(i.max_abs_diff < 1e-5 for i in infos)
    pair = torch.tensor([1.0, 2, 3]), torch.tensor([1, 2.5, 3])
    info = torch.onnx.verification.VerificationInfo.from_tensors("x", *pair)
    assert (info.max_abs_diff, info.max_rel_diff) == (0.5, 0.25) and info.abs_diff_hist[0].tolist() == [
        2, 0, 0, 0, 0, 0, 1, 0, 0]
    program.optimize()
    check(program, model, x)
    program.apply_weights({"0.weight": torch.zeros(8, 8)})
    with pytest.raises(AssertionError, match="of the model differs"):
        assert_onnx_program(program)
    with pytest.raises(ValueError, match="backend must be one of"):
        assert_onnx_program(program, backend="tvm")


def test_models_as_onnx_ir():
    pytest.importorskip("onnx_ir")
    model = torch.onnx.export(nn.Linear(2, 2), (torch.ones(1, 2),)).ir_model
    assert [node.op_type for node in model.graph] == ["Gemm"]


def test_a_failed_export_leaves_a_report_and_no_file(tmp_path):
    model = Call(lambda x: torch.linalg.eigvals(x))
    with pytest.raises(torch.onnx.OnnxExporterError, match="eig"):
        torch.onnx.export(model, (torch.eye(3),), tmp_path / "net.onnx", report=True, artifacts_dir=tmp_path / "new")
    assert os.listdir(tmp_path) == ["new"]
    (page,) = (tmp_path / "new").iterdir()
    assert page.name.endswith("_failure.md") and "UnsupportedOperatorError" in page.read_text()


def test_script_modules_and_nested_arguments():
    x = torch.randn(2, 8)
    scripted = torch.jit.script(nn.Sequential(nn.Linear(8, 2), nn.ReLU()))
    torch.testing.assert_close(torch.onnx.export(scripted, (x,))(x)[0], scripted(x).detach(), rtol=1e-5, atol=1e-6)

    class Nests(nn.Module):
        def forward(self, given, *, more=None, unused=(None, 2)):
            return {"a": given["x"] * 2 + more[0], "b": [given["y"][0], None]}

    given = {"x": x, "y": (x + 1,)}
    program = torch.onnx.export(Nests(), (given,), kwargs={"more": [x]})
    found = program(given, more=[x])
    torch.testing.assert_close(found[0], x * 3)
    torch.testing.assert_close(found[1], x + 1)


def test_programs_without_results_are_refused():
    with pytest.raises(torch.onnx.OnnxExporterError, match="returns no tensors"):
        torch.onnx.export(Call(lambda x: 3), (torch.ones(2),))


# --- what new users tried ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("told", [{"num_layers": 2, "bidirectional": True, "batch_first": True}, {"bias": False}, {}])
@pytest.mark.parametrize("has_state", [False, True])
def test_lstm_with_projections(told, has_state):
    model = nn.LSTM(4, 6, proj_size=3, **told).eval()
    x, count = torch.randn(2, 5, 4), (2 if "bidirectional" in told else 1) * told.get("num_layers", 1)
    batch = 2 if "batch_first" in told else 5
    args = (x, (torch.randn(count, batch, 3), torch.randn(count, batch, 6))) if has_state else (x,)
    check(torch.onnx.export(model, args), model, *args)


def test_lstm_with_projections_over_any_number_of_steps():
    model = nn.LSTM(4, 6, proj_size=3, batch_first=True).eval()
    program = torch.onnx.export(model, (torch.randn(2, 5, 4),), dynamic_shapes=({0: "batch", 1: "steps"},))
    check(program, model, torch.randn(3, 1, 4))
    check(program, model, torch.randn(1, 9, 4))


class Fitted(nn.Module):
    """The halves of an image, padded to its size again: by nothing where that is even."""

    def forward(self, x):
        u = F.interpolate(F.max_pool2d(x, 2), scale_factor=2)
        tall, wide = x.shape[2] - u.shape[2], x.shape[3] - u.shape[3]
        return x + F.pad(u, [wide // 2, wide - wide // 2, tall // 2, tall - tall // 2])


def test_padding_that_is_none_for_the_example_is_computed_for_others():
    program = torch.onnx.export(Fitted(), (torch.randn(1, 3, 32, 48),), dynamic_shapes=({2: "h", 3: "w"},))
    for h, w in ((32, 48), (33, 47), (5, 5)):
        check(program, Fitted(), torch.randn(1, 3, h, w))


def test_sizes_that_have_to_be_even_are_said_to_be():
    class Halves(nn.Module):
        def forward(self, x):
            return x + F.interpolate(F.max_pool2d(x, 2), scale_factor=2)

    with pytest.warns(UserWarning, match="size h that is a multiple of 2"):
        torch.onnx.export(Halves(), (torch.randn(1, 3, 32, 48),), dynamic_shapes=({2: "h"},))


def test_axes_of_nothing_in_the_model_are_told():
    x = torch.ones(2)
    with pytest.warns(UserWarning, match="names 'b', and the model has the inputs a and the results relu"):
        torch.onnx.export(nn.ReLU(), (x,), input_names=["a"], dynamic_axes={"b": {0: "n"}})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.onnx.export(nn.ReLU(), (x,), input_names=["a"], output_names=["r"],
                          dynamic_axes={"a": {0: "n"}, "r": {0: "n"}})


# --- sizes that decide, and that are decided --------------------------------------------------------------------------


@pytest.mark.parametrize("function", [
    lambda x: torch.cond(x.shape[0] > 4, lambda x: x * 2, lambda x: x + 1, (x,)),
    lambda x: torch.cond(torch.sym_not((x.shape[0] % 2 == 0) | (x.shape[0] > 5)), lambda x: x * 2, lambda x: x + 1,
                         (x,)),
    lambda x: torch.cond(x.shape[0] > 4, lambda x: x[:4] * 2, lambda x: x.clone(), (x,)),
], ids=["one", "several", "what is known inside"])
def test_comparisons_of_sizes_decide(function):
    model = Call(function)
    program = torch.onnx.export(model, (torch.rand(3, 2),), dynamic_shapes=(({0: "rows"},),))
    assert ops_of(program)[-1] == "If"
    again = torch.onnx.export(torch.onnx.load(program.serialize()), (torch.rand(3, 2),), dynamic_shapes=({0: "rows"},))
    for rows in (2, 3, 5, 6):
        check(program, model, torch.rand(rows, 2))
        check(again, model, torch.rand(rows, 2))


@pytest.mark.parametrize("function", [
    lambda x: torch.cond(x.sum() > 0, lambda x: torch.cat([x, x]), lambda x: x * 1.5, (x,)) * 2,
    lambda x: torch.cond(x.sum() > 0, lambda x: torch.cond(x.mean() > 1, lambda x: x[1:], lambda x: x[:1], (x,)),
                         lambda x: x * 1.5, (x,)).sum(0),
    lambda x: torch.cond(x.sum() > 0, lambda x: (x[x > 0.5], x[0]), lambda x: (x.reshape(-1)[:3], x[1]), (x,)),
])
@pytest.mark.parametrize("shapes", [None, (({0: "rows"},),)])
def test_functions_of_cond_may_return_other_sizes(function, shapes):
    model, x = Call(function), torch.rand(3, 2)
    program = torch.onnx.export(model, (x,), dynamic_shapes=shapes)
    again = torch.onnx.export(torch.onnx.load(program.serialize()), (x,), dynamic_shapes=shapes and shapes[0])
    for given in (x, -x, x + 1, *([torch.rand(5, 2), -torch.rand(2, 2)] if shapes else [])):
        check(program, model, given)
        check(again, model, given)


def test_loops_inside_of_cond():
    from rushlight._higher_order_ops.scan import scan

    class Loops(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def repeats(self, x):
            return torch.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, self.inner(h) + x),
                                    (torch.zeros((), dtype=torch.int64), x))[1]

        def forward(self, x):
            def scans(x):
                return scan(lambda c, e: (self.inner(c) + e, c * e), torch.zeros(3), x)[1]

            return torch.cond(x.sum() > 0, scans, self.repeats, (x,))

    model = Loops()
    program = torch.onnx.export(model, (torch.rand(4, 3),), dynamic_shapes=({0: "rows"},))
    inner = [{n.op for n in g.nodes} for g in program.model.graph.nodes[-1].attributes.values()]
    assert "Scan" in inner[0] and "Loop" in inner[1]
    for rows in (1, 4, 6):
        check(program, model, torch.rand(rows, 3))
        check(program, model, -torch.rand(rows, 3))


@pytest.mark.parametrize("function", [
    lambda x: x / math.sqrt(x.shape[0]) + x.shape[0] / 3, lambda x: x + math.ceil(x.shape[0] / 4) * 0.5])
def test_reals_computed_of_sizes(function):
    model = Call(function)
    program = torch.onnx.export(model, (torch.rand(3, 2),), dynamic_shapes=(({0: "rows"},),))
    for rows in (3, 5, 8):
        check(program, model, torch.rand(rows, 2))


def test_what_an_odd_size_decided_is_told():
    class Odd(nn.Module):
        def forward(self, x):
            return x * 2 if x.shape[0] % 2 else x + 1

    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match=r"decided by a size rows at .*\(rows % 2\) != 0"):
        torch.onnx.export(Odd(), (torch.ones(3, 2),), dynamic_shapes=({0: "rows"},))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.onnx.export(Odd(), (torch.ones(3, 2),))
        torch.onnx.export(nn.Conv2d(1, 1, 3, stride=2, padding=1), (torch.ones(2, 1, 9, 9),),
                          dynamic_shapes=({0: "batch", 2: "h", 3: "w"},))


@pytest.mark.parametrize("scale", [-0.5, lambda x: 1 / x.shape[1], None])
def test_attention_is_scaled_by_what_varies_and_by_what_is_negative(scale):
    def attend(x):
        return F.scaled_dot_product_attention(x, x, x, scale=scale(x) if callable(scale) else scale)

    varying = {1: "length", 2: torch.export.Dim("width")} if scale is None else {1: "length"}
    program = torch.onnx.export(Call(attend), (torch.randn(2, 3, 4),), dynamic_shapes=((varying,),))
    check(program, Call(attend), torch.randn(2, 5, 6 if scale is None else 4))


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.int16, torch.uint8, torch.float16, torch.int64])
def test_one_of_two_values_of_any_type(dtype):
    a, b = torch.tensor([[0, 1], [1, 1]]).to(dtype), torch.tensor([[1, 0], [0, 1]]).to(dtype)

    def choose(a, b, mask):
        return torch.where(mask, a, b), a.masked_fill(mask, 1), torch.where(mask, a, b[:1])

    model, mask = Call(choose), torch.tensor([[True, False], [False, True]])
    check(torch.onnx.export(model, (a, b, mask)), model, b, a, ~mask)
