"""Settings of the inductor: they change what is compiled, never what it computes."""

from __future__ import annotations

import glob
import os
import warnings

import pytest

import rushlight as rl
from rushlight import nn
from rushlight._inductor import config, list_options
from rushlight.inductor import settings
from tests.inductor.harness import check, kernels


def chain(x: rl.Tensor) -> rl.Tensor:
    return (x.exp() + 1).log().tanh() * 2


def test_without_fusion_every_op_has_its_kernel() -> None:
    assert len(kernels(check(chain, rl.randn(8, 32)))) == 1
    with settings.applied({"fuse": False}):
        assert len(kernels(check(chain, rl.randn(8, 32)))) == 5


def test_kernels_hold_as_many_ops_as_are_wanted() -> None:
    with settings.applied({"most_fused": 2}):
        assert len(kernels(check(chain, rl.randn(8, 32)))) == 3
    assert settings.most_fused == 64


def test_options_are_for_one_function() -> None:
    x = rl.randn(4, 8)
    compiled = rl.compile(chain, options={"max_fusion_size": 1})
    rl.testing.assert_close(compiled(x), chain(x))
    assert settings.most_fused == 64


@pytest.mark.parametrize("options", [{"fuze": True}, {"most_fused": 0}, {"fuse": 3}, {"debug_folder": True}])
def test_unknown_and_wrong_options_are_refused(options: dict) -> None:
    with pytest.raises(RuntimeError, match=next(iter(options))):
        rl.compile(chain, options=options)      # said at once, not at the first call


def test_names_of_pytorch() -> None:
    assert config.max_fusion_size == settings.most_fused
    with config.patch(freezing=True, max_fusion_size=7):
        assert (settings.freeze, settings.most_fused) == (True, 7)
    assert (settings.freeze, settings.most_fused) == (False, 64)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        settings._said.discard("coordinate_descent_tuning")
        config.coordinate_descent_tuning = True
        config.triton.cudagraphs = False
    assert config.coordinate_descent_tuning is True
    assert any("no effect" in str(w.message) for w in said)
    with pytest.raises(AttributeError, match="no_such_thing"):
        config.no_such_thing = 1
    with pytest.raises(AttributeError, match="no_such_thing"):
        config.no_such_thing  # noqa: B018
    assert "fuse" in list_options()


def test_the_debug_folder_says_what_was_fused_and_why_not(tmp_path) -> None:
    model = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.LayerNorm(96), nn.Linear(96, 10))
    compiled = rl.compile(model, options={"debug_folder": str(tmp_path)})
    x = rl.randn(16, 64)
    for _ in range(2):
        rl.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-5)
    compiled(x).sum().backward()
    folders = sorted(glob.glob(os.path.join(tmp_path, "*")))
    assert len(folders) == 2
    for folder in folders:
        page = open(os.path.join(folder, "page.html"), encoding="utf-8").read()
        assert "gelu" in page and "Not fused" in page and "class=why" in page
        times = open(os.path.join(folder, "kernels.tsv"), encoding="utf-8").read().splitlines()
        assert times and all(int(line.split("\t")[0]) >= 0 for line in times)
        assert "linear" in open(os.path.join(folder, "graph.py"), encoding="utf-8").read() or "matmul" in page
