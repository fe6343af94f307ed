"""Recurrent networks with quantized weights: a whole sequence's products at once, steps on floats."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import rushlight as rl

WIDTH, FEATURES = 6, 7


def cell(library, gates: int, features: int, kind: str = "int8", reduced: bool = True):
    """Packed parameters of a cell, the same for every library."""
    rng = np.random.default_rng(gates * features)
    shapes = (gates * WIDTH, features), (gates * WIDTH, WIDTH), (gates * WIDTH,), (gates * WIDTH,)
    w_ih, w_hh, b_ih, b_hh = (
        library.from_numpy((rng.standard_normal(shape) * 0.3).astype(np.float32)) for shape in shapes
    )
    functions = library.ops.quantized
    if kind == "fp16":
        return functions.make_quantized_cell_params_fp16(
            functions.linear_prepack_fp16(w_ih, b_ih), functions.linear_prepack_fp16(w_hh, b_hh)
        )
    packed = [
        functions.linear_prepack(library.quantize_per_tensor(w, 0.01, 0, library.qint8), b)
        for w, b in ((w_ih, b_ih), (w_hh, b_hh))
    ]
    return functions.make_quantized_cell_params_dynamic(*packed, b_ih, b_hh, reduced)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def networks(library, kind: str) -> list:
    """Results of LSTM and GRU, two layers in both directions, over padded and packed sequences."""
    x, h, c = (library.from_numpy(numbers(*s, seed=k)) for k, s in enumerate([(5, 3, FEATURES), *[(4, 3, WIDTH)] * 2]))
    lstm, gru = (
        [cell(library, gates, features, kind) for features in (FEATURES, 2 * WIDTH) for _ in range(2)]
        for gates in (4, 3)
    )
    packed = library.nn.utils.rnn.pack_padded_sequence(x, [5, 3, 2])
    how = {"dtype": library.qint8, "use_dynamic": True}
    return [
        *library.quantized_lstm(x, [h, c], lstm, True, 2, 0.0, False, True, False, **how),
        *library.quantized_gru(x.transpose(0, 1), h, gru, True, 2, 0.0, False, True, True),
        *library.quantized_lstm(packed.data, packed.batch_sizes, [h, c], lstm, True, 2, 0.0, False, True, **how),
        *library.quantized_gru(packed.data, packed.batch_sizes, h, gru, True, 2, 0.0, False, True),
    ]


def test_a_layer_quantizes_its_input_at_once_and_states_step_by_step() -> None:
    x, h, c = (rl.from_numpy(numbers(*s, seed=k)) for k, s in enumerate([(5, 3, FEATURES), *[(1, 3, WIDTH)] * 2]))
    for reduced in (False, True):
        params = cell(rl, 4, FEATURES, reduced=reduced)
        for given in (params, copy.deepcopy(params)):
            result = rl.quantized_lstm(x, [h, c], [given], True, 1, 0.0, False, False, False, use_dynamic=True)
            inside, state, memory = rl.ops.quantized.linear_dynamic(x, params.weights[0], reduced), h[0], c[0]
            for t in range(5):
                gates = inside[t] + rl.ops.quantized.linear_dynamic(state, params.weights[1], reduced)
                into, keep, new, out = gates.chunk(4, 1)
                memory = keep.sigmoid() * memory + into.sigmoid() * new.tanh()
                state = out.sigmoid() * memory.tanh()
                assert rl.allclose(result[0][t], state, atol=1e-6)
            assert rl.allclose(result[1][0], state, atol=1e-6) and rl.allclose(result[2][0], memory, atol=1e-6)


def test_directions_and_packed_sequences_agree_with_plain_ones() -> None:
    x, h = rl.from_numpy(numbers(5, 3, FEATURES)), rl.from_numpy(numbers(2, 3, WIDTH, seed=1))
    one, other = cell(rl, 3, FEATURES, "fp16"), cell(rl, 3, FEATURES, "fp16")
    both, last = rl.quantized_gru(x, h, [one, other], True, 1, 0.0, False, True, False)
    there, end = rl.quantized_gru(x, h[:1], [one], True, 1, 0.0, False, False, False)
    back, start = rl.quantized_gru(x.flip(0), h[1:], [other], True, 1, 0.0, False, False, False)
    assert rl.allclose(both, rl.cat([there, back.flip(0)], 2), atol=1e-6)
    assert rl.allclose(last, rl.cat([end, start]), atol=1e-6)
    packed = rl.nn.utils.rnn.pack_padded_sequence(x, [5, 3, 2])
    rows, last = rl.quantized_gru(packed.data, packed.batch_sizes, h, [one, other], True, 1, 0.0, False, True)
    for k, length in enumerate((5, 3, 2)):
        alone, end = rl.quantized_gru(
            x[:length, k : k + 1], h[:, k : k + 1], [one, other], True, 1, 0.0, False, True, False
        )
        mine = rl.nn.utils.rnn.pad_packed_sequence(packed._replace(data=rows))[0][:length, k]
        assert rl.allclose(mine, alone[:, 0], atol=1e-6) and rl.allclose(last[:, k], end[:, 0], atol=1e-6)


def test_refusals() -> None:
    x, h, params = rl.randn(5, 3, FEATURES), rl.randn(1, 3, WIDTH), cell(rl, 4, FEATURES)
    with pytest.raises(RuntimeError, match="two hidden states"):
        rl.quantized_lstm(x, [h], [params], True, 1, 0.0, False, False, False)
    with pytest.raises(RuntimeError, match="no longer supported"):
        rl.quantized_lstm(x, [h, h], [h, h], True, 1, 0.0, False, False, False)
    with pytest.raises(RuntimeError, match="one for each layer"):
        rl.quantized_lstm(x, [h, h], [params], True, 2, 0.0, False, False, False)


def test_networks_and_cells_are_those_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    if "x86" not in torch.backends.quantized.supported_engines:
        pytest.skip("PyTorch's other engines round otherwise")
    for kind in ("int8", "fp16"):
        for theirs, mine in zip(networks(torch, kind), networks(rl, kind), strict=True):
            assert np.allclose(theirs.numpy(), mine.numpy(), atol=1e-6)
    for name, gates in (("lstm", 4), ("gru", 3), ("rnn_relu", 1), ("rnn_tanh", 1)):
        found = []
        for library in (torch, rl):
            state, biases = library.from_numpy(numbers(3, WIDTH, seed=2)), library.zeros(gates * WIDTH)
            weights = [
                library.ops.quantized.linear_prepack(
                    library.quantize_per_tensor(library.from_numpy(numbers(gates * WIDTH, k, seed=k)), 0.02, 0,
                                                library.qint8), biases,
                )
                for k in (FEATURES, WIDTH)
            ]
            step = getattr(library.ops.quantized, f"quantized_{name}_cell_dynamic")
            states = [state, state] if name == "lstm" else state
            x = library.from_numpy(numbers(3, FEATURES, seed=3))
            result = step(x, states, *weights, biases, biases)
            found.append((result[0] if name == "lstm" else result).numpy())
        assert np.allclose(*found, atol=1e-6)
