"""Modules in mixed precision on the CPU: types of results and gradients, as PyTorch 2.13 has them.

The answers stand in module_types.txt, one row for a module and the type of its inputs; this file, run as
a program, writes them anew from PyTorch.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ANSWERS = Path(__file__).with_name("module_types.txt")


def modules(torch: Any) -> dict[str, tuple[Callable[[], Any], Callable[[], tuple]]]:
    """name -> what makes a module, and what makes its inputs."""
    nn, r = torch.nn, torch.randn
    functional, rnn = torch.nn.functional, torch.nn.utils.rnn
    norms = torch.nn.utils.parametrizations

    def two() -> tuple:
        return r(3, 4), r(3, 4)

    def classes() -> tuple:
        return r(3, 4), torch.tensor([1, 0, 3])

    def packed() -> Any:
        return rnn.pack_padded_sequence(r(5, 2, 4), [5, 3])

    def self_attention() -> tuple:
        x = r(3, 2, 4)
        return x, x, x

    def of(*shapes: tuple[int, ...]) -> Callable[[], tuple]:
        return lambda: tuple(r(*shape) for shape in shapes)

    one, rows, steps, image, volume = map(of, ((2, 4), (3, 2, 4), (5, 2, 4), (1, 4, 4, 4), (1, 4, 4, 4, 4)))
    encoder = nn.TransformerEncoderLayer
    found: dict[str, Any] = {
        "Linear": (lambda: nn.Linear(4, 3), one), "Bilinear": (lambda: nn.Bilinear(4, 4, 3), two),
        "Conv1d": (lambda: nn.Conv1d(4, 3, 2), lambda: (r(2, 4, 5),)), "Conv2d": (lambda: nn.Conv2d(4, 3, 2), image),
        "Conv3d": (lambda: nn.Conv3d(4, 3, 2), volume),
        "ConvTranspose1d": (lambda: nn.ConvTranspose1d(4, 3, 2), lambda: (r(2, 4, 5),)),
        "ConvTranspose2d": (lambda: nn.ConvTranspose2d(4, 3, 2), image),
        "ConvTranspose3d": (lambda: nn.ConvTranspose3d(4, 3, 2), volume),
        "LSTM": (lambda: nn.LSTM(4, 3), steps),
        "LSTM states": (lambda: nn.LSTM(4, 3), lambda: (r(5, 2, 4), (r(1, 2, 3), r(1, 2, 3)))),
        "LSTM two layers": (lambda: nn.LSTM(4, 3, 2, bidirectional=True, batch_first=True), steps),
        "LSTM projected": (lambda: nn.LSTM(4, 3, proj_size=2), steps),
        "LSTM no bias": (lambda: nn.LSTM(4, 3, bias=False), steps),
        "LSTM no batch": (lambda: nn.LSTM(4, 3), lambda: (r(5, 4),)),
        "LSTM packed": (lambda: nn.LSTM(4, 3), lambda: (packed(),)),
        "GRU": (lambda: nn.GRU(4, 3), steps), "GRU packed": (lambda: nn.GRU(4, 3), lambda: (packed(),)),
        "RNN": (lambda: nn.RNN(4, 3), steps), "RNN relu": (lambda: nn.RNN(4, 3, nonlinearity="relu"), steps),
        "LSTMCell": (lambda: nn.LSTMCell(4, 3), one), "GRUCell": (lambda: nn.GRUCell(4, 3), one),
        "RNNCell": (lambda: nn.RNNCell(4, 3), one),
        "MultiheadAttention": (lambda: nn.MultiheadAttention(4, 2), self_attention),
        "MultiheadAttention eval": (lambda: nn.MultiheadAttention(4, 2, batch_first=True).eval(), self_attention),
        "MultiheadAttention kv": (lambda: nn.MultiheadAttention(4, 2, kdim=3, vdim=5, add_bias_kv=True),
                                  lambda: (r(3, 2, 4), r(3, 2, 3), r(3, 2, 5))),
        "encoder": (lambda: encoder(4, 2, 8), rows),
        "encoder eval": (lambda: encoder(4, 2, 8, batch_first=True).eval(), rows),
        "encoder norm first eval": (lambda: encoder(4, 2, 8, batch_first=True, norm_first=True).eval(), rows),
        "encoders eval": (lambda: nn.TransformerEncoder(encoder(4, 2, 8, batch_first=True), 2).eval(), rows),
        "decoder": (lambda: nn.TransformerDecoderLayer(4, 2, 8), lambda: (r(3, 2, 4), r(3, 2, 4))),
        "Transformer": (lambda: nn.Transformer(4, 2, 1, 1, 8), lambda: (r(3, 2, 4), r(3, 2, 4))),
        "LayerNorm": (lambda: nn.LayerNorm(4), one), "RMSNorm": (lambda: nn.RMSNorm(4), one),
        "GroupNorm": (lambda: nn.GroupNorm(2, 4), image), "BatchNorm1d": (lambda: nn.BatchNorm1d(4), one),
        "BatchNorm2d": (lambda: nn.BatchNorm2d(4), image), "BatchNorm1d eval": (lambda: nn.BatchNorm1d(4).eval(), one),
        "InstanceNorm2d": (lambda: nn.InstanceNorm2d(4, affine=True), image),
        "LocalResponseNorm": (lambda: nn.LocalResponseNorm(2), image),
        "LocalResponseNorm rows": (lambda: nn.LocalResponseNorm(2), rows),
        "CrossMapLRN2d": (lambda: nn.CrossMapLRN2d(2), image),
        "Embedding": (lambda: nn.Embedding(5, 3), lambda: (torch.tensor([1, 2]),)),
        "EmbeddingBag": (lambda: nn.EmbeddingBag(5, 3), lambda: (torch.tensor([[1, 2]]),)),
        "PReLU": (nn.PReLU, one), "GLU": (nn.GLU, one), "Threshold": (lambda: nn.Threshold(0.1, 0.0), one),
        "Softmax2d": (nn.Softmax2d, image), "Unfold": (lambda: nn.Unfold(2), image),
        "Fold": (lambda: nn.Fold((4, 4), 2), lambda: (r(1, 8, 9),)),
        "PairwiseDistance": (nn.PairwiseDistance, two), "CosineSimilarity": (nn.CosineSimilarity, two),
        "PixelShuffle": (lambda: nn.PixelShuffle(2), image), "ChannelShuffle": (lambda: nn.ChannelShuffle(2), image),
        "weight_norm": (lambda: norms.weight_norm(nn.Linear(4, 3)), one),
        "spectral_norm": (lambda: norms.spectral_norm(nn.Linear(4, 3)), one),
        "spectral_norm before": (lambda: torch.nn.utils.spectral_norm(nn.Linear(4, 3)), one),
        "orthogonal": (lambda: norms.orthogonal(nn.Linear(4, 3)), one),
        "FractionalMaxPool2d": (lambda: nn.FractionalMaxPool2d(2, output_size=2), image),
        "FractionalMaxPool3d": (lambda: nn.FractionalMaxPool3d(2, output_size=2), volume),
    }
    for mode, given in (("nearest", image), ("bilinear", image), ("bicubic", image), ("linear", rows),
                        ("trilinear", volume), ("area", volume)):
        found[f"Upsample {mode}"] = lambda mode=mode: nn.Upsample(scale_factor=2, mode=mode), given
    for name in ("ReLU ReLU6 ELU SELU CELU GELU SiLU Mish Softplus Softshrink Hardshrink Hardtanh Hardsigmoid Hardswish"
                 " LeakyReLU LogSigmoid Sigmoid Tanh Tanhshrink Softsign Softmax Softmin LogSoftmax Dropout RReLU"
                 " AlphaDropout Flatten Identity").split():
        found[name] = getattr(nn, name), one
    for dims in (1, 2, 3):
        def grid(dims: int = dims) -> tuple:
            return (r(1, 2, *[6] * dims),)

        def pooled(dims: int = dims) -> tuple:
            return getattr(functional, f"max_pool{dims}d")(r(1, 2, *[6] * dims), 2, return_indices=True)

        for kind in ("AvgPool", "MaxPool", "AdaptiveAvgPool", "AdaptiveMaxPool"):
            found[f"{kind}{dims}d"] = lambda name=f"{kind}{dims}d": getattr(nn, name)(2), grid
        for kind in ("ReflectionPad", "ReplicationPad", "ZeroPad", "CircularPad"):
            found[f"{kind}{dims}d"] = lambda name=f"{kind}{dims}d": getattr(nn, name)(1), grid
        found[f"LPPool{dims}d"] = lambda name=f"LPPool{dims}d": getattr(nn, name)(2, 2), grid
        found[f"MaxUnpool{dims}d"] = lambda name=f"MaxUnpool{dims}d": getattr(nn, name)(2), pooled
    shares, signs = (lambda: (r(3, 4), torch.rand(3, 4))), (lambda: (r(3, 4), torch.ones(3, 4)))
    three = of((3, 4), (3, 4), (3, 4))
    for name, given in {
        "L1Loss": two, "MSELoss": two, "SmoothL1Loss": two, "HuberLoss": two, "CrossEntropyLoss": classes,
        "NLLLoss": classes, "KLDivLoss": two, "BCEWithLogitsLoss": shares, "PoissonNLLLoss": two,
        "BCELoss": lambda: (torch.rand(3, 4), torch.rand(3, 4)),
        "GaussianNLLLoss": lambda: (r(3, 4), r(3, 4), torch.rand(3, 4) + 0.1), "HingeEmbeddingLoss": signs,
        "MarginRankingLoss": lambda: (r(3), r(3), torch.ones(3)), "MultiMarginLoss": classes,
        "CosineEmbeddingLoss": lambda: (r(3, 4), r(3, 4), torch.ones(3)),
        "MultiLabelMarginLoss": lambda: (r(3, 4), torch.tensor([[1, -1, 0, 0]] * 3)),
        "MultiLabelSoftMarginLoss": shares, "TripletMarginLoss": three, "TripletMarginWithDistanceLoss": three,
        "CTCLoss": lambda: (r(5, 2, 4).log_softmax(-1), torch.tensor([[1, 2], [1, 1]]), torch.tensor([5, 5]),
                            torch.tensor([2, 2])),
    }.items():
        found[name] = getattr(nn, name), given
    return found


def _tensors(torch: Any, value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, torch.nn.utils.rnn.PackedSequence):
        return [value.data]
    return [t for one in value for t in _tensors(torch, one)] if isinstance(value, (tuple, list)) else []


def _of_type(torch: Any, value: Any, dtype: Any, wants: bool) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().to(dtype).requires_grad_(wants) if value.is_floating_point() else value
    if isinstance(value, torch.nn.utils.rnn.PackedSequence):
        return value.to(dtype)
    return tuple(_of_type(torch, one, dtype, wants) for one in value) if isinstance(value, (tuple, list)) else value


def types(torch: Any, name: str, given: str, wants: bool) -> str:
    """Types of a module's results, of its parameters' gradients and of its inputs', or the class of an error."""
    def word(t: Any) -> str:
        return "none" if t is None else str(t.dtype).rpartition(".")[2]

    make, inputs = modules(torch)[name]
    torch.manual_seed(0)
    try:
        module, args = make(), _of_type(torch, inputs(), getattr(torch, given), wants)
        with torch.autocast("cpu", dtype=torch.bfloat16), contextlib.nullcontext() if wants else torch.no_grad():
            results = _tensors(torch, module(*args))
        found = " ".join(map(word, results))
        if wants:
            loss = sum(t.float().sum() for t in results if t.is_floating_point())
            if loss.requires_grad:
                loss.backward()
            graded = [*module.parameters(), *(t for t in _tensors(torch, args) if t.requires_grad)]
            found += " | " + " ".join(word(t.grad) for t in graded)
        return found.strip()
    except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        return type(error).__name__


def _key(name: str, given: str, wants: bool) -> str:
    return f"{name}, {given}{', recorded' if wants else ''}"


CASES = [(given, wants) for given in ("float32", "bfloat16", "float64") for wants in (True, False)
         if given != "float64" or wants]


def _stored() -> dict[str, str]:
    found: dict[str, str] = {}
    for line in ANSWERS.read_text().splitlines():
        answer, _, keys = line.partition(": ")
        found.update(dict.fromkeys(keys.split("; "), answer))
    return found


NAMES = list(modules(importlib.import_module("rushlight")))


@pytest.mark.share(3)
@pytest.mark.parametrize("name", NAMES)
def test_types_are_pytorchs(name: str) -> None:
    torch, stored = importlib.import_module("rushlight"), _stored()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {_key(name, *case): types(torch, name, *case) for case in CASES}
    wrong = {key: (got, stored[key]) for key, got in found.items() if stored[key] not in (got, "RuntimeError")}
    assert not wrong, f"got, and expected: {wrong}"


@pytest.mark.slow
def test_the_answers_are_those_of_pytorch() -> None:
    torch, stored = pytest.importorskip("torch"), _stored()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrong = [key for name in NAMES for case in CASES if (key := _key(name, *case)) not in stored
                 or types(torch, name, *case) != stored[key]]
    assert not wrong


def test_the_lower_type_of_a_recurrent_network_may_be_float16() -> None:
    import rushlight as rl

    with rl.autocast("cpu", dtype=rl.float16):
        out, (h, c) = rl.nn.LSTM(4, 3)(rl.randn(5, 2, 4))
        with rl.autocast("cpu", enabled=False):
            assert rl.nn.LSTM(4, 3)(rl.randn(5, 2, 4))[0].dtype is rl.float32
    assert {out.dtype, h.dtype, c.dtype} == {rl.float16}


def test_the_lists_for_cuda_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    from rushlight.dispatch import autocast
    from rushlight.op import ops

    header = Path(torch.__file__).with_name("include") / "ATen" / "autocast_mode.h"
    if not header.exists():
        pytest.skip("the lists are in PyTorch's headers")
    theirs = {what: set(re.findall(r"_\((\w+)", text)) for what, text in re.findall(
        r"#define AT_FORALL_(LOWER_PRECISION_FP|FP32|FP32_SET_OPT_DTYPE|PROMOTE)\(_\)(.*?[^\\])\n", header.read_text(),
        re.DOTALL)}
    assert sum(map(len, theirs.values())) > 90
    policies = {
        "LOWER_PRECISION_FP": autocast.to_lower, "FP32": autocast.to_float32_unless_told,
        "FP32_SET_OPT_DTYPE": autocast.to_float32_unless_told, "PROMOTE": autocast.to_widest,
    }
    wrong = [name for what, names in theirs.items() for name in sorted(names & set(ops))
             if autocast.ON_CUDA.get(name) is not policies[what] and not name.startswith(("_upsample", "upsample"))]
    assert not wrong
    composed = set("""
        cross_entropy cross_entropy_loss linear_cross_entropy interpolate norm softmin grid_sample grid_sampler_2d
        grid_sampler_3d gaussian_nll_loss linalg_norm local_response_norm lp_pool1d lp_pool2d lp_pool3d nll_loss_nd
        multilabel_soft_margin_loss normalize pairwise_distance binary_cross_entropy gru lstm rnn_relu rnn_tanh
    """.split())      # written with ops of the lists, or with rules of their own
    ours = {name for name in autocast.ON_CUDA if name in ops and "::" not in name}
    assert ours - set().union(*theirs.values()) <= composed


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows: dict[str, list[str]] = {}
        for name in NAMES:
            for case in CASES:
                answer = types(importlib.import_module("torch"), name, *case)
                rows.setdefault(answer, []).append(_key(name, *case))
    ANSWERS.write_text("".join(f"{answer}: {'; '.join(keys)}\n" for answer, keys in sorted(rows.items())))
    sys.stdout.write(f"{sum(map(len, rows.values()))} answers\n")
