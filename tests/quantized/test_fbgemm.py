"""fbgemm_*: dynamic layers over weights in plain tensors; files of packed weights."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pytest

import rushlight as rl
from tests.quantized.oracle import sums_are_exact

WEIGHT = np.array([[0.5, -1.25, 2.0], [0.1, 0.0, -0.3]], np.float32)
# what PyTorch 2.13 gives for it
INTEGERS, SUMS, SCALE, ZERO = [[9, -128, 127], [-22, -30, -54]], [98, -16], 0.01274509821087122, -30
INPUT, BIAS = np.array([[1.0, 2.0, -3.0], [0.5, 0.0, 0.25]], np.float32), np.array([0.5, -1.0], np.float32)
ANSWERS = [[-7.5039215087890625, 0.01960783824324608], [1.253710150718689, -1.0279892683029175]]


def layer(library, weight: np.ndarray, x: np.ndarray, bias: np.ndarray):
    """Quantized weights, a layer's floats, and those of half precision."""
    make = library.from_numpy
    integers, sums, scale, zero = library.fbgemm_linear_quantize_weight(make(weight))
    packed = library.fbgemm_pack_quantized_matrix(integers)
    result = library.fbgemm_linear_int8_weight(make(x), integers, packed, sums, scale, zero, make(bias))
    half = library.fbgemm_linear_fp16_weight(make(x), library.fbgemm_pack_gemm_matrix_fp16(make(weight)), make(bias))
    return integers, sums, scale, zero, result, half


def rounding(weight: np.ndarray, x: np.ndarray) -> np.ndarray:
    """How far a product of factors rounded to 8 bits, by half a step each, can be from that of the factors."""
    w, v = (np.ptp(np.append(values, 0)) / 255 / 2 * 1.01 for values in (weight, x))
    return (np.abs(x) + v).sum(1)[:, None] * w + np.abs(weight).sum(1)[None, :] * v


def test_weights_and_layers() -> None:
    integers, sums, scale, zero, result, half = layer(rl, WEIGHT, INPUT, BIAS)
    assert (integers.tolist(), sums.tolist(), scale, zero) == (INTEGERS, SUMS, SCALE, ZERO)
    assert np.allclose(result.numpy(), ANSWERS, atol=1e-5)
    assert np.allclose(half.numpy(), INPUT @ WEIGHT.T + BIAS, atol=2e-3)
    with pytest.raises(RuntimeError, match="float64"):
        rl.fbgemm_linear_quantize_weight(rl.from_numpy(WEIGHT).double())
    with pytest.raises(RuntimeError, match="3 columns"):
        layer(rl, WEIGHT, INPUT[:, :2].copy(), BIAS)


def test_weights_and_layers_are_those_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    if "fbgemm" not in torch.backends.quantized.supported_engines:
        pytest.skip("this PyTorch has no fbgemm")
    exact = sums_are_exact(torch)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n, k, m = (int(v) for v in rng.integers(1, 60, 3))
        given = [(rng.standard_normal(shape) * 3 + seed % 2).astype(np.float32) for shape in ((n, k), (m, k), (n,))]
        theirs, mine = layer(torch, *given), layer(rl, *given)
        assert theirs[2:4] == mine[2:4]
        assert all((theirs[k].numpy() == mine[k].numpy()).all() for k in (0, 1))
        if exact:
            assert (theirs[4].numpy() == mine[4].numpy()).all()
        else:
            assert (np.abs(mine[4].numpy() - given[1] @ given[0].T - given[2]) <= rounding(*given[:2])).all()
        assert np.allclose(theirs[5].numpy(), mine[5].numpy(), atol=1e-3)


def packed_by(library):
    """Packed weights of every kind."""
    functions, weight, bias = library.ops.quantized, library.from_numpy(WEIGHT), library.from_numpy(BIAS)
    scales, zeros = library.full((2,), 0.02, dtype=library.float64), library.zeros(2, dtype=library.int64)
    plain = functions.linear_prepack(library.quantize_per_tensor(weight, 0.02, 0, library.qint8), bias)
    channels = library.quantize_per_channel(weight, scales, zeros, 0, library.qint8)
    return {
        "plain": plain,
        "channels": functions.linear_prepack(channels, None),
        "half": functions.linear_prepack_fp16(weight, bias),
        "cell": functions.make_quantized_cell_params_dynamic(plain, plain, bias, bias, True),
    }


def results(library, packed: dict) -> list:
    functions, x = library.ops.quantized, library.from_numpy(INPUT)
    layers = [functions.linear_dynamic(x, packed[name]).numpy() for name in ("plain", "channels", "half")]
    state = packed["cell"].__getstate__()
    assert state[1] == "__torch__.torch.classes.rnn.CellParamsBase" and state[0][0] == "quantized_dynamic"
    return [*layers, functions.linear_dynamic(x, state[0][4][1]).numpy()]


def test_packed_weights_survive_files() -> None:
    packed = packed_by(rl)
    expected = results(rl, packed)
    file = io.BytesIO()
    rl.save(packed, file)
    file.seek(0)
    for read in (rl.load(file, weights_only=False), pickle.loads(pickle.dumps(packed))):
        assert all((a == b).all() for a, b in zip(expected, results(rl, read), strict=True))


def test_packed_weights_go_to_pytorch_and_come_back() -> None:
    torch = pytest.importorskip("torch")
    if "fbgemm" not in torch.backends.quantized.supported_engines:
        pytest.skip("this PyTorch has no fbgemm")
    for writer, reader in ((rl, torch), (torch, rl)):
        packed, file = packed_by(writer), io.BytesIO()
        writer.save(packed, file)
        file.seek(0)
        read = reader.load(file, weights_only=False)
        for a, b in zip(results(writer, packed), results(reader, read), strict=True):
            assert np.allclose(a, b, atol=1e-6)


def test_sparse_weights_are_kept_by_blocks() -> None:
    weight, bias = rl.from_numpy(np.random.default_rng(1).standard_normal((8, 12)).astype(np.float32)), rl.ones(8)
    weight[0, :4] = weight[3] = weight[4:, 8:] = 0
    scales, zeros = rl.full((8,), 0.02, dtype=rl.float64), rl.zeros(8, dtype=rl.int64)
    rows = rl.quantize_per_tensor(rl.randn(3, 12), 0.03, 100, rl.quint8)
    for given in (
        rl.quantize_per_tensor(weight, 0.02, 0, rl.qint8), rl.quantize_per_channel(weight, scales, zeros, 0, rl.qint8)
    ):
        packed, dense = rl.ops.sparse.qlinear_prepack(given, bias, 1, 4), rl.ops.quantized.linear_prepack(given, bias)
        state, name = packed.__getstate__()
        assert name == "__torch__.torch.classes.sparse.LinearPackedParamsBase"
        assert state[7].tolist() == [0, 2, 5, 8, 8, 10, 12, 14, 16] and state[8].tolist()[:5] == [1, 2, 0, 1, 2]
        for other in (packed, pickle.loads(pickle.dumps(packed))):
            back, added, block = rl.ops.sparse.qlinear_unpack(other)
            assert back.int_repr().equal(given.int_repr()) and added.equal(bias) and block == [1, 4]
            plain = rl.ops.quantized.linear_relu(rows, dense, 0.1, 9)
            assert rl.ops.sparse.qlinear_relu(rows, other, 0.1, 9).int_repr().equal(plain.int_repr())
            x = rows.dequantize()
            assert rl.ops.sparse.qlinear_dynamic(x, other).equal(rl.ops.quantized.linear_dynamic(x, dense))
    with pytest.raises(RuntimeError, match=r"\(1, 5\) do not divide"):
        rl.ops.sparse.qlinear_prepack(given, bias, 1, 5)
