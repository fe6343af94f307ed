"""Forms of convolutions that processors with long vectors choose: LLVM splits vectors that this one does not have, so
every form runs everywhere. Results and gradients are compared with sums in float64."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import rushlight.codegen.library.interface as interface
interface.vector_bits = lambda: BITS
import rushlight as rl
import rushlight.planners.convolutions.convolve as planner
import rushlight.planners.convolutions.lanes as lanes
import rushlight.planners.convolutions.tiles as tiles
planner.vector_bits = interface.vector_bits
lanes.NARROW = lanes.NARROW_STRIDED = dict.fromkeys((4, 8, 16), 1 << 20)
tiles.FEW_WEIGHTS = tiles.LEAST = 0
planned = set()

def watch(name):
    made = getattr(planner, name)

    def watched(*args):
        steps = made(*args)
        if steps is not None:
            planned.add(name)
        return steps

    setattr(planner, name, watched)

for name in ("points_steps", "lanes_step", "lanes_weight_step", "tile_steps", "few_outs_steps", "weight_dot_steps"):
    watch(name)

def compared(form, images, channels, size, outs, kernel, stride=1, padding=0, groups=1, dilation=1, bias=False):
    rl.manual_seed(images + channels)
    height, width = size if isinstance(size, tuple) else (size, size)
    made = [rl.randn(images, channels, height, width), rl.randn(outs, channels // groups, kernel, kernel)]
    made += [rl.randn(outs)] if bias else []
    planned.clear()
    found = []
    for dtype in (rl.float32, rl.float64):
        x, w, *b = (t.to(dtype).requires_grad_() for t in made)
        y = rl.nn.functional.conv2d(x, w, *(b or [None]), stride, padding, dilation, groups)
        rl.manual_seed(1)
        g = rl.randn(y.shape).to(dtype)
        found.append([y, *rl.autograd.grad(y, (x, w), g)])
    assert planned >= set(form.split()), (form, planned)
    for mine, exact in zip(*found):
        error = (mine.to(rl.float64) - exact).abs().max() / exact.abs().max()
        assert error < 3e-6, (form, channels, size, outs, float(error))
"""

POINTS = """
compared("points_steps", 2, 24, 20, 72, 1)
compared("points_steps", 1, 16, 28, 16, 1, bias=True)
compared("points_steps", 1, 200, 7, 48, 1, bias=True)      # more channels than are summed one after the other
compared("points_steps", 1, 30, (5, 9), 13, 1, bias=True)  # outputs and pixels that fill no tiles
compared("points_steps", 1, 12, 4, 24, 1)
compared("points_steps weight_dot_steps", 2, 24, 28, 16, 1)
compared("few_outs_steps", 1, 64, 64, 2, 1)
compared("few_outs_steps", 3, 64, 64, 2, 1)
"""

LANES = """
form = "lanes_step lanes_weight_step"
compared(form, 2, 20, 7, 20, 5, 1, 2, 20, bias=True)
compared(form, 2, 33, 14, 33, 3, 1, 1, 33)
compared(form, 1, 16, (14, 15), 16, 5, 2, 2, 16)
compared(form, 1, 17, (29, 31), 17, 3, 1, 2, 17, dilation=2)
compared(form, 1, 18, 57, 18, 5, 2, 2, 18)               # blocks of rows
"""

TILES = """
compared("tile_steps", 3, 16, 8, 24, 3, 1, 1)                # several images in a vector of tiles
compared("tile_steps", 20, 20, 4, 16, 3, 1, 1, bias=True)
compared("tile_steps", 2, 17, (33, 35), 33, 3, 1, 1)
compared("tile_steps", 5, 16, 7, 16, 3, 1, 1)
compared("tile_steps", 4, 18, (5, 13), 18, 3)
compared("tile_steps", 1, 32, (36, 70), 16, 3, 1, 2)
"""


@pytest.mark.share(3)
@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("cases", [POINTS, LANES, TILES], ids=["points", "lanes", "tiles"])
def test_every_width_of_vectors(cases: str, bits: int, tmp_path: Path) -> None:
    if cases is POINTS and bits == 128:
        pytest.skip("short vectors pack pixels, or multiply them as matrices")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("BITS", str(bits)) + cases],
        env={**os.environ, "RUSHLIGHT_CACHE": str(tmp_path)},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
