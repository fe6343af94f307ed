"""run_decompositions: what is left are core ATen ops, writes are gone, and results equal eager mode's."""

from __future__ import annotations

import warnings

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn
from rushlight._decomp.core_ops import CORE, WHOLE
from rushlight.export import export
from rushlight.utils import _pytree as pytree
from tests.export.models import Call

pytestmark = pytest.mark.share(2)   # of each test that has several cases

X, Y = (rl.linspace(-2, 3, 24).reshape(4, 6), rl.linspace(0.1, 0.9, 24).reshape(4, 6))
IMAGE = rl.linspace(-1, 1, 2 * 3 * 8 * 8).reshape(2, 3, 8, 8).sin()
CLASSES = rl.tensor([1, 2, 0, 5])


def targets(program):
    return [str(n.target).removeprefix("aten.") for n in program.graph.nodes
            if n.op == "call_function" and "getitem" not in str(n.target)]


def left_over(program):
    """Ops of the program that are neither core nor whole there."""
    return sorted({t for t in targets(program) if t not in CORE and t.partition(".")[0] not in WHOLE | {"sym_size"}})


def check(function, *args, apart=()):
    model = function if isinstance(function, nn.Module) else Call(function)
    program = export(model, args).run_decompositions()
    assert not [t for t in left_over(program) if t.partition(".")[0] not in apart]
    rl.manual_seed(1)
    found = program.module()(*args)
    rl.manual_seed(1)
    for a, b in zip(pytree.tree_leaves(found), pytree.tree_leaves(model(*args)), strict=True):
        assert a.dtype is b.dtype
        rl.testing.assert_close(a, b, rtol=1e-5, atol=1e-6, equal_nan=True)
    return program


ACTIVATIONS = (
    "gelu silu mish hardswish hardsigmoid hardtanh relu6 elu selu celu softplus softsign logsigmoid tanhshrink "
    "softshrink hardshrink leaky_relu glu softmax log_softmax normalize"
).split()


@pytest.mark.filterwarnings("ignore:Implicit dimension")
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name):
    check(getattr(F, name), X, apart=("linalg_vector_norm",))


LOSSES = (
    "L1Loss MSELoss SmoothL1Loss HuberLoss BCEWithLogitsLoss KLDivLoss SoftMarginLoss PoissonNLLLoss BCELoss "
    "HingeEmbeddingLoss MultiLabelSoftMarginLoss"
).split()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", LOSSES)
def test_losses(name, reduction):
    check(getattr(nn, name)(reduction=reduction), Y.flip(0), Y)


@pytest.mark.parametrize("options", [
    {}, {"reduction": "sum"}, {"reduction": "none"}, {"label_smoothing": 0.1}, {"ignore_index": 2},
    {"weight": rl.linspace(1, 2, 6)}, {"weight": rl.linspace(1, 2, 6), "label_smoothing": 0.2, "ignore_index": 0},
])
def test_cross_entropy(options):
    check(lambda x, t: F.cross_entropy(x, t, **options), X, CLASSES)
    if "label_smoothing" not in options:
        check(lambda x, t: F.nll_loss(x.log_softmax(1), t, **options), X, CLASSES)
    if "ignore_index" not in options:
        check(lambda x, t: F.cross_entropy(x, t.softmax(1), **options), X, Y)


@pytest.mark.parametrize("layer", [
    nn.GroupNorm(3, 3), nn.InstanceNorm2d(3, affine=True), nn.BatchNorm2d(3), nn.BatchNorm2d(3).eval(),
    nn.BatchNorm2d(3, track_running_stats=False), nn.LayerNorm(8), nn.RMSNorm(8), nn.Dropout(0.4), nn.Softmin(1),
    nn.Conv2d(3, 4, 3, padding="same"), nn.Conv2d(3, 4, 4, padding="same"), nn.ConvTranspose2d(3, 4, 3, stride=2),
    nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), nn.MaxPool2d(2), nn.AvgPool2d(2),
    nn.AdaptiveAvgPool2d(1), nn.AdaptiveAvgPool2d(3), nn.PReLU(3), nn.PixelUnshuffle(2), nn.ChannelShuffle(3),
    nn.Unfold(3, padding=1, stride=2), nn.ReflectionPad2d(2), nn.ReplicationPad2d(1), nn.CircularPad2d(1),
    nn.ZeroPad2d(1), nn.ConstantPad2d(1, 3.0), nn.Flatten(), nn.Unflatten(1, (3, 1)),
], ids=lambda layer: str(layer)[:40])
def test_layers_of_images(layer):
    check(layer, IMAGE, apart=("_native_batch_norm_legit_functional",))


@pytest.mark.parametrize("layer", [nn.LSTM(6, 4, 2, bidirectional=True), nn.GRU(6, 4, bias=False), nn.RNN(6, 4),
                                   nn.RNN(6, 4, nonlinearity="relu", batch_first=True),
                                   nn.TransformerEncoderLayer(6, 2, 12, batch_first=True).eval()],
                         ids=lambda layer: type(layer).__name__)
def test_layers_of_sequences(layer):
    check(layer, rl.linspace(-1, 1, 36).reshape(3, 2, 6))


def test_cells_and_tables():
    for cell in (nn.LSTMCell(6, 4), nn.GRUCell(6, 4), nn.RNNCell(6, 4), nn.Bilinear(6, 6, 3)):
        check(cell, X, *([Y] if isinstance(cell, nn.Bilinear) else []))
    check(nn.EmbeddingBag(6, 3, mode="mean"), CLASSES, rl.tensor([0, 2]))
    check(lambda i: F.one_hot(i, 6), CLASSES)


@pytest.mark.parametrize("mask", [None, "causal", "bool", "float", "blind"])
def test_attention(mask):
    q, k, v = (rl.linspace(a, 1, 2 * 2 * 4 * 8).reshape(2, 2, 4, 8).sin() for a in (-1, -2, -3))
    if mask in (None, "causal"):
        check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=mask == "causal"), q, k, v)
        return
    seen = rl.ones(4, 4).tril(0 if mask != "blind" else -1).bool()
    seen = rl.where(seen, 0.0, -rl.inf) if mask == "float" else seen
    check(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m, scale=0.3), q, k, v, seen)


@pytest.mark.parametrize("function", [
    lambda a, b: a.std(), lambda a, b: rl.var_mean(a, 1), lambda a, b: rl.std_mean(a, (0, 1), correction=0),
    lambda a, b: a.logsumexp(1), lambda a, b: (a > 0).all(1), lambda a, b: a.aminmax(dim=1), lambda a, b: a.nansum(),
    lambda a, b: a.count_nonzero(1), lambda a, b: a.lerp(b, 0.3), lambda a, b: rl.addcmul(a, a, b, value=2),
    lambda a, b: a.nan_to_num(), lambda a, b: a.masked_fill(a > 0, 1.0), lambda a, b: rl.where(a > 0, a, 2),
    lambda a, b: a.triu(1), lambda a, b: a.tril(-1), lambda a, b: a.roll(2, 1), lambda a, b: a.roll(3),
    lambda a, b: a.repeat_interleave(2, 0), lambda a, b: a.tile(2), lambda a, b: a.unbind(1)[2],
    lambda a, b: a.tensor_split(4, 1)[1], lambda a, b: a.movedim(0, 1), lambda a, b: a.narrow(1, 2, 3),
    lambda a, b: rl.diag(a[0]) + rl.diag(b[:, 0].repeat(2)[:6], 0), lambda a, b: rl.diag_embed(a, 1, 0, 2),
    lambda a, b: a.trace(), lambda a, b: rl.stack([a, b], 1), lambda a, b: a.chunk(4, 1)[1], lambda a, b: a @ b[0],
    lambda a, b: a[0] @ b[0], lambda a, b: rl.einsum("bi,bj->ij", a, b), lambda a, b: rl.outer(a[0], b[0]),
    lambda a, b: rl.baddbmm(a[None, :, :4], a[None], b.t()[None], beta=2, alpha=3), lambda a, b: rl.kron(a, b),
    lambda a, b: a.index_add(0, CLASSES[:2], b[:2], alpha=2), lambda a, b: a.index_fill(1, CLASSES, 7.0),
    lambda a, b: a.take(CLASSES), lambda a, b: a.int() // 2 + b.to(rl.int64), lambda a, b: 1 - a, lambda a, b: a // b,
    lambda a, b: rl.zeros_like(a) + rl.ones(4, 6) + a.new_full((6,), 2.0), lambda a, b: rl.eye(4, 6) + a,
    lambda a, b: rl.linspace(0, 1, 6) * a, lambda a, b: rl.arange(6) + a, lambda a, b: rl.isin(a, b),
    lambda a, b: F.cosine_similarity(a, b), lambda a, b: F.pairwise_distance(a, b), lambda a, b: a.norm(dim=1),
    lambda a, b: rl.xlogy(b, a.abs()), lambda a, b: a.sinc(), lambda a, b: rl.heaviside(a, b), lambda a, b: b.logit(),
    lambda a, b: a.half().sigmoid().float(), lambda a, b: rl.meshgrid(a[0], b[0], indexing="ij")[0],
    lambda a, b: a.clone().add_(b).mul_(2).clamp_(-1, 1), lambda a, b: a.float_power(2), lambda a, b: a.frac(),
    lambda a, b: a.isfinite(), lambda a, b: a.clamp_min(0.5), lambda a, b: rl.logaddexp(a, b), lambda a, b: a.diff(),
])
def test_functions(function):
    check(function, X, Y, apart=("linalg_vector_norm",))


@pytest.mark.parametrize("sizes", [None, ({0: rl.export.Dim("b", max=16), 1: rl.export.Dim("t", max=16)},)])
def test_views_of_results_find_the_strides_they_had(sizes):
    """Heads of attention lie beside each other: who views them as one relies on it."""

    class Attention(nn.Module):
        def forward(self, x):
            b, t, c = x.shape
            q = x.view(b, t, 2, c // 2).transpose(1, 2)
            y = F.scaled_dot_product_attention(q, q, q, is_causal=True)
            return y.transpose(1, 2).contiguous().view(b, t, c)

    x = rl.linspace(-1, 1, 2 * 5 * 8).reshape(2, 5, 8)
    program = export(Attention(), (x,), dynamic_shapes=sizes).run_decompositions()
    x = x if sizes is None else rl.linspace(-1, 1, 3 * 7 * 8).reshape(3, 7, 8)
    rl.testing.assert_close(program.module()(x), Attention()(x))


def test_running_statistics_are_results():
    """Once decomposed, a program says what a batch does to buffers, and module() does it."""
    layer = nn.BatchNorm1d(6)
    program = export(layer, (X,)).run_decompositions()
    assert sorted(program.graph_signature.buffers_to_mutate.values()) == [
        "num_batches_tracked", "running_mean", "running_var"]
    module = program.module()
    layer(X), module(X)
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        rl.testing.assert_close(getattr(module, name), getattr(layer, name))


def test_default_table():
    table = rl.export.default_decompositions()
    assert table[rl.ops.aten.hardswish.default](X).equal(F.hardswish(X))
    assert rl.ops.aten.add.Tensor not in table
    del table[rl.ops.aten.linear.default]
    found = targets(export(nn.Sequential(nn.Linear(6, 2), nn.SiLU()), (X,)).run_decompositions(table))
    assert found == ["linear.default", "sigmoid.default", "mul.Tensor"]


@pytest.mark.slow
def test_op_records():
    """PyTorch's op records: decomposed programs give what eager mode gives, and no node writes."""
    pytest.importorskip("torch")
    pytest.importorskip("expecttest", reason="PyTorch's op records need it")
    from tests.inductor.test_op_records import SERVED, calls_of  # noqa: PLC0415 - they need PyTorch

    equal, others = 0, []
    for name in SERVED:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for run, tensors, expected in calls_of(name, with_gradients=False):
                try:
                    program = export(Call(run), tuple(tensors))
                except Exception:
                    continue          # elements decide, or the call is no program
                try:
                    program = program.run_decompositions()
                    assert not [t for t in targets(program) if t.partition(".")[0].endswith("_")]
                    found = program.module(check_guards=False)(*tensors)
                    assert [(t.shape, t.dtype) for t in found] == [(t.shape, t.dtype) for t in expected]
                    for a, b in zip(found, expected, strict=True):
                        wide = [t.resolve_conj().to(rl.complex128) for t in (a, b)]
                        assert rl.allclose(*wide, rtol=1e-4, atol=1e-5, equal_nan=True), (a, b)
                    equal += 1
                except Exception as error:
                    others.append(f"{name}: {type(error).__name__}: {str(error).partition(chr(10))[0][:150]}")
    print(f"{equal} of {equal + len(others)} calls equal", *others, sep="\n  ")
    assert equal >= 0.99 * (equal + len(others)) > 800
