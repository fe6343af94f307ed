"""mode= and options that tune: convolutions are computed in the form that was measured to be fastest."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.inductor import settings, tune
from rushlight.planners.convolutions import convolve


def network() -> tuple[Any, Any]:
    rl.manual_seed(0)
    layers = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 8, 3, stride=2), nn.Conv2d(8, 4, 1))
    return layers.eval(), rl.randn(2, 8, 12, 12)


@pytest.fixture
def folder(tmp_path: Any, monkeypatch: Any) -> Any:
    tmp_path.chmod(0o700)
    monkeypatch.setenv("RUSHLIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr(tune, "_known", {})
    return tmp_path


def run(mode: str | None = None, **options: Any) -> Any:
    model, x = network()
    rl.compiler.reset()
    with rl.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        return rl.compile(model, mode=mode, options=options or None)(x)


def expected() -> Any:
    model, x = network()
    with rl.no_grad():
        return model(x)


@pytest.mark.parametrize("mode", ["max-autotune", "max-autotune-no-cudagraphs", "reduce-overhead", "default"])
def test_modes_compute_the_same(mode: str, folder: Any) -> None:
    rl.testing.assert_close(run(mode), expected(), rtol=1e-4, atol=1e-5)
    assert len(list(folder.glob("tuned-*"))) == (3 if "max" in mode else 0)


@pytest.mark.parametrize("form", [None, *convolve.forms()])
def test_every_form_computes_the_same(form: Any, folder: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(tune, "measured", lambda *given: {"form": form})
    rl.testing.assert_close(run(max_autotune=True), expected(), rtol=1e-4, atol=1e-5)


def test_what_was_measured_is_kept_for_other_processes(folder: Any, monkeypatch: Any) -> None:
    run("max-autotune")
    tune._known.clear()

    def never(*given: Any) -> Any:
        raise AssertionError("measured again")

    monkeypatch.setattr(tune, "measured", never)
    run("max-autotune")
    assert len(tune._known) == 3


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{\"form\": \"os\"}", b"{\"form\": 99}", b"{}", b"\xff"])
def test_files_of_others_are_measured_again(data: bytes, folder: Any) -> None:
    run("max-autotune")
    for path in folder.glob("tuned-*"):
        path.write_bytes(data)
        path.chmod(0o600)
    tune._known.clear()
    rl.testing.assert_close(run("max-autotune"), expected(), rtol=1e-4, atol=1e-5)
    assert all(path.read_bytes() != data for path in folder.glob("tuned-*"))


def test_modes_say_what_they_stand_for() -> None:
    assert rl._inductor.list_mode_options("max-autotune") == {"tune": True, "replay": True}
    assert rl._inductor.list_mode_options("default") == {}
    with pytest.warns(UserWarning, match="has no modes"):
        rl.compile(lambda x: x, backend="eager", mode="reduce-overhead")
    with settings.applied({"max_autotune": True}):
        assert settings.tune
    assert not settings.tune
