"""Copies that put dims in another order, joined tensors, gathers of many elements: by a CPU that has the schedules of
a GPU, by NumPy in lockstep, and on a card where there is one."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import rushlight as rl
from rushlight.codegen.nvptx.transpose import tiles, transposing
from rushlight.codegen.schedule.gpu import items
from rushlight.devices import register
from tests.devices.reference_device import ReferenceDevice

from . import lockstep
from .test_written_kernels import accepted

pytestmark = pytest.mark.share(2)   # of each test that has several cases

DEVICE = ReferenceDevice("moveform")
DEVICE.scheduler = "gpu"
register(DEVICE)
on_card = pytest.mark.skipif(not rl.cuda.is_available(), reason="needs a CUDA device")
PLACES = ["moveform", pytest.param("cuda", marks=on_card)]
MOVES = {
    "transposed": lambda x: x.transpose(-1, -2).contiguous(),
    "channels_last": lambda x: x.contiguous(memory_format=rl.channels_last),
    "back": lambda x: x.contiguous(memory_format=rl.channels_last).contiguous(),
    "permuted": lambda x: x.permute(3, 1, 0, 2).contiguous(),
    "flipped": lambda x: x.flip(2).permute(0, 2, 1, 3).clone(),
    "pixel_shuffle": lambda x: rl.nn.functional.pixel_shuffle(x, 2), "cat": lambda x: rl.cat([x, x.mT.mT, x + 1], 1),
    "cat of transposed": lambda x: rl.cat([x.mT, x.mT + 1], 3), "half": lambda x: x.transpose(1, 3).half(),
    "padded": lambda x: rl.nn.functional.pad(x, (1, 2, 0, 1)), "tril": lambda x: x.tril(1),
    "reflected": lambda x: rl.nn.functional.pad(x, (2, 1, 1, 1), mode="reflect"),
    "unfold": lambda x: rl.nn.functional.unfold(x.float() if x.itemsize != 2 else x, 3, padding=1),
    "rows": lambda x: x.index_select(2, rl.arange(x.shape[2], device=x.device) * 7 % x.shape[2]),
    "indexed": lambda x: x[:, rl.tensor([3, -1, 0], device=x.device)], "many": lambda x: rl.stack([x[0]] * 70),
}


@pytest.mark.share(2)
@pytest.mark.parametrize("device", PLACES)
@pytest.mark.parametrize("each", [1, 4])
@pytest.mark.parametrize("name", MOVES)
def test_elements_move_as_on_the_cpu(name, each, device, monkeypatch):
    monkeypatch.setattr(items, "MANY", 1 if each > 1 else 1 << 40)
    shape = (3, 8, 20 + each, 18)      # other plans than those that are kept of the other number
    for dtype in (rl.float32, rl.int64, rl.bool):
        x = (rl.arange(3 * 8 * shape[2] * 18) * 7919 % 1013).reshape(shape).to(dtype)
        want, got = MOVES[name](x), MOVES[name](x.to(device))
        assert got.stride() == want.stride() and (got.cpu() == want).all()


@pytest.mark.parametrize("device", PLACES)
def test_indices_beyond_the_end_are_refused_where_threads_have_several(device, monkeypatch):
    monkeypatch.setattr(items, "MANY", 1)
    x = rl.arange(60.0).reshape(20, 3).to(device)
    for bad in (20, -21):
        with pytest.raises((IndexError, RuntimeError), match="out of"):
            x[rl.tensor([*range(19), bad], device=device)].cpu()
            if device == "cuda":
                rl.cuda.synchronize()


@pytest.mark.parametrize("size", [1, 2, 4, 8])
@pytest.mark.parametrize("batch, rows, cols", [(1, 64, 64), (2, 70, 33), (3, 16, 130)])
def test_rows_become_columns(batch, rows, cols, size):
    rng = np.random.default_rng(rows)
    x = rng.integers(0, 250, (batch, rows, cols)).astype(f"u{size}")
    result = np.zeros((batch, cols, rows), x.dtype)
    params = [rows, cols, cols, rows, rows * cols, rows * cols, tiles(rows), tiles(cols)]
    memory = [x.reshape(-1).view(np.uint8), result.reshape(-1).view(np.uint8)]
    lockstep.run(transposing(size), batch * tiles(rows) * tiles(cols), memory, params)
    assert (result == x.transpose(0, 2, 1)).all()


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not installed")
@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_ptxas_accepts(size, tmp_path):
    accepted(transposing(size).text(), tmp_path / "kernel.ptx")
