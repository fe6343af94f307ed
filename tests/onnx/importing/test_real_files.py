"""Files from PyPI give what ONNX Runtime gives, train, and are written again. RUSHLIGHT_ONNX_FILES names a folder
with them (`python -m benchmarks.onnx` says which wheels they come in)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import rushlight as torch

FILES = sorted(Path(os.environ.get("RUSHLIGHT_ONNX_FILES", os.devnull)).rglob("*.onnx"))
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not FILES, reason="RUSHLIGHT_ONNX_FILES names no folder with files")]
LEAST = {"common_old": 2e-2, "det_infer": 5e-2, "nmp": 2e-3}      # quantized; results near 0; the runtime's float32


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_results_are_the_runtimes(path):
    runtime = pytest.importorskip("onnxruntime")
    np = pytest.importorskip("numpy")
    from benchmarks.onnx import inputs_of

    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    feeds = inputs_of(session, path.name)
    bound = next((b for part, b in LEAST.items() if part in path.name), 1e-4)
    for got, want in zip(torch.onnx.run(path, feeds), session.run(None, feeds), strict=True):
        assert got.shape == want.shape
        if want.size:
            assert np.abs(got.numpy().astype(np.float64) - want).max() <= bound * np.abs(want).max() + 1e-9
