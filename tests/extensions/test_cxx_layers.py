"""torch::nn and torch::optim from C++ give what Python's layers and optimizers give from the same seed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn, optim
from rushlight.cxx_layers import records, text
from rushlight.nn import functional as F
from rushlight.utils.cpp_extension import load

ROOT = Path(rl.__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def ext(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    source = Path(__file__).with_name("layers.cpp")
    return load("cxx_layers", source, extra_cflags=["-O0"], build_directory=tmp_path_factory.mktemp("cxx_layers"))


# --- what is generated ------------------------------------------------------------------------------------------------


def test_every_layer_has_a_face_with_pythons_defaults():
    made = {one.name: one for one in records.layers()}
    assert len(made) > 130 and {"Linear", "Conv3d", "LSTM", "Transformer", "CTCLoss", "Upsample"} <= set(made)
    conv = {o.name: o for o in made["Conv2d"].options.options}
    assert [o.name for o in made["Conv2d"].options.required()] == ["in_channels", "out_channels", "kernel_size"]
    assert conv["padding"].type == "conv_padding_t<2>" and conv["padding_mode"].default == "torch::kZeros"
    assert made["BatchNorm1d"].tensors == ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    assert made["TransformerEncoderLayer"].parts[0] == ("self_attn", "MultiheadAttention")


def test_making_the_records_leaves_the_random_numbers_alone():
    rl.manual_seed(5)
    records.layers()
    drawn = rl.rand(3)
    rl.manual_seed(5)
    assert rl.equal(drawn, rl.rand(3))


def test_options_have_every_name_that_pytorchs_have():
    torch = pytest.importorskip("torch")
    folder = Path(torch.__file__).parent / "include/torch/csrc/api/include/torch/nn/options"
    if not folder.is_dir():
        pytest.skip("this PyTorch has no headers")
    headers = "\n".join(t for name, t in text.headers().items() if "generated" in name)
    structs = r"^struct (?:TORCH_API )?(\w+)[^;{]*\{(.*?)^\};"
    ours = {
        name: set(re.findall(r"TORCH_ARG\([^\n]*, (\w+)\)", body))
        for name, body in re.findall(structs, headers, re.S | re.M)
    }
    same = dict(re.findall(r"using (\w+) = (\w+);", headers))
    seen = 0
    for path in folder.glob("*.h"):
        for name, body in re.findall(structs, re.sub(r"//[^\n]*", "", path.read_text()), re.S | re.M):
            mine = ours.get(same.get(name, name))
            if mine is not None:
                seen += 1
                missing = set(re.findall(r"TORCH_ARG\(\s*[^;]*?,\s*(\w+)\)", body)) - mine - {"out"}
                assert not missing, f"{name} lacks {missing}"
    assert seen > 60


# --- one extension, against Python ------------------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, width, (3, 3), stride=2, padding="valid", bias=False)
        self.norm, self.drop, self.fc = nn.BatchNorm2d(width), nn.Dropout(0.25), nn.Linear(width * 9, 4)
        self.scale = nn.Parameter(rl.ones(4))

    def forward(self, x: Any) -> Any:
        return self.fc(self.drop(self.norm(self.conv(x)).relu()).flatten(1)) * self.scale


OPTIMIZERS = {
    "SGD": lambda p: optim.SGD(p, 0.05, momentum=0.9, nesterov=True),
    "Adam": lambda p: optim.Adam(p, 0.01, betas=(0.8, 0.9), amsgrad=True),
    "AdamW": lambda p: optim.AdamW(p, 0.01, weight_decay=0.1),
    "Adagrad": lambda p: optim.Adagrad(p, 0.02, lr_decay=0.1),
    "RMSprop": lambda p: optim.RMSprop(p, 0.005, centered=True),
    "LBFGS": lambda p: optim.LBFGS(p, 0.5, max_iter=4, line_search_fn="strong_wolfe"),
}


@pytest.mark.slow  # a compiler runs
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_has_pythons_losses(ext, name):
    rl.manual_seed(11)
    x, y = rl.randn(8, 1, 8, 8), rl.arange(8) % 4
    rl.manual_seed(3)
    net = Net(3)
    # C++ registers `scale` first, as a module's own parameters come before those of its parts
    parameters = [net.scale, *(p for n, p in net.named_parameters() if n != "scale")]
    optimizer = OPTIMIZERS[name](parameters)
    expected = []
    for step in range(5):
        if step >= 3 and step % 2 == 1:  # the third and the fifth call of the scheduler's step
            for group in optimizer.param_groups:
                group["lr"] *= 0.5

        def closure() -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y, label_smoothing=0.1)
            loss.backward()
            return loss

        expected.append(optimizer.step(closure).item())
    assert ext.losses(name, 3, x, y) == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
def test_modules_know_their_parts(ext):
    lines = ext.tree()
    norm = ["norm.running_mean", "norm.running_var", "norm.num_batches_tracked"]
    weights = ["scale", "conv.weight", "norm.weight", "norm.bias", "fc.weight", "fc.bias"]
    parts = ["conv", "norm", "drop", "fc"]
    assert lines == [*weights, "steps", *norm, "net", *(f"net.{p}" for p in parts), *parts]


@pytest.mark.slow
def test_moves_copies_and_assignments_keep_modules_whole(ext):
    ext.states()


@pytest.mark.slow
def test_a_layer_put_into_a_holder_of_another_computes(ext):
    ext.replaced_parts()


def test_containers_groups_and_schedulers(ext):
    ext.containers()


@pytest.mark.slow
def test_modules_print_as_programs_expect(ext):
    named, pool, embedding = ext.printed()
    rest = "padding=[0, 0], dilation=[1, 1], ceil_mode=false"
    assert pool == f"torch::nn::MaxPool2d(kernel_size=[3, 2], stride=[2, 1], {rest})"
    assert embedding == "torch::nn::Embedding(5, 2)"
    assert named == (
        "torch::nn::Sequential(\n"
        "  (first): torch::nn::Linear(in_features=2, out_features=2, bias=false)\n"
        "  (body): torch::nn::Sequential(\n"
        "    (0): torch::nn::Linear(in_features=3, out_features=4, bias=true)\n"
        "    (1): torch::nn::Functional()\n"
        "    (2): torch::nn::Conv1d(1, 2, kernel_size=5, stride=1)\n"
        "  )\n)"
    )


@pytest.fixture(scope="module")
def inputs() -> tuple[Any, Any, Any]:
    rl.manual_seed(2)
    return rl.randn(5, 6), rl.randn(2, 3, 4, 4), rl.arange(10).reshape(5, 2)


@pytest.mark.slow
def test_layers_give_pythons_numbers(ext, inputs):
    rows, images, numbers = inputs
    got = ext.outputs(rows, images, numbers, 7)
    rl.manual_seed(7)
    steps = {
        "linear": lambda: nn.Linear(6, 4)(rows),
        "bilinear": lambda: nn.Bilinear(6, 6, 2)(rows, rows),
        "transposed": lambda: nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1, output_padding=1)(images),
        "same": lambda: nn.Conv2d(3, 2, 3, padding="same", padding_mode="reflect", dilation=2)(images),
        "group": lambda: nn.GroupNorm(1, 3, affine=False)(images),
        "layer": lambda: nn.LayerNorm(6, eps=1e-3)(rows),
        "instance": lambda: nn.InstanceNorm2d(3, affine=True)(images),
        "adaptive": lambda: nn.AdaptiveAvgPool2d((3, None))(images),
        "pooled": lambda: nn.AvgPool2d(2, ceil_mode=True, count_include_pad=False, padding=1)(images),
        "lp": lambda: nn.LPPool2d(2, 2)(images),
        "pad": lambda: nn.ConstantPad2d((1, 2, 0, 1), 3.5)(images),
        "upsampled": lambda: nn.Upsample(scale_factor=(2, 2), mode="bilinear", align_corners=False)(images),
        "shuffled": lambda: nn.PixelUnshuffle(2)(images),
        "unfolded": lambda: nn.Unfold(2, stride=2)(images),
        "elu": lambda: nn.ELU(0.5)(rows),
        "prelu": lambda: nn.PReLU()(rows),
        "softmax": lambda: nn.Softmax(1)(rows),
        "dropped": lambda: nn.Dropout(0.5)(rows),
        "embedded": lambda: nn.Embedding(10, 4, padding_idx=0)(numbers),
        "bag": lambda: nn.EmbeddingBag(10, 4, mode="sum")(numbers),
        "pretrained": lambda: nn.Embedding.from_pretrained(rl.arange(20.0).view(10, 2))(numbers),
        "lstm": lambda: nn.LSTM(6, 5, num_layers=2, bidirectional=True, batch_first=True)(rows[None]),
        "gru": lambda: nn.GRU(6, 5)(rows[None])[0],
        "rnn": lambda: nn.RNN(6, 5, nonlinearity="relu")(rows[None])[0],
        "gru cell": lambda: nn.GRUCell(6, 3)(rows),
        "attention": lambda: nn.MultiheadAttention(6, 2)(rows, rows, rows)[0],
        "encoder": lambda: encoder(rows[:, None]),
        "huber": lambda: nn.HuberLoss(delta=0.5, reduction="sum")(rows, rows * 2),
        "mse": lambda: nn.MSELoss(reduction="none")(rows, rows.flip(0)),
        "cross entropy": lambda: nn.CrossEntropyLoss(rl.arange(6.0), reduction="sum")(rows, numbers[:, 0] % 6),
        "triplet": lambda: triplet(rows, rows + 1, rows - 2),
        "unpooled": lambda: nn.MaxUnpool2d(2)(*nn.MaxPool2d(2, return_indices=True)(images)),
    }
    triplet = nn.TripletMarginWithDistanceLoss(distance_function=lambda a, b: (a - b).abs().sum(1))

    def encoder(x: Any) -> Any:
        layer = nn.TransformerEncoderLayer(6, 2, dim_feedforward=8, dropout=0)
        norm = nn.LayerNorm(6)
        return nn.TransformerEncoder(layer, 2, norm=norm)(x)

    for name, step in steps.items():
        expected = step()
        if name == "lstm":
            expected, (_, cell) = expected
            assert rl.allclose(got["cell"], cell, atol=1e-6)
        assert got[name].shape == expected.shape and rl.allclose(got[name], expected, atol=1e-6), name
    assert set(got) == {*steps, "cell"}


@pytest.mark.slow
def test_functions_take_their_options(ext, inputs):
    rows, images, _ = inputs
    theta = rl.eye(2, 3)[None].expand(2, 2, 3)
    grid = F.affine_grid(theta, (2, 3, 4, 4), align_corners=False)
    expected = {
        "gelu": F.gelu(rows, approximate="tanh"),
        "leaky_relu": F.leaky_relu(rows, 0.3),
        "max_pool2d": F.max_pool2d(images, 2, 1),
        "interpolate": F.interpolate(images, (5, 7), mode="bicubic", align_corners=True),
        "pad": F.pad(images, (1, 1, 2, 0), mode="replicate"),
        "normalize": F.normalize(rows, p=1, dim=0),
        "batch_norm": F.batch_norm(images, rl.zeros(3), rl.ones(3), training=True),
        "conv2d": F.conv2d(images, rl.ones(2, 3, 2, 2), rl.ones(2), stride=2),
        "grid": F.grid_sample(images, grid, mode="nearest", align_corners=False),
        "one_hot": F.one_hot(rl.arange(3), 4),
        "log_softmax": F.log_softmax(rows, 1, dtype=rl.float64),
        "layer_norm": F.layer_norm(rows, (6,), weight=rl.full((6,), 2.0)),
        "cosine": F.cosine_similarity(rows, rows.flip(0), dim=1),
    }
    got = ext.functions(rows, images)
    assert set(got) == set(expected)
    for name, value in expected.items():
        assert got[name].dtype == value.dtype and rl.allclose(got[name], value, atol=1e-6), name


@pytest.mark.slow
def test_init_and_packed_sequences_draw_and_compute_alike(ext):
    rl.manual_seed(4)
    make = lambda: rl.empty(4, 6)  # noqa: E731
    init = nn.init
    expected = [
        init.kaiming_uniform_(make(), 0.1, "fan_out", "relu"), init.xavier_normal_(make(), 2), init.orthogonal_(make()),
        init.uniform_(make(), -1, 1), init.eye_(make()), init.constant_(make(), 3), init.trunc_normal_(make()),
    ]  # fmt: skip
    for got, value in zip(ext.filled(4), expected, strict=True):
        assert rl.allclose(got, value, atol=1e-6)
    batch, lengths = rl.randn(4, 3, 2), rl.tensor([2, 4, 1])
    rl.manual_seed(6)
    gru = nn.GRU(2, 3)
    rnn = nn.utils.rnn
    output, last = gru(rnn.pack_padded_sequence(batch, lengths, enforce_sorted=False))
    got = ext.packed(batch, lengths, 6)
    assert rl.allclose(got[0], rnn.pad_packed_sequence(output)[0]) and rl.allclose(got[1], last)


@pytest.mark.slow
@pytest.mark.parametrize(
    "what, said",
    [
        ("empty", "the module is empty"),
        ("twice", "Parameter 'w' already defined"),
        ("dot", "must not contain a dot"),
        ("clone", "torch::nn::Cloneable"),
        ("argument", "argument #0 to be of type at::Tensor, but received value of type int"),
        ("count", r"expects 1 argument\(s\), but received 2"),
        ("shape", "linear"),
        ("list", "Expected 2 values, but instead got 3"),
        ("options", "bias cannot change after the layer is made"),
    ],
)
def test_mistakes_are_named(ext, what, said):
    with pytest.raises(Exception, match=said):
        ext.refuse(what)


@pytest.mark.slow
@pytest.mark.share(6)
def test_the_example_programs_build_and_learn(compiler, tmp_path):
    if shutil.which("cmake") is None:
        pytest.skip("no cmake here")
    names = ("autograd", "dcgan", "mnist")
    lines = ["cmake_minimum_required(VERSION 3.18)", "project(all LANGUAGES CXX)"]
    lines += [f"add_subdirectory({ROOT / 'examples' / 'cpp' / name} {name})" for name in names]
    (tmp_path / "CMakeLists.txt").write_text("\n".join(lines) + "\n")
    flags = [f"-DCMAKE_PREFIX_PATH={rl.utils.cmake_prefix_path}", f"-DPython_EXECUTABLE={sys.executable}"]
    done = subprocess.run(["cmake", "-S", tmp_path, "-B", tmp_path / "b", *flags], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    done = subprocess.run(["cmake", "--build", tmp_path / "b"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    said = {}
    for name, steps in (("autograd", []), ("dcgan", ["2"]), ("mnist", ["1"])):
        said[name] = subprocess.run([tmp_path / "b" / name / name, *steps], capture_output=True, text=True)
    assert all(done.returncode == 0 for done in said.values()), {n: done.stderr for n, done in said.items()}
    assert "penalty: 0.332392" in said["autograd"].stdout and "epoch 1, loss 2.27082" in said["mnist"].stdout
    assert "(conv1): torch::nn::ConvTranspose2d(32, 64" in said["dcgan"].stdout
