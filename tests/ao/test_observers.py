"""Observers, fake quantizers and qconfigs: PyTorch's numbers, states, texts and refusals."""

from __future__ import annotations

import io
import json
import warnings

import observer_programs
import pytest

import rushlight
from rushlight.ao.quantization import observer

STORED = json.loads(observer_programs.STORED.read_text())
Q = rushlight.ao.quantization


@pytest.mark.parametrize("name", observer_programs.PROGRAMS)
def test_answers_are_pytorchs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observer, "LANES", 8)     # the answers are those of x86, where sums are made of eight
    ours = observer_programs.run(rushlight, name)
    assert [key for key, digest in STORED[name].items() if ours.get(key) != digest] == []
    assert ours.keys() == STORED[name].keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", observer_programs.PROGRAMS)
def test_stored_answers_are_pytorchs(name: str) -> None:
    assert observer_programs.run(pytest.importorskip("torch"), name) == STORED[name]


def test_symmetric_and_affine_qparams_of_a_known_range() -> None:
    x = rushlight.tensor([-1.0, 3.0])
    affine, symmetric = Q.MinMaxObserver(), Q.default_weight_observer()
    affine(x)
    symmetric(x)
    scale, point = affine.calculate_qparams()
    assert scale.item() == pytest.approx(4 / 255, rel=1e-6)
    assert point.tolist() == [64]
    scale, point = symmetric.calculate_qparams()
    assert scale.item() == pytest.approx(3 / 127.5, rel=1e-6)
    assert point.tolist() == [0]


def test_qparams_before_anything_was_seen_warn() -> None:
    for made in (Q.MinMaxObserver(), Q.PerChannelMinMaxObserver(), Q.HistogramObserver()):
        with pytest.warns(UserWarning, match="must run observer before calling calculate_qparams"):
            scale, point = made.calculate_qparams()
        assert (scale.tolist(), point.tolist()) == ([1.0], [0])


def test_older_states_load() -> None:
    first = Q.PerChannelMinMaxObserver()
    first(rushlight.tensor([[1.0, -2.0], [3.0, 4.0]]))
    state = first.state_dict()
    del state["eps"]        # version 1 had none
    state._metadata[""]["version"] = None
    other = Q.PerChannelMinMaxObserver()
    other.load_state_dict(state)
    assert other.min_val.tolist() == [-2.0, 3.0]
    assert other.eps.item() == rushlight.finfo(rushlight.float32).eps


def test_observers_and_qconfigs_are_pickled_by_pytorchs_names() -> None:
    module = rushlight.nn.Linear(2, 2)
    module.qconfig = Q.get_default_qat_qconfig("qnnpack")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module.activation_post_process = module.qconfig.activation()
    module.activation_post_process(rushlight.tensor([1.0, -2.0]))
    file = io.BytesIO()
    rushlight.save(module, file)
    assert b"torch.ao.quantization.fake_quantize" in file.getvalue()
    file.seek(0)
    loaded = rushlight.load(file, weights_only=False)
    assert str(loaded.activation_post_process) == str(module.activation_post_process)
    assert Q.qconfig_equals(loaded.qconfig, module.qconfig)


def test_constructors_take_arguments_made_at_each_call() -> None:
    made: list[int] = []
    constructor = Q.MinMaxObserver.with_args(dtype=rushlight.qint8).with_callable_args(
        factory_kwargs=lambda: made.append(1) or {"dtype": rushlight.float64}
    )
    assert [constructor().min_val.dtype for _ in range(2)] == [rushlight.float64] * 2
    assert made == [1, 1]
    assert constructor.with_args(quant_min=-8, quant_max=7)().quant_max == 7
